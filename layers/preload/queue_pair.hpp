// SPDX-License-Identifier: BSD-3-Clause
//
// Queues of ids that are uroce's.
#pragma once

#include "layers/preload/id.hpp"

namespace sluice::layers::preload {

// With completion queues made for those that ATTRIBUTES leaves out, in INIT; a datagram's is ready.
Result<void> create_queue_pair(Id& id, ibv_qp_init_attr_ex& attributes);
// The same in the plain call's words.
Result<void> create_queue_pair(Id& id, ibv_pd* domain, ibv_qp_init_attr& attributes);
void destroy_queue_pair(Id& id) noexcept;

Result<void> create_shared_queue(Id& id, ibv_pd* domain, ibv_srq_init_attr& attributes);
Result<void> create_shared_queue(Id& id, const ibv_srq_init_attr_ex& attributes);
void destroy_shared_queue(Id& id) noexcept;

// The attributes of a transition to ATTR.qp_state, and which they are.
Result<void> queue_pair_attributes(Id& id, ibv_qp_attr& attr, int& mask);

// Nothing for an id without a queue pair. TO is INIT, RTR or RTS.
Result<void> move_to(Id& id, ibv_qp_state to);
Result<void> move_to_error(Id& id);

} // namespace sluice::layers::preload
