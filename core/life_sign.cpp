// SPDX-License-Identifier: BSD-3-Clause
#include "core/life_sign.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>

#include "core/robust_mutex.hpp"

namespace sluice {

namespace {

// User-mode emulation refuses this call, and that of the C library, which doesn't look at the answer.
bool kernel_has_list() noexcept {
    void* list = nullptr;
    std::size_t bytes = 0;
    return syscall(SYS_get_robust_list, 0, &list, &bytes) == 0 && list != nullptr;
}

} // namespace

bool LifeSign::begin() noexcept {
    if (!kernel_has_list() || !make_robust(mark_.mutex)) {
        return false;
    }
    std::atomic_thread_fence(std::memory_order_release); // partner: LifeMark::lives()
    has_begun_ = pthread_mutex_lock(&mark_.mutex) == 0;
    return has_begun_;
}

void LifeSign::end() noexcept {
    if (has_begun_) {
        has_begun_ = false;
        (void)pthread_mutex_unlock(&mark_.mutex);
        (void)pthread_mutex_destroy(&mark_.mutex);
    }
}

} // namespace sluice
