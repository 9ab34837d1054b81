// SPDX-License-Identifier: BSD-3-Clause
//
// Readers against a writer. The thread sanitizer looks for races that the memory model forbids;
// the assertions look for a region made of two.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "core/coherence/engine.hpp"
#include "tests/cmocka.hpp"
#include "tests/unit/coherence/seeded.hpp"

using sluice::coherence::Engine;
using sluice::coherence::Region;
using sluice::coherence::RegionTable;
using sluice::coherence::Segment;
using sluice::testing::Random;
using sluice::testing::Seeded;

namespace {

std::uint64_t seed = 0;
std::uint64_t rounds = 0;

// Every member follows from one number, so that a mixture of two regions shows.
Region region_of(std::uint64_t number) {
    return {.address = number << 20,
            .length = 1 + number * 3,
            .flags = static_cast<std::uint32_t>(number & 0xffff),
            .zone = static_cast<std::uint32_t>(number * 5),
            .user = static_cast<std::uint32_t>(number * 7)};
}

bool is_whole(const Region& region) {
    const Region whole = region_of(region.address >> 20);
    return region.address == whole.address && region.length == whole.length && region.flags == whole.flags &&
           region.zone == whole.zone && region.user == whole.user;
}

// CMocka's assertions belong to the main thread: the others count.
struct Readers {
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> mixed{0};
    std::atomic<std::uint64_t> lost{0};
    std::atomic<std::uint64_t> found{0};
    std::atomic<int> running{0};
    std::vector<std::thread> threads;

