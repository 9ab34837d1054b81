// SPDX-License-Identifier: BSD-3-Clause
//
// Ours in the place of a device's functions: where a context is opened, and where an object is made that has
// some of its own.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>

namespace sluice::layers::trace {

// Does nothing to a context that has ours already.
void take_over(ibv_context* context) noexcept;

void take_over(ibv_qp* made) noexcept; // one that was made with send_ops_flags
void take_over(ibv_cq_ex* made) noexcept;

// A queue pair was made, by whichever call.
void take_pair(ibv_qp* made, ibv_qp_type type, bool signals_all, const ibv_srq* shared) noexcept;

// A flush is among the requests that are built.
void record_flush(ibv_qp_ex* qp, std::size_t bytes) noexcept;

// Requests of an object of this context can't be seen.
void tell_unseen(const ibv_context* context) noexcept;

} // namespace sluice::layers::trace
