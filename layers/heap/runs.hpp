// SPDX-License-Identifier: BSD-3-Clause
//
// Which pages of a range are taken: runs of pages, each either taken or free. Two free runs never touch.
// Nothing is kept in the pages themselves.
//
// Thread safety: none; the caller has a lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace sluice::layers::heap {

// Of the first page of a run. That of any other page has 0 pages, and its other members mean nothing.
struct Run {
    std::uint32_t pages;
    std::uint32_t pages_before; // of the run before it; 0 for the first one
    std::uint32_t next;         // in the list of free runs of about this length
    std::uint32_t previous;
    bool is_free;
    bool is_clean; // all its bytes are zero
};

class Runs {
  public:
    struct Taken {
        std::uint32_t first;
        bool is_clean;
    };

    Runs() = default;
    // TABLE has a place for each page, and its bytes are zero. All pages are free and clean. The first one is
    // the ORIGIN-th of the address space.
    Runs(std::span<Run> table, std::uint64_t origin) noexcept;

    // PAGES of them, the first one a multiple of ALIGNMENT in the address space; neither is 0. Nothing: no
    // free run has them.
    std::optional<Taken> take(std::uint32_t pages, std::uint32_t alignment) noexcept;
    // FIRST begins a run that is taken.
    void give_back(std::uint32_t first, bool is_clean) noexcept;
    // The run that FIRST begins and that is taken has PAGES then, of which there is at least 1. False: those
    // behind it aren't free.
    bool resize(std::uint32_t first, std::uint32_t pages) noexcept;

    std::uint32_t pages_of(std::uint32_t first) const noexcept { return table_[first].pages; }
    // Whether PAGE is the first one of a run that is taken.
    bool is_taken(std::uint32_t page) const noexcept {
        return table_[page].pages != 0 && !table_[page].is_free;
    }

  private:
    static constexpr std::size_t kLists = 32;

    void set(std::uint32_t first, std::uint32_t pages, bool is_free, bool is_clean) noexcept;
    void put_in_list(std::uint32_t first) noexcept;
    void take_out_of_list(std::uint32_t first) noexcept;
    std::uint32_t take_up(std::uint32_t first) noexcept;
    std::uint32_t split(std::uint32_t first, std::uint32_t pages) noexcept;

    std::span<Run> table_;
    std::uint64_t origin_ = 0;
    std::array<std::uint32_t, kLists> lists_{}; // by the number of bits of their length
};

} // namespace sluice::layers::heap
