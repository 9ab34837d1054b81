// SPDX-License-Identifier: BSD-3-Clause
//
// Places of a program, each kept once.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>
#include <thread>
#include <vector>

#include "layers/check/places.hpp"
#include "tests/cmocka.hpp"

using namespace sluice::layers::check;

namespace {

[[gnu::noinline]] Place one_place() {
    const Place place = here();
    assert_non_null(place);
    return place;
}

[[gnu::noinline]] Place other_place() {
    const Place place = here();
    assert_non_null(place);
    return place;
}

[[gnu::noinline]] Place below(int calls) {
    const Place place = calls == 0 ? one_place() : below(calls - 1);
    assert_non_null(place);
    return place;
}

TEST(here__same_stack__same_place) {
    std::set<Place> places;
    for (int i = 0; i < 100; ++i) {
        places.insert(one_place());
    }
    assert_int_equal(places.size(), 1);
    assert_true((*places.begin())->count >= 2);
}

TEST(here__same_function_from_two_lines__two_places) {
    const Place first = one_place();
    const Place second = one_place();
    assert_ptr_not_equal(first, second);
    assert_int_equal(first->count, second->count);
    int different = 0;
    for (std::size_t i = 0; i < first->count; ++i) {
        different += first->addresses[i] != second->addresses[i] ? 1 : 0;
    }
    assert_int_equal(different, 1);
}

TEST(here__two_functions_in_turn__two_places) {
    std::set<Place> places;
    for (int i = 0; i < 100; ++i) {
        places.insert(i % 2 == 0 ? one_place() : other_place());
    }
    assert_int_equal(places.size(), 2);
}

TEST(here__deeper_in_recursion__another_place_each) {
    std::set<Place> places;
    for (int round = 0; round < 3; ++round) {
        for (int calls = 0; calls < 10; ++calls) {
            places.insert(below(calls));
        }
    }
    assert_int_equal(places.size(), 10);
}

TEST(here__many_threads_at_one_place__the_same) {
    std::array<Place, 8> places = {};
    std::vector<std::thread> threads;
    for (Place& place : places) {
        threads.emplace_back([&place] {
            for (int i = 0; i < 1000; ++i) {
                place = one_place();
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    assert_true(std::ranges::all_of(places, [&](Place place) { return place == places[0]; }));
    assert_ptr_not_equal(places[0], one_place());
}

TEST(this_thread__of_each_thread__its_own) {
    const void* const own = this_thread();
    const void* others = nullptr;
    std::thread([&others] { others = this_thread(); }).join();
    assert_non_null(own);
    assert_ptr_equal(own, this_thread());
    assert_ptr_not_equal(own, others);
}

TEST(this_process__in_a_child__another_number) {
    const unsigned own = this_process();
    const pid_t child = fork();
    if (child == 0) {
        _exit(this_process() != own ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(this_process(), own);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
