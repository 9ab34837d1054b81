// SPDX-License-Identifier: BSD-3-Clause
//
// Numbers that a stranger must not guess: queue pair numbers, keys of memory, sequence numbers, ids.
//
// A stream is ChaCha20 (RFC 8439). Each block replaces the stream's key, and a number is erased when it is
// given out: so neither the numbers nor the memory of a process give away earlier ones. Every purpose has a
// stream of its own, derived from one key of the system's.
//
// Not thread safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/result.hpp"

namespace sluice {

using ChachaNonce = std::array<std::uint32_t, 3>;
using ChachaBlock = std::array<std::uint32_t, 16>;

struct RandomKey {
    std::array<std::uint32_t, 8> words{};

    static Result<RandomKey> from_system();
    // Always the same for the same number: for a simulation that can be repeated.
    static RandomKey repeatable(std::uint64_t number) noexcept;

    // The key of another stream: that stream tells nothing about this key.
    template<std::size_t kLength>
    RandomKey derive(const char (&purpose)[kLength]) const noexcept;
};

// RFC 8439, 2.3.
ChachaBlock chacha20(const RandomKey& key, std::uint32_t counter, const ChachaNonce& nonce) noexcept;

class RandomStream {
  public:
    explicit RandomStream(const RandomKey& key) noexcept : key_(key) {}

    std::uint32_t draw() noexcept {
        if (left_ == 0) {
            refill();
        }
        return std::exchange(ready_[--left_], 0);
    }
    std::uint64_t draw_64() noexcept {
        const std::uint64_t upper = draw();
        return upper << 32 | draw();
    }
    // One of 0 to COUNT - 1, each as likely; COUNT isn't 0.
    std::uint32_t draw_below(std::uint32_t count) noexcept;

  private:
    void refill() noexcept;

    RandomKey key_;
    std::array<std::uint32_t, 8> ready_{};
    std::uint32_t left_ = 0;
};

template<std::size_t kLength>
RandomKey RandomKey::derive(const char (&purpose)[kLength]) const noexcept {
    static_assert(kLength - 1 <= sizeof(ChachaNonce), "a purpose has at most twelve letters");
    ChachaNonce nonce{};
    for (std::size_t i = 0; i + 1 < kLength; ++i) {
        nonce[i / 4] |= std::uint32_t{static_cast<unsigned char>(purpose[i])} << (8 * (i % 4));
    }
    const ChachaBlock block = chacha20(*this, 0, nonce);
    RandomKey derived;
    for (std::size_t i = 0; i < derived.words.size(); ++i) {
        derived.words[i] = block[i];
    }
    return derived;
}

} // namespace sluice
