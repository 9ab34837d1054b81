// SPDX-License-Identifier: BSD-3-Clause
//
// A queue of fixed capacity whose memory is taken once. Full and empty are answers, not errors.
// Not thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace sluice::roce::engine {

template<typename T>
class Ring {
  public:
    explicit Ring(std::uint32_t capacity) : items_(std::make_unique<T[]>(capacity)), capacity_(capacity) {}

    std::uint32_t capacity() const noexcept { return capacity_; }
    std::uint32_t size() const noexcept { return size_; }
    bool empty() const noexcept { return size_ == 0; }
    bool full() const noexcept { return size_ == capacity_; }

    // Position 0 is the oldest. The caller knows that it is there.
    T& operator[](std::uint32_t position) noexcept { return items_[index(position)]; }
    T& front() noexcept { return (*this)[0]; }
    const T& front() const noexcept { return items_[index(0)]; }
    T& back() noexcept { return (*this)[size_ - 1]; }

    // The new last item, still with the value that its place had before; the ring isn't full.
    T& grow() noexcept {
        ++size_;
        return back();
    }
    void pop_front() noexcept {
        first_ = index(1);
        --size_;
    }
    void clear() noexcept { size_ = 0; }

  private:
    std::uint32_t index(std::uint32_t position) const noexcept {
        const std::uint32_t at = first_ + position;
        return at < capacity_ ? at : at - capacity_;
    }

    std::unique_ptr<T[]> items_;
    std::uint32_t capacity_;
    std::uint32_t first_ = 0;
    std::uint32_t size_ = 0;
};

} // namespace sluice::roce::engine
