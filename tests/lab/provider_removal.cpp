// SPDX-License-Identifier: BSD-3-Clause
//
// A device that is removed under traffic, as a program sees it that the connection manager has
// connected: provider_removal ADDRESS polling|events
//
// The caller removes the device once "ready" is printed. Ten receives are waiting that nothing will
// fill, and writes keep coming; a thread sleeps for asynchronous events. Within two seconds all of
// the receives must be flushed and the event must have woken the thread; then everything must be
// destroyed without a crash. With "events" the program polls only when its completion channel says
// so.
#include <arpa/inet.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void die(const char* what) {
    std::printf("FAILED: %s: %s\n", what, std::strerror(errno));
    std::fflush(stdout);
    std::_Exit(1);
}

void require(bool holds, const char* what) {
    if (!holds) {
        die(what);
    }
}

constexpr int kReceives = 10;
constexpr std::uint64_t kReceiveId = 1000;
constexpr int kDepth = 64;

// Both ends, in one process.
struct Pair {
    rdma_event_channel* events = nullptr;
    rdma_cm_id* listener = nullptr;
    rdma_cm_id* client = nullptr;
    rdma_cm_id* server = nullptr;
    ibv_pd* pd = nullptr;
    ibv_mr* mr = nullptr;
    ibv_comp_channel* channel = nullptr;
    ibv_cq* cq = nullptr;
    alignas(4096) std::array<char, 8192> buffer{};
};

void make_objects(Pair& pair, ibv_context* context) {
    pair.pd = ibv_alloc_pd(context);
    require(pair.pd != nullptr, "allocate a PD");
    pair.mr = ibv_reg_mr(pair.pd, pair.buffer.data(), pair.buffer.size(),
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    pair.channel = ibv_create_comp_channel(context);
    pair.cq = ibv_create_cq(context, 2 * kDepth, nullptr, pair.channel, 0);
    require(pair.mr != nullptr && pair.channel != nullptr && pair.cq != nullptr, "make objects");
}

void make_qp(Pair& pair, rdma_cm_id* id) {
    ibv_qp_init_attr attr{};
    attr.send_cq = pair.cq;
    attr.recv_cq = pair.cq;
    attr.cap.max_send_wr = kDepth;
    attr.cap.max_recv_wr = kDepth;
    attr.cap.max_send_sge = 1;
    attr.cap.max_recv_sge = 1;
    attr.qp_type = IBV_QPT_RC;
    require(rdma_create_qp(id, pair.pd, &attr) == 0, "create a QP");
}

// One step towards a connection; true for an end that has arrived.
bool advance(Pair& pair, const rdma_cm_event& event) {
    rdma_conn_param param{};
    switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        make_objects(pair, event.id->verbs);
        make_qp(pair, event.id);
        require(rdma_resolve_route(event.id, 2000) == 0, "resolve the route");
        return false;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        require(rdma_connect(event.id, &param) == 0, "connect");
        return false;
    case RDMA_CM_EVENT_CONNECT_REQUEST:
        pair.server = event.id;
        make_qp(pair, event.id);
        require(rdma_accept(event.id, &param) == 0, "accept");
        return false;
    case RDMA_CM_EVENT_ESTABLISHED:
        return true;
    default:
        errno = event.status;
        die(rdma_event_str(event.event));
    }
}

void connect(Pair& pair, const char* address) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    require(inet_pton(AF_INET, address, &to.sin_addr) == 1, "read the address");
    pair.events = rdma_create_event_channel();
    require(pair.events != nullptr, "make an event channel");
    require(rdma_create_id(pair.events, &pair.listener, nullptr, RDMA_PS_TCP) == 0 &&
                rdma_create_id(pair.events, &pair.client, nullptr, RDMA_PS_TCP) == 0,
            "make ids");
    auto* name = reinterpret_cast<sockaddr*>(&to);
    require(rdma_bind_addr(pair.listener, name) == 0 && rdma_listen(pair.listener, 1) == 0, "listen");
    to.sin_port = rdma_get_src_port(pair.listener);
    require(rdma_resolve_addr(pair.client, nullptr, name, 2000) == 0, "resolve the address");
    for (int arrived = 0; arrived < 2;) {
        rdma_cm_event* event = nullptr;
        require(rdma_get_cm_event(pair.events, &event) == 0, "read an event");
        const rdma_cm_event copy = *event;
        require(rdma_ack_cm_event(event) == 0, "acknowledge an event");
        arrived += advance(pair, copy) ? 1 : 0;
    }
}

