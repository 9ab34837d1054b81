// SPDX-License-Identifier: BSD-3-Clause
//
// Which pages of the shared heap are taken, against a model that has a byte for each page.
#include "layers/heap/runs.hpp"

#include <map>
#include <vector>

// Last: its macros are common words.
#include "tests/unit/coherence/seeded.hpp"

using namespace sluice::layers::heap;
using sluice::testing::Random;
using sluice::testing::Seeded;

namespace {

constexpr std::uint32_t kPages = 300;
constexpr std::uint64_t kOrigin = 0x7f123'4567ULL; // in pages

std::uint64_t seed = 0;
std::uint64_t rounds = 0;

struct World {
    std::vector<Run> table{std::vector<Run>(kPages)};
    Runs runs{table, kOrigin};
    std::vector<bool> taken{std::vector<bool>(kPages)};
    std::vector<bool> dirty{std::vector<bool>(kPages)};
    std::map<std::uint32_t, std::uint32_t> lengths; // by first page

    bool all_free(std::uint32_t first, std::uint32_t pages) const {
        for (std::uint32_t page = first; page < first + pages; ++page) {
            if (page >= kPages || taken[page]) {
                return false;
            }
        }
        return true;
    }
    bool has_room(std::uint32_t pages, std::uint32_t alignment) const {
        for (std::uint32_t first = 0; first < kPages; ++first) {
            if ((kOrigin + first) % alignment == 0 && all_free(first, pages)) {
                return true;
            }
        }
        return false;
    }
    void take(std::uint32_t pages, std::uint32_t alignment) {
        const bool has = has_room(pages, alignment);
        const auto got = runs.take(pages, alignment);
        assert_int_equal(got.has_value(), has);
        if (!got) {
            return;
        }
        assert_int_equal((kOrigin + got->first) % alignment, 0);
        assert_true(all_free(got->first, pages));
        assert_int_equal(runs.pages_of(got->first), pages);
        for (std::uint32_t page = got->first; page < got->first + pages; ++page) {
            assert_true(!got->is_clean || !dirty[page]);
            taken[page] = true;
            dirty[page] = true;
        }
        lengths[got->first] = pages;
    }
    void give_back(std::uint32_t first, bool clean) {
        const std::uint32_t pages = lengths.at(first);
        runs.give_back(first, clean);
        for (std::uint32_t page = first; page < first + pages; ++page) {
            taken[page] = false;
            dirty[page] = !clean;
        }
        lengths.erase(first);
    }
    void resize(std::uint32_t first, std::uint32_t pages) {
        const std::uint32_t before = lengths.at(first);
        const bool fits = pages <= before || all_free(first + before, pages - before);
        assert_int_equal(runs.resize(first, pages), fits);
        if (!fits) {
            return;
        }
        for (std::uint32_t page = first; page < first + std::max(before, pages); ++page) {
            taken[page] = page < first + pages;
            dirty[page] = true;
        }
        lengths[first] = pages;
    }
    void expect_same() const {
        for (std::uint32_t page = 0; page < kPages; ++page) {
            assert_int_equal(runs.is_taken(page), lengths.contains(page));
        }
        for (const auto& [first, pages] : lengths) {
            assert_int_equal(runs.pages_of(first), pages);
        }
    }
};

TEST(pages__taken_and_given_back_at_random__are_those_of_the_model) {
    Random random(seed);
    World world;
    for (std::uint64_t round = 0; round < rounds; ++round) {
        if (world.lengths.empty() || random.below(5) < 2) {
            world.take(static_cast<std::uint32_t>(1 + random.below(random.one_in(8) ? kPages : 12)),
                       std::uint32_t{1} << random.below(random.one_in(4) ? 6 : 1));
        } else {
            auto chosen = world.lengths.begin();
            std::advance(chosen, random.below(world.lengths.size()));
            if (random.one_in(4)) {
                world.resize(chosen->first, static_cast<std::uint32_t>(1 + random.below(chosen->second + 8)));
            } else {
                world.give_back(chosen->first, random.one_in(2));
            }
        }
        world.expect_same();
    }
    while (!world.lengths.empty()) {
        world.give_back(world.lengths.begin()->first, false);
    }
    world.take(kPages, 1); // they are one run again
}

TEST(pages__fresh__are_clean) {
    World world;
    assert_true(world.runs.take(kPages, 1)->is_clean);
}

TEST(pages__more_than_there_are__are_not_had) {
    World world;
    assert_false(world.runs.take(kPages + 1, 1).has_value());
    assert_false(world.runs.take(~std::uint32_t{0}, 1).has_value());
    assert_false(world.runs.take(1, std::uint32_t{1} << 31).has_value()); // the next one is beyond the end
}

} // namespace

int main(int argc, char** argv) {
    const Seeded run(argc, argv, 20000);
    seed = run.seed;
    rounds = run.count;
    return sluice::test::run_all_tests("layers.heap_runs");
}
