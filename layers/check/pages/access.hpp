// SPDX-License-Identifier: BSD-3-Clause
//
// Whether a fault was a load or a store. Each architecture that tells has a file.
#pragma once

#include <ucontext.h>

#include "layers/check/pages/protection.hpp"

namespace sluice::layers::check::pages {

// In a fault's handler.
Access access_of_fault(const ucontext_t& context) noexcept;

} // namespace sluice::layers::check::pages
