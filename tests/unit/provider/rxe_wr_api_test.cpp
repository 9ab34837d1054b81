// SPDX-License-Identifier: BSD-3-Clause
//
// The ibv_wr_* interface of rxe.
#include "tests/unit/provider/rxe_rig.hpp"

using namespace sluice::provider;
using namespace sluice::provider::testing;

namespace {

constexpr std::uint64_t kWrOps = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
                                 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV;

// An extended queue pair beside the rig's own; its rings are numbers 3 and 4.
struct ExtendedRig : Rig {
    ExtendedRig() : pair(make_qp(IBV_QPT_RC, kWrOps)) {
        assert_non_null(pair);
        move(pair, IBV_QPS_RTS);
        ex = reinterpret_cast<ibv_qp_ex*>(pair);
    }
    ~ExtendedRig() { assert_int_equal(rxe::destroy_qp(pair), 0); }
    ExtendedRig(const ExtendedRig&) = delete;
    ExtendedRig& operator=(const ExtendedRig&) = delete;

    FakeRing& ring() { return device.kernel.ring(4); }
    rxe_send_wqe& wqe(std::uint32_t i) { return *reinterpret_cast<rxe_send_wqe*>(ring().element(i)); }

    ibv_qp* pair;
    ibv_qp_ex* ex;
};

TEST(wr_api__two_requests__are_published_together) {
    ExtendedRig rig;
    rig.ex->wr_start(rig.ex);
    rig.ex->wr_id = 1;
    rig.ex->wr_flags = IBV_SEND_SIGNALED;
    rig.ex->wr_rdma_write(rig.ex, 55, 0x4000);
    const ibv_sge list[2] = {{.addr = 1, .length = 10, .lkey = 2}, {.addr = 3, .length = 30, .lkey = 4}};
    rig.ex->wr_set_sge_list(rig.ex, 2, list);
    rig.ex->wr_id = 2;
    rig.ex->wr_send(rig.ex);
    char one[] = "abc";
    char two[] = "defg";
    const ibv_data_buf buffers[2] = {{.addr = one, .length = 3}, {.addr = two, .length = 4}};
    rig.ex->wr_set_inline_data_list(rig.ex, 2, buffers);
    assert_int_equal(rig.ring().header().producer_index, 0);
    assert_int_equal(rig.ex->wr_complete(rig.ex), 0);
    assert_int_equal(rig.ring().header().producer_index, 2);
    assert_int_equal(rig.wqe(0).dma.length, 40);
    assert_int_equal(rig.wqe(0).dma.num_sge, 2);
    assert_int_equal(rig.wqe(1).dma.length, 7);
    assert_int_equal(rig.wqe(1).wr.send_flags, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
    assert_memory_equal(rig.ring().element(1) + 208, "abcdefg", 7);
    assert_int_equal(rig.device.kernel.doorbells_by_write, 1);
}

TEST(wr_api__an_error__posts_nothing) {
    ExtendedRig rig;
    char bytes[40] = {};
    rig.ex->wr_flags = 0;
    rig.ex->wr_start(rig.ex);
    rig.ex->wr_send(rig.ex);
    rig.ex->wr_send(rig.ex);
    rig.ex->wr_set_inline_data(rig.ex, bytes, 33);
    rig.ex->wr_set_sge(rig.ex, 1, 2, 3);
    rig.ex->wr_send(rig.ex);
    assert_int_equal(rig.ex->wr_complete(rig.ex), EINVAL);

    const ibv_data_buf huge[2] = {{.addr = bytes, .length = 16}, {.addr = bytes, .length = SIZE_MAX - 8}};
    rig.ex->wr_start(rig.ex);
    rig.ex->wr_send(rig.ex);
    rig.ex->wr_set_inline_data_list(rig.ex, 2, huge);
    assert_int_equal(rig.ex->wr_complete(rig.ex), EINVAL);

    rig.ex->wr_start(rig.ex);
    rig.ex->wr_atomic_fetch_add(rig.ex, 1, 4, 5);
    assert_int_equal(rig.ex->wr_complete(rig.ex), EINVAL);

    rig.ex->wr_start(rig.ex);
    for (std::uint32_t i = 0; i <= kDepth; ++i) {
        rig.ex->wr_send(rig.ex);
    }
    assert_int_equal(rig.ex->wr_complete(rig.ex), ENOMEM);

    rig.ex->wr_start(rig.ex);
    rig.ex->wr_send(rig.ex);
    rig.ex->wr_abort(rig.ex);
    rig.move(rig.pair, IBV_QPS_RESET);
    rig.ex->wr_start(rig.ex);
    rig.ex->wr_send(rig.ex);
    assert_int_equal(rig.ex->wr_complete(rig.ex), EINVAL);
    assert_int_equal(rig.ring().header().producer_index, 0);
    assert_int_equal(rig.device.kernel.doorbells_by_write, 0);
}

TEST(create_qp_ex__operations_that_the_kernel_lacks__eopnotsupp) {
    Rig rig;
    constexpr std::uint64_t kAtomicWrite = 1ULL << 12;
    constexpr std::uint64_t kFlush = 1ULL << 11;
    assert_null(rig.make_qp(IBV_QPT_RC, kAtomicWrite));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_null(rig.make_qp(IBV_QPT_RC, IBV_QP_EX_WITH_TSO));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_null(rig.make_qp(IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE));
    assert_int_equal(errno, EOPNOTSUPP);
    rig.device.kernel.device_flags = sluice::kDeviceAtomicWrite | sluice::kDeviceFlushGlobal;
    ibv_qp* qp = rig.make_qp(IBV_QPT_RC, kAtomicWrite | kFlush);
    assert_non_null(qp);
    Rig::move(qp, IBV_QPS_RTS);
    auto* ex = reinterpret_cast<ibv_qp_ex*>(qp);
    const auto slot = [qp](std::size_t offset) {
        void* function = nullptr;
        memcpy(&function, reinterpret_cast<const std::byte*>(qp) + offset, sizeof function);
        return function;
    };
    const auto flush =
        reinterpret_cast<void (*)(ibv_qp_ex*, std::uint32_t, std::uint64_t, std::size_t, std::uint8_t,
                                  std::uint8_t)>(slot(sluice::abi::kQpFlushOffset));
    const auto atomic_write =
        reinterpret_cast<void (*)(ibv_qp_ex*, std::uint32_t, std::uint64_t, const void*)>(
            slot(sluice::abi::kQpAtomicWriteOffset));
    const std::uint64_t value = 0x0123'4567'89ab'cdef;
    ex->wr_start(ex);
    atomic_write(ex, 5, 0x1000, &value);
    flush(ex, 6, 0x2000, 64, 1, 0);
    assert_int_equal(ex->wr_complete(ex), 0);
    FakeRing& ring = rig.device.kernel.ring(4);
    assert_memory_equal(ring.element(0) + 208, &value, sizeof value);
    assert_int_equal(reinterpret_cast<rxe_send_wqe*>(ring.element(0))->dma.length, 8);
    assert_int_equal(reinterpret_cast<rxe_send_wqe*>(ring.element(1))->wr.opcode, sluice::kWrFlush);
    assert_int_equal(rxe::destroy_qp(qp), 0);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
