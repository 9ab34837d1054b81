// SPDX-License-Identifier: BSD-3-Clause
#include "sync/state.hpp"

namespace sluice::sync {

Result<const Ops*> machine_ops() {
    return coherence::native_ops();
}

} // namespace sluice::sync
