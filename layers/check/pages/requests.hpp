// SPDX-License-Identifier: BSD-3-Clause
//
// The outstanding requests by their tags, in a table of a fixed size: a hash with linear probing, where what
// is erased leaves no mark. A tag has an entry for each piece of memory.
//
// Thread safety: none; Protection has the lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "layers/check/pages/page_rules.hpp"
#include "layers/check/pages/touch.hpp"

namespace sluice::layers::check::pages {

struct Request {
    std::uint64_t tag;
    PageRange pages; // of none, the entry is free
    std::uint64_t since;
    Forbidden forbidden;
    std::uint32_t rank = 0; // among all that are outstanding; the table's own

    bool is_free() const noexcept { return pages.first == pages.end; }
    bool forbids(Access access) const noexcept {
        return forbidden == Forbidden::kEverything || access != Access::kLoad;
    }
};

class Requests {
  public:
    // A part of the table stays free, so that searches are short.
    static constexpr std::size_t kMost = std::size_t{3} << 14;

    bool is_full() const noexcept { return count_ == kMost; }

    void add(const Request& request) noexcept {
        std::size_t at = home_of(request.tag);
        while (!entries_[at].is_free()) {
            at = after(at);
        }
        entries_[at] = request;
        put_at_rank(static_cast<std::uint32_t>(count_++), at);
    }

    // The first of TAG. Null: there is none.
    Request* find(std::uint64_t tag) noexcept { return look(tag, home_of(tag)); }
    // The next of the same tag.
    Request* find_next(const Request& request) noexcept {
        return look(request.tag, after(index_of(request)));
    }

    void erase(Request& request) noexcept {
        put_at_rank(request.rank, places_[--count_]);
        std::size_t hole = index_of(request);
        for (std::size_t at = after(hole); !entries_[at].is_free(); at = after(at)) {
            // What is searched for from a place before the hole, or at it, would be missed behind it.
            if (distance(home_of(entries_[at].tag), at) >= distance(hole, at)) {
                entries_[hole] = entries_[at];
                put_at_rank(entries_[hole].rank, hole);
                hole = at;
            }
        }
        entries_[hole] = {};
    }

    // In no order. RANK is below the count.
    std::size_t count() const noexcept { return count_; }
    Request& at_rank(std::size_t rank) noexcept { return entries_[places_[rank]]; }

  private:
    static constexpr std::size_t kPlaces = std::size_t{1} << 16;

    // Tags are often neighbours: multiplied by the golden ratio they aren't.
    static std::size_t home_of(std::uint64_t tag) noexcept {
        return static_cast<std::size_t>((tag * 0x9e3779b97f4a7c15U) >> 48);
    }
    static std::size_t after(std::size_t at) noexcept { return (at + 1) % kPlaces; }
    static std::size_t distance(std::size_t from, std::size_t to) noexcept {
        return (to - from + kPlaces) % kPlaces;
    }
    std::size_t index_of(const Request& request) const noexcept {
        return static_cast<std::size_t>(&request - entries_.data());
    }
    Request* look(std::uint64_t tag, std::size_t at) noexcept {
        for (; !entries_[at].is_free(); at = after(at)) {
            if (entries_[at].tag == tag) {
                return &entries_[at];
            }
        }
        return nullptr;
    }

    void put_at_rank(std::uint32_t rank, std::size_t place) noexcept {
        places_[rank] = static_cast<std::uint32_t>(place);
        entries_[place].rank = rank;
    }

    std::array<Request, kPlaces> entries_ = {};
    std::array<std::uint32_t, kMost> places_ = {}; // of the outstanding ones, so that nobody looks at all
    std::size_t count_ = 0;
};

} // namespace sluice::layers::check::pages
