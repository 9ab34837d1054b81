// SPDX-License-Identifier: BSD-3-Clause
//
// Hashes and permutations that only the key predicts.
#pragma once

#include <cstdint>
#include <span>

#include "core/random.hpp"

namespace sluice {

// SipHash-2-4 of 64-bit words.
class KeyedHash {
  public:
    explicit KeyedHash(const RandomKey& key) noexcept;
    KeyedHash(std::uint64_t lower, std::uint64_t upper) noexcept : key_{lower, upper} {}

    std::uint64_t operator()(std::span<const std::uint64_t> words) const noexcept;

  private:
    std::uint64_t key_[2];
};

// Permutations of all numbers of so many bits, 2 to 32: each is a Feistel network of keyed hashes.
class KeyedPermutation {
  public:
    KeyedPermutation(const RandomKey& key, int bits) noexcept
        : hash_(key), right_bits_(bits / 2), left_bits_(bits - bits / 2) {}

    // What NUMBER becomes in the permutation with the number WHICH.
    std::uint32_t operator()(std::uint32_t which, std::uint32_t number) const noexcept;

  private:
    KeyedHash hash_;
    int right_bits_;
    int left_bits_;
};

} // namespace sluice
