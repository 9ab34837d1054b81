// SPDX-License-Identifier: BSD-3-Clause
//
// Bit fields in network byte order, described once and used in both directions.
//
// Each header is a struct with its size, kBytes, and one function that lists its fields:
//
//     struct Aeth {
//         static constexpr std::size_t kBytes = 4;
//         std::uint8_t syndrome = 0;
//         std::uint32_t msn = 0;
//         template<typename Io, typename Self>
//         static constexpr void layout(Io& io, Self& h) {
//             io.template field<0, 8>(h.syndrome);
//             io.template field<8, 24>(h.msn);
//         }
//     };
//
// Bit 0 is the most significant bit of the first byte, as the standard draws it. Offsets and
// widths are constants, so that a field inside its header is checked by the compiler and costs a
// load and a shift. Because one list serves encode() and decode(), they can't disagree.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace sluice::roce::wire {

using ConstBytes = std::span<const std::uint8_t>;
using MutableBytes = std::span<std::uint8_t>;

template<std::size_t kSize>
class FieldReader {
  public:
    explicit constexpr FieldReader(std::span<const std::uint8_t, kSize> bytes) noexcept : bytes_(bytes) {}

    template<std::size_t kOffset, std::size_t kWidth, typename T>
    constexpr void field(T& value) noexcept {
        static_assert(kWidth >= 1 && kWidth <= 64 && kOffset + kWidth <= kSize * 8);
        constexpr std::size_t kFirst = kOffset / 8;
        constexpr std::size_t kLast = (kOffset + kWidth - 1) / 8;
        static_assert(kLast - kFirst < 8, "a field spans at most eight bytes");
        std::uint64_t raw = 0;
        for (std::size_t i = kFirst; i <= kLast; ++i) {
            raw = raw << 8 | bytes_[i];
        }
        raw >>= (kLast + 1) * 8 - kOffset - kWidth;
        if constexpr (kWidth < 64) {
            raw &= (std::uint64_t{1} << kWidth) - 1;
        }
        value = static_cast<T>(raw);
    }

    template<std::size_t kOffsetBytes, std::size_t kCount>
    constexpr void bytes(std::array<std::uint8_t, kCount>& value) noexcept {
        static_assert(kOffsetBytes + kCount <= kSize);
        for (std::size_t i = 0; i < kCount; ++i) {
            value[i] = bytes_[kOffsetBytes + i];
        }
    }

  private:
    std::span<const std::uint8_t, kSize> bytes_;
};

template<std::size_t kSize>
class FieldWriter {
  public:
    explicit constexpr FieldWriter(std::span<std::uint8_t, kSize> bytes) noexcept : bytes_(bytes) {}

    // Bits beyond the field's width are cut off: a neighbour is never touched.
    template<std::size_t kOffset, std::size_t kWidth, typename T>
    constexpr void field(const T& value) noexcept {
        static_assert(kWidth >= 1 && kWidth <= 64 && kOffset + kWidth <= kSize * 8);
        constexpr std::size_t kFirst = kOffset / 8;
        constexpr std::size_t kLast = (kOffset + kWidth - 1) / 8;
        static_assert(kLast - kFirst < 8, "a field spans at most eight bytes");
        constexpr std::size_t kShift = (kLast + 1) * 8 - kOffset - kWidth;
        std::uint64_t raw = static_cast<std::uint64_t>(value);
        if constexpr (kWidth < 64) {
            raw &= (std::uint64_t{1} << kWidth) - 1;
        }
        raw <<= kShift;
        for (std::size_t i = kLast + 1; i-- > kFirst;) {
            bytes_[i] = static_cast<std::uint8_t>(bytes_[i] | (raw & 0xff));
            raw >>= 8;
        }
    }

    template<std::size_t kOffsetBytes, std::size_t kCount>
    constexpr void bytes(const std::array<std::uint8_t, kCount>& value) noexcept {
        static_assert(kOffsetBytes + kCount <= kSize);
        for (std::size_t i = 0; i < kCount; ++i) {
            bytes_[kOffsetBytes + i] = value[i];
        }
    }

  private:
    std::span<std::uint8_t, kSize> bytes_;
};

template<typename Header>
constexpr Header decode(std::span<const std::uint8_t, Header::kBytes> bytes) noexcept {
    Header header;
    FieldReader<Header::kBytes> reader(bytes);
    Header::layout(reader, header);
    return header;
}

// Reserved bits that the struct doesn't name are written as zero.
template<typename Header>
constexpr void encode(const Header& header, std::span<std::uint8_t, Header::kBytes> out) noexcept {
    for (std::uint8_t& byte : out) {
        byte = 0;
    }
    FieldWriter<Header::kBytes> writer(out);
    Header::layout(writer, header);
}

template<typename Header>
constexpr std::array<std::uint8_t, Header::kBytes> encoded(const Header& header) noexcept {
    std::array<std::uint8_t, Header::kBytes> out{};
    encode(header, std::span<std::uint8_t, Header::kBytes>(out));
    return out;
}

} // namespace sluice::roce::wire
