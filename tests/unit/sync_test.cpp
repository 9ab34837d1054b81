// SPDX-License-Identifier: BSD-3-Clause
#include "core/sync.hpp"

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/cmocka.hpp"

using sluice::ConditionVariable;
using sluice::LockGuard;
using sluice::Mutex;
using sluice::SpinLock;

namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 20'000;

// Two plain words that only the lock keeps equal. A lock that lets two threads in shows as a
// torn pair here, and as a race under the thread sanitizer.
template<typename Lock>
struct Pair {
    Lock lock;
    std::uint64_t first SLUICE_TSA(guarded_by(lock)) = 0;
    std::uint64_t second SLUICE_TSA(guarded_by(lock)) = 0;
};

template<typename Lock>
void many_threads__keep_the_pair_equal(void**) {
    Pair<Lock> pair;
    std::atomic<int> torn{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&pair, &torn] {
            for (int i = 0; i < kRounds; ++i) {
                const LockGuard guard(pair.lock);
                torn += pair.first != pair.second;
                ++pair.first;
                ++pair.second;
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    const LockGuard guard(pair.lock);
    assert_int_equal(torn.load(), 0);
    assert_int_equal(pair.first, std::uint64_t{kThreads} * kRounds);
}

template<typename Lock>
void try_lock__held__fails_without_waiting(void**) {
    Lock lock;
    lock.lock();
    std::atomic<bool> got{true};
    std::thread([&lock, &got] {
        if (lock.try_lock()) {
            lock.unlock();
        } else {
            got = false;
        }
    }).join();
    lock.unlock();
    assert_false(got.load());
}

template<typename Lock>
void try_lock__free__takes_it(void**) {
    Lock lock;
    int taken = 0;
    for (int i = 0; i < 2; ++i) {
        if (lock.try_lock()) {
            ++taken;
            lock.unlock();
        }
    }
    assert_int_equal(taken, 2);
}

void condition__notified__waiter_sees_the_state(void**) {
    struct Shared {
        Mutex mutex;
        ConditionVariable changed;
        int value SLUICE_TSA(guarded_by(mutex)) = 0;
    } shared;
    std::thread waiter([&shared] {
        const LockGuard guard(shared.mutex);
        while (shared.value != 1) {
            shared.changed.wait(shared.mutex);
        }
        shared.value = 2;
        shared.changed.notify_all();
    });
    {
        const LockGuard guard(shared.mutex);
        shared.value = 1;
        shared.changed.notify_one();
        while (shared.value != 2) {
            shared.changed.wait(shared.mutex);
        }
    }
    waiter.join();
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        {"mutex: many_threads__keep_the_pair_equal", many_threads__keep_the_pair_equal<Mutex>, nullptr,
         nullptr, nullptr},
        {"mutex: try_lock__held__fails_without_waiting", try_lock__held__fails_without_waiting<Mutex>,
         nullptr, nullptr, nullptr},
        {"mutex: try_lock__free__takes_it", try_lock__free__takes_it<Mutex>, nullptr, nullptr, nullptr},
        {"spin lock: many_threads__keep_the_pair_equal", many_threads__keep_the_pair_equal<SpinLock>, nullptr,
         nullptr, nullptr},
        {"spin lock: try_lock__held__fails_without_waiting", try_lock__held__fails_without_waiting<SpinLock>,
         nullptr, nullptr, nullptr},
        {"spin lock: try_lock__free__takes_it", try_lock__free__takes_it<SpinLock>, nullptr, nullptr,
         nullptr},
        cmocka_unit_test(condition__notified__waiter_sees_the_state),
    };
    return cmocka_run_group_tests_name("core.sync", tests, nullptr, nullptr);
}
