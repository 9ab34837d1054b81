// SPDX-License-Identifier: BSD-3-Clause
//
// The calls that connect ids of uroce. As in librdmacm, these calls move the queue pair to its next state;
// the other transitions happen when the program takes an event (events.hpp). A queue pair may be destroyed
// before its id.
#pragma once

#include "layers/preload/id.hpp"

namespace sluice::layers::preload {

Result<void> connect(Id& id, const rdma_conn_param* wanted);
Result<void> accept(Id& id, const rdma_conn_param* wanted);
Result<void> reject(Id& id, const void* private_data, std::uint8_t bytes);
Result<void> disconnect(Id& id);
Result<void> establish(Id& id);
Result<void> notify(Id& id, ibv_event_type event);
Result<rdma_cm_id*> get_request(Id& listener);

Result<void> set_option(Id& id, int level, int name, const void* value, std::size_t bytes);

} // namespace sluice::layers::preload
