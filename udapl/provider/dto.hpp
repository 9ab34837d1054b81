// SPDX-License-Identifier: BSD-3-Clause
//
// Records of the requests that are posted and not complete. A work request's id is the address of its record,
// which keeps the program's cookie for the completion.
//
// The records of one direction of an endpoint are a ring: one thread posts at a time (lock()); completions
// come in order, under the dispatcher's lock. Those of a shared receive queue come free in any order; they
// belong to a DtoPool.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/coherence/segment.hpp"
#include "core/sync.hpp"
#include "ibverbs-glue/completion.hpp"
#include "udapl/provider/event.hpp"

namespace sluice::dapl {

class DtoRing;
class SharedReceives;
class Task;

// Segments of local memory.
using Segments = std::span<const coherence::Segment>;

// Bits, DAT's own in each of its versions.
struct PostFlags {
    static constexpr unsigned kSilent = 0x1;    // no event if all goes well
    static constexpr unsigned kSolicited = 0x2; // the peer's event shall notify
    static constexpr unsigned kQuiet = 0x4;     // its own event shall not notify
    static constexpr unsigned kFenced = 0x8;    // after the reads before it

    unsigned bits = 0;

    bool is_silent() const noexcept { return (bits & kSilent) != 0; }
    bool is_solicited() const noexcept { return (bits & kSolicited) != 0; }
    bool is_quiet() const noexcept { return (bits & kQuiet) != 0; }
    bool is_fenced() const noexcept { return (bits & kFenced) != 0; }
};

struct Dto {
    // What it is, beside PostFlags.
    static constexpr unsigned kKept = 0x100;   // its segments must be shown to the CPU
    static constexpr unsigned kBind = 0x200;   // of a window
    static constexpr unsigned kMarker = 0x400; // of our own, behind the last request: no event at all
    static constexpr unsigned kShared = 0x800; // of a shared queue
    // None of these: all that its success means is an event.
    static constexpr unsigned kSpecial = PostFlags::kSilent | kKept | kBind | kMarker | kShared;
    // Above them, its DtoOperation.
    static constexpr unsigned kOperationShift = 16;

    static constexpr unsigned traits_of(DtoOperation operation) noexcept {
        return static_cast<unsigned>(operation) << kOperationShift;
    }

    DtoRing* ring = nullptr; // of a shared receive, the three with a star are known when it is complete *
    SharedReceives* shared = nullptr; // where its buffer comes from, if that is shared
    void* endpoint = nullptr;         // its handle *
    void* window = nullptr;           // of kBind: that handle; its number is LENGTH
    std::uint64_t cookie = 0;
    std::uint64_t length = 0; // of a request; a receive's is known when it is complete
    // Room for the segments that the device writes, where it doesn't see the CPU's caches; null elsewhere.
    coherence::Segment* segments = nullptr;
    Dto* next_free = nullptr;        // in a pool
    std::uint32_t segment_count = 0; // of kKept
    std::uint32_t number = 0;
    std::uint32_t connection = 0; // ordinal of the connection that this was posted on *
    unsigned traits = 0;

    bool is(unsigned trait) const noexcept { return (traits & trait) != 0; }
    DtoOperation operation() const noexcept { return static_cast<DtoOperation>(traits >> kOperationShift); }

    void keep(Segments written) noexcept {
        if (segments != nullptr) [[unlikely]] {
            traits |= kKept;
            segment_count = static_cast<std::uint32_t>(written.size());
            std::copy_n(written.begin(), segment_count, segments);
        }
    }
};

// Records, each with room for as many segments.
struct DtoStore {
    DtoStore(std::uint32_t size, std::uint32_t kept_segments)
        : dtos(size), segments(std::size_t{size} * kept_segments) {
        for (std::size_t i = 0; i < size && kept_segments != 0; ++i) {
            dtos[i].segments = &segments[i * kept_segments];
        }
    }

    std::vector<Dto> dtos;
    std::vector<coherence::Segment> segments;
};

// What completions mean for their endpoint. The dispatcher collects it under its lock, and schedules the
// endpoint's task, which takes it.
struct RingReport {
    std::uint32_t connection = 0; // ordinal of the connection that this is about
    bool is_pending = false;
    bool has_failed = false;
    bool is_drained = false;
    bool holds_soft = false; // more receives than the watermark says
    bool holds_hard = false;
    bool is_overrun = false; // the device has lost completions
};

// How many receives may be complete and not taken yet; the default is never reached.
struct Watermarks {
    static constexpr std::uint32_t kInfinite = UINT32_MAX;

    std::uint32_t soft = kInfinite;
    std::uint32_t hard = kInfinite;

    bool are_set() const noexcept { return soft != kInfinite || hard != kInfinite; }
};

class DtoRing {
  public:
    // ENDPOINT: the task that takes its report.
    DtoRing(DtoStore store, Task& endpoint) noexcept
        : store_(std::move(store)), size_(static_cast<std::uint32_t>(store_.dtos.size())),
          endpoint_(endpoint) {
        own();
    }
    DtoRing(const DtoRing&) = delete;
    DtoRing& operator=(const DtoRing&) = delete;

