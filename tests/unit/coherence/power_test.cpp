// SPDX-License-Identifier: BSD-3-Clause
//
// A simulation of power cuts is found by name where there is one, and asked. This program has one, as the
// library that `sluice persist run` preloads; power_absent_test has none.
#include "core/coherence/power.hpp"

#include <cstdlib>
#include <vector>

#include "tests/cmocka.hpp"

using namespace sluice;
using coherence::Range;

namespace {

// What the simulation was told, and what it answers.
struct Simulation {
    std::vector<Range> persisted;
    std::vector<Range> written;
    int pushes = 0;
    int covers = 0;
    int passes_caches = 0;
    const void* asked_address = nullptr;
    std::uint64_t asked_length = 0;
};
Simulation simulation;

void set_persistence(const char* value) {
    // NOLINTBEGIN(concurrency-mt-unsafe): the only thread
    assert_int_equal(
        value != nullptr ? setenv("SLUICE_PERSISTENCE", value, 1) : unsetenv("SLUICE_PERSISTENCE"), 0);
    // NOLINTEND(concurrency-mt-unsafe)
}

} // namespace

extern "C" {
[[gnu::visibility("default")]] void sluice_power_persist(const Range* ranges, std::uint64_t count) noexcept {
    simulation.persisted.assign(ranges, ranges + count);
}
[[gnu::visibility("default")]] int sluice_power_covers(const void* address, std::uint64_t length) noexcept {
    simulation.asked_address = address;
    simulation.asked_length = length;
    return simulation.covers;
}
[[gnu::visibility("default")]] int sluice_power_passes_caches() noexcept {
    return simulation.passes_caches;
}
[[gnu::visibility("default")]] void sluice_power_written(const Range* range) noexcept {
    simulation.written.push_back(*range);
}
[[gnu::visibility("default")]] void sluice_power_push() noexcept {
    ++simulation.pushes;
}
}

namespace {

TEST(is_power_simulated__with_the_setting__yes) {
    const Result<bool> answer = coherence::is_power_simulated();
    assert_true(answer.ok() && *answer);
}

TEST(is_power_simulated__without_the_setting__no) {
    set_persistence(nullptr);
    const Result<bool> answer = coherence::is_power_simulated();
    set_persistence("simulated");
    assert_true(answer.ok() && !*answer);
}

TEST(persist__two_ranges__told_to_the_simulation) {
    const Range ranges[] = {{.address = 64, .length = 128}, {.address = 4096, .length = 1}};
    coherence::persist_in_simulation(ranges, 2);
    assert_int_equal(simulation.persisted.size(), 2);
    assert_int_equal(simulation.persisted[0].address, 64);
    assert_int_equal(simulation.persisted[0].length, 128);
    assert_int_equal(simulation.persisted[1].address, 4096);
    assert_int_equal(simulation.persisted[1].length, 1);
}

TEST(is_simulated_persistent__as_the_simulation_answers) {
    const char byte = 0;
    simulation.covers = 1;
    assert_true(coherence::is_simulated_persistent(&byte, 7));
    assert_ptr_equal(simulation.asked_address, &byte);
    assert_int_equal(simulation.asked_length, 7);
    simulation.covers = 0;
    assert_false(coherence::is_simulated_persistent(&byte, 7));
}

TEST(device_writes__past_the_caches__told_and_pushed) {
    simulation.passes_caches = 1;
    assert_true(coherence::do_device_writes_pass_caches());
    simulation.passes_caches = 0;
    assert_false(coherence::do_device_writes_pass_caches());
    coherence::note_device_write({.address = 640, .length = 3});
    assert_int_equal(simulation.written.size(), 1);
    assert_int_equal(simulation.written[0].address, 640);
    assert_int_equal(simulation.written[0].length, 3);
    assert_int_equal(simulation.pushes, 0);
    coherence::push_device_writes();
    assert_int_equal(simulation.pushes, 1);
}

} // namespace

int main() {
    set_persistence("simulated"); // before the first look for the functions
    return sluice::test::run_all_tests();
}
