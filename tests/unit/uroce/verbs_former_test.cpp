// SPDX-License-Identifier: BSD-3-Clause
//
// What queues still have of a queue pair that was destroyed or reset: nothing, as with adapters.
#include <sched.h>

#include <functional>
#include <thread>
#include <utility>

#include "tests/unit/uroce/opened.hpp"

using namespace sluice::uroce;
using namespace sluice::uroce::test;

namespace {

// A queue for the extended interface.
class Extended {
  public:
    explicit Extended(ibv_context* context, std::uint32_t flags = 0) {
        ibv_cq_init_attr_ex init{};
        init.cqe = 16;
        init.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
        init.flags = flags;
        init.wc_flags = IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
        cq_ = ibv_create_cq_ex(context, &init);
        assert_non_null(cq_);
    }
    ~Extended() { assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq_)), 0); }
    Extended(const Extended&) = delete;
    Extended& operator=(const Extended&) = delete;

    ibv_cq_ex* get() const { return cq_; }
    ibv_cq_ex* operator->() const { return cq_; }
    ibv_cq* plain() const { return ibv_cq_ex_to_cq(cq_); }
    int start() {
        ibv_poll_cq_attr attr{};
        return ibv_start_poll(cq_, &attr);
    }
    int next() { return ibv_next_poll(cq_); }
    void end() { ibv_end_poll(cq_); }

  private:
    ibv_cq_ex* cq_;
};

// A queue pair that writes to itself, and completes to the queue that it is made with.
class Looped {
  public:
    Looped(const End& end, ibv_cq* sends, ibv_cq* receives) : end_(end) {
        ibv_qp_init_attr init{};
        init.send_cq = sends;
        init.recv_cq = receives;
        init.cap = {8, 8, 1, 1, 0};
        init.qp_type = IBV_QPT_RC;
        qp_ = ibv_create_qp(end.pd, &init);
        assert_non_null(qp_);
        bring_up(qp_, qp_->qp_num, end.gid);
    }
    ~Looped() {
        if (qp_ != nullptr) {
            destroy();
        }
    }
    Looped(const Looped&) = delete;
    Looped& operator=(const Looped&) = delete;

    std::uint32_t number() const { return qp_->qp_num; }
    void destroy() { assert_int_equal(ibv_destroy_qp(std::exchange(qp_, nullptr)), 0); }
    void reset() const { assert_int_equal(modify(qp_, {}, IBV_QPS_RESET, IBV_QP_STATE), 0); }
    void break_down() const { assert_int_equal(modify(qp_, {}, IBV_QPS_ERR, IBV_QP_STATE), 0); }
    void receive(std::uint64_t id) const {
        ibv_sge into = end_.sge(4096, 64);
        ibv_recv_wr wr{};
        ibv_recv_wr* bad = nullptr;
        wr.wr_id = id;
        wr.sg_list = &into;
        wr.num_sge = 1;
        assert_int_equal(ibv_post_recv(qp_, &wr, &bad), 0);
    }
    // Has completed when the call returns.
    void post(ibv_wr_opcode opcode, std::uint64_t id) const {
        ibv_sge data = end_.sge(0, 8);
        ibv_send_wr wr{};
        ibv_send_wr* bad = nullptr;
        wr.wr_id = id;
        wr.opcode = opcode;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.sg_list = &data;
        wr.num_sge = 1;
        wr.wr.rdma.remote_addr = end_.addr(64);
        wr.wr.rdma.rkey = end_.mr->rkey;
        assert_int_equal(ibv_post_send(qp_, &wr, &bad), 0);
    }
    void write(std::uint64_t id) const { post(IBV_WR_RDMA_WRITE, id); }

  private:
    const End& end_;
    ibv_qp* qp_ = nullptr;
};

// What a plain queue shows next: its request's name, or 0 for none.
std::uint64_t poll(ibv_cq* cq) {
    ibv_wc wc{};
    return ibv_poll_cq(cq, 1, &wc) == 1 ? wc.wr_id : 0;
}

TEST(destroy__completions_not_polled__they_go_and_the_others_stay_in_order) {
    const OpenContext context(open_uroce());
    const End end(context.get());
    const Looped kept(end, end.cq, end.cq);
    Looped former(end, end.cq, end.cq);
    for (std::uint64_t id = 1; id <= 3; ++id) {
        former.write(id);
        kept.write(10 + id);
    }
    former.destroy();
    for (std::uint64_t id = 1; id <= 3; ++id) {
        assert_int_equal(poll(end.cq), 10 + id);
    }
    assert_int_equal(poll(end.cq), 0);
}

TEST(destroy__requests_that_were_flushed__go_too) {
    const OpenContext context(open_uroce());
    const End end(context.get());
    Looped former(end, end.cq, end.cq);
    former.receive(1);
    former.receive(2);
    former.break_down();
    former.destroy();
    assert_int_equal(poll(end.cq), 0);
}

TEST(destroy__two_queues__completions_go_from_both) {
    const OpenContext context(open_uroce());
    const End end(context.get());
    ibv_cq* const receives = ibv_create_cq(context.get(), 16, nullptr, nullptr, 0);
    assert_non_null(receives);
    {
        const Looped kept(end, receives, end.cq); // the other way round
        Looped former(end, end.cq, receives);
        for (const Looped& one : {std::cref(kept), std::cref(std::as_const(former))}) {
            one.receive(1);
            one.post(IBV_WR_SEND, 2);
        }
        former.destroy();
        assert_int_equal(poll(receives), 2);
        assert_int_equal(poll(receives), 0);
        assert_int_equal(poll(end.cq), 1);
        assert_int_equal(poll(end.cq), 0);
    }
    assert_int_equal(ibv_destroy_cq(receives), 0);
}

