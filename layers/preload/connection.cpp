// SPDX-License-Identifier: BSD-3-Clause
#include "layers/preload/connection.hpp"

#include <arpa/inet.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ibverbs-glue/adaptors.hpp"
#include "layers/hooks/real.hpp"
#include "layers/preload/queue_pair.hpp"

namespace sluice::preload {

namespace {

Error not_bound() noexcept {
    return Error(ErrorKind::kInvalidState, "this id has no device yet", EINVAL);
}

bool is_datagram(const Id& id) noexcept {
    return id.face->qp_type == IBV_QPT_UD;
}

// Queue pairs are led here: libsluice gets a number.
sluice_cm_params parameters_of(const Id& id, const rdma_conn_param* wanted) noexcept {
    sluice_cm_params params{};
    sluice_cm_default_params(&params, sizeof params);
    if (wanted != nullptr) {
        params.private_data = wanted->private_data;
        params.private_data_len = wanted->private_data_len;
        params.responder_resources = wanted->responder_resources;
        params.initiator_depth = wanted->initiator_depth;
        params.flow_control = wanted->flow_control;
        params.retry_count = wanted->retry_count;
        params.rnr_retry_count = wanted->rnr_retry_count;
        params.srq = wanted->srq;
        params.qp_num = wanted->qp_num;
    } else if (!id.connect_data.empty()) {
        params.private_data = id.connect_data.data();
        params.private_data_len = static_cast<std::uint32_t>(id.connect_data.size());
    }
    if (id.face->qp != nullptr) {
        params.qp_num = id.face->qp->qp_num;
        params.srq = id.face->qp->srq != nullptr ? 1 : 0;
    }
    params.qkey = RDMA_UDP_QKEY;
    params.local_port = ntohs(id.face->route.addr.src_sin.sin_port);
    return params;
}

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
    to.ah_attr.grh.dgid = id.face->route.addr.addr.ibaddr.dgid;
    to.ah_attr.grh.hop_limit = id.path.hop_limit;
    to.ah_attr.grh.traffic_class = id.type_of_service;
}

void fail(rdma_cm_event& event, rdma_cm_event_type type, int status) noexcept {
    event.event = type;
    event.status = status;
}

// The peer accepted. False: the connection ended meanwhile, and another event says so.
bool finish_answer(Id& id, rdma_cm_event& event) {
    if (id.face->qp == nullptr) {
        event.event = RDMA_CM_EVENT_CONNECT_RESPONSE;
        return true;
    }
    Result<void> led = lead(id, IBV_QPS_RTR);
    if (led) {
        led = lead(id, IBV_QPS_RTS);
    }
    if (led) {
        event.event = RDMA_CM_EVENT_ESTABLISHED;
        return sluice_cm_establish(id.cm) == 0;
    }
    fail(event, RDMA_CM_EVENT_CONNECT_ERROR, -led.error().to_errno());
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
        (void)lead_to_error(id); // it may not have got that far
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
        event.face.listen_id = listener.face;
        event.face.event = RDMA_CM_EVENT_CONNECT_REQUEST;
        Result<void> moved = listener.is_sync ? migrate_id(*id, nullptr) : Result<void>();
        if (!moved) {
            return std::move(moved).error();
        }
    } else if (!fill_type(*id, event.face, source)) {
        return false;
    }
    event.face.id = id->face;
    if (is_datagram(*id)) {
        fill_datagram(event.face.param.ud, source, *id);
    } else {
        fill_connection(event.face.param.conn, source);
    }
    return true;
}

} // namespace

Result<void> connect(Id& id, const rdma_conn_param* wanted) {
    if (id.cm == nullptr || id.face->route.addr.dst_addr.sa_family == AF_UNSPEC) {
        return not_bound();
    }
    const sluice_cm_params params = parameters_of(id, wanted);
    Result<void> done = glue::from_rc(
        sluice_cm_connect(id.cm, &id.face->route.addr.dst_addr, &params, sizeof params), "connecting");
    if (!done) {
        return done;
    }
    id.face->route.addr.src_sin.sin_port = htons(sluice_cm_local_port(id.cm));
    return complete(id);
}

Result<void> accept(Id& id, const rdma_conn_param* wanted) {
    if (id.cm == nullptr) {
        return not_bound();
    }
    const sluice_cm_params params = parameters_of(id, wanted);
    if (!is_datagram(id)) {
        // The peer may send as soon as it hears of it.
        id.most_reads_in = params.responder_resources;
        id.most_reads_out = params.initiator_depth;
        for (const ibv_qp_state state : {IBV_QPS_RTR, IBV_QPS_RTS}) {
            Result<void> led = lead(id, state);
            if (!led) {
                return led;
            }
        }
    }
    Result<void> done =
        glue::from_rc(sluice_cm_accept(id.cm, &params, sizeof params), "accepting a connection");
    return done && !is_datagram(id) ? complete(id) : std::move(done);
}

Result<void> reject(Id& id, const void* private_data, std::uint8_t bytes) {
    if (id.cm == nullptr) {
        return not_bound();
    }
    return glue::from_rc(sluice_cm_reject(id.cm, 0, private_data, bytes), "rejecting a connection");
}

