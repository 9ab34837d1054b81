// SPDX-License-Identifier: BSD-3-Clause
//
// Since when a line is dirty, as far as looks at it can tell.
#include "udapl/provider/stored_lines.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "tests/cmocka.hpp"

using namespace sluice;
using coherence::LineRun;
using dapl::SimulatedMemory;
using dapl::StoredLines;

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kPages = 9; // more than are copied at once
constexpr std::size_t kLine = SimulatedMemory::kLineBytes;

// Pages of the program's that are a region.
struct Bench {
    Bench() {
        bytes = static_cast<std::uint8_t*>(
            mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        assert_true(bytes != MAP_FAILED);
        shadow.emplace(*memory.add(at(0), kPages * kPage));
        stored.add(memory, 1, run(0, kPages * kPage));
    }
    ~Bench() {
        shadow.reset();
        munmap(bytes, kPages * kPage);
    }
    Bench(const Bench&) = delete;
    Bench& operator=(const Bench&) = delete;

    std::uintptr_t at(std::size_t offset) const { return reinterpret_cast<std::uintptr_t>(bytes) + offset; }
    LineRun run(std::size_t offset, std::size_t length) const {
        return {at(offset), at(offset) + (length - 1)};
    }
    void clean(std::size_t offset, std::size_t length) {
        stored.forget(memory, run(offset, length));
        memory.ops().clean.issue(memory.ops(), run(offset, length));
    }
    void look(std::uint64_t time) {
        static std::uint64_t now = 0;
        now = time;
        stored.look([] { return now; });
    }
    // Of a read of these that was posted at TIME.
    std::optional<LineRun> old(std::size_t offset, std::size_t length, std::uint64_t time) {
        return stored.stored_before(memory, run(offset, length), time);
    }
    void assert_old(std::size_t offset, std::size_t length, std::uint64_t time, std::size_t first,
                    std::size_t end) {
        const std::optional<LineRun> found = old(offset, length, time);
        assert_true(found.has_value());
        assert_int_equal(found->first - at(0), first);
        assert_int_equal(found->last + 1 - at(0), end);
    }

    SimulatedMemory memory;
    StoredLines stored;
    std::uint8_t* bytes = nullptr;
    std::optional<SimulatedMemory::Shadow> shadow;
};

TEST(stored__read_behind_a_look__old) {
    Bench bench;
    std::memset(bench.bytes + 100, 1, 200);
    bench.look(10);
    bench.assert_old(0, kPage, 11, 64, 320); // lines
    bench.assert_old(110, 20, 11, 110, 130); // what is read of them
}

TEST(stored__read_before_the_look__may_have_been_clean) {
    Bench bench;
    bench.bytes[100] = 1;
    bench.look(10);
    assert_false(bench.old(0, kPage, 10).has_value());
    assert_false(bench.old(0, kPage, 9).has_value());
}

TEST(look__again__since_the_first_one) {
    Bench bench;
    bench.bytes[100] = 1;
    bench.look(10);
    bench.look(20);
    bench.assert_old(0, kPage, 11, 64, 128);
}

TEST(stored__again_between__may_have_been_clean) {
    Bench bench;
    bench.bytes[100] = 1;
    bench.look(10);
    bench.bytes[100] = 2;
    assert_false(bench.old(0, kPage, 15).has_value());
    bench.look(20);
    assert_false(bench.old(0, kPage, 15).has_value());
    bench.assert_old(0, kPage, 21, 64, 128);
}

TEST(cleaned__and_stored_as_before__not_old) {
    Bench bench;
    bench.bytes[100] = 1;
    bench.look(10);
    bench.clean(64, kLine);
    bench.bytes[100] = 0;
    bench.clean(64, kLine);
    bench.bytes[100] = 1; // holds what it held, and is dirty
    assert_false(bench.old(0, kPage, 15).has_value());
}

TEST(cleaned__one_line_of_three__the_others_are_old) {
    Bench bench;
    std::memset(bench.bytes, 1, 3 * kLine);
    bench.look(10);
    bench.clean(kLine, kLine);
    bench.assert_old(0, kPage, 11, 0, kLine);
    bench.assert_old(kLine, kPage, 11, 2 * kLine, 3 * kLine);
}

TEST(stored__beside_what_is_read__not_old) {
    Bench bench;
    bench.bytes[100] = 1;
    bench.look(10);
    assert_false(bench.old(64, 36, 11).has_value());
    assert_false(bench.old(101, 27, 11).has_value());
    bench.assert_old(100, 1, 11, 100, 101);
}

TEST(page__not_to_be_read_while_registered__left_out) {
    Bench bench;
    std::memset(bench.bytes, 1, kPages * kPage);
    const auto map = [&](int protection) {
        assert_true(mmap(bench.bytes + kPage, kPage, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                         0) == bench.bytes + kPage);
    };
    map(PROT_NONE); // nobody else gets the place
    bench.look(10);
    bench.assert_old(0, kPages * kPage, 11, 0, kPage);
    bench.assert_old(kPage, (kPages - 1) * kPage, 11, 2 * kPage, kPages * kPage);
    map(PROT_READ | PROT_WRITE);
}

TEST(region__removed_or_another_one__nothing) {
    Bench bench;
    SimulatedMemory other;
    bench.bytes[100] = 1;
    bench.look(10);
    assert_false(bench.stored.stored_before(other, bench.run(0, kPage), 11).has_value());
    bench.stored.remove(other, 1);
    bench.stored.forget(other, bench.run(0, kPage));
    bench.assert_old(0, kPage, 11, 64, 128);
    bench.stored.remove(bench.memory, 1);
    assert_false(bench.stored.has_regions());
    assert_false(bench.old(0, kPage, 11).has_value());
}

TEST(read__beyond_what_is_looked_at__its_part_in_front) {
    Bench bench;
    std::memset(bench.bytes, 1, kPages * kPage);
    bench.look(10);
    const LineRun beyond{bench.at(2 * kPage), bench.at(kPages * kPage) + kPage};
    const std::optional<LineRun> found = bench.stored.stored_before(bench.memory, beyond, 11);
    assert_true(found.has_value());
    assert_int_equal(found->first, bench.at(2 * kPage));
    assert_int_equal(found->last, bench.at(kPages * kPage) - 1);
}

TEST(region__in_the_middle_of_lines__its_lines_are_whole) {
    Bench bench;
    constexpr std::size_t kOffset = 8;
    bench.stored.remove(bench.memory, 1);
    bench.stored.add(bench.memory, 2, bench.run(kOffset, kPages * kPage - kOffset));
    std::memset(bench.bytes, 1, kPages * kPage);
    bench.look(10);
    for (std::size_t at = kOffset; at < (kPages - 1) * kPage; at += 500) {
        bench.assert_old(at, kPage, 11, at, at + kPage);
    }
}

// It is stored behind the scan's begin, and before its end.
TEST(stored__during_a_look__since_its_end) {
    Bench bench;
    static std::uint64_t now;
    now = 10; // it begins
    bench.bytes[100] = 1;
    bench.stored.look([] { return now += 10; });
    assert_false(bench.old(0, kPage, 15).has_value());
    bench.assert_old(0, kPage, 21, 64, 128);
}

// What the parent cleans, the child doesn't see.
TEST(child_of_fork__nothing_is_old) {
    Bench bench;
    bench.bytes[100] = 1;
    bench.look(10);
    const pid_t child = fork();
    if (child == 0) {
        bench.look(20);
        _exit(bench.old(0, kPage, 15) || bench.old(0, kPage, 25) || bench.stored.has_regions() ? 1 : 0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    bench.assert_old(0, kPage, 11, 64, 128);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
