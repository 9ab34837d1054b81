// SPDX-License-Identifier: BSD-3-Clause
//
// Programs that connect over uroce, with nothing but the public calls of libsluice and libibverbs:
// two devices in one process, queue pair 1 and its thread at work, data afterwards.
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "sluice/sluice.h"

// Last: its macros are common words.
#include "tests/cmocka.hpp"
#include "tests/loopback.hpp"
#include "tests/unit/uroce/quiet_fork.hpp"

namespace {

constexpr std::uint16_t kPort = 7174;
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

sockaddr_in at(const char* address, std::uint16_t port) {
    sockaddr_in made{};
    made.sin_family = AF_INET;
    made.sin_port = htons(port);
    assert_int_equal(inet_pton(AF_INET, address, &made.sin_addr), 1);
    return made;
}
const sockaddr* plain(const sockaddr_in& address) {
    return reinterpret_cast<const sockaddr*>(&address);
}

struct Device {
    Device() {
        assert_non_null(context);
        assert_int_equal(sluice_cm_create_channel(context, &channel), 0);
        pd = ibv_alloc_pd(context);
    }
    ~Device() {
        assert_int_equal(sluice_cm_destroy_channel(channel), 0);
        assert_int_equal(ibv_dealloc_pd(pd), 0);
        assert_int_equal(ibv_close_device(context), 0);
    }
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    const std::string address = sluice::test::Loopback::instance().next_address();
    ibv_context* const context = sluice_open_uroce(address.c_str());
    sluice_cm_channel* channel = nullptr;
    ibv_pd* pd;
};

// A queue pair with a block of memory.
struct Side {
    explicit Side(Device& its_device) : device(its_device) {
        mr = ibv_reg_mr(device.pd, block, sizeof block, kAccess);
        cq = ibv_create_cq(device.context, 16, nullptr, nullptr, 0);
        ibv_qp_init_attr init{};
        init.send_cq = init.recv_cq = cq;
        init.cap = {8, 8, 1, 1, 0};
        init.qp_type = IBV_QPT_RC;
        init.sq_sig_all = 1;
        qp = ibv_create_qp(device.pd, &init);
        assert_true(mr != nullptr && cq != nullptr && qp != nullptr);
    }
    ~Side() {
        if (id != nullptr) {
            assert_int_equal(sluice_cm_destroy_id(id), 0); // before its queue pair
        }
        assert_int_equal(ibv_destroy_qp(qp), 0);
        assert_int_equal(ibv_destroy_cq(cq), 0);
        assert_int_equal(ibv_dereg_mr(mr), 0);
    }
    Side(const Side&) = delete;
    Side& operator=(const Side&) = delete;

    void move_to(ibv_qp_state to) {
        ibv_qp_attr attr{};
        int mask = 0;
        attr.qp_state = to;
        assert_int_equal(sluice_cm_qp_attr(id, &attr, &mask), 0);
        assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
    }
    // A queue pair takes receives from INIT on.
    void receive_before_accept() {
        move_to(IBV_QPS_INIT);
        receive();
    }
    void receive() {
        ibv_sge sge = {reinterpret_cast<std::uintptr_t>(block), sizeof block, mr->lkey};
        ibv_recv_wr wr{};
        ibv_recv_wr* bad = nullptr;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
    }
    void post(ibv_wr_opcode opcode, const Side& peer, std::uint32_t len) {
        ibv_sge sge = {reinterpret_cast<std::uintptr_t>(block), len, mr->lkey};
        ibv_send_wr wr{};
        ibv_send_wr* bad = nullptr;
        wr.opcode = opcode;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(peer.block);
        wr.wr.rdma.rkey = peer.mr->rkey;
        assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
    }
    ibv_wc wait() {
        ibv_wc wc{};
        while (ibv_poll_cq(cq, 1, &wc) == 0) {
        }
        return wc;
    }
    void complete() { assert_int_equal(wait().status, IBV_WC_SUCCESS); }
    ibv_qp_state state() const {
        ibv_qp_attr attr{};
        ibv_qp_init_attr init{};
        assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
        return attr.qp_state;
    }

