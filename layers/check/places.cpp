// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/places.hpp"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <new>

#include "core/sync.hpp"

namespace sluice::layers::check {

namespace {

struct Entry {
    report::Stack stack;
    Entry* next = nullptr;
};

constexpr std::size_t kBuckets = 4096;
constexpr unsigned kMost = 65'536;
constexpr report::Stack kNowhere;

// Entries are only ever added, so that a reader needs no lock.
std::array<std::atomic<Entry*>, kBuckets> place_buckets = {};
std::atomic<unsigned> places_kept = 0;
Mutex adding;

std::size_t bucket_of(const report::Stack& stack) noexcept {
    std::uintptr_t mixed = stack.count;
    for (const void* address : stack.frames()) {
        mixed = (mixed ^ reinterpret_cast<std::uintptr_t>(address)) * 0x9e3779b97f4a7c15U;
    }
    return mixed >> 52U;
}

Place find(const Entry* entry, const report::Stack& stack) noexcept {
    while (entry != nullptr && !std::ranges::equal(entry->stack.frames(), stack.frames())) {
        entry = entry->next;
    }
    return entry != nullptr ? &entry->stack : nullptr;
}

Place add(std::atomic<Entry*>& bucket, const report::Stack& stack) noexcept {
    const LockGuard lock(adding);
    Entry* const first = bucket.load(std::memory_order_relaxed);
    if (const Place found = find(first, stack)) {
        return found;
    }
    Entry* const entry = places_kept.load(std::memory_order_relaxed) < kMost ? new (std::nothrow)
                                                                                   Entry{stack, first}
                                                                             : nullptr;
    if (entry == nullptr) {
        return &kNowhere;
    }
    places_kept.fetch_add(1, std::memory_order_relaxed);
    bucket.store(entry, std::memory_order_release); // partner: the acquire in here()
    return &entry->stack;
}

} // namespace

unsigned this_process() noexcept {
    static constinit std::atomic<unsigned> forks = 0;
    static const int is_counted =
        pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
    return is_counted == 0 ? forks.load(std::memory_order_relaxed) : 0;
}

const void* this_thread() noexcept {
    static thread_local char mark;
    return &mark;
}

Place here() noexcept {
    const report::Stack stack = report::capture();
    std::atomic<Entry*>& bucket = place_buckets[bucket_of(stack)];
    const Place found = find(bucket.load(std::memory_order_acquire), stack);
    return found != nullptr ? found : add(bucket, stack);
}

} // namespace sluice::layers::check
