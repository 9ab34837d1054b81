// SPDX-License-Identifier: BSD-3-Clause
//
// What stands before librdmacm: calls about its events.
#include <rdma/rdma_cma.h>

#include "layers/check/connections.hpp"
#include "layers/check/private_data.hpp"
#include "layers/hooks/next.hpp"

namespace check = sluice::layers::check;

using sluice::layers::hooks::Next;

extern "C" {
#pragma GCC visibility push(default)

int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
    static constinit Next<int(rdma_event_channel*, rdma_cm_event**)> real("rdma_get_cm_event");
    const int error = real.call(-1, channel, event);
    if (error == 0) {
        const check::Place place = check::here();
        check::take_connection_event(**event, place);
        check::private_data::give(**event, place);
    }
    return error;
}

int rdma_ack_cm_event(rdma_cm_event* event) {
    static constinit Next<int(rdma_cm_event*)> real("rdma_ack_cm_event");
    if (event != nullptr) {
        check::forget_connection_event(*event); // it is freed by the call
        check::private_data::take_back(*event, check::here());
    }
    return real.call(-1, event);
}

int rdma_destroy_id(rdma_cm_id* id) {
    static constinit Next<int(rdma_cm_id*)> real("rdma_destroy_id");
    check::check_end(id, check::here());
    return real.call(-1, id);
}

#pragma GCC visibility pop
} // extern "C"