    Device& device;
    char block[256] = {};
    ibv_mr* mr;
    ibv_cq* cq;
    ibv_qp* qp;
    sluice_cm_id* id = nullptr;
};

sluice_cm_params params_for(ibv_qp* qp) {
    sluice_cm_params params;
    sluice_cm_default_params(&params, sizeof params);
    params.qp = qp;
    return params;
}

struct Taken : sluice_cm_event {
    std::vector<char> data;
};

// The next event; the test's time limit is the limit.
Taken take(sluice_cm_channel* channel) {
    sluice_cm_event* event = nullptr;
    assert_int_equal(sluice_cm_get_event(channel, -1, &event), 0);
    Taken taken{*event, {}};
    const char* data = static_cast<const char*>(event->private_data);
    taken.data.assign(data, data + event->private_data_len);
    sluice_cm_ack_event(event);
    return taken;
}

sluice_cm_id* listen(Device& device) {
    sluice_cm_id* id = nullptr;
    assert_int_equal(sluice_cm_create_id(device.channel, SLUICE_CM_TCP, nullptr, &id), 0);
    const sockaddr_in address = at(device.address.c_str(), kPort);
    assert_int_equal(sluice_cm_listen(id, plain(address), 0), 0);
    return id;
}

int connect(Side& side, const Device& peer, sluice_cm_params params, std::uint16_t port = kPort) {
    assert_int_equal(sluice_cm_create_id(side.device.channel, SLUICE_CM_TCP, &side, &side.id), 0);
    const sockaddr_in address = at(peer.address.c_str(), port);
    return sluice_cm_connect(side.id, plain(address), &params, sizeof params);
}

void exchange(Side& active, Side& passive) {
    std::memcpy(active.block, "sent", 5);
    active.post(IBV_WR_SEND, passive, 5);
    active.complete();
    passive.complete();
    assert_string_equal(passive.block, "sent");
    std::memcpy(active.block, "written", 8);
    active.post(IBV_WR_RDMA_WRITE, passive, 8);
    active.complete();
    assert_string_equal(passive.block, "written");
    std::memset(active.block, 0, sizeof active.block);
    active.post(IBV_WR_RDMA_READ, passive, 8);
    active.complete();
    assert_string_equal(active.block, "written");
}

TEST(connect__accepted__data_flows_then_both_disconnect) {
    Device left;
    Device right;
    sluice_cm_id* listener = listen(right);
    {
        Side active(left);
        Side passive(right);
        assert_int_equal(connect(active, right,
                                 [&] {
                                     sluice_cm_params params = params_for(active.qp);
                                     params.private_data = "ask";
                                     params.private_data_len = 4;
                                     return params;
                                 }()),
                         0);
        const Taken request = take(right.channel);
        assert_int_equal(request.type, SLUICE_CM_CONNECT_REQUEST);
        assert_ptr_equal(request.listen_id, listener);
        assert_string_equal(request.data.data(), "ask");
        assert_int_equal(request.qp_num, active.qp->qp_num);
        const auto& peer = reinterpret_cast<const sockaddr_in&>(request.peer);
        assert_int_equal(peer.sin_addr.s_addr, at(left.address.c_str(), 0).sin_addr.s_addr);
        assert_int_equal(ntohs(peer.sin_port), sluice_cm_local_port(active.id));
        passive.id = request.id;
        assert_int_equal(sluice_cm_set_context(passive.id, &passive), 0);
        sluice_cm_params params = params_for(passive.qp);
        params.private_data = "answer";
        params.private_data_len = 7;
        assert_int_equal(sluice_cm_accept(passive.id, &params, sizeof params), 0);
        passive.receive();
        const Taken answer = take(left.channel);
        assert_int_equal(answer.type, SLUICE_CM_ESTABLISHED);
        assert_string_equal(answer.data.data(), "answer");
        const Taken established = take(right.channel);
        assert_int_equal(established.type, SLUICE_CM_ESTABLISHED);
        assert_ptr_equal(established.id_context, &passive);
        exchange(active, passive);
        passive.receive();
        assert_int_equal(sluice_cm_disconnect(active.id), 0);
        assert_int_equal(take(right.channel).type, SLUICE_CM_DISCONNECTED);
        assert_int_equal(passive.wait().status, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(take(left.channel).type, SLUICE_CM_DISCONNECTED);
        assert_int_equal(active.state(), IBV_QPS_ERR);
        assert_int_equal(passive.state(), IBV_QPS_ERR);
    }
    assert_int_equal(sluice_cm_destroy_id(listener), 0);
}

// The other process: this program, started again with the address to connect to.
int be_client(const char* server) {
    Device device;
    Side side(device);
    assert_int_equal(sluice_cm_create_id(device.channel, SLUICE_CM_TCP, nullptr, &side.id), 0);
    const sockaddr_in address = at(server, kPort);
    const sluice_cm_params params = params_for(side.qp);
    assert_int_equal(sluice_cm_connect(side.id, plain(address), &params, sizeof params), 0);
    if (take(device.channel).type != SLUICE_CM_ESTABLISHED) {
        return 1;
    }
    std::memcpy(side.block, "from afar", 10);
    side.post(IBV_WR_SEND, side, 10);
    const bool sent = side.wait().status == IBV_WC_SUCCESS;
    return sent && take(device.channel).type == SLUICE_CM_DISCONNECTED ? 0 : 1;
}

// This program again, as ROLE; it connects to DEVICE.
pid_t start_as(const char* role, const Device& device) {
    const pid_t started = fork();
    if (started == 0) {
        execl("/proc/self/exe", role, device.address.c_str(), nullptr);
        _exit(127);
    }
    return started;
}
int wait_for(pid_t process) {
    int status = -1;
    assert_int_equal(waitpid(process, &status, 0), process);
    return status;
}

TEST(connect__from_another_process__data_flows) {
    Device device;
    sluice_cm_id* listener = listen(device);
    const pid_t client = start_as("client", device);
    {
        Side side(device);
        side.id = take(device.channel).id;
        side.receive_before_accept();
        const sluice_cm_params params = params_for(side.qp);
        assert_int_equal(sluice_cm_accept(side.id, &params, sizeof params), 0);
        assert_int_equal(take(device.channel).type, SLUICE_CM_ESTABLISHED);
        side.complete();
        assert_string_equal(side.block, "from afar");
        assert_int_equal(sluice_cm_disconnect(side.id), 0);
        assert_int_equal(take(device.channel).type, SLUICE_CM_DISCONNECTED);
    }
    assert_int_equal(wait_for(client), 0);
    assert_int_equal(sluice_cm_destroy_id(listener), 0);
}

#ifdef SLUICE_UNDER_SANITIZER
constexpr int kHastyClients = 50;
#else
constexpr int kHastyClients = 500;
#endif

// The other process again: it disconnects as soon as it has a message.
int be_hasty_clients(const char* server) {
    Device device;
    for (int i = 0; i < kHastyClients; ++i) {
        Side side(device);
        assert_int_equal(sluice_cm_create_id(device.channel, SLUICE_CM_TCP, nullptr, &side.id), 0);
        const sockaddr_in address = at(server, kPort);
        const sluice_cm_params params = params_for(side.qp);
        if (sluice_cm_connect(side.id, plain(address), &params, sizeof params) != 0 ||
            take(device.channel).type != SLUICE_CM_ESTABLISHED) {
            return 1;
        }
        side.receive();
        if (side.wait().status != IBV_WC_SUCCESS || sluice_cm_disconnect(side.id) != 0 ||
            take(device.channel).type != SLUICE_CM_DISCONNECTED) {
            return 1;
        }
    }
    return 0;
}

// The acknowledgement takes another way than the message that ends the connection, and comes first.
TEST(disconnect__right_after_a_message__that_was_acknowledged) {
    Device device;
    sluice_cm_id* listener = listen(device);
    const pid_t clients = start_as("hasty clients", device);
    for (int i = 0; i < kHastyClients; ++i) {
        Side side(device);
        side.id = take(device.channel).id;
        const sluice_cm_params params = params_for(side.qp);
        assert_int_equal(sluice_cm_accept(side.id, &params, sizeof params), 0);
        assert_int_equal(take(device.channel).type, SLUICE_CM_ESTABLISHED);
        side.post(IBV_WR_SEND, side, 8);
        assert_int_equal(take(device.channel).type, SLUICE_CM_DISCONNECTED);
        side.complete();
    }
    assert_int_equal(wait_for(clients), 0);
    assert_int_equal(sluice_cm_destroy_id(listener), 0);
}

TEST(connect__to_the_own_device__data_flows) {
    Device device;
    sluice_cm_id* listener = listen(device);
    {
        Side active(device);
        Side passive(device);
        assert_int_equal(connect(active, device, params_for(active.qp)), 0);
        const Taken request = take(device.channel);
        passive.id = request.id;
        passive.receive_before_accept();
        const sluice_cm_params params = params_for(passive.qp);
        assert_int_equal(sluice_cm_accept(passive.id, &params, sizeof params), 0);
        assert_ptr_equal(take(device.channel).id, active.id);
        assert_ptr_equal(take(device.channel).id, passive.id);
        exchange(active, passive);
    }
    assert_int_equal(sluice_cm_destroy_id(listener), 0);
}

TEST(connect__rejected_or_refused__status) {
    Device left;
    Device right;
    sluice_cm_id* listener = listen(right);
    {
        Side active(left);
        assert_int_equal(connect(active, right, params_for(active.qp)), 0);
        const Taken request = take(right.channel);
        assert_int_equal(sluice_cm_reject(request.id, 0, "no", 3), 0);
        assert_int_equal(sluice_cm_destroy_id(request.id), 0);
        const Taken event = take(left.channel);
        assert_int_equal(event.type, SLUICE_CM_REJECTED);
        assert_int_equal(event.status, SLUICE_CM_STATUS_CONSUMER);
        assert_string_equal(event.data.data(), "no");
    }
    {
        Side active(left);
        assert_int_equal(connect(active, right, params_for(active.qp), kPort + 1), 0);
        assert_int_equal(take(left.channel).status, SLUICE_CM_STATUS_REFUSED);
    }
    {
        Side active(left);
        sluice_cm_params params = params_for(active.qp);
        params.timeout_ms = 30;
        const sockaddr_in nowhere = at(sluice::test::Loopback::instance().next_address().c_str(), kPort);
        assert_int_equal(sluice_cm_create_id(left.channel, SLUICE_CM_TCP, nullptr, &active.id), 0);
        assert_int_equal(sluice_cm_connect(active.id, plain(nowhere), &params, sizeof params), 0);
        const Taken event = take(left.channel);
        assert_int_equal(event.type, SLUICE_CM_UNREACHABLE);
        assert_int_equal(event.status, ETIMEDOUT);
    }
    assert_int_equal(sluice_cm_destroy_id(listener), 0);
}

// As an emulation of librdmacm's kernel side does it.
TEST(connect__caller_leads_its_queue_pair__data_flows) {
    Device left;
    Device right;
    sluice_cm_id* listener = listen(right);
    {
        Side active(left);
        Side passive(right);
        sluice_cm_params params = params_for(nullptr);
        params.qp_num = active.qp->qp_num;
        assert_int_equal(connect(active, right, params), 0);
        const Taken request = take(right.channel);
        passive.id = request.id;
        for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
            passive.move_to(state);
        }
        passive.receive();
        params.qp_num = passive.qp->qp_num;
        assert_int_equal(sluice_cm_accept(passive.id, &params, sizeof params), 0);
        assert_int_equal(take(left.channel).type, SLUICE_CM_CONNECT_RESPONSE);
        for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
            active.move_to(state);
        }
        assert_int_equal(sluice_cm_establish(active.id), 0);
        assert_int_equal(take(right.channel).type, SLUICE_CM_ESTABLISHED);
        exchange(active, passive);
    }
    assert_int_equal(sluice_cm_destroy_id(listener), 0);
}

