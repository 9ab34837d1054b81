// SPDX-License-Identifier: BSD-3-Clause
//
// What peers send librpma: descriptors of regions, and private data with or without an offer at its end. The
// first byte chooses.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "rpma/descriptor.hpp"

using namespace sluice::rpma;

namespace {

void must(bool holds) {
    if (!holds) {
        std::abort();
    }
}

// What is accepted describes memory that there can be, and comes out again as the same bytes.
void check_region(std::span<const std::byte> bytes) {
    const auto region = region_from(bytes);
    if (!region) {
        return;
    }
    must(bytes.size() >= kRegionDescriptorBytes && region->usage != 0 && region->length != 0);
    must(region->address + (region->length - 1) >= region->address);
    const auto again = to_bytes(*region);
    must(std::memcmp(again.data(), bytes.data(), again.size()) == 0);
}

// Taken out, an offer is gone, and nothing else has changed.
void check_offer(std::span<const std::byte> bytes) {
    std::vector<std::byte> data(bytes.begin(), bytes.end());
    const Features offer = take_offer(data);
    must((offer & ~(kAtomicWrite | kFlushVisibility | kFlushPersistent)) == 0);
    must(data.size() == bytes.size());
    const std::size_t kept = data.size() < kOfferBytes ? data.size() : data.size() - kOfferBytes;
    must(std::equal(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(kept), bytes.begin()));
    must(take_offer(data) == kNoFeature);
    if (kept > 0 && offer != kNoFeature) {
        std::vector<std::byte> made = with_offer({data.data(), kept}, data.size(), offer);
        must(made.size() == data.size() && take_offer(made) == offer && made == data);
    }
}

} // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer names it
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) {
        return 0;
    }
    const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
    if (data[0] % 2 == 0) {
        check_region(bytes);
    } else {
        check_offer(bytes);
    }
    return 0;
}
