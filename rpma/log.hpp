// SPDX-License-Identifier: BSD-3-Clause
//
// What librpma tells its user: messages with a level and a place, to syslog or to the program's own function.
// Core's log (SLUICE_LOG) is another matter: it is for what the layers below have to say.
//
// Thread safety: everything may be called from any thread.
#pragma once

#include "core/facade.hpp"
#include "rpma/codes.hpp"
#include "rpma/include/librpma.h"

namespace sluice::rpma {

// MESSAGE without a newline.
void log_message(rpma_log_level level, const Where& where, const char* message) noexcept;

// Why a call fails.
void log_error(const Error& error, const Where& where) noexcept;
// The same on a data path, where all that is known is an errno; always kRefused.
[[gnu::cold]] Answer log_refusal(int os_errno, const Where& where) noexcept;

// False for levels that there aren't.
bool set_log_threshold(rpma_log_threshold threshold, rpma_log_level level) noexcept;
rpma_log_level log_threshold(rpma_log_threshold threshold) noexcept;
void set_log_function(rpma_log_function* function) noexcept;

} // namespace sluice::rpma
