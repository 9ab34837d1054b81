// SPDX-License-Identifier: BSD-3-Clause
//
// Connecting ids that are uroce's, and what becomes of that. Queue pairs are led here, as librdmacm does: by
// the calls, and when the program takes an event; its queue pair may be gone before its id.
#pragma once

#include "layers/preload/id.hpp"

namespace sluice::preload {

Result<void> connect(Id& id, const rdma_conn_param* wanted);
Result<void> accept(Id& id, const rdma_conn_param* wanted);
Result<void> reject(Id& id, const void* private_data, std::uint8_t bytes);
Result<void> disconnect(Id& id);
Result<void> establish(Id& id);
Result<void> notify(Id& id, ibv_event_type event);
Result<rdma_cm_id*> get_request(Id& listener);

Result<void> queue_pair_attributes(Id& id, ibv_qp_attr& attr, int& mask);
Result<void> set_option(Id& id, int level, int name, const void* value, std::size_t bytes);

// EVENT as the program gets it, with its queue pair led; null if it means nothing any more.
Result<std::unique_ptr<Event>> translate(sluice_cm_event* event);

} // namespace sluice::preload
