// SPDX-License-Identifier: BSD-3-Clause
//
// A uroce device in the lab that connects with the kernel's rdma_cm: one queue pair, one block of memory,
// a line on stdout for each event, and an end with a message for each error. Lives as long as its process.
#pragma once

#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "sluice/sluice.h"

namespace lab {

inline void must(const char* what, int error) {
    if (error != 0) {
        std::fprintf(stderr, "%s: %s\n", what, strerrordesc_np(error));
        std::exit(1);
    }
}

template<typename T>
T* must(const char* what, T* made) {
    must(what, made == nullptr ? errno : 0);
    return made;
}

inline sockaddr_in address_of(const char* text, const char* port) {
    sockaddr_in made{};
    made.sin_family = AF_INET;
    made.sin_port = htons(static_cast<std::uint16_t>(std::strtoul(port, nullptr, 10)));
    must("address", inet_pton(AF_INET, text, &made.sin_addr) == 1 ? 0 : EINVAL);
    return made;
}

class Peer {
  public:
    Peer(const char* address, std::size_t block_bytes, std::uint32_t depth)
        : context_(must("open", sluice_open_uroce(address))), block_(block_bytes) {
        must("channel", sluice_cm_create_channel(context_, &channel_));
        ibv_pd* pd = must("PD", ibv_alloc_pd(context_));
        constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
        mr_ = must("MR", ibv_reg_mr(pd, block_.data(), block_.size(), kAccess));
        cq_ = must("CQ", ibv_create_cq(context_, 4 * static_cast<int>(depth), nullptr, nullptr, 0));
        ibv_qp_init_attr init{};
        init.send_cq = init.recv_cq = cq_;
        init.cap = {depth, depth, 1, 1, 0};
        init.qp_type = IBV_QPT_RC;
        init.sq_sig_all = 1;
        qp_ = must("QP", ibv_create_qp(pd, &init));
    }

    void listen(int port_space, const char* port) {
        must("id", sluice_cm_create_id(channel_, port_space, nullptr, &id_));
        const sockaddr_in any = address_of("0.0.0.0", port);
        must("listen", sluice_cm_listen(id_, reinterpret_cast<const sockaddr*>(&any), 0));
        std::printf("listening\n");
    }
    // To be called before connect(): what receives are posted on.
    void make_id(int port_space) {
        must("id", sluice_cm_create_id(channel_, port_space, nullptr, &id_));
        to_init();
    }
    // TIMEOUT_MS as in sluice_cm_params.
    void connect(const char* peer, const char* port, const char* private_text, std::uint32_t timeout_ms = 0) {
        const sockaddr_in to = address_of(peer, port);
        sluice_cm_params with = params(private_text);
        with.timeout_ms = timeout_ms;
        must("connect", sluice_cm_connect(id_, reinterpret_cast<const sockaddr*>(&to), &with, sizeof with));
    }
    // Receives may be posted.
    void to_init() {
        ibv_qp_attr attr{};
        int mask = 0;
        attr.qp_state = IBV_QPS_INIT;
        must("INIT attributes", sluice_cm_qp_attr(id_, &attr, &mask));
        must("INIT", ibv_modify_qp(qp_, &attr, mask));
    }
    void accept(const char* private_text) {
        const sluice_cm_params with = params(private_text);
        must("accept", sluice_cm_accept(id_, &with, sizeof with));
    }
    void reject() { must("reject", sluice_cm_reject(id_, 0, "not today", 10)); }
    void disconnect() { must("disconnect", sluice_cm_disconnect(id_)); }

    std::uint32_t next() {
        sluice_cm_event* event = nullptr;
        must("event", sluice_cm_get_event(channel_, 30000, &event));
        static constexpr const char* kNames[] = {
            "",         "request",     "response",         "established",
            "rejected", "unreachable", "connection error", "disconnected",
            "exit"};
        const auto* data = static_cast<const char*>(event->private_data);
        std::printf("%s %d %s\n", kNames[event->type], event->status, data == nullptr ? "" : data);
        if (event->type == SLUICE_CM_CONNECT_REQUEST) {
            id_ = event->id;
        }
        const std::uint32_t type = event->type;
        sluice_cm_ack_event(event);
        return type;
    }
    void await(std::uint32_t type) {
        while (next() != type) {
        }
    }

    char* bytes(std::size_t offset) { return block_.data() + offset; }
    std::uint64_t addr(std::size_t offset) { return reinterpret_cast<std::uintptr_t>(bytes(offset)); }
    std::uint32_t rkey() const { return mr_->rkey; }
    void receive(std::size_t offset, std::uint32_t len) {
        ibv_sge sge{addr(offset), len, mr_->lkey};
        ibv_recv_wr wr{};
        ibv_recv_wr* bad = nullptr;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        must("receive", ibv_post_recv(qp_, &wr, &bad));
    }
    // REMOTE and KEY are for writes and reads.
    void post(ibv_wr_opcode opcode, std::size_t offset, std::uint32_t len, std::uint64_t remote = 0,
              std::uint32_t key = 0) {
        ibv_sge sge{addr(offset), len, mr_->lkey};
        ibv_send_wr wr{};
        ibv_send_wr* bad = nullptr;
        wr.opcode = opcode;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.wr.rdma.remote_addr = remote;
        wr.wr.rdma.rkey = key;
        must("post", ibv_post_send(qp_, &wr, &bad));
    }
    // The next completion, whatever it says.
    ibv_wc next_completion() {
        ibv_wc wc{};
        while (ibv_poll_cq(cq_, 1, &wc) == 0) {
        }
        return wc;
    }
    // The next completion, which must be a success.
    ibv_wc wait() {
        const ibv_wc wc = next_completion();
        must(ibv_wc_status_str(wc.status), wc.status == IBV_WC_SUCCESS ? 0 : EIO);
        return wc;
    }

  private:
    sluice_cm_params params(const char* text) const {
        sluice_cm_params made;
        sluice_cm_default_params(&made, sizeof made);
        made.qp = qp_;
        made.qkey = 0x01234567;
        made.qp_num = qp_->qp_num; // of the datagram service
        made.private_data = text;
        made.private_data_len = static_cast<std::uint32_t>(std::strlen(text) + 1);
        return made;
    }

    ibv_context* context_;
    sluice_cm_channel* channel_ = nullptr;
    sluice_cm_id* id_ = nullptr;
    std::vector<char> block_;
    ibv_mr* mr_ = nullptr;
    ibv_cq* cq_ = nullptr;
    ibv_qp* qp_ = nullptr;
};

} // namespace lab
