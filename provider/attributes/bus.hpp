// SPDX-License-Identifier: BSD-3-Clause
//
// Where a device sits, and what stands between it and memory.
#pragma once

#include "provider/attributes/coherence.hpp"

namespace sluice::attributes {

struct Bus {
    TextFinding pci_address; // "none": it isn't a PCI function
    TextFinding pci_link;
    TextFinding iommu; // how it translates: "none", "identity", "DMA", "DMA-FQ"
    Finding iommu_group;
    Finding numa_node;
    Finding ats;
    Finding acs;
};

Bus find_bus(const Inputs& inputs);

} // namespace sluice::attributes
