// SPDX-License-Identifier: BSD-3-Clause
#include <thread>

#include "tests/unit/provider/siw_rig.hpp"

using namespace sluice::provider;
using namespace sluice::provider::testing;

namespace {

TEST(post_send__write__hands_the_element_over) {
    Rig rig;
    ibv_sge list = {.addr = 0x100, .length = 30, .lkey = 7};
    ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, &list, 1);
    wr.wr.rdma = {.remote_addr = 0x2000, .rkey = 9};
    assert_int_equal(rig.post(wr), 0);
    assert_int_equal(rig.sqe(0).id, 5);
    assert_int_equal(rig.sqe(0).opcode, SIW_OP_WRITE);
    assert_int_equal(rig.sqe(0).raddr, 0x2000);
    assert_int_equal(rig.sqe(0).rkey, 9);
    assert_int_equal(rig.sqe(0).num_sge, 1);
    assert_int_equal(rig.sqe(0).flags, SIW_WQE_VALID | SIW_WQE_SIGNALLED);
    assert_int_equal(rig.device.kernel.doorbells_by_write, 1);
    // The kernel hasn't taken the first: it will see the second by itself.
    assert_int_equal(rig.post(wr), 0);
    assert_int_equal(rig.device.kernel.doorbells_by_write, 1);
    rig.sqe(0).flags = rig.sqe(1).flags = 0;
    assert_int_equal(rig.post(wr), 0);
    assert_int_equal(rig.device.kernel.doorbells_by_write, 2);
}

TEST(post_send__with_invalidate__sends_the_key_to_invalidate) {
    Rig rig;
    ibv_send_wr wr = request(IBV_WR_SEND_WITH_INV);
    wr.invalidate_rkey = 0x77;
    wr.wr.rdma.rkey = 0x88;
    assert_int_equal(rig.post(wr), 0);
    assert_int_equal(rig.sqe(0).opcode, SIW_OP_SEND_REMOTE_INV);
    assert_int_equal(rig.sqe(0).rkey, 0x77);
}

TEST(post_send__inline__lies_behind_the_first_place) {
    Rig rig;
    char text[] = "inline";
    ibv_sge list = {.addr = reinterpret_cast<std::uintptr_t>(text), .length = 6, .lkey = 0};
    ibv_send_wr wr = request(IBV_WR_SEND, &list, 1, IBV_SEND_INLINE);
    assert_int_equal(rig.post(wr), 0);
    assert_memory_equal(&rig.sqe(0).sge[1], "inline", 6);
    assert_int_equal(rig.sqe(0).sge[0].length, 6);
}

TEST(post_send__a_bad_request_in_a_chain__those_before_it_are_handed_over) {
    Rig rig;
    ibv_sge list = {.addr = 0x100, .length = 30, .lkey = 7};
    ibv_send_wr wr[3] = {request(IBV_WR_SEND, &list, 1), request(IBV_WR_LOCAL_INV), request(IBV_WR_SEND)};
    wr[0].next = &wr[1];
    wr[1].next = &wr[2];
    ibv_send_wr* refused = nullptr;
    assert_int_equal(rig.post(wr[0], &refused), EINVAL);
    assert_ptr_equal(refused, &wr[1]);
    assert_int_equal(rig.sqe(0).flags, SIW_WQE_VALID | SIW_WQE_SIGNALLED);
    assert_int_equal(rig.sqe(1).flags & SIW_WQE_VALID, 0);
    assert_int_equal(rig.device.kernel.doorbells_by_write, 1);
    // The place of the refused one is the next one's.
    wr[2].wr_id = 77;
    assert_int_equal(rig.post(wr[2]), 0);
    assert_int_equal(rig.sqe(1).id, 77);
}

