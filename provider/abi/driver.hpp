// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace sluice::abi {

// Kernel drivers that we can drive, by the numbers of the kernel's enum rdma_driver_id.
enum class Driver : std::uint32_t {
    kRxe = 14,
    kSiw = 18,
};

} // namespace sluice::abi
