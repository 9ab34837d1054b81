// SPDX-License-Identifier: BSD-3-Clause
//
// Several threads on devices of one process, and processes that fork.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/unit/uroce/opened.hpp"
#include "tests/unit/uroce/quiet_fork.hpp"

using namespace sluice::uroce::test;

namespace {

#ifdef SLUICE_UNDER_SANITIZER
constexpr int kRounds = 500;
#else
constexpr int kRounds = 5000;
#endif

// Each thread on its own connection; the devices are shared.
void write_and_read(End& from, End& to, std::atomic<int>& wrong) {
    for (int i = 0; i < kRounds && wrong == 0; ++i) {
        const auto len = static_cast<std::size_t>(1 + (i * 37) % 9000);
        const bool reads = i % 2 != 0;
        const int error = from.send(reads ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, from.sge(0, len), to, 0);
        const ibv_wc wc = from.wait();
        if (error != 0 || wc.status != IBV_WC_SUCCESS || wc.wr_id != from.sent ||
            std::memcmp(from.block.data(), to.block.data(), len) != 0) {
            ++wrong;
        }
        from.block[static_cast<std::size_t>(i) % len] ^= 0x5a;
    }
}

TEST(threads__on_two_devices_in_both_directions__nothing_is_mixed_up) {
    const OpenContext first(open_uroce(own_address(0))), second(open_uroce(own_address(1)));
    constexpr std::size_t kPairs = 4;
    std::vector<std::unique_ptr<End>> from, to;
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (std::size_t i = 0; i < kPairs; ++i) {
        from.push_back(std::make_unique<End>(i % 2 == 0 ? first.get() : second.get()));
        to.push_back(std::make_unique<End>(i % 2 == 0 ? second.get() : first.get()));
        connect(*from.back(), *to.back());
    }
    for (std::size_t i = 0; i < kPairs; ++i) {
        threads.emplace_back([&, i] { write_and_read(*from[i], *to[i], wrong); });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    assert_int_equal(wrong, 0);
}

// Sends from several threads through one queue pair, polled by another.
TEST(threads__one_queue_pair_and_one_queue__each_request_completes_once) {
    EndOptions options;
    options.depth = 512;
    options.cqe = 3 * kRounds; // all of them, as posting is quicker than polling
    Connected pair(Where::kTwoDevices, options);
    constexpr int kThreads = 3;
    const int each = kRounds / 4;
    std::atomic<int> posted{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < each;) {
                ibv_sge sge = pair.left.sge(static_cast<std::size_t>(t) * 8, 8);
                ibv_send_wr wr{};
                wr.wr_id = static_cast<unsigned>(t * each + i);
                wr.opcode = IBV_WR_RDMA_WRITE;
                wr.send_flags = IBV_SEND_SIGNALED;
                wr.sg_list = &sge;
                wr.num_sge = 1;
                wr.wr.rdma.remote_addr = pair.right.addr(static_cast<std::size_t>(t) * 8);
                wr.wr.rdma.rkey = pair.right.mr->rkey;
                ibv_send_wr* bad = nullptr;
                if (ibv_post_send(pair.left.qp, &wr, &bad) == 0) {
                    ++i;
                    ++posted;
                } else {
                    std::this_thread::yield();
                }
            }
        });
    }
    std::vector<int> seen(static_cast<std::size_t>(kThreads * each));
    for (int i = 0; i < kThreads * each; ++i) {
        const ibv_wc wc = pair.left.wait();
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        ++seen[wc.wr_id];
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    for (const int count : seen) {
        assert_int_equal(count, 1);
    }
    assert_int_equal(posted, kThreads * each);
}

