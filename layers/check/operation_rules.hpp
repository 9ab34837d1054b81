// SPDX-License-Identifier: BSD-3-Clause
//
// Rules about what a request asks its device to do, which only some queue pairs, regions or results allow.
//
// All with the queue's lock held, and noexcept: a finding that can't be told is left out.
#pragma once

#include "layers/check/objects.hpp"

namespace sluice::layers::check {

void check_inline_kind(const QueuePair& pair, Request& request) noexcept;
// BYTES: of its pieces.
void check_result(const QueuePair& pair, Request& request, std::size_t bytes) noexcept;
// A request without any may be there to see the end of others.
void check_refusal(const QueuePair& pair, Request& request, std::size_t bytes) noexcept;
void check_reads(const QueuePair& pair, Request& request) noexcept;
// Whether its region lets windows in. Without a region it closes.
void check_bind(const QueuePair& pair, Request& request, const ibv_mw_bind_info& how) noexcept;
void check_bind(const QueuePair& pair, const ibv_mw_bind_info& how, Place place) noexcept;

} // namespace sluice::layers::check
