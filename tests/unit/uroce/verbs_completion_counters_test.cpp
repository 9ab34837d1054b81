// SPDX-License-Identifier: BSD-3-Clause
//
// Completion counters, which only rdma-core 65 and later have calls for: what those calls hand on to uroce.
#include <atomic>
#include <thread>

#include "provider/uroce/verbs/verbs.hpp"
#include "tests/unit/uroce/opened.hpp"

using namespace sluice::uroce::test;
namespace abi = sluice::abi;
namespace verbs = sluice::uroce::verbs;

namespace {

constexpr std::uint32_t kAllKinds = abi::kCountSend | abi::kCountRecv | abi::kCountRead | abi::kCountWrite;

class Counter {
  public:
    explicit Counter(ibv_context* context, std::uint32_t type = abi::kCompCntrWrs) {
        abi::CompCntrInitAttr attr{.comp_mask = 0, .type = type, .flags = 0};
        counter_ = verbs::create_comp_cntr(context, &attr);
        assert_non_null(counter_);
    }
    ~Counter() { assert_int_equal(verbs::destroy_comp_cntr(counter_), 0); }
    Counter(const Counter&) = delete;
    Counter& operator=(const Counter&) = delete;

    abi::CompCntr* get() const { return counter_; }
    int attach(const End& end, std::uint32_t operations) const {
        abi::AttachCompCntrAttr attr{.comp_mask = 0, .op_mask = operations};
        return verbs::qp_attach_comp_cntr(end.qp, counter_, &attr);
    }
    std::uint64_t value() const {
        std::uint64_t value = 0;
        assert_int_equal(verbs::read_comp_cntr(counter_, &value), 0);
        return value;
    }
    std::uint64_t errors() const {
        std::uint64_t value = 0;
        assert_int_equal(verbs::read_err_comp_cntr(counter_, &value), 0);
        return value;
    }
    // By looking at the counter alone; the test's time limit is the limit.
    void await(std::uint64_t wanted) const {
        while (value() < wanted) {
        }
        assert_int_equal(value(), wanted);
    }

  private:
    abi::CompCntr* counter_ = nullptr;
};

// Two ends that aren't connected yet.
struct Unconnected {
    explicit Unconnected(Where where = Where::kOneContext, const EndOptions& options = {})
        : first(open_uroce()),
          second(where == Where::kOneContext ? nullptr
                                             : open_uroce(own_address(where == Where::kTwoContexts ? 0 : 1))),
          left(first.get(), options), right(second != nullptr ? second.get() : first.get(), options) {}

