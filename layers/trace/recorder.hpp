// SPDX-License-Identifier: BSD-3-Clause
//
// Where events go: a file of this process's, mapped, in which each thread has blocks of its own (ADR 103).
//
// An event costs its stores and, once for all that one call posts or polls, a look at the clock. A thread
// that needs another block takes it by one atomic addition and asks for its memory. Where nothing can be
// written, events are counted and dropped; the program never notices.
//
// Thread safety: may be called from any thread. A child of fork() has a file of its own from its first event.
#pragma once

#include <time.h>

#include <atomic>
#include <cstdint>

#include "layers/trace/file/layout.hpp"

namespace sluice::layers::trace {

// What this thread writes to. Nothing of it is shared.
struct Writing {
    file::Event* next = nullptr;
    file::Event* end = nullptr;
    file::Thread* thread = nullptr;
    std::uint64_t* lost = nullptr; // null: nobody counts
    std::uint64_t built_ns = 0;    // when ibv_wr_start() was called
    file::Event* built = nullptr;  // what ibv_wr_*() has written last
    bool is_first = false;         // what comes next is the first behind ibv_wr_start()
    bool is_registering = false;   // libibverbs' functions call each other
};
[[gnu::tls_model("initial-exec")]] extern constinit thread_local Writing writing;

// Null: there is no place for it, which has been counted.
file::Event* next_block() noexcept;

inline std::uint64_t now_ns() noexcept {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

// An address, shortened to what tells two objects of a process from each other.
inline std::uint32_t tag_of(const void* object) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(object);
    return static_cast<std::uint32_t>((address >> 4) ^ (address >> 36));
}

// Where it was written, or null.
inline file::Event* record(const file::Event& event) noexcept {
    Writing& to = writing;
    file::Event* const place = to.next != to.end ? to.next++ : next_block();
    if (place != nullptr) [[likely]] {
        place->time_ns = event.time_ns;
        place->id = event.id;
        place->bytes = event.bytes;
        place->queue_pair = event.queue_pair;
        place->device = event.device;
        place->code = event.code;
        place->status = event.status;
        place->flags = event.flags;
        // Its partner is whoever reads the file: an event with a kind is whole.
        std::atomic_ref(place->kind).store(event.kind, std::memory_order_release);
    }
    return place;
}

} // namespace sluice::layers::trace
