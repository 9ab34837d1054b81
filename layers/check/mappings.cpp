// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/mappings.hpp"

#include "layers/check/describe.hpp"
#include "layers/check/finding.hpp"
#include "layers/check/lifetimes.hpp"
#include "layers/check/pages/pages.hpp"
#include "layers/check/registry.hpp"

namespace sluice::layers::check {

namespace {

bool is_part_of(const Region& region, std::uint64_t first, std::size_t bytes) noexcept {
    return region.has_memory && !region.is_on_demand && region.memory < first + bytes &&
           first < region.memory + region.length;
}

void tell_still_registered(std::string_view call, const Region& region, Place place) noexcept {
    tell("registered-and-unmapped", {{"it is given back", place}, {"the region was registered", region.made}},
         [&] {
             return Told{name_of(region) + " of " + device_of(region.context),
                         std::string(call) +
                             " has given its memory back, or a part, and it is registered: the device keeps "
                             "the pages of before",
                         "deregister memory before it is unmapped or freed"};
         });
}

} // namespace

bool may_be_registered(const void* memory, std::size_t bytes) noexcept {
    return bytes != 0 &&
           Registry::instance().registered.may_overlap(reinterpret_cast<std::uintptr_t>(memory), bytes);
}

Unmapping::Unmapping(const void* memory, std::size_t bytes) noexcept
    : place_(here()), first_(reinterpret_cast<std::uintptr_t>(memory)), bytes_(bytes) {
    pages::lift_range(memory, bytes);
    (void)at_boundary("check", [&]() -> Result<void> {
        registered_ = Registry::instance().regions.all(
            [&](const Region& each) { return is_part_of(each, first_, bytes_); });
        return {};
    });
    for (const std::shared_ptr<Region>& region : registered_) {
        check_unmapping(*region, first_, bytes_, place_);
    }
}

void Unmapping::check(std::string_view call) const noexcept {
    for (const std::shared_ptr<Region>& region : registered_) {
        if (region->ended != nullptr) {
            continue;
        }
        region->unmapped_first = first_;
        region->unmapped_bytes = bytes_;
        region->unmapped = place_;
        if (report::depth() == report::Depth::kPedantic) {
            tell_still_registered(call, *region, place_);
        }
    }
}

} // namespace sluice::layers::check