TEST(post_send__flags__are_the_elements) {
    const struct {
        unsigned asked;
        unsigned written;
    } flags[] = {{0, 0},
                 {IBV_SEND_FENCE, SIW_WQE_READ_FENCE},
                 {IBV_SEND_SIGNALED, SIW_WQE_SIGNALLED},
                 {IBV_SEND_SOLICITED, SIW_WQE_SOLICITED},
                 {IBV_SEND_INLINE, SIW_WQE_INLINE},
                 {IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE,
                  SIW_WQE_READ_FENCE | SIW_WQE_SIGNALLED | SIW_WQE_SOLICITED | SIW_WQE_INLINE}};
    for (const unsigned all : {0U, 1U}) {
        Rig rig(0, static_cast<int>(all));
        char text[] = "inline";
        ibv_sge list = {.addr = reinterpret_cast<std::uintptr_t>(text), .length = 6, .lkey = 0};
        for (std::size_t i = 0; i < std::size(flags); ++i) {
            ibv_send_wr wr = request(IBV_WR_SEND, &list, 1, flags[i].asked);
            assert_int_equal(rig.post(wr), 0);
            const unsigned always = SIW_WQE_VALID | (all != 0 ? unsigned{SIW_WQE_SIGNALLED} : 0U);
            assert_int_equal(rig.sqe(i).flags, flags[i].written | always);
        }
    }
}

TEST(post_send__not_connected__takes_the_requests_back) {
    Rig rig;
    rig.device.kernel.write_error = ENOTCONN;
    ibv_send_wr wr[2] = {request(IBV_WR_SEND), request(IBV_WR_SEND)};
    wr[0].next = &wr[1];
    ibv_send_wr* refused = nullptr;
    assert_int_equal(rig.post(wr[0], &refused), ENOTCONN);
    assert_ptr_equal(refused, &wr[0]);
    assert_int_equal(rig.sqe(0).flags & SIW_WQE_VALID, 0);
    assert_int_equal(rig.sqe(1).flags & SIW_WQE_VALID, 0);
    rig.device.kernel.write_error = 0;
    wr[0].next = nullptr;
    wr[0].wr_id = 99;
    assert_int_equal(rig.post(wr[0]), 0);
    assert_int_equal(rig.sqe(0).id, 99);
}

TEST(post_recv__nothing_to_scatter__is_taken) {
    Rig rig;
    ibv_recv_wr wr{};
    wr.wr_id = 3;
    ibv_recv_wr* bad = nullptr;
    for (std::uint32_t i = 0; i < kDepth; ++i) {
        assert_int_equal(siw::post_recv(rig.qp, &wr, &bad), 0);
    }
    assert_int_equal(rig.rqe(0).flags, SIW_WQE_VALID);
    assert_int_equal(siw::post_recv(rig.qp, &wr, &bad), ENOMEM);
    ibv_sge list[3]{};
    wr.sg_list = list;
    wr.num_sge = 3;
    rig.rqe(0).flags = 0;
    assert_int_equal(siw::post_recv(rig.qp, &wr, &bad), EINVAL);
}

