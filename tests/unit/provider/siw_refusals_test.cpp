// SPDX-License-Identifier: BSD-3-Clause
//
// What siw's provider doesn't do, with which errno, and that nothing is half-done then.
#include "tests/unit/provider/refusals.hpp"
#include "tests/unit/provider/siw_rig.hpp"

using namespace sluice::provider;
using namespace sluice::provider::testing;

namespace {

TEST(post_send__bad_requests__positive_errno_and_no_trace) {
    Rig rig;
    std::array<char, 96> bytes{};
    ibv_sge list[3] = {
        {.addr = reinterpret_cast<std::uintptr_t>(bytes.data()), .length = 81, .lkey = 0}, {}, {}};
    ibv_sge wrapping[2] = {list[0], list[0]}; // in 32 bits the sum is 16
    wrapping[0].length = 0xffff'fff0;
    wrapping[1].length = 32;
    const ibv_send_wr bad[] = {
        request(IBV_WR_SEND_WITH_IMM),
        request(IBV_WR_ATOMIC_FETCH_AND_ADD),
        request(IBV_WR_LOCAL_INV),
        request(number<ibv_wr_opcode>(12)),
        request(number<ibv_wr_opcode>(0x80000000)),
        request(IBV_WR_SEND, list, 3),
        request(IBV_WR_SEND, list, -1),
        request(IBV_WR_SEND, list, 1, IBV_SEND_INLINE),
        request(IBV_WR_SEND, list, 1, 1U << 30),
        request(IBV_WR_RDMA_READ, list, 2),
        request(IBV_WR_RDMA_READ, list, 1, IBV_SEND_INLINE),
        request(IBV_WR_SEND, wrapping, 2),
        request(IBV_WR_RDMA_WRITE, wrapping, 2, IBV_SEND_INLINE),
    };
    for (ibv_send_wr wr : bad) {
        ibv_send_wr* refused = nullptr;
        assert_int_equal(rig.post(wr, &refused), EINVAL);
        assert_ptr_equal(refused, &wr);
        assert_int_equal(rig.sqe(0).flags, 0);
    }
    for (std::uint32_t i = 0; i < kDepth; ++i) {
        ibv_send_wr wr = request(IBV_WR_SEND);
        assert_int_equal(rig.post(wr), 0);
    }
    ibv_send_wr wr = request(IBV_WR_SEND);
    assert_int_equal(rig.post(wr), ENOMEM);
}

TEST(post_recv__bad_requests__positive_errno_and_no_trace) {
    Rig rig;
    ibv_srq_init_attr init{};
    init.attr = {.max_wr = 4, .max_sge = 2, .srq_limit = 0};
    ibv_srq* srq = siw::create_srq(rig.pd, &init);
    assert_non_null(srq);
    ibv_sge list[3]{};
    list[0].length = 0xffff'fff0;
    list[1].length = 16; // 4 GiB together
    const auto refused = [&](int count) {
        ibv_recv_wr wr{.wr_id = 3, .next = nullptr, .sg_list = list, .num_sge = count};
        ibv_recv_wr* bad = nullptr;
        assert_int_equal(siw::post_recv(rig.qp, &wr, &bad), EINVAL);
        assert_ptr_equal(bad, &wr);
        bad = nullptr;
        assert_int_equal(siw::post_srq_recv(srq, &wr, &bad), EINVAL);
        assert_ptr_equal(bad, &wr);
        assert_int_equal(rig.rqe(0).flags, 0);
    };
    refused(3);
    refused(-1);
    refused(2);
    list[1].length = 15;
    ibv_recv_wr wr{.wr_id = 3, .next = nullptr, .sg_list = list, .num_sge = 2};
    ibv_recv_wr* bad = nullptr;
    assert_int_equal(siw::post_recv(rig.qp, &wr, &bad), 0);
    for (std::uint32_t i = 0; i < init.attr.max_wr; ++i) {
        assert_int_equal(siw::post_srq_recv(srq, &wr, &bad), 0);
    }
    assert_int_equal(siw::post_srq_recv(srq, &wr, &bad), ENOMEM);
    assert_int_equal(siw::destroy_srq(srq), 0);
}

TEST(wr_api__an_error__hands_nothing_over) {
    Rig rig;
    auto* ex = reinterpret_cast<ibv_qp_ex*>(rig.qp);
    char bytes[100] = {};
    ex->wr_flags = IBV_SEND_SIGNALED;
    ex->wr_start(ex);
    ex->wr_send(ex);
    ex->wr_rdma_write(ex, 4, 0x1000);
    ex->wr_set_inline_data(ex, bytes, 81);
    assert_int_equal(ex->wr_complete(ex), EINVAL);
    assert_int_equal(rig.device.kernel.doorbells_by_write, 0);
    assert_int_equal(rig.sqe(0).flags & SIW_WQE_VALID, 0);
    ex->wr_start(ex);
    ex->wr_send(ex);
    const ibv_data_buf list[2] = {{.addr = bytes, .length = 30}, {.addr = bytes, .length = 50}};
    ex->wr_set_inline_data_list(ex, 2, list);
    ex->wr_rdma_read(ex, 4, 0x1000);
    ex->wr_set_sge(ex, 1, 2, 3);
    assert_int_equal(ex->wr_complete(ex), 0);
    assert_int_equal(rig.sqe(0).sge[0].length, 80);
    assert_int_equal(rig.sqe(1).opcode, SIW_OP_READ);
    assert_int_equal(rig.sqe(1).flags, SIW_WQE_VALID | SIW_WQE_SIGNALLED);
}

TEST(wr_api__each_error__einval_and_nothing_handed_over) {
    Rig rig;
    auto* ex = reinterpret_cast<ibv_qp_ex*>(rig.qp);
    char bytes[100] = {};
    const auto expect = [&](int error, auto&& build) {
        ex->wr_flags = 0;
        ex->wr_start(ex);
        ex->wr_send(ex);
        build();
        assert_int_equal(ex->wr_complete(ex), error);
        assert_int_equal(rig.device.kernel.doorbells_by_write, 0);
        assert_int_equal(rig.sqe(0).flags & SIW_WQE_VALID, 0);
    };
    const ibv_sge wrapping[2] = {{.addr = 0, .length = 0xffff'fff0, .lkey = 1},
                                 {.addr = 0, .length = 32, .lkey = 1}};
    const ibv_sge many[3] = {};
    const ibv_data_buf huge[2] = {{.addr = bytes, .length = 16}, {.addr = bytes, .length = SIZE_MAX}};
    expect(EINVAL, [&] {
        ex->wr_flags = 1U << 9;
        ex->wr_send(ex);
    });
    expect(EINVAL, [&] { ex->wr_set_sge_list(ex, 2, wrapping); });
    expect(EINVAL, [&] { ex->wr_set_sge_list(ex, 3, many); });
    expect(EINVAL, [&] { ex->wr_set_sge_list(ex, SIZE_MAX, many); });
    expect(EINVAL, [&] { ex->wr_set_inline_data_list(ex, 2, huge); });
    expect(EINVAL, [&] {
        ex->wr_rdma_read(ex, 1, 2);
        ex->wr_set_inline_data(ex, bytes, 8);
    });
    expect(EINVAL, [&] {
        ex->wr_rdma_read(ex, 1, 2);
        ex->wr_set_sge_list(ex, 2, many);
    });
    expect(ENOMEM, [&] {
        for (std::uint32_t i = 0; i < kDepth; ++i) {
            ex->wr_send(ex);
        }
    });
}

TEST(create_qp__wrong_arguments__nothing_made) {
    Rig rig;
    const auto refused = [&](int error, auto&& change) {
        ibv_qp_init_attr_ex attr = rig.usual_attributes();
        change(attr);
        expect_null(siw::create_qp_ex(rig.device.context(), &attr), error);
    };
    for (const ibv_qp_type type : {IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_RAW_PACKET, number<ibv_qp_type>(77)}) {
        refused(EOPNOTSUPP, [&](ibv_qp_init_attr_ex& attr) { attr.qp_type = type; });
    }
    refused(EOPNOTSUPP,
            [](ibv_qp_init_attr_ex& attr) { attr.send_ops_flags |= IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD; });
    refuse_foreign_parts(rig.cq, refused);
    // Limits are the kernel's to know; its errno comes through.
    rig.device.kernel.fail_command = IB_USER_VERBS_CMD_CREATE_QP;
    refused(EINVAL, [](ibv_qp_init_attr_ex& attr) { attr.cap.max_send_wr = UINT32_MAX; });
    rig.device.kernel.fail_command = ~0U;
    rig.device.kernel.mmap_error = ENOMEM;
    refused(ENOMEM, [](ibv_qp_init_attr_ex&) {});
    rig.device.kernel.mmap_error = 0;
}

TEST(create_cq__wrong_arguments__nothing_made) {
    Rig rig;
    refuse_wrong_completion_queues(rig.device, rig.pd, siw::create_cq, siw::create_cq_ex);
    ibv_wc wc{};
    assert_int_equal(siw::poll_cq(rig.cq, -1, &wc), -EINVAL);
}

TEST(domains__of_another_context__refused) {
    Rig rig;
    refuse_foreign_domains(rig.device, rig.pd);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