TEST(connect__many_times__nothing_left_behind) {
#ifdef SLUICE_UNDER_SANITIZER
    constexpr int kCycles = 300;
#else
    constexpr int kCycles = 3000;
#endif
    Device left;
    Device right;
    sluice_cm_id* listener = listen(right);
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kCycles; ++i) {
        Side active(left);
        Side passive(right);
        assert_int_equal(connect(active, right, params_for(active.qp)), 0);
        passive.id = take(right.channel).id;
        const sluice_cm_params params = params_for(passive.qp);
        assert_int_equal(sluice_cm_accept(passive.id, &params, sizeof params), 0);
        assert_int_equal(take(left.channel).type, SLUICE_CM_ESTABLISHED);
        assert_int_equal(take(right.channel).type, SLUICE_CM_ESTABLISHED);
        active.post(IBV_WR_RDMA_WRITE, passive, 8);
        active.complete();
        assert_int_equal(sluice_cm_disconnect(active.id), 0);
        assert_int_equal(take(right.channel).type, SLUICE_CM_DISCONNECTED);
        assert_int_equal(take(left.channel).type, SLUICE_CM_DISCONNECTED);
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::printf("%d connections made, used and ended in %.2f s\n", kCycles, took.count());
    assert_int_equal(sluice_cm_destroy_id(listener), 0);
}

