// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/checksum.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>

#include "core/own_memory.hpp"
#include "layers/check/pages/page_table.hpp"

namespace sluice::layers::check {

namespace {

constexpr std::uint64_t kPrime = 0x9e3779b97f4a7c15U;

// Four lanes, so that they run side by side.
class Checksum {
  public:
    void add(const std::byte* bytes, std::size_t count) noexcept {
        for (; count >= sizeof lanes_; bytes += sizeof lanes_, count -= sizeof lanes_) {
            std::array<std::uint64_t, 4> words;
            std::memcpy(words.data(), bytes, sizeof words);
            for (std::size_t i = 0; i < words.size(); ++i) {
                lanes_[i] = (lanes_[i] ^ words[i]) * kPrime;
            }
        }
        for (; count != 0; ++bytes, --count) {
            lanes_[0] = (lanes_[0] ^ std::to_integer<std::uint64_t>(*bytes)) * kPrime;
        }
        mix();
    }

    // One after the other: words that are exchanged between two lanes would leave an XOR of the lanes as it
    // was.
    std::uint64_t value() const noexcept {
        std::uint64_t value = 0;
        for (const std::uint64_t lane : lanes_) {
            value = (value ^ lane) * kPrime;
            value ^= value >> 32U;
        }
        return value;
    }

  private:
    // A multiplication moves nothing down to the low bits.
    void mix() noexcept {
        for (std::uint64_t& lane : lanes_) {
            lane ^= lane >> 32U;
        }
    }

    std::array<std::uint64_t, 4> lanes_ = {1, 2, 3, 4};
};

// By the kernel, as pages may be gone, or be forbidden by now. False: they are.
bool add_memory(Checksum& checksum, std::uint64_t address, std::size_t length) noexcept {
    std::array<std::byte, 16384> copy;
    while (length != 0) {
        const std::size_t part = std::min(length, copy.size());
        if (copy_own_memory(address, std::span(copy).first(part)) != part) {
            return false;
        }
        checksum.add(copy.data(), part);
        address += part;
        length -= part;
    }
    return true;
}

bool add_piece(Checksum& checksum, const Piece& piece) noexcept {
    if (!piece.is_protected) {
        return add_memory(checksum, piece.address, piece.length);
    }
    const std::uint64_t page = pages::page_bytes();
    const std::uint64_t end = piece.address + piece.length;
    const std::uint64_t first_whole = piece.address + (page - piece.address % page) % page;
    return add_memory(checksum, piece.address, first_whole - piece.address) &&
           add_memory(checksum, end - end % page, end % page);
}

} // namespace

std::optional<std::uint64_t> checksum_of(const Request& request) noexcept {
    Checksum checksum;
    for (const Piece& piece : request.watched()) {
        if (!add_piece(checksum, piece)) {
            return std::nullopt;
        }
    }
    return checksum.value();
}

} // namespace sluice::layers::check
