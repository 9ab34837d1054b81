// SPDX-License-Identifier: BSD-3-Clause
//
// Taking completions out of a queue of rxe; a device that cuts its programs off.
#include <cstring>
#include <thread>

#include "tests/unit/provider/rxe_rig.hpp"

using namespace sluice::provider;
using namespace sluice::provider::testing;

namespace {

TEST(reset__completions_of_several_queue_pairs__its_own_are_forgotten) {
    Rig rig;
    std::array<ibv_wc, 16> wc{};
    // Across the end of the ring, so that what stays has to move over it.
    for (std::uint64_t i = 0; i < 5; ++i) {
        FakeKernel::complete(rig.cq_ring(), completion(i));
    }
    assert_int_equal(rxe::poll_cq(rig.cq, 16, wc.data()), 5);
    for (std::uint64_t i = 10; i < 16; ++i) {
        ib_uverbs_wc done = completion(i);
        done.qp_num = i % 2 == 0 ? rig.qp->qp_num : 9;
        FakeKernel::complete(rig.cq_ring(), done);
    }
    rig.go_to(IBV_QPS_RESET);
    assert_int_equal(rxe::poll_cq(rig.cq, 16, wc.data()), 3);
    for (unsigned i = 0; i < 3; ++i) {
        assert_int_equal(wc[i].wr_id, 11 + 2 * i);
        assert_int_equal(wc[i].qp_num, 9);
    }
    assert_int_equal(rig.cq_ring().header().consumer_index, rig.cq_ring().header().producer_index);
    FakeKernel::complete(rig.cq_ring(), completion(20));
    assert_int_equal(rxe::poll_cq(rig.cq, 1, wc.data()), 1);
    assert_int_equal(wc[0].wr_id, 20);
}

TEST(poll_cq__batch__takes_what_is_there) {
    Rig rig;
    std::array<ibv_wc, 16> wc{};
    assert_int_equal(rxe::poll_cq(rig.cq, 16, wc.data()), 0);
    for (std::uint64_t i = 0; i < 5; ++i) {
        FakeKernel::complete(rig.cq_ring(), completion(i));
    }
    assert_int_equal(rxe::poll_cq(rig.cq, 3, wc.data()), 3);
    assert_int_equal(rig.cq_ring().header().consumer_index, 3);
    assert_int_equal(rxe::poll_cq(rig.cq, 16, wc.data() + 3), 2);
    for (std::uint64_t i = 0; i < 5; ++i) {
        assert_int_equal(wc[i].wr_id, i);
        assert_int_equal(wc[i].qp_num, 9);
    }
    assert_int_equal(rxe::poll_cq(rig.cq, 0, wc.data()), 0);
    FakeKernel::complete(rig.cq_ring(), completion(9));
    assert_int_equal(rxe::poll_cq(rig.cq, -1, wc.data()), -EINVAL);
    assert_int_equal(rxe::poll_cq(rig.cq, 1, wc.data()), 1);
}

TEST(poll_cq__around_the_end__wraps) {
    Rig rig;
    ibv_wc wc{};
    for (std::uint64_t i = 0; i < 100; ++i) {
        FakeKernel::complete(rig.cq_ring(), completion(i));
        assert_int_equal(rxe::poll_cq(rig.cq, 1, &wc), 1);
        assert_int_equal(wc.wr_id, i);
    }
}

TEST(poll_cq__batches_around_the_end__all_in_order) {
    constexpr std::uint64_t kRound = 5; // ends at each of the eight slots in turn
    Rig rig;
    for (std::uint64_t id = 0; id < 8 * kRound; id += kRound) {
        for (std::uint64_t i = 0; i < kRound; ++i) {
            FakeKernel::complete(rig.cq_ring(), completion(id + i));
        }
        std::array<ibv_wc, 16> wc;
        std::memset(wc.data(), 0xff, sizeof wc);
        assert_int_equal(rxe::poll_cq(rig.cq, 16, wc.data()), kRound);
        for (std::uint64_t i = 0; i < kRound; ++i) {
            assert_int_equal(wc.at(i).wr_id, id + i);
            assert_int_equal(wc.at(i).qp_num, 9);
        }
        assert_int_equal(wc[kRound].wr_id, UINT64_MAX);
        assert_int_equal(rig.cq_ring().header().consumer_index, rig.cq_ring().header().producer_index);
    }
}

TEST(poll_cq__another_thread_reads_the_queue__waits_and_takes_the_next) {
    Rig rig;
    ibv_cq_ex* const cq = make_cq_ex(rig, 0);
    assert_non_null(cq);
    FakeRing& ring = rig.device.kernel.ring(3);
    for (std::uint64_t id = 0; id < 200; id += 2) {
        FakeKernel::complete(ring, completion(id));
        FakeKernel::complete(ring, completion(id + 1));
        ibv_poll_cq_attr attr{};
        assert_int_equal(cq->start_poll(cq, &attr), 0);
        assert_int_equal(cq->wr_id, id);
        ibv_wc wc{};
        int taken = 0;
        std::thread other([&] { taken = rxe::poll_cq(ibv_cq_ex_to_cq(cq), 1, &wc); });
        cq->end_poll(cq);
        other.join();
        assert_int_equal(taken, 1);
        assert_int_equal(wc.wr_id, id + 1);
    }
    assert_int_equal(rxe::destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

TEST(start_poll__next_poll__end_poll__walk_the_ring) {
    Rig rig;
    ibv_cq_ex* cq = make_cq_ex(rig, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
    assert_non_null(cq);
    assert_true(rxe::cq_of(cq).lock.elided());
    FakeRing& ring = rig.device.kernel.ring(3);
    ibv_poll_cq_attr attr{};
    for (int round = 0; round < 20; ++round) {
        assert_int_equal(cq->start_poll(cq, &attr), ENOENT);
        for (std::uint64_t i = 0; i < 3; ++i) {
            FakeKernel::complete(ring, completion(i));
        }
        assert_int_equal(cq->start_poll(cq, &attr), 0);
        assert_int_equal(cq->wr_id, 0);
        assert_int_equal(cq->next_poll(cq), 0);
        assert_int_equal(cq->wr_id, 1);
        assert_int_equal(cq->read_byte_len(cq), 5);
        assert_int_equal(cq->read_imm_data(cq), 0x55);
        assert_int_equal(cq->read_qp_num(cq), 9);
        assert_int_equal(cq->read_wc_flags(cq), IBV_WC_WITH_IMM);
        if (round % 2 == 0) {
            assert_int_equal(cq->next_poll(cq), 0);
            assert_int_equal(cq->next_poll(cq), ENOENT);
            assert_int_equal(cq->next_poll(cq), ENOENT);
            cq->end_poll(cq);
        } else {
            cq->end_poll(cq);
            assert_int_equal(cq->start_poll(cq, &attr), 0);
            assert_int_equal(cq->wr_id, 2);
            cq->end_poll(cq);
        }
        assert_int_equal(ring.header().consumer_index, ring.header().producer_index);
    }
    attr.comp_mask = 1;
    assert_int_equal(cq->start_poll(cq, &attr), EINVAL);
    assert_int_equal(rxe::destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

TEST(device_gone__by_doorbell__requests_come_back_flushed) {
    Rig rig;
    ibv_recv_wr recv{};
    recv.wr_id = 100;
    ibv_recv_wr* bad_recv = nullptr;
    assert_int_equal(rxe::post_recv(rig.qp, &recv, &bad_recv), 0);
    ibv_send_wr wr = send_request(nullptr, 0, 0);
    wr.wr_id = 1;
    assert_int_equal(rig.post(wr), 0);
    FakeKernel::complete(rig.cq_ring(), completion(1));
    rig.send_ring().header().consumer_index = 1;
    rig.device.kernel.write_error = EIO;
    rig.device.kernel.ioctl_error = EIO;
    wr.wr_id = 2;
    assert_int_equal(rig.post(wr), 0);
    wr.wr_id = 3;
    expect_refused(rig, wr, EIO);
    assert_int_equal(rxe::post_recv(rig.qp, &recv, &bad_recv), EIO);

    std::array<ibv_wc, 8> wc{};
    assert_int_equal(rxe::poll_cq(rig.cq, 8, wc.data()), 1);
    assert_int_equal(wc[0].wr_id, 1);
    assert_int_equal(rxe::poll_cq(rig.cq, 8, wc.data()), 2);
    for (int i = 0; i < 2; ++i) {
        assert_int_equal(wc[i].status, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(wc[i].qp_num, rig.qp->qp_num);
        assert_true(wc[i].wr_id == 2 || wc[i].wr_id == 100);
    }
    assert_int_equal(rxe::poll_cq(rig.cq, 8, wc.data()), 0);
    // Destroying succeeds, though the kernel has forgotten all of it.
    rig.device.kernel.live.clear();
}

TEST(device_gone__by_polling_only__is_noticed) {
    Rig rig;
    ibv_send_wr wr = send_request(nullptr, 0, 0);
    assert_int_equal(rig.post(wr), 0);
    rig.device.kernel.ioctl_error = EIO;
    ibv_wc wc{};
    int polls = 0;
    while (rxe::poll_cq(rig.cq, 1, &wc) == 0) {
        assert_true(++polls < 1 << 20);
    }
    assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
    rig.device.kernel.live.clear();
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
