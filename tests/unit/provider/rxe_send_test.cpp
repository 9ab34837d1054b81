// SPDX-License-Identifier: BSD-3-Clause
//
// Posting to a send queue of rxe, and its doorbell.
#include <thread>

#include "tests/unit/provider/rxe_rig.hpp"

using namespace sluice::provider;
using namespace sluice::provider::testing;

namespace {

TEST(post_send__rdma_write__fills_the_element) {
    Rig rig;
    ibv_sge list[2] = {{.addr = 0x1000, .length = 10, .lkey = 5}, {.addr = 0x2000, .length = 20, .lkey = 6}};
    ibv_send_wr wr = send_request(list, 2);
    wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    wr.imm_data = 0x1234;
    wr.wr.rdma = {.remote_addr = 0xabc0, .rkey = 99};
    memset(rig.send_ring().element(0), 0xff, 64); // what the last user left
    assert_int_equal(rig.post(wr), 0);

    const rxe_send_wqe& wqe = rig.sent(0);
    assert_int_equal(wqe.wr.wr_id, 11);
    assert_int_equal(wqe.wr.opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
    assert_int_equal(wqe.wr.send_flags, IBV_SEND_SIGNALED);
    assert_int_equal(wqe.wr.ex.imm_data, 0x1234);
    assert_int_equal(wqe.wr.wr.rdma.remote_addr, 0xabc0);
    assert_int_equal(wqe.wr.wr.rdma.rkey, 99);
    assert_int_equal(wqe.state, 0);
    assert_int_equal(wqe.iova, 0xabc0);
    assert_int_equal(wqe.dma.length, 30);
    assert_int_equal(wqe.dma.resid, 30);
    assert_int_equal(wqe.dma.num_sge, 2);
    assert_memory_equal(rig.sent_data(0), list, sizeof list);
    assert_int_equal(rig.send_ring().header().producer_index, 1);
    assert_int_equal(rig.device.kernel.doorbells_by_write, 1);
}

TEST(post_send__inline__copies_the_bytes) {
    Rig rig;
    char first[] = "hello ";
    char second[] = "world";
    ibv_sge list[2] = {{.addr = reinterpret_cast<std::uintptr_t>(first), .length = 6, .lkey = 0},
                       {.addr = reinterpret_cast<std::uintptr_t>(second), .length = 5, .lkey = 0}};
    ibv_send_wr wr = send_request(list, 2, IBV_SEND_INLINE);
    assert_int_equal(rig.post(wr), 0);
    assert_memory_equal(rig.sent_data(0), "hello world", 11);
    assert_int_equal(rig.sent(0).dma.length, 11);
}

TEST(post_send__chain__rings_once) {
    Rig rig;
    ibv_send_wr wr[4];
    for (int i = 0; i < 4; ++i) {
        wr[i] = send_request(nullptr, 0);
        wr[i].next = i < 3 ? &wr[i + 1] : nullptr;
    }
    assert_int_equal(rig.post(wr[0]), 0);
    assert_int_equal(rig.send_ring().header().producer_index, 4);
    assert_int_equal(rig.device.kernel.doorbells_by_write, 1);
}

TEST(post_send__queue_full__enomem_and_the_request) {
    Rig rig;
    ibv_send_wr wr[kDepth + 2];
    for (std::uint32_t i = 0; i < kDepth + 2; ++i) {
        wr[i] = send_request(nullptr, 0);
        wr[i].next = i <= kDepth ? &wr[i + 1] : nullptr;
    }
    ibv_send_wr* bad = nullptr;
    assert_int_equal(rig.post(wr[0], &bad), ENOMEM);
    assert_ptr_equal(bad, &wr[kDepth]);
    assert_int_equal(rig.send_ring().header().producer_index, kDepth);
    // The kernel takes one, and there is room for one.
    rig.send_ring().header().consumer_index = 1;
    wr[0].next = nullptr;
    assert_int_equal(rig.post(wr[0]), 0);
    assert_int_equal(rig.post(wr[0], &bad), ENOMEM);
    assert_int_equal(rig.send_ring().header().producer_index, 0);
}

TEST(post_send__bad_request__einval_and_no_trace) {
    Rig rig;
    std::array<char, 64> bytes{};
    ibv_sge list[3] = {
        {.addr = reinterpret_cast<std::uintptr_t>(bytes.data()), .length = 8, .lkey = 0}, {}, {}};

    ibv_send_wr wr = send_request(list, 1);
    wr.opcode = static_cast<ibv_wr_opcode>(12);
    expect_refused(rig, wr, EINVAL);
    constexpr std::uint32_t kNonsense = 200;
    memcpy(&wr.opcode, &kNonsense, sizeof kNonsense);
    expect_refused(rig, wr, EINVAL);
    wr = send_request(list, 1, 1U << 20);
    expect_refused(rig, wr, EINVAL);
    wr = send_request(list, 3); // more than fit
    expect_refused(rig, wr, EINVAL);
    wr = send_request(list, -1);
    expect_refused(rig, wr, EINVAL);

    list[0].length = 33; // one more than fits
    wr = send_request(list, 1, IBV_SEND_INLINE);
    expect_refused(rig, wr, EINVAL);
    list[0].length = 0xffff'fff0; // a sum that wraps in 32 bits, to 16
    list[1].length = 32;
    wr = send_request(list, 2, IBV_SEND_INLINE);
    expect_refused(rig, wr, EINVAL);
    wr = send_request(list, 2);
    expect_refused(rig, wr, EINVAL);

    list[0].length = 8;
    wr = send_request(list, 1, IBV_SEND_INLINE);
    wr.opcode = IBV_WR_RDMA_READ;
    expect_refused(rig, wr, EINVAL);
    wr = send_request(list, 1);
    wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    wr.wr.atomic.remote_addr = 4;
    expect_refused(rig, wr, EINVAL);
    wr.wr.atomic.remote_addr = 8;
    list[0].length = 7;
    expect_refused(rig, wr, EINVAL);
    wr.opcode = IBV_WR_BIND_MW;
    wr.bind_mw.mw = nullptr;
    expect_refused(rig, wr, EINVAL);
}

TEST(post_send__atomic_write_on_a_kernel_without__einval) {
    Rig rig;
    std::uint64_t value = 1;
    ibv_sge list = {.addr = reinterpret_cast<std::uintptr_t>(&value), .length = 8, .lkey = 0};
    ibv_send_wr wr = send_request(&list, 1);
    wr.opcode = static_cast<ibv_wr_opcode>(sluice::kWrAtomicWrite);
    expect_refused(rig, wr, EINVAL);
}

TEST(post_send__before_ready_to_send__einval) {
    Rig rig;
    ibv_send_wr wr = send_request(nullptr, 0);
    for (const ibv_qp_state state : {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR}) {
        rig.go_to(state);
        expect_refused(rig, wr, EINVAL);
    }
    rig.go_to(IBV_QPS_ERR);
    assert_int_equal(rig.post(wr), 0);
}

TEST(post_send__datagram__needs_a_handle_of_this_device) {
    Rig rig(IBV_QPT_UD);
    ibv_send_wr wr = send_request(nullptr, 0);
    expect_refused(rig, wr, EINVAL);
    ibv_ah foreign{};
    wr.wr.ud.ah = &foreign;
    expect_refused(rig, wr, EINVAL);
    wr.opcode = IBV_WR_RDMA_WRITE;
    expect_refused(rig, wr, EINVAL);

    ibv_ah_attr attr{};
    ibv_ah* ah = rxe::create_ah(rig.pd, &attr);
    assert_non_null(ah);
    wr.opcode = IBV_WR_SEND;
    wr.wr.ud = {.ah = ah, .remote_qpn = 7, .remote_qkey = 8};
    assert_int_equal(rig.post(wr), 0);
    assert_int_equal(rig.sent(0).wr.wr.ud.ah_num, 77);
    assert_int_equal(rig.sent(0).wr.wr.ud.remote_qpn, 7);
    assert_int_equal(rig.sent(0).wr.wr.ud.remote_qkey, 8);
    assert_int_equal(rxe::destroy_ah(ah), 0);
}

TEST(post_send__kinds_mixed_in_a_chain__each_fills_its_element) {
    Rig rig;
    ibv_sge sges[2] = {{.addr = 0x1000, .length = 10, .lkey = 1}, {.addr = 0x2000, .length = 20, .lkey = 2}};
    char text[] = "inline";
    ibv_sge text_sge{.addr = reinterpret_cast<std::uintptr_t>(text), .length = 6, .lkey = 0};
    ibv_send_wr wr[4]{};
    for (int i = 0; i < 4; ++i) {
        wr[i].wr_id = 100U + static_cast<unsigned>(i);
        wr[i].opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
        wr[i].imm_data = 7U + static_cast<unsigned>(i);
        wr[i].wr.rdma = {.remote_addr = 0x9000U + static_cast<unsigned>(i), .rkey = 0x77};
        wr[i].sg_list = sges;
        wr[i].num_sge = 1;
        wr[i].next = i < 3 ? &wr[i + 1] : nullptr;
    }
    wr[1].num_sge = 2;
    wr[2].sg_list = &text_sge;
    wr[2].send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
    wr[3].num_sge = 0;
    ibv_send_wr* bad = nullptr;
    assert_int_equal(rig.post(wr[0], &bad), 0);
    constexpr std::uint32_t kLengths[] = {10, 30, 6, 0};
    constexpr std::uint32_t kSges[] = {1, 2, 1, 0};
    for (unsigned i = 0; i < 4; ++i) {
        const rxe_send_wqe& wqe = rig.sent(i);
        assert_int_equal(wqe.wr.wr_id, 100 + i);
        assert_int_equal(wqe.wr.opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
        assert_int_equal(wqe.wr.send_flags, wr[i].send_flags);
        assert_int_equal(wqe.wr.ex.imm_data, 7 + i);
        assert_int_equal(wqe.wr.wr.rdma.remote_addr, 0x9000 + i);
        assert_int_equal(wqe.wr.wr.rdma.rkey, 0x77);
        assert_int_equal(wqe.iova, 0x9000 + i);
        assert_int_equal(wqe.dma.length, kLengths[i]);
        assert_int_equal(wqe.dma.resid, kLengths[i]);
        assert_int_equal(wqe.dma.num_sge, kSges[i]);
    }
    assert_int_equal(rig.device.kernel.doorbells_by_write, 1);
}

TEST(doorbell__write_refused__goes_by_ioctl_from_then_on) {
    Rig rig;
    ibv_send_wr wr = send_request(nullptr, 0);
    assert_int_equal(rig.post(wr), 0);
    rig.device.kernel.write_error = EACCES;
    assert_int_equal(rig.post(wr), 0);
    rig.device.kernel.write_error = 0;
    assert_int_equal(rig.post(wr), 0);
    assert_int_equal(rig.device.kernel.doorbells_by_write, 1);
    assert_int_equal(rig.device.kernel.doorbells_by_ioctl, 2);
}

TEST(post_send__thread_domain__takes_no_lock) {
    const Rig rig(IBV_QPT_RC, true);
    assert_true(rxe::qp_of(rig.qp).send.lock.elided());
    assert_true(rxe::qp_of(rig.qp).recv.lock.elided());
}

TEST(post_send__two_threads__lose_nothing) {
    Rig rig;
    constexpr int kRounds = 200;
    std::atomic<int> posted{0};
    const auto worker = [&] {
        for (int i = 0; i < kRounds;) {
            ibv_send_wr wr = send_request(nullptr, 0);
            if (rig.post(wr) == 0) {
                ++i;
                ++posted;
            } else {
                std::this_thread::yield();
            }
        }
    };
    std::thread first(worker);
    std::thread second(worker);
    // The kernel: takes what it sees.
    std::uint32_t taken = 0;
    while (taken < 2 * kRounds) {
        rxe_queue_buf& header = rig.send_ring().header();
        const std::uint32_t produced = __atomic_load_n(&header.producer_index, __ATOMIC_ACQUIRE);
        taken += (produced - header.consumer_index) & rig.send_ring().mask;
        __atomic_store_n(&header.consumer_index, produced, __ATOMIC_RELEASE);
        std::this_thread::yield();
    }
    first.join();
    second.join();
    assert_int_equal(taken, 2 * kRounds);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
