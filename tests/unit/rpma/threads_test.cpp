// SPDX-License-Identifier: BSD-3-Clause
//
// What docs/threading.md promises: calls on one object from several threads at once. What is looked at is
// what the sanitizer for threads sees, and that nothing is lost.
#include <sluice/rpma.h>

#include "tests/cancelled.hpp"
#include "tests/unit/rpma/rpma.hpp"

using namespace sluice::rpma::test;

namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 200;

void run(const std::function<void(int)>& body) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
        threads.emplace_back(body, i);
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
}

TEST(configurations__set_and_read_by_all__keep_some_value) {
    const Config config;
    rpma_peer_cfg* peer_cfg = nullptr;
    must(rpma_peer_cfg_new(&peer_cfg));
    rpma_srq_cfg* srq_cfg = nullptr;
    must(rpma_srq_cfg_new(&srq_cfg));
    run([&](int number) {
        for (int i = 1; i <= kRounds; ++i) {
            const auto size = static_cast<std::uint32_t>(number * kRounds + i);
            std::uint32_t read = 0;
            bool flag = false;
            int timeout = 0;
            must(rpma_conn_cfg_set_cq_size(config.cfg, size));
            must(rpma_conn_cfg_get_cq_size(config.cfg, &read));
            assert_in_range(read, 1, kThreads * kRounds);
            must(rpma_conn_cfg_set_timeout(config.cfg, i));
            must(rpma_conn_cfg_get_timeout(config.cfg, &timeout));
            must(rpma_conn_cfg_set_compl_channel(config.cfg, i % 2 == 0));
            must(rpma_conn_cfg_get_compl_channel(config.cfg, &flag));
            must(rpma_peer_cfg_set_direct_write_to_pmem(peer_cfg, i % 2 == 0));
            must(rpma_peer_cfg_get_direct_write_to_pmem(peer_cfg, &flag));
            must(rpma_srq_cfg_set_rq_size(srq_cfg, size));
            must(rpma_srq_cfg_get_rq_size(srq_cfg, &read));
        }
    });
    must(rpma_srq_cfg_delete(&srq_cfg));
    must(rpma_peer_cfg_delete(&peer_cfg));
}

TEST(peer__regions_made_by_all__all_are) {
    Host host;
    run([&](int number) {
        char* const mine = host.block.data() + static_cast<std::size_t>(number) * 4096;
        for (int i = 0; i < kRounds; ++i) {
            rpma_mr_local* mr = nullptr;
            must(rpma_mr_reg(host.peer, mine, 4096, kAllUsages, &mr));
            std::array<char, 21> descriptor{};
            must(rpma_mr_get_descriptor(mr, descriptor.data()));
            rpma_mr_remote* remote = nullptr;
            must(rpma_mr_remote_from_descriptor(descriptor.data(), descriptor.size(), &remote));
            must(rpma_mr_remote_delete(&remote));
            must(rpma_mr_dereg(&mr));
        }
    });
}

void must_be_cancelled_in(const std::function<void()>& wait) {
    assert_true(sluice::test::is_cancelled_in(wait));
    assert_true(sluice::test::is_cancelled_asleep_in(wait));
}

