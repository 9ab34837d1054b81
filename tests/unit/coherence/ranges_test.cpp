// SPDX-License-Identifier: BSD-3-Clause
//
// Ranges that belong to no region: which lines are issued, between which fences; copies; and flags.
#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <vector>

#include "core/coherence/copy.hpp"
#include "core/coherence/flag.hpp"
#include "tests/cmocka.hpp"
#include "tests/unit/coherence/recorder.hpp"
#include "tests/unit/coherence/seeded.hpp"

namespace coherence = sluice::coherence;
using coherence::Ops;
using coherence::Range;
using sluice::testing::Event;
using sluice::testing::Recorded;
using sluice::testing::Recorder;

namespace {

using Lines = std::vector<std::uintptr_t>;

TEST(batch__touching_ranges__each_line_once_between_the_fences) {
    Recorder recorder;
    const Range ranges[] = {{64, 16}, {80, 16}, {96, 100}, {0, 0}, {40, 30}, {1024, 1}};
    coherence::clean(recorder.ops(), ranges, 6);
    assert_true(recorder.lines_of(Event::kClean) == (Lines{64, 128, 192, 0, 1024}));
    assert_true(recorder.events().front().event == Event::kBeforeClean);
    assert_true(recorder.events().back().event == Event::kAfterClean);
    assert_int_equal(recorder.events().size(), 7);
}

TEST(batch__invalidate__its_own_fences_and_lines) {
    Recorder recorder;
    const Range ranges[] = {{64, 1}, {64, 64}, {512, 1}};
    coherence::invalidate(recorder.ops(), ranges, 3);
    const std::vector<Recorded> wanted{{Event::kBeforeInvalidate, 0},
                                       {Event::kInvalidate, 64},
                                       {Event::kInvalidate, 512},
                                       {Event::kAfterInvalidate, 0}};
    assert_true(recorder.events() == wanted);
}

TEST(batch__no_ranges__fences_only) {
    Recorder recorder;
    coherence::clean(recorder.ops(), nullptr, 0);
    const std::vector<Recorded> wanted{{Event::kBeforeClean, 0}, {Event::kAfterClean, 0}};
    assert_true(recorder.events() == wanted);
}

TEST(batch__random_ranges__exactly_the_lines_that_they_touch) {
    constexpr std::uint64_t kSeed = 20;
    print_message("seed %d\n", static_cast<int>(kSeed));
    sluice::testing::Random random(kSeed);
    for (int turn = 0; turn < 3000; ++turn) {
        Recorder recorder;
        std::vector<Range> ranges;
        std::set<std::uintptr_t> wanted;
        for (std::uint64_t i = random.below(12); i-- > 0;) {
            ranges.push_back({random.below(4096), random.below(400)});
            for (std::uintptr_t at = 0; at < ranges.back().length; ++at) {
                wanted.insert((ranges.back().address + at) & ~std::uintptr_t{63});
            }
        }
        coherence::invalidate(recorder.ops(), ranges.data(), ranges.size());
        const Lines lines = recorder.lines_of(Event::kInvalidate);
        assert_true(std::set<std::uintptr_t>(lines.begin(), lines.end()) == wanted);
    }
}

// The recorder's persist is a clean of its own; it has the fences of a clean.
TEST(persist__range_and_batch__by_its_own_instruction) {
    Recorder recorder;
    Ops ops = recorder.ops();
    ops.persist = ops.invalidate;
    coherence::persist(ops, 64, 65);
    const Range range{512, 1};
    coherence::persist(ops, &range, 1);
    const std::vector<Recorded> wanted{{Event::kBeforeClean, 0},  {Event::kInvalidate, 64},
                                       {Event::kInvalidate, 128}, {Event::kAfterClean, 0},
                                       {Event::kBeforeClean, 0},  {Event::kInvalidate, 512},
                                       {Event::kAfterClean, 0}};
    assert_true(recorder.events() == wanted);
}

alignas(64) std::array<char, 1024> target;
std::size_t lines_copied;

// Ops of RECORDER with a copy past the caches that counts lines.
Ops with_copy(const Recorder& recorder, std::size_t worth_bytes) {
    Ops ops = recorder.ops();
    ops.copy = {"counted",
                [](void* to, const void* from, std::size_t lines) noexcept {
                    assert_int_equal(reinterpret_cast<std::uintptr_t>(to) % 64, 0);
                    std::memcpy(to, from, lines * 64);
                    lines_copied += lines;
                },
                worth_bytes};
    return ops;
}

// Copies 300 bytes to OFFSET of the target, and checks all of it.
std::vector<Recorded> copy_300(std::size_t offset, std::size_t worth_bytes) {
    Recorder recorder;
    std::array<char, 300> source;
    for (std::size_t i = 0; i < source.size(); ++i) {
        source[i] = static_cast<char>(i + 1);
    }
    target.fill(0x55);
    lines_copied = 0;
    coherence::copy_and_clean(with_copy(recorder, worth_bytes), &target[offset], source.data(),
                              source.size());
    std::array<char, 1024> wanted;
    wanted.fill(0x55);
    std::memcpy(&wanted[offset], source.data(), source.size());
    assert_true(target == wanted);
    return recorder.events();
}

std::uintptr_t line_of(std::size_t offset) {
    return reinterpret_cast<std::uintptr_t>(target.data()) + offset / 64 * 64;
}

TEST(copy__worth_it__whole_lines_past_the_caches_and_edges_cleaned) {
    const std::vector<Recorded> wanted{{Event::kBeforeClean, 0},
                                       {Event::kClean, line_of(10)},
                                       {Event::kClean, line_of(309)},
                                       {Event::kAfterClean, 0}};
    assert_true(copy_300(10, 256) == wanted);
    assert_int_equal(lines_copied, 3);
}

TEST(copy__from_a_line_on__only_the_last_line_is_cleaned) {
    const std::vector<Recorded> wanted{
        {Event::kBeforeClean, 0}, {Event::kClean, line_of(64 + 299)}, {Event::kAfterClean, 0}};
    assert_true(copy_300(64, 256) == wanted);
    assert_int_equal(lines_copied, 4);
}

TEST(copy__too_short__stored_and_cleaned) {
    const std::vector<Recorded> events = copy_300(10, 301);
    assert_int_equal(lines_copied, 0);
    assert_int_equal(events.size(), 7);
}

bool stored_at_fence;

// Whether all of a copy to OFFSET is stored when the fence before the clean is issued.
bool fence_is_behind_stores(std::size_t offset, std::size_t worth_bytes) {
    const Recorder recorder;
    Ops ops = with_copy(recorder, worth_bytes);
    ops.before_clean.issue = [](const Ops&) noexcept {
        stored_at_fence = std::ranges::count(target, 0x33) == 300;
    };
    std::array<char, 300> source;
    source.fill(0x33);
    target.fill(0x55);
    stored_at_fence = false;
    coherence::copy_and_clean(ops, &target[offset], source.data(), source.size());
    return stored_at_fence;
}

// riscv64, and AMD before clflushopt, clean a line in order with older stores to it only behind that fence.
TEST(copy__short_or_past_the_caches__stored_before_the_fence_of_the_clean) {
    assert_true(fence_is_behind_stores(10, 301));
    assert_true(fence_is_behind_stores(0, 301));
    assert_true(fence_is_behind_stores(10, 256));
    assert_true(fence_is_behind_stores(64, 256));
}

// A CPU that writes down, with each step, what the flag holds at that moment.
struct Witness {
    struct Step {
        char what;
        std::uint64_t flag;
        bool operator==(const Step&) const = default;
    };
    alignas(64) std::uint64_t flag = 1;
    std::vector<Step> steps;

