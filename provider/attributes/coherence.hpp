// SPDX-License-Identifier: BSD-3-Clause
//
// Does a device snoop the CPU's caches? Linux decides that for each device when it binds the
// driver, and tells nobody. We find out as the kernel does, from the most reliable source to the
// least, and stop at the first that knows:
//
//   1. somebody said so: SLUICE_COHERENCE, then /etc/sluice/sluice.conf
//   2. Linux 7.0 or later registered memory for it, which it refuses when DMA isn't coherent
//   3. the architecture: all DMA is coherent on x86, s390x, 64-bit POWER servers and loongarch64
//   4. the device tree: the nearest dma-coherent or dma-noncoherent, at the device's node or
//      above it; where there is neither, arm64 means non-coherent and riscv64 coherent
//   5. a software device is the kernel's code, whose loads and stores are as coherent as ours
//   6. nobody knows. ACPI's _CCA is such a case: it is in AML, which only root can read and only
//      an interpreter understands
#pragma once

#include <optional>

#include "core/file_tree.hpp"
#include "provider/attributes/finding.hpp"
#include "provider/attributes/live_facts.hpp"
#include "provider/attributes/platform.hpp"
#include "provider/attributes/sysfs_device.hpp"

namespace sluice::attributes {

// What somebody said about a device, and where.
struct Overrides {
    std::optional<Finding> cpu;
    std::optional<Finding> io;
};

// All that there is to know before the questions are answered.
struct Inputs {
    const FileTree& tree;
    const Platform& platform;
    const SysfsDevice& device;
    const LiveFacts* live; // null when the device could not be opened
    const Overrides& overrides;
};

Finding find_cpu_coherence(const Inputs& inputs);

// Caches on the device's side of the bridge, which no instruction of the CPU reaches.
Finding find_io_coherence(const Inputs& inputs);

} // namespace sluice::attributes
