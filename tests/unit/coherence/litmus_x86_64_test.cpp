// SPDX-License-Identifier: BSD-3-Clause
//
// No load overtakes the engine's invalidate on this CPU. With wide margins: what else runs on the machine
// takes lines away, too. `scripts/bench litmus` has figures.
#include "tests/litmus_x86_64.hpp"

#include "core/coherence/cacheflush.hpp"
#include "tests/cmocka.hpp"

namespace coherence = sluice::coherence;
using coherence::Ops;
using sluice::testing::Litmus;

namespace {

constexpr int kTries = 4000;
constexpr double kFew = 0.2;
constexpr double kMost = 0.8;

const Ops& ops() {
    return **coherence::native_ops();
}

coherence::LineRun run_of(const char* line) {
    return coherence::lines_of(reinterpret_cast<std::uintptr_t>(line), 1, ops().line_bytes);
}

Litmus& litmus() {
    static Litmus one;
    if (!one.can_tell()) {
        print_message("SKIP: a load from memory is as fast as one from the cache here\n");
        skip();
    }
    return one;
}

TEST(method__line_that_was_dropped_or_left__is_gone_or_there) {
    for (const Litmus::State state : {Litmus::State::kClean, Litmus::State::kDirty}) {
        assert_true(litmus().gone_after(state, kTries, [](char*) {}) < kFew);
        assert_true(litmus().gone_after(state, kTries, [](char* line) {
            ops().invalidate.issue(ops(), run_of(line));
        }) > kMost);
    }
}

TEST(invalidate__load_behind_it__does_not_overtake) {
    for (const Litmus::State state : {Litmus::State::kClean, Litmus::State::kDirty}) {
        const double overtaken = litmus().gone_after(state, kTries, [](char* line) {
            coherence::invalidate(ops(), reinterpret_cast<std::uintptr_t>(line), 1);
            Litmus::load(line);
        });
        print_message("%.2f %% overtaken\n", overtaken * 100);
        assert_true(overtaken < kFew);
    }
}

// Where nothing overtakes a flush without a fence either, the test above shows nothing.
TEST(no_fence__load_behind_a_flush__overtakes_on_this_cpu) {
    const double overtaken = litmus().gone_after(Litmus::State::kClean, kTries, [](char* line) {
        ops().invalidate.issue(ops(), run_of(line));
        Litmus::load(line);
    });
    print_message("%.2f %% overtaken\n", overtaken * 100);
    if (overtaken < kMost) {
        print_message("SKIP: loads don't overtake flushes on this CPU: the fence can't be missed here\n");
        skip();
    }
}

} // namespace

int main() {
    return sluice::test::run_all_tests("coherence.litmus");
}