    static void note(const Ops& ops, char what) {
        auto& witness = *static_cast<Witness*>(ops.context);
        witness.steps.push_back({what, witness.flag});
    }
    Ops ops() {
        Ops ops = Recorder().ops();
        ops.context = this;
        ops.clean.issue = [](const Ops& self, coherence::LineRun) noexcept { note(self, 'c'); };
        ops.invalidate.issue = [](const Ops& self, coherence::LineRun) noexcept { note(self, 'i'); };
        ops.before_clean.issue = [](const Ops& self) noexcept { note(self, '<'); };
        ops.after_clean.issue = [](const Ops& self) noexcept { note(self, '>'); };
        ops.before_invalidate.issue = [](const Ops& self) noexcept { note(self, '['); };
        ops.after_invalidate.issue = [](const Ops& self) noexcept { note(self, ']'); };
        return ops;
    }
};

TEST(publish__stored_behind_a_fence_and_cleaned_in_front_of_one) {
    Witness witness;
    coherence::publish(witness.ops(), &witness.flag, 2);
    const std::vector<Witness::Step> wanted{{'>', 1}, {'<', 2}, {'c', 2}, {'>', 2}};
    assert_true(witness.steps == wanted);
}

// The device writes at the last moment at which it may.
TEST(observe__loads_behind_the_fence_of_the_invalidate) {
    Witness witness;
    Ops ops = witness.ops();
    ops.after_invalidate.issue = [](const Ops& self) noexcept {
        static_cast<Witness*>(self.context)->flag = 9;
    };
    assert_int_equal(coherence::observe(ops, &witness.flag), 9);
    const std::vector<Witness::Step> wanted{{'[', 1}, {'i', 1}};
    assert_true(witness.steps == wanted);
}

// A word is published when it's cleaned, and observed when it's loaded.
TEST(publish_and_observe__watched__told_on_both_sides) {
    static std::uint64_t told;
    static const std::uint64_t* told_flag;
    static constexpr coherence::FlagWatch kWatch{
        .before_publish =
            [](const Ops& self, const std::uint64_t* flag) noexcept {
                told_flag = flag;
                Witness::note(self, 'P');
            },
        .after_publish =
            [](const Ops& self, const std::uint64_t* flag, std::uint64_t value) noexcept {
                assert_ptr_equal(flag, told_flag);
                told = value;
                Witness::note(self, 'p');
            },
        .before_observe = [](const Ops& self) noexcept { Witness::note(self, 'O'); },
        .after_observe =
            [](const Ops& self, const std::uint64_t* flag, std::uint64_t value) noexcept {
                told_flag = flag;
                told = value;
                Witness::note(self, 'o');
            }};
    Witness witness;
    Ops ops = witness.ops();
    ops.flags = &kWatch;
    coherence::publish(ops, &witness.flag, 2);
    assert_ptr_equal(told_flag, &witness.flag);
    assert_int_equal(told, 2);
    told = 0;
    told_flag = nullptr;
    assert_int_equal(coherence::observe(ops, &witness.flag), 2);
    assert_ptr_equal(told_flag, &witness.flag);
    assert_int_equal(told, 2);
    const std::vector<Witness::Step> wanted{{'P', 1}, {'>', 1}, {'<', 2}, {'c', 2}, {'>', 2}, {'p', 2},
                                            {'O', 2}, {'[', 2}, {'i', 2}, {']', 2}, {'o', 2}};
    assert_true(witness.steps == wanted);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("coherence.ranges");
}
