// SPDX-License-Identifier: BSD-3-Clause
//
// The functions of a device that libibverbs' inline functions call: ours are put in their place where a
// context is opened, and where an object is made that has some of its own.
#pragma once

#include "layers/check/objects.hpp"

namespace sluice::layers::check {

// Does nothing to a context that has ours already.
void take_over(ibv_context* context) noexcept;

void take_over(const std::shared_ptr<QueuePair>& pair) noexcept; // one that was made with send_ops_flags
void take_over(Queue& queue, ibv_cq_ex* made) noexcept;

// What was made, by whichever call.
void take_queue(ibv_cq* made, const ibv_cq_init_attr_ex* how, Place place) noexcept;
void take_pair(ibv_qp* made, const ibv_qp_init_attr_ex& how, Place place) noexcept;
void take_shared_queue(ibv_srq* made, std::uint32_t granted, const ibv_pd* pd, Place place) noexcept;

// Out of what was polled.
void look_at(Queue& queue, std::span<const ibv_wc> completions, Place place) noexcept;

} // namespace sluice::layers::check
