// SPDX-License-Identifier: BSD-3-Clause
#include "layers/cmdev/translate.hpp"

#include <algorithm>
#include <cstring>

#include "core/boundary.hpp"
#include "core/log.hpp"
#include "layers/cmdev/id.hpp"

namespace sluice::layers::cmdev {

namespace {

template<typename Parameters>
void fill_private_data(Parameters& to, const sluice_cm_event& from) noexcept {
    if (from.private_data != nullptr) {
        to.private_data_len = static_cast<std::uint8_t>(from.private_data_len);
        std::memcpy(to.private_data, from.private_data, to.private_data_len);
    }
}

void fill_connection(rdma_ucm_conn_param& to, const sluice_cm_event& from) noexcept {
    fill_private_data(to, from);
    to.responder_resources = from.responder_resources;
    to.initiator_depth = from.initiator_depth;
    to.flow_control = from.flow_control;
    to.retry_count = from.retry_count;
    to.rnr_retry_count = from.rnr_retry_count;
    to.srq = from.srq;
    to.qp_num = from.qp_num;
}

void fill_datagram(rdma_ucm_ud_param& to, const sluice_cm_event& from, const Id& id) {
    fill_private_data(to, from);
    to.qp_num = from.qp_num;
    to.qkey = from.qkey;
    to.ah_attr.is_global = 1;
    to.ah_attr.port_num = 1;
    std::ranges::copy(gid_of(id.destination).raw, to.ah_attr.grh.dgid);
    to.ah_attr.grh.sgid_index = gid_index_of(id);
    to.ah_attr.grh.hop_limit = kHopLimit;
    to.ah_attr.grh.traffic_class = id.type_of_service;
}

// What the protocol says about a rejection is positive, an errno negative.
std::optional<std::pair<EventType, int>> type_and_status_of(const sluice_cm_event& source) noexcept {
    switch (source.type) {
    case SLUICE_CM_CONNECT_RESPONSE:
        return std::pair(EventType::kConnectResponse, 0);
    case SLUICE_CM_ESTABLISHED:
        return std::pair(EventType::kEstablished, 0);
    case SLUICE_CM_REJECTED:
        return std::pair(EventType::kRejected, source.status);
    case SLUICE_CM_UNREACHABLE:
        return std::pair(EventType::kUnreachable, -source.status);
    case SLUICE_CM_CONNECT_ERROR:
        return std::pair(EventType::kConnectError, -source.status);
    case SLUICE_CM_DISCONNECTED:
        return std::pair(EventType::kDisconnected, 0);
    case SLUICE_CM_TIMEWAIT_EXIT:
        return std::pair(EventType::kTimewaitExit, 0);
    default: // of a later version
        return std::nullopt;
    }
}

std::uint32_t handle_of(const sluice_cm_event& source) noexcept {
    return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(source.id_context));
}

void fill(Event& event, const sluice_cm_event& source, const Id& subject) {
    if (subject.is_datagram) {
        fill_datagram(event.response.param.ud, source, subject);
    } else {
        fill_connection(event.response.param.conn, source);
    }
}

// Null when nobody listens any more.
Result<std::shared_ptr<SharedId>> request_of(const sluice_cm_event& source) {
    const std::shared_ptr<SharedId> listener = ids::find(handle_of(source));
    if (listener == nullptr) {
        return nullptr;
    }
    const LockGuard guard(listener->mutex);
    if (listener->id.is_destroyed) {
        return nullptr;
    }
    return make_request(listener->id, source);
}

// Null, too, when there is no device or memory for it: then the peer hears no.
std::shared_ptr<SharedId> take_request(const sluice_cm_event& source) {
    const Result<std::shared_ptr<SharedId>> request =
        at_boundary("taking a request", [&] { return request_of(source); });
    if (!request) {
        SLUICE_LOG(kWarning, "preload", "a request for a connection is refused: %s", request.error().text());
        return nullptr;
    }
    return *request;
}

std::optional<Event> translate_request(const sluice_cm_event& source) {
    const std::shared_ptr<SharedId> request = take_request(source);
    if (request == nullptr) {
        (void)sluice_cm_destroy_id(source.id);
        return std::nullopt;
    }
    Event event = make_event(handle_of(source), EventType::kConnectRequest);
    event.response.id = request->handle;
    const LockGuard guard(request->mutex);
    fill(event, source, request->id);
    return event;
}

} // namespace

std::optional<Event> translate(const sluice_cm_event& source) {
    if (source.type == SLUICE_CM_CONNECT_REQUEST) {
        return translate_request(source);
    }
    const auto what = type_and_status_of(source);
    const std::shared_ptr<SharedId> id = ids::find(handle_of(source));
    if (!what || id == nullptr) {
        return std::nullopt;
    }
    Event event = make_event(id->handle, what->first);
    event.response.status = static_cast<std::uint32_t>(what->second);
    const LockGuard guard(id->mutex);
    fill(event, source, id->id);
    return event;
}

} // namespace sluice::layers::cmdev
