// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/object.hpp"

#include <pthread.h>

namespace sluice::dapl {

constinit HandleTable all_handles;

namespace {

// The child of a fork has none of the parent's threads, and shares its descriptors: what it closed would be
// the parent's, too. So it has none of its objects.
[[gnu::constructor]] void forget_handles_in_children() noexcept {
    pthread_atfork([] { all_handles.before_fork(); }, [] { all_handles.after_fork_in_parent(); },
                   [] { all_handles.after_fork_in_child(); });
}

} // namespace

} // namespace sluice::dapl
