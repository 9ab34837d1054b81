// SPDX-License-Identifier: BSD-3-Clause
//
// Events of both kinds, completion queues in all their forms, and requests that are built piece by piece.
#include <endian.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include "tests/unit/uroce/opened.hpp"
#include "tests/unit/uroce/stranger.hpp"

using namespace sluice::uroce::test;

namespace {

struct ChannelCloser {
    void operator()(ibv_comp_channel* channel) const {
        assert_int_equal(ibv_destroy_comp_channel(channel), 0);
    }
};
using Channel = std::unique_ptr<ibv_comp_channel, ChannelCloser>;

Channel make_channel(ibv_context* context) {
    auto made = sluice::uroce::verbs::create_comp_channel(context);
    assert_true(made.ok());
    return Channel(*made);
}

bool readable(int fd) {
    pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
    return poll(&entry, 1, 0) == 1;
}

// Reads one event, that must be of CQ.
void read_event(ibv_comp_channel* channel, ibv_cq* cq) {
    assert_true(readable(channel->fd));
    ibv_cq* got = nullptr;
    void* its_context = nullptr;
    assert_int_equal(ibv_get_cq_event(channel, &got, &its_context), 0);
    assert_ptr_equal(got, cq);
    ibv_ack_cq_events(got, 1);
}

// Two ends of one context, of which the left completes into a channel.
struct Watched {
    Watched()
        : context(open_uroce()), channel(make_channel(context.get())),
          left(context.get(), {.channel = channel.get()}), right(context.get()) {
        connect(left, right);
    }
    int write(unsigned flags = IBV_SEND_SIGNALED) {
        return left.send(IBV_WR_RDMA_WRITE, left.sge(0, 8), right, 0, flags);
    }
    void expect_event(ibv_cq* cq) const { read_event(channel.get(), cq); }

