// SPDX-License-Identifier: BSD-3-Clause
//
// The identifiers of DAT's return codes as texts. Programs compare them: they are part of the API.
#pragma once

#include <dat/udat.h>

namespace sluice::dat {

// Null for a number that is none.
const char* type_name(DAT_RETURN status) noexcept;
const char* subtype_name(DAT_RETURN status) noexcept;

} // namespace sluice::dat
