// SPDX-License-Identifier: BSD-3-Clause
//
// Elements of rxe's send and receive rings, and how work requests become them.
//
// Everything here looks at its arguments first and writes afterwards, so that a refused request
// leaves no trace. Only what the kernel reads is written: an element holds what its last user
// left in the other fields.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_user_rxe.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/verbs_values.hpp"
#include "provider/common/number_of.hpp"
#include "provider/common/total_length.hpp"

namespace sluice::provider::rxe {

struct FlushRequest {
    std::uint64_t remote_addr;
    std::uint32_t length;
    std::uint32_t rkey;
    std::uint8_t type;
    std::uint8_t level;
};
static_assert(sizeof(rxe_send_wr) == 144 && sizeof(FlushRequest) <= sizeof(rxe_send_wr::wr));

// The data of an element follows its fixed part. The kernel's header declares it in a way that
// C++ lays out differently from C, so that neither those members nor sizeof may be used.
constexpr std::size_t kDataInfoBytes = offsetof(rxe_dma_info, reserved) + sizeof(rxe_dma_info::reserved);
constexpr std::size_t kSendHeaderBytes = offsetof(rxe_send_wqe, dma) + kDataInfoBytes;
constexpr std::size_t kRecvHeaderBytes = offsetof(rxe_recv_wqe, dma) + kDataInfoBytes;
inline std::uint8_t* data_behind(rxe_dma_info& dma) noexcept {
    return reinterpret_cast<std::uint8_t*>(&dma) + kDataInfoBytes;
}
static_assert(kSendHeaderBytes == 208 && kRecvHeaderBytes == 40);
static_assert(sizeof(rxe_sge) == sizeof(ibv_sge));

constexpr unsigned kSendFlags = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;

constexpr std::uint32_t op_bit(std::uint32_t opcode) {
    return 1U << opcode;
}
constexpr std::uint32_t kSendOps =
    op_bit(IBV_WR_SEND) | op_bit(IBV_WR_SEND_WITH_IMM) | op_bit(IBV_WR_SEND_WITH_INV);
constexpr std::uint32_t kWriteOps = op_bit(IBV_WR_RDMA_WRITE) | op_bit(IBV_WR_RDMA_WRITE_WITH_IMM);
constexpr std::uint32_t kAtomicOps = op_bit(IBV_WR_ATOMIC_CMP_AND_SWP) | op_bit(IBV_WR_ATOMIC_FETCH_AND_ADD);
constexpr std::uint32_t kInlineOps = kSendOps | kWriteOps;
// Requests of a local place in memory, and perhaps a remote one.
constexpr std::uint32_t kPlainOps = kSendOps | kWriteOps | op_bit(IBV_WR_RDMA_READ);

// What a queue pair's send queue can do.
struct SendLimits {
    std::uint32_t ops;             // bits of op_bit()
    std::uint32_t plain_ops;       // those of them that fill_plain() can do
    std::uint32_t max_sge;         // scatter/gather elements that fit
    std::uint32_t max_inline_data; // bytes that fit
    bool datagram;                 // each request has a destination of its own
};

// The data part of an element, as the kernel wants it before it starts.
inline void start_data(rxe_dma_info& dma, std::uint32_t length, std::uint32_t num_sge) noexcept {
    dma.length = length;
    dma.resid = length;
    dma.cur_sge = 0;
    dma.num_sge = num_sge;
    dma.sge_offset = 0;
    dma.reserved = 0;
}

// The common head of a send element.
inline void start_send(rxe_send_wqe& wqe, std::uint64_t wr_id, std::uint32_t opcode,
                       std::uint32_t flags) noexcept {
    wqe.wr.wr_id = wr_id;
    wqe.wr.opcode = opcode;
    wqe.wr.send_flags = flags;
    wqe.wr.ex.imm_data = 0;
    wqe.status = 0;
    wqe.state = 0; // posted
    wqe.iova = 0;
    wqe.has_rd_atomic = 0;
    wqe.ssn = 0;
}

inline void copy_sges(rxe_dma_info& dma, const ibv_sge* list, std::uint32_t count) noexcept {
    std::uint8_t* to = data_behind(dma);
    for (std::uint32_t i = 0; i < count; ++i) {
        std::memcpy(to + i * sizeof(rxe_sge), &list[i], sizeof(rxe_sge));
    }
}

inline void copy_inline(rxe_dma_info& dma, const ibv_sge* list, std::uint32_t count) noexcept {
    std::uint8_t* to = data_behind(dma);
    for (std::uint32_t i = 0; i < count; ++i) {
        std::memcpy(to, reinterpret_cast<const void*>(static_cast<std::uintptr_t>(list[i].addr)),
                    list[i].length);
        to += list[i].length;
    }
}

} // namespace sluice::provider::rxe
