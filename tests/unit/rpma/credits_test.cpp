// SPDX-License-Identifier: BSD-3-Clause
//
// Where completions are counted (ADR 91), what could overrun a completion queue is refused, and nothing else.
#include <sluice/rpma.h>

#include <atomic>

#include "tests/unit/rpma/rpma.hpp"

using namespace sluice::rpma::test;

namespace {

#define again(call) assert_int_equal(call, RPMA_E_AGAIN) // NOLINT: CMocka tells the line only of a macro

constexpr int kOnError = RPMA_F_COMPLETION_ON_ERROR;

struct Sizes {
    std::uint32_t cq = 4;
    std::uint32_t rcq = 0;
    std::uint32_t sq = 32;
    std::uint32_t rq = 32;
};

struct CreditsConfig : Config {
    explicit CreditsConfig(const Sizes& sizes, bool counted = true) {
        must(rpma_conn_cfg_set_cq_size(cfg, sizes.cq));
        must(rpma_conn_cfg_set_rcq_size(cfg, sizes.rcq));
        must(rpma_conn_cfg_set_sq_size(cfg, sizes.sq));
        must(rpma_conn_cfg_set_rq_size(cfg, sizes.rq));
        must(rpma_conn_cfg_set_cq_credits(cfg, counted));
    }
};

// Two hosts, and a connection of which the client counts.
struct Pair {
    explicit Pair(const rpma_conn_cfg* cfg) : conn(client, server, cfg), remote(server.as_remote()) {}
    explicit Pair(const Sizes& sizes) : Pair(CreditsConfig(sizes).cfg) {}
    ~Pair() { assert_int_equal(rpma_mr_remote_delete(&remote), 0); }
    Pair(const Pair&) = delete;
    Pair& operator=(const Pair&) = delete;

    int write(int flags = kAlways) const {
        return rpma_write(conn.client, remote, 0, client.mr, 0, 8, flags, nullptr);
    }
    int receive() const { return rpma_recv(conn.client, client.mr, 64, 8, nullptr); }
    ibv_wc take() const { return sluice::rpma::test::take(cq_of(conn.client)); }
    void take_success() const { assert_int_equal(take().status, IBV_WC_SUCCESS); }