TEST(connect__a_thousand_at_once__all_carry_data) {
#ifdef SLUICE_UNDER_SANITIZER
    constexpr std::size_t kCount = 100;
#else
    constexpr std::size_t kCount = 1000;
#endif
    Device left;
    Device right;
    sluice_cm_id* listener = nullptr;
    assert_int_equal(sluice_cm_create_id(right.channel, SLUICE_CM_TCP, nullptr, &listener), 0);
    const sockaddr_in address = at("0.0.0.0", kPort);
    assert_int_equal(sluice_cm_listen(listener, plain(address), kCount), 0);
    {
        std::vector<std::unique_ptr<Side>> active;
        std::vector<std::unique_ptr<Side>> passive;
        for (std::size_t i = 0; i < kCount; ++i) {
            active.push_back(std::make_unique<Side>(left));
            assert_int_equal(connect(*active.back(), right, params_for(active.back()->qp)), 0);
        }
        for (std::size_t established = 0; established < kCount;) {
            const Taken event = take(right.channel);
            if (event.type == SLUICE_CM_CONNECT_REQUEST) {
                passive.push_back(std::make_unique<Side>(right));
                passive.back()->id = event.id;
                passive.back()->receive_before_accept();
                const sluice_cm_params params = params_for(passive.back()->qp);
                assert_int_equal(sluice_cm_accept(event.id, &params, sizeof params), 0);
                // Its answer lets the active side go on.
                assert_int_equal(take(left.channel).type, SLUICE_CM_ESTABLISHED);
            } else {
                assert_int_equal(event.type, SLUICE_CM_ESTABLISHED);
                ++established;
            }
        }
        for (auto& side : active) {
            std::memcpy(side->block, "hello", 6);
            side->post(IBV_WR_SEND, *side, 6);
            side->complete();
        }
        for (auto& side : passive) {
            side->complete();
            assert_string_equal(side->block, "hello");
        }
    }
    assert_int_equal(sluice_cm_destroy_id(listener), 0);
}

