// SPDX-License-Identifier: BSD-3-Clause
//
// rxe's rings as memory that somebody else writes.
#include "tests/unit/provider/rxe_rig.hpp"

using namespace sluice::provider;
using namespace sluice::provider::testing;

namespace {

void each_word_of(FakeRing& ring, void (*act)(Rig&), Rig& rig) {
    constexpr std::uint32_t kValues[] = {0, 1,           6,           7,           8,
                                         9, 0x7fff'ffff, 0x8000'0000, 0xffff'fff8, 0xffff'ffff};
    for (std::size_t at = 0; at + 4 <= ring.memory.size(); at += 4) {
        const std::vector<std::uint8_t> before = ring.memory;
        for (const std::uint32_t value : kValues) {
            memcpy(ring.memory.data() + at, &value, sizeof value);
            act(rig);
        }
        memcpy(ring.memory.data(), before.data(), before.size());
    }
}

TEST(completion_ring__any_word_wrong__stays_inside) {
    Rig rig;
    for (std::uint64_t i = 0; i < kDepth; ++i) {
        FakeKernel::complete(rig.cq_ring(), completion(i));
    }
    each_word_of(
        rig.cq_ring(),
        [](Rig& r) {
            std::array<ibv_wc, 4> wc{};
            for (int i = 0; i < 3; ++i) {
                const int n = rxe::poll_cq(r.cq, 4, wc.data());
                assert_true(n >= 0 && n <= 4);
            }
        },
        rig);
}

TEST(send_ring__any_word_wrong__stays_inside) {
    Rig rig;
    each_word_of(
        rig.send_ring(),
        [](Rig& r) {
            std::array<char, 32> bytes{};
            ibv_sge list = {.addr = reinterpret_cast<std::uintptr_t>(bytes.data()), .length = 32, .lkey = 0};
            ibv_send_wr wr = send_request(&list, 1, IBV_SEND_INLINE);
            for (int i = 0; i < 3; ++i) {
                const int error = r.post(wr);
                assert_true(error == 0 || error == ENOMEM);
            }
        },
        rig);
}

TEST(receive_ring__any_word_wrong__stays_inside) {
    Rig rig;
    each_word_of(
        rig.recv_ring(),
        [](Rig& r) {
            ibv_sge list[2] = {};
            ibv_recv_wr wr{.wr_id = 3, .next = nullptr, .sg_list = list, .num_sge = 2};
            ibv_recv_wr* bad = nullptr;
            for (int i = 0; i < 3; ++i) {
                const int error = rxe::post_recv(r.qp, &wr, &bad);
                assert_true(error == 0 || error == ENOMEM);
            }
        },
        rig);
}

TEST(flushing__rings_wrong__ends_and_stays_inside) {
    Rig rig;
    context_of(rig.device.context()).gone = true;
    each_word_of(
        rig.send_ring(),
        [](Rig& r) {
            rxe::qp_of(r.qp).send.flushed = 0;
            std::array<ibv_wc, 64> wc{};
            const int n = rxe::poll_cq(r.cq, 64, wc.data());
            assert_true(n >= 0 && n < 64);
        },
        rig);
}

TEST(create_cq__geometry_wrong__is_refused) {
    Rig rig;
    FakeKernel& kernel = rig.device.kernel;
    constexpr void (*kSpoilers[])(FakeRing&) = {
        [](FakeRing& ring) { ring.header().log2_elem_size = 5; },
        [](FakeRing& ring) { ring.header().log2_elem_size = 7; },
        [](FakeRing& ring) { ring.header().log2_elem_size = 64; },
        [](FakeRing& ring) { ring.header().log2_elem_size = 0xffff'ffff; },
        [](FakeRing& ring) { ring.header().index_mask = 0; },
        [](FakeRing& ring) { ring.header().index_mask = 5; },
        [](FakeRing& ring) { ring.header().index_mask = 15; },
        [](FakeRing& ring) { ring.header().index_mask = 0xffff'ffff; },
        [](FakeRing& ring) { ring.memory.resize(383); },
    };
    for (const auto spoiler : kSpoilers) {
        kernel.spoil = spoiler;
        assert_null(rxe::create_cq(rig.device.context(), kDepth, nullptr, 0));
        assert_int_equal(errno, EINVAL);
    }
    kernel.spoil = nullptr;
}

TEST(send_ring__elements_smaller_than_promised__is_refused) {
    Rig rig;
    rig.device.kernel.spoil = [](FakeRing& ring) { ring.header().log2_elem_size = 6; };
    assert_null(rig.make_qp(IBV_QPT_RC));
    assert_int_equal(errno, EINVAL);
    rig.device.kernel.spoil = nullptr;
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
