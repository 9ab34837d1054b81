// SPDX-License-Identifier: BSD-3-Clause
//
// Making, resizing and refusing objects of rxe.
#include "tests/unit/provider/refusals.hpp"
#include "tests/unit/provider/rxe_rig.hpp"

using namespace sluice::provider;
using namespace sluice::provider::testing;

namespace {

TEST(resize_cq__smaller_than_what_is_owed__einval) {
    Rig rig;
    ibv_send_wr wr = send_request(nullptr, 0);
    for (int i = 0; i < 2; ++i) {
        assert_int_equal(rig.post(wr), 0);
    }
    wr.send_flags = 0; // reported by nobody
    assert_int_equal(rig.post(wr), 0);
    FakeKernel::complete(rig.cq_ring(), completion(1));
    const std::size_t rings = rig.device.kernel.rings();
    assert_int_equal(rxe::resize_cq(rig.cq, 2), EINVAL);
    assert_int_equal(rxe::resize_cq(rig.cq, 0), EINVAL);
    assert_int_equal(rig.device.kernel.rings(), rings);
    assert_int_equal(rxe::resize_cq(rig.cq, 3), 0);
    // What the kernel has completed is owed no more.
    rig.send_ring().header().consumer_index = 2;
    ibv_wc wc{};
    assert_int_equal(rxe::poll_cq(rig.cq, 1, &wc), 1);
    assert_int_equal(rxe::resize_cq(rig.cq, 1), 0);
}

TEST(create_cq__ring_can_not_be_mapped__leaves_nothing) {
    Rig rig;
    rig.device.kernel.mmap_error = ENOMEM;
    assert_null(rxe::create_cq(rig.device.context(), 3, nullptr, 0));
    assert_int_equal(errno, ENOMEM);
    assert_null(rig.make_qp(IBV_QPT_RC));
    assert_int_equal(errno, ENOMEM);
    rig.device.kernel.mmap_error = 0;
}

TEST(resize_cq__moves_what_waits__and_the_old_ring_is_left) {
    Rig rig;
    ibv_wc wc{};
    FakeKernel::complete(rig.cq_ring(), completion(1));
    FakeKernel::complete(rig.cq_ring(), completion(2));
    assert_int_equal(rxe::poll_cq(rig.cq, 1, &wc), 1);
    assert_int_equal(rxe::resize_cq(rig.cq, 31), 0);
    assert_int_equal(rig.cq->cqe, 31);
    FakeRing& ring = rig.device.kernel.ring(3);
    FakeKernel::complete(ring, completion(3));
    assert_int_equal(rxe::poll_cq(rig.cq, 1, &wc), 1);
    assert_int_equal(wc.wr_id, 2);
    assert_int_equal(rxe::poll_cq(rig.cq, 1, &wc), 1);
    assert_int_equal(wc.wr_id, 3);
}

TEST(create_cq_ex__what_rxe_can_not__eopnotsupp) {
    Rig rig;
    assert_null(make_cq_ex(rig, 0, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_null(make_cq_ex(rig, 1U << 10));
    assert_int_equal(errno, EOPNOTSUPP);
}

TEST(create_ah__kernel_without_numbers__eopnotsupp_and_no_leak) {
    Rig rig(IBV_QPT_UD);
    rig.device.kernel.ah_number = 0;
    ibv_ah_attr attr{};
    assert_null(rxe::create_ah(rig.pd, &attr));
    assert_int_equal(errno, EOPNOTSUPP);
}

TEST(create_qp__wrong_arguments__fail_half_done_with_nothing) {
    Rig rig;
    assert_null(rig.make_qp(IBV_QPT_RAW_PACKET));
    assert_int_equal(errno, EOPNOTSUPP);
    ibv_cq* cq = rig.cq;
    rig.cq = nullptr;
    assert_null(rig.make_qp(IBV_QPT_RC));
    assert_int_equal(errno, EINVAL);
    rig.cq = cq;
    rig.device.kernel.fail_command = IB_USER_VERBS_CMD_CREATE_QP;
    assert_null(rig.make_qp(IBV_QPT_RC));
    assert_int_equal(errno, EINVAL);
}

// Programs that only write to each other's memory ask for queues of no requests.
TEST(create_qp__queues_of_no_requests__made_and_always_full) {
    Rig rig;
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = rig.cq;
    attr.cap = {
        .max_send_wr = 0, .max_recv_wr = 0, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 16};
    attr.qp_type = IBV_QPT_RC;
    ibv_qp* qp = rxe::create_qp(rig.pd, &attr);
    assert_non_null(qp);
    Rig::move(qp, IBV_QPS_RTS);
    ibv_sge list{};
    ibv_send_wr send = send_request(&list, 1);
    ibv_send_wr* bad_send = nullptr;
    assert_int_equal(rxe::post_send(qp, &send, &bad_send), ENOMEM);
    assert_ptr_equal(bad_send, &send);
    ibv_recv_wr receive{.wr_id = 3, .next = nullptr, .sg_list = &list, .num_sge = 1};
    ibv_recv_wr* bad_receive = nullptr;
    assert_int_equal(rxe::post_recv(qp, &receive, &bad_receive), ENOMEM);
    assert_ptr_equal(bad_receive, &receive);
    Rig::move(qp, IBV_QPS_RESET);
    assert_int_equal(rxe::destroy_qp(qp), 0);
}

TEST(create_qp__ring_smaller_than_granted__einval) {
    Rig rig;
    rig.device.kernel.spoil = [](FakeRing& ring) { ring.header().index_mask = 3; };
    assert_null(rig.make_qp(IBV_QPT_RC));
    assert_int_equal(errno, EINVAL);
    rig.device.kernel.spoil = nullptr;
}

TEST(create_srq_ex__basic_with_fields_of_other_types__made) {
    Rig rig;
    ibv_srq_init_attr_ex attr{};
    attr.attr = {.max_wr = 3, .max_sge = 2, .srq_limit = 0};
    attr.pd = rig.pd;
    attr.srq_type = IBV_SRQT_BASIC;
    attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
                     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_TM;
    ibv_srq* srq = rxe::create_srq_ex(rig.device.context(), &attr);
    assert_non_null(srq);
    assert_int_equal(rxe::destroy_srq(srq), 0);
    attr.srq_type = IBV_SRQT_XRC;
    assert_null(rxe::create_srq_ex(rig.device.context(), &attr));
    assert_int_equal(errno, EOPNOTSUPP);
    attr.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_RESERVED;
    assert_null(rxe::create_srq_ex(rig.device.context(), &attr));
    assert_int_equal(errno, EOPNOTSUPP);
    attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE;
    assert_null(rxe::create_srq_ex(rig.device.context(), &attr));
    assert_int_equal(errno, EINVAL);
}

TEST(create_qp__parts_of_another_context__refused) {
    Rig rig;
    refuse_foreign_parts(rig.cq, [&](int error, auto&& change) {
        ibv_qp_init_attr_ex attr{};
        attr.send_cq = attr.recv_cq = rig.cq;
        attr.cap = {
            .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
        attr.qp_type = IBV_QPT_RC;
        attr.comp_mask = IBV_QP_INIT_ATTR_PD;
        attr.pd = rig.pd;
        change(attr);
        expect_null(rxe::create_qp_ex(rig.device.context(), &attr), error);
    });
}

TEST(create_cq__wrong_arguments__nothing_made) {
    Rig rig;
    refuse_wrong_completion_queues(rig.device, rig.pd, rxe::create_cq, rxe::create_cq_ex);
}

TEST(domains__of_another_context__refused) {
    Rig rig;
    refuse_foreign_domains(rig.device, rig.pd);
}

TEST(query_device_ex__shorter_structure__is_filled_as_far) {
    Rig rig;
    struct {
        ibv_device_attr attr;
        std::uint64_t guard;
    } room{};
    room.guard = 0x1111;
    const int error =
        rig.device
            .call<int(ibv_context*, const ibv_query_device_ex_input*, ibv_device_attr_ex*, std::size_t)>(
                Slot::query_device_ex, rig.device.context(),
                static_cast<const ibv_query_device_ex_input*>(nullptr),
                reinterpret_cast<ibv_device_attr_ex*>(&room.attr), sizeof room.attr);
    assert_int_equal(error, 0);
    assert_int_equal(room.attr.max_qp, 12);
    assert_string_equal(room.attr.fw_ver, "1.2.3");
    assert_int_equal(room.guard, 0x1111);
}

TEST(bind_mw__type_1__gives_a_new_key) {
    Rig rig;
    ibv_mw* mw = rig.device.call<ibv_mw*(ibv_pd*, ibv_mw_type)>(Slot::alloc_mw, rig.pd, IBV_MW_TYPE_1);
    ibv_mr* mr = rig.device.call<ibv_mr*(ibv_pd*, void*, std::size_t, std::uint64_t, int)>(
        Slot::reg_mr, rig.pd, static_cast<void*>(&rig), std::size_t{64}, std::uint64_t{0}, 0);
    assert_non_null(mw);
    assert_non_null(mr);
    const std::uint32_t before = mw->rkey;
    ibv_mw_bind bind{};
    bind.bind_info = {.mr = mr, .addr = 0x100, .length = 32, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
    assert_int_equal(rxe::bind_mw(rig.qp, mw, &bind), 0);
    assert_int_equal(mw->rkey, before + 1);
    assert_int_equal(rig.sent(0).wr.wr.mw.mw_rkey, before);
    assert_int_equal(rig.sent(0).wr.wr.mw.rkey, before + 1);
    bind.bind_info.mr = nullptr;
    assert_int_equal(rxe::bind_mw(rig.qp, mw, &bind), EINVAL);
    // A domain of another context, which has the same number there.
    ibv_context other{};
    ProtectionDomain foreign;
    foreign.context = &other;
    foreign.handle = rig.pd->handle;
    ibv_mr foreign_mr = *mr;
    foreign_mr.pd = &foreign;
    bind.bind_info = {.mr = &foreign_mr, .addr = 0x100, .length = 32, .mw_access_flags = 0};
    assert_int_equal(rxe::bind_mw(rig.qp, mw, &bind), EPERM);
    bind.bind_info.mr = mr;
    mw->pd = &foreign;
    assert_int_equal(rxe::bind_mw(rig.qp, mw, &bind), EPERM);
    mw->pd = rig.pd;
    bind.bind_info = {.mr = mr, .addr = 0, .length = 1, .mw_access_flags = IBV_ACCESS_ZERO_BASED};
    assert_int_equal(rxe::bind_mw(rig.qp, mw, &bind), EINVAL);
    mw->type = IBV_MW_TYPE_2;
    assert_int_equal(rxe::bind_mw(rig.qp, mw, &bind), EINVAL);
    assert_int_equal(rig.device.call<int(ibv_mw*)>(Slot::dealloc_mw, mw), 0);
    assert_int_equal(rig.device.call<int(sluice::abi::VerbsMr*)>(Slot::dereg_mr,
                                                                 reinterpret_cast<sluice::abi::VerbsMr*>(mr)),
                     0);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
