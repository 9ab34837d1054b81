// SPDX-License-Identifier: BSD-3-Clause
//
// Protection zones, LMRs and the sync calls of our provider.
#include <sluice/sluice.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/udapl/dapl.hpp"

using namespace sluice::dapl::test;

namespace {

constexpr DAT_RETURN kBadSegment = coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);

DAT_RETURN sync_both(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET& part) {
    const DAT_RETURN read = dat_lmr_sync_rdma_read(ia, &part, 1);
    assert_int_equal(dat_lmr_sync_rdma_write(ia, &part, 1), read);
    return read;
}

TEST(pz_create__queried__its_ia) {
    const Opened opened;
    const DAT_PZ_HANDLE pz = opened.make_pz();
    DAT_PZ_PARAM param{};
    assert_int_equal(dat_pz_query(pz, DAT_PZ_FIELD_ALL, &param), DAT_SUCCESS);
    assert_ptr_equal(param.ia_handle, opened.ia);
    assert_int_equal(dat_pz_query(pz, static_cast<DAT_PZ_PARAM_MASK>(2), &param),
                     coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    assert_int_equal(dat_pz_query(pz, DAT_PZ_FIELD_ALL, nullptr),
                     coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
    assert_int_equal(dat_pz_free(pz), DAT_SUCCESS);
    assert_int_equal(dat_pz_free(pz), coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_PZ));
}

TEST(pz_free__used_by_an_lmr__in_use) {
    const Opened opened;
    const DAT_PZ_HANDLE pz = opened.make_pz();
    const Block block(opened, pz);
    assert_int_equal(block.status, DAT_SUCCESS);
    assert_int_equal(dat_pz_free(pz), coded(DAT_INVALID_STATE, DAT_INVALID_STATE_PZ_IN_USE));
    assert_int_equal(dat_lmr_free(block.lmr), DAT_SUCCESS);
    assert_int_equal(dat_pz_free(pz), DAT_SUCCESS);
}

TEST(lmr_create__virtual__everything_is_told_and_asked_back) {
    const Opened opened;
    const DAT_PZ_HANDLE pz = opened.make_pz();
    const Block block(opened, pz);
    assert_int_equal(block.status, DAT_SUCCESS);
    assert_int_not_equal(block.context, 0);
    assert_int_not_equal(block.key, 0);
    assert_int_equal(block.registered_size, 4096);
    assert_int_equal(block.registered_address, block.address());
    DAT_LMR_PARAM param{};
    assert_int_equal(dat_lmr_query(block.lmr, DAT_LMR_FIELD_ALL, &param), DAT_SUCCESS);
    assert_ptr_equal(param.ia_handle, opened.ia);
    assert_int_equal(param.mem_type, DAT_MEM_TYPE_SO_VIRTUAL); // the adapter was opened plainly
    assert_ptr_equal(param.region_desc.for_va, block.bytes.data());
    assert_int_equal(param.length, 4096);
    assert_ptr_equal(param.pz_handle, pz);
    assert_int_equal(param.mem_priv, DAT_MEM_PRIV_ALL_FLAG);
    assert_int_equal(param.lmr_context, block.context);
    assert_int_equal(param.rmr_context, block.key);
}

TEST(lmr_create__remote_write_only__privileges_stay_as_asked) {
    const Opened opened;
    const Block block(opened, opened.make_pz(), DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
    assert_int_equal(block.status, DAT_SUCCESS);
    assert_int_not_equal(block.key, 0);
    DAT_LMR_PARAM param{};
    assert_int_equal(dat_lmr_query(block.lmr, DAT_LMR_FIELD_ALL, &param), DAT_SUCCESS);
    assert_int_equal(param.mem_priv, DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
}

TEST(lmr_create__no_remote_privilege__no_remote_context) {
    const Opened opened;
    const DAT_PZ_HANDLE pz = opened.make_pz();
    for (const unsigned privileges : {DAT_MEM_PRIV_NONE_FLAG, DAT_MEM_PRIV_LOCAL_WRITE_FLAG}) {
        const Block block(opened, pz, privileges);
        assert_int_equal(block.status, DAT_SUCCESS);
        assert_int_equal(block.key, 0);
        assert_int_equal(dat_lmr_free(block.lmr), DAT_SUCCESS);
    }
}

TEST(lmr_create__wild_privileges__argument_6) {
    const Opened opened;
    const Block block(opened, opened.make_pz(), 0x4);
    assert_int_equal(block.status, coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG6));
}

TEST(lmr_create__other_ia_s_zone__invalid_zone) {
    const Opened opened;
    const Opened other;
    const Block block(opened, other.make_pz());
    assert_int_equal(block.status, coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_PZ));
}

TEST(lmr_create__range_wraps__argument_4) {
    const Opened opened;
    DAT_REGION_DESCRIPTION region{};
    region.for_va = reinterpret_cast<void*>(~std::uintptr_t{0} - 100); // NOLINT
    assert_int_equal(dat_lmr_create(opened.ia, DAT_MEM_TYPE_VIRTUAL, region, 4096, opened.make_pz(),
                                    DAT_MEM_PRIV_ALL_FLAG, nullptr, nullptr, nullptr, nullptr, nullptr),
                     coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG4));
}