TEST(threads__events_armed_and_awaited__none_is_missed) {
    const OpenContext context(open_uroce());
    ibv_comp_channel* channel = *sluice::uroce::verbs::create_comp_channel(context.get());
    {
        End left(context.get()), right(context.get(), {.channel = channel});
        connect(left, right);
        const int messages = kRounds / 5;
        std::atomic<int> received{0};
        std::thread receiver([&] {
            while (received < messages) {
                ibv_cq* cq = nullptr;
                void* cq_context = nullptr;
                if (ibv_get_cq_event(channel, &cq, &cq_context) != 0) {
                    return;
                }
                ibv_ack_cq_events(cq, 1);
                ibv_req_notify_cq(cq, 0);
                ibv_wc wc{};
                while (ibv_poll_cq(cq, 1, &wc) == 1) {
                    ++received;
                    right.receive(right.sge(0, 64));
                }
            }
        });
        assert_int_equal(ibv_req_notify_cq(right.cq, 0), 0);
        for (int i = 0; i < 32; ++i) {
            assert_int_equal(right.receive(right.sge(0, 64)), 0);
        }
        for (int i = 0; i < messages; ++i) {
            assert_int_equal(left.send(IBV_WR_SEND, left.sge(0, 8), right), 0);
            assert_int_equal(left.wait().status, IBV_WC_SUCCESS);
        }
        receiver.join();
        assert_int_equal(received, messages);
    }
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

TEST(threads__opening_and_closing_one_name__share_or_make_anew) {
    const std::string name = own_address(2);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
        threads.emplace_back([&wrong, &name] {
            for (int i = 0; i < 20; ++i) {
                auto opened = sluice::uroce::verbs::open_context(name.c_str());
                wrong += !opened.ok() || ibv_close_device(*opened) != 0 ? 1 : 0;
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    assert_int_equal(wrong, 0);
}

// What a child does with what its parent opened: every verb says no, and closing works.
int use_in_child(Connected& pair) {
    int wrong = 0;
    const auto expect = [&wrong](bool condition) { wrong += condition ? 0 : 1; };
    ibv_send_wr send{};
    ibv_send_wr* bad_send = nullptr;
    ibv_recv_wr receive{};
    ibv_recv_wr* bad_receive = nullptr;
    expect(ibv_post_send(pair.left.qp, &send, &bad_send) == EIO && bad_send == &send);
    expect(ibv_post_recv(pair.left.qp, &receive, &bad_receive) == EIO && bad_receive == &receive);
    ibv_wc wc{};
    expect(ibv_poll_cq(pair.left.cq, 1, &wc) == -EIO);
    expect(ibv_req_notify_cq(pair.left.cq, 0) == EIO);
    expect(ibv_resize_cq(pair.left.cq, 16) == EIO);
    expect(ibv_alloc_pd(pair.first.get()) == nullptr && errno == EIO);
    expect(ibv_reg_mr(pair.left.pd, pair.left.block.data(), 8, 0) == nullptr && errno == EIO);
    expect(ibv_alloc_mw(pair.left.pd, IBV_MW_TYPE_1) == nullptr && errno == EIO);
    expect(ibv_create_cq(pair.first.get(), 8, nullptr, nullptr, 0) == nullptr && errno == EIO);
    expect(pair.left.make_qp({}) == nullptr && errno == EIO);
    ibv_ah_attr path{};
    expect(ibv_create_ah(pair.left.pd, &path) == nullptr && errno == EIO);
    ibv_srq_init_attr srq{};
    expect(ibv_create_srq(pair.left.pd, &srq) == nullptr && errno == EIO);
    expect(modify(pair.left.qp, {}, IBV_QPS_ERR, IBV_QP_STATE) == EIO);
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    expect(ibv_query_qp(pair.left.qp, &attr, IBV_QP_STATE, &init) == EIO);
    ibv_device_attr device{};
    expect(ibv_query_device(pair.first.get(), &device) == 0);
    ibv_alloc_dm_attr wanted{.length = 64, .log_align_req = 0, .comp_mask = 0};
    ibv_dm* const dm = ibv_alloc_dm(pair.first.get(), &wanted);
    expect(dm != nullptr && ibv_free_dm(dm) == 0);
    ibv_port_attr port{};
    expect(ibv_query_port(pair.first.get(), 1, &port) == EIO);
    expect(!sluice::uroce::verbs::create_comp_channel(pair.first.get()).ok());
    ibv_qp_ex* qp = ibv_qp_to_qp_ex(pair.right.qp);
    ibv_wr_start(qp);
    ibv_wr_rdma_write(qp, 0, 0);
    expect(ibv_wr_complete(qp) == EIO);
    ibv_wr_start(qp);
    ibv_wr_abort(qp);
    return wrong;
}

int run_in_child(int (*body)(Connected& pair), Connected& pair) {
    const pid_t child = quiet_fork();
    if (child == 0) {
        _exit(body(pair));
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST(fork__in_the_child__every_verb_fails_and_the_parent_goes_on) {
    EndOptions options;
    options.wr_ops = IBV_QP_EX_WITH_RDMA_WRITE;
    Connected pair(Where::kTwoDevices, options);
    ibv_wr_start(ibv_qp_to_qp_ex(pair.right.qp)); // as if another thread were at it
    assert_int_equal(run_in_child(use_in_child, pair), 0);
    ibv_wr_abort(ibv_qp_to_qp_ex(pair.right.qp));
    assert_int_equal(pair.left.send(IBV_WR_RDMA_WRITE, pair.left.sge(0, 64), pair.right), 0);
    assert_int_equal(pair.left.wait().status, IBV_WC_SUCCESS);
    union ibv_gid gid {};
    assert_int_equal(ibv_query_gid(pair.first.get(), 1, 0, &gid), 0); // its files are still there
}

int close_and_open_in_child(Connected& pair) {
    if (ibv_destroy_qp(pair.left.qp) != 0 || ibv_destroy_cq(pair.left.cq) != 0 ||
        ibv_dereg_mr(pair.left.mr) != 0 || ibv_dealloc_pd(pair.left.pd) != 0) {
        return 1;
    }
    auto own = sluice::uroce::verbs::open_context(sluice::uroce::test::own_address().c_str());
    if (!own) {
        return 2;
    }
    {
        End end(*own);
        bring_up(end.qp, end.qp->qp_num, end.gid);
        if (end.send(IBV_WR_RDMA_WRITE, end.sge(0, 64), end, 128) != 0 || end.wait().status != 0) {
            return 3;
        }
    }
    return ibv_close_device(*own);
}

TEST(fork__child_gives_back_and_opens_its_own__works) {
#ifdef __SANITIZE_THREAD__
    skip(); // it follows no threads that begin in the child of a program with threads
#endif
    Connected pair(Where::kTwoDevices);
    assert_int_equal(run_in_child(close_and_open_in_child, pair), 0);
    union ibv_gid gid {};
    assert_int_equal(ibv_query_gid(pair.first.get(), 1, 0, &gid), 0);
}

int destroy_in_child(Connected& pair) {
    return ibv_destroy_qp(pair.right.qp) + ibv_destroy_cq(pair.right.cq);
}

TEST(fork__events_acknowledged_before__child_doesnt_wait_for_them) {
    Connected pair(Where::kTwoDevices);
    pair.right.renew_region(IBV_ACCESS_LOCAL_WRITE);
    assert_int_equal(pair.left.send(IBV_WR_RDMA_WRITE, pair.left.sge(0, 8), pair.right), 0);
    ibv_async_event event{};
    assert_int_equal(ibv_get_async_event(pair.second.get(), &event), 0);
    ibv_ack_async_event(&event);
    assert_int_equal(run_in_child(destroy_in_child, pair), 0);
}

int close_everything_in_child(Connected& pair) {
    ibv_context* first = pair.first.release();
    ibv_context* second = pair.second.release();
    return ibv_close_device(first) + ibv_close_device(second);
}

TEST(fork__child_closes__the_parents_files_stay) {
    Connected pair(Where::kTwoDevices);
    assert_int_equal(run_in_child(close_everything_in_child, pair), 0);
    union ibv_gid gid {};
    assert_int_equal(ibv_query_gid(pair.first.get(), 1, 0, &gid), 0);
    assert_int_equal(pair.left.send(IBV_WR_RDMA_WRITE, pair.left.sge(0, 64), pair.right), 0);
    assert_int_equal(pair.left.wait().status, IBV_WC_SUCCESS);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("uroce.verbs_threads");
}
