// SPDX-License-Identifier: BSD-3-Clause
//
// What a device can do with memory, besides being coherent with it or not.
#pragma once

#include "provider/attributes/coherence.hpp"

namespace sluice::attributes {

struct Capabilities {
    Finding relaxed_ordering;
    Finding no_snoop;
    Finding in_order_placement;
    Finding native_atomic_write;
    Finding flush;
    Finding on_demand_paging;
    Finding dma_bounce;
    Finding atomics;
    Finding max_sge;
    Finding max_inline;
};

Capabilities find_capabilities(const Inputs& inputs);

} // namespace sluice::attributes
