// SPDX-License-Identifier: BSD-3-Clause
//
// The functions behind ibv_wr_*, and where libibverbs looks for them in a queue pair.
#pragma once

#include "provider/abi/layout.hpp"

namespace sluice::provider {

// Younger than the headers that we may be compiled with.
constexpr std::uint64_t kQpExWithFlush = 1ULL << 11;
constexpr std::uint64_t kQpExWithAtomicWrite = 1ULL << 12;

using FlushFunction = void(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_addr,
                           std::size_t len_bytes, std::uint8_t type, std::uint8_t level);

// A queue pair of ours, of whatever device.
struct WrQueuePair : abi::VerbsQp {
    FlushFunction* flush =
        nullptr; // of one made with that operation, also where libibverbs has no place for it
};

// What a device lacks is null.
struct WrFunctions {
    decltype(ibv_qp_ex::wr_atomic_cmp_swp) atomic_cmp_swp = nullptr;
    decltype(ibv_qp_ex::wr_atomic_fetch_add) atomic_fetch_add = nullptr;
    decltype(ibv_qp_ex::wr_bind_mw) bind_mw = nullptr;
    decltype(ibv_qp_ex::wr_local_inv) local_inv = nullptr;
    decltype(ibv_qp_ex::wr_rdma_read) rdma_read = nullptr;
    decltype(ibv_qp_ex::wr_rdma_write) rdma_write = nullptr;
    decltype(ibv_qp_ex::wr_rdma_write_imm) rdma_write_imm = nullptr;
    decltype(ibv_qp_ex::wr_send) send = nullptr;
    decltype(ibv_qp_ex::wr_send_imm) send_imm = nullptr;
    decltype(ibv_qp_ex::wr_send_inv) send_inv = nullptr;
    decltype(ibv_qp_ex::wr_set_ud_addr) set_ud_addr = nullptr;
    decltype(ibv_qp_ex::wr_set_xrc_srqn) set_xrc_srqn = nullptr;
    decltype(ibv_qp_ex::wr_set_inline_data) set_inline_data = nullptr;
    decltype(ibv_qp_ex::wr_set_inline_data_list) set_inline_data_list = nullptr;
    decltype(ibv_qp_ex::wr_set_sge) set_sge = nullptr;
    decltype(ibv_qp_ex::wr_set_sge_list) set_sge_list = nullptr;
    decltype(ibv_qp_ex::wr_start) start = nullptr;
    decltype(ibv_qp_ex::wr_complete) complete = nullptr;
    decltype(ibv_qp_ex::wr_abort) abort = nullptr;
    void (*atomic_write)(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_addr,
                         const void* value) = nullptr;
    FlushFunction* flush = nullptr;
};

// Makes QP an extended one, for the operations of SEND_OPS_FLAGS.
void set_wr_functions(WrQueuePair& qp, std::uint64_t send_ops_flags, const WrFunctions& functions) noexcept;

} // namespace sluice::provider
