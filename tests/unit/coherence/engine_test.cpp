// SPDX-License-Identifier: BSD-3-Clause
//
// The engine's promises one by one, on a recorded CPU with lines of 64 bytes.
#include "core/coherence/engine.hpp"

#include <memory>
#include <vector>

#include "tests/cmocka.hpp"
#include "tests/unit/coherence/recorder.hpp"

using sluice::ErrorKind;
using sluice::Result;
using sluice::coherence::BatchResult;
using sluice::coherence::EdgePolicy;
using sluice::coherence::Engine;
using sluice::coherence::Region;
using sluice::coherence::Segment;
using sluice::coherence::SegmentFault;
using sluice::testing::Event;
using sluice::testing::Recorded;
using sluice::testing::Recorder;

namespace {

constexpr std::uint64_t kBase = 0x10000;
constexpr std::uint64_t kTop = ~std::uint64_t{0};

using Lines = std::vector<std::uintptr_t>;

// An engine over a recorder, with one region of 4 KiB at kBase.
struct Bench {
    explicit Bench(EdgePolicy edges = EdgePolicy::kCount, std::size_t line_bytes = 64,
                   std::size_t granule_bytes = 64)
        : recorder(line_bytes, granule_bytes), engine(*Engine::make_non_coherent(recorder.ops(), edges)),
          context(add(kBase, 4096)) {}

    std::uint32_t add(std::uint64_t address, std::uint64_t length, bool device_writes = false) {
        return *engine->add({.address = address, .length = length}, device_writes);
    }
    Segment segment(std::uint64_t offset, std::uint64_t length) const {
        return {context, 0, kBase + offset, length};
    }
    BatchResult clean(const std::vector<Segment>& segments) {
        recorder.clear();
        return engine->before_device_reads(segments.data(), segments.size());
    }
    BatchResult invalidate(const std::vector<Segment>& segments) {
        recorder.clear();
        return engine->after_device_wrote(segments.data(), segments.size());
    }

