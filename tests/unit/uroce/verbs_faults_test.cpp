// SPDX-License-Identifier: BSD-3-Clause
//
// Each word of SLUICE_UROCE_FAULTS, as programs meet it.
#include <chrono>
#include <cstdlib>

#include "provider/uroce/verbs/verbs.hpp"
#include "tests/unit/uroce/opened.hpp"

namespace {

using namespace sluice::uroce::test;
using sluice::uroce::device::Device;
namespace verbs = sluice::uroce::verbs;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

OpenContext open_with(const char* faults, unsigned number) {
    if (faults != nullptr) {
        setenv("SLUICE_UROCE_FAULTS", faults, 1);
    }
    OpenContext context(open_uroce(own_address(number)));
    unsetenv("SLUICE_UROCE_FAULTS");
    return context;
}

Device& device_of(const OpenContext& context) {
    return verbs::context_of(context.get()).device;
}

sluice::roce::engine::Counters counters_of(const OpenContext& context) {
    const Device::ProgressSession session(device_of(context));
    return session.engine().counters();
}

// Two devices, of which one or the other is out of order.
struct Pair {
    explicit Pair(const char* left_faults, const char* right_faults = nullptr, const Timers& timers = {})
        : first(open_with(left_faults, 0)), second(open_with(right_faults, 1)), left(first.get()),
          right(second.get()) {
        connect(left, right, timers);
    }

    // Says how long it took.
    milliseconds write(std::size_t at = 0) {
        const auto start = Clock::now();
        assert_int_equal(left.send(IBV_WR_RDMA_WRITE, left.sge(at, 64), right, 4096 + at), 0);
        assert_int_equal(left.wait().status, IBV_WC_SUCCESS);
        assert_memory_equal(left.block.data() + at, right.block.data() + 4096 + at, 64);
        return std::chrono::duration_cast<milliseconds>(Clock::now() - start);
    }
    // One message, with a receive to spare: it takes one.
    void send_once() {
        assert_int_equal(right.receive(right.sge(8192, 64), 1), 0);
        assert_int_equal(right.receive(right.sge(12288, 64), 2), 0);
        assert_int_equal(left.send(IBV_WR_SEND, left.sge(0, 64), right), 0);
        assert_int_equal(left.wait().status, IBV_WC_SUCCESS);
        const ibv_wc wc = right.wait();
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.wr_id, 1);
        assert_memory_equal(right.block.data() + 8192, left.block.data(), 64);
        assert_true(right.idle());
    }

    OpenContext first;
    OpenContext second;
    End left;
    End right;
};

// 4.096 us * 2^13: 33 ms.
constexpr Timers kPatient{.timeout = 13};
constexpr milliseconds kTimeout{33};

TEST(drop__request__sent_again_after_the_timeout) {
    Pair pair("drop-request=2", nullptr, kPatient);
    pair.write();
    assert_true(pair.write(64) >= kTimeout);
    assert_int_equal(device_of(pair.first).counters().loop.packets_sent, 2);
}

TEST(drop__acknowledgement__executed_once) {
    Pair pair(nullptr, "drop-ack=1", {.timeout = 8});
    pair.send_once();
    assert_true(counters_of(pair.first).timeouts >= 1);
    assert_true(counters_of(pair.second).duplicates >= 1);
}

TEST(flip_icrc__request__refused_and_sent_again) {
    Pair pair("flip-icrc=1", nullptr, kPatient);
    assert_true(pair.write() >= kTimeout);
    assert_int_equal(device_of(pair.first).deliveries().damaged, 1);
}

TEST(duplicate__request__executed_once) {
    Pair pair("duplicate-request=1");
    pair.send_once();
    assert_int_equal(counters_of(pair.second).duplicates, 1);
}

TEST(delay__request__arrives_that_much_later) {
    Pair pair("delay-request=1:40ms", nullptr, {.timeout = 18});
    assert_true(pair.write() >= milliseconds(40));
    assert_int_equal(device_of(pair.first).counters().loop.packets_sent, 1);
}

TEST(receive_drop__request__sent_again) {
    Pair pair(nullptr, "recv-drop-request=1", kPatient);
    assert_true(pair.write() >= kTimeout);
    assert_int_equal(device_of(pair.first).counters().loop.packets_sent, 2);
}

TEST(receive_duplicate__request__executed_once) {
    Pair pair(nullptr, "recv-duplicate-request=1");
    pair.send_once();
    assert_int_equal(counters_of(pair.second).duplicates, 1);
}