TEST(lmr_create__of_an_lmr__has_its_length_and_outlives_it) {
    const Opened opened;
    const Block block(opened, opened.make_pz());
    DAT_REGION_DESCRIPTION region{};
    region.for_lmr_handle = block.lmr;
    DAT_LMR_HANDLE child = DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT context = 0;
    DAT_VLEN size = 0;
    assert_int_equal(dat_lmr_create(opened.ia, DAT_MEM_TYPE_LMR, region, 0, opened.make_pz(),
                                    DAT_MEM_PRIV_LOCAL_READ_FLAG, &child, &context, nullptr, &size, nullptr),
                     DAT_SUCCESS);
    assert_int_equal(size, 4096);
    assert_int_not_equal(context, block.context);
    assert_int_equal(dat_lmr_free(block.lmr), DAT_SUCCESS);
    assert_int_equal(sync_both(opened.ia, {context, 0, block.address(), 4096}), DAT_SUCCESS);
    assert_int_equal(sync_both(opened.ia, block.part(0, 1)), kBadSegment);
}

TEST(lmr_create__of_a_freed_lmr__invalid_handle) {
    const Opened opened;
    const Block block(opened, opened.make_pz());
    assert_int_equal(dat_lmr_free(block.lmr), DAT_SUCCESS);
    DAT_REGION_DESCRIPTION region{};
    region.for_lmr_handle = block.lmr;
    assert_int_equal(dat_lmr_create(opened.ia, DAT_MEM_TYPE_LMR, region, 0, block.pz, DAT_MEM_PRIV_ALL_FLAG,
                                    nullptr, nullptr, nullptr, nullptr, nullptr),
                     coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_LMR));
}

TEST(lmr_create__no_bytes__has_a_context_and_no_range) {
    const Opened opened;
    const Block block(opened, opened.make_pz(), DAT_MEM_PRIV_ALL_FLAG, 0);
    assert_int_equal(block.status, DAT_SUCCESS);
    assert_int_equal(sync_both(opened.ia, block.part(0, 1)), kBadSegment);
}

TEST(sync__whole_region_or_part__success) {
    const Opened opened;
    const Block block(opened, opened.make_pz());
    assert_int_equal(sync_both(opened.ia, block.part(0, 4096)), DAT_SUCCESS);
    assert_int_equal(sync_both(opened.ia, block.part(4095, 1)), DAT_SUCCESS);
}

TEST(sync__range_past_lmr_or_wrapping__argument_2) {
    const Opened opened;
    const Block block(opened, opened.make_pz());
    assert_int_equal(sync_both(opened.ia, block.part(0, 4097)), kBadSegment);
    assert_int_equal(sync_both(opened.ia, block.part(4096, 1)), kBadSegment);
    assert_int_equal(sync_both(opened.ia, block.part(1, ~DAT_VLEN{0})), kBadSegment);
}

TEST(sync__unknown_context__argument_2) {
    const Opened opened;
    const Block block(opened, opened.make_pz());
    DAT_LMR_TRIPLET part = block.part(0, 1);
    part.lmr_context ^= 0x10000;
    assert_int_equal(sync_both(opened.ia, part), kBadSegment);
}

TEST(sync__empty_segment_with_garbage__success) {
    const Opened opened;
    assert_int_equal(sync_both(opened.ia, {0xdeadbeef, 7, 12345, 0}), DAT_SUCCESS);
}

