// SPDX-License-Identifier: BSD-3-Clause
#include "core/thread_pins.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>
#include <new>

namespace sluice::thread_pins {

namespace {

// All that were ever made.
constinit std::atomic<Entries*> first{nullptr};

// Without room: what a thread has before its own entries, and what it has instead of any.
constinit Entries unclaimed{
    {&unclaimed, &unclaimed, &unclaimed, &unclaimed, &unclaimed, &unclaimed}, nullptr, true};
constinit Entries none{{&none, &none, &none, &none, &none, &none}, nullptr, true};
static_assert(kEntries == 6, "each of them");

bool membarrier([[maybe_unused]] int command) noexcept {
#if defined(__SANITIZE_THREAD__)
    return true; // see kPublish
#else
    return syscall(SYS_membarrier, command, 0, 0) == 0;
#endif
}

bool is_possible() noexcept {
    static const bool is = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
    return is;
}

// At a thread's end. Entries that are still in use stay so.
struct Leaver {
    ~Leaver() {
        mine = &none;
        entries->has_owner.store(false, std::memory_order_release); // partner: find_left()
    }
    Entries* entries = nullptr;
};
[[gnu::tls_model("initial-exec")]] thread_local Leaver leaver;

// Those of a thread that has ended.
Entries* find_left() noexcept {
    for (Entries* each = first.load(std::memory_order_acquire); each != nullptr; each = each->next) {
        if (!each->has_owner.load(std::memory_order_relaxed) &&
            !each->has_owner.exchange(true, std::memory_order_acquire)) {
            return each;
        }
    }
    return nullptr;
}

Entries* make() noexcept {
    auto* const made = new (std::nothrow) Entries{};
    if (made != nullptr) {
        made->has_owner.store(true, std::memory_order_relaxed);
        made->next = first.load(std::memory_order_relaxed);
        // Partners: the acquires of FIRST. Its owner's first pin comes behind it.
        while (!first.compare_exchange_weak(made->next, made, std::memory_order_seq_cst)) {
        }
    }
    return made;
}

void claim() noexcept {
    mine = &none; // for a signal handler that comes between
    if (!is_possible()) {
        return;
    }
    Entries* found = find_left();
    if (found == nullptr) {
        found = make();
    }
    if (found != nullptr) {
        leaver.entries = found; // and so is destroyed in the end
        mine = found;
    }
}

} // namespace

constinit thread_local Entries* mine = &unclaimed;

bool is_own(const Entries* entries) noexcept {
    return entries != &unclaimed && entries != &none;
}

Entry* find() noexcept {
    if (mine == &unclaimed) {
        claim();
    }
    for (Entry& entry : mine->used) {
        if (entry.load(std::memory_order_relaxed) == nullptr) {
            return &entry;
        }
    }
    return nullptr;
}

void order_all_threads() noexcept {
    if (!is_possible() || membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
        return; // where it isn't, nobody has an entry
    }
    // A sandbox that was entered since forbids it. Time does it, too: no CPU keeps a store for itself so
    // long.
    timespec left{0, 10'000'000};
    while (nanosleep(&left, &left) != 0) {
    }
}

bool is_pinned(const void* what) noexcept {
    // Partner: make().
    for (Entries* each = first.load(std::memory_order_seq_cst); each != nullptr; each = each->next) {
        for (const Entry& entry : each->used) {
            if (entry.load(std::memory_order_seq_cst) == what) {
                return true;
            }
        }
    }
    return false;
}

} // namespace sluice::thread_pins
