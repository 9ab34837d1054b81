// SPDX-License-Identifier: BSD-3-Clause
//
// What calls that keep memory coherent count. A line counts each time that it is issued.
#pragma once

#include "core/count.hpp"

namespace sluice {

struct SyncCounts {
    Count before_device_reads; // calls that were done
    Count after_device_wrote;
    Count refused; // calls that were not
    Count lines_cleaned;
    Count lines_invalidated;
};

} // namespace sluice
