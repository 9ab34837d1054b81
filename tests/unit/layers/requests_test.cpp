// SPDX-License-Identifier: BSD-3-Clause
//
// The table of outstanding requests, against a map of the standard library's.
#include "layers/check/pages/requests.hpp"

#include <cstdio>
#include <map>
#include <memory>
#include <random>

#include "tests/cmocka.hpp"

using namespace sluice::layers::check::pages;

namespace {

constexpr unsigned kSeed = 79;

// How many entries TAG has; that they can be told apart by their pages, and each once.
std::size_t count_of(Requests& requests, std::uint64_t tag) {
    std::size_t count = 0;
    for (Request* request = requests.find(tag); request != nullptr; request = requests.find_next(*request)) {
        assert_int_equal(request->tag, tag);
        ++count;
    }
    return count;
}

void expect_same(Requests& requests, const std::multimap<std::uint64_t, std::uint64_t>& model) {
    assert_int_equal(requests.count(), model.size());
    std::multimap<std::uint64_t, std::uint64_t> found;
    for (std::size_t rank = 0; rank < requests.count(); ++rank) {
        const Request& request = requests.at_rank(rank);
        assert_int_equal(request.rank, rank);
        found.emplace(request.tag, request.pages.first);
    }
    for (const auto& [tag, page] : model) {
        assert_int_equal(count_of(requests, tag), model.count(tag));
        assert_int_equal(found.count(tag), model.count(tag));
    }
}

// FROM tags, so that chains of the hash are long or tags have several entries.
void run(std::uint64_t from, std::uint64_t stride, std::size_t rounds, std::size_t most) {
    const auto requests = std::make_unique<Requests>();
    std::multimap<std::uint64_t, std::uint64_t> model;
    std::mt19937 random(kSeed);
    for (std::size_t round = 0; round < rounds; ++round) {
        const std::uint64_t tag = stride * (random() % from);
        if (model.size() < most && random() % 2 == 0) {
            requests->add({.tag = tag, .pages = {round, round + 1}, .since = round, .forbidden = {}});
            model.emplace(tag, round);
        } else if (Request* const request = requests->find(tag)) {
            const auto [first, end] = model.equal_range(tag);
            auto same = first;
            while (same != end && same->second != request->pages.first) {
                ++same;
            }
            assert_true(same != end);
            requests->erase(*request);
            model.erase(same);
        } else {
            assert_int_equal(model.count(tag), 0);
        }
        if (round % 1000 == 0) {
            expect_same(*requests, model);
        }
    }
    expect_same(*requests, model);
}

TEST(requests__added_and_erased_by_chance__are_those_of_a_map) {
    std::printf("seed %u\n", kSeed);
    run(20, 1, 20'000, 200);
    run(5000, 1, 20'000, 4000);
    // Multiples of a large power of two have few homes.
    run(500, std::uint64_t{1} << 56, 20'000, 400);
}

TEST(requests__as_many_as_there_are_places_for__full_and_all_found) {
    const auto requests = std::make_unique<Requests>();
    for (std::uint64_t tag = 0; tag < Requests::kMost; ++tag) {
        assert_false(requests->is_full());
        requests->add({.tag = tag, .pages = {tag, tag + 1}, .since = tag, .forbidden = {}});
    }
    assert_true(requests->is_full());
    for (std::uint64_t tag = 0; tag < Requests::kMost; ++tag) {
        Request* const request = requests->find(tag);
        assert_true(request != nullptr && request->pages.first == tag);
        requests->erase(*request);
        assert_null(requests->find(tag));
    }
    assert_int_equal(requests->count(), 0);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("check.requests");
}
