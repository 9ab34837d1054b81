// SPDX-License-Identifier: BSD-3-Clause
//
// Which multicast groups a queue pair hears. RoCE has no LIDs: those that programs give mean nothing.
#include <algorithm>

#include "core/boundary.hpp"
#include "core/log.hpp"
#include "provider/uroce/verbs/verbs.hpp"
#include "roce/socket/address.hpp"

namespace sluice::uroce::verbs {

namespace {

engine::Address address_of(const union ibv_gid& gid) noexcept {
    engine::Address address;
    std::copy(std::begin(gid.raw), std::end(gid.raw), address.gid.begin());
    return address;
}

// 0, or why QP can't hear GROUP.
int check(const Qp& qp, const engine::Address& group) noexcept {
    if (qp.owner().gone()) {
        return EIO;
    }
    return qp.qp.qp_type == IBV_QPT_UD && socket::is_multicast(group) ? 0 : EINVAL;
}

} // namespace

int attach_mcast(ibv_qp* ibqp, const union ibv_gid* gid, std::uint16_t /*lid*/) noexcept {
    Qp& qp = qp_of(ibqp);
    const engine::Address group = address_of(*gid);
    if (const int error = check(qp, group)) {
        return error;
    }
    const Result<void> attached =
        at_boundary("ibv_attach_mcast", [&] { return qp.owner().device.attach(*qp.engine, group); });
    if (!attached) {
        SLUICE_LOG(kError, "uroce", "ibv_attach_mcast: %s", attached.error().text());
        return attached.error().to_errno();
    }
    return 0;
}

int detach_mcast(ibv_qp* ibqp, const union ibv_gid* gid, std::uint16_t /*lid*/) noexcept {
    Qp& qp = qp_of(ibqp);
    const engine::Address group = address_of(*gid);
    if (const int error = check(qp, group)) {
        return error;
    }
    return qp.owner().device.detach(*qp.engine, group) ? 0 : EINVAL;
}

} // namespace sluice::uroce::verbs
