// SPDX-License-Identifier: BSD-3-Clause
#include "core/not_cancelled.hpp"

#include <pthread.h>

namespace sluice {

NotCancelled::NotCancelled() noexcept {
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_);
}

NotCancelled::~NotCancelled() {
    (void)pthread_setcancelstate(before_, nullptr);
}

} // namespace sluice
