// SPDX-License-Identifier: BSD-3-Clause
//
// What this CPU offers to programs that must keep caches and memory in step.
#pragma once

#include <cstdint>
#include <string>

#include "core/file_tree.hpp"
#include "provider/attributes/finding.hpp"

namespace sluice::attributes {

struct CpuCache {
    TextFinding clean;
    TextFinding invalidate;
    Finding line_bytes;
    Finding granule_bytes;
};

// The instructions and sizes that the coherence engine uses on this machine; of a recorded one
// only what its /sys tells.
CpuCache find_cpu_cache(const FileTree& tree);

} // namespace sluice::attributes
