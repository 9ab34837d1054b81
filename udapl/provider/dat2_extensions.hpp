// SPDX-License-Identifier: BSD-3-Clause
//
// OpenFabrics' extensions of DAT 2.0.
#pragma once

#include <dat/dat_registry.h>

namespace sluice::dapl {

// What dat_extension_op() does: immediate data and atomics. DAT_NOT_IMPLEMENTED for everything else.
DAT_RETURN extended_operation(DAT_HANDLE handle, int operation, va_list arguments);

} // namespace sluice::dapl
