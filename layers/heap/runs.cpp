// SPDX-License-Identifier: BSD-3-Clause
#include "layers/heap/runs.hpp"

#include <bit>
#include <utility>

namespace sluice::layers::heap {

namespace {

constexpr std::uint32_t kNone = ~std::uint32_t{0};

constexpr std::size_t list_of(std::uint32_t pages) noexcept {
    return static_cast<std::size_t>(std::bit_width(pages)) - 1;
}

// What is left out in front of PAGE, so that a multiple of ALIGNMENT comes.
constexpr std::uint64_t gap(std::uint64_t page, std::uint32_t alignment) noexcept {
    const std::uint64_t behind = page % alignment;
    return behind == 0 ? 0 : alignment - behind;
}

} // namespace

Runs::Runs(std::span<Run> table, std::uint64_t origin) noexcept : table_(table), origin_(origin) {
    lists_.fill(kNone);
    set(0, static_cast<std::uint32_t>(table_.size()), true, true);
    put_in_list(0);
}

// The run behind it hears of its length.
void Runs::set(std::uint32_t first, std::uint32_t pages, bool is_free, bool is_clean) noexcept {
    Run& run = table_[first];
    run.pages = pages;
    run.is_free = is_free;
    run.is_clean = is_clean;
    if (first + pages < table_.size()) {
        table_[first + pages].pages_before = pages;
    }
}

void Runs::put_in_list(std::uint32_t first) noexcept {
    std::uint32_t& head = lists_[list_of(table_[first].pages)];
    table_[first].previous = kNone;
    table_[first].next = head;
    if (head != kNone) {
        table_[head].previous = first;
    }
    head = first;
}

void Runs::take_out_of_list(std::uint32_t first) noexcept {
    const Run& run = table_[first];
    if (run.previous == kNone) {
        lists_[list_of(run.pages)] = run.next;
    } else {
        table_[run.previous].next = run.next;
    }
    if (run.next != kNone) {
        table_[run.next].previous = run.previous;
    }
}

// Into two runs, both of which are as this one was, and in no list. Returns the second one, if it has pages.
std::uint32_t Runs::split(std::uint32_t first, std::uint32_t pages) noexcept {
    const Run whole = table_[first];
    if (pages == whole.pages) {
        return kNone;
    }
    set(first, pages, whole.is_free, whole.is_clean);
    set(first + pages, whole.pages - pages, whole.is_free, whole.is_clean);
    return first + pages;
}

std::optional<Runs::Taken> Runs::take(std::uint32_t pages, std::uint32_t alignment) noexcept {
    for (std::size_t list = list_of(pages); list < kLists; ++list) {
        for (std::uint32_t first = lists_[list]; first != kNone; first = table_[first].next) {
            const std::uint64_t skipped = gap(origin_ + first, alignment);
            if (table_[first].pages < pages || table_[first].pages - pages < skipped) {
                continue;
            }
            take_out_of_list(first);
            std::uint32_t taken = first;
            if (skipped != 0) {
                taken = split(first, static_cast<std::uint32_t>(skipped));
                put_in_list(first);
            }
            if (const std::uint32_t rest = split(taken, pages); rest != kNone) {
                put_in_list(rest);
            }
            table_[taken].is_free = false;
            return Taken{taken, table_[taken].is_clean};
        }
    }
    return std::nullopt;
}

// A free run becomes a part of another one. Returns its pages.
std::uint32_t Runs::take_up(std::uint32_t first) noexcept {
    take_out_of_list(first);
    return std::exchange(table_[first].pages, 0);
}

void Runs::give_back(std::uint32_t first, bool is_clean) noexcept {
    std::uint32_t pages = std::exchange(table_[first].pages, 0);
    const std::uint32_t behind = first + pages;
    if (behind < table_.size() && table_[behind].is_free) {
        pages += take_up(behind);
        is_clean = is_clean && table_[behind].is_clean;
    }
    const std::uint32_t before = table_[first].pages_before;
    if (before != 0 && table_[first - before].is_free) {
        first -= before;
        pages += take_up(first);
        is_clean = is_clean && table_[first].is_clean;
    }
    set(first, pages, true, is_clean);
    put_in_list(first);
}

bool Runs::resize(std::uint32_t first, std::uint32_t pages) noexcept {
    const std::uint32_t before = table_[first].pages;
    if (pages > before) {
        const std::uint32_t behind = first + before;
        if (behind >= table_.size() || !table_[behind].is_free || table_[behind].pages < pages - before) {
            return false;
        }
        set(first, before + take_up(behind), false, false);
        if (const std::uint32_t rest = split(first, pages); rest != kNone) {
            table_[rest].is_free = true;
            table_[rest].is_clean = table_[behind].is_clean;
            put_in_list(rest);
        }
        return true;
    }
    if (const std::uint32_t rest = split(first, pages); rest != kNone) {
        give_back(rest, false);
    }
    return true;
}

} // namespace sluice::layers::heap