TEST(sync__no_segments__array_is_not_looked_at) {
    const Opened opened;
    assert_int_equal(dat_lmr_sync_rdma_read(opened.ia, nullptr, 0), DAT_SUCCESS);
    assert_int_equal(dat_lmr_sync_rdma_write(opened.ia, nullptr, 0), DAT_SUCCESS);
    assert_int_equal(dat_lmr_sync_rdma_read(opened.ia, nullptr, 1), kBadSegment);
}

TEST(sync__another_ia_of_the_same_device__knows_the_region) {
    const Opened opened;
    const Opened other;
    const Block block(opened, opened.make_pz());
    assert_int_equal(sync_both(other.ia, block.part(0, 1)), DAT_SUCCESS);
    if (is_own_device_named()) {
        return; // there is no other one
    }
    const Opened elsewhere(own_device(1));
    assert_int_equal(sync_both(elsewhere.ia, block.part(0, 1)), kBadSegment);
}

TEST(sync__closed_ia__invalid_ia) {
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    {
        const Opened opened;
        ia = opened.ia;
    }
    assert_int_equal(sync_both(ia, {0, 0, 0, 0}), coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA));
}

std::uint64_t counted(const char* name) {
    struct Wanted {
        std::string name;
        std::uint64_t sum = 0;
    } wanted{name};
    const auto add = [](void* context, const sluice_uroce_use* use) {
        auto& to = *static_cast<Wanted*>(context);
        for (std::uint32_t i = 0; use->pid == getpid() && i < use->count; ++i) {
            to.sum += use->counters[i].name == to.name ? use->counters[i].value : 0;
        }
    };
    assert_int_equal(sluice_list_uroce_counters(add, &wanted), 0);
    return wanted.sum;
}

// Where the device snoops, no line is touched; the simulation has lines of one byte.
TEST(sync__done_and_refused__is_counted) {
    const Opened opened;
    const Block block(opened, opened.make_pz());
    const char* const names[] = {"sync.before_device_reads", "sync.after_device_wrote", "sync.refused",
                                 "sync.lines_cleaned", "sync.lines_invalidated"};
    std::uint64_t before[std::size(names)];
    std::ranges::transform(names, before, counted);
    const DAT_LMR_TRIPLET parts[] = {block.part(0, 1024), block.part(1024, 1024), block.part(3072, 64)};
    assert_int_equal(dat_lmr_sync_rdma_read(opened.ia, parts, 3), DAT_SUCCESS);
    assert_int_equal(dat_lmr_sync_rdma_read(opened.ia, parts, 3), DAT_SUCCESS);
    assert_int_equal(dat_lmr_sync_rdma_write(opened.ia, parts, 1), DAT_SUCCESS);
    assert_int_equal(sync_both(opened.ia, block.part(4095, 2)), kBadSegment);
    const bool is_simulated = getenv("SLUICE_COHERENCE") != nullptr; // NOLINT(concurrency-mt-unsafe)
    const std::uint64_t lines = is_simulated ? 1 : 0;
    const std::uint64_t expected[] = {2, 1, 2, lines * 2 * (2048 + 64), lines * 1024};
    for (std::size_t i = 0; i < std::size(names); ++i) {
        assert_int_equal(counted(names[i]) - before[i], expected[i]);
    }
}

TEST(sync__closed_adapter__what_was_counted_stays) {
    const std::uint64_t before = counted("sync.before_device_reads");
    {
        const Opened opened;
        const Block block(opened, opened.make_pz());
        assert_int_equal(sync_both(opened.ia, block.part(0, 1)), DAT_SUCCESS);
    }
    assert_int_equal(counted("sync.before_device_reads") - before, 1);
}

TEST(sync__four_threads__hardly_a_call_is_lost) {
    constexpr std::uint64_t kCalls = 20000;
    const Opened opened;
    const Block block(opened, opened.make_pz());
    const std::uint64_t before = counted("sync.before_device_reads");
    {
        std::vector<std::jthread> threads;
        threads.reserve(4);
        for (int i = 0; i < 4; ++i) {
            threads.emplace_back([&] {
                const DAT_LMR_TRIPLET part = block.part(0, 64);
                for (std::uint64_t call = 0; call < kCalls; ++call) {
                    assert_int_equal(dat_lmr_sync_rdma_read(opened.ia, &part, 1), DAT_SUCCESS);
                }
            });
        }
    }
    const std::uint64_t seen = counted("sync.before_device_reads") - before;
    assert_true(seen <= 4 * kCalls);
    assert_true(seen >= kCalls); // those of one, if all four meet at one place
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