    // For the dispatcher of its completions, under the dispatcher's lock.
    RingReport report;
    Watermarks watermarks;
    std::uint32_t held = 0;         // receives that are complete, and not taken
    bool is_counted = false;        // there are watermarks
    bool waits_for_idle = false;    // the endpoint wants to know when nothing is on its way
    DtoRing* next_joined = nullptr; // at that dispatcher
    DtoRing** joined_at = nullptr;  // the pointer to this; null: it hasn't joined
    Task& endpoint() const noexcept { return endpoint_; }

    SpinLock& lock() noexcept SLUICE_TSA(lock_returned(lock_)) { return lock_; }

    bool is_full_locked() const noexcept SLUICE_TSA(requires_capability(lock_)) {
        return posted_.load(std::memory_order_relaxed) - completed_.load(std::memory_order_acquire) == size_;
    }
    // The record that the next request gets. It counts once it is posted.
    Dto& next_locked() noexcept SLUICE_TSA(requires_capability(lock_)) {
        Dto& dto = store_.dtos[next_];
        dto.number = posted_.load(std::memory_order_relaxed);
        dto.connection = connection_.load(std::memory_order_relaxed);
        return dto;
    }
    void count_locked(bool is_signaled) noexcept SLUICE_TSA(requires_capability(lock_)) {
        is_last_signaled_ = is_signaled;
        next_ = next_ + 1 != size_ ? next_ + 1 : 0;
        posted_.store(posted_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    // Whether the end of the last request will be known.
    bool is_last_signaled_locked() const noexcept SLUICE_TSA(requires_capability(lock_)) {
        return is_last_signaled_;
    }
    // For a request of our own behind all others, which doesn't count.
    Dto& marker_locked() noexcept SLUICE_TSA(requires_capability(lock_)) {
        marker_.ring = this;
        marker_.number = posted_.load(std::memory_order_relaxed) - 1;
        marker_.connection = connection_.load(std::memory_order_relaxed);
        marker_.traits = Dto::kMarker;
        return marker_;
    }
    // Whether a silent request must be signaled all the same, so that records come free.
    bool must_signal(const Dto& dto) const noexcept { return dto.number % (size_ / 2 + 1) == 0; }

    // DTO and those before it are over. Release: partner of is_full_locked().
    void complete(const Dto& dto) noexcept { completed_.store(dto.number + 1, std::memory_order_release); }
    bool is_idle() const noexcept {
        return posted_.load(std::memory_order_relaxed) == completed_.load(std::memory_order_relaxed);
    }
    std::uint32_t posted() const noexcept {
        return posted_.load(std::memory_order_relaxed) - completed_.load(std::memory_order_relaxed);
    }
    // What is posted from now on is another connection's.
    void count_connection() noexcept { connection_.fetch_add(1, std::memory_order_relaxed); }
    std::uint32_t connection() const noexcept { return connection_.load(std::memory_order_relaxed); }
    std::uint32_t size() const noexcept { return size_; }
    // While it is idle. STORE has the new size.
    void replace_locked(DtoStore& store) noexcept SLUICE_TSA(requires_capability(lock_)) {
        std::swap(store_, store);
        size_ = static_cast<std::uint32_t>(store_.dtos.size());
        next_ = 0;
        own();
    }
    // Nothing is on its way any more.
    void clear() noexcept { completed_.store(posted_.load(std::memory_order_relaxed)); }

  private:
    void own() noexcept {
        for (Dto& dto : store_.dtos) {
            dto.ring = this;
        }
    }

    DtoStore store_;
    std::uint32_t size_; // of the store
    Dto marker_{};
    SpinLock lock_;
    std::uint32_t next_ SLUICE_TSA(guarded_by(lock_)) = 0; // its record
    bool is_last_signaled_ SLUICE_TSA(guarded_by(lock_)) = true;
    std::atomic<std::uint32_t> posted_{0};
    std::atomic<std::uint32_t> completed_{0};
    std::atomic<std::uint32_t> connection_{0};
    Task& endpoint_;
};

// Records that come free in any order. Any thread may call anything.
class DtoPool {
  public:
    // By COUNT > 0 records; those that are there stay where they are.
    void grow(std::uint32_t count, std::uint32_t kept_segments);
    // Null: all are in use.
    Dto* take() noexcept;
    void give(Dto& dto) noexcept;

  private:
    Mutex mutex_;
    std::vector<std::unique_ptr<DtoStore>> stores_ SLUICE_TSA(guarded_by(mutex_));
    SpinLock lock_;
    Dto* free_ SLUICE_TSA(guarded_by(lock_)) = nullptr;
};

// Whether COMPLETION is that of a plain transfer that went well.
inline bool is_plain(const ibv_wc& completion) noexcept {
    const Dto& dto = *reinterpret_cast<const Dto*>(completion.wr_id);
    return completion.status == IBV_WC_SUCCESS && (completion.wc_flags & IBV_WC_WITH_IMM) == 0 &&
           !dto.is(Dto::kSpecial) && !dto.ring->waits_for_idle;
}

// Calls TAKE with its event; its record comes free.
template<typename Take>
void take_plain(const ibv_wc& completion, Take& take) noexcept {
    const Dto& dto = *reinterpret_cast<const Dto*>(completion.wr_id);
    const bool is_receive = (completion.opcode & IBV_WC_RECV) != 0;
    take(Event{EventKind::kDto, dto.endpoint, DtoStatus::kSuccess, dto.is(PostFlags::kQuiet), dto.operation(),
               0, dto.cookie, is_receive ? completion.byte_len : dto.length});
    dto.ring->complete(dto);
}

} // namespace sluice::dapl
