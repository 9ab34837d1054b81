// SPDX-License-Identifier: BSD-3-Clause
#include "layers/preload/events.hpp"

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "layers/preload/queue_pair.hpp"

namespace sluice::layers::preload {

namespace {

void fill_connection(rdma_conn_param& to, const sluice_cm_event& from) noexcept {
    to.private_data = from.private_data;
    to.private_data_len = static_cast<std::uint8_t>(from.private_data_len);
    to.responder_resources = from.responder_resources;
    to.initiator_depth = from.initiator_depth;
    to.flow_control = from.flow_control;
    to.retry_count = from.retry_count;
    to.rnr_retry_count = from.rnr_retry_count;
    to.srq = from.srq;
    to.qp_num = from.qp_num;
}

void fill_datagram(rdma_ud_param& to, const sluice_cm_event& from, const Id& id) noexcept {
    to.private_data = from.private_data;
    to.private_data_len = static_cast<std::uint8_t>(from.private_data_len);
    to.qp_num = from.qp_num;
    to.qkey = from.qkey;
    to.ah_attr.is_global = 1;
    to.ah_attr.port_num = 1;
    to.ah_attr.grh.dgid = id.visible->route.addr.addr.ibaddr.dgid;
    to.ah_attr.grh.hop_limit = id.path.hop_limit;
    to.ah_attr.grh.traffic_class = id.type_of_service;
}

void fail(rdma_cm_event& event, rdma_cm_event_type type, int status) noexcept {
    event.event = type;
    event.status = status;
}

// The peer accepted. False: the connection ended meanwhile, and another event says so.
bool finish_answer(Id& id, rdma_cm_event& event) {
    if (id.visible->qp == nullptr) {
        event.event = RDMA_CM_EVENT_CONNECT_RESPONSE;
        return true;
    }
    Result<void> moved = move_to(id, IBV_QPS_RTR);
    if (moved) {
        moved = move_to(id, IBV_QPS_RTS);
    }
    if (moved) {
        event.event = RDMA_CM_EVENT_ESTABLISHED;
        return sluice_cm_establish(id.cm) == 0;
    }
    fail(event, RDMA_CM_EVENT_CONNECT_ERROR, -moved.error().to_errno());
    return sluice_cm_reject(id.cm, 0, nullptr, 0) == 0;
}

bool fill_type(Id& id, rdma_cm_event& event, const sluice_cm_event& source) {
    switch (source.type) {
    case SLUICE_CM_CONNECT_RESPONSE:
        return finish_answer(id, event);
    case SLUICE_CM_ESTABLISHED:
        event.event = RDMA_CM_EVENT_ESTABLISHED;
        return true;
    case SLUICE_CM_REJECTED:
        fail(event, RDMA_CM_EVENT_REJECTED, source.status);
        (void)move_to_error(id); // it may not have got that far
        return true;
    case SLUICE_CM_UNREACHABLE:
        fail(event, RDMA_CM_EVENT_UNREACHABLE, -source.status);
        return true;
    case SLUICE_CM_CONNECT_ERROR:
        fail(event, RDMA_CM_EVENT_CONNECT_ERROR, -source.status);
        return true;
    case SLUICE_CM_DISCONNECTED:
        event.event = RDMA_CM_EVENT_DISCONNECTED;
        return true;
    case SLUICE_CM_TIMEWAIT_EXIT:
        event.event = RDMA_CM_EVENT_TIMEWAIT_EXIT;
        return true;
    default: // of a later version: nothing that librdmacm's programs know
        return false;
    }
}

Result<bool> fill(Event& event, const sluice_cm_event& source) {
    Id* id = static_cast<Id*>(source.id_context);
    if (source.type == SLUICE_CM_CONNECT_REQUEST) {
        Id& listener = *id;
        Result<Id*> request = make_request(listener, source);
        if (!request) {
            (void)sluice_cm_destroy_id(source.id);
            return std::move(request).error();
        }
        id = *request;
        event.visible.listen_id = listener.visible;
        event.visible.event = RDMA_CM_EVENT_CONNECT_REQUEST;
        Result<void> moved = listener.is_sync ? migrate_id(*id, nullptr) : Result<void>();
        if (!moved) {
            return std::move(moved).error();
        }
    } else if (!fill_type(*id, event.visible, source)) {
        return false;
    }
    event.visible.id = id->visible;
    if (is_datagram(*id)) {
        fill_datagram(event.visible.param.ud, source, *id);
    } else {
        fill_connection(event.visible.param.conn, source);
    }
    return true;
}

} // namespace

Result<std::unique_ptr<Event>> translate(sluice_cm_event* source) {
    auto event = std::make_unique<Event>();
    Result<bool> filled = fill(*event, *source);
    if (!filled || !*filled) {
        sluice_cm_ack_event(source);
        if (!filled) {
            return std::move(filled).error();
        }
        return std::unique_ptr<Event>();
    }
    event->source = source;
    return event;
}

Result<void> complete(Id& id) {
    if (!id.is_sync) {
        return {};
    }
    if (id.visible->event != nullptr) {
        (void)acknowledge(std::exchange(id.visible->event, nullptr));
    }
    Result<rdma_cm_event*> event = id.channel->next(translate);
    if (!event) {
        return std::move(event).error();
    }
    id.visible->event = *event;
    const int status = (*event)->status;
    if ((*event)->event == RDMA_CM_EVENT_REJECTED) {
        return Error(ErrorKind::kConnection, "the peer refuses the connection", ECONNREFUSED);
    }
    return status == 0 ? Result<void>() : Error::from_errno(std::abs(status), "connecting");
}

} // namespace sluice::layers::preload
