// SPDX-License-Identifier: BSD-3-Clause
//
// The façade of libsluice: every function of <sluice/sluice.h>, in header order. Each checks its
// arguments, makes one call and converts the result, and does nothing else.
#include "sluice/sluice.h"

#include <cerrno>

#include "core/boundary.hpp"
#include "core/log.hpp"
#include "sluice/version.hpp"

using sluice::at_boundary;
using sluice::LogLevel;

namespace {

int to_errno(const sluice::Result<void>& result) noexcept {
    return result ? 0 : result.error().to_errno();
}

static_assert(SLUICE_LOG_NONE == static_cast<int>(LogLevel::kNone));
static_assert(SLUICE_LOG_ERROR == static_cast<int>(LogLevel::kError));
static_assert(SLUICE_LOG_WARNING == static_cast<int>(LogLevel::kWarning));
static_assert(SLUICE_LOG_INFO == static_cast<int>(LogLevel::kInfo));
static_assert(SLUICE_LOG_DEBUG == static_cast<int>(LogLevel::kDebug));
static_assert(SLUICE_LOG_TRACE == static_cast<int>(LogLevel::kTrace));

} // namespace

extern "C" {

const char* sluice_version(void) {
    return sluice::kVersion;
}

void sluice_set_log_sink(sluice_log_sink sink, void* context) {
    sluice::set_log_sink(sink, context);
}

int sluice_set_log_levels(const char* levels) {
    if (levels == nullptr) {
        return EINVAL;
    }
    return to_errno(
        at_boundary("sluice_set_log_levels", [levels] { return sluice::set_log_levels(levels); }));
}

} // extern "C"