    Host client{0};
    Host server{1};
    Connected conn;
    rpma_mr_remote* remote;
};

TEST(cq_credits__queue_may_be_full__refused_until_a_completion_is_taken) {
    const Pair pair(Sizes{.cq = 2});
    must(pair.write());
    must(pair.write());
    again(pair.write());
    pair.take_success();
    must(pair.write());
    again(pair.write());
    pair.take_success();
    pair.take_success();
    ibv_wc wc{};
    assert_int_equal(rpma_cq_get_wc(cq_of(pair.conn.client), 1, &wc, nullptr), RPMA_E_NO_COMPLETION);
}

// Programs that know better rely on it.
TEST(cq_credits__not_asked_for__nothing_is_refused) {
    const CreditsConfig config({.cq = 2}, false);
    const Pair pair(config.cfg);
    for (int i = 0; i < 8; ++i) {
        must(pair.receive());
    }
}

TEST(cq_credits__without_a_completion__kept_until_a_later_one_is_taken) {
    const Pair pair(Sizes{.cq = 4});
    for (int round = 0; round < 50; ++round) {
        must(pair.write(kOnError));
        must(pair.write(kOnError));
        must(pair.write(kOnError));
        must(pair.write());
        again(pair.write());
        again(pair.write(kOnError));
        pair.take_success();
    }
}

TEST(cq_credits__several_groups__each_gives_back_its_own) {
    const Pair pair(Sizes{.cq = 6});
    must(pair.write(kOnError));
    must(pair.write());
    must(pair.write(kOnError));
    must(pair.write(kOnError));
    must(pair.write());
    must(pair.write());
    again(pair.write());
    pair.take_success(); // and the one before it
    must(pair.write());
    must(pair.write());
    again(pair.write());
    pair.take_success(); // and two before it
    must(pair.write());
    must(pair.write());
    must(pair.write());
    again(pair.write());
}

TEST(cq_credits__receives_complete_in_the_same_queue__counted_with_it) {
    const Pair pair(Sizes{.cq = 3});
    must(pair.receive());
    must(pair.receive());
    must(pair.write());
    again(pair.receive());
    again(pair.write());
    must(rpma_send(pair.conn.server, pair.server.mr, 0, 8, kAlways, nullptr));
    pair.take_success();
    must(pair.receive());
    again(pair.write());
}

TEST(cq_credits__receives_have_a_queue_of_their_own__counted_apart) {
    const Pair pair(Sizes{.cq = 1, .rcq = 2});
    must(pair.receive());
    must(pair.receive());
    again(pair.receive());
    must(pair.write());
    again(pair.write());
    must(rpma_send(pair.conn.server, pair.server.mr, 0, 8, kAlways, nullptr));
    rpma_cq* rcq = nullptr;
    must(rpma_conn_get_rcq(pair.conn.client, &rcq));
    assert_int_equal(take(rcq).status, IBV_WC_SUCCESS);
    again(pair.write());
    must(pair.receive());
}

TEST(cq_credits__request_to_connect__its_receives_are_counted) {
    const Host client(0);
    const Host server(1);
    const Listening listening(server);
    const CreditsConfig config({.cq = 2});
    rpma_conn_req* request = nullptr;
    must(
        rpma_conn_req_new(client.peer, server.address.c_str(), listening.port.c_str(), config.cfg, &request));
    must(rpma_conn_req_recv(request, client.mr, 0, 8, nullptr));
    must(rpma_conn_req_recv(request, client.mr, 0, 8, nullptr));
    again(rpma_conn_req_recv(request, client.mr, 0, 8, nullptr));
    must(rpma_conn_req_delete(&request));
}

// Every way to post fills a queue for one completion.
TEST(cq_credits__each_kind_of_request__is_counted) {
    const Pair pair(Sizes{.cq = 1});
    rpma_conn* const conn = pair.conn.client;
    rpma_mr_local* const mr = pair.client.mr;
    rpma_mr_remote* const to = pair.remote;
    const rpma_piece piece{mr, 0, 8};
    const rpma_write_args args{to, 0, mr, 0, 8, kAlways, nullptr};
    const char value[8] = {};
    for (const auto& post : std::vector<std::function<int()>>{
             [&] { return rpma_read(conn, mr, 0, to, 0, 8, kAlways, nullptr); },
             [&] { return rpma_write(conn, to, 0, mr, 0, 8, kAlways, nullptr); },
             [&] { return rpma_write_pieces(conn, to, 0, &piece, 1, kAlways, nullptr); },
             [&] { return rpma_write_many(conn, &args, 1, nullptr); },
             [&] { return rpma_atomic_write(conn, to, 0, value, kAlways, nullptr); },
             [&] { return rpma_flush(conn, to, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY, kAlways, nullptr); },
             [&] { return rpma_write_with_imm(conn, to, 0, mr, 0, 8, kAlways, 1, nullptr); },
             [&] { return rpma_send(conn, mr, 0, 8, kAlways, nullptr); },
             [&] { return rpma_send_with_imm(conn, mr, 0, 8, kAlways, 1, nullptr); }}) {
        must(rpma_recv(pair.conn.server, pair.server.mr, 64, 8, nullptr));
        must(post());
        again(post());
        pair.take_success();
    }
}

TEST(cq_credits__room_for_some_of_many__none_is_posted) {
    const Pair pair(Sizes{.cq = 3});
    const std::vector<rpma_write_args> writes(
        4, rpma_write_args{pair.remote, 0, pair.client.mr, 0, 8, kOnError, nullptr});
    int posted = -1;
    again(rpma_write_many(pair.conn.client, writes.data(), 4, &posted));
    assert_int_equal(posted, 0);
    must(rpma_write_many(pair.conn.client, writes.data(), 2, &posted));
    must(pair.write());
    pair.take_success();
    must(rpma_write_many(pair.conn.client, writes.data(), 3, &posted));
}

// What the device has no room for gets no completion. All that it refuses here would be many times what the
// completion queue has room for.
TEST(cq_credits__device_refuses__credits_are_given_back) {
    const Pair pair(Sizes{.cq = RPMA_MAX_WRITES + 1, .sq = 4});
    std::vector<rpma_write_args> writes(
        RPMA_MAX_WRITES, rpma_write_args{pair.remote, 0, pair.client.mr, 0, 8, kOnError, nullptr});
    writes.front().flags = kAlways;
    int refused = 0;
    for (int i = 0; i < 20; ++i) {
        int posted = -1;
        const int code = rpma_write_many(pair.conn.client, writes.data(), RPMA_MAX_WRITES, &posted);
        assert_int_equal(code, posted == RPMA_MAX_WRITES ? 0 : RPMA_E_PROVIDER);
        refused += RPMA_MAX_WRITES - posted;
        if (posted > 0) {
            pair.take_success();
        }
        while (pair.write() == RPMA_E_PROVIDER) { // what was posted goes on meanwhile
        }
        pair.take_success();
    }
    assert_true(refused > RPMA_MAX_WRITES);
}

// Each of these fails, and none was asked to tell of success.
TEST(cq_credits__connection_ends__every_request_finds_room_for_its_error) {
    const Pair pair(Sizes{.cq = 8});
    must(rpma_conn_disconnect(pair.conn.client));
    int posted = 0;
    while (pair.receive() == 0) {
        ++posted;
    }
    assert_in_range(posted, 1, 8);
    for (int i = 0; i < posted; ++i) {
        assert_int_not_equal(pair.take().status, IBV_WC_SUCCESS);
    }
    must(pair.receive());
    pair.take();
}

TEST(cq_credits__write_fails__those_behind_it_are_counted_one_by_one) {
    const Pair pair(Sizes{.cq = 6});
    rpma_mr_local* fixed = nullptr;
    std::array<char, 64> memory{};
    must(rpma_mr_reg(pair.client.peer, memory.data(), memory.size(), RPMA_MR_USAGE_SEND, &fixed));
    must(pair.receive());
    must(pair.write(kOnError));
    must(
        rpma_read(pair.conn.client, fixed, 0, pair.remote, 0, 8, kOnError, nullptr)); // may not be written to
    must(pair.write(kOnError));
    must(pair.write());
    int failed = 0;
    while (failed < 4) { // the read, both writes behind it, and the receive
        failed += pair.take().status == IBV_WC_SUCCESS ? 0 : 1;
    }
    for (int i = 0; i < 20; ++i) { // the queue pair still takes what it can only flush
        must(pair.write());
        pair.take();
    }
    must(rpma_mr_dereg(&fixed));
}

struct SharedQueue {
    explicit SharedQueue(const Host& host, std::uint32_t rcq_size) {
        rpma_srq_cfg* cfg = nullptr;
        must(rpma_srq_cfg_new(&cfg));
        must(rpma_srq_cfg_set_rcq_size(cfg, rcq_size));
        must(rpma_srq_cfg_set_rcq_credits(cfg, rcq_size != 0));
        must(rpma_srq_new(host.peer, cfg, &srq));
        must(rpma_srq_cfg_delete(&cfg));
    }
    ~SharedQueue() { assert_int_equal(rpma_srq_delete(&srq), 0); }
    SharedQueue(const SharedQueue&) = delete;
    SharedQueue& operator=(const SharedQueue&) = delete;

