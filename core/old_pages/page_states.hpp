// SPDX-License-Identifier: BSD-3-Clause
//
// The table of pages that were closed at least once, and how a page is opened and closed while other threads
// fault there.
//
// Thread safety: everything may be called from any thread, and in a signal's handler.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace sluice::old_pages {

constexpr std::uintptr_t kPageBytes = 4096; // on machines with others nothing is closed

// In the middle two a thread changes the page's protection. Stepped: open for one instruction.
enum class State : std::uint8_t { kOpen, kOpening, kClosing, kClosed, kStepped };

struct Page {
    std::atomic<std::uintptr_t> address{0};
    std::atomic<std::uint64_t> old{0};
    std::array<std::atomic<std::uint64_t>, 8> words = {}; // of each old line those that are old, in a byte
    std::atomic<bool> is_of_loads{false};                 // stores to it are right
    std::atomic<std::uint32_t> event{0};
    std::atomic<bool> is_touched{false};
    std::atomic<State> state{State::kOpen};
};

// The entry of the page at that address; null: it has none.
Page* find(std::uintptr_t page) noexcept;
// Null: the table is full.
Page* find_or_add(std::uintptr_t page) noexcept;

// False: it isn't closed, or another thread was first.
bool open_as(Page& page, State to) noexcept;
bool close_from(Page& page, State from) noexcept;
void open_page(Page& page) noexcept;
// What it is in when no other thread is about to change it.
State settled(const Page& page) noexcept;

} // namespace sluice::old_pages