int post_write(Pair& pair) {
    ibv_sge sge{};
    sge.addr = reinterpret_cast<std::uintptr_t>(pair.buffer.data());
    sge.length = 64;
    sge.lkey = pair.mr->lkey;
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = sge.addr + 4096;
    wr.wr.rdma.rkey = pair.mr->rkey;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(pair.client->qp, &wr, &bad);
}

// What the program has seen so far.
struct Seen {
    int writes = 0;
    int flushed_receives = 0;
    bool write_failed = false; // flushed, or refused
    std::atomic<bool> fatal_event{false};
};

bool take(Pair& pair, Seen& seen) {
    ibv_wc wc{};
    int n = 0;
    bool any = false;
    while ((n = ibv_poll_cq(pair.cq, 1, &wc)) == 1) {
        any = true;
        if (wc.wr_id >= kReceiveId) {
            require(wc.status == IBV_WC_WR_FLUSH_ERR, "receives are flushed");
            ++seen.flushed_receives;
        } else if (wc.status == IBV_WC_SUCCESS) {
            ++seen.writes;
        } else {
            seen.write_failed = true;
        }
    }
    require(n == 0, "poll");
    return any;
}

void sleep_for_completions(Pair& pair) {
    pollfd ready{.fd = pair.channel->fd, .events = POLLIN, .revents = 0};
    require(poll(&ready, 1, 5000) == 1, "a completion event within 5 s");
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    require(ibv_get_cq_event(pair.channel, &cq, &context) == 0, "read a completion event");
    ibv_ack_cq_events(cq, 1);
}

void wait_for_async_event(ibv_context* context, Seen& seen) {
    ibv_async_event event{};
    do {
        require(ibv_get_async_event(context, &event) == 0, "read an asynchronous event");
        ibv_ack_async_event(&event);
    } while (event.event_type != IBV_EVENT_DEVICE_FATAL);
    seen.fatal_event = true;
}

void run(Pair& pair, bool by_events, Seen& seen) {
    const char* node = pair.client->verbs->device->dev_path;
    auto gone_at = Clock::time_point::max();
    bool ready = false;
    while (seen.flushed_receives < kReceives || !seen.write_failed || !seen.fatal_event) {
        const auto now = Clock::now();
        if (gone_at == Clock::time_point::max()) {
            gone_at = access(node, F_OK) != 0 ? now : gone_at;
        } else if (now - gone_at > std::chrono::seconds(2)) {
            std::printf("FAILED: after 2 s: %d of %d receives flushed, writes %s, the event %s\n",
                        seen.flushed_receives, kReceives, seen.write_failed ? "failed" : "went on",
                        seen.fatal_event ? "came" : "didn't come");
            std::_Exit(1);
        }
        const int error = post_write(pair);
        seen.write_failed = seen.write_failed || (error != 0 && error != ENOMEM);
        if (by_events) {
            require(ibv_req_notify_cq(pair.cq, 0) == 0, "arm the CQ");
        }
        if (!take(pair, seen) && by_events && !seen.write_failed) {
            sleep_for_completions(pair);
        }
        if (!ready && seen.writes >= 100) {
            ready = true;
            std::printf("ready\n");
            std::fflush(stdout);
        }
    }
    require(gone_at != Clock::time_point::max(), "nothing happens before the device goes");
}

void tear_down(Pair& pair) {
    rdma_destroy_qp(pair.client);
    rdma_destroy_qp(pair.server);
    require(ibv_destroy_cq(pair.cq) == 0, "destroy the CQ");
    require(ibv_destroy_comp_channel(pair.channel) == 0, "destroy the channel");
    require(ibv_dereg_mr(pair.mr) == 0, "deregister memory");
    require(ibv_dealloc_pd(pair.pd) == 0, "deallocate the PD");
    require(rdma_destroy_id(pair.client) == 0 && rdma_destroy_id(pair.server) == 0 &&
                rdma_destroy_id(pair.listener) == 0,
            "destroy the ids");
    rdma_destroy_event_channel(pair.events);
}

} // namespace

int main(int argc, char** argv) {
    errno = EINVAL;
    require(argc == 3, "usage: provider_removal ADDRESS polling|events");
    static Pair pair;
    connect(pair, argv[1]);
    for (std::uint64_t i = 0; i < kReceives; ++i) {
        ibv_recv_wr wr{};
        wr.wr_id = kReceiveId + i;
        ibv_recv_wr* bad = nullptr;
        require(ibv_post_recv(pair.server->qp, &wr, &bad) == 0, "post a receive");
    }
    Seen seen;
    std::thread sleeper([&seen] { wait_for_async_event(pair.client->verbs, seen); });
    run(pair, std::string(argv[2]) == "events", seen);
    sleeper.join();
    tear_down(pair);
    std::printf("removed: flushed, told and destroyed\n");
    return 0;
}
