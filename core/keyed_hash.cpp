// SPDX-License-Identifier: BSD-3-Clause
#include "core/keyed_hash.hpp"

#include <array>
#include <bit>

namespace sluice {
namespace {

constexpr int kRounds = 12;

struct SipState {
    std::uint64_t v0, v1, v2, v3;

    void rounds(int count) noexcept {
        for (int i = 0; i < count; ++i) {
            v0 += v1;
            v1 = std::rotl(v1, 13) ^ v0;
            v0 = std::rotl(v0, 32);
            v2 += v3;
            v3 = std::rotl(v3, 16) ^ v2;
            v0 += v3;
            v3 = std::rotl(v3, 21) ^ v0;
            v2 += v1;
            v1 = std::rotl(v1, 17) ^ v2;
            v2 = std::rotl(v2, 32);
        }
    }
    void compress(std::uint64_t word) noexcept {
        v3 ^= word;
        rounds(2);
        v0 ^= word;
    }
};

constexpr std::uint32_t lowest(int bits) noexcept {
    return (std::uint32_t{1} << bits) - 1;
}

} // namespace

KeyedHash::KeyedHash(const RandomKey& key) noexcept
    : KeyedHash(key.words[0] | std::uint64_t{key.words[1]} << 32,
                key.words[2] | std::uint64_t{key.words[3]} << 32) {}

std::uint64_t KeyedHash::operator()(std::span<const std::uint64_t> words) const noexcept {
    SipState s{key_[0] ^ 0x736f6d6570736575, key_[1] ^ 0x646f72616e646f6d, key_[0] ^ 0x6c7967656e657261,
               key_[1] ^ 0x7465646279746573};
    for (const std::uint64_t word : words) {
        s.compress(word);
    }
    s.compress(std::uint64_t{words.size_bytes() & 0xff} << 56);
    s.v2 ^= 0xff;
    s.rounds(4);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

// Each round can be undone, since the half that it hashes stays.
std::uint32_t KeyedPermutation::operator()(std::uint32_t which, std::uint32_t number) const noexcept {
    std::uint32_t left = number >> right_bits_ & lowest(left_bits_);
    std::uint32_t right = number & lowest(right_bits_);
    for (std::uint32_t round = 0; round < kRounds; round += 2) {
        left ^= static_cast<std::uint32_t>(
                    hash_(std::array{std::uint64_t{which} << 32 | round, std::uint64_t{right}})) &
                lowest(left_bits_);
        right ^= static_cast<std::uint32_t>(
                     hash_(std::array{std::uint64_t{which} << 32 | (round + 1), std::uint64_t{left}})) &
                 lowest(right_bits_);
    }
    return left << right_bits_ | right;
}

} // namespace sluice
