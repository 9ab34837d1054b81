// SPDX-License-Identifier: BSD-3-Clause
//
// Completion counters as rdma-core 65 declares them in <infiniband/verbs.h>, for builds against an older one.
#pragma once

#include <cstdint>

struct ibv_context;

namespace sluice::abi {

// Bits of AttachCompCntrAttr::op_mask.
constexpr std::uint32_t kCountSend = 1U << 0;
constexpr std::uint32_t kCountRecv = 1U << 1;
constexpr std::uint32_t kCountRead = 1U << 2;
constexpr std::uint32_t kCountRemoteRead = 1U << 3;
constexpr std::uint32_t kCountWrite = 1U << 4;
constexpr std::uint32_t kCountRemoteWrite = 1U << 5;

struct CompCntrCaps {
    std::uint64_t max_value;
    std::uint32_t max_counters;
    std::uint32_t supported_qp_attach_ops;
};

struct CompCntr {
    ibv_context* context;
    std::uint32_t handle;
};

constexpr std::uint32_t kCompCntrWrs = 0;
constexpr std::uint32_t kCompCntrBytes = 1;

struct CompCntrInitAttr {
    std::uint32_t comp_mask;
    std::uint32_t type;
    std::uint32_t flags;
};

struct AttachCompCntrAttr {
    std::uint32_t comp_mask;
    std::uint32_t op_mask;
};

static_assert(sizeof(CompCntrCaps) == 16 && sizeof(CompCntrInitAttr) == 12 &&
              sizeof(AttachCompCntrAttr) == 8);

} // namespace sluice::abi
