// SPDX-License-Identifier: BSD-3-Clause
//
// Receive work requests waiting for messages: of one queue pair, or shared by several (SRQ, IBTA
// vol 1, 10.2.9). Not thread safe.
#pragma once

#include <algorithm>
#include <utility>

#include "roce/engine/ring.hpp"
#include "roce/engine/types.hpp"

namespace sluice::roce::engine {

// One request, with room for its scatter list.
struct Receive {
    std::uint64_t wr_id = 0;
    std::uint32_t sge_count = 0;
    std::uint64_t len_bytes = 0; // of all parts
    std::array<Sge, kMaxSge> sges{};
};

class ReceiveQueue {
  public:
    ReceiveQueue(std::uint32_t capacity, std::uint32_t max_sge)
        : entries_(capacity), sges_(std::make_unique<Sge[]>(std::size_t{capacity} * max_sge)),
          max_sge_(max_sge) {}

    Post post(const RecvWr& wr) noexcept {
        if (wr.sges.size() > max_sge_) {
            return Post::kInvalid;
        }
        if (entries_.full()) {
            return Post::kFull;
        }
        // Scatter lists lie in the order of posting, wherever the ring stands.
        Entry& entry = entries_.grow();
        entry = {.wr_id = wr.wr_id,
                 .sges = sges_.get() + std::size_t{next_} * max_sge_,
                 .sge_count = static_cast<std::uint32_t>(wr.sges.size())};
        next_ = next_ + 1 == entries_.capacity() ? 0 : next_ + 1;
        std::ranges::copy(wr.sges, entry.sges);
        return Post::kPosted;
    }

    bool empty() const noexcept { return entries_.empty(); }
    std::uint32_t size() const noexcept { return entries_.size(); }
    void clear() noexcept { entries_.clear(); }

    // The oldest request; the queue isn't empty.
    void take(Receive& out) noexcept {
        const Entry& entry = entries_.front();
        out.wr_id = entry.wr_id;
        out.sge_count = entry.sge_count;
        out.len_bytes = next_len_bytes();
        if (entry.sge_count == 1) { // as most have: no call
            out.sges[0] = entry.sges[0];
        } else {
            std::copy_n(entry.sges, entry.sge_count, out.sges.begin());
        }
        entries_.pop_front();
    }
    std::uint64_t next_len_bytes() noexcept {
        const Entry& entry = entries_.front();
        std::uint64_t len = 0;
        for (std::uint32_t i = 0; i < entry.sge_count; ++i) {
            len += entry.sges[i].len_bytes;
        }
        return len;
    }

    // What waits keeps its place. False where more wait than CAPACITY; may throw bad_alloc. Nothing has
    // changed then.
    bool resize(std::uint32_t capacity) {
        if (entries_.size() > capacity) {
            return false;
        }
        ReceiveQueue resized(capacity, max_sge_);
        for (std::uint32_t i = 0; i < entries_.size(); ++i) {
            const Entry& entry = entries_[i];
            (void)resized.post({.wr_id = entry.wr_id, .sges = {entry.sges, entry.sge_count}}); // it fits
        }
        entries_ = std::move(resized.entries_);
        sges_ = std::move(resized.sges_);
        next_ = resized.next_;
        return true;
    }

    // SRQ: an event once fewer than LIMIT are left; 0 is none.
    void set_limit(std::uint32_t limit) noexcept { limit_ = limit; }
    std::uint32_t limit() const noexcept { return limit_; }
    bool take_limit_event() noexcept {
        const bool due = limit_ != 0 && entries_.size() < limit_;
        limit_ = due ? 0 : limit_;
        return due;
    }

  private:
    struct Entry {
        std::uint64_t wr_id = 0;
        Sge* sges = nullptr;
        std::uint32_t sge_count = 0;
    };

    Ring<Entry> entries_;
    std::unique_ptr<Sge[]> sges_;
    std::uint32_t max_sge_;
    std::uint32_t next_ = 0;
    std::uint32_t limit_ = 0;
};

} // namespace sluice::roce::engine
