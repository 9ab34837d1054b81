// SPDX-License-Identifier: BSD-3-Clause
//
// The queue of posted requests, also against a deque of the standard library's.
#include <cstdio>
#include <deque>
#include <random>

#include "layers/check/objects.hpp"
#include "layers/check/requests.hpp"
#include "tests/cmocka.hpp"

using namespace sluice::layers::check;

namespace {

constexpr unsigned kSeed = 79;
constexpr std::size_t kSpare = 64; // places beyond those that were granted

Request& post(Requests& requests, std::uint64_t id, bool has_completion = true) {
    Request& added = requests.add();
    added.id = id;
    added.has_completion = has_completion;
    requests.count_owed(added);
    return added;
}

void post_many(Requests& requests, std::uint64_t first, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        post(requests, first + i);
    }
}

void expect_ids(const Requests& requests, std::uint64_t first, std::size_t count) {
    assert_int_equal(requests.size(), count);
    assert_int_equal(requests.owed(), count);
    for (std::size_t i = 0; i < count; ++i) {
        assert_int_equal(requests[i].id, first + i);
    }
}

Request& post_with(Requests& requests, const std::shared_ptr<Region>& region) {
    Request& request = post(requests, 1);
    request.pieces[request.pieces_count++].region = region;
    return request;
}

TEST(requests__posted__oldest_first_with_numbers_from_1) {
    Requests requests;
    requests.resize(8);
    assert_true(requests.empty());
    assert_int_equal(requests.granted(), 8);
    post_many(requests, 100, 5);
    expect_ids(requests, 100, 5);
    for (std::size_t i = 0; i < 5; ++i) {
        assert_int_equal(requests[i].number, i + 1);
    }
}

TEST(requests__drop_oldest__the_younger_stay) {
    Requests requests;
    requests.resize(8);
    post_many(requests, 100, 5);
    requests.drop_oldest(2);
    expect_ids(requests, 102, 3);
    requests.drop_oldest(9);
    expect_ids(requests, 0, 0);
    assert_true(requests.empty());
}

TEST(requests__drop_youngest__the_older_stay_and_numbers_are_given_again) {
    Requests requests;
    requests.resize(8);
    post_many(requests, 100, 5);
    requests.drop_youngest(2);
    expect_ids(requests, 100, 3);
    assert_int_equal(post(requests, 103).number, 4);
    requests.drop_youngest(9);
    expect_ids(requests, 0, 0);
    assert_int_equal(post(requests, 100).number, 1);
}

TEST(requests__round_the_end_of_the_ring__in_order) {
    Requests requests;
    requests.resize(1);
    for (std::uint64_t id = 0; id < 1000; id += 3) {
        post_many(requests, id, 3);
        expect_ids(requests, id, 3);
        requests.drop_oldest(3);
    }
}

TEST(requests__more_than_granted__the_oldest_is_let_go) {
    Requests requests;
    requests.resize(3);
    const std::size_t places = 3 + kSpare;
    post_many(requests, 0, places);
    expect_ids(requests, 0, places);
    post_many(requests, places, 10);
    expect_ids(requests, 10, places);
    assert_int_equal(requests[0].number, 11);
}

TEST(requests__without_a_completion__not_owed) {
    Requests requests;
    requests.resize(8);
    post(requests, 1, false);
    post(requests, 2, true);
    post(requests, 3, false);
    assert_int_equal(requests.size(), 3);
    assert_int_equal(requests.owed(), 1);
    requests.drop_oldest(1);
    assert_int_equal(requests.owed(), 1);
    requests.drop_youngest(1);
    assert_int_equal(requests.owed(), 1);
    requests.clear();
    assert_int_equal(requests.owed(), 0);
}

