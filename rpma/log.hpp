// SPDX-License-Identifier: BSD-3-Clause
//
// What librpma tells its user: messages with a level and a place, to syslog or to the program's own function.
// Core's log (SLUICE_LOG) is another matter: it is for what the layers below have to say.
//
// Thread safety: everything may be called from any thread.
#pragma once

#include "core/result.hpp"
#include "rpma/include/librpma.h"

namespace sluice::rpma {

// A default argument of this type is the caller's place.
struct Where {
    // NOLINTNEXTLINE(google-explicit-constructor): `Where where = {}` is the point
    Where(const char* its_file = __builtin_FILE(), int its_line = __builtin_LINE(),
          const char* its_function = __builtin_FUNCTION()) noexcept
        : file(its_file), line(its_line), function(its_function) {}

    const char* file;
    int line;
    const char* function;
};

// MESSAGE without a newline.
void log_message(rpma_log_level level, const Where& where, const char* message) noexcept;

// Why a call fails. The code that it gives.
int log_error(const Error& error, const Where& where) noexcept;
// The same on a data path, where all that is known is an errno; always RPMA_E_PROVIDER.
[[gnu::cold]] int log_refusal(int os_errno, const Where& where) noexcept;

// The code of an error: what the system or the device refused is RPMA_E_PROVIDER, whatever its reason was,
// but that there is no memory.
int code_of(const Error& error) noexcept;

// False for levels that there aren't.
bool set_log_threshold(rpma_log_threshold threshold, rpma_log_level level) noexcept;
rpma_log_level log_threshold(rpma_log_threshold threshold) noexcept;
void set_log_function(rpma_log_function* function) noexcept;

} // namespace sluice::rpma