    template<typename Body>
    void start(int count, Body body) {
        for (int i = 0; i < count; ++i) {
            threads.emplace_back([this, body, i] {
                Random random(seed + static_cast<std::uint64_t>(i));
                running.fetch_add(1);
                while (!stop.load(std::memory_order_relaxed)) {
                    body(random);
                }
            });
        }
        while (running.load() != count) {
            std::this_thread::yield();
        }
    }
    void join() {
        stop.store(true, std::memory_order_relaxed);
        for (std::thread& thread : threads) {
            thread.join();
        }
    }
};

TEST(find__slot_churned_by_a_writer__whole_region_or_none) {
    RegionTable table = *RegionTable::make();
    std::atomic<std::uint32_t> current{0};
    Readers readers;
    readers.start(2, [&](Random&) {
        Region region;
        if (table.find(current.load(std::memory_order_relaxed), region)) {
            readers.found.fetch_add(1, std::memory_order_relaxed);
            readers.mixed.fetch_add(is_whole(region) ? 0 : 1, std::memory_order_relaxed);
        }
    });
    // One slot all the time: each generation differs from the one before in every member.
    for (std::uint64_t i = 0; i < rounds || readers.found.load(std::memory_order_relaxed) < 100; ++i) {
        const std::uint32_t context = *table.add(region_of(i % 1000));
        current.store(context, std::memory_order_relaxed);
        if (i % 64 == 0) {
            std::this_thread::yield(); // lets a reader find it alive, on a machine with few CPUs
        }
        (void)table.remove(context);
    }
    readers.join();
    assert_int_equal(readers.mixed.load(), 0);
}

// The slot is a long region at one place, then a short one at another. A check that took the
// address of one and the length of the other would let this segment pass.
TEST(check__slot_churned_by_a_writer__never_passes_a_mixture) {
    const std::unique_ptr<Engine> engine = *Engine::make_coherent(sluice::coherence::native_barriers());
    constexpr Region kLong{.address = 0x100000, .length = 0x10000};
    constexpr Region kShort{.address = 0x900000, .length = 0x100};
    std::atomic<std::uint32_t> current{0};
    Readers readers;
    readers.start(2, [&](Random&) {
        const std::uint32_t context = current.load(std::memory_order_relaxed);
        const Segment impossible{context, 0, kShort.address, kLong.length};
        const Segment possible{context, 0, kShort.address, kShort.length};
        readers.mixed.fetch_add(engine->before_device_reads(&impossible, 1).ok() ? 1 : 0,
                                std::memory_order_relaxed);
        readers.found.fetch_add(engine->after_device_wrote(&possible, 1).ok() ? 1 : 0,
                                std::memory_order_relaxed);
    });
    for (std::uint64_t i = 0; i < rounds || readers.found.load(std::memory_order_relaxed) < 100; ++i) {
        const std::uint32_t context = *engine->add(i % 2 == 0 ? kLong : kShort, false);
        current.store(context, std::memory_order_relaxed);
        if (i % 64 == 1) {
            std::this_thread::yield();
        }
        (void)engine->remove(context);
    }
    readers.join();
    assert_int_equal(readers.mixed.load(), 0);
}

TEST(check__regions_that_nobody_frees__pass_while_others_come_and_go) {
    const std::unique_ptr<Engine> engine = *Engine::make_coherent(sluice::coherence::native_barriers());
    std::vector<Segment> stable;
    for (std::uint64_t i = 1; i <= 64; ++i) {
        const Region region = region_of(i);
        stable.push_back({*engine->add(region, false), 0, region.address, region.length});
    }
    Readers readers;
    readers.start(2, [&](Random& random) {
        const std::uint64_t first = random.below(stable.size());
        const bool ok = engine->before_device_reads(&stable[first], stable.size() - first).ok();
        readers.lost.fetch_add(ok ? 0 : 1, std::memory_order_relaxed);
    });
    std::vector<std::uint32_t> churned;
    Random random(seed);
    for (std::uint64_t i = 0; i < rounds; ++i) {
        if (churned.size() < 200 || random.one_in(2)) {
            churned.push_back(*engine->add(region_of(random.below(5000)), false));
        } else {
            std::swap(churned[random.below(churned.size())], churned.back());
            (void)engine->remove(churned.back());
            churned.pop_back();
        }
        if (churned.size() > 400) {
            (void)engine->remove(churned.front());
            churned.erase(churned.begin());
        }
    }
    readers.join();
    assert_int_equal(readers.lost.load(), 0);
}

TEST(table__grows_to_its_limit__readers_never_fail) {
    RegionTable table = *RegionTable::make();
    const std::uint32_t stable = *table.add(region_of(7));
    std::atomic<std::uint32_t> newest{stable};
    Readers readers;
    readers.start(2, [&](Random&) {
        Region region;
        const bool old_one = table.find(stable, region) && is_whole(region);
        const bool new_one = table.find(newest.load(std::memory_order_acquire), region) && is_whole(region);
        readers.lost.fetch_add(old_one && new_one ? 0 : 1, std::memory_order_relaxed);
    });
    for (std::uint32_t i = 1; i < RegionTable::kMaxRegions; ++i) {
        newest.store(*table.add(region_of(i % 1000)), std::memory_order_release); // partner: above
    }
    readers.join();
    assert_int_equal(readers.lost.load(), 0);
    assert_int_equal(table.live(), RegionTable::kMaxRegions);
}

TEST(writers__four_at_once__no_context_is_given_twice) {
    RegionTable table = *RegionTable::make();
    std::atomic<std::uint64_t> wrong{0};
    std::vector<std::thread> writers;
    for (std::uint64_t writer = 0; writer < 4; ++writer) {
        writers.emplace_back([&, writer] {
            for (std::uint64_t i = 0; i < rounds / 4; ++i) {
                const Region mine = region_of(writer * 1000 + i % 1000);
                const std::uint32_t context = *table.add(mine);
                Region found;
                const bool ok = table.find(context, found) && found.address == mine.address &&
                                is_whole(found) && table.remove(context).ok() && !table.remove(context).ok();
                wrong.fetch_add(ok ? 0 : 1, std::memory_order_relaxed);
            }
        });
    }
    for (std::thread& writer : writers) {
        writer.join();
    }
    assert_int_equal(wrong.load(), 0);
    assert_int_equal(table.live(), 0);
}

} // namespace

int main(int argc, char** argv) {
    const Seeded run(argc, argv, 50000);
    seed = run.seed;
    rounds = run.count;
    return sluice::test::run_all_tests("coherence.threads");
}
