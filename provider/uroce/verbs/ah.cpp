// SPDX-License-Identifier: BSD-3-Clause
//
// Address handles: where a datagram goes. A request takes a copy, so that the handle may go.
#include <algorithm>
#include <new>

#include "core/boundary.hpp"
#include "core/log.hpp"
#include "provider/uroce/verbs/verbs.hpp"

namespace sluice::uroce::verbs {

int check_path(const ibv_ah_attr& attr, const device::GidTable& gids) noexcept {
    return attr.is_global == 1 && gids.at(attr.grh.sgid_index) != nullptr && attr.port_num == kPort ? 0
                                                                                                    : EINVAL;
}

int use_address(const engine::Address& local, device::Device& device, const char* call) noexcept {
    const Result<void> used = at_boundary(call, [&] { return device.use_address(local); });
    if (used) {
        return 0;
    }
    SLUICE_LOG(kError, "uroce", "%s: %s", call, used.error().text());
    return used.error().to_errno();
}

engine::Address destination_of(const ibv_ah_attr& attr) noexcept {
    engine::Address address;
    std::copy(std::begin(attr.grh.dgid.raw), std::end(attr.grh.dgid.raw), address.gid.begin());
    return address;
}

ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* attr) noexcept {
    if (context_of(pd->context).gone()) {
        return fail_with<ibv_ah>(EIO);
    }
    device::Device& device = context_of(pd->context).device;
    const engine::Address* const source = device.gids().at(attr->grh.sgid_index);
    if (source == nullptr || check_path(*attr, device.gids()) != 0) {
        return fail_with<ibv_ah>(EINVAL);
    }
    if (const int error = use_address(*source, device, "ibv_create_ah")) {
        return fail_with<ibv_ah>(error);
    }
    auto* ah = new (std::nothrow) AddressHandle{};
    if (ah == nullptr) {
        return fail_with<ibv_ah>(ENOMEM);
    }
    ah->context = pd->context;
    ah->pd = pd;
    ah->source = *source;
    ah->destination = destination_of(*attr);
    ah->membership.join(ah->context);
    domain_of(pd).users.fetch_add(1, std::memory_order_relaxed);
    return ah;
}

int destroy_ah(ibv_ah* ah) noexcept {
    domain_of(ah->pd).users.fetch_sub(1, std::memory_order_release);
    delete static_cast<AddressHandle*>(ah);
    return 0;
}

} // namespace sluice::uroce::verbs
