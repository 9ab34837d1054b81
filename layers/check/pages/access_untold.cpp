// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/pages/access.hpp"

namespace sluice::layers::check::pages {

Access access_of_fault(const ucontext_t& /*context*/) noexcept {
    return Access::kUnknown;
}

} // namespace sluice::layers::check::pages