// Each takes nothing with it: the next thread gets what comes.
TEST(waits__thread_cancelled__next_one_gets_what_comes) {
    Host left(0);
    Host right(1);
    const Config config;
    must(rpma_conn_cfg_set_rq_size(config.cfg, 4));
    {
        const Listening listening(right);
        rpma_conn_req* request = nullptr;
        must_be_cancelled_in([&] { (void)rpma_ep_next_conn_req(listening.ep, nullptr, &request); });
        assert_null(request);
    }
    const Connected pair(left, right, config.cfg, config.cfg);
    rpma_cq* const cq = cq_of(pair.server);
    ibv_wc wc{};
    must_be_cancelled_in([&] {
        rpma_conn_event event = RPMA_CONN_UNDEFINED;
        (void)rpma_conn_next_event(pair.server, &event);
    });
    must_be_cancelled_in([&] { (void)rpma_cq_wait(cq); });
    must_be_cancelled_in([&] { (void)rpma_cq_wait_wc(cq, 1, &wc, nullptr); });
    must(rpma_recv(pair.server, right.mr, 0, 64, nullptr));
    must(rpma_send(pair.client, left.mr, 0, 8, kAlways, nullptr));
    must(rpma_cq_wait_wc(cq, 1, &wc, nullptr));
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

// None of them is a place where a thread is cancelled.
TEST(calls_that_dont_wait__thread_cancelled__done) {
    Host left(0);
    Host right(1);
    const Config config;
    const Connected pair(left, right, config.cfg, config.cfg);
    (void)own_address(2); // chosen before
    assert_false(sluice::test::is_cancelled_in([&] {
        const Host third(2);
        must(rpma_recv(pair.server, right.mr, 0, 64, nullptr));
        must(rpma_send(pair.client, left.mr, 0, 8, kAlways, nullptr));
        ibv_wc wc{};
        while (rpma_cq_get_wc(cq_of(pair.server), 1, &wc, nullptr) == RPMA_E_NO_COMPLETION) {
            std::this_thread::yield();
        }
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        must(rpma_conn_disconnect(pair.client));
    }));
}

// One notification may be for several completions; each is somebody's nevertheless.
TEST(queue__waited_for_by_all__each_takes_one) {
    Host left(0);
    Host right(1);
    const Config config;
    must(rpma_conn_cfg_set_rq_size(config.cfg, kThreads));
    const Connected pair(left, right, config.cfg, config.cfg);
    for (int i = 0; i < kRounds; ++i) {
        for (int each = 0; each < kThreads; ++each) {
            must(rpma_recv(pair.server, right.mr, 0, 64, nullptr));
        }
        std::thread sender([&] {
            for (int each = 0; each < kThreads; ++each) {
                must(rpma_send(pair.client, left.mr, 0, 8, RPMA_F_COMPLETION_ON_ERROR, nullptr));
            }
        });
        run([&](int) {
            ibv_wc wc{};
            must(rpma_cq_wait_wc(cq_of(pair.server), 1, &wc, nullptr));
            assert_int_equal(wc.status, IBV_WC_SUCCESS);
        });
        sender.join();
    }
}

// Four writers, one who takes completions; and who asks the connection about itself.
TEST(connection__posted_to_by_all__every_request_completes) {
    Host left(0);
    const Host right(1);
    const Config config;
    must(rpma_conn_cfg_set_sq_size(config.cfg, kThreads * 16));
    must(rpma_conn_cfg_set_cq_size(config.cfg, kThreads * 32));
    const Connected pair(left, right, config.cfg);
    rpma_mr_remote* remote = right.as_remote();
    std::atomic<int> under_way{0};
    std::atomic<int> taken{0};
    constexpr int kAll = kThreads * kRounds * 4;
    std::thread taker([&] {
        ibv_wc wc{};
        while (taken < kAll) {
            const int code = rpma_cq_get_wc(cq_of(pair.client), 1, &wc, nullptr);
            if (code == 0) {
                assert_int_equal(wc.status, IBV_WC_SUCCESS);
                --under_way;
                ++taken;
            } else {
                assert_int_equal(code, RPMA_E_NO_COMPLETION);
                std::this_thread::yield();
            }
        }
    });
    rpma_peer_cfg* trusted = nullptr;
    must(rpma_peer_cfg_new(&trusted));
    must(rpma_peer_cfg_set_direct_write_to_pmem(trusted, true));
    run([&](int number) {
        const std::size_t at = static_cast<std::size_t>(number) * 4096;
        const auto wait_for_room = [&] {
            while (++under_way > kThreads * 8) {
                --under_way;
                std::this_thread::yield();
            }
        };
        const char value[8] = {'v'};
        for (int i = 0; i < kRounds; ++i) {
            wait_for_room();
            must(rpma_write(pair.client, remote, at, left.mr, at, 64, kAlways, nullptr));
            wait_for_room();
            must(rpma_flush(pair.client, remote, at, 64, RPMA_FLUSH_TYPE_VISIBILITY, kAlways, nullptr));
            wait_for_room();
            must(rpma_atomic_write(pair.client, remote, at + 128, value, kAlways, nullptr));
            wait_for_room();
            must(rpma_read(pair.client, left.mr, at + 256, remote, at, 64, kAlways, nullptr));
            rpma_conn_private_data data{};
            std::uint32_t qp_num = 0;
            int fd = -1;
            must(rpma_conn_get_private_data(pair.client, &data));
            must(rpma_conn_get_qp_num(pair.client, &qp_num));
            must(rpma_conn_get_event_fd(pair.client, &fd));
            must(rpma_conn_apply_remote_peer_cfg(pair.client, trusted));
        }
    });
    taker.join();
    must(rpma_peer_cfg_delete(&trusted));
    must(rpma_mr_remote_delete(&remote));
    for (int number = 0; number < kThreads; ++number) {
        assert_int_equal(right.block[static_cast<std::size_t>(number) * 4096 + 128], 'v');
    }
}

TEST(connections__made_and_ended_by_all__all_are) {
    const Host left(0);
    const Host right(1);
    const Listening listening(right);
    constexpr int kEach = 8;
    std::thread server([&] {
        for (int i = 0; i < kThreads * kEach; ++i) {
            rpma_conn_req* request = nullptr;
            must(rpma_ep_next_conn_req(listening.ep, nullptr, &request));
            rpma_conn* conn = nullptr;
            must(rpma_conn_req_connect(&request, nullptr, &conn));
            assert_int_equal(next_event(conn), RPMA_CONN_ESTABLISHED);
            assert_int_equal(next_event(conn), RPMA_CONN_CLOSED);
            must(rpma_conn_delete(&conn));
        }
    });
    run([&](int) {
        for (int i = 0; i < kEach; ++i) {
            rpma_conn_req* request = nullptr;
            must(rpma_conn_req_new(left.peer, right.address.c_str(), listening.port.c_str(), nullptr,
                                   &request));
            rpma_conn* conn = nullptr;
            must(rpma_conn_req_connect(&request, nullptr, &conn));
            assert_int_equal(next_event(conn), RPMA_CONN_ESTABLISHED);
            must(rpma_conn_disconnect(conn));
            assert_int_equal(next_event(conn), RPMA_CONN_CLOSED);
            must(rpma_conn_delete(&conn));
        }
    });
    server.join();
}

void swallow(rpma_log_level, const char*, const int, const char*, const char*, ...) {}

TEST(log__used_and_changed_by_all__no_harm) {
    run([](int number) {
        for (int i = 0; i < 20; ++i) {
            must(rpma_log_set_function(swallow));
            must(rpma_log_set_threshold(RPMA_LOG_THRESHOLD,
                                        i % 2 == 0 ? RPMA_LOG_LEVEL_ERROR : RPMA_LOG_LEVEL_INFO));
            rpma_log_level level = RPMA_LOG_DISABLED;
            must(rpma_log_get_threshold(RPMA_LOG_THRESHOLD, &level));
            ibv_context* context = nullptr;
            assert_int_equal(rpma_utils_get_ibv_context("", RPMA_UTIL_IBV_CONTEXT_LOCAL, &context),
                             RPMA_E_PROVIDER);
            assert_non_null(context_of(own_address(static_cast<unsigned>(number) % 2)));
        }
    });
    must(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_WARNING));
    must(rpma_log_set_function(RPMA_LOG_USE_DEFAULT_FUNCTION));
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
