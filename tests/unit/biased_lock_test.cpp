// SPDX-License-Identifier: BSD-3-Clause
#include "core/biased_lock.hpp"

#include <thread>
#include <vector>

#include "tests/cmocka.hpp"
#include "tests/sandbox.hpp"

using sluice::BiasedLock;
using sluice::LockGuard;
using sluice::Mutex;

namespace {

// Counts who goes through it.
class SLUICE_TSA(capability("mutex")) Counting {
  public:
    void lock() SLUICE_TSA(acquire_capability()) {
        mutex_.lock();
        ++taken;
    }
    void unlock() SLUICE_TSA(release_capability()) { mutex_.unlock(); }
    static inline std::atomic<unsigned> taken{0};

  private:
    Mutex mutex_;
};

using Lock = BiasedLock<Counting>;

// How many of TIMES went through the inner lock.
unsigned take(Lock& lock, unsigned times) {
    const unsigned before = Counting::taken;
    for (unsigned i = 0; i < times; ++i) {
        const LockGuard guard(lock);
    }
    return Counting::taken - before;
}

unsigned take_in_thread(Lock& lock, unsigned times, bool has_entries = true) {
    unsigned inner = 0;
    std::thread([&] {
        if (has_entries) {
            (void)sluice::thread_pins::find(); // as who uses an object has done
        }
        inner = take(lock, times);
    }).join();
    return inner;
}

int prepare(void**) {
    return sluice::thread_pins::find() != nullptr ? 0 : 1;
}

TEST(lock__by_one_thread__inner_only_until_it_is_earned) {
    Lock lock;
    assert_int_equal(take(lock, 10 * Lock::kEarnedAfter), Lock::kEarnedAfter);
    assert_int_equal(take(lock, 10'000), 0);
}

TEST(lock__by_another_thread__all_go_through_inner_again) {
    Lock lock;
    take(lock, 2 * Lock::kEarnedAfter);
    assert_int_equal(take_in_thread(lock, 1), 1);
    assert_int_equal(take(lock, 2 * Lock::kEarnedAfter), Lock::kEarnedAfter); // it comes back
}

TEST(lock__by_turns__never_earned) {
    Lock lock;
    unsigned inner = 0;
    for (int i = 0; i < 10; ++i) {
        inner += take(lock, Lock::kEarnedAfter - 1);
        inner += take_in_thread(lock, 1);
    }
    assert_int_equal(inner, 10 * Lock::kEarnedAfter);
}

TEST(lock__had_an_owner_once__nobody_elses_ever) {
    Lock lock;
    take(lock, 2 * Lock::kEarnedAfter);
    assert_int_equal(take_in_thread(lock, 10'000), 10'000);
}

TEST(lock__thread_without_entries__never_earned) {
    Lock lock;
    assert_int_equal(take_in_thread(lock, 2 * Lock::kEarnedAfter, false), 2 * Lock::kEarnedAfter);
}

TEST(lock__owner_has_it__another_waits) {
    Lock lock;
    take(lock, 2 * Lock::kEarnedAfter);
    int value = 0;
    std::atomic<bool> is_coming{false};
    lock.lock();
    std::thread other([&] {
        is_coming = true;
        is_coming.notify_all();
        const LockGuard guard(lock);
        value = value == 1 ? 2 : -1;
    });
    is_coming.wait(false);
    for (int i = 0; i < 100; ++i) {
        std::this_thread::yield(); // gives it every chance to come in
    }
    value = 1;
    lock.unlock();
    other.join();
    assert_int_equal(value, 2);
}

// Whoever comes to it again while it is had, ends the process.
struct Ending {
    void lock() {
        if (is_armed) {
            _exit(0);
        }
    }
    void unlock() {}
    static inline bool is_armed = false;
};

TEST(lock__owner_again__waits_for_itself) {
    assert_true(test::is_true_in_child([]() SLUICE_TSA(no_thread_safety_analysis) {
        static BiasedLock<Ending> lock;
        for (unsigned i = 0; i < 2 * BiasedLock<Ending>::kEarnedAfter; ++i) {
            lock.lock();
            lock.unlock();
        }
        Ending::is_armed = true;
        lock.lock();
        lock.lock();
        return false; // it came in twice
    }));
}

// One earns the lock again and again, and others come while it is at it. What the lock guards is no atomic.
TEST(many_threads__never_two_inside) {
    constexpr std::uint64_t kVisits = 100;
    Lock lock;
    std::uint64_t sum = 0;
    int inside = 0;
    int together = 0;
    std::atomic<std::uint64_t> taken{0}; // by the first thread
    std::atomic<int> visitors{2};
    const auto enter = [&](int turns) {
        const LockGuard guard(lock);
        together += inside++;
        ++sum;
        for (int turn = 0; turn < turns; ++turn) {
            sluice::cpu_relax();
        }
        --inside;
    };
    std::vector<std::thread> threads;
    threads.emplace_back([&] {
        (void)sluice::thread_pins::find();
        while (visitors.load(std::memory_order_relaxed) != 0) {
            enter(0);
            taken.fetch_add(1, std::memory_order_relaxed);
        }
    });
    for (int visitor = 0; visitor < 2; ++visitor) {
        threads.emplace_back([&] {
            (void)sluice::thread_pins::find();
            for (std::uint64_t visit = 0; visit < kVisits; ++visit) {
                const std::uint64_t before = taken.load(std::memory_order_relaxed);
                while (taken.load(std::memory_order_relaxed) - before <
                       std::uint64_t{3} * Lock::kEarnedAfter) {
                    std::this_thread::yield();
                }
                enter(500); // who comes in meanwhile is noticed
            }
            --visitors;
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    assert_int_equal(together, 0);
    assert_int_equal(sum, taken.load() + 2 * kVisits);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("core.biased_lock", prepare);
}
