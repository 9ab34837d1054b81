// SPDX-License-Identifier: BSD-3-Clause
#include "roce/wire/crc32.hpp"

#include <array>
#include <atomic>

#include "roce/wire/crc32_arch.hpp"

namespace sluice::roce::wire {
namespace {

// kTables[k][b]: the register after byte b and k zero bytes.
using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables make_tables() {
    Tables tables{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        std::uint32_t crc = byte;
        for (int bit = 0; bit < 8; ++bit) {
            crc = crc32_times_x(crc);
        }
        tables[0][byte] = crc;
    }
    for (std::size_t k = 1; k < tables.size(); ++k) {
        for (std::size_t byte = 0; byte < 256; ++byte) {
            const std::uint32_t before = tables[k - 1][byte];
            tables[k][byte] = before >> 8 ^ tables[0][before & 0xff];
        }
    }
    return tables;
}

constexpr Tables kTables = make_tables();

constexpr std::uint32_t load_le32(const std::uint8_t* from) noexcept {
    return std::uint32_t{from[0]} | std::uint32_t{from[1]} << 8 | std::uint32_t{from[2]} << 16 |
           std::uint32_t{from[3]} << 24;
}

bool always() noexcept {
    return true;
}

constexpr Crc32Implementation kImplementations[] = {
#if defined(__x86_64__)
    {"vpclmul", crc32_vpclmul, crc32_vpclmul_usable},
    {"pclmul", crc32_pclmul, crc32_pclmul_usable},
#elif defined(__aarch64__)
    {"arm64-crc", crc32_arm64, crc32_arm64_usable},
#endif
    {"slicing", crc32_slicing, always},
};

std::uint32_t choose(std::uint32_t state, const std::uint8_t* data, std::size_t len_bytes) noexcept;

// Begins as choose(), which puts the best one here. Threads that race store the same value, and
// nothing else is published by it.
std::atomic<Crc32Update> best_update{choose};

std::uint32_t choose(std::uint32_t state, const std::uint8_t* data, std::size_t len_bytes) noexcept {
    for (const Crc32Implementation& candidate : kImplementations) {
        if (candidate.usable()) {
            best_update.store(candidate.update, std::memory_order_relaxed);
            return candidate.update(state, data, len_bytes);
        }
    }
    return crc32_slicing(state, data, len_bytes);
}

} // namespace

std::uint32_t crc32_slicing(std::uint32_t state, const std::uint8_t* data, std::size_t len_bytes) noexcept {
    for (; len_bytes >= 8; data += 8, len_bytes -= 8) {
        const std::uint32_t low = load_le32(data) ^ state;
        const std::uint32_t high = load_le32(data + 4);
        state = kTables[7][low & 0xff] ^ kTables[6][low >> 8 & 0xff] ^ kTables[5][low >> 16 & 0xff] ^
                kTables[4][low >> 24] ^ kTables[3][high & 0xff] ^ kTables[2][high >> 8 & 0xff] ^
                kTables[1][high >> 16 & 0xff] ^ kTables[0][high >> 24];
    }
    for (; len_bytes >= 4; data += 4, len_bytes -= 4) {
        state ^= load_le32(data);
        state = kTables[3][state & 0xff] ^ kTables[2][state >> 8 & 0xff] ^ kTables[1][state >> 16 & 0xff] ^
                kTables[0][state >> 24];
    }
    for (; len_bytes != 0; ++data, --len_bytes) {
        state = state >> 8 ^ kTables[0][(state ^ *data) & 0xff];
    }
    return state;
}

std::uint32_t crc32_update(std::uint32_t state, ConstBytes data) noexcept {
    return best_update.load(std::memory_order_relaxed)(state, data.data(), data.size());
}

std::span<const Crc32Implementation> crc32_implementations() noexcept {
    return kImplementations;
}

} // namespace sluice::roce::wire