// The buffers that its messages took don't come back, and their places are free.
TEST(destroy__receives_of_a_shared_queue__their_places_are_free) {
    const OpenContext context(open_uroce());
    EndOptions options;
    options.with_srq = true;
    options.depth = 2;
    End end(context.get(), options);
    for (int round = 0; round < 3; ++round) {
        bring_up(end.qp, end.qp->qp_num, end.gid);
        for (std::uint64_t id = 1; id <= 2; ++id) {
            assert_int_equal(end.receive(end.sge(4096, 64), id), 0);
            assert_int_equal(end.send(IBV_WR_SEND, end.sge(0, 8), end), 0);
        }
        assert_int_equal(ibv_destroy_qp(end.qp), 0);
        assert_int_equal(poll(end.cq), 0);
        end.qp = end.make_qp(options);
        assert_non_null(end.qp);
    }
}

// An event that was sent stays, and finds nothing; the next one comes as always.
TEST(destroy__queue_that_has_sent_an_event__sends_the_next_one) {
    const OpenContext context(open_uroce());
    ibv_comp_channel* const channel = *sluice::uroce::verbs::create_comp_channel(context.get());
    {
        EndOptions options;
        options.channel = channel;
        const End end(context.get(), options);
        const Looped kept(end, end.cq, end.cq);
        Looped former(end, end.cq, end.cq);
        assert_int_equal(ibv_req_notify_cq(end.cq, 0), 0);
        former.write(1);
        former.destroy();
        for (std::uint64_t id : {0, 2}) {
            ibv_cq* cq = nullptr;
            void* cq_context = nullptr;
            assert_int_equal(ibv_get_cq_event(channel, &cq, &cq_context), 0);
            assert_ptr_equal(cq, end.cq);
            assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
            assert_int_equal(poll(cq), id);
            if (id == 0) {
                kept.write(2);
            }
        }
        ibv_ack_cq_events(end.cq, 2);
    }
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

TEST(destroy__queue_of_the_extended_interface__completions_and_their_times_go) {
    const OpenContext context(open_uroce());
    const End end(context.get());
    Extended cq(context.get());
    const Looped kept(end, cq.plain(), cq.plain());
    Looped former(end, cq.plain(), cq.plain());
    former.write(1);
    kept.write(11);
    former.write(2);
    kept.write(12);
    former.destroy();
    assert_int_equal(cq.start(), 0);
    assert_int_equal(cq->wr_id, 11);
    const std::uint64_t first = ibv_wc_read_completion_ts(cq.get());
    assert_int_equal(cq.next(), 0);
    assert_int_equal(cq->wr_id, 12);
    assert_int_equal(ibv_wc_read_qp_num(cq.get()), kept.number());
    assert_true(ibv_wc_read_completion_ts(cq.get()) > first);
    assert_int_equal(cq.next(), ENOENT);
    cq.end();
}

// The queue is the caller's from ibv_start_poll() to ibv_end_poll(), with or without a lock.
TEST(destroy_and_reset__while_the_caller_has_the_queue_open__only_the_current_completion_stays) {
    const OpenContext context(open_uroce());
    const End end(context.get());
    for (const std::uint32_t flags : {0U, std::uint32_t{IBV_CREATE_CQ_ATTR_SINGLE_THREADED}}) {
        for (const bool is_reset : {false, true}) {
            Extended cq(context.get(), flags);
            const Looped kept(end, cq.plain(), cq.plain());
            Looped former(end, cq.plain(), cq.plain());
            former.write(1);
            former.write(2);
            kept.write(11);
            former.write(3);
            assert_int_equal(cq.start(), 0);
            if (is_reset) {
                former.reset();
            } else {
                former.destroy();
            }
            assert_int_equal(cq->wr_id, 1);
            assert_int_equal(ibv_wc_read_opcode(cq.get()), IBV_WC_RDMA_WRITE);
            assert_int_equal(cq.next(), 0);
            assert_int_equal(cq->wr_id, 11);
            assert_int_equal(cq.next(), ENOENT);
            cq.end();
            assert_int_equal(cq.start(), ENOENT);
        }
    }
}

TEST(destroy__after_the_last_completion_of_an_open_queue__nothing_to_take) {
    const OpenContext context(open_uroce());
    const End end(context.get());
    Extended cq(context.get());
    Looped former(end, cq.plain(), cq.plain());
    former.write(1);
    assert_int_equal(cq.start(), 0);
    assert_int_equal(cq.next(), ENOENT);
    former.write(2);
    former.destroy();
    cq.end();
    assert_int_equal(cq.start(), ENOENT);
}

// However long that takes: with a limit to it, completions stay now and then on a busy machine.
TEST(destroy__while_another_thread_has_the_queue_open__takes_the_rest_when_that_is_done) {
    const OpenContext context(open_uroce());
    const End end(context.get());
    Extended cq(context.get());
    Looped former(end, cq.plain(), cq.plain());
    former.write(1);
    former.write(2);
    assert_int_equal(cq.start(), 0);
    std::thread other([&] { former.destroy(); });
    constexpr int kYields = 20'000;
    for (int i = 0; i < kYields; ++i) {
        assert_int_equal(cq->wr_id, 1);
        sched_yield();
    }
    cq.end();
    other.join();
    assert_int_equal(cq.start(), ENOENT);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("uroce.verbs_former");
}
