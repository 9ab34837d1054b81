// SPDX-License-Identifier: BSD-3-Clause
//
// The flush operation, whose function in struct ibv_qp_ex is younger than some libibverbs that we
// run with.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace sluice::provider {

struct FlushRange {
    std::uint32_t rkey;
    std::uint64_t remote_addr;
    std::size_t len_bytes;
    std::uint8_t type;
    std::uint8_t level;
};

// Adds a flush to the requests that are being built on QP, of any provider. EOPNOTSUPP, with
// nothing added, if it wasn't made for that.
int wr_flush(ibv_qp_ex* qp, const FlushRange& range) noexcept;

} // namespace sluice::provider
