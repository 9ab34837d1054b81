// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/pages/access.hpp"

#include <asm/sigcontext.h>

#include <cstring>

namespace sluice::layers::check::pages {

// The syndrome register, in one of the records behind the registers: Arm ARM, "ESR_EL1", class 0x24 (a data
// abort from a lower level), bit WnR.
Access access_of_fault(const ucontext_t& context) noexcept {
    constexpr std::uint64_t kDataAbort = 0x24;
    constexpr std::uint64_t kWriteNotRead = 1U << 6;
    const auto* const records = reinterpret_cast<const unsigned char*>(context.uc_mcontext.__reserved);
    constexpr std::size_t kBytes = sizeof context.uc_mcontext.__reserved;
    _aarch64_ctx head{};
    for (std::size_t at = 0; at + sizeof(esr_context) <= kBytes; at += head.size) {
        std::memcpy(&head, records + at, sizeof head);
        if (head.magic == 0 || head.size == 0) {
            break;
        }
        if (head.magic == ESR_MAGIC) {
            esr_context record{};
            std::memcpy(&record, records + at, sizeof record);
            if (record.esr >> 26 != kDataAbort) {
                break;
            }
            return (record.esr & kWriteNotRead) != 0 ? Access::kStore : Access::kLoad;
        }
    }
    return Access::kUnknown;
}

} // namespace sluice::layers::check::pages
