// SPDX-License-Identifier: BSD-3-Clause
//
// The bytes that the two sides give each other. All of them are somebody else's until they are looked
// through here. Pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sluice::rpma {

// A region: address, length, key and usage, little-endian and without gaps, as since the first librpma.
struct RegionDescriptor {
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    std::uint32_t key = 0;
    std::uint8_t usage = 0; // RPMA_MR_USAGE_*
};
constexpr std::size_t kRegionDescriptorBytes = 21;

std::array<std::byte, kRegionDescriptorBytes> to_bytes(const RegionDescriptor& region) noexcept;
// Nothing for too few bytes, and for what no registration gives: no usage, no length, or an end beyond the
// address space. Bytes that follow aren't looked at.
std::optional<RegionDescriptor> region_from(std::span<const std::byte> bytes) noexcept;

// A peer configuration: whether a peer's writes go to persistent memory.
constexpr std::size_t kConfigDescriptorBytes = 1;
std::byte to_byte(bool direct_write_to_pmem) noexcept;
bool direct_write_from(std::byte byte) noexcept;

// What a side does natively for its peer's requests. Told at the end of the private data that
// connecting and accepting carry: the fabric's messages are longer than what programs put in, and the rest is
// zero and looked at by nobody. A peer that doesn't know of it tells nothing.
enum Feature : std::uint8_t {
    kNoFeature = 0,
    kAtomicWrite = 1 << 0,
    kFlushVisibility = 1 << 1,
    kFlushPersistent = 1 << 2,
};
using Features = std::uint8_t;
constexpr std::size_t kOfferBytes = 4;

// The program's bytes, and at the end of all CAPACITY bytes the offer; without one where there is nothing to
// offer or no room.
std::vector<std::byte> with_offer(std::span<const std::byte> from_program, std::size_t capacity,
                                  Features offer);
// What the peer offers. Its bytes become zero: they are none of the program's.
Features take_offer(std::span<std::byte> private_data) noexcept;

} // namespace sluice::rpma
