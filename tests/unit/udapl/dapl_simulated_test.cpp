// SPDX-License-Identifier: BSD-3-Clause
//
// Programs on a device that doesn't see the CPU's caches (SLUICE_COHERENCE=simulated): those that keep the
// contract work byte for byte; those that forget one thing see stale data, every time.
#include <cstdlib>
#include <cstring>

#include "tests/unit/udapl/dapl_contract.hpp"

using namespace sluice::dapl::test;

namespace {

TEST(contract__kept__byte_for_byte) {
    Pair pair;
    pair.connect();
    for (unsigned seed = 1; seed <= kSeeds; ++seed) {
        Programs programs(pair, seed, Mistake::kNone);
        if (!programs.serve_read() || !programs.take_write() || !programs.serve_read()) {
            fail_msg("seed %u: stale data", seed);
        }
    }
}

TEST(contract__one_thing_forgotten__stale_each_time) {
    constexpr auto kMistakes = static_cast<unsigned>(Mistake::kEnd) - 1;
    Pair pair;
    pair.connect();
    for (unsigned seed = 1; seed <= kSeeds; ++seed) {
        const auto mistake = static_cast<Mistake>(1 + seed % kMistakes);
        Programs programs(pair, seed, mistake);
        const bool is_right = is_about_reading(mistake) ? programs.serve_read() : programs.take_write();
        if (is_right) {
            fail_msg("seed %u: mistake %u goes unnoticed", seed, static_cast<unsigned>(mistake));
        }
    }
}

// Each mistake, too, on devices that nobody has used before.
TEST(contract__every_mistake_with_one_seed__stale) {
    for (unsigned mistake = 1; mistake < static_cast<unsigned>(Mistake::kEnd); ++mistake) {
        Pair pair;
        pair.connect();
        Programs programs(pair, 4711, static_cast<Mistake>(mistake));
        assert_false(is_about_reading(static_cast<Mistake>(mistake)) ? programs.serve_read()
                                                                     : programs.take_write());
    }
}

TEST(attributes__a_device_that_does_not_snoop__says_so) {
    const Opened opened;
    DAT_PROVIDER_ATTR attr{};
    assert_int_equal(dat_ia_query(opened.ia, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL, &attr),
                     DAT_SUCCESS);
    assert_int_equal(attr.lmr_sync_req, DAT_TRUE);
    assert_int_equal(attr.optimal_buffer_alignment, DAT_OPTIMAL_ALIGNMENT); // 4 lines
}

// Local buffers need no call: the sender's was stored just now, the receiver's holds stores of its own.
TEST(send__parts_on_both_sides__no_sync_needed) {
    const Pair pair;
    Block& from = const_cast<Block&>(pair.active.block);
    Block& into = const_cast<Block&>(pair.passive.block);
    std::memset(into.bytes.data(), 0x11, into.bytes.size());
    DAT_LMR_TRIPLET places[] = {into.part(3, 100), into.part(1000, 50), into.part(512, 200)};
    assert_int_equal(
        dat_ep_post_recv(pair.passive.ep, 3, places, Side::cookie_of(7), DAT_COMPLETION_DEFAULT_FLAG),
        DAT_SUCCESS);
    pair.connect();
    for (std::size_t i = 0; i < 300; ++i) {
        from.bytes[i] = static_cast<std::uint8_t>(i);
    }
    assert_int_equal(pair.active.send(0, 200, 8), DAT_SUCCESS);
    pair.passive.must_complete(7, DAT_DTO_SUCCESS, 200);
    assert_memory_equal(&into.bytes[3], from.bytes.data(), 100);
    assert_memory_equal(&into.bytes[1000], &from.bytes[100], 50);
    assert_memory_equal(&into.bytes[512], &from.bytes[150], 50);
    assert_int_equal(into.bytes[2], 0x11);
    assert_int_equal(into.bytes[103], 0x11);
    assert_int_equal(into.bytes[562], 0x11); // there was room for more
}

// A read that makes no event is known to be over by a later one, as is what it brought.
TEST(read__suppressed__seen_with_the_next_completion) {
    Pair pair;
    pair.connect();
    std::memset(pair.passive.block.bytes.data(), 0x77, 4096);
    const DAT_LMR_TRIPLET part = pair.passive.block.part(0, 4096);
    assert_int_equal(dat_lmr_sync_rdma_read(pair.passive.opened.ia, &part, 1), DAT_SUCCESS);
    const DAT_RMR_TRIPLET remote{pair.passive.block.key, 0, pair.passive.block.address(), 64};
    std::uint64_t number = 0;
    for (const auto flags :
         {DAT_COMPLETION_DEFAULT_FLAG, DAT_COMPLETION_SUPPRESS_FLAG, DAT_COMPLETION_DEFAULT_FLAG}) {
        DAT_LMR_TRIPLET into = pair.active.block.part(64 * number, 64);
        assert_int_equal(
            dat_ep_post_rdma_read(pair.active.ep, 1, &into, Side::cookie_of(number++), &remote, flags),
            DAT_SUCCESS);
    }
    pair.active.must_complete(0, DAT_DTO_SUCCESS, 64);
    pair.active.must_complete(2, DAT_DTO_SUCCESS, 64);
    for (std::size_t i = 0; i < 192; ++i) {
        assert_int_equal(pair.active.block.bytes[i], 0x77);
    }
}

TEST(sync__bad_segment_in_the_middle__nothing_is_synced) {
    Pair pair;
    pair.connect();
    Block& block = pair.passive.block;
    std::memset(block.bytes.data(), 0x55, 4096);
    const DAT_LMR_TRIPLET parts[] = {block.part(0, 64), block.part(4090, 7), block.part(64, 64)};
    assert_int_equal(dat_lmr_sync_rdma_read(pair.passive.opened.ia, parts, 3),
                     coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    const DAT_RMR_TRIPLET remote{block.key, 0, block.address(), 64};
    const auto read = [&] {
        DAT_LMR_TRIPLET into = pair.active.block.part(0, 64);
        assert_int_equal(dat_ep_post_rdma_read(pair.active.ep, 1, &into, Side::cookie_of(1), &remote,
                                               DAT_COMPLETION_DEFAULT_FLAG),
                         DAT_SUCCESS);
        pair.active.must_complete(1, DAT_DTO_SUCCESS, 64);
        return pair.active.block.bytes[0];
    };
    assert_int_equal(read(), 0);
    assert_int_equal(dat_lmr_sync_rdma_read(pair.passive.opened.ia, parts, 1), DAT_SUCCESS);
    assert_int_equal(read(), 0x55);
    std::memset(pair.active.block.bytes.data() + 128, 0x66, 64);
    DAT_LMR_TRIPLET from = pair.active.block.part(128, 64);
    assert_int_equal(dat_ep_post_rdma_write(pair.active.ep, 1, &from, Side::cookie_of(2), &remote,
                                            DAT_COMPLETION_DEFAULT_FLAG),
                     DAT_SUCCESS);
    pair.active.must_complete(2, DAT_DTO_SUCCESS, 64);
    assert_int_equal(dat_lmr_sync_rdma_write(pair.passive.opened.ia, parts, 3),
                     coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    assert_int_equal(block.bytes[0], 0x55);
    assert_int_equal(dat_lmr_sync_rdma_write(pair.passive.opened.ia, parts, 1), DAT_SUCCESS);
    assert_int_equal(block.bytes[0], 0x66);
}

TEST(lmr_create__not_mapped__refused_though_its_shadow_would_be) {
    const Opened opened;
    DAT_REGION_DESCRIPTION region{};
    region.for_va = nullptr;
    assert_int_equal(dat_lmr_create(opened.ia, DAT_MEM_TYPE_VIRTUAL, region, 4096, opened.make_pz(),
                                    DAT_MEM_PRIV_ALL_FLAG, nullptr, nullptr, nullptr, nullptr, nullptr),
                     coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
}

} // namespace

int main() {
    setenv("SLUICE_COHERENCE", "simulated", 1); // NOLINT(concurrency-mt-unsafe): there is no other thread yet
    print_message("seeds 1 to %u, and 4711\n", kSeeds);
    return sluice::test::run_all_tests();
}
