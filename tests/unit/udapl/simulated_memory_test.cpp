// SPDX-License-Identifier: BSD-3-Clause
//
// The simulated memory by itself, under an engine: what moves between program and shadow, when, and what
// must not.
#include "udapl/provider/simulated_memory.hpp"

#include <cstring>
#include <vector>

#include "core/coherence/engine.hpp"
#include "tests/cmocka.hpp"

using namespace sluice;
using dapl::SimulatedMemory;

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kLine = SimulatedMemory::kLineBytes;

// Some pages of the program's, and an engine for a device that has their shadow.
struct Bench {
    Bench()
        : engine(*coherence::Engine::make_non_coherent(memory.ops(), coherence::EdgePolicy::kCount)),
          storage(9 * kPage) {
        const auto begin = reinterpret_cast<std::uintptr_t>(storage.data());
        bytes = storage.data() + (kPage - begin % kPage) % kPage;
    }
    std::uintptr_t address(std::size_t offset) const {
        return reinterpret_cast<std::uintptr_t>(bytes) + offset;
    }

    SimulatedMemory memory;
    std::unique_ptr<coherence::Engine> engine;
    std::vector<std::uint8_t> storage;
    std::uint8_t* bytes; // page by page
};

struct Region {
    Region(Bench& its_bench, std::size_t its_offset, std::size_t length, bool device_writes = false)
        : bench(its_bench), offset(its_offset), shadow(*bench.memory.add(bench.address(offset), length)),
          context(*bench.engine->add({.address = bench.address(offset), .length = length}, device_writes)) {}
    // What the device sees at OFFSET from the bench's first byte.
    std::uint8_t& device(std::size_t at) const {
        return static_cast<std::uint8_t*>(shadow.address())[at - offset];
    }
    void clean(std::size_t at, std::size_t length) const {
        const coherence::Segment part{context, 0, bench.address(at), length};
        assert_true(bench.engine->before_device_reads(&part, 1).ok());
    }
    void invalidate(std::size_t at, std::size_t length) const {
        const coherence::Segment part{context, 0, bench.address(at), length};
        assert_true(bench.engine->after_device_wrote(&part, 1).ok());
    }

    Bench& bench;
    std::size_t offset;
    SimulatedMemory::Shadow shadow;
    std::uint32_t context;
};

TEST(store__not_cleaned__device_sees_the_former_byte) {
    Bench bench;
    const Region region(bench, 0, kPage);
    bench.bytes[100] = 5;
    assert_int_equal(region.device(100), 0);
    region.clean(0, 64); // another line
    assert_int_equal(region.device(100), 0);
    region.clean(100, 1);
    assert_int_equal(region.device(100), 5);
}

TEST(region__device_may_write__cleaned_when_made) {
    Bench bench;
    bench.bytes[100] = 5;
    const Region region(bench, 0, kPage, true);
    assert_int_equal(region.device(100), 5);
}

TEST(device_write__not_invalidated__program_sees_the_former_byte) {
    Bench bench;
    const Region region(bench, 0, kPage);
    region.device(200) = 9;
    assert_int_equal(bench.bytes[200], 0);
    region.clean(200, 1); // which is the wrong call
    assert_int_equal(bench.bytes[200], 0);
    assert_int_equal(region.device(200), 9);
    region.invalidate(200, 1);
    assert_int_equal(bench.bytes[200], 9);
}

TEST(store__into_a_line_that_the_device_wrote__goes_over_all_of_it) {
    Bench bench;
    const Region region(bench, 0, kPage);
    std::memset(&region.device(0), 9, 2 * kLine);
    bench.bytes[3] = 5;
    region.invalidate(0, 2 * kLine);
    assert_int_equal(bench.bytes[3], 5);
    assert_int_equal(bench.bytes[4], 0); // the device's is lost
    assert_int_equal(region.device(4), 0);
    assert_int_equal(bench.bytes[kLine], 9); // in the next line it isn't
}

TEST(invalidate__after_stores_and_clean__keeps_them) {
    Bench bench;
    const Region region(bench, 0, kPage);
    std::memset(bench.bytes, 5, kLine);
    region.invalidate(0, kLine); // before the device writes
    std::memset(&region.device(10), 9, 10);
    region.invalidate(10, 10);
    assert_int_equal(bench.bytes[9], 5);
    assert_int_equal(bench.bytes[10], 9);
    assert_int_equal(bench.bytes[19], 9);
    assert_int_equal(bench.bytes[20], 5);
}

TEST(edges__in_strangers_lines__strangers_bytes_are_left_alone) {
    Bench bench;
    const Region region(bench, 70, 100); // 70 to 169
    std::memset(bench.bytes, 5, kPage);
    std::memset(&region.device(70), 9, 100);
    region.clean(70, 0);
    bench.bytes[69] = 6;
    bench.bytes[170] = 6;
    region.invalidate(70, 100);
    assert_int_equal(bench.bytes[69], 6);
    assert_int_equal(bench.bytes[170], 6);
    assert_int_equal(region.device(70), 5); // dirty when the region was made
}

