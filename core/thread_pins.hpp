// SPDX-License-Identifier: BSD-3-Clause
//
// What each thread uses at this moment, published for the thread that wants to destroy it, for the price of a
// store.
//
// A thread writes the address of what it uses into an entry of its own, and only then looks whether that is
// still to be had. The destroyer makes it unavailable, lets every thread's stores and loads get in order,
// and then looks at all entries. So one of the two sees the other:
//
//     user                                  destroyer
//     pin(entry, what)                      mark WHAT as going
//     is WHAT going? then unpin, and stop   order_all_threads()
//     use it                                is_pinned(WHAT)? then wait
//     unpin(entry)
//     is WHAT going? then wake destroyer
//
// Between the two steps of a user the CPU would need a full barrier, which costs as much as an atomic
// exchange. Only the compiler is held back there instead: the destroyer, which is rare, lets the kernel
// interrupt the CPUs that run threads of this process (membarrier), which is a barrier in each of them.
//
// There are none where the kernel refuses that, the thread has as many pins as it has entries, or is about to
// end. The caller has another way then, a count.
//
// Thread safety: everything may be called from any thread, also between its last destructors; an entry may be
// given up by any thread. Nothing takes a lock. A thread's first find() allocates its entries, which are
// never given back but handed on to threads that come later; a library with pins must stay loaded.
#pragma once

#include <atomic>
#include <cstddef>

namespace sluice::thread_pins {

using Entry = std::atomic<const void*>;

// As many as a cache line has room for, and calls need: few hold more than two.
constexpr std::size_t kEntries = 6;

struct alignas(64) Entries {
    Entry used[kEntries];
    Entries* next;               // of all there are
    std::atomic<bool> has_owner; // a thread that lives
};

// The calling thread's; at first, and in the end, those that have no room. A word in the block that each
// thread has at a known distance: nothing is called to find it.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local Entries* mine;

#if defined(__SANITIZE_THREAD__)
// It knows nothing of membarrier, and is given a protocol that needs none.
constexpr std::memory_order kPublish = std::memory_order_seq_cst;
#else
// Release: what was done with the former one is seen by the thread that waits for its end.
constexpr std::memory_order kPublish = std::memory_order_release;
#endif

// Whether those are one thread's own.
bool is_own(const Entries* entries) noexcept;

// A free entry of the calling thread's, or null.
Entry* find() noexcept;

// The caller looks next whether WHAT can be used, by a load that is seq_cst.
inline void pin(Entry& entry, const void* what) noexcept {
    entry.store(what, kPublish);
    std::atomic_signal_fence(std::memory_order_seq_cst); // partner: order_all_threads()
}

// The caller looks next whether somebody waits for it, in the same way.
inline void unpin(Entry& entry) noexcept {
    entry.store(nullptr, kPublish); // partner: the acquire in is_pinned()
    std::atomic_signal_fence(std::memory_order_seq_cst);
}

// Behind this, each thread's earlier stores are seen here, or its later loads see what was stored here
// before. A system call.
void order_all_threads() noexcept;

// Whether any thread had an entry for WHAT.
bool is_pinned(const void* what) noexcept;

} // namespace sluice::thread_pins
