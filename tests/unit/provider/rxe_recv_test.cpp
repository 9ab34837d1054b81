// SPDX-License-Identifier: BSD-3-Clause
//
// Posting receives to rxe, shared or not.
#include "tests/unit/provider/rxe_rig.hpp"

using namespace sluice::provider;
using namespace sluice::provider::testing;

namespace {

TEST(post_recv__fills_the_element__and_takes_no_doorbell) {
    Rig rig;
    ibv_sge list = {.addr = 0x1000, .length = 100, .lkey = 5};
    ibv_recv_wr wr{.wr_id = 3, .next = nullptr, .sg_list = &list, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    assert_int_equal(rxe::post_recv(rig.qp, &wr, &bad), 0);
    const auto& wqe = *reinterpret_cast<rxe_recv_wqe*>(rig.recv_ring().element(0));
    assert_int_equal(wqe.wr_id, 3);
    assert_int_equal(wqe.dma.length, 100);
    assert_int_equal(wqe.dma.num_sge, 1);
    assert_memory_equal(rig.recv_ring().element(0) + 40, &list, sizeof list);
    assert_int_equal(rig.recv_ring().header().producer_index, 1);
    assert_int_equal(rig.device.kernel.doorbells_by_write, 0);
}

TEST(post_recv__bad_requests__are_refused) {
    Rig rig;
    ibv_sge list[3]{};
    ibv_recv_wr* bad = nullptr;
    ibv_recv_wr wr{.wr_id = 3, .next = nullptr, .sg_list = list, .num_sge = 3};
    assert_int_equal(rxe::post_recv(rig.qp, &wr, &bad), EINVAL);
    assert_ptr_equal(bad, &wr);
    wr.num_sge = -1;
    assert_int_equal(rxe::post_recv(rig.qp, &wr, &bad), EINVAL);
    wr.num_sge = 2;
    list[0].length = list[1].length = 0x8000'0000;
    assert_int_equal(rxe::post_recv(rig.qp, &wr, &bad), EINVAL);
    wr.num_sge = 0;
    for (std::uint32_t i = 0; i < kDepth; ++i) {
        assert_int_equal(rxe::post_recv(rig.qp, &wr, &bad), 0);
    }
    assert_int_equal(rxe::post_recv(rig.qp, &wr, &bad), ENOMEM);
    rig.go_to(IBV_QPS_RESET);
    assert_int_equal(rxe::post_recv(rig.qp, &wr, &bad), EINVAL);
}

TEST(srq__post_and_resize__keeps_working) {
    Rig rig;
    ibv_srq_init_attr init{};
    init.attr = {.max_wr = 3, .max_sge = 2, .srq_limit = 0};
    ibv_srq* srq = rxe::create_srq(rig.pd, &init);
    assert_non_null(srq);
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    for (int i = 0; i < 3; ++i) {
        assert_int_equal(rxe::post_srq_recv(srq, &wr, &bad), 0);
    }
    assert_int_equal(rxe::post_srq_recv(srq, &wr, &bad), ENOMEM);
    ibv_srq_attr attr{.max_wr = 15, .max_sge = 2, .srq_limit = 0};
    assert_int_equal(rxe::modify_srq(srq, &attr, IBV_SRQ_MAX_WR), 0);
    assert_int_equal(rxe::post_srq_recv(srq, &wr, &bad), 0);
    attr.srq_limit = 2;
    assert_int_equal(rxe::modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
    assert_int_equal(rxe::destroy_srq(srq), 0);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
