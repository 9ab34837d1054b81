// SPDX-License-Identifier: BSD-3-Clause
//
// Rules about a request that is posted, which need what is known of its queue.
//
// All with the queue's lock held, and noexcept: a finding that can't be told is left out.
#pragma once

#include "layers/check/piece_rules.hpp"

namespace sluice::layers::check {

void check_reclaim(QueuePair& pair, Request& request) noexcept;
void check_process(const QueuePair& pair, Request& request) noexcept;
void check_alignment(const QueuePair& pair, Request& request) noexcept;
void check_sent_before_read(const QueuePair& pair, Request& request, unsigned flags) noexcept;
void check_one_buffer(const Owner& owner, Requests& requests, Request& request) noexcept;
void check_failure(const QueuePair& pair, Request& request) noexcept;
void check_inline(const QueuePair& pair, Request& request, std::size_t bytes) noexcept;
void check_count(const QueuePair& pair, Request& request, std::size_t count, std::uint32_t granted) noexcept;

// The provider has refused it.
void check_full(const Owner& owner, const Request& request, std::uint32_t granted, Place made) noexcept;
void check_refused(const QueuePair& pair, const Request& request, int error, ibv_qp_state least) noexcept;

// Behind requests that were accepted.
void check_room(Queue& queue, Place place) noexcept;

} // namespace sluice::layers::check
