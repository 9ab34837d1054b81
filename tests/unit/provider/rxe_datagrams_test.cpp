// SPDX-License-Identifier: BSD-3-Clause
//
// What rxe's completions of datagrams say of the header in front of them.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "tests/unit/provider/rxe_rig.hpp"

using namespace sluice::provider;
using namespace sluice::provider::testing;

namespace {

constexpr std::uint8_t kIpv6 = 1, kIpv4 = 2;

// Where datagrams go, and how their headers begin.
struct Buffers {
    std::array<std::array<std::uint8_t, 64>, 32> memory{};

    Buffers() {
        for (auto& buffer : memory) {
            write_header(buffer, false);
        }
    }
    static void write_header(std::array<std::uint8_t, 64>& buffer, bool of_ipv6) {
        constexpr std::array<std::uint8_t, 8> kOfIpv4 = {0x45, 0, 0, 60, 0, 0, 0x40, 0};
        constexpr std::array<std::uint8_t, 8> kOfIpv6 = {0x60, 0, 0, 0, 0, 40, 17, 64};
        buffer.fill(0);
        std::ranges::copy(of_ipv6 ? kOfIpv6 : kOfIpv4, buffer.begin() + (of_ipv6 ? 0 : 20));
    }
    std::uint64_t address(std::size_t i) const {
        return reinterpret_cast<std::uintptr_t>(memory.at(i).data());
    }
};

ib_uverbs_wc received(std::uint32_t qp_num, std::uint64_t wr_id) {
    ib_uverbs_wc wc = completion(wr_id);
    wc.opcode = IBV_WC_RECV;
    wc.wc_flags = IBV_WC_GRH;
    wc.qp_num = qp_num;
    return wc;
}

int post(ibv_qp* qp, std::uint64_t wr_id, std::uint64_t address, std::uint32_t len_bytes = 64) {
    ibv_sge list{.addr = address, .length = len_bytes, .lkey = 5};
    ibv_recv_wr wr{.wr_id = wr_id, .next = nullptr, .sg_list = &list, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    return rxe::post_recv(qp, &wr, &bad);
}

// The kernel takes COUNT requests out of the ring, so that their elements can be used again.
void consume(Rig& rig, std::uint32_t count) {
    rxe_queue_buf& header = rig.recv_ring().header();
    header.consumer_index = (header.consumer_index + count) & rig.recv_ring().mask;
}

void complete(Rig& rig, std::uint64_t wr_id) {
    consume(rig, 1);
    FakeKernel::complete(rig.cq_ring(), received(rig.qp->qp_num, wr_id));
}

std::uint8_t type_of_next(Rig& rig) {
    ibv_wc wc{};
    assert_int_equal(rxe::poll_cq(rig.cq, 1, &wc), 1);
    return wc.sl;
}

TEST(datagram__header_of_either_version__is_told) {
    Rig rig(IBV_QPT_UD);
    Buffers buffers;
    Buffers::write_header(buffers.memory[1], true);
    for (std::uint64_t i = 0; i < 2; ++i) {
        assert_int_equal(post(rig.qp, i, buffers.address(i)), 0);
        complete(rig, i);
    }
    assert_int_equal(type_of_next(rig), kIpv4);
    assert_int_equal(type_of_next(rig), kIpv6);
}

// Buffers begin at any address.
TEST(datagram__buffer_that_is_not_aligned__is_told) {
    Rig rig(IBV_QPT_UD);
    Buffers buffers;
    for (std::uint64_t i = 0; i < 16; ++i) {
        auto& buffer = buffers.memory.at(i);
        Buffers::write_header(buffer, i % 2 == 0);
        const std::uint64_t shift = i / 2;
        std::ranges::copy_backward(buffer.begin(), buffer.begin() + 40, buffer.begin() + 40 + shift);
        std::ranges::fill_n(buffer.begin(), shift, 0xff);
        assert_int_equal(post(rig.qp, i, buffers.address(i) + shift, 40), 0);
        complete(rig, i);
        assert_int_equal(type_of_next(rig), i % 2 == 0 ? kIpv6 : kIpv4);
    }
}

TEST(datagrams__polled_together__each_has_its_own) {
    Rig rig(IBV_QPT_UD);
    Buffers buffers;
    std::array<ibv_wc, 8> wc{};
    for (std::uint64_t i = 0; i < 6; ++i) {
        Buffers::write_header(buffers.memory.at(i), i % 3 == 0);
        assert_int_equal(post(rig.qp, i, buffers.address(i)), 0);
        complete(rig, i);
    }
    assert_int_equal(rxe::poll_cq(rig.cq, 8, wc.data()), 6);
    for (std::uint64_t i = 0; i < 6; ++i) {
        assert_int_equal(wc.at(i).sl, i % 3 == 0 ? kIpv6 : kIpv4);
    }
}

// The places in the ring are taken again before anybody polls, and all requests have the same name.
TEST(datagrams__ring_filled_again_before_the_poll__are_not_mixed_up) {
    Rig rig(IBV_QPT_UD);
    constexpr std::uint64_t kTwice = std::uint64_t{2} * kDepth;
    Buffers buffers;
    for (std::uint64_t i = 0; i < kTwice; ++i) {
        Buffers::write_header(buffers.memory.at(i), i < kDepth);
    }
    for (int round = 0; round < 50; ++round) {
        for (std::uint64_t i = 0; i < kDepth; ++i) {
            assert_int_equal(post(rig.qp, 0, buffers.address(i)), 0);
            complete(rig, 0);
        }
        for (std::uint64_t i = kDepth; i < kTwice; ++i) {
            assert_int_equal(post(rig.qp, 0, buffers.address(i)), 0);
        }
        for (std::uint64_t i = 0; i < kDepth; ++i) {
            assert_int_equal(type_of_next(rig), kIpv6);
        }
        for (std::uint64_t i = kDepth; i < kTwice; ++i) {
            complete(rig, 0);
            assert_int_equal(type_of_next(rig), kIpv4);
        }
    }
}

TEST(datagrams__chain_of_requests__each_has_its_own) {
    Rig rig(IBV_QPT_UD);
    Buffers buffers;
    Buffers::write_header(buffers.memory[1], true);
    std::array<ibv_sge, 4> list{};
    for (std::size_t i = 0; i < 4; ++i) {
        list.at(i) = {.addr = buffers.address(i / 2) + i % 2 * 32, .length = 32, .lkey = 5};
    }
    ibv_recv_wr second{.wr_id = 2, .next = nullptr, .sg_list = &list[2], .num_sge = 2};
    ibv_recv_wr first{.wr_id = 1, .next = &second, .sg_list = list.data(), .num_sge = 2};
    ibv_recv_wr* bad = nullptr;
    assert_int_equal(rxe::post_recv(rig.qp, &first, &bad), 0);
    complete(rig, 1);
    complete(rig, 2);
    assert_int_equal(type_of_next(rig), kIpv4);
    assert_int_equal(type_of_next(rig), kIpv6);
}

TEST(datagram__after_a_request_that_failed__has_its_own) {
    Rig rig(IBV_QPT_UD);
    Buffers buffers;
    Buffers::write_header(buffers.memory[1], true);
    assert_int_equal(post(rig.qp, 1, buffers.address(0)), 0);
    assert_int_equal(post(rig.qp, 2, buffers.address(1)), 0);
    ib_uverbs_wc failed{};
    failed.wr_id = 1;
    failed.status = IBV_WC_LOC_PROT_ERR;
    failed.qp_num = rig.qp->qp_num;
    FakeKernel::complete(rig.cq_ring(), failed);
    assert_int_equal(type_of_next(rig), 0);
    complete(rig, 2);
    assert_int_equal(type_of_next(rig), kIpv6);
}

TEST(datagram__after_a_reset__has_its_own) {
    Rig rig(IBV_QPT_UD);
    Buffers buffers;
    Buffers::write_header(buffers.memory[1], true);
    assert_int_equal(post(rig.qp, 1, buffers.address(0)), 0);
    rig.go_to(IBV_QPS_RESET);
    rig.go_to(IBV_QPS_RTS);
    assert_int_equal(post(rig.qp, 1, buffers.address(1)), 0);
    complete(rig, 1);
    assert_int_equal(type_of_next(rig), kIpv6);
}

// A program may give its buffer back before it polls, or name it by an address that isn't its own.
TEST(datagram__memory_that_cannot_be_read__is_of_unknown_version) {
    Rig rig(IBV_QPT_UD);
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* memory = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    const std::uint64_t address = reinterpret_cast<std::uintptr_t>(memory);
    assert_int_equal(post(rig.qp, 1, address), 0);
    assert_int_equal(post(rig.qp, 2, 8), 0);
    assert_int_equal(post(rig.qp, 3, ~0ULL), 0);
    assert_int_equal(post(rig.qp, 4, address, 0), 0);
    assert_int_equal(post(rig.qp, 5, reinterpret_cast<std::uintptr_t>(&address), 8),
                     0); // not the whole header
    assert_int_equal(munmap(memory, page), 0);
    for (std::uint64_t i = 1; i <= 5; ++i) {
        complete(rig, i);
        assert_int_equal(type_of_next(rig), 0);
    }
}

TEST(start_poll__datagrams__each_has_its_own_whether_asked_or_not) {
    Rig rig;
    ibv_cq_ex* cq = make_cq_ex(rig, 0);
    assert_non_null(cq);
    ibv_qp_init_attr init{};
    init.send_cq = rig.cq;
    init.recv_cq = ibv_cq_ex_to_cq(cq);
    init.cap = {
        .max_send_wr = 1, .max_recv_wr = kDepth, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    init.qp_type = IBV_QPT_UD;
    ibv_qp* qp = rxe::create_qp(rig.pd, &init);
    assert_non_null(qp);
    Rig::move(qp, IBV_QPS_RTR);
    Buffers buffers;
    FakeRing& ring = rig.device.kernel.ring(3);
    for (std::uint64_t i = 0; i < 6; ++i) {
        Buffers::write_header(buffers.memory.at(i), i % 4 == 0);
        assert_int_equal(post(qp, 0, buffers.address(i)), 0);
        FakeKernel::complete(ring, received(qp->qp_num, 0));
    }
    ibv_poll_cq_attr attr{};
    assert_int_equal(cq->start_poll(cq, &attr), 0);
    for (std::uint64_t i = 0; i < 6; ++i) {
        if (i % 2 == 0) {
            assert_int_equal(cq->read_sl(cq), i % 4 == 0 ? kIpv6 : kIpv4);
            assert_int_equal(cq->read_sl(cq), i % 4 == 0 ? kIpv6 : kIpv4);
        }
        assert_int_equal(cq->next_poll(cq), i < 5 ? 0 : ENOENT);
    }
    cq->end_poll(cq);
    assert_int_equal(rxe::destroy_qp(qp), 0);
    assert_int_equal(rxe::destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

// A reliable one flags headers, too, which it has nowhere.
TEST(message_of_a_connection__is_of_no_version) {
    Rig rig;
    Buffers buffers;
    assert_int_equal(post(rig.qp, 1, buffers.address(0)), 0);
    complete(rig, 1);
    assert_int_equal(type_of_next(rig), 0);
    // Nor where a queue pair of datagrams completes beside it.
    ibv_qp* beside = rig.make_qp(IBV_QPT_UD);
    assert_non_null(beside);
    assert_int_equal(post(rig.qp, 2, buffers.address(0)), 0);
    complete(rig, 2);
    assert_int_equal(type_of_next(rig), 0);
    assert_int_equal(rxe::destroy_qp(beside), 0);
}

// Its completions may stay behind.
TEST(queue_pair_destroyed__its_datagrams__are_of_unknown_version) {
    Rig rig(IBV_QPT_UD);
    Buffers buffers;
    ibv_qp* other = rig.make_qp(IBV_QPT_UD);
    assert_non_null(other);
    Rig::move(other, IBV_QPS_RTR);
    assert_int_equal(post(other, 1, buffers.address(0)), 0);
    FakeKernel::complete(rig.cq_ring(), received(other->qp_num, 1));
    assert_int_equal(rxe::destroy_qp(other), 0);
    assert_int_equal(type_of_next(rig), 0);
}

// More completions wait than there was room for when the queue pair was made.
TEST(completion_queue_grown__too_many_unpolled__the_last_have_their_own) {
    Rig rig(IBV_QPT_UD);
    Buffers buffers;
    assert_int_equal(rxe::resize_cq(rig.cq, 255), 0);
    FakeRing& ring = rig.device.kernel.ring(rig.device.kernel.rings() - 1);
    for (std::uint64_t i = 0; i < 200; ++i) {
        assert_int_equal(post(rig.qp, i, buffers.address(i % 32)), 0);
        consume(rig, 1);
        FakeKernel::complete(ring, received(rig.qp->qp_num, i));
    }
    std::array<std::uint8_t, 200> types{};
    for (std::uint8_t& type : types) {
        type = type_of_next(rig);
    }
    assert_int_equal(types.front(), 0);
    for (std::size_t i = 200 - kDepth; i < 200; ++i) {
        assert_int_equal(types.at(i), kIpv4);
    }
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
