// SPDX-License-Identifier: BSD-3-Clause
//
// Queues of ids that are uroce's.
#pragma once

#include "layers/preload/id.hpp"

namespace sluice::preload {

// With completion queues made for those that ATTRIBUTES leaves out, in INIT; a datagram's is ready.
Result<void> create_queue_pair(Id& id, ibv_qp_init_attr_ex& attributes);
// The same in the plain call's words.
Result<void> create_queue_pair(Id& id, ibv_pd* domain, ibv_qp_init_attr& attributes);
void destroy_queue_pair(Id& id) noexcept;

Result<void> create_shared_queue(Id& id, ibv_pd* domain, ibv_srq_init_attr& attributes);
Result<void> create_shared_queue(Id& id, const ibv_srq_init_attr_ex& attributes);
void destroy_shared_queue(Id& id) noexcept;

// Nothing for an id without a queue pair. TO is INIT, RTR or RTS.
Result<void> lead(Id& id, ibv_qp_state to);
Result<void> lead_to_error(Id& id);

} // namespace sluice::preload
