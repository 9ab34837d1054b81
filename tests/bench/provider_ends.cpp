// SPDX-License-Identifier: BSD-3-Clause
#include "tests/bench/provider_ends.hpp"

#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

namespace sluice::bench {

namespace {

// --- by hand ---

void lead_to_send(ibv_qp* qp, std::uint32_t to) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    need_zero(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
              "INIT");
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = to;
    attr.min_rnr_timer = 1;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.hop_limit = 1;
    attr.ah_attr.grh.sgid_index = 1;
    need_zero(ibv_query_gid(qp->context, 1, 1, &attr.ah_attr.grh.dgid), "GID");
    need_zero(ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
              "RTR");
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 6;
    attr.rnr_retry = 6;
    need_zero(ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
              "RTS");
}

class LedEnds final : public Ends {
  public:
    explicit LedEnds(const std::string& device) {
        int count = 0;
        ibv_device** list = need(ibv_get_device_list(&count), "list devices");
        for (int i = 0; i < count; ++i) {
            if (device == ibv_get_device_name(list[i])) {
                context_ = ibv_open_device(list[i]);
            }
        }
        need(context_, "open the device");
    }

    ibv_context* context() const override { return context_; }
    bool can_build() const override { return true; }
    std::array<ibv_qp*, 2> connect(ibv_pd* pd, const ibv_qp_init_attr& request) override {
        std::array<ibv_qp*, 2> qps{};
        for (ibv_qp*& qp : qps) {
            ibv_qp_init_attr_ex attr{};
            attr.send_cq = request.send_cq;
            attr.recv_cq = request.recv_cq;
            attr.cap = request.cap;
            attr.qp_type = request.qp_type;
            attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
            attr.pd = pd;
            attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
            qp = need(ibv_create_qp_ex(context_, &attr), "QP");
        }
        lead_to_send(qps[0], qps[1]->qp_num);
        lead_to_send(qps[1], qps[0]->qp_num);
        return qps;
    }

  private:
    ibv_context* context_ = nullptr;
};

// --- by the connection manager ---

class ManagedEnds final : public Ends {
  public:
    // Listens at the first address that belongs to DEVICE.
    explicit ManagedEnds(const std::string& device) {
        channel_ = need(rdma_create_event_channel(), "event channel");
        if (fcntl(channel_->fd, F_SETFL, O_NONBLOCK) != 0) {
            die("event channel");
        }
        ifaddrs* all = nullptr;
        if (getifaddrs(&all) != 0) {
            die("list addresses");
        }
        for (const ifaddrs* at = all; at != nullptr && listener_ == nullptr; at = at->ifa_next) {
            if (at->ifa_addr != nullptr && at->ifa_addr->sa_family == AF_INET) {
                listener_ = listen_at(*at->ifa_addr, device);
            }
        }
        freeifaddrs(all);
        need(listener_, "find the device's address");
    }

    ibv_context* context() const override { return listener_->verbs; }
    bool can_build() const override { return false; }
    // The kernel's siw loses a connection in twenty, so that a second one is tried, and a third.
    std::array<ibv_qp*, 2> connect(ibv_pd* pd, const ibv_qp_init_attr& request) override {
        for (int tries = 0; tries < kTries; ++tries) {
            const std::array<rdma_cm_id*, 2> ids = try_to_connect(pd, request);
            if (ids[1] != nullptr) {
                return {ids[0]->qp, ids[1]->qp};
            }
        }
        die("connect");
    }

  private:
    static constexpr int kTries = 5;
    static constexpr int kTimeoutMs = 5000;

    rdma_cm_id* new_id() const {
        rdma_cm_id* id = nullptr;
        if (rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP) != 0) {
            die("connection id");
        }
        return id;
    }

    rdma_cm_id* listen_at(sockaddr address, const std::string& device) const {
        rdma_cm_id* id = new_id();
        if (rdma_bind_addr(id, &address) == 0 && id->verbs != nullptr &&
            device == ibv_get_device_name(id->verbs->device) && rdma_listen(id, kTries) == 0) {
            return id;
        }
        rdma_destroy_id(id);
        return nullptr;
    }

    // The id of the next event, if that is what is wanted and came in time.
    rdma_cm_id* await(rdma_cm_event_type wanted) const {
        pollfd ready{.fd = channel_->fd, .events = POLLIN, .revents = 0};
        rdma_cm_event* event = nullptr;
        if (::poll(&ready, 1, kTimeoutMs) != 1 || rdma_get_cm_event(channel_, &event) != 0) {
            return nullptr;
        }
        rdma_cm_id* id = event->event == wanted ? event->id : nullptr;
        rdma_ack_cm_event(event);
        return id;
    }

    static bool make_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr request) {
        return rdma_create_qp(id, pd, &request) == 0;
    }

    // The active end and the passive one, which is null if it didn't come to that.
    std::array<rdma_cm_id*, 2> try_to_connect(ibv_pd* pd, const ibv_qp_init_attr& request) const {
        rdma_cm_id* active = new_id();
        if (rdma_resolve_addr(active, nullptr, rdma_get_local_addr(listener_), kTimeoutMs) != 0 ||
            await(RDMA_CM_EVENT_ADDR_RESOLVED) != active || rdma_resolve_route(active, kTimeoutMs) != 0 ||
            await(RDMA_CM_EVENT_ROUTE_RESOLVED) != active || !make_qp(active, pd, request)) {
            die("resolve the device's own address");
        }
        rdma_conn_param param{};
        if (rdma_connect(active, &param) != 0) {
            return {active, nullptr};
        }
        rdma_cm_id* passive = await(RDMA_CM_EVENT_CONNECT_REQUEST);
        if (passive == nullptr || !make_qp(passive, pd, request) || rdma_accept(passive, &param) != 0 ||
            await(RDMA_CM_EVENT_ESTABLISHED) == nullptr || await(RDMA_CM_EVENT_ESTABLISHED) == nullptr) {
            return {active, nullptr};
        }
        return {active, passive};
    }

    rdma_event_channel* channel_ = nullptr;
    rdma_cm_id* listener_ = nullptr;
};

} // namespace

std::unique_ptr<Ends> open_ends(const std::string& device) {
    if (device.starts_with("siw")) {
        return std::make_unique<ManagedEnds>(device);
    }
    return std::make_unique<LedEnds>(device);
}

} // namespace sluice::bench
