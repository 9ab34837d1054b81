// SPDX-License-Identifier: BSD-3-Clause
//
// CRC-32 by carry-less multiplication. A register of 128 bits that lies D bits before the end of the
// message contributes as its two halves times x^(D+64) and x^D, modulo the polynomial. So four
// registers are carried D = 512 bits forward at a time, by one multiplication per half, and added to
// the data that is there; at the end they are folded onto each other, and the last 16 bytes, which
// have the CRC of everything before them, go through the tables with whatever is left.
//
// Reflected bits put one factor x into each product of two reflected numbers, hence the constants
// are x^(D+32) and x^(D-32), shifted left by one.
#if defined(__x86_64__)

#include "provider/uroce/wire/crc32_arch.hpp"

#include <immintrin.h>

#include <array>

#include "provider/uroce/wire/crc32.hpp"

namespace sluice::uroce::wire {
namespace {

constexpr std::uint64_t carry(unsigned power) {
    return std::uint64_t{crc32_x_to(power)} << 1;
}

constexpr std::uint64_t kFourLow = carry(4 * 128 + 32), kFourHigh = carry(4 * 128 - 32);
constexpr std::uint64_t kOneLow = carry(128 + 32), kOneHigh = carry(128 - 32);

[[gnu::target("pclmul,sse4.1")]] inline __m128i fold(__m128i value, __m128i constants,
                                                     __m128i data) noexcept {
    const __m128i low = _mm_clmulepi64_si128(value, constants, 0x00);
    const __m128i high = _mm_clmulepi64_si128(value, constants, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), data);
}

inline __m128i load(const std::uint8_t* from) noexcept {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

constexpr std::size_t kBlockBytes = 64;

} // namespace

bool crc32_pclmul_usable() noexcept {
    return __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("sse4.1") != 0;
}

[[gnu::target("pclmul,sse4.1")]] std::uint32_t crc32_pclmul(std::uint32_t state, const std::uint8_t* data,
                                                            std::size_t len_bytes) noexcept {
    if (len_bytes < kBlockBytes) {
        return crc32_slicing(state, data, len_bytes);
    }
    const __m128i four = _mm_set_epi64x(static_cast<long long>(kFourHigh), static_cast<long long>(kFourLow));
    const __m128i one = _mm_set_epi64x(static_cast<long long>(kOneHigh), static_cast<long long>(kOneLow));
    __m128i a = _mm_xor_si128(load(data), _mm_cvtsi32_si128(static_cast<int>(state)));
    __m128i b = load(data + 16);
    __m128i c = load(data + 32);
    __m128i d = load(data + 48);
    data += kBlockBytes;
    len_bytes -= kBlockBytes;
    for (; len_bytes >= kBlockBytes; data += kBlockBytes, len_bytes -= kBlockBytes) {
        a = fold(a, four, load(data));
        b = fold(b, four, load(data + 16));
        c = fold(c, four, load(data + 32));
        d = fold(d, four, load(data + 48));
    }
    a = fold(fold(fold(a, one, b), one, c), one, d);
    for (; len_bytes >= 16; data += 16, len_bytes -= 16) {
        a = fold(a, one, load(data));
    }
    std::array<std::uint8_t, 16> folded{};
    _mm_storeu_si128(reinterpret_cast<__m128i*>(folded.data()), a);
    return crc32_slicing(crc32_slicing(0, folded.data(), folded.size()), data, len_bytes);
}

} // namespace sluice::uroce::wire

#endif