    rpma_srq* srq = nullptr;
};

TEST(rcq_credits__shared_receives__refused_until_a_completion_is_taken) {
    const Host client(0);
    const Host server(1);
    const SharedQueue shared(server, 2);
    const Config config;
    must(rpma_conn_cfg_set_srq(config.cfg, shared.srq));
    const Connected conn(client, server, nullptr, config.cfg);
    must(rpma_srq_recv(shared.srq, server.mr, 0, 8, nullptr));
    must(rpma_srq_recv(shared.srq, server.mr, 0, 8, nullptr));
    again(rpma_srq_recv(shared.srq, server.mr, 0, 8, nullptr));
    must(rpma_send(conn.client, client.mr, 0, 8, kAlways, nullptr));
    rpma_cq* rcq = nullptr;
    must(rpma_srq_get_rcq(shared.srq, &rcq));
    assert_int_equal(take(rcq).status, IBV_WC_SUCCESS);
    must(rpma_srq_recv(shared.srq, server.mr, 0, 8, nullptr));
    again(rpma_srq_recv(shared.srq, server.mr, 0, 8, nullptr));
}

TEST(credits__nobody_can_count__invalid) {
    const Host host(0);
    const SharedQueue shared(host, 0);
    const CreditsConfig config({});
    must(rpma_conn_cfg_set_srq(config.cfg, shared.srq));
    rpma_conn_req* request = nullptr;
    assert_int_equal(rpma_conn_req_new(host.peer, host.address.c_str(), "7000", config.cfg, &request),
                     RPMA_E_INVAL);
    rpma_srq_cfg* cfg = nullptr;
    must(rpma_srq_cfg_new(&cfg));
    must(rpma_srq_cfg_set_rcq_size(cfg, 0));
    must(rpma_srq_cfg_set_rcq_credits(cfg, true));
    rpma_srq* srq = nullptr;
    assert_int_equal(rpma_srq_new(host.peer, cfg, &srq), RPMA_E_INVAL);
    must(rpma_srq_cfg_delete(&cfg));
}

TEST(credits__set__are_told) {
    const Config config;
    bool counted = true;
    must(rpma_conn_cfg_get_cq_credits(config.cfg, &counted));
    assert_false(counted);
    must(rpma_conn_cfg_set_cq_credits(config.cfg, true));
    must(rpma_conn_cfg_get_cq_credits(config.cfg, &counted));
    assert_true(counted);
    rpma_srq_cfg* cfg = nullptr;
    must(rpma_srq_cfg_new(&cfg));
    must(rpma_srq_cfg_get_rcq_credits(cfg, &counted));
    assert_false(counted);
    must(rpma_srq_cfg_set_rcq_credits(cfg, true));
    must(rpma_srq_cfg_get_rcq_credits(cfg, &counted));
    assert_true(counted);
    assert_int_equal(rpma_conn_cfg_set_cq_credits(nullptr, true), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_cfg_get_cq_credits(nullptr, &counted), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_cfg_get_cq_credits(config.cfg, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_srq_cfg_set_rcq_credits(nullptr, true), RPMA_E_INVAL);
    assert_int_equal(rpma_srq_cfg_get_rcq_credits(nullptr, &counted), RPMA_E_INVAL);
    assert_int_equal(rpma_srq_cfg_get_rcq_credits(cfg, nullptr), RPMA_E_INVAL);
    must(rpma_srq_cfg_delete(&cfg));
}

// Whatever the order in which two threads post and a third takes: no completion is lost, and in the end the
// whole queue is free.
TEST(cq_credits__threads_post_and_one_takes__nothing_is_lost) {
    constexpr int kEach = 2000;
    constexpr std::uint32_t kEntries = 8;
    const Pair pair(Sizes{.cq = kEntries, .sq = 64});
    std::atomic<int> running{2};
    const auto post = [&] {
        for (int i = 0; i < kEach; ++i) {
            int code = RPMA_E_AGAIN;
            while (code == RPMA_E_AGAIN) {
                code = pair.write(i % 3 == 0 ? kOnError : kAlways);
                if (code == RPMA_E_AGAIN) {
                    std::this_thread::yield();
                }
            }
            must(code);
        }
        --running;
    };
    std::thread first(post);
    std::thread second(post);
    constexpr int kSignalled = 2 * (kEach - (kEach + 2) / 3);
    for (int taken = 0; taken < kSignalled;) {
        ibv_wc wc{};
        const int code = rpma_cq_get_wc(cq_of(pair.conn.client), 1, &wc, nullptr);
        assert_true(code == 0 || code == RPMA_E_NO_COMPLETION);
        assert_true(code != 0 || wc.status == IBV_WC_SUCCESS);
        taken += code == 0 ? 1 : 0;
    }
    first.join();
    second.join();
    assert_int_equal(running, 0);
    must(pair.write()); // what was posted without a completion after the last one with it, is free with this
    pair.take_success();
    for (std::uint32_t i = 0; i < kEntries; ++i) {
        must(pair.write());
    }
    again(pair.write());
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
