// SPDX-License-Identifier: BSD-3-Clause
//
// CRC-32 by carry-less multiplication. A register of 128 bits that lies D bits before the end of the
// message contributes as its two halves times x^(D+64) and x^D, modulo the polynomial. So four
// registers are carried D = 512 bits forward at a time, by one multiplication per half, and added to
// the data that is there; at the end they are folded onto each other, and the last 16 bytes, which
// have the CRC of everything before them, are reduced to it without tables: streaming data throws
// those out of the cache. Less than 16 bytes that are left then go through them.
//
// Reflected bits put one factor x into each product of two reflected numbers, hence the constants
// are x^(D+32) and x^(D-32), shifted left by one.
//
// Processors with AVX-512 do the same with registers of four times 128 bits: each quarter is a
// register of its own, and what lies at a distance of D bits is the same quarter of another one.
#if defined(__x86_64__)

#include "roce/wire/crc32_arch.hpp"

#include <immintrin.h>

#include <array>

#include "roce/wire/crc32.hpp"

namespace sluice::roce::wire {
namespace {

constexpr std::uint64_t carry(unsigned power) {
    return std::uint64_t{crc32_x_to(power)} << 1;
}

constexpr std::uint64_t kSixteenLow = carry(16 * 128 + 32), kSixteenHigh = carry(16 * 128 - 32);
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

inline __m128i pair(std::uint64_t high, std::uint64_t low) noexcept {
    return _mm_set_epi64x(static_cast<long long>(high), static_cast<long long>(low));
}

constexpr std::size_t kLaneBytes = 16;
constexpr std::size_t kBlockBytes = 4 * kLaneBytes;

// x^64 divided by the polynomial, as in school; 33 bits, reflected.
constexpr std::uint64_t quotient() {
    constexpr std::uint64_t kDivisor = 0x104c11db7;
    std::uint64_t result = 0;
    std::uint64_t rest = 0;
    for (unsigned power = 65; power-- > 0;) {
        rest = rest << 1 | (power == 64 ? 1 : 0);
        if ((rest >> 32) != 0) {
            rest ^= kDivisor;
            result |= std::uint64_t{1} << (32 - power);
        }
    }
    return result;
}

// The register after the 16 bytes of VALUE, from zero, without a table: 64 bits and then 32 are folded
// onto the rest; of what remains the multiple of the polynomial is taken off (Barrett).
[[gnu::target("pclmul,sse4.1")]] inline std::uint32_t reduce(__m128i value) noexcept {
    const __m128i low = _mm_set_epi32(0, 0, 0, -1);
    value = _mm_xor_si128(_mm_clmulepi64_si128(value, pair(0, kOneHigh), 0x00), _mm_srli_si128(value, 8));
    value = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(value, low), pair(0, carry(64)), 0x00),
                          _mm_srli_si128(value, 4));
    const __m128i divisor = pair(quotient(), std::uint64_t{kCrcPolynomial} << 1 | 1);
    __m128i multiple = _mm_clmulepi64_si128(_mm_and_si128(value, low), divisor, 0x10);
    multiple = _mm_clmulepi64_si128(_mm_and_si128(multiple, low), divisor, 0x00);
    return static_cast<std::uint32_t>(_mm_extract_epi32(_mm_xor_si128(value, multiple), 1));
}

// The end of both: what VALUE stands for, followed by the rest of the data.
[[gnu::target("pclmul,sse4.1")]] inline std::uint32_t finish(__m128i value, const std::uint8_t* data,
                                                             std::size_t len_bytes) noexcept {
    const __m128i one = pair(kOneHigh, kOneLow);
    for (; len_bytes >= kLaneBytes; data += kLaneBytes, len_bytes -= kLaneBytes) {
        value = fold(value, one, load(data));
    }
    return crc32_slicing(reduce(value), data, len_bytes);
}

// Four registers that follow each other, as one.
[[gnu::target("pclmul,sse4.1")]] inline __m128i fold_four(__m128i a, __m128i b, __m128i c,
                                                          __m128i d) noexcept {
    const __m128i one = pair(kOneHigh, kOneLow);
    return fold(fold(fold(a, one, b), one, c), one, d);
}