TEST(poll_cq__completions__are_translated_and_given_back) {
    Rig rig;
    std::array<ibv_wc, 16> wc{};
    assert_int_equal(siw::poll_cq(rig.cq, 16, wc.data()), 0);
    for (int round = 0; round < 5; ++round) {
        for (std::size_t i = 0; i < 3; ++i) {
            siw_cqe& cqe = rig.cqe((static_cast<std::size_t>(round) * 3 + i) % kDepth);
            cqe.id = i;
            cqe.opcode = SIW_OP_RECEIVE;
            cqe.status = SIW_WC_WR_FLUSH_ERR;
            cqe.bytes = 12;
            cqe.qp_id = 4;
            cqe.flags = SIW_WQE_VALID;
        }
        assert_int_equal(siw::poll_cq(rig.cq, 16, wc.data()), 3);
        assert_int_equal(wc[2].wr_id, 2);
        assert_int_equal(wc[2].opcode, IBV_WC_RECV);
        assert_int_equal(wc[2].status, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(wc[2].qp_num, 4);
    }
}

TEST(poll_cq__one_at_a_time__is_translated_with_a_lock_and_without) {
    for (const std::uint32_t flags : {0U, std::uint32_t{IBV_CREATE_CQ_ATTR_SINGLE_THREADED}}) {
        Rig rig(flags);
        ibv_wc wc{};
        for (std::uint32_t i = 0; i < 3 * kDepth; ++i) {
            assert_int_equal(siw::poll_cq(rig.cq, 1, &wc), 0);
            siw_cqe& cqe = rig.cqe(i % kDepth);
            cqe.id = i;
            cqe.opcode = i % 2 == 0 ? SIW_OP_RECEIVE : UINT8_MAX;
            cqe.status = i % 2 == 0 ? SIW_WC_SUCCESS : UINT16_MAX;
            cqe.inval_stag = 0x99;
            cqe.flags = i % 2 == 0 ? SIW_WQE_VALID | SIW_WQE_REM_INVAL : SIW_WQE_VALID;
            std::memset(&wc, 0xff, sizeof wc);
            assert_int_equal(siw::poll_cq(rig.cq, 1, &wc), 1);
            assert_int_equal(wc.wr_id, i);
            assert_int_equal(wc.status, i % 2 == 0 ? IBV_WC_SUCCESS : IBV_WC_GENERAL_ERR);
            assert_int_equal(wc.opcode, i % 2 == 0 ? IBV_WC_RECV : IBV_WC_SEND);
            assert_int_equal(wc.wc_flags, i % 2 == 0 ? IBV_WC_WITH_INV : 0);
            assert_int_equal(wc.invalidated_rkey, i % 2 == 0 ? 0x99 : 0);
            assert_int_equal(cqe.flags, 0);
        }
    }
}

// What the kernel says of request ID: every third failed, and every third had a key made invalid.
siw_cqe completion(std::uint64_t id) {
    siw_cqe cqe{};
    cqe.id = id;
    cqe.opcode = id % 3 == 2 ? SIW_OP_RECEIVE : SIW_OP_WRITE;
    cqe.status = id % 3 == 1 ? SIW_WC_REM_ACCESS_ERR : SIW_WC_SUCCESS;
    cqe.bytes = static_cast<std::uint32_t>(id + 100);
    cqe.inval_stag = id % 3 == 2 ? 0x99 : 0;
    cqe.qp_id = 4;
    cqe.flags = id % 3 == 2 ? SIW_WQE_VALID | SIW_WQE_REM_INVAL : SIW_WQE_VALID;
    return cqe;
}

ibv_wc translated(std::uint64_t id) {
    ibv_wc wc{};
    wc.wr_id = id;
    wc.status = id % 3 == 1 ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS;
    wc.opcode = id % 3 == 2 ? IBV_WC_RECV : IBV_WC_RDMA_WRITE;
    wc.byte_len = static_cast<std::uint32_t>(id + 100);
    wc.invalidated_rkey = id % 3 == 2 ? 0x99 : 0;
    wc.qp_num = 4;
    wc.wc_flags = id % 3 == 2 ? IBV_WC_WITH_INV : 0;
    return wc;
}

TEST(poll_cq__batches_around_the_end__each_is_translated_whole_and_in_order) {
    constexpr std::uint64_t kRound = 5; // ends at each element of the ring in turn
    static_assert(kDepth == 8);
    Rig rig;
    for (std::uint64_t id = 0; id < kRound * kDepth; id += kRound) {
        for (std::uint64_t i = id; i < id + kRound; ++i) {
            rig.cqe(i % kDepth) = completion(i);
        }
        std::array<ibv_wc, kDepth + 1> wc;
        std::memset(wc.data(), 0xff, sizeof wc);
        const int first = id % 2 == 0 ? 2 : 16; // in two parts, or all at once
        assert_int_equal(siw::poll_cq(rig.cq, first, wc.data()), first == 2 ? 2 : kRound);
        if (first == 2) {
            assert_int_equal(siw::poll_cq(rig.cq, kRound - 2, &wc[2]), kRound - 2);
        }
        for (std::uint64_t i = 0; i < kRound; ++i) {
            const ibv_wc expected = translated(id + i);
            assert_memory_equal(&wc.at(i), &expected, sizeof expected);
            assert_int_equal(rig.cqe((id + i) % kDepth).flags, 0);
        }
        assert_int_equal(wc[kRound].wr_id, UINT64_MAX);
        assert_int_equal(siw::poll_cq(rig.cq, 16, wc.data()), 0);
    }
}

TEST(poll_cq__another_thread_reads_the_queue__waits_and_takes_the_next) {
    Rig rig;
    ibv_cq_ex* const cq = &siw::cq_of(rig.cq);
    for (std::uint64_t id = 0; id < 200; id += 2) {
        rig.cqe(id % kDepth) = completion(id);
        rig.cqe((id + 1) % kDepth) = completion(id + 1);
        ibv_poll_cq_attr attr{};
        assert_int_equal(cq->start_poll(cq, &attr), 0);
        assert_int_equal(cq->wr_id, id);
        ibv_wc wc{};
        int taken = 0;
        std::thread other([&] { taken = siw::poll_cq(rig.cq, 1, &wc); });
        cq->end_poll(cq);
        other.join();
        assert_int_equal(taken, 1);
        assert_int_equal(wc.wr_id, id + 1);
    }
}

TEST(post_send__another_thread_fills_the_queue__waits_and_posts) {
    Rig rig;
    auto* ex = reinterpret_cast<ibv_qp_ex*>(rig.qp);
    for (std::uint32_t i = 0; i < 200; ++i) {
        ibv_sge list{};
        ibv_send_wr wr = request(IBV_WR_SEND, &list, 1);
        wr.wr_id = i;
        ex->wr_start(ex);
        int error = -1;
        std::thread other([&] { error = rig.post(wr); });
        ex->wr_abort(ex);
        other.join();
        assert_int_equal(error, 0);
        assert_int_equal(rig.sqe(i % kDepth).id, i);
        rig.sqe(i % kDepth).flags = 0;
    }
}

TEST(completion_ring__any_byte_wrong__stays_inside) {
    Rig rig;
    std::vector<std::uint8_t>& memory = rig.device.kernel.ring(0).memory;
    for (std::size_t at = 0; at < memory.size(); ++at) {
        for (const int value : {0, 1, 9, 0x7f, 0xff}) {
            memory[at] = static_cast<std::uint8_t>(value);
            std::array<ibv_wc, 32> wc{};
            const int n = siw::poll_cq(rig.cq, 32, wc.data());
            assert_true(n >= 0 && n <= static_cast<int>(kDepth));
            for (int i = 0; i < n; ++i) {
                assert_true(wc[i].status <= IBV_WC_GENERAL_ERR);
            }
        }
    }
    std::fill(memory.begin(), memory.end(), std::uint8_t{0xff});
    std::array<ibv_wc, 32> wc{};
    assert_int_equal(siw::poll_cq(rig.cq, 32, wc.data()), kDepth);
}

TEST(send_ring__any_byte_wrong__stays_inside) {
    Rig rig;
    for (const std::size_t number : {std::size_t{1}, std::size_t{2}}) {
        std::vector<std::uint8_t>& memory = rig.device.kernel.ring(number).memory;
        for (std::size_t at = 0; at < memory.size(); ++at) {
            memory[at] = 0xff;
            ibv_sge list[2]{};
            ibv_send_wr wr = request(IBV_WR_SEND, list, 2);
            const int error = rig.post(wr);
            assert_true(error == 0 || error == ENOMEM);
            ibv_recv_wr recv{.wr_id = 3, .next = nullptr, .sg_list = list, .num_sge = 2};
            ibv_recv_wr* bad = nullptr;
            const int recv_error = siw::post_recv(rig.qp, &recv, &bad);
            assert_true(recv_error == 0 || recv_error == ENOMEM);
            memory[at] = 0;
        }
    }
}

TEST(create_cq__number_of_elements_wrong__is_refused) {
    Rig rig;
    for (const std::uint32_t count : {3U, 9U, 1U << 23, 0xffff'ffffU}) {
        rig.device.kernel.siw_count = count;
        assert_null(siw::create_cq(rig.device.context(), kDepth, nullptr, 0));
        assert_int_equal(errno, EINVAL);
    }
}

TEST(req_notify_cq__arms_by_a_word__and_no_system_call) {
    Rig rig;
    const auto& control = *reinterpret_cast<siw_cq_ctrl*>(&rig.cqe(kDepth));
    assert_int_equal(siw::req_notify_cq(rig.cq, 0), 0);
    assert_int_equal(control.flags, SIW_NOTIFY_SOLICITED | SIW_NOTIFY_NEXT_COMPLETION);
}

// The kernel's siw notifies nobody who asks for solicited receives alone.
TEST(req_notify_cq__solicited_only__arms_for_each) {
    Rig rig;
    const auto& control = *reinterpret_cast<siw_cq_ctrl*>(&rig.cqe(kDepth));
    assert_int_equal(siw::req_notify_cq(rig.cq, 1), 0);
    assert_int_equal(control.flags, SIW_NOTIFY_SOLICITED | SIW_NOTIFY_NEXT_COMPLETION);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
