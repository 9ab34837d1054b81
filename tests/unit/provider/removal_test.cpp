// SPDX-License-Identifier: BSD-3-Clause
//
// A device that is removed while it is in use: who notices, what the kernel is told, and what the
// program reads. What the kernel then does is the lab's to show.
#include "provider/rxe/context.hpp"
#include "provider/rxe/verbs.hpp"
#include "provider/siw/verbs.hpp"
#include "tests/unit/provider/opened_device.hpp"

using namespace sluice::provider;
using namespace sluice::provider::testing;
using sluice::abi::Slot;

namespace {

constexpr int kEnoughPolls = 1000; // for one of them to look

verbs_context* import_rxe(ibv_device* device, int cmd_fd, void* /*private_data*/) noexcept {
    return rxe::import(device, cmd_fd);
}

// A device with a queue pair, made by the operations that a program calls.
struct Rig {
    explicit Rig(OpenedDevice::Open open, bool siw = false) : device(open, siw) {
        pd = device.call<ibv_pd*(ibv_context*)>(Slot::alloc_pd, device.context());
        cq = device.call<ibv_cq*(ibv_context*, int, ibv_comp_channel*, int)>(Slot::create_cq,
                                                                             device.context(), 8, nullptr, 0);
        ibv_qp_init_attr attr{};
        attr.send_cq = cq;
        attr.recv_cq = cq;
        attr.cap = {
            .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
        attr.qp_type = IBV_QPT_RC;
        qp = device.call<ibv_qp*(ibv_pd*, ibv_qp_init_attr*)>(Slot::create_qp, pd, &attr);
        assert_non_null(qp);
        own_cq = device.kernel.last_cq;
    }
    ~Rig() {
        assert_int_equal(device.call<int(ibv_qp*)>(Slot::destroy_qp, qp), 0);
        assert_int_equal(device.call<int(ibv_cq*)>(Slot::destroy_cq, cq), 0);
        assert_int_equal(device.call<int(ibv_pd*)>(Slot::dealloc_pd, pd), 0);
    }
    Rig(const Rig&) = delete;
    Rig& operator=(const Rig&) = delete;

    void poll_in_vain() {
        ibv_wc wc{};
        for (int i = 0; i < kEnoughPolls; ++i) {
            assert_int_equal(cq->context->ops.poll_cq(cq, 1, &wc), 0);
        }
    }
    bool led_to_error() { return device.kernel.qp_states[qp->handle] == IBV_QPS_ERR; }
    // What the program makes of an overrun CQ that the kernel calls USER_HANDLE.
    ibv_event_type read_overrun(std::uint64_t user_handle) {
        ibv_async_event event{};
        event.event_type = IBV_EVENT_CQ_ERR;
        event.element.cq = reinterpret_cast<ibv_cq*>(user_handle); // NOLINT(performance-no-int-to-ptr)
        device.call<void(ibv_context*, ibv_async_event*)>(Slot::async_event, device.context(), &event);
        return event.event_type;
    }

    OpenedDevice device;
    ibv_pd* pd = nullptr;
    ibv_cq* cq = nullptr;
    ibv_qp* qp = nullptr;
    std::uint64_t own_cq = 0;
};

void expect_fatal_event(Rig& rig) {
    assert_true(rig.led_to_error());
    assert_int_not_equal(rig.device.kernel.last_cq, rig.own_cq);
    assert_int_equal(rig.read_overrun(rig.own_cq), IBV_EVENT_CQ_ERR);
    assert_int_equal(rig.read_overrun(rig.device.kernel.last_cq), IBV_EVENT_DEVICE_FATAL);
    rig.device.kernel.events_of_last_cq = 1; // or closing waits for ever
}

TEST(device_there__polled_in_vain__nothing_happens) {
    Rig rig(rxe::open);
    rig.poll_in_vain();
    assert_false(rig.led_to_error());
    assert_int_equal(rig.device.kernel.last_cq, rig.own_cq);
}

TEST(rxe_removed__polled_in_vain__error_state_and_fatal_event) {
    Rig rig(rxe::open);
    rig.device.kernel.removed = true;
    rig.poll_in_vain();
    expect_fatal_event(rig);
    // The queue that nobody else knows was given one receive more than it holds.
    FakeKernel& kernel = rig.device.kernel;
    const std::size_t rings = kernel.rings();
    assert_int_equal(kernel.ring(rings - 3).mask, 1);
    assert_int_equal(kernel.ring(rings - 2).header().producer_index, 2);
}

TEST(siw_removed__polled_in_vain__error_state_and_fatal_event) {
    Rig rig(siw::open, true);
    rig.device.kernel.removed = true;
    rig.poll_in_vain();
    expect_fatal_event(rig);
}

TEST(rxe_removed__armed__error_state_and_fatal_event) {
    Rig rig(rxe::open);
    rig.device.kernel.removed = true;
    assert_int_equal(rig.cq->context->ops.req_notify_cq(rig.cq, 0), 0);
    expect_fatal_event(rig);
}

TEST(siw_removed__armed__error_state_and_fatal_event) {
    Rig rig(siw::open, true);
    rig.device.kernel.removed = true;
    assert_int_equal(rig.cq->context->ops.req_notify_cq(rig.cq, 0), 0);
    expect_fatal_event(rig);
}

// The kernel of siw doesn't flush what is posted in the error state.
TEST(siw_removed__posting__refused_with_eio) {
    Rig rig(siw::open, true);
    ibv_recv_wr recv{};
    ibv_recv_wr* bad_recv = nullptr;
    assert_int_equal(rig.cq->context->ops.post_recv(rig.qp, &recv, &bad_recv), 0);
    rig.device.kernel.removed = true;
    rig.poll_in_vain();
    assert_int_equal(rig.cq->context->ops.post_recv(rig.qp, &recv, &bad_recv), EIO);
    assert_ptr_equal(bad_recv, &recv);
    ibv_send_wr send{};
    send.opcode = IBV_WR_SEND;
    ibv_send_wr* bad_send = nullptr;
    assert_int_equal(rig.cq->context->ops.post_send(rig.qp, &send, &bad_send), EIO);
    assert_ptr_equal(bad_send, &send);
}

TEST(removed__event_cannot_be_made__queue_pairs_are_led_all_the_same) {
    Rig rig(rxe::open);
    rig.device.kernel.removed = true;
    rig.device.kernel.fail_command = IB_USER_VERBS_CMD_CREATE_QP;
    rig.poll_in_vain();
    assert_true(rig.led_to_error());
    rig.device.kernel.fail_command = ~0U;
}

// The kernel would send the event to the process that the context comes from.
TEST(removed__imported_context__no_event_of_ours) {
    Rig rig(import_rxe);
    assert_int_equal(rig.device.context()->num_comp_vectors, 1);
    rig.device.kernel.removed = true;
    rig.poll_in_vain();
    assert_true(rig.led_to_error());
    assert_int_equal(rig.device.kernel.last_cq, rig.own_cq);
}

TEST(cut_off__fatal_event_of_the_kernel__is_believed) {
    Rig rig(rxe::open);
    ibv_async_event event{};
    event.event_type = IBV_EVENT_DEVICE_FATAL;
    rig.device.call<void(ibv_context*, ibv_async_event*)>(Slot::async_event, rig.device.context(), &event);
    assert_int_equal(event.event_type, IBV_EVENT_DEVICE_FATAL);
    assert_true(context_of(rig.device.context()).gone);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
