// SPDX-License-Identifier: BSD-3-Clause
#include "rpma/peer.hpp"

#include "core/verbs_values.hpp"

namespace sluice::rpma {

namespace {

Features features_of(const ibv_device_attr_ex& device) noexcept {
    const std::uint64_t flags = device.device_cap_flags_ex;
    return static_cast<Features>(((flags & kDeviceAtomicWrite) != 0 ? kAtomicWrite : kNoFeature) |
                                 ((flags & kDeviceFlushGlobal) != 0 ? kFlushVisibility : kNoFeature) |
                                 ((flags & kDeviceFlushPersistent) != 0 ? kFlushPersistent : kNoFeature));
}

} // namespace

bool can_page(const ibv_device_attr_ex& device) noexcept {
    constexpr std::uint32_t kNeeded = IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_WRITE;
    return (device.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0 &&
           (device.odp_caps.per_transport_caps.rc_odp_caps & kNeeded) == kNeeded;
}

Peer::Peer(ibv_context* context, glue::ProtectionDomain domain, const ibv_device_attr_ex& can) noexcept
    : context_(context), domain_(std::move(domain)), features_(features_of(can)),
      can_page_(rpma::can_page(can)) {}

Result<std::unique_ptr<Peer>> Peer::make(ibv_context* context) {
    const glue::LentContext lent(context);
    const Result<ibv_device_attr_ex> can = lent->query_device();
    if (!can) {
        return can.error().clone();
    }
    Result<glue::ProtectionDomain> domain = glue::ProtectionDomain::make(*lent);
    if (!domain) {
        return std::move(domain).error();
    }
    return std::unique_ptr<Peer>(new Peer(context, *std::move(domain), *can));
}

Features Peer::offer() const noexcept {
    return has_volatile_.load(std::memory_order_relaxed)
               ? static_cast<Features>(features_ & ~kFlushPersistent)
               : features_;
}

} // namespace sluice::rpma
