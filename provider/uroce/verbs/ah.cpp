// SPDX-License-Identifier: BSD-3-Clause
//
// Address handles: where a datagram goes. A request takes a copy, so that the handle may go.
#include <algorithm>
#include <new>

#include "provider/uroce/verbs/verbs.hpp"

namespace sluice::uroce::verbs {

int check_path(const ibv_ah_attr& attr) noexcept {
    return attr.is_global == 1 && attr.grh.sgid_index == 0 && attr.port_num == kPort ? 0 : EINVAL;
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
    if (const int error = check_path(*attr)) {
        return fail_with<ibv_ah>(error);
    }
    auto* ah = new (std::nothrow) AddressHandle{};
    if (ah == nullptr) {
        return fail_with<ibv_ah>(ENOMEM);
    }
    ah->context = pd->context;
    ah->pd = pd;
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
