// SPDX-License-Identifier: BSD-3-Clause
#include "core/fault_access.hpp"

namespace sluice {

// The error code that the processor pushes: Intel's manual, volume 3, "Page-Fault Exception".
Access access_of_fault(const ucontext_t& context) noexcept {
    constexpr greg_t kWrite = 2;
    return (context.uc_mcontext.gregs[REG_ERR] & kWrite) != 0 ? Access::kStore : Access::kLoad;
}

} // namespace sluice
