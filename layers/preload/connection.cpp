// SPDX-License-Identifier: BSD-3-Clause
#include "layers/preload/connection.hpp"

#include <arpa/inet.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ibverbs-glue/adaptors.hpp"
#include "layers/hooks/real.hpp"
#include "layers/preload/events.hpp"
#include "layers/preload/queue_pair.hpp"

namespace sluice::layers::preload {

namespace {

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
    if (id.visible->qp != nullptr) {
        params.qp_num = id.visible->qp->qp_num;
        params.srq = id.visible->qp->srq != nullptr ? 1 : 0;
    }
    params.qkey = RDMA_UDP_QKEY;
    params.local_port = ntohs(id.visible->route.addr.src_sin.sin_port);
    return params;
}

} // namespace

Result<void> connect(Id& id, const rdma_conn_param* wanted) {
    if (id.cm == nullptr || id.visible->route.addr.dst_addr.sa_family == AF_UNSPEC) {
        return not_bound();
    }
    const sluice_cm_params params = parameters_of(id, wanted);
    Result<void> done = glue::from_rc(
        sluice_cm_connect(id.cm, &id.visible->route.addr.dst_addr, &params, sizeof params), "connecting");
    if (!done) {
        return done;
    }
    id.visible->route.addr.src_sin.sin_port = htons(sluice_cm_local_port(id.cm));
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
            Result<void> moved = move_to(id, state);
            if (!moved) {
                return moved;
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
    Result<void> done = move_to_error(id);
    if (done) {
        done = glue::from_rc(sluice_cm_disconnect(id.cm), "disconnecting");
    }
    return done ? complete(id) : std::move(done);
}

Result<void> establish(Id& id) {
    if (id.cm == nullptr || id.visible->qp != nullptr) {
        return Error(ErrorKind::kInvalidState, "establishing is for ids without a queue pair", EINVAL);
    }
    return glue::from_rc(sluice_cm_establish(id.cm), "establishing a connection");
}

Result<void> notify(Id& id, ibv_event_type event) {
    if (id.cm == nullptr || event != IBV_EVENT_COMM_EST) {
        return Error(ErrorKind::kInvalidArgument,
                     "rdma_notify() takes IBV_EVENT_COMM_EST of a connection only", EINVAL);
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
        waiting[0] = {.fd = listener.channel->visible()->fd, .events = POLLIN, .revents = 0};
        waiting[1] = {.fd = listener.own == nullptr ? listener.kernels_channel->fd : -1,
                      .events = POLLIN,
                      .revents = 0};
        if (poll(waiting.data(), waiting.size(), -1) < 0) {
            return Error::from_errno(errno, "waiting for a request was interrupted");
        }
        rdma_cm_id* request = nullptr;
        if (waiting[1].revents != 0) {
            if (hooks::real_cm()->get_request(listener.visible, &request) != 0) {
                return Error::from_errno(errno, "getting a request of the kernel's");
            }
            return request;
        }
        Result<void> done = complete(listener);
        if (!done) {
            return std::move(done).error();
        }
        rdma_cm_event* const event = std::exchange(listener.visible->event, nullptr);
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
    ibv_pd* const domain = listener.visible->pd;
    ibv_qp_init_attr queues = *listener.queues_of_requests;
    const bool fits = domain != nullptr && domain->context == ours->visible->verbs;
    Result<void> made = create_queue_pair(*ours, fits ? domain : nullptr, queues);
    if (!made) {
        (void)destroy_id(*ours);
        return std::move(made).error();
    }
    return request;
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

} // namespace sluice::layers::preload