// Both sides in many threads, on one channel each.
TEST(connect__from_many_threads__each_carries_data) {
    constexpr int kThreads = 4, kEach = 25;
    Device left;
    Device right;
    sluice_cm_id* listener = listen(right);
    std::atomic<int> ended{0};
    const auto serve = [&] {
        while (ended < kThreads * kEach) {
            sluice_cm_event* event = nullptr;
            if (sluice_cm_get_event(right.channel, 5, &event) != 0) {
                continue;
            }
            sluice_cm_id* id = event->id;
            auto* side = static_cast<Side*>(event->id_context);
            const std::uint32_t type = event->type;
            if (type == SLUICE_CM_CONNECT_REQUEST) {
                side = new Side(right);
                side->id = id;
                assert_int_equal(sluice_cm_set_context(id, side), 0);
                side->receive_before_accept();
                const sluice_cm_params params = params_for(side->qp);
                assert_int_equal(sluice_cm_accept(id, &params, sizeof params), 0);
            }
            sluice_cm_ack_event(event);
            if (type == SLUICE_CM_DISCONNECTED) {
                delete side;
                ++ended;
            }
        }
    };
    const auto ask = [&] {
        sluice_cm_channel* channel = nullptr;
        assert_int_equal(sluice_cm_create_channel(left.context, &channel), 0);
        for (int i = 0; i < kEach; ++i) {
            Side side(left);
            assert_int_equal(connect(side, right, params_for(side.qp)), 0);
            assert_int_equal(sluice_cm_migrate_id(side.id, channel), 0);
            assert_int_equal(take(channel).type, SLUICE_CM_ESTABLISHED);
            side.post(IBV_WR_SEND, side, 8);
            side.complete();
            assert_int_equal(sluice_cm_disconnect(side.id), 0);
            assert_int_equal(take(channel).type, SLUICE_CM_DISCONNECTED);
            assert_int_equal(sluice_cm_destroy_id(side.id), 0);
            side.id = nullptr;
        }
        assert_int_equal(sluice_cm_destroy_channel(channel), 0);
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
        threads.emplace_back(serve);
        threads.emplace_back(ask);
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    assert_int_equal(sluice_cm_destroy_id(listener), 0);
}

TEST(calls__on_nothing_or_after_fork__errno) {
    sluice_cm_channel* channel = nullptr;
    sluice_cm_id* id = nullptr;
    sluice_cm_event* event = nullptr;
    Device device;
    sluice_cm_params params = params_for(nullptr);
    const sockaddr_in address = at(device.address.c_str(), kPort);
    assert_int_equal(sluice_cm_create_channel(nullptr, &channel), EINVAL);
    assert_int_equal(sluice_cm_create_channel(device.context, nullptr), EINVAL);
    assert_int_equal(sluice_cm_destroy_channel(nullptr), EINVAL);
    assert_int_equal(sluice_cm_channel_fd(nullptr), -1);
    assert_int_equal(sluice_cm_get_event(nullptr, 0, &event), EINVAL);
    assert_int_equal(sluice_cm_get_event(device.channel, 0, nullptr), EINVAL);
    assert_int_equal(sluice_cm_get_event(device.channel, 0, &event), EAGAIN);
    sluice_cm_ack_event(nullptr);
    assert_int_equal(sluice_cm_create_id(device.channel, 1, nullptr, &id), EINVAL);
    assert_int_equal(sluice_cm_create_id(device.channel, SLUICE_CM_TCP, nullptr, nullptr), EINVAL);
    assert_int_equal(sluice_cm_create_id(device.channel, SLUICE_CM_TCP, nullptr, &id), 0);
    assert_int_equal(sluice_cm_migrate_id(id, nullptr), EINVAL);
    assert_int_equal(sluice_cm_listen(id, nullptr, 0), EINVAL);
    assert_int_equal(sluice_cm_connect(id, nullptr, &params, sizeof params), EINVAL);
    assert_int_equal(sluice_cm_connect(id, plain(address), nullptr, sizeof params), EINVAL);
    assert_int_equal(sluice_cm_connect(id, plain(address), &params, 8), EINVAL);
    params.private_data_len = 1;
    assert_int_equal(sluice_cm_connect(id, plain(address), &params, sizeof params), EINVAL);
    assert_int_equal(sluice_cm_accept(id, &params, sizeof params), EINVAL);
    assert_int_equal(sluice_cm_reject(id, 1 << 16, nullptr, 0), EINVAL);
    assert_int_equal(sluice_cm_reject(id, 0, nullptr, 1), EINVAL);
    assert_int_equal(sluice_cm_disconnect(id), EINVAL);
    assert_int_equal(sluice_cm_establish(id), EINVAL);
    assert_int_equal(sluice_cm_notify(id), EINVAL);
    assert_int_equal(sluice_cm_qp_attr(id, nullptr, nullptr), EINVAL);
    assert_int_equal(sluice_cm_local_port(id), 0);
    const pid_t child = sluice::uroce::test::quiet_fork();
    if (child == 0) {
        sluice_cm_channel* its_own = nullptr;
        const bool refused = sluice_cm_disconnect(id) == EIO && sluice_cm_destroy_id(id) == EIO &&
                             sluice_cm_get_event(device.channel, -1, &event) == EIO &&
                             sluice_cm_create_channel(device.context, &its_own) == EIO;
        _exit(refused ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(sluice_cm_destroy_id(id), 0);
}

} // namespace

int main(int argc, char** argv) {
    if (argc == 2) {
        return std::string(argv[0]) == "client" ? be_client(argv[1]) : be_hasty_clients(argv[1]);
    }
    return sluice::test::run_all_tests("uroce.connect.programs");
}
