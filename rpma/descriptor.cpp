// SPDX-License-Identifier: BSD-3-Clause
#include "rpma/descriptor.hpp"

#include <algorithm>

#include "rpma/little_endian.hpp"

namespace sluice::rpma {

namespace {

constexpr std::size_t kLengthAt = 8;
constexpr std::size_t kKeyAt = 16;
constexpr std::size_t kUsageAt = 20;

// An offer: a mark, its features, and these once more the other way round, so that no program's data that
// happens to end there is taken for one.
constexpr std::byte kMark0{'s'};
constexpr std::byte kMark1{'L'};
constexpr std::byte kAllFeatures{kAtomicWrite | kFlushVisibility | kFlushPersistent};

} // namespace

std::array<std::byte, kRegionDescriptorBytes> to_bytes(const RegionDescriptor& region) noexcept {
    std::array<std::byte, kRegionDescriptorBytes> bytes{};
    put_little_endian(region.address, bytes.data());
    put_little_endian(region.length, bytes.data() + kLengthAt);
    put_little_endian(region.key, bytes.data() + kKeyAt);
    bytes[kUsageAt] = std::byte{region.usage};
    return bytes;
}

std::optional<RegionDescriptor> region_from(std::span<const std::byte> bytes) noexcept {
    if (bytes.size() < kRegionDescriptorBytes) {
        return std::nullopt;
    }
    const RegionDescriptor region{.address = get_little_endian<std::uint64_t>(bytes.data()),
                                  .length = get_little_endian<std::uint64_t>(bytes.data() + kLengthAt),
                                  .key = get_little_endian<std::uint32_t>(bytes.data() + kKeyAt),
                                  .usage = std::to_integer<std::uint8_t>(bytes[kUsageAt])};
    if (region.usage == 0 || region.length == 0 || region.length - 1 > UINT64_MAX - region.address) {
        return std::nullopt;
    }
    return region;
}

std::byte to_byte(bool direct_write_to_pmem) noexcept {
    return std::byte{direct_write_to_pmem};
}

bool direct_write_from(std::byte byte) noexcept {
    return byte != std::byte{0};
}

std::vector<std::byte> with_offer(std::span<const std::byte> from_program, std::size_t capacity,
                                  Features offer) {
    std::vector<std::byte> data(from_program.begin(), from_program.end());
    if (offer == kNoFeature || capacity < kOfferBytes || data.size() > capacity - kOfferBytes) {
        return data;
    }
    data.resize(capacity);
    const std::array<std::byte, kOfferBytes> bytes{kMark0, kMark1, std::byte{offer}, ~std::byte{offer}};
    std::copy(bytes.begin(), bytes.end(), data.end() - kOfferBytes);
    return data;
}

Features take_offer(std::span<std::byte> private_data) noexcept {
    if (private_data.size() < kOfferBytes) {
        return kNoFeature;
    }
    const std::span<std::byte> bytes = private_data.last(kOfferBytes);
    if (bytes[0] != kMark0 || bytes[1] != kMark1 || bytes[2] != ~bytes[3]) {
        return kNoFeature;
    }
    // Of a later version's features we know nothing.
    const auto offer = std::to_integer<Features>(bytes[2] & kAllFeatures);
    std::fill(bytes.begin(), bytes.end(), std::byte{0});
    return offer;
}

} // namespace sluice::rpma
