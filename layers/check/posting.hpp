// SPDX-License-Identifier: BSD-3-Clause
//
// Requests as they are posted: what is known of each is kept, and rules that need nothing else are applied.
//
// All with the queue pair's lock held, or the shared receive queue's.
#pragma once

#include "layers/check/objects.hpp"

namespace sluice::layers::check {

// Keeps a request that is about to be posted at PLACE.
void prepare_send(QueuePair& pair, const ibv_send_wr& posted, Place place) noexcept;
void prepare_receive(QueuePair& pair, const ibv_recv_wr& posted, Place place) noexcept;
void prepare_receive(SharedQueue& queue, const ibv_recv_wr& posted, Place place) noexcept;

// The youngest COUNT of them weren't accepted, for ERROR.
void take_back_sends(QueuePair& pair, std::size_t count, int error) noexcept;
// They were given up by the program.
void take_back_sends(QueuePair& pair, std::size_t count) noexcept;
void take_back_receives(QueuePair& pair, std::size_t count, int error) noexcept;
void take_back_receives(SharedQueue& queue, std::size_t count, int error) noexcept;

// In parts, as libibverbs' newer calls post: a request, then what it sends or where to.
struct SendParts {
    ibv_wr_opcode opcode = IBV_WR_SEND;
    std::uint64_t id = 0;
    unsigned flags = 0;
    std::uint64_t remote_address = 0;
    std::uint32_t remote_key = 0;
    const ibv_ah* address_handle = nullptr;
    std::uint32_t remote_number = 0; // of the queue pair there
    std::uint32_t remote_q_key = 0;
    const ibv_sge* pieces = nullptr;
    std::size_t count = 0;
    std::size_t inline_bytes = 0; // where data was given without pieces
    const ibv_mw_bind_info* bind = nullptr;
};
void prepare_send(QueuePair& pair, const SendParts& parts, Place place) noexcept;
SendParts parts_of(const QueuePair& pair, const ibv_send_wr& posted) noexcept;

} // namespace sluice::layers::check
