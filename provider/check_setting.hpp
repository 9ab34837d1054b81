// SPDX-License-Identifier: BSD-3-Clause
//
// Each variable's value is parsed by the part that uses it. This asks that part.
#pragma once

#include "core/result.hpp"
#include "core/settings.hpp"

namespace sluice::provider {

// Whether the code that reads SETTING understands TEXT. Not known of SLUICE_SYNC_HOST, which another library
// reads. Changes nothing. Thread safety: anything.
Result<void> check_setting(Setting setting, const char* text);

} // namespace sluice::provider
