// SPDX-License-Identifier: BSD-3-Clause
//
// Requests that a program has posted to a queue and whose completion it hasn't seen, oldest first.
//
// The queue has the places that the device has granted, and some more, taken when it is made. A device that
// takes more requests lets go of the oldest here, which is no longer looked at.
//
// Thread safety: none; the lock of the queue's owner.
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "layers/check/places.hpp"

namespace sluice::layers::check {

struct Region;

struct Piece {
    std::uint64_t address = 0; // the program's, also where the region has addresses of its own
    std::uint32_t length = 0;
    std::shared_ptr<Region> region; // null: its key isn't known
    bool is_protected = false;      // of its whole pages, all: no store there goes unseen
};

enum class Kind : std::uint8_t { kSend, kWrite, kRead, kAtomic, kBind, kInvalidate, kOther, kReceive };

struct Request {
    static constexpr std::size_t kMostPieces = 4; // further ones aren't watched

    std::uint64_t id = 0;     // the program's wr_id
    std::uint64_t number = 0; // of all that were posted to this queue, from 1
    Place posted = nullptr;
    Kind kind = Kind::kOther;
    bool has_completion = true; // also where it succeeds
    bool is_inline = false;
    bool is_told_of = false;      // a finding names it already
    bool is_filled_first = false; // it sends what a Read before it brings
    bool shares_memory = false; // with another receive: what a program reads there is nobody's in particular
    std::uint8_t pieces_count = 0;
    std::uint32_t remote_key = 0;
    std::uint64_t remote_address = 0;
    std::uint64_t arrivals = 0; // at its queue pair, when it was posted
    std::optional<std::uint64_t> checksum;
    std::uint64_t tag = 0; // of its protected pages
    bool is_protected = false;
    const ibv_ah* address_handle = nullptr;
    std::array<Piece, kMostPieces> pieces = {};

    std::span<const Piece> watched() const noexcept { return std::span(pieces).first(pieces_count); }
};

inline bool overlap(const Piece& a, const Piece& b) noexcept {
    return a.address < b.address + b.length && b.address < a.address + a.length;
}

inline bool overlap(const Request& a, const Request& b) noexcept {
    return std::ranges::any_of(a.watched(), [&](const Piece& mine) {
        return std::ranges::any_of(b.watched(), [&](const Piece& other) { return overlap(mine, other); });
    });
}

class Requests {
  public:
    // GRANTED: places of the device's queue.
    void resize(std::uint32_t granted);

    std::uint32_t granted() const noexcept { return granted_; }
    std::size_t size() const noexcept { return count_; }
    bool empty() const noexcept { return count_ == 0; }
    bool is_full() const noexcept { return count_ == ring_.size(); }
    Request& operator[](std::size_t index) noexcept { return ring_[(first_ + index) % ring_.size()]; }
    const Request& operator[](std::size_t index) const noexcept {
        return ring_[(first_ + index) % ring_.size()];
    }

    // A place for the next one, empty but for its number.
    Request& add() noexcept;
    // The youngest COUNT weren't accepted.
    void drop_youngest(std::size_t count) noexcept;
    void drop_oldest(std::size_t count) noexcept;
    void clear() noexcept;
    // It has ended, and those before it may not have.
    void settle(Request& request) noexcept;
    // How many of them have a completion to come when all goes well.
    std::size_t owed() const noexcept { return owed_; }
    // After it was filled in.
    void count_owed(const Request& added) noexcept { owed_ += added.has_completion ? 1U : 0U; }

  private:
    void empty_out(Request& request) noexcept;

    std::vector<Request> ring_;
    std::size_t first_ = 0;
    std::size_t count_ = 0;
    std::size_t owed_ = 0;
    std::uint64_t posted_ = 0;
    std::uint32_t granted_ = 0;
};

} // namespace sluice::layers::check
