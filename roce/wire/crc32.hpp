// SPDX-License-Identifier: BSD-3-Clause
//
// CRC-32 as Ethernet and the ICRC use it: polynomial 0x04c11db7, bits reflected. The state is the
// bare register: start with ~0 and invert at the end yourself, or start with 0 where linearity
// matters.
//
// crc32_update() uses the fastest way that this processor has, found at the first call: carry-less
// multiplication on x86-64 (with AVX-512 in wide registers), the CRC instructions on arm64, eight bytes per
// step by tables everywhere. All are listed by crc32_implementations(), so that tests can compare them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "roce/wire/bytes.hpp"

namespace sluice::roce::wire {

inline constexpr std::uint32_t kCrcPolynomial = 0xedb88320;

using Crc32Update = std::uint32_t (*)(std::uint32_t state, const std::uint8_t* data,
                                      std::size_t len_bytes) noexcept;

std::uint32_t crc32_update(std::uint32_t state, ConstBytes data) noexcept;

// Portable, and what the others finish with.
std::uint32_t crc32_slicing(std::uint32_t state, const std::uint8_t* data, std::size_t len_bytes) noexcept;

struct Crc32Implementation {
    const char* name;
    Crc32Update update;
    bool (*usable)() noexcept; // may this processor run it?
};

// Fastest first, the portable one last. Only what was built for this architecture is listed.
std::span<const Crc32Implementation> crc32_implementations() noexcept;

// Polynomials modulo the CRC's, reflected: bit 31 is x^0.
constexpr std::uint32_t crc32_times_x(std::uint32_t a) noexcept {
    return (a >> 1) ^ ((a & 1) != 0 ? kCrcPolynomial : 0);
}
constexpr std::uint32_t crc32_over_x(std::uint32_t a) noexcept {
    return (a & 0x80000000) != 0 ? ((a ^ kCrcPolynomial) << 1 | 1) : a << 1;
}
constexpr std::uint32_t crc32_multiply(std::uint32_t a, std::uint32_t b) noexcept {
    std::uint32_t product = 0;
    for (int bit = 31; bit >= 0; --bit) {
        product ^= b & -(a >> bit & 1);
        b = (b >> 1) ^ (kCrcPolynomial & -(b & 1));
    }
    return product;
}
constexpr std::uint32_t crc32_x_to(unsigned power) noexcept {
    std::uint32_t a = 0x80000000;
    for (unsigned i = 0; i < power; ++i) {
        a = crc32_times_x(a);
    }
    return a;
}

} // namespace sluice::roce::wire
