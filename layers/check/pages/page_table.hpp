// SPDX-License-Identifier: BSD-3-Clause
//
// What is known of each page, found by its number without a search: as the processor does it, in two steps. A
// leaf is memory of the kernel's that costs nothing where no page was ever seen.
//
// Thread safety: look() may be called by any thread; everything else under Protection's lock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sluice::layers::check::pages {

// Of the program, before we came.
enum class Rights : std::uint8_t {
    kUnknown,
    kRefused, // never protected
    kRead,
    kReadWrite,
};

// What the requests leave of the rights.
enum class Level : std::uint8_t { kOpen, kNoStores, kNothing };

// Of all pages.
std::size_t page_bytes() noexcept;

struct Page {
    std::uint64_t cleared_at; // requests that began before don't have the page any more
    std::uint64_t opened_at;  // when more was allowed than before; 0: never
    std::uint32_t no_stores;  // how many requests forbid that
    std::uint32_t nothing;
    Rights rights;
    Level level; // as the kernel has it

    // For look(), which may be reading it.
    void set(Rights now) noexcept { std::atomic_ref(rights).store(now, std::memory_order_relaxed); }
    void set(Level now) noexcept { std::atomic_ref(level).store(now, std::memory_order_relaxed); }
};

// What look() sees of a page.
struct PageLook {
    Rights rights = Rights::kUnknown;
    Level level = Level::kOpen;
};

struct PageRange {
    std::uint64_t first = 0; // by number: the address, divided by a page's bytes
    std::uint64_t end = 0;
};

class PageTable {
  public:
    // In 48 bits of address, with pages of 4 KiB.
    static constexpr std::uint64_t kMostPages = std::uint64_t{1} << (48 - 12);

    // Null: never made.
    Page* find(std::uint64_t number) const noexcept {
        const std::uint64_t leaf = number / kLeafPages;
        Page* const pages = leaf < kLeaves ? leaves_[leaf].load(std::memory_order_acquire) : nullptr;
        return pages != nullptr ? &pages[number % kLeafPages] : nullptr;
    }
    // As it is in this moment, while others may change it.
    PageLook look(std::uint64_t number) const noexcept {
        Page* const page = find(number);
        return page == nullptr
                   ? PageLook()
                   : PageLook{.rights = std::atomic_ref(page->rights).load(std::memory_order_relaxed),
                              .level = std::atomic_ref(page->level).load(std::memory_order_relaxed)};
    }
    // Null: no memory, or no address of a program's.
    Page* make(std::uint64_t number) noexcept;
    // The number of the first page behind NUMBER's leaf.
    static std::uint64_t behind_leaf(std::uint64_t number) noexcept {
        return (number / kLeafPages + 1) * kLeafPages;
    }

  private:
    static constexpr std::uint64_t kLeafPages = std::uint64_t{1} << 18;
    static constexpr std::uint64_t kLeaves = std::uint64_t{1}
                                             << (48 - 12 - 18); // of 48 bits, with pages of 4 KiB

    std::array<std::atomic<Page*>, kLeaves> leaves_ = {};
};

} // namespace sluice::layers::check::pages
