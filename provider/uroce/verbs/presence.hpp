// SPDX-License-Identifier: BSD-3-Clause
//
// Which devices without a kernel can be opened here, for listing: nothing is opened.
#pragma once

#include "core/result.hpp"
#include "sluice/sluice.h"

namespace sluice::uroce::verbs {

// The device at INDEX of named_addresses(); kNotFound behind the last.
Result<sluice_uroce_device> describe_device(unsigned index);

} // namespace sluice::uroce::verbs
