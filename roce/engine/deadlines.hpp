// SPDX-License-Identifier: BSD-3-Clause
//
// Which of a fixed number of things is due next: a binary heap that knows where each is in it, so
// that a deadline can be moved or dropped. Memory is taken once. Not thread safe.
#pragma once

#include <utility>
#include <vector>

#include "roce/engine/types.hpp"

namespace sluice::roce::engine {

class Deadlines {
  public:
    // For indices below CAPACITY.
    explicit Deadlines(std::size_t capacity) : places_(capacity, kNowhere) { heap_.reserve(capacity); }

    Nanoseconds next() const noexcept { return heap_.empty() ? kNever : heap_.front().when; }
    // The index that it belongs to; there is one.
    std::uint32_t next_index() const noexcept { return heap_.front().index; }

    // kNever takes INDEX out.
    void set(std::uint32_t index, Nanoseconds when) noexcept {
        const std::uint32_t at = places_[index];
        if (when == kNever) {
            remove(index);
        } else if (at == kNowhere) {
            heap_.push_back({when, index}); // within what was reserved
            places_[index] = static_cast<std::uint32_t>(heap_.size() - 1);
            sift(heap_.size() - 1);
        } else if (heap_[at].when != when) {
            heap_[at].when = when;
            sift(at);
        }
    }

  private:
    static constexpr std::uint32_t kNowhere = ~std::uint32_t{0};
    struct Entry {
        Nanoseconds when;
        std::uint32_t index;
    };

    void remove(std::uint32_t index) noexcept {
        const std::uint32_t at = std::exchange(places_[index], kNowhere);
        if (at == kNowhere) {
            return;
        }
        const Entry last = heap_.back();
        heap_.pop_back();
        if (at < heap_.size()) {
            place(at, last);
            sift(at);
        }
    }

    void place(std::size_t at, const Entry& entry) noexcept {
        heap_[at] = entry;
        places_[entry.index] = static_cast<std::uint32_t>(at);
    }

    // Up, then down, until the heap holds again around AT.
    void sift(std::size_t at) noexcept {
        const auto exchange = [this](std::size_t a, std::size_t b) {
            const Entry was = heap_[a];
            place(a, heap_[b]);
            place(b, was);
        };
        for (; at > 0 && heap_[at].when < heap_[(at - 1) / 2].when; at = (at - 1) / 2) {
            exchange(at, (at - 1) / 2);
        }
        for (;;) {
            std::size_t least = at;
            for (std::size_t child = 2 * at + 1; child <= 2 * at + 2 && child < heap_.size(); ++child) {
                least = heap_[child].when < heap_[least].when ? child : least;
            }
            if (least == at) {
                return;
            }
            exchange(at, least);
            at = least;
        }
    }

    std::vector<Entry> heap_;
    std::vector<std::uint32_t> places_; // of each index in heap_
};

} // namespace sluice::roce::engine