constexpr std::size_t kWideBlockBytes = 256;

[[gnu::target("avx512f,vpclmulqdq,pclmul,sse4.1")]] inline __m512i
load_wide(const std::uint8_t* from) noexcept {
    return _mm512_loadu_si512(from);
}

[[gnu::target("avx512f,vpclmulqdq,pclmul,sse4.1")]] inline __m512i four_times(std::uint64_t high,
                                                                              std::uint64_t low) noexcept {
    const auto upper = static_cast<long long>(high);
    const auto lower = static_cast<long long>(low);
    return _mm512_set4_epi64(upper, lower, upper, lower);
}

[[gnu::target("avx512f,vpclmulqdq,pclmul,sse4.1")]] inline __m512i fold_wide(__m512i value, __m512i constants,
                                                                             __m512i data) noexcept {
    constexpr int kXorOfThree = 0x96;
    return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(value, constants, 0x00),
                                     _mm512_clmulepi64_epi128(value, constants, 0x11), data, kXorOfThree);
}

} // namespace

bool crc32_vpclmul_usable() noexcept {
    return crc32_pclmul_usable() && __builtin_cpu_supports("avx512f") != 0 &&
           __builtin_cpu_supports("vpclmulqdq") != 0;
}

[[gnu::target("avx512f,vpclmulqdq,pclmul,sse4.1")]] std::uint32_t
crc32_vpclmul(std::uint32_t state, const std::uint8_t* data, std::size_t len_bytes) noexcept {
    if (len_bytes < kWideBlockBytes) {
        return crc32_pclmul(state, data, len_bytes);
    }
    const __m512i sixteen = four_times(kSixteenHigh, kSixteenLow);
    const __m512i four = four_times(kFourHigh, kFourLow);
    const __m512i start = _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(state)));
    __m512i a = _mm512_xor_si512(load_wide(data), start);
    __m512i b = load_wide(data + 64);
    __m512i c = load_wide(data + 128);
    __m512i d = load_wide(data + 192);
    data += kWideBlockBytes;
    len_bytes -= kWideBlockBytes;
    for (; len_bytes >= kWideBlockBytes; data += kWideBlockBytes, len_bytes -= kWideBlockBytes) {
        a = fold_wide(a, sixteen, load_wide(data));
        b = fold_wide(b, sixteen, load_wide(data + 64));
        c = fold_wide(c, sixteen, load_wide(data + 128));
        d = fold_wide(d, sixteen, load_wide(data + 192));
    }
    a = fold_wide(fold_wide(fold_wide(a, four, b), four, c), four, d);
    for (; len_bytes >= 64; data += 64, len_bytes -= 64) {
        a = fold_wide(a, four, load_wide(data));
    }
    std::array<std::uint8_t, 64> quarters{};
    _mm512_storeu_si512(quarters.data(), a);
    const __m128i folded = fold_four(load(quarters.data()), load(quarters.data() + 16),
                                     load(quarters.data() + 32), load(quarters.data() + 48));
    return finish(folded, data, len_bytes);
}

bool crc32_pclmul_usable() noexcept {
    return __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("sse4.1") != 0;
}

[[gnu::target("pclmul,sse4.1")]] std::uint32_t crc32_pclmul(std::uint32_t state, const std::uint8_t* data,
                                                            std::size_t len_bytes) noexcept {
    if (len_bytes < kLaneBytes) {
        return crc32_slicing(state, data, len_bytes);
    }
    __m128i a = _mm_xor_si128(load(data), _mm_cvtsi32_si128(static_cast<int>(state)));
    if (len_bytes < kBlockBytes) {
        return finish(a, data + kLaneBytes, len_bytes - kLaneBytes);
    }
    const __m128i four = pair(kFourHigh, kFourLow);
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
    return finish(fold_four(a, b, c, d), data, len_bytes);
}

} // namespace sluice::roce::wire

#endif