TEST(requests__settled__owed_no_more_and_dropped_without_a_second_count) {
    Requests requests;
    requests.resize(8);
    post_many(requests, 1, 3);
    requests.settle(requests[1]);
    assert_int_equal(requests.size(), 3);
    assert_int_equal(requests.owed(), 2);
    assert_false(requests[1].has_completion);
    requests.drop_oldest(2);
    assert_int_equal(requests.owed(), 1);
    requests.settle(requests[0]);
    requests.drop_youngest(1);
    assert_int_equal(requests.owed(), 0);
}

TEST(requests__ended_in_any_way__its_region_is_let_go) {
    Requests requests;
    requests.resize(1);
    const auto region = std::make_shared<Region>();
    requests.settle(post_with(requests, region));
    assert_int_equal(region.use_count(), 1);
    post_with(requests, region);
    requests.drop_youngest(1);
    assert_int_equal(region.use_count(), 1);
    post_with(requests, region);
    requests.clear();
    assert_int_equal(region.use_count(), 1);
    post_with(requests, region);
    post_many(requests, 2, 1 + kSpare);
    assert_int_equal(region.use_count(), 1);
}

TEST(requests__place_used_again__empty_but_for_its_number) {
    Requests requests;
    requests.resize(1);
    Request& request = post(requests, 7);
    request.is_inline = true;
    request.is_told_of = true;
    request.checksum = 5;
    request.tag = 9;
    requests.drop_youngest(1);
    const Request& again = requests.add();
    assert_ptr_equal(&again, &request);
    assert_int_equal(again.id, 0);
    assert_int_equal(again.number, 1);
    assert_int_equal(again.tag, 0);
    assert_int_equal(again.pieces_count, 0);
    assert_false(again.has_completion || again.is_inline || again.is_told_of || again.checksum.has_value());
}

TEST(requests__resized__the_youngest_stay_and_are_owed) {
    Requests requests;
    requests.resize(100);
    post_many(requests, 0, 100);
    requests.resize(200);
    expect_ids(requests, 0, 100);
    requests.resize(0);
    expect_ids(requests, 100 - kSpare, kSpare);
    assert_int_equal(post(requests, 100).number, 101);
}

// ---- against a model

struct Known {
    std::uint64_t id = 0;
    bool has_completion = false;
};

void expect_same(const Requests& requests, const std::deque<Known>& model) {
    std::size_t owed = 0;
    assert_int_equal(requests.size(), model.size());
    for (std::size_t i = 0; i < model.size(); ++i) {
        assert_int_equal(requests[i].id, model[i].id);
        assert_int_equal(requests[i].has_completion, model[i].has_completion);
        owed += model[i].has_completion ? 1U : 0U;
    }
    assert_int_equal(requests.owed(), owed);
}

void drop(std::deque<Known>& model, std::size_t count, bool is_oldest) {
    for (; count != 0 && !model.empty(); --count) {
        is_oldest ? model.pop_front() : model.pop_back();
    }
}

TEST(requests__by_chance__as_a_deque) {
    constexpr std::uint32_t kGranted = 8;
    std::printf("seed %u\n", kSeed);
    Requests requests;
    requests.resize(kGranted);
    std::deque<Known> model;
    std::mt19937 random(kSeed);
    for (std::uint64_t round = 0; round < 20'000; ++round) {
        const std::size_t some = random() % 4;
        const unsigned action = random() % 16;
        if (action < 12) {
            const Known known = {.id = round, .has_completion = random() % 3 != 0};
            post(requests, known.id, known.has_completion);
            model.push_back(known);
            drop(model, model.size() > kGranted + kSpare ? 1 : 0, true);
        } else if (action < 15) {
            const bool is_oldest = action != 12;
            is_oldest ? requests.drop_oldest(some * 3) : requests.drop_youngest(some);
            drop(model, is_oldest ? some * 3 : some, is_oldest);
        } else if (!model.empty()) {
            const std::size_t index = random() % model.size();
            requests.settle(requests[index]);
            model[index].has_completion = false;
        }
        expect_same(requests, model);
    }
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