Result<void> disconnect(Id& id) {
    if (id.cm == nullptr) {
        return not_bound();
    }
    Result<void> done = lead_to_error(id);
    if (done) {
        done = glue::from_rc(sluice_cm_disconnect(id.cm), "disconnecting");
    }
    return done ? complete(id) : std::move(done);
}

Result<void> establish(Id& id) {
    if (id.cm == nullptr || id.face->qp != nullptr) {
        return Error(ErrorKind::kInvalidState, "establishing is for ids without a queue pair", EINVAL);
    }
    return glue::from_rc(sluice_cm_establish(id.cm), "establishing a connection");
}

Result<void> notify(Id& id, ibv_event_type event) {
    if (id.cm == nullptr || event != IBV_EVENT_COMM_EST) {
        return Error(ErrorKind::kInvalidArgument, "IBV_EVENT_COMM_EST of a connection can be told", EINVAL);
    }
    return glue::from_rc(sluice_cm_notify(id.cm), "telling that the peer is ready");
}

namespace {

// The kernel's part of a listener at the wildcard address is librdmacm's to ask.
Result<rdma_cm_id*> next_request(Id& listener) {
    if (!listener.is_sync || (listener.cm == nullptr && listener.listeners.empty())) {
        return Error(ErrorKind::kInvalidArgument, "requests are got from sync ids that listen", EINVAL);
    }
    for (;;) {
        std::array<pollfd, 2> waiting{};
        waiting[0] = {.fd = listener.channel->face()->fd, .events = POLLIN, .revents = 0};
        waiting[1] = {.fd = listener.own == nullptr ? listener.kernels_channel->fd : -1,
                      .events = POLLIN,
                      .revents = 0};
        if (poll(waiting.data(), waiting.size(), -1) < 0) {
            return Error::from_errno(errno, "waiting for a request was interrupted");
        }
        rdma_cm_id* request = nullptr;
        if (waiting[1].revents != 0) {
            if (real_cm()->get_request(listener.face, &request) != 0) {
                return Error::from_errno(errno, "getting a request of the kernel's");
            }
            return request;
        }
        Result<void> done = complete(listener);
        if (!done) {
            return std::move(done).error();
        }
        rdma_cm_event* const event = std::exchange(listener.face->event, nullptr);
        if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
            (void)acknowledge(event);
            continue;
        }
        event->id->event = event;
        return event->id;
    }
}

} // namespace

Result<rdma_cm_id*> get_request(Id& listener) {
    Result<rdma_cm_id*> request = next_request(listener);
    Id* const ours = request ? Ids::instance().find(*request) : nullptr;
    if (ours == nullptr || !listener.queues_of_requests) {
        return request;
    }
    // A domain of the program's is good for the device that it is of.
    ibv_pd* const domain = listener.face->pd;
    ibv_qp_init_attr queues = *listener.queues_of_requests;
    const bool fits = domain != nullptr && domain->context == ours->face->verbs;
    Result<void> made = create_queue_pair(*ours, fits ? domain : nullptr, queues);
    if (!made) {
        (void)destroy_id(*ours);
        return std::move(made).error();
    }
    return request;
}

Result<void> queue_pair_attributes(Id& id, ibv_qp_attr& attr, int& mask) {
    if (id.cm == nullptr) {
        return not_bound();
    }
    if (is_datagram(id)) {
        const ibv_qp_state to = attr.qp_state;
        attr = {};
        attr.qp_state = to;
        attr.port_num = 1;
        attr.qkey = RDMA_UDP_QKEY;
        mask = IBV_QP_STATE | (to == IBV_QPS_INIT  ? IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY
                               : to == IBV_QPS_RTS ? IBV_QP_SQ_PSN
                                                   : 0);
        return {};
    }
    Result<void> done =
        glue::from_rc(sluice_cm_qp_attr(id.cm, &attr, &mask), "finding a queue pair's attributes");
    if (!done) {
        return done;
    }
    attr.max_dest_rd_atomic = std::min(attr.max_dest_rd_atomic, id.most_reads_in);
    attr.max_rd_atomic = std::min(attr.max_rd_atomic, id.most_reads_out);
    attr.ah_attr.grh.traffic_class = id.type_of_service;
    if (id.ack_timeout != 0) {
        attr.timeout = id.ack_timeout;
    }
    return {};
}

Result<void> set_option(Id& id, int level, int name, const void* value, std::size_t bytes) {
    const auto take = [&](std::uint8_t& to) -> Result<void> {
        if (bytes != sizeof to) {
            return Error(ErrorKind::kInvalidArgument, "this option is one byte", EINVAL);
        }
        std::memcpy(&to, value, bytes);
        return {};
    };
    if (level == RDMA_OPTION_ID && name == RDMA_OPTION_ID_TOS) {
        return take(id.type_of_service);
    }
    if (level == RDMA_OPTION_ID && name == RDMA_OPTION_ID_ACK_TIMEOUT) {
        return take(id.ack_timeout);
    }
    // Ports of uroce's are free as soon as nobody listens, and its wildcards are of one family each.
    const bool is_so_already =
        level == RDMA_OPTION_ID && (name == RDMA_OPTION_ID_REUSEADDR || name == RDMA_OPTION_ID_AFONLY);
    return is_so_already ? Result<void>()
                         : Error(ErrorKind::kNotSupported, "uroce has no such option", EOPNOTSUPP);
}

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

} // namespace sluice::preload
