// SPDX-License-Identifier: BSD-3-Clause
//
// Every interleaving of a reader with a writer, one instruction at a time, and the same each run.
//
// The CPU's trap flag raises SIGTRAP after each instruction. One side runs under it, and the signal
// handler does all of the other side's work: a writer's after the n-th instruction of a reader, for
// every n; a reader's, which changes nothing, after each instruction of a writer. (What threads on
// several CPUs add to that, stores seen out of order, is the business of threads_test.cpp and of the
// memory orders.)
#include <signal.h>
#include <ucontext.h>

#include <functional>

#include "core/coherence/region_table.hpp"
#include "tests/cmocka.hpp"

using sluice::coherence::Region;
using sluice::coherence::RegionTable;

namespace {

constexpr unsigned long long kTrapFlag = 0x100;

constexpr long kEach = 0;

struct Stepped {
    long countdown = 0;
    std::function<void()> other;
};
Stepped stepped;

void on_trap(int, siginfo_t*, void* context) {
    if (stepped.countdown == kEach) {
        stepped.other();
    } else if (--stepped.countdown == 0) {
        stepped.other();
        stepped.countdown = -1;
        static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] &= ~kTrapFlag; // the rest at full speed
    }
}

// Runs ONE and, after its N-th instruction or after each, OTHER. False when ONE had fewer than N.
template<typename One>
bool interleave(long n, One one, std::function<void()> other) {
    stepped.countdown = n;
    stepped.other = std::move(other);
    __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | kTrapFlag);
    one();
    __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() & ~kTrapFlag);
    return stepped.countdown <= 0;
}

constexpr Region kOld{.address = 0x1000, .length = 0x10, .flags = 1, .zone = 1, .user = 1};
constexpr Region kNew{.address = 0x2000, .length = 0x2000, .flags = 2, .zone = 2, .user = 2};

bool same(const Region& a, const Region& b) {
    return a.address == b.address && a.length == b.length && a.flags == b.flags && a.zone == b.zone &&
           a.user == b.user;
}

TEST(find__region_replaced_at_any_instruction__old_one_or_none) {
    long found = 0;
    long refused = 0;
    for (long n = 1;; ++n) {
        RegionTable table = *RegionTable::make();
        const std::uint32_t context = *table.add(kOld);
        Region region;
        bool live = false;
        const bool interleaved = interleave(
            n, [&] { live = table.find(context, region); },
            [&] {
                (void)table.remove(context);
                (void)table.add(kNew);
            });
        if (!interleaved) {
            break;
        }
        assert_true(!live || same(region, kOld));
        ++(live ? found : refused);
    }
    print_message("found %ld times, refused %ld times\n", found, refused);
    assert_true(found > 0 && refused > 0);
}

TEST(bounds__region_replaced_at_any_instruction__old_ones_or_none) {
    long found = 0;
    long refused = 0;
    for (long n = 1;; ++n) {
        RegionTable table = *RegionTable::make();
        const std::uint32_t context = *table.add(kOld);
        RegionTable::Bounds bounds{};
        bool live = false;
        const bool interleaved = interleave(
            n, [&] { live = table.view().bounds(context, bounds); },
            [&] {
                (void)table.remove(context);
                (void)table.add(kNew);
            });
        if (!interleaved) {
            break;
        }
        assert_true(!live || (bounds.address == kOld.address && bounds.length == kOld.length &&
                              bounds.flags == kOld.flags));
        ++(live ? found : refused);
    }
    assert_true(found > 0 && refused > 0);
}

TEST(replace__reader_comes_after_each_instruction__whole_region_or_none) {
    RegionTable table = *RegionTable::make();
    const std::uint32_t old_context = *table.add(kOld);
    const std::uint32_t new_context = old_context + (1u << RegionTable::kIndexBits);
    long old_ones = 0;
    long new_ones = 0;
    long none = 0;
    long wrong = 0;
    interleave(
        kEach,
        [&] {
            (void)table.remove(old_context);
            (void)table.add(kNew);
        },
        [&] {
            Region old_region;
            Region new_region;
            const bool old_live = table.find(old_context, old_region);
            const bool new_live = table.find(new_context, new_region);
            wrong += (old_live && !same(old_region, kOld)) || (new_live && !same(new_region, kNew)) ||
                             (old_live && new_live)
                         ? 1
                         : 0;
            old_ones += old_live ? 1 : 0;
            new_ones += new_live ? 1 : 0;
            none += !old_live && !new_live ? 1 : 0;
        });
    print_message("old %ld times, none %ld times, new %ld times\n", old_ones, none, new_ones);
    assert_int_equal(wrong, 0);
    assert_true(old_ones > 0 && none > 0 && new_ones > 0);
}

} // namespace

int main() {
    struct sigaction action {};
    action.sa_sigaction = on_trap;
    action.sa_flags = SA_SIGINFO;
    if (sigaction(SIGTRAP, &action, nullptr) != 0) {
        return 1;
    }
    return sluice::test::run_all_tests("coherence.interleavings");
}
