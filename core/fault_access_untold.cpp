// SPDX-License-Identifier: BSD-3-Clause
#include "core/fault_access.hpp"

namespace sluice {

Access access_of_fault(const ucontext_t& /*context*/) noexcept {
    return Access::kUnknown;
}

} // namespace sluice