TEST(region__across_pages__each_line_once) {
    Bench bench;
    const Region region(bench, kPage - 10, 3 * kPage);
    std::memset(bench.bytes, 5, 5 * kPage);
    region.clean(kPage - 10, 3 * kPage);
    for (std::size_t i = kPage - 10; i < 4 * kPage - 10; ++i) {
        assert_int_equal(region.device(i), 5);
        region.device(i) = static_cast<std::uint8_t>(i);
    }
    region.invalidate(kPage - 10, 3 * kPage);
    for (std::size_t i = kPage - 10; i < 4 * kPage - 10; ++i) {
        assert_int_equal(bench.bytes[i], static_cast<std::uint8_t>(i));
    }
}

TEST(regions__overlapping_in_any_order__one_memory) {
    Bench bench;
    const Region first(bench, kPage + 5, 100);
    const Region third(bench, 3 * kPage, kPage);
    const Region around(bench, 10, 5 * kPage);        // pieces: new, first's, new, third's, new
    const Region inside(bench, 2 * kPage + 7, kPage); // of the new and of third's
    first.device(kPage + 50) = 1;
    third.device(3 * kPage + 3) = 2;
    inside.device(2 * kPage + 9) = 3;
    assert_int_equal(around.device(kPage + 50), 1);
    assert_int_equal(around.device(3 * kPage + 3), 2);
    assert_int_equal(inside.device(3 * kPage + 3), 2);
    assert_int_equal(around.device(2 * kPage + 9), 3);
    around.invalidate(10, 5 * kPage);
    assert_int_equal(bench.bytes[kPage + 50], 1);
    assert_int_equal(bench.bytes[3 * kPage + 3], 2);
    assert_int_equal(bench.bytes[2 * kPage + 9], 3);
    around.device(11) = 4;
    assert_int_equal(around.device(11), 4);
}

TEST(region__gone__its_part_of_others_stays_and_a_new_one_begins_anew) {
    Bench bench;
    std::optional<Region> one(std::in_place, bench, 0, 2 * kPage);
    std::optional<Region> other(std::in_place, bench, kPage, 2 * kPage);
    one->device(kPage + 1) = 7;
    one->device(1) = 7;
    one.reset();
    assert_int_equal(other->device(kPage + 1), 7);
    const Region again(bench, 0, 2 * kPage);
    assert_int_equal(again.device(kPage + 1), 7);
    assert_int_equal(again.device(1), 0);
    other.reset();
    assert_int_equal(again.device(kPage + 1), 7);
}

coherence::LineRun lines(const Bench& bench, std::size_t first, std::size_t end) {
    return {bench.address(first), bench.address(end) - 1};
}

void must_be(const std::optional<coherence::LineRun>& found, const Bench& bench, std::size_t first,
             std::size_t end) {
    assert_true(found.has_value());
    assert_int_equal(found->first, bench.address(first));
    assert_int_equal(found->last, bench.address(end) - 1);
}

TEST(read__of_stored_bytes__the_first_run_of_them) {
    Bench bench;
    const Region region(bench, 0, kPage);
    int token = 0;
    std::memset(bench.bytes + kLine, 5, 2 * kLine);
    bench.bytes[5 * kLine] = 5;
    bench.memory.begin_read(&token, lines(bench, 0, kPage));
    must_be(bench.memory.end_read(&token), bench, kLine, 3 * kLine);
    assert_false(bench.memory.end_read(&token).has_value());
}

TEST(read__of_other_bytes_in_a_dirty_line__none) {
    Bench bench;
    const Region region(bench, 0, kPage);
    int token = 0;
    bench.bytes[kLine + 20] = 5;
    bench.memory.begin_read(&token, lines(bench, kLine, kLine + 20));
    assert_false(bench.memory.end_read(&token).has_value());
    bench.memory.begin_read(&token, lines(bench, kLine + 20, kLine + 21));
    must_be(bench.memory.end_read(&token), bench, kLine + 20, kLine + 21);
}

TEST(read__cleaned_meanwhile_and_stored_again__not_reported) {
    Bench bench;
    const Region region(bench, 0, kPage);
    int token = 0;
    std::memset(bench.bytes, 5, 4 * kLine);
    bench.memory.begin_read(&token, lines(bench, 0, 4 * kLine));
    region.clean(2 * kLine, 1); // the device may have read it then
    std::memset(bench.bytes, 6, 4 * kLine);
    must_be(bench.memory.end_read(&token), bench, 0, 2 * kLine);
    bench.memory.begin_read(&token, lines(bench, 0, kLine));
    region.clean(0, 1);
    bench.bytes[0] = 7;
    assert_false(bench.memory.end_read(&token).has_value());
}

// Reads whose queue pair has ended never end themselves.
TEST(read__behind_many_that_never_end__reported) {
    Bench bench;
    const Region region(bench, 0, kPage);
    std::vector<int> tokens(1000);
    bench.bytes[0] = 5;
    for (const int& token : tokens) {
        bench.memory.begin_read(&token, lines(bench, 0, kLine));
    }
    must_be(bench.memory.end_read(&tokens.back()), bench, 0, kLine);
}

TEST(read__stored_behind_its_post__not_reported) {
    Bench bench;
    const Region region(bench, 0, kPage);
    int token = 0;
    bench.memory.begin_read(&token, lines(bench, 0, kPage));
    bench.bytes[0] = 5;
    assert_false(bench.memory.end_read(&token).has_value());
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