TEST(rnr__message_that_has_a_receive__told_not_ready_once) {
    {
        Pair pair(nullptr, "rnr=1");
        pair.send_once();
        assert_int_equal(counters_of(pair.first).rnr_naks_in, 1);
    }
    Pair impatient(nullptr, "rnr=1", {.rnr_retries = 0});
    assert_int_equal(impatient.right.receive(impatient.right.sge(0, 64)), 0);
    assert_int_equal(impatient.left.send(IBV_WR_SEND, impatient.left.sge(0, 64), impatient.right), 0);
    assert_int_equal(impatient.left.wait().status, IBV_WC_RNR_RETRY_EXC_ERR);
}

TEST(kill_qp__second_request__flushed_with_all_behind_it) {
    Pair pair("kill-qp=2");
    pair.write();
    for (int i = 0; i < 2; ++i) {
        assert_int_equal(pair.left.send(IBV_WR_RDMA_WRITE, pair.left.sge(0, 64), pair.right), 0);
        assert_int_equal(pair.left.wait().status, IBV_WC_WR_FLUSH_ERR);
    }
    assert_int_equal(pair.left.state(), IBV_QPS_ERR);
    ibv_async_event event{};
    assert_int_equal(ibv_get_async_event(pair.first.get(), &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_QP_FATAL);
    assert_ptr_equal(event.element.qp, pair.left.qp);
    ibv_ack_async_event(&event);
}

TEST(stall_completions__first__it_and_those_behind_it_come_later) {
    Pair pair("stall-completions=1:40ms");
    const auto start = Clock::now();
    for (std::size_t i = 0; i < 3; ++i) {
        assert_int_equal(pair.left.send(IBV_WR_RDMA_WRITE, pair.left.sge(i * 64, 64), pair.right, i * 64), 0);
    }
    // The data isn't late, only the news of it.
    assert_memory_equal(pair.left.block.data(), pair.right.block.data(), 192);
    for (std::uint64_t i = 1; i <= 3; ++i) {
        const ibv_wc wc = pair.left.wait();
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.wr_id, i);
    }
    assert_true(Clock::now() - start >= milliseconds(40));
    pair.write(); // goes on
}

TEST(stall_completions__armed_queue__tells_when_they_come) {
    const OpenContext first(open_with("stall-completions=1:40ms", 0));
    auto made = verbs::create_comp_channel(first.get());
    assert_true(made.ok());
    {
        EndOptions options;
        options.channel = *made;
        End left(first.get(), options);
        End right(first.get());
        connect(left, right);
        assert_int_equal(ibv_req_notify_cq(left.cq, 0), 0);
        const auto start = Clock::now();
        assert_int_equal(left.send(IBV_WR_RDMA_WRITE, left.sge(0, 64), right), 0);
        ibv_cq* cq = nullptr;
        void* context = nullptr;
        assert_int_equal(ibv_get_cq_event(*made, &cq, &context), 0);
        assert_true(Clock::now() - start >= milliseconds(40));
        ibv_ack_cq_events(cq, 1);
        assert_int_equal(left.wait().status, IBV_WC_SUCCESS);
    }
    assert_int_equal(ibv_destroy_comp_channel(*made), 0);
}

TEST(destroy__queue_that_stands_still__forgotten) {
    const OpenContext first(open_with("stall-completions=1+:10ms", 0));
    {
        End left(first.get());
        End right(first.get());
        connect(left, right);
        assert_int_equal(left.send(IBV_WR_RDMA_WRITE, left.sge(0, 64), right), 0);
    }
    End left(first.get());
    End right(first.get());
    connect(left, right);
    assert_int_equal(left.send(IBV_WR_RDMA_WRITE, left.sge(0, 64), right), 0);
    assert_int_equal(left.wait().status, IBV_WC_SUCCESS);
}

TEST(destroy__completion_that_a_fault_holds_back__goes_with_its_queue_pair) {
    const OpenContext first(open_with("stall-completions=1+:10ms", 0));
    End end(first.get());
    ibv_qp* const former = end.qp;
    for (ibv_qp* qp : {former, end.make_qp({})}) {
        assert_non_null(qp);
        bring_up(qp, qp->qp_num, end.gid);
        end.qp = qp;
        assert_int_equal(end.send(IBV_WR_RDMA_WRITE, end.sge(0, 64), end, 4096), 0);
    }
    assert_int_equal(ibv_destroy_qp(former), 0);
    assert_int_equal(end.wait().wr_id, 2);
}

TEST(open__unknown_fault__refused_with_the_words_that_there_are) {
    setenv("SLUICE_UROCE_FAULTS", "explode=1", 1);
    const auto refused = verbs::open_context(own_address().c_str());
    unsetenv("SLUICE_UROCE_FAULTS");
    assert_false(refused.ok());
    assert_int_equal(refused.error().to_errno(), EINVAL);
    assert_non_null(std::strstr(refused.error().text(), "explode"));
    assert_non_null(std::strstr(refused.error().text(), "kill-qp"));
}

} // namespace

int main() {
    return sluice::test::run_all_tests("uroce.verbs_faults");
}
