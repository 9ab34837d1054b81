// SPDX-License-Identifier: BSD-3-Clause
//
// Whether memory survives a loss of power once it is written back from the CPU's caches. Of which files that
// is true libpmem2 knows, which is loaded when it is first needed, and which nobody has to have.
//
// Thread safety: everything may be called from any thread.
#pragma once

#include <cstddef>

#include "core/result.hpp"

namespace sluice::rpma {

// False for memory of this process' own, for files of ordinary file systems, and for those of persistent
// memory that aren't mapped with MAP_SYNC. kInvalidArgument: not all of it is mapped. kNotSupported: it may
// be, but libpmem2 isn't there to tell.
Result<bool> is_persistent(const void* address, std::size_t size);

} // namespace sluice::rpma