    OpenContext first;
    OpenContext second;
    End left;
    End right;
};

// The counters that are named must outlive the queue pair.
template<typename... Counters>
void end(End& end, const Counters&...) {
    assert_int_equal(ibv_destroy_qp(end.qp), 0);
    end.qp = nullptr;
}

TEST(counters__each_kind_of_operation__is_counted_without_a_completion) {
    for (const Where where : kEverywhere) {
        Unconnected pair(where);
        const Counter sends(pair.left.context);
        const Counter writes(pair.left.context);
        const Counter reads(pair.left.context);
        const Counter receives(pair.right.context);
        assert_int_equal(sends.attach(pair.left, abi::kCountSend), 0);
        assert_int_equal(writes.attach(pair.left, abi::kCountWrite), 0);
        assert_int_equal(reads.attach(pair.left, abi::kCountRead), 0);
        assert_int_equal(receives.attach(pair.right, abi::kCountRecv), 0);
        connect(pair.left, pair.right);
        for (int i = 0; i < 4; ++i) {
            assert_int_equal(pair.right.receive(pair.right.sge(0, 64)), 0);
        }
        for (int i = 0; i < 3; ++i) {
            assert_int_equal(pair.left.send(IBV_WR_SEND, pair.left.sge(0, 10), pair.right, 0, 0), 0);
        }
        sends.await(3);
        receives.await(3);
        assert_int_equal(pair.left.send(IBV_WR_RDMA_WRITE, pair.left.sge(0, 5), pair.right, 100, 0), 0);
        assert_int_equal(
            pair.left.send(IBV_WR_RDMA_WRITE_WITH_IMM, pair.left.sge(0, 20000), pair.right, 100, 0), 0);
        writes.await(2);
        receives.await(4);
        assert_int_equal(pair.left.send(IBV_WR_RDMA_READ, pair.left.sge(0, 5), pair.right, 100, 0), 0);
        reads.await(1);
        // One whose completion is asked for counts the same.
        assert_int_equal(pair.left.send(IBV_WR_RDMA_READ, pair.left.sge(0, 5), pair.right, 100), 0);
        assert_int_equal(pair.left.wait().status, IBV_WC_SUCCESS);
        reads.await(2);
        assert_int_equal(sends.value(), 3);
        assert_int_equal(writes.value(), 2);
        assert_int_equal(sends.errors() + writes.errors() + reads.errors() + receives.errors(), 0);
        end(pair.left, sends, writes, reads);
        end(pair.right, receives);
    }
}

TEST(counters__atomic_operation__is_of_no_kind) {
    Unconnected pair;
    const Counter all(pair.left.context);
    assert_int_equal(all.attach(pair.left, kAllKinds), 0);
    connect(pair.left, pair.right);
    ibv_sge sge = pair.left.sge(0, 8);
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.atomic = {
        .remote_addr = pair.right.addr(), .compare_add = 1, .swap = 0, .rkey = pair.right.mr->rkey};
    assert_int_equal(pair.left.post(wr), 0);
    assert_int_equal(pair.left.wait().status, IBV_WC_SUCCESS);
    assert_int_equal(all.value(), 0);
    end(pair.left, all);
}

TEST(counters__of_bytes__count_bytes) {
    Unconnected pair;
    const Counter sent(pair.left.context, abi::kCompCntrBytes);
    const Counter received(pair.right.context, abi::kCompCntrBytes);
    assert_int_equal(sent.attach(pair.left, kAllKinds), 0);
    assert_int_equal(received.attach(pair.right, abi::kCountRecv), 0);
    connect(pair.left, pair.right);
    assert_int_equal(pair.right.receive(pair.right.sge(0, 20000)), 0);
    assert_int_equal(pair.left.send(IBV_WR_SEND, pair.left.sge(0, 10000), pair.right, 0, 0), 0);
    assert_int_equal(pair.left.send(IBV_WR_RDMA_WRITE, pair.left.sge(0, 500), pair.right, 0, 0), 0);
    assert_int_equal(pair.left.send(IBV_WR_RDMA_READ, pair.left.sge(0, 70), pair.right, 0, 0), 0);
    sent.await(10570);
    received.await(10000);
    end(pair.left, sent);
    end(pair.right, received);
}

TEST(counters__operation_that_fails__is_an_error_and_those_behind_it_are) {
    for (const std::uint32_t type : {abi::kCompCntrWrs, abi::kCompCntrBytes}) {
        Unconnected pair;
        const Counter counter(pair.left.context, type);
        assert_int_equal(counter.attach(pair.left, kAllKinds), 0);
        connect(pair.left, pair.right);
        assert_int_equal(pair.left.receive(pair.left.sge(0, 64)), 0);
        ibv_sge sge = pair.left.sge(0, 8);
        ibv_send_wr wr{};
        wr.opcode = IBV_WR_RDMA_WRITE;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.wr.rdma = {.remote_addr = pair.right.addr(), .rkey = pair.right.mr->rkey + 1};
        ibv_send_wr second = wr;
        second.opcode = IBV_WR_SEND;
        wr.next = &second;
        assert_int_equal(pair.left.post(wr), 0);
        while (counter.errors() < 3) {
        }
        assert_int_equal(counter.errors(), 3);
        assert_int_equal(counter.value(), 0);
        end(pair.left, counter);
    }
}

TEST(counters__unreliable_transports__count_as_well) {
    for (const ibv_qp_type type : {IBV_QPT_UD, IBV_QPT_UC}) {
        EndOptions options;
        options.type = type;
        Unconnected pair(Where::kTwoDevices, options);
        const Counter sends(pair.left.context);
        const Counter receives(pair.right.context, abi::kCompCntrBytes);
        assert_int_equal(sends.attach(pair.left, abi::kCountSend), 0);
        assert_int_equal(receives.attach(pair.right, abi::kCountRecv), 0);
        const bool datagrams = type == IBV_QPT_UD;
        ibv_send_wr wr{};
        if (datagrams) {
            bring_up_datagrams(pair.left.qp);
            bring_up_datagrams(pair.right.qp);
            ibv_ah_attr path{};
            path.is_global = 1;
            path.port_num = 1;
            path.grh.dgid = pair.right.gid;
            wr.wr.ud = {.ah = ibv_create_ah(pair.left.pd, &path),
                        .remote_qpn = pair.right.qp->qp_num,
                        .remote_qkey = kQkey};
            assert_non_null(wr.wr.ud.ah);
        } else {
            connect(pair.left, pair.right);
        }
        assert_int_equal(pair.right.receive(pair.right.sge(0, 1000)), 0);
        ibv_sge sge = pair.left.sge(0, 100);
        wr.opcode = IBV_WR_SEND;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        assert_int_equal(pair.left.post(wr), 0);
        sends.await(1);
        receives.await(datagrams ? 140 : 100); // with its header
        if (datagrams) {
            assert_int_equal(ibv_destroy_ah(wr.wr.ud.ah), 0);
        }
        end(pair.left, sends);
        end(pair.right, receives);
    }
}

TEST(counter__of_several_queue_pairs__has_their_sum) {
    EndOptions options;
    options.with_srq = true;
    Unconnected pair(Where::kOneContext, options);
    const Counter counter(pair.left.context);
    assert_int_equal(counter.attach(pair.left, kAllKinds), 0);
    assert_int_equal(counter.attach(pair.right, kAllKinds), 0);
    connect(pair.left, pair.right);
    assert_int_equal(pair.right.receive(pair.right.sge(0, 64)), 0);
    assert_int_equal(pair.left.send(IBV_WR_SEND, pair.left.sge(0, 10), pair.right, 0, 0), 0);
    counter.await(2); // the send, and its receive
    end(pair.left, counter);
    assert_int_equal(verbs::destroy_comp_cntr(counter.get()), EBUSY);
    end(pair.right, counter);
}

TEST(counter__set_and_incremented__goes_on_from_there) {
    Unconnected pair;
    const Counter counter(pair.left.context);
    assert_int_equal(counter.attach(pair.left, abi::kCountWrite), 0);
    connect(pair.left, pair.right);
    assert_int_equal(verbs::set_comp_cntr(counter.get(), UINT64_MAX), 0);
    assert_int_equal(verbs::set_err_comp_cntr(counter.get(), 7), 0);
    assert_int_equal(verbs::inc_err_comp_cntr(counter.get(), 3), 0);
    assert_int_equal(counter.value(), UINT64_MAX);
    assert_int_equal(counter.errors(), 10);
    assert_int_equal(pair.left.send(IBV_WR_RDMA_WRITE, pair.left.sge(0, 5), pair.right, 100), 0);
    assert_int_equal(pair.left.wait().status, IBV_WC_SUCCESS);
    assert_int_equal(counter.value(), 0); // it wraps
    assert_int_equal(verbs::inc_comp_cntr(counter.get(), 5), 0);
    assert_int_equal(counter.value(), 5);
    end(pair.left, counter);
}

TEST(counter__incremented_while_operations_end__loses_nothing) {
    constexpr std::uint64_t kEach = 2000;
    Unconnected pair(Where::kTwoDevices);
    const Counter counter(pair.left.context);
    assert_int_equal(counter.attach(pair.left, abi::kCountWrite), 0);
    connect(pair.left, pair.right);
    std::thread other([&] {
        for (std::uint64_t i = 0; i < kEach; ++i) {
            (void)verbs::inc_comp_cntr(counter.get(), 1);
        }
    });
    std::uint64_t posted = 0;
    while (posted < kEach) {
        if (pair.left.send(IBV_WR_RDMA_WRITE, pair.left.sge(0, 5), pair.right, 100, 0) == 0) {
            ++posted;
        }
        (void)counter.value();
    }
    other.join();
    counter.await(2 * kEach);
    end(pair.left, counter);
}

TEST(capabilities__asked_for__are_those_that_are_kept) {
    const OpenContext context(open_uroce());
    abi::CompCntrCaps caps{};
    assert_int_equal(verbs::query_comp_cntr_caps(context.get(), &caps, sizeof caps), 0);
    assert_true(caps.max_value == UINT64_MAX);
    assert_true(caps.max_counters >= 1000);
    assert_int_equal(caps.supported_qp_attach_ops, kAllKinds);
    // A program that knows only the first of them.
    caps = {};
    assert_int_equal(verbs::query_comp_cntr_caps(context.get(), &caps, sizeof caps.max_value), 0);
    assert_true(caps.max_value == UINT64_MAX);
    assert_int_equal(caps.max_counters, 0);
}

TEST(counters__each_mistake__has_its_errno) {
    Unconnected pair(Where::kTwoContexts);
    const auto refused = [&](abi::CompCntrInitAttr attr) {
        errno = 0;
        assert_null(verbs::create_comp_cntr(pair.first.get(), &attr));
        return errno;
    };
    assert_int_equal(refused({.comp_mask = 1, .type = 0, .flags = 0}), EOPNOTSUPP);
    assert_int_equal(refused({.comp_mask = 0, .type = 2, .flags = 0}), EOPNOTSUPP);
    assert_int_equal(refused({.comp_mask = 0, .type = 0, .flags = 1}), EOPNOTSUPP);
    const Counter counter(pair.left.context);
    const Counter second(pair.left.context);
    assert_int_equal(counter.attach(pair.left, 0), EINVAL);
    assert_int_equal(counter.attach(pair.left, abi::kCountSend | abi::kCountRemoteWrite), EOPNOTSUPP);
    assert_int_equal(counter.attach(pair.left, abi::kCountRemoteRead), EOPNOTSUPP);
    assert_int_equal(counter.attach(pair.left, 1U << 31), EOPNOTSUPP);
    assert_int_equal(counter.attach(pair.right, abi::kCountSend), EINVAL); // of another context
    abi::AttachCompCntrAttr attr{.comp_mask = 1, .op_mask = abi::kCountSend};
    assert_int_equal(verbs::qp_attach_comp_cntr(pair.left.qp, counter.get(), &attr), EINVAL);
    assert_int_equal(counter.attach(pair.left, abi::kCountSend), 0);
    assert_int_equal(second.attach(pair.left, abi::kCountWrite | abi::kCountSend), EBUSY);
    assert_int_equal(counter.attach(pair.left, abi::kCountSend), EBUSY);
    assert_int_equal(second.attach(pair.left, abi::kCountWrite), 0);
    assert_int_equal(verbs::destroy_comp_cntr(counter.get()), EBUSY);
    connect(pair.left, pair.right);
    assert_int_equal(second.attach(pair.left, abi::kCountRead), EINVAL); // too late
    end(pair.left, counter, second);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
