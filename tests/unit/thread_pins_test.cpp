// SPDX-License-Identifier: BSD-3-Clause
#include "core/thread_pins.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "tests/cmocka.hpp"
#include "tests/sandbox.hpp"

using namespace sluice::thread_pins;

namespace {

int what; // its address is pinned

void find__first_time__the_thread_has_entries_of_its_own(void**) {
    bool had_own = true;
    bool has_own = false;
    bool is_first = false;
    std::thread([&] {
        had_own = is_own(mine);
        Entry* const entry = find();
        has_own = is_own(mine);
        is_first = entry == &mine->used[0];
    }).join();
    assert_false(had_own);
    assert_true(has_own);
    assert_true(is_first);
}

void find__all_in_use__null_until_one_is_given_up(void**) {
    std::vector<Entry*> entries;
    for (std::size_t i = 0; i < kEntries; ++i) {
        Entry* const entry = find();
        assert_non_null(entry);
        pin(*entry, &what);
        entries.push_back(entry);
    }
    assert_null(find());
    unpin(*entries[3]);
    assert_ptr_equal(find(), entries[3]);
    for (Entry* const entry : entries) {
        unpin(*entry);
    }
    assert_false(is_pinned(&what));
}

void is_pinned__by_another_thread__until_it_unpins(void**) {
    std::atomic<int> step{0};
    std::thread user([&] {
        Entry& entry = *find();
        pin(entry, &what);
        step = 1;
        step.notify_all();
        step.wait(1);
        unpin(entry);
    });
    step.wait(0);
    assert_true(is_pinned(&what));
    assert_false(is_pinned(&step));
    step = 2;
    step.notify_all();
    user.join();
    assert_false(is_pinned(&what));
}

void thread_ends__the_next_one_gets_its_entries(void**) {
    const auto entries_of_a_thread = [] {
        const Entries* entries = nullptr;
        std::thread([&] {
            (void)find();
            entries = mine;
        }).join();
        return entries;
    };
    const Entries* const first = entries_of_a_thread();
    for (int i = 0; i < 100; ++i) {
        assert_ptr_equal(entries_of_a_thread(), first);
    }
}

// What the last destructors of a thread find.
struct Late {
    ~Late() { *answer = find(); }
    Entry** answer = nullptr;
};
thread_local Late late;

void find__after_the_threads_end_has_begun__null(void**) {
    Entry other{nullptr};
    Entry* answer = &other;
    std::thread([&] {
        late.answer = &answer; // made first, and so destroyed last
        (void)find();
    }).join();
    assert_null(answer);
}

// Both run when CONDITION becomes true, if the machine has a core for each.
template<typename Condition>
void spin_until(Condition&& condition) {
    for (int spins = 0; !condition(); ++spins) {
        if (spins > 1000) {
            std::this_thread::yield();
        }
    }
}

struct alignas(64) Line {
    std::atomic<int> value{0};
};

// Two threads at the same time: one pins and looks for the mark, the other marks and looks for the pin. That
// neither sees the other is what must never happen. The user's stores are kept waiting by others before them,
// to lines that the other thread has.
void order_all_threads__both_look_at_once__one_sees_the_other(void**) {
    constexpr int kRounds = 300;
    std::vector<Line> lines(32);
    Line round;
    Line ready;
    Line mark;
    Line user_saw;
    int missed = 0;
    int distance = 0;
    std::thread user([&] {
        Entry& entry = *find();
        for (int i = 1; i <= kRounds; ++i) {
            (void)mark.value.load();
            ready.value.store(1);
            spin_until([&] { return round.value.load() == i; });
            for (Line& line : lines) {
                line.value.store(i, std::memory_order_relaxed);
            }
            pin(entry, &what);
            user_saw.value.store(mark.value.load(std::memory_order_seq_cst), std::memory_order_relaxed);
            ready.value.store(2);
            spin_until([&] { return round.value.load() == -i; });
            unpin(entry);
        }
    });
    for (int i = 1; i <= kRounds; ++i) {
        mark.value = 0;
        for (Line& line : lines) {
            line.value = 0;
        }
        spin_until([&] { return ready.value.load() == 1; });
        round.value = i;
        for (int turn = 0; turn < distance; ++turn) {
            (void)mark.value.load(std::memory_order_relaxed);
        }
        mark.value.store(1, std::memory_order_seq_cst);
        order_all_threads();
        const bool destroyer_saw = is_pinned(&what);
        spin_until([&] { return ready.value.load() == 2; });
        // Who came too early comes later next time: both meet.
        distance = std::max(distance + (user_saw.value.load() != 0 ? 32 : -32), 0);
        missed += user_saw.value.load() == 0 && !destroyer_saw ? 1 : 0;
        round.value = -i;
    }
    user.join();
    assert_int_equal(missed, 0);
}

// Sanitizers use no membarrier, and emulation knows no filters.
#if !defined(__SANITIZE_THREAD__) && !defined(TEST_EMULATED)
void find__kernel_refuses_from_the_beginning__null(void**) {
    assert_true(test::is_true_in_child([] {
        return test::refuse(SYS_membarrier) && find() == nullptr && !is_own(mine) && !is_pinned(&what);
    }));
}

void fork__in_the_child__order_all_threads_needs_no_other_way(void**) {
    assert_non_null(find());
    assert_true(test::is_true_in_child(
        [] { return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0; }));
}
#endif

} // namespace

int main() {
    const CMUnitTest tests[] = {
#if !defined(__SANITIZE_THREAD__) && !defined(TEST_EMULATED)
        cmocka_unit_test(find__kernel_refuses_from_the_beginning__null), // before anybody asked
#endif
#if !defined(__SANITIZE_THREAD__) && !defined(TEST_EMULATED)
        cmocka_unit_test(fork__in_the_child__order_all_threads_needs_no_other_way),
#endif
        cmocka_unit_test(find__first_time__the_thread_has_entries_of_its_own),
        cmocka_unit_test(find__all_in_use__null_until_one_is_given_up),
        cmocka_unit_test(is_pinned__by_another_thread__until_it_unpins),
        cmocka_unit_test(thread_ends__the_next_one_gets_its_entries),
        cmocka_unit_test(find__after_the_threads_end_has_begun__null),
        cmocka_unit_test(order_all_threads__both_look_at_once__one_sees_the_other),
    };
    return cmocka_run_group_tests_name("core.thread_pins", tests, nullptr, nullptr);
}
