// SPDX-License-Identifier: BSD-3-Clause
//
// Completion queues and their channels, shared or not, and shared receive queues.
#include <fcntl.h>

#include "tests/unit/rpma/rpma.hpp"

using namespace sluice::rpma::test;

namespace {

int request_id = 0;

void set_non_blocking(int fd) {
    assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

rpma_cq* rcq_of(const rpma_conn* conn) {
    rpma_cq* rcq = nullptr;
    must(rpma_conn_get_rcq(conn, &rcq));
    return rcq;
}

struct SrqConfig {
    SrqConfig(std::uint32_t rq_size, std::uint32_t rcq_size) {
        must(rpma_srq_cfg_new(&cfg));
        must(rpma_srq_cfg_set_rq_size(cfg, rq_size));
        must(rpma_srq_cfg_set_rcq_size(cfg, rcq_size));
    }
    ~SrqConfig() { assert_int_equal(rpma_srq_cfg_delete(&cfg), 0); }
    SrqConfig(const SrqConfig&) = delete;
    SrqConfig& operator=(const SrqConfig&) = delete;
    rpma_srq_cfg* cfg = nullptr;
};

struct SharedReceives {
    SharedReceives(const Host& host, std::uint32_t rcq_size) {
        const SrqConfig srq_config(16, rcq_size);
        must(rpma_srq_new(host.peer, srq_config.cfg, &srq));
        must(rpma_conn_cfg_set_srq(config.cfg, srq));
    }
    ~SharedReceives() { assert_int_equal(rpma_srq_delete(&srq), 0); }
    SharedReceives(const SharedReceives&) = delete;
    SharedReceives& operator=(const SharedReceives&) = delete;

    Config config;
    rpma_srq* srq = nullptr;
};

TEST(rcq__not_asked_for__is_none) {
    const Host left(0);
    const Host right(1);
    const Connected pair(left, right);
    assert_null(rcq_of(pair.client));
}

TEST(rcq__asked_for__has_the_receives_alone) {
    const Host left(0);
    const Host right(1);
    const Config config;
    must(rpma_conn_cfg_set_rcq_size(config.cfg, 4));
    const Connected pair(left, right, config.cfg, config.cfg);
    assert_non_null(rcq_of(pair.server));
    must(rpma_recv(pair.server, right.mr, 0, 8, &request_id));
    must(rpma_send(pair.client, left.mr, 0, 8, kAlways, &request_id));
    assert_int_equal(take(rcq_of(pair.server)).opcode, IBV_WC_RECV);
    assert_int_equal(take(cq_of(pair.client)).opcode, IBV_WC_SEND);
    ibv_wc wc{};
    assert_int_equal(rpma_cq_get_wc(cq_of(pair.server), 1, &wc, nullptr), RPMA_E_NO_COMPLETION);
}

TEST(cq_wait__non_blocking_and_none_there__no_completion) {
    const Host left(0);
    const Host right(1);
    const Connected pair(left, right);
    int fd = -1;
    must(rpma_cq_get_fd(cq_of(pair.client), &fd));
    set_non_blocking(fd);
    assert_int_equal(rpma_cq_wait(cq_of(pair.client)), RPMA_E_NO_COMPLETION);
}

TEST(cq_wait__none_there__waits_for_it) {
    const Host left(0);
    const Host right(1);
    const Connected pair(left, right);
    must(rpma_recv(pair.server, right.mr, 0, 8, &request_id));
    int code = -1;
    std::thread waiter([&] { code = rpma_cq_wait(cq_of(pair.server)); });
    must(rpma_send(pair.client, left.mr, 0, 8, RPMA_F_COMPLETION_ON_ERROR, nullptr));
    waiter.join();
    must(code);
    must_complete(pair.server, &request_id, IBV_WC_RECV);
}

TEST(get_wc__several__gives_as_many_as_there_are) {
    const Host left(0);
    const Host right(1);
    const Connected pair(left, right);
    for (int i = 0; i < 3; ++i) {
        must(rpma_write(pair.client, nullptr, 0, nullptr, 0, 0, kAlways, &request_id));
    }
    std::array<ibv_wc, 8> wc{};
    int taken = 0;
    while (taken < 3) {
        int got = 0;
        const int code = rpma_cq_get_wc(cq_of(pair.client), 8, wc.data() + taken, &got);
        assert_true(code == 0 || code == RPMA_E_NO_COMPLETION);
        taken += got;
    }
    assert_int_equal(taken, 3);
    int untouched = -1;
    assert_int_equal(rpma_cq_get_wc(cq_of(pair.client), 8, wc.data(), &untouched), RPMA_E_NO_COMPLETION);
    assert_int_equal(untouched, -1);
}

// What verbs answer to a device that is gone, or broken. Their table of operations is public.
struct FakePoll {
    FakePoll(const Host& host, int (*poll)(ibv_cq*, int, ibv_wc*), int (*arm)(ibv_cq*, int))
        : ops(host.context->ops), before(ops) {
        ops.poll_cq = poll != nullptr ? poll : ops.poll_cq;
        ops.req_notify_cq = arm != nullptr ? arm : ops.req_notify_cq;
    }
    ~FakePoll() { ops = before; }
    FakePoll(const FakePoll&) = delete;
    FakePoll& operator=(const FakePoll&) = delete;
    ibv_context_ops& ops;
    const ibv_context_ops before;
};

int fail_to_poll(ibv_cq*, int, ibv_wc*) {
    return -EIO;
}
int give_too_many(ibv_cq*, int max, ibv_wc*) {
    return max + 1;
}
int fail_to_arm(ibv_cq*, int) {
    return EIO;
}

TEST(get_wc__device_fails_or_gives_too_many__told_apart) {
    const Host left(0);
    const Host right(1);
    const Connected pair(left, right);
    ibv_wc wc{};
    int got = -1;
    {
        const FakePoll fake(left, fail_to_poll, nullptr);
        assert_int_equal(rpma_cq_get_wc(cq_of(pair.client), 1, &wc, &got), RPMA_E_PROVIDER);
    }
    const FakePoll fake(left, give_too_many, nullptr);
    assert_int_equal(rpma_cq_get_wc(cq_of(pair.client), 1, &wc, &got), RPMA_E_UNKNOWN);
    assert_int_equal(got, -1);
}

TEST(get_wc__queue_has_overflowed__gives_what_it_kept_and_then_fails) {
    if (lab_address() != nullptr) {
        skip(); // the kernel's devices tell by an event alone
    }
    const Host left(0);
    const Host right(1);
    const Config config;
    must(rpma_conn_cfg_set_cq_size(config.cfg, 2));
    const Connected pair(left, right, config.cfg);
    rpma_mr_remote* remote = right.as_remote();
    for (int i = 0; i < 3; ++i) {
        must(rpma_write(pair.client, remote, 0, left.mr, 0, 8, kAlways, &request_id));
    }
    ibv_async_event event{};
    assert_int_equal(ibv_get_async_event(left.context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_CQ_ERR);
    ibv_ack_async_event(&event);
    ibv_wc wc{};
    must(rpma_cq_get_wc(cq_of(pair.client), 1, &wc, nullptr));
    must(rpma_cq_get_wc(cq_of(pair.client), 1, &wc, nullptr));
    assert_int_equal(rpma_cq_get_wc(cq_of(pair.client), 1, &wc, nullptr), RPMA_E_PROVIDER);
    must(rpma_mr_remote_delete(&remote));
}

TEST(waits__device_does_not_notify_again__provider_error) {
    const Host left(0);
    const Host right(1);
    const Config config;
    must(rpma_conn_cfg_set_compl_channel(config.cfg, true));
    const Connected own(left, right);
    const Connected shared(left, right, config.cfg);
    must(rpma_write(own.client, nullptr, 0, nullptr, 0, 0, kAlways, nullptr));
    must(rpma_write(shared.client, nullptr, 0, nullptr, 0, 0, kAlways, nullptr));
    const FakePoll fake(left, nullptr, fail_to_arm);
    assert_int_equal(rpma_cq_wait(cq_of(own.client)), RPMA_E_PROVIDER);
    rpma_cq* cq = nullptr;
    assert_int_equal(rpma_conn_wait(shared.client, 0, &cq, nullptr), RPMA_E_PROVIDER);
    assert_null(cq);
    rpma_conn_req* request = nullptr;
    assert_int_equal(rpma_conn_req_new(left.peer, right.address.c_str(), "4", nullptr, &request),
                     RPMA_E_PROVIDER);
}

TEST(shared_channel__either_queue__is_told_apart) {
    const Host left(0);
    const Host right(1);
    const Config config;
    must(rpma_conn_cfg_set_rcq_size(config.cfg, 4));
    must(rpma_conn_cfg_set_compl_channel(config.cfg, true));
    const Connected pair(left, right, config.cfg, config.cfg);
    int fd = -1;
    must(rpma_conn_get_compl_fd(pair.server, &fd));
    int of_queue = -1;
    must(rpma_cq_get_fd(rcq_of(pair.server), &of_queue));
    assert_int_equal(of_queue, fd);
    assert_int_equal(rpma_cq_wait(cq_of(pair.server)), RPMA_E_SHARED_CHANNEL);
    must(rpma_recv(pair.server, right.mr, 0, 8, &request_id));
    must(rpma_send(pair.client, left.mr, 0, 8, RPMA_F_COMPLETION_ON_ERROR, nullptr));
    wait_until_readable(fd);
    rpma_cq* cq = nullptr;
    bool is_rcq = false;
    must(rpma_conn_wait(pair.server, 0, &cq, &is_rcq));
    assert_true(is_rcq);
    assert_ptr_equal(cq, rcq_of(pair.server));
    ibv_wc wc{};
    must(rpma_cq_get_wc(cq, 1, &wc, nullptr));
    must(rpma_write(pair.server, nullptr, 0, nullptr, 0, 0, kAlways, nullptr));
    must(rpma_conn_wait(pair.server, RPMA_W_WAIT_FOR_COMPLETION, &cq, nullptr));
    assert_ptr_equal(cq, cq_of(pair.server));
    must(rpma_cq_get_wc(cq, 1, &wc, nullptr));
    set_non_blocking(fd);
    assert_int_equal(rpma_conn_wait(pair.server, 0, &cq, &is_rcq), RPMA_E_NO_COMPLETION);
}

TEST(shared_channel__not_asked_for__refused) {
    const Host left(0);
    const Host right(1);
    const Connected pair(left, right);
    int fd = -1;
    rpma_cq* cq = nullptr;
    assert_int_equal(rpma_conn_get_compl_fd(pair.client, &fd), RPMA_E_NOT_SHARED_CHNL);
    assert_int_equal(rpma_conn_wait(pair.client, 0, &cq, nullptr), RPMA_E_NOT_SHARED_CHNL);
    assert_int_equal(fd, -1);
    assert_null(cq);
}

TEST(srq__with_a_queue_of_its_own__takes_receives_of_all_connections) {
    const Host left(0);
    Host right(1);
    const SharedReceives shared(right, 8);
    rpma_cq* rcq = nullptr;
    must(rpma_srq_get_rcq(shared.srq, &rcq));
    assert_non_null(rcq);
    for (std::size_t i = 0; i < 2; ++i) {
        must(rpma_srq_recv(shared.srq, right.mr, i * 64, 64, &request_id));
    }
    const Connected first(left, right, nullptr, shared.config.cfg);
    const Connected second(left, right, nullptr, shared.config.cfg);
    assert_null(rcq_of(first.server)); // it is the shared queue's
    must(rpma_send(first.client, left.mr, 0, 10, kAlways, nullptr));
    must(rpma_send(second.client, left.mr, 0, 20, kAlways, nullptr));
    const ibv_wc one = take(rcq);
    const ibv_wc two = take(rcq);
    assert_int_equal(one.byte_len + two.byte_len, 30);
    std::uint32_t number = 0;
    must(rpma_conn_get_qp_num(one.byte_len == 10 ? first.server : second.server, &number));
    assert_int_equal(one.qp_num, number);
    assert_int_equal(rpma_recv(first.server, right.mr, 0, 8, nullptr), RPMA_E_PROVIDER);
}

TEST(srq__without_a_queue__receives_complete_at_their_connections) {
    const Host left(0);
    const Host right(1);
    const SharedReceives shared(right, 0);
    rpma_cq* rcq = nullptr;
    must(rpma_srq_get_rcq(shared.srq, &rcq));
    assert_null(rcq);
    must(rpma_srq_recv(shared.srq, nullptr, 0, 0, &request_id));
    const Connected pair(left, right, nullptr, shared.config.cfg);
    must(rpma_send(pair.client, nullptr, 0, 0, kAlways, nullptr));
    must_complete(pair.server, &request_id, IBV_WC_RECV);
}

TEST(srq__with_a_shared_channel__only_without_a_queue_of_its_own) {
    const Host left(0);
    const Host right(1);
    const SharedReceives own(left, 8);
    must(rpma_conn_cfg_set_compl_channel(own.config.cfg, true));
    rpma_conn_req* request = nullptr;
    assert_int_equal(rpma_conn_req_new(left.peer, right.address.c_str(), "4", own.config.cfg, &request),
                     RPMA_E_INVAL);
    assert_null(request);
    const SharedReceives none(left, 0);
    must(rpma_conn_cfg_set_compl_channel(none.config.cfg, true));
    must(rpma_conn_req_new(left.peer, right.address.c_str(), "4", none.config.cfg, &request));
    must(rpma_conn_req_delete(&request));
}

TEST(srq_recv__wrong_or_full__refused) {
    const Host host;
    const SharedReceives shared(host, 8);
    assert_int_equal(rpma_srq_recv(shared.srq, nullptr, 1, 0, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_srq_recv(shared.srq, nullptr, 0, 1, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_srq_recv(shared.srq, host.mr, 1, host.block.size(), nullptr), RPMA_E_INVAL);
    int code = 0;
    for (int i = 0; i < 256 && code == 0; ++i) {
        code = rpma_srq_recv(shared.srq, host.mr, 0, 8, nullptr);
    }
    assert_int_equal(code, RPMA_E_PROVIDER);
}

// What the device keeps keeps its domain, too.
TEST(srq_delete__a_connection_uses_it__provider_error) {
    const LossExpected loss;
    const Host host;
    const Config config;
    rpma_peer* peer = nullptr;
    must(rpma_peer_new(host.context, &peer));
    rpma_srq* srq = nullptr;
    must(rpma_srq_new(peer, nullptr, &srq));
    must(rpma_conn_cfg_set_srq(config.cfg, srq));
    rpma_srq* told = nullptr;
    must(rpma_conn_cfg_get_srq(config.cfg, &told));
    assert_ptr_equal(told, srq);
    rpma_conn_req* request = nullptr;
    must(rpma_conn_req_new(peer, host.address.c_str(), "4", config.cfg, &request));
    assert_int_equal(rpma_srq_delete(&srq), RPMA_E_PROVIDER);
    assert_null(srq);
    must(rpma_conn_req_delete(&request));
    assert_int_equal(rpma_peer_delete(&peer), RPMA_E_PROVIDER);
    assert_null(peer);
}

TEST(sizes__more_than_the_device_has__provider_error) {
    const Host host;
    rpma_conn_req* request = nullptr;
    for (const auto set : {rpma_conn_cfg_set_cq_size, rpma_conn_cfg_set_rcq_size, rpma_conn_cfg_set_sq_size,
                           rpma_conn_cfg_set_rq_size}) {
        const Config config;
        must(set(config.cfg, UINT32_MAX));
        assert_int_equal(rpma_conn_req_new(host.peer, host.address.c_str(), "4", config.cfg, &request),
                         RPMA_E_PROVIDER);
        assert_null(request);
    }
    rpma_srq* srq = nullptr;
    const SrqConfig too_many(UINT32_MAX, 0);
    assert_int_equal(rpma_srq_new(host.peer, too_many.cfg, &srq), RPMA_E_PROVIDER);
    const SrqConfig too_long(1, UINT32_MAX);
    assert_int_equal(rpma_srq_new(host.peer, too_long.cfg, &srq), RPMA_E_PROVIDER);
    assert_null(srq);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
