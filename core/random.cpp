// SPDX-License-Identifier: BSD-3-Clause
#include "core/random.hpp"

#include <sys/random.h>

#include <algorithm>
#include <bit>
#include <cerrno>

namespace sluice {
namespace {

constexpr int kDoubleRounds = 10;

constexpr void quarter_round(std::uint32_t& a, std::uint32_t& b, std::uint32_t& c,
                             std::uint32_t& d) noexcept {
    a += b;
    d = std::rotl(d ^ a, 16);
    c += d;
    b = std::rotl(b ^ c, 12);
    a += b;
    d = std::rotl(d ^ a, 8);
    c += d;
    b = std::rotl(b ^ c, 7);
}

} // namespace

ChachaBlock chacha20(const RandomKey& key, std::uint32_t counter, const ChachaNonce& nonce) noexcept {
    ChachaBlock initial{0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
    std::copy(key.words.begin(), key.words.end(), initial.begin() + 4);
    initial[12] = counter;
    std::copy(nonce.begin(), nonce.end(), initial.begin() + 13);
    ChachaBlock s = initial;
    for (int i = 0; i < kDoubleRounds; ++i) {
        quarter_round(s[0], s[4], s[8], s[12]);
        quarter_round(s[1], s[5], s[9], s[13]);
        quarter_round(s[2], s[6], s[10], s[14]);
        quarter_round(s[3], s[7], s[11], s[15]);
        quarter_round(s[0], s[5], s[10], s[15]);
        quarter_round(s[1], s[6], s[11], s[12]);
        quarter_round(s[2], s[7], s[8], s[13]);
        quarter_round(s[3], s[4], s[9], s[14]);
    }
    for (std::size_t i = 0; i < s.size(); ++i) {
        s[i] += initial[i];
    }
    return s;
}

Result<RandomKey> RandomKey::from_system() {
    RandomKey key;
    // As many bytes at a time arrive whole, whatever signals do.
    if (getrandom(key.words.data(), sizeof key.words, 0) != static_cast<ssize_t>(sizeof key.words)) {
        return Error::from_errno(errno, "the system has no random numbers for keys and queue pair numbers");
    }
    return key;
}

RandomKey RandomKey::repeatable(std::uint64_t number) noexcept {
    return RandomKey{{static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32)}}.derive(
        "repeatable");
}

// Half of a block is the next key, the other half is given out.
void RandomStream::refill() noexcept {
    const ChachaBlock block = chacha20(key_, 0, {});
    std::copy(block.begin(), block.begin() + 8, key_.words.begin());
    std::copy(block.begin() + 8, block.end(), ready_.begin());
    left_ = static_cast<std::uint32_t>(ready_.size());
}

// The upper half of a product falls on each number equally often once the few smallest lower halves are left
// out.
std::uint32_t RandomStream::draw_below(std::uint32_t count) noexcept {
    const std::uint32_t left_out = -count % count;
    std::uint64_t product = 0;
    do {
        product = std::uint64_t{draw()} * count;
    } while (static_cast<std::uint32_t>(product) < left_out);
    return static_cast<std::uint32_t>(product >> 32);
}

} // namespace sluice
