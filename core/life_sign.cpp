// SPDX-License-Identifier: BSD-3-Clause
#include "core/life_sign.hpp"

#include <sys/syscall.h>
#include <unistd.h>

namespace sluice {

bool LifeSign::begin() noexcept {
    entry_.next = &list_.list;
    list_.list.next = &entry_;
    list_.futex_offset =
        static_cast<long>(reinterpret_cast<std::intptr_t>(&word_) - reinterpret_cast<std::intptr_t>(&entry_));
    list_.list_op_pending = nullptr;
    if (syscall(SYS_set_robust_list, &list_, sizeof list_) != 0) {
        return false;
    }
    word_.store(static_cast<std::uint32_t>(gettid()),
                std::memory_order_release); // partner: PeerBoard::lives()
    return true;
}

void LifeSign::end() noexcept {
    word_.store(0, std::memory_order_release);
    list_.list.next = &list_.list;
    (void)syscall(SYS_set_robust_list, nullptr, sizeof list_);
}

} // namespace sluice
