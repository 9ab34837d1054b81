// SPDX-License-Identifier: BSD-3-Clause
//
// The numbers of one address are shared by the processes that have it open: each number belongs to one of
// kShares, by a mix with four secret words. A process draws numbers until one falls on its own share, so no
// two processes have the same number, and a stranger learns nothing about a number from who has it.
//
// The mix uses what a classic BPF program can do, too: steering.cpp has the same one for the kernel. Change
// both or none.
#pragma once

#include <array>
#include <cstdint>

namespace sluice::roce::engine {

class Share {
  public:
    static constexpr int kBits = 6;
    static constexpr std::uint32_t kShares = 1U << kBits;
    using Words = std::array<std::uint32_t, 4>;

    // All numbers: of a process that has its address for itself.
    constexpr Share() noexcept = default;
    // Share WHICH, less than kShares, of those that WORDS make.
    constexpr Share(const Words& words, std::uint32_t which) noexcept : words_(words), which_(which) {}

    constexpr bool is_all() const noexcept { return which_ == kAll; }
    constexpr const Words& words() const noexcept { return words_; }
    constexpr std::uint32_t which() const noexcept { return which_; }
    constexpr bool owns(std::uint32_t number) const noexcept {
        return is_all() || share_of(words_, number) == which_;
    }
    constexpr std::uint32_t owner_of(std::uint32_t number) const noexcept {
        return is_all() ? which_ : share_of(words_, number);
    }

    static constexpr std::uint32_t share_of(const Words& words, std::uint32_t number) noexcept {
        std::uint32_t mixed = (number ^ words[0]) * (words[1] | 1);
        mixed = (mixed ^ mixed >> kFirstShift) * (words[2] | 1);
        mixed = (mixed ^ mixed >> kSecondShift) * (words[3] | 1);
        return mixed >> (32 - kBits);
    }
    static constexpr int kFirstShift = 15, kSecondShift = 13;

  private:
    static constexpr std::uint32_t kAll = kShares;

    Words words_{};
    std::uint32_t which_ = kAll;
};

} // namespace sluice::roce::engine
