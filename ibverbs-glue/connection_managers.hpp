// SPDX-License-Identifier: BSD-3-Clause
//
// The two implementations of the seam, and what they share.
#pragma once

#include "ibverbs-glue/connection.hpp"

namespace sluice::glue {

// For every device that the kernel knows, RoCE, InfiniBand and iWARP, through librdmacm.
Result<std::unique_ptr<ConnectionService>> open_rdma_cm(const Context& context, const Address& local);

// Through libsluice. kNotSupported for any device but uroce's.
Result<std::unique_ptr<ConnectionService>> open_uroce_cm(const Context& context, const Address& local);

// What the messages of InfiniBand's connection manager carry for the program.
inline constexpr PrivateDataLimits kInfinibandLimits{56, 196, 148};
// The reason that InfiniBand knows for a rejection by the program.
inline constexpr int kRejectedByConsumer = 28;

Result<void> check_private_data(std::span<const std::byte> private_data, std::size_t limit);

} // namespace sluice::glue