    Recorder recorder;
    std::unique_ptr<Engine> engine;
    std::uint32_t context;
};

void assert_fault(const BatchResult& result, SegmentFault fault, std::uint64_t index) {
    assert_string_equal(to_string(result.fault), to_string(fault));
    assert_int_equal(result.index, index);
}

TEST(clean__one_segment__lines_then_one_fence) {
    Bench bench;
    assert_true(bench.clean({bench.segment(0, 128)}).ok());
    const std::vector<Recorded> expected{{Event::kBeforeClean, 0},
                                         {Event::kClean, kBase},
                                         {Event::kClean, kBase + 64},
                                         {Event::kAfterClean, 0}};
    assert_true(bench.recorder.events() == expected);
}

TEST(invalidate__one_segment__fence_lines_fence) {
    Bench bench;
    assert_true(bench.invalidate({bench.segment(64, 64)}).ok());
    const std::vector<Recorded> expected{
        {Event::kBeforeInvalidate, 0}, {Event::kInvalidate, kBase + 64}, {Event::kAfterInvalidate, 0}};
    assert_true(bench.recorder.events() == expected);
}

TEST(batch__empty__still_fences) {
    Bench bench;
    assert_true(bench.clean({}).ok());
    assert_int_equal(bench.recorder.count(Event::kAfterClean), 1);
    assert_true(bench.invalidate({}).ok());
    assert_int_equal(bench.recorder.count(Event::kBeforeInvalidate), 1);
    assert_int_equal(bench.recorder.count(Event::kAfterInvalidate), 1);
    assert_true(bench.engine->before_device_reads(nullptr, 0).ok());
}

TEST(clean__unaligned_sub_line_segment__its_whole_line) {
    Bench bench;
    assert_true(bench.clean({bench.segment(70, 3)}).ok());
    assert_true(bench.recorder.lines_of(Event::kClean) == Lines{kBase + 64});
}

TEST(clean__segment_across_a_boundary__both_lines) {
    Bench bench;
    assert_true(bench.clean({bench.segment(63, 2)}).ok());
    assert_true((bench.recorder.lines_of(Event::kClean) == Lines{kBase, kBase + 64}));
}

TEST(clean__packed_sub_line_segments__each_line_once) {
    Bench bench;
    std::vector<Segment> segments;
    for (std::uint64_t i = 0; i < 256; ++i) {
        segments.push_back(bench.segment(i * 16, 16));
    }
    assert_true(bench.clean(segments).ok());
    const Lines lines = bench.recorder.lines_of(Event::kClean);
    assert_int_equal(lines.size(), 64);
    for (std::size_t i = 0; i < lines.size(); ++i) {
        assert_int_equal(lines[i], kBase + i * 64);
    }
}

TEST(clean__descending_neighbours__each_line_once) {
    Bench bench;
    assert_true(bench.clean({bench.segment(100, 64), bench.segment(64, 36), bench.segment(0, 70)}).ok());
    assert_true((bench.recorder.lines_of(Event::kClean) == Lines{kBase + 64, kBase + 128, kBase}));
}

TEST(clean__segment_around_the_earlier_ones__adds_both_ends) {
    Bench bench;
    assert_true(bench.clean({bench.segment(128, 64), bench.segment(0, 320)}).ok());
    assert_true((bench.recorder.lines_of(Event::kClean) ==
                 Lines{kBase + 128, kBase + 192, kBase + 256, kBase, kBase + 64}));
}

TEST(clean__scattered_segments__in_the_order_given) {
    Bench bench;
    std::vector<Segment> segments;
    Lines expected;
    for (std::uint64_t i = 20; i-- > 0;) {
        segments.push_back(bench.segment(i * 192, 64));
        expected.push_back(kBase + i * 192);
    }
    assert_true(bench.clean(segments).ok());
    assert_true(bench.recorder.lines_of(Event::kClean) == expected);
}

TEST(batch__segments_of_different_regions__all_done) {
    Bench bench;
    const std::uint32_t other = bench.add(0x90000, 64);
    assert_true(bench.invalidate({bench.segment(0, 64), {other, 0, 0x90000, 64}}).ok());
    assert_true((bench.recorder.lines_of(Event::kInvalidate) == Lines{kBase, 0x90000}));
}

TEST(zero_length_segment__garbage_in_the_rest__skipped) {
    Bench bench;
    assert_true(bench.clean({{0xdeadbeef, 7, 3, 0}, bench.segment(0, 1), {0, 0, kTop, 0}}).ok());
    assert_true(bench.recorder.lines_of(Event::kClean) == Lines{kBase});
    assert_true(bench.invalidate({{0xdeadbeef, 7, 3, 0}}).ok());
    assert_int_equal(bench.recorder.count(Event::kInvalidate), 0);
}

TEST(zero_length_segment__between_neighbours__does_not_split_the_run) {
    Bench bench;
    assert_true(bench.clean({bench.segment(0, 16), {0, 0, 0, 0}, bench.segment(16, 16)}).ok());
    assert_true(bench.recorder.lines_of(Event::kClean) == Lines{kBase});
}

TEST(bad_segment__first_offender__earlier_ones_done_and_fenced) {
    Bench bench;
    const std::vector<Segment> segments{bench.segment(0, 64),
                                        {0, 0, 0, 0},
                                        bench.segment(4096, 1),
                                        bench.segment(128, 64),
                                        bench.segment(5000, 1)};
    assert_fault(bench.clean(segments), SegmentFault::kOutOfRange, 2);
    assert_true(bench.recorder.lines_of(Event::kClean) == Lines{kBase});
    assert_int_equal(bench.recorder.count(Event::kAfterClean), 1);
    assert_true(bench.recorder.events().back().event == Event::kAfterClean);

    assert_fault(bench.invalidate(segments), SegmentFault::kOutOfRange, 2);
    assert_int_equal(bench.recorder.count(Event::kBeforeInvalidate), 1);
    assert_true(bench.recorder.events().back().event == Event::kAfterInvalidate);
}

TEST(range__every_kind_of_overrun__refused) {
    Bench bench;
    const std::uint64_t lengths[] = {1, 4096, 4097, kTop, kTop - kBase + 1, kTop - 4095};
    for (const std::uint64_t length : lengths) {
        assert_fault(bench.clean({bench.segment(4096, length)}), SegmentFault::kOutOfRange, 0);
        assert_fault(bench.clean({bench.segment(std::uint64_t{0} - 1, length)}), SegmentFault::kOutOfRange,
                     0);
        if (length > 4096) {
            assert_fault(bench.clean({bench.segment(0, length)}), SegmentFault::kOutOfRange, 0);
        }
    }
    assert_fault(bench.clean({{bench.context, 0, 0, kTop}}), SegmentFault::kOutOfRange, 0);
    assert_fault(bench.clean({{bench.context, 0, kTop, 2}}), SegmentFault::kOutOfRange, 0);
    assert_true(bench.clean({bench.segment(0, 4096)}).ok());
    assert_true(bench.clean({bench.segment(4095, 1)}).ok());
}

TEST(range__last_bytes_of_the_address_space__done_without_wrapping) {
    Bench bench;
    const std::uint64_t last_lines = kTop - 127;
    const std::uint32_t top = bench.add(last_lines, 128);
    assert_true(bench.clean({{top, 0, last_lines, 128}}).ok());
    assert_true((bench.recorder.lines_of(Event::kClean) == Lines{last_lines, last_lines + 64}));
    // The line after the last one is not line 0.
    const std::uint32_t bottom = bench.add(0, 64);
    assert_true(bench.clean({{top, 0, kTop, 1}, {bottom, 0, 0, 1}}).ok());
    assert_true((bench.recorder.lines_of(Event::kClean) == Lines{last_lines + 64, 0}));
}

TEST(context__never_given_out__refused) {
    Bench bench;
    const std::uint32_t contexts[] = {0, 1u << 16, bench.context + 1, bench.context + (1u << 16), 0xffffffff};
    for (const std::uint32_t context : contexts) {
        assert_fault(bench.clean({{context, 0, kBase, 1}}), SegmentFault::kUnknownContext, 0);
        assert_fault(bench.invalidate({{context, 0, kBase, 1}}), SegmentFault::kUnknownContext, 0);
    }
}

TEST(context__freed__refused_even_when_its_slot_lives_again) {
    Bench bench;
    assert_true(bench.engine->remove(bench.context).ok());
    assert_fault(bench.clean({bench.segment(0, 1)}), SegmentFault::kUnknownContext, 0);
    const std::uint32_t again = bench.add(kBase, 4096);
    assert_int_equal(again & 0xffff, bench.context & 0xffff);
    assert_fault(bench.clean({bench.segment(0, 1)}), SegmentFault::kUnknownContext, 0);
    assert_true(bench.clean({{again, 0, kBase, 1}}).ok());
}

TEST(add__range_that_wraps__refused) {
    Bench bench;
    const Result<std::uint32_t> context = bench.engine->add({.address = kTop, .length = 2}, false);
    assert_true(context.error().kind() == ErrorKind::kOutOfRange);
    assert_true(bench.engine->add({.address = 1, .length = kTop}, false).ok());
}

TEST(add__flags_of_the_engine__refused) {
    Bench bench;
    const Region region{.address = kBase, .length = 1, .flags = sluice::coherence::kSharedHead};
    assert_true(bench.engine->add(region, false).error().kind() == ErrorKind::kInvalidArgument);
}

TEST(add__device_writes__region_cleaned_once) {
    Bench bench;
    bench.recorder.clear();
    bench.add(0x20010, 64, true);
    assert_true((bench.recorder.lines_of(Event::kClean) == Lines{0x20000, 0x20040}));
    assert_int_equal(bench.recorder.count(Event::kAfterClean), 1);
    bench.recorder.clear();
    bench.add(0x30000, 64, false);
    assert_true(bench.recorder.events().empty());
}

TEST(find__live_region__everything_back_with_edges_marked) {
    Bench bench;
    const Region region{.address = 0x50008, .length = 120, .flags = 0x1234, .zone = 7, .user = 0xabcd};
    const std::uint32_t context = *bench.engine->add(region, false);
    Region found;
    assert_true(bench.engine->find(context, found));
    assert_int_equal(found.address, region.address);
    assert_int_equal(found.length, region.length);
    assert_int_equal(found.zone, region.zone);
    assert_int_equal(found.user, region.user);
    assert_int_equal(found.flags, 0x1234u | sluice::coherence::kSharedHead);
    assert_true(bench.engine->remove(context).ok());
    assert_false(bench.engine->find(context, found));
}

TEST(edges__granule_larger_than_a_line__decides) {
    Bench bench(EdgePolicy::kCount, 64, 256);
    assert_int_equal(bench.engine->granule(), 256);
    bench.add(0x40040, 448); // aligned to lines, not to the granule: head shared, tail not
    bench.add(0x80000, 64);  // tail
    bench.add(0x90000, 512); // neither
    bench.add(0xa0000, 0);   // no bytes, no edges
    assert_int_equal(bench.engine->edge_counts().regions, 2);
}

TEST(edges__counted_by_invalidate_only_where_met) {
    Bench bench;
    const std::uint32_t region = bench.add(0x20010, 256); // 0x20010 .. 0x2010f: both edges shared
    assert_true(bench.invalidate({{region, 0, 0x20040, 128}}).ok());
    assert_int_equal(bench.engine->edge_counts().segments, 0);
    assert_true(bench.invalidate({{region, 0, 0x2003f, 1}}).ok());
    assert_int_equal(bench.engine->edge_counts().segments, 1);
    assert_true(bench.invalidate({{region, 0, 0x20040, 64}, {region, 0, 0x20100, 1}}).ok());
    assert_int_equal(bench.engine->edge_counts().segments, 2);
    assert_true(bench.clean({{region, 0, 0x20010, 256}}).ok());
    assert_int_equal(bench.engine->edge_counts().segments, 2);
}

TEST(edges__refused_under_the_strict_policy) {
    Bench bench(EdgePolicy::kRefuse);
    const std::uint32_t region = bench.add(0x20010, 256);
    assert_fault(bench.invalidate({bench.segment(0, 64), {region, 0, 0x20010, 1}}), SegmentFault::kSharedEdge,
                 1);
    assert_true((bench.recorder.lines_of(Event::kInvalidate) == Lines{kBase}));
    assert_true(bench.recorder.events().back().event == Event::kAfterInvalidate);
    assert_fault(bench.invalidate({{region, 0, 0x2010f, 1}}), SegmentFault::kSharedEdge, 0);
    assert_true(bench.invalidate({{region, 0, 0x20040, 128}}).ok());
    assert_true(bench.clean({{region, 0, 0x20010, 256}}).ok());
}

int barriers_to_device = 0;
int barriers_from_device = 0;
constexpr sluice::coherence::Barriers kCountedBarriers{
    .to_device = {"counted", []() noexcept { ++barriers_to_device; }},
    .from_device = {"counted", []() noexcept { ++barriers_from_device; }}};

TEST(coherent__same_checks_one_barrier_and_no_lines) {
    const std::unique_ptr<Engine> engine = *Engine::make_coherent(kCountedBarriers);
    assert_false(engine->sync_required());
    assert_int_equal(engine->granule(), 1);
    const std::uint32_t context = *engine->add({.address = kBase + 1, .length = 100}, true);
    const Segment good[] = {{0xffff, 0, 0, 0}, {context, 0, kBase + 1, 100}};
    const Segment bad[] = {good[1], {context, 0, kBase, 1}};
    assert_true(engine->before_device_reads(good, 2).ok());
    assert_fault(engine->before_device_reads(bad, 2), SegmentFault::kOutOfRange, 1);
    assert_int_equal(barriers_to_device, 2);
    assert_int_equal(barriers_from_device, 0);
    assert_true(engine->after_device_wrote(good, 2).ok());
    assert_fault(engine->after_device_wrote(bad, 2), SegmentFault::kOutOfRange, 1);
    assert_int_equal(barriers_from_device, 2);
    assert_int_equal(engine->edge_counts().regions, 0);
}

TEST(validate__bad_segment_in_the_middle__its_index_and_no_line) {
    Bench bench;
    const std::vector<Segment> bad{bench.segment(0, 64), bench.segment(4090, 7), bench.segment(64, 64)};
    bench.recorder.clear();
    assert_fault(bench.engine->validate(bad.data(), bad.size()), SegmentFault::kOutOfRange, 1);
    assert_true(bench.engine->validate(bad.data(), 1).ok());
    assert_true(bench.recorder.events().empty());
}

TEST(lines_of__segments_that_share_lines__each_line_once) {
    const Bench bench;
    const std::vector<Segment> segments{bench.segment(0, 100), bench.segment(100, 28), bench.segment(0, 0),
                                        bench.segment(120, 200), bench.segment(4095, 1)};
    assert_int_equal(bench.engine->lines_of(segments.data(), segments.size()), 6);
}

TEST(coherent__native_barriers__work) {
    const std::unique_ptr<Engine> engine = *Engine::make_coherent(sluice::coherence::native_barriers());
    const std::uint32_t context = *engine->add({.address = kBase, .length = 64}, true);
    const Segment segment{context, 0, kBase, 64};
    assert_true(engine->before_device_reads(&segment, 1).ok());
    assert_true(engine->after_device_wrote(&segment, 1).ok());
}

} // namespace

int main() {
    return sluice::test::run_all_tests("coherence.engine");
}