    OpenContext context;
    Channel channel;
    End left;
    End right;
};

TEST(completion_event__armed__comes_once) {
    Watched pair;
    assert_int_equal(pair.write(), 0);
    assert_false(readable(pair.channel->fd));
    assert_int_equal(ibv_req_notify_cq(pair.left.cq, 0), 0);
    assert_false(readable(pair.channel->fd)); // what was there before doesn't count
    assert_int_equal(pair.write(), 0);
    assert_int_equal(pair.write(), 0);
    pair.expect_event(pair.left.cq);
    assert_false(readable(pair.channel->fd));
}

// The receive is done before the send that brings it, and programs that share a channel between queues rely
// on such an order.
TEST(completion_events__of_two_queues__come_in_the_order_of_completions) {
    const OpenContext context(open_uroce());
    const Channel channel(make_channel(context.get()));
    End from(context.get(), {.channel = channel.get()});
    End to(context.get(), {.channel = channel.get()});
    connect(from, to);
    for (int i = 0; i < 3; ++i) {
        assert_int_equal(to.receive(to.sge(0, 64)), 0);
        for (ibv_cq* cq : {from.cq, to.cq}) {
            assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
        }
        assert_int_equal(from.send(IBV_WR_SEND, from.sge(0, 8), to), 0);
        read_event(channel.get(), to.cq);
        read_event(channel.get(), from.cq);
        assert_int_equal(to.wait().opcode, IBV_WC_RECV);
        assert_int_equal(from.wait().opcode, IBV_WC_SEND);
    }
}

TEST(completion_event__solicited_only__comes_for_those_and_for_errors) {
    Watched pair;
    ibv_comp_channel* channel = pair.channel.get();
    End to(pair.context.get(), {.channel = channel});
    bring_up(to.qp, pair.right.qp->qp_num, pair.right.gid);
    assert_int_equal(modify(pair.right.qp, {}, IBV_QPS_RESET, IBV_QP_STATE), 0);
    bring_up(pair.right.qp, to.qp->qp_num, to.gid);
    for (int i = 0; i < 3; ++i) {
        assert_int_equal(to.receive(to.sge(0, 64)), 0);
    }
    assert_int_equal(ibv_req_notify_cq(to.cq, 1), 0);
    assert_int_equal(pair.right.send(IBV_WR_SEND, pair.right.sge(0, 8), to), 0);
    assert_false(readable(channel->fd));
    assert_int_equal(
        pair.right.send(IBV_WR_SEND, pair.right.sge(0, 8), to, 0, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED), 0);
    pair.expect_event(to.cq);
    assert_int_equal(ibv_req_notify_cq(to.cq, 1), 0);
    assert_int_equal(modify(to.qp, {}, IBV_QPS_ERR, IBV_QP_STATE), 0);
    pair.expect_event(to.cq); // the flushed receive
}

TEST(completion_events__unread_when_the_queue_goes__go_with_it) {
    Watched pair;
    {
        End other(pair.context.get(), {.channel = pair.channel.get()});
        bring_up(other.qp, other.qp->qp_num, other.gid);
        for (ibv_cq* cq : {pair.left.cq, other.cq}) {
            assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
        }
        assert_int_equal(other.send(IBV_WR_RDMA_WRITE, other.sge(0, 8), other), 0);
        assert_int_equal(pair.write(), 0);
        assert_int_equal(ibv_destroy_comp_channel(pair.channel.get()), EBUSY);
    } // doesn't wait for what nobody has read
    pair.expect_event(pair.left.cq);
    assert_false(readable(pair.channel->fd));
}

TEST(completion_events__more_than_fit__the_queue_stays_armed) {
    Watched pair;
    int told = 0;
    for (int i = 0; i < 400; ++i) {
        assert_int_equal(ibv_req_notify_cq(pair.left.cq, 0), 0);
        assert_int_equal(pair.write(), 0);
        assert_int_equal(pair.left.wait().status, IBV_WC_SUCCESS);
    }
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    for (; readable(pair.channel->fd); ++told) {
        assert_int_equal(ibv_get_cq_event(pair.channel.get(), &cq, &context), 0);
    }
    assert_true(told >= 200 && told < 400);
    assert_int_equal(pair.write(), 0); // armed since the last that didn't fit
    assert_int_equal(ibv_get_cq_event(pair.channel.get(), &cq, &context), 0);
    ibv_ack_cq_events(cq, static_cast<unsigned>(told) + 1);
}

// A program that is woken may end at once, and what hasn't left by then never does.
TEST(completion_event__of_a_message__comes_after_its_acknowledgement) {
    constexpr int kMessages = 300;
    const OpenContext context(open_uroce());
    const Channel channel(make_channel(context.get()));
    End end(context.get(), {.channel = channel.get()});
    const Address own = address_of(end.gid);
    const Address peer = *socket::parse_address(own_address(1).c_str());
    const Stranger stranger(peer, own, wire::kRocePort);
    union ibv_gid peer_gid {};
    std::ranges::copy(peer.gid, peer_gid.raw);
    bring_up(end.qp, 7, peer_gid);
    wire::Packet message;
    message.bth.opcode = wire::kRcSendOnly;
    message.bth.ack_request = true;
    message.bth.dest_qpn = end.qp->qp_num;
    message.bth.psn = 0xfffffe;
    for (int i = 0; i < kMessages; ++i) {
        assert_int_equal(end.receive(end.sge(0, 64)), 0);
        assert_int_equal(ibv_req_notify_cq(end.cq, 0), 0);
        stranger.send(stranger.forge(message, 32));
        pollfd event{.fd = channel->fd, .events = POLLIN, .revents = 0};
        assert_int_equal(poll(&event, 1, -1), 1);
        assert_true(stranger.has_answer());
        ibv_cq* cq = nullptr;
        void* its_context = nullptr;
        assert_int_equal(ibv_get_cq_event(channel.get(), &cq, &its_context), 0);
        ibv_ack_cq_events(cq, 1);
        assert_int_equal(end.wait().status, IBV_WC_SUCCESS);
        message.bth.psn = wire::psn_add(message.bth.psn, 1);
    }
}

TEST(channel__of_either_mode__reads_as_the_program_wants) {
    Watched pair;
    assert_int_equal(fcntl(pair.channel->fd, F_SETFL, O_NONBLOCK), 0);
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    assert_int_equal(ibv_get_cq_event(pair.channel.get(), &cq, &context), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(ibv_req_notify_cq(pair.left.cq, 0), 0);
    assert_int_equal(pair.write(), 0);
    pair.expect_event(pair.left.cq);
}

// The device's thread may be about to tell.
ibv_async_event next_event(ibv_context* context) {
    ibv_async_event event{};
    assert_int_equal(ibv_get_async_event(context, &event), 0);
    return event;
}

TEST(async_event__peer_touches_what_it_may_not__access_error) {
    Connected pair(Where::kTwoDevices);
    pair.right.renew_region(IBV_ACCESS_LOCAL_WRITE);
    assert_int_equal(pair.left.send(IBV_WR_RDMA_WRITE, pair.left.sge(0, 8), pair.right), 0);
    assert_int_equal(pair.left.wait().status, IBV_WC_REM_ACCESS_ERR);
    ibv_async_event event = next_event(pair.second.get());
    assert_int_equal(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
    assert_ptr_equal(event.element.qp, pair.right.qp);
    ibv_ack_async_event(&event);
    assert_false(readable(pair.first->async_fd));
}

TEST(async_event__unread__goes_with_its_queue_pair) {
    Connected pair(Where::kTwoDevices);
    pair.right.renew_region(IBV_ACCESS_LOCAL_WRITE);
    assert_int_equal(pair.left.send(IBV_WR_RDMA_WRITE, pair.left.sge(0, 8), pair.right), 0);
    assert_true(readable(pair.second->async_fd));
    assert_int_equal(ibv_destroy_qp(pair.right.qp), 0);
    pair.right.qp = nullptr;
    assert_false(readable(pair.second->async_fd));
}

// Queue pairs of one shared queue, each of which has had its last request.
struct Ended {
    static constexpr std::size_t kCount = 600; // more than the descriptor holds

    Ended() : context(open_uroce()), end(context.get(), kOptions) {}
    ~Ended() {
        for (ibv_qp* qp : qps) {
            assert_int_equal(ibv_destroy_qp(qp), 0);
        }
    }
    Ended(const Ended&) = delete;
    Ended& operator=(const Ended&) = delete;
    // The context tells which it is.
    void end_all() {
        for (std::size_t i = 0; i < kCount; ++i) {
            qps.push_back(end.make_qp(kOptions));
            qps.back()->qp_context = reinterpret_cast<void*>(i);
            bring_up(qps.back(), 2, end.gid);
            assert_int_equal(modify(qps.back(), {}, IBV_QPS_ERR, IBV_QP_STATE), 0);
        }
    }

    static constexpr EndOptions kOptions = {.with_srq = true};
    OpenContext context;
    End end;
    std::vector<ibv_qp*> qps;
};

TEST(async_events__hundreds__none_is_lost) {
    Ended ended;
    ended.end_all();
    for (ibv_qp* const qp : ended.qps) {
        ibv_async_event event = next_event(ended.context.get());
        assert_int_equal(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
        assert_ptr_equal(event.element.qp, qp);
        ibv_ack_async_event(&event);
    }
    assert_false(readable(ended.context->async_fd));
}

TEST(async_events__two_readers__each_comes_to_one) {
    Ended ended;
    ibv_context* const context = ended.context.get();
    assert_int_equal(fcntl(context->async_fd, F_SETFL, O_NONBLOCK), 0);
    const int all_read = eventfd(0, EFD_CLOEXEC);
    assert_true(all_read >= 0);
    std::array<std::atomic<int>, Ended::kCount> seen{};
    std::atomic<std::size_t> total = 0;
    const auto read_events = [&] {
        std::array<pollfd, 2> waited = {{{context->async_fd, POLLIN, 0}, {all_read, POLLIN, 0}}};
        while (poll(waited.data(), waited.size(), -1) > 0 && waited[1].revents == 0) {
            ibv_async_event event{};
            if (ibv_get_async_event(context, &event) != 0) {
                continue; // the other one was first
            }
            ++seen[reinterpret_cast<std::size_t>(event.element.qp->qp_context)];
            ibv_ack_async_event(&event);
            if (++total == Ended::kCount) {
                (void)eventfd_write(all_read, 1);
            }
        }
    };
    std::thread first(read_events);
    std::thread second(read_events);
    ended.end_all();
    first.join();
    second.join();
    assert_true(std::ranges::all_of(seen, [](const std::atomic<int>& times) { return times == 1; }));
    assert_false(readable(context->async_fd));
    close(all_read);
}

TEST(completion_queue__too_small__fails_with_all_its_queue_pairs) {
    const OpenContext context(open_uroce());
    EndOptions options;
    options.cqe = 2;
    End left(context.get(), options), right(context.get());
    ibv_qp* bystander = left.make_qp(options);
    connect(left, right);
    bring_up(bystander, 2, left.gid);
    for (int i = 0; i < 3; ++i) {
        assert_int_equal(left.send(IBV_WR_RDMA_WRITE, left.sge(0, 8), right), 0);
    }
    ibv_async_event event = next_event(context.get());
    assert_int_equal(event.event_type, IBV_EVENT_CQ_ERR);
    assert_ptr_equal(event.element.cq, left.cq);
    ibv_ack_async_event(&event);
    assert_false(readable(context->async_fd)); // once
    assert_int_equal(left.state(), IBV_QPS_ERR);
    assert_int_equal(left.wait().wr_id, 1);
    assert_int_equal(left.wait().wr_id, 2);
    ibv_wc wc{};
    assert_true(ibv_poll_cq(left.cq, 1, &wc) < 0); // the third was lost, and nothing comes any more
    std::swap(left.qp, bystander);
    assert_int_equal(left.state(), IBV_QPS_ERR);
    std::swap(left.qp, bystander);
    assert_int_equal(right.state(), IBV_QPS_RTS);
    assert_int_equal(ibv_destroy_qp(bystander), 0);
}

TEST(srq_limit__reached__tells_once) {
    EndOptions options;
    options.with_srq = true;
    Connected pair(Where::kTwoContexts, options);
    for (std::uint64_t i = 0; i < 4; ++i) {
        assert_int_equal(pair.right.receive(pair.right.sge(0, 64), i), 0);
    }
    ibv_srq_attr attr{};
    attr.srq_limit = 3;
    assert_int_equal(ibv_modify_srq(pair.right.srq, &attr, IBV_SRQ_LIMIT), 0);
    for (int i = 0; i < 4; ++i) {
        assert_int_equal(pair.left.send(IBV_WR_SEND, pair.left.sge(0, 8), pair.right), 0);
        assert_true(readable(pair.second->async_fd) == (i >= 1));
    }
    ibv_async_event event = next_event(pair.second.get());
    assert_int_equal(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
    assert_ptr_equal(event.element.srq, pair.right.srq);
    ibv_ack_async_event(&event);
    assert_false(readable(pair.second->async_fd));
}

TEST(send_queue__drained__holds_until_it_goes_on) {
    Connected pair(Where::kOneContext, {}, {.min_rnr_timer = 1});
    // One that waits for its receive, and so is on its way.
    assert_int_equal(pair.left.send(IBV_WR_SEND, pair.left.sge(0, 8), pair.right), 0);
    ibv_qp_attr attr{};
    attr.en_sqd_async_notify = 1;
    assert_int_equal(modify(pair.left.qp, attr, IBV_QPS_SQD, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
    assert_int_equal(pair.left.send(IBV_WR_RDMA_WRITE, pair.left.sge(0, 8), pair.right), 0);
    ibv_qp_init_attr init{};
    assert_int_equal(ibv_query_qp(pair.left.qp, &attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(attr.qp_state, IBV_QPS_SQD);
    assert_int_equal(attr.sq_draining, 1);
    assert_false(readable(pair.first->async_fd));
    assert_int_equal(pair.right.receive(pair.right.sge(0, 64)), 0);
    assert_int_equal(pair.left.wait().opcode, IBV_WC_SEND);
    ibv_async_event event = next_event(pair.first.get());
    assert_int_equal(event.event_type, IBV_EVENT_SQ_DRAINED);
    ibv_ack_async_event(&event);
    assert_int_equal(ibv_query_qp(pair.left.qp, &attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(attr.sq_draining, 0);
    assert_true(pair.left.idle()); // the write is held
    attr = {};
    attr.retry_cnt = 3;
    assert_int_equal(modify(pair.left.qp, attr, IBV_QPS_SQD, IBV_QP_STATE | IBV_QP_RETRY_CNT), 0);
    assert_int_equal(modify(pair.left.qp, attr, IBV_QPS_RTS, IBV_QP_STATE), 0);
    assert_int_equal(pair.left.wait().opcode, IBV_WC_RDMA_WRITE);
    assert_int_equal(ibv_query_qp(pair.left.qp, &attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(attr.retry_cnt, 3);
}

TEST(resize__with_completions_inside__keeps_them) {
    Watched pair;
    for (int i = 0; i < 5; ++i) {
        assert_int_equal(pair.write(), 0);
    }
    assert_int_equal(ibv_resize_cq(pair.left.cq, 4), EINVAL);
    assert_int_equal(ibv_resize_cq(pair.left.cq, 0), EINVAL);
    assert_int_equal(ibv_resize_cq(pair.left.cq, 1000), 0);
    assert_int_equal(pair.left.cq->cqe, 1000);
    for (std::uint64_t i = 1; i <= 5; ++i) {
        assert_int_equal(pair.left.wait().wr_id, i);
    }
}

TEST(cq_ex__polled_piece_by_piece__says_the_same) {
    const OpenContext context(open_uroce());
    ibv_cq_init_attr_ex init{};
    init.cqe = 16;
    init.wc_flags = IBV_WC_STANDARD_FLAGS;
    init.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    init.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
    ibv_cq_ex* cq = ibv_create_cq_ex(context.get(), &init);
    assert_non_null(cq);
    {
        End left(context.get()), right(context.get());
        // Both with the queue of the right kind.
        assert_int_equal(ibv_destroy_qp(right.qp), 0);
        ibv_cq* plain = std::exchange(right.cq, ibv_cq_ex_to_cq(cq));
        right.qp = right.make_qp({});
        right.cq = plain;
        connect(left, right);
        ibv_poll_cq_attr attr{};
        assert_int_equal(ibv_start_poll(cq, &attr), ENOENT);
        for (std::uint64_t i = 1; i <= 3; ++i) {
            assert_int_equal(right.receive(right.sge(0, 64), i), 0);
            ibv_sge sge = left.sge(0, 8 + i);
            ibv_send_wr wr{};
            wr.opcode = IBV_WR_SEND_WITH_IMM;
            wr.imm_data = htobe32(static_cast<std::uint32_t>(i));
            wr.sg_list = &sge;
            wr.num_sge = 1;
            assert_int_equal(left.post(wr), 0);
        }
        assert_int_equal(ibv_start_poll(cq, &attr), 0);
        for (std::uint64_t i = 1; i <= 3; ++i) {
            assert_int_equal(cq->status, IBV_WC_SUCCESS);
            assert_int_equal(cq->wr_id, i);
            assert_int_equal(ibv_wc_read_opcode(cq), IBV_WC_RECV);
            assert_int_equal(ibv_wc_read_byte_len(cq), 8 + i);
            assert_int_equal(ibv_wc_read_imm_data(cq), htobe32(static_cast<std::uint32_t>(i)));
            assert_int_equal(ibv_wc_read_wc_flags(cq), IBV_WC_WITH_IMM);
            assert_int_equal(ibv_wc_read_qp_num(cq), right.qp->qp_num);
            assert_int_equal(ibv_wc_read_src_qp(cq), 0);
            assert_int_equal(ibv_wc_read_vendor_err(cq), 0);
            assert_int_equal(ibv_wc_read_slid(cq), 0);
            assert_int_equal(ibv_wc_read_sl(cq), 0);
            assert_int_equal(ibv_wc_read_dlid_path_bits(cq), 0);
            assert_int_equal(ibv_next_poll(cq), i < 3 ? 0 : ENOENT);
        }
        ibv_end_poll(cq);
        assert_int_equal(ibv_start_poll(cq, &attr), ENOENT);
        attr.comp_mask = 1;
        assert_int_equal(ibv_start_poll(cq, &attr), EINVAL);
    }
    assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
    init.wc_flags = IBV_WC_EX_WITH_FLOW_TAG;
    assert_null(ibv_create_cq_ex(context.get(), &init));
    assert_int_equal(errno, EOPNOTSUPP);
}

std::uint64_t nanoseconds(clockid_t clock) {
    timespec now{};
    assert_int_equal(clock_gettime(clock, &now), 0);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

std::uint64_t raw_clock(ibv_context* context) {
    ibv_values_ex values{};
    values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK | 1U << 7; // the second doesn't exist
    assert_int_equal(ibv_query_rt_values_ex(context, &values), 0);
    assert_int_equal(values.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
    assert_int_equal(values.raw_clock.tv_sec, 0);
    return static_cast<std::uint64_t>(values.raw_clock.tv_nsec);
}

TEST(cq_ex__with_time_stamps__tells_when_each_completed) {
    const OpenContext context(open_uroce());
    ibv_device_attr_ex device{};
    assert_int_equal(ibv_query_device_ex(context.get(), nullptr, &device), 0);
    assert_int_equal(device.hca_core_clock, 1'000'000); // kHz
    assert_true(device.completion_timestamp_mask == ~std::uint64_t{0});
    ibv_cq_init_attr_ex init{};
    init.cqe = 4;
    init.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
    ibv_cq_ex* cq = ibv_create_cq_ex(context.get(), &init);
    assert_non_null(cq);
    {
        End left(context.get()), right(context.get());
        assert_int_equal(ibv_destroy_qp(left.qp), 0);
        ibv_cq* plain = std::exchange(left.cq, ibv_cq_ex_to_cq(cq));
        left.qp = left.make_qp({});
        left.cq = plain;
        connect(left, right);
        std::array<std::uint64_t, 4> raw{}, wall{};
        raw[0] = raw_clock(context.get());
        wall[0] = nanoseconds(CLOCK_REALTIME);
        for (std::size_t i = 1; i <= 3; ++i) {
            assert_int_equal(left.send(IBV_WR_RDMA_WRITE, left.sge(0, 8), right), 0);
            raw[i] = raw_clock(context.get()); // it has completed
            wall[i] = nanoseconds(CLOCK_REALTIME);
        }
        assert_int_equal(ibv_resize_cq(ibv_cq_ex_to_cq(cq), 40), 0);
        ibv_poll_cq_attr attr{};
        assert_int_equal(ibv_start_poll(cq, &attr), 0);
        for (std::size_t i = 1; i <= 3; ++i) {
            const std::uint64_t stamp = ibv_wc_read_completion_ts(cq);
            assert_true(raw[i - 1] <= stamp && stamp <= raw[i]);
            // Two clocks, read one after the other by a thread that may lose its processor between.
            constexpr std::uint64_t kBetweenNs = 5'000'000'000;
            const std::uint64_t wallclock = ibv_wc_read_completion_wallclock_ns(cq);
            assert_true(wall[0] <= wallclock + kBetweenNs && wallclock <= wall[i] + kBetweenNs);
            assert_int_equal(ibv_next_poll(cq), i < 3 ? 0 : ENOENT);
        }
        ibv_end_poll(cq);
    }
    assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

TEST(cq_ex__too_small__polling_ends_with_an_error) {
    const OpenContext context(open_uroce());
    ibv_cq_init_attr_ex init{};
    init.cqe = 2;
    ibv_cq_ex* cq = ibv_create_cq_ex(context.get(), &init);
    assert_non_null(cq);
    {
        End left(context.get()), right(context.get());
        assert_int_equal(ibv_destroy_qp(left.qp), 0);
        ibv_cq* plain = std::exchange(left.cq, ibv_cq_ex_to_cq(cq));
        left.qp = left.make_qp({});
        left.cq = plain;
        connect(left, right);
        for (int i = 0; i < 3; ++i) {
            assert_int_equal(left.send(IBV_WR_RDMA_WRITE, left.sge(0, 8), right), 0);
        }
        ibv_async_event event = next_event(context.get());
        assert_int_equal(event.event_type, IBV_EVENT_CQ_ERR);
        ibv_ack_async_event(&event);
        ibv_poll_cq_attr attr{};
        assert_int_equal(ibv_start_poll(cq, &attr), 0);
        assert_int_equal(cq->wr_id, 1);
        assert_int_equal(ibv_next_poll(cq), 0);
        assert_int_equal(cq->wr_id, 2);
        assert_int_equal(ibv_next_poll(cq), EIO);
        ibv_end_poll(cq);
        assert_int_equal(ibv_start_poll(cq, &attr), EIO);
    }
    assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

constexpr std::uint64_t kAllOps =
    IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
    IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW |
    IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_ATOMIC_WRITE;

EndOptions extended(std::uint64_t ops = kAllOps) {
    EndOptions options;
    options.wr_ops = ops;
    return options;
}

std::uint64_t word(const End& end, std::size_t offset) {
    std::uint64_t value = 0;
    std::memcpy(&value, end.block.data() + offset, sizeof value);
    return value;
}

TEST(wr_api__a_batch_of_everything__posts_in_order) {
    for (const Where where : kEverywhere) {
        Connected pair(where, extended());
        ibv_qp_ex* qp = ibv_qp_to_qp_ex(pair.left.qp);
        assert_non_null(qp);
        for (std::uint64_t i = 0; i < 3; ++i) {
            assert_int_equal(pair.right.receive(pair.right.sge(1024 * i, 1024), 100 + i), 0);
        }
        std::memset(pair.right.block.data() + 8192, 0, 64);
        const std::uint64_t value = 0x0102030405060708;
        ibv_wr_start(qp);
        qp->wr_flags = IBV_SEND_SIGNALED;
        qp->wr_id = 1;
        ibv_wr_send(qp);
        ibv_wr_set_sge(qp, pair.left.mr->lkey, pair.left.addr(), 100);
        qp->wr_id = 2;
        ibv_wr_send_imm(qp, htobe32(5));
        char text[] = "inline";
        ibv_wr_set_inline_data(qp, text, sizeof text);
        qp->wr_id = 3;
        ibv_wr_rdma_write_imm(qp, pair.right.mr->rkey, pair.right.addr(4096), htobe32(6));
        const ibv_sge list[2] = {pair.left.sge(0, 10), pair.left.sge(50, 20)};
        ibv_wr_set_sge_list(qp, 2, list);
        qp->wr_id = 4;
        ibv_wr_atomic_fetch_add(qp, pair.right.mr->rkey, pair.right.addr(8192), 17);
        ibv_wr_set_sge(qp, pair.left.mr->lkey, pair.left.addr(1024), 8);
        qp->wr_id = 5;
        ibv_wr_atomic_cmp_swp(qp, pair.right.mr->rkey, pair.right.addr(8192), 17, 99);
        ibv_wr_set_sge(qp, pair.left.mr->lkey, pair.left.addr(1032), 8);
        qp->wr_id = 6;
        ibv_wr_atomic_write(qp, pair.right.mr->rkey, pair.right.addr(8200), &value);
        qp->wr_id = 7;
        ibv_wr_rdma_read(qp, pair.right.mr->rkey, pair.right.addr(8200));
        ibv_wr_set_sge(qp, pair.left.mr->lkey, pair.left.addr(1040), 8);
        assert_true(pair.left.idle());
        assert_int_equal(ibv_wr_complete(qp), 0);
        const int opcodes[] = {IBV_WC_SEND,      IBV_WC_SEND,         IBV_WC_RDMA_WRITE, IBV_WC_FETCH_ADD,
                               IBV_WC_COMP_SWAP, IBV_WC_ATOMIC_WRITE, IBV_WC_RDMA_READ};
        for (std::uint64_t i = 1; i <= 7; ++i) {
            const ibv_wc wc = pair.left.wait();
            assert_int_equal(wc.status, IBV_WC_SUCCESS);
            assert_int_equal(wc.wr_id, i);
            assert_int_equal(wc.opcode, opcodes[i - 1]);
        }
        assert_int_equal(pair.right.wait().byte_len, 100);
        assert_int_equal(pair.right.wait().byte_len, sizeof text);
        assert_int_equal(pair.right.wait().byte_len, 30);
        assert_memory_equal(pair.right.block.data() + 1024, text, sizeof text);
        assert_memory_equal(pair.right.block.data() + 4106, pair.left.block.data() + 50, 20);
        assert_int_equal(word(pair.left, 1024), 0);
        assert_int_equal(word(pair.left, 1032), 17);
        assert_int_equal(word(pair.right, 8192), 99);
        assert_int_equal(word(pair.left, 1040), value);
    }
}

TEST(wr_api__an_error_in_the_batch__nothing_is_posted) {
    Connected pair(Where::kOneContext, extended());
    ibv_qp_ex* qp = ibv_qp_to_qp_ex(pair.left.qp);
    const auto expect = [&](int error, auto build) {
        ibv_wr_start(qp);
        qp->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_rdma_write(qp, pair.right.mr->rkey, pair.right.addr());
        ibv_wr_set_sge(qp, pair.left.mr->lkey, pair.left.addr(), 8);
        build();
        ibv_wr_rdma_write(qp, pair.right.mr->rkey, pair.right.addr());
        assert_int_equal(ibv_wr_complete(qp), error);
        if (error != 0) {
            assert_true(pair.left.idle());
        }
    };
    std::uint8_t bytes[300] = {};
    expect(EINVAL, [&] { ibv_wr_set_inline_data(qp, bytes, 257); });
    expect(EINVAL, [&] { ibv_wr_set_inline_data(qp, bytes, SIZE_MAX); });
    expect(EINVAL, [&] { qp->wr_flags = 1 << 9; });
    const std::vector<ibv_sge> five(5, pair.left.sge(0, 8));
    expect(EINVAL, [&] { ibv_wr_set_sge_list(qp, 5, five.data()); });
    expect(EINVAL, [&] { ibv_wr_atomic_fetch_add(qp, pair.right.mr->rkey, pair.right.addr(4), 1); });
    expect(EINVAL, [&] { // an atomic without its eight bytes
        ibv_wr_atomic_fetch_add(qp, pair.right.mr->rkey, pair.right.addr(0), 1);
    });
    const ibv_mw_bind_info info{};
    expect(EINVAL, [&] { ibv_wr_bind_mw(qp, nullptr, 0, &info); });
    expect(ENOMEM, [&] {
        for (int i = 0; i < 64; ++i) {
            ibv_wr_rdma_write(qp, pair.right.mr->rkey, pair.right.addr());
        }
    });
    ibv_wr_start(qp);
    ibv_wr_rdma_write(qp, pair.right.mr->rkey, pair.right.addr());
    ibv_wr_abort(qp);
    assert_true(pair.left.idle());
    expect(0, [] {});
    assert_int_equal(pair.left.wait().status, IBV_WC_SUCCESS);
    ibv_wr_start(qp);
    assert_int_equal(ibv_wr_complete(qp), 0);
}

TEST(wr_api__two_queue_pairs_at_once__neither_waits) {
    Connected pair(Where::kOneContext, extended());
    ibv_qp_ex* left = ibv_qp_to_qp_ex(pair.left.qp);
    ibv_qp_ex* right = ibv_qp_to_qp_ex(pair.right.qp);
    ibv_wr_start(left);
    ibv_wr_start(right);
    left->wr_flags = right->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(left, pair.right.mr->rkey, pair.right.addr());
    ibv_wr_rdma_write(right, pair.left.mr->rkey, pair.left.addr());
    assert_true(pair.left.idle());
    assert_int_equal(ibv_wr_complete(left), 0);
    assert_int_equal(ibv_wr_complete(right), 0);
    assert_int_equal(pair.left.wait().status, IBV_WC_SUCCESS);
    assert_int_equal(pair.right.wait().status, IBV_WC_SUCCESS);
}

TEST(wr_api__windows_and_datagrams__as_by_post_send) {
    Connected pair(Where::kOneContext, extended());
    ibv_mw* mw = ibv_alloc_mw(pair.left.pd, IBV_MW_TYPE_2);
    ibv_qp_ex* qp = ibv_qp_to_qp_ex(pair.left.qp);
    const ibv_mw_bind_info info{pair.left.mr, pair.left.addr(), 64, IBV_ACCESS_REMOTE_WRITE};
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_bind_mw(qp, mw, ibv_inc_rkey(mw->rkey), &info);
    ibv_wr_local_inv(qp, ibv_inc_rkey(mw->rkey));
    assert_int_equal(ibv_wr_complete(qp), 0);
    assert_int_equal(pair.left.wait().opcode, IBV_WC_BIND_MW);
    assert_int_equal(pair.left.wait().opcode, IBV_WC_LOCAL_INV);
    assert_int_equal(ibv_dealloc_mw(mw), 0);

    EndOptions options = extended(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM);
    options.type = IBV_QPT_UD;
    Connected datagrams(Where::kTwoDevices, options);
    ibv_ah_attr path{};
    path.is_global = 1;
    path.port_num = 1;
    path.grh.dgid = datagrams.right.gid;
    ibv_ah* ah = ibv_create_ah(datagrams.left.pd, &path);
    qp = ibv_qp_to_qp_ex(datagrams.left.qp);
    assert_int_equal(datagrams.right.receive(datagrams.right.sge(0, 1024)), 0);
    ibv_wr_start(qp);
    ibv_wr_send(qp);
    ibv_wr_set_sge(qp, datagrams.left.mr->lkey, datagrams.left.addr(), 10);
    assert_int_equal(ibv_wr_complete(qp), EINVAL); // whereto?
    ibv_wr_start(qp);
    ibv_wr_send(qp);
    ibv_wr_set_ud_addr(qp, ah, datagrams.right.qp->qp_num, kQkey);
    ibv_wr_set_sge(qp, datagrams.left.mr->lkey, datagrams.left.addr(), 10);
    assert_int_equal(ibv_wr_complete(qp), 0);
    assert_int_equal(datagrams.right.wait().byte_len, 50);
    assert_int_equal(ibv_destroy_ah(ah), 0);
    options.wr_ops = IBV_QP_EX_WITH_RDMA_WRITE;
    assert_null(datagrams.left.make_qp(options));
    assert_int_equal(errno, EOPNOTSUPP);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("uroce.verbs_events");
}
