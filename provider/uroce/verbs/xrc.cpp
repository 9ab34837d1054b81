// SPDX-License-Identifier: BSD-3-Clause
//
// XRC: its domains, and further handles of its receiving queue pairs. The queue pairs themselves are made
// in qp.cpp, and the shared receive queues in srq.cpp.
#include <memory>
#include <new>
#include <utility>

#include "core/facade.hpp"
#include "core/log.hpp"
#include "provider/uroce/verbs/verbs.hpp"

namespace sluice::uroce::verbs {

namespace {

int open_domain(Xrcd& xrcd, int fd, int flags) noexcept {
    const device::Device::ProgressSession session(xrcd.owner().device);
    const Result<device::XrcDomain*> opened =
        at_boundary("ibv_open_xrcd", [&] { return session.xrc_domains().open(fd, flags); });
    if (!opened) {
        SLUICE_LOG(kInfo, "uroce", "ibv_open_xrcd: %s", opened.error().text());
        return opened.error().to_errno();
    }
    xrcd.domain = *opened;
    return 0;
}

void close_domain(void* object, device::Device& device) noexcept {
    const device::Device::ProgressSession session(device);
    session.xrc_domains().close(*std::exchange(static_cast<Xrcd*>(object)->domain, nullptr));
}

} // namespace

ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attr) noexcept {
    constexpr std::uint32_t kNeeded = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    if ((attr->comp_mask & ~kNeeded) != 0) {
        return fail_with<ibv_xrcd>(EOPNOTSUPP);
    }
    if (attr->comp_mask != kNeeded) {
        return fail_with<ibv_xrcd>(EINVAL);
    }
    if (context_of(context).gone()) {
        return fail_with<ibv_xrcd>(EIO);
    }
    std::unique_ptr<Xrcd> xrcd(new (std::nothrow) Xrcd(*context));
    if (xrcd == nullptr) {
        return fail_with<ibv_xrcd>(ENOMEM);
    }
    if (const int error = open_domain(*xrcd, attr->fd, attr->oflags)) {
        return fail_with<ibv_xrcd>(error);
    }
    xrcd->membership.join(xrcd->context, xrcd.get(), close_domain);
    return xrcd.release();
}

int close_xrcd(ibv_xrcd* ibxrcd) noexcept {
    Xrcd& xrcd = xrcd_of(ibxrcd);
    if (xrcd.users.load(std::memory_order_acquire) != 0) {
        return EBUSY;
    }
    if (!xrcd.owner().gone()) {
        close_domain(&xrcd, xrcd.owner().device);
    }
    delete &xrcd;
    return 0;
}

ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* attr) noexcept {
    constexpr std::uint32_t kNeeded = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    if ((attr->comp_mask & ~(kNeeded | IBV_QP_OPEN_ATTR_CONTEXT)) != 0) {
        return fail_with<ibv_qp>(EOPNOTSUPP);
    }
    if ((attr->comp_mask & kNeeded) != kNeeded || number_of(attr->qp_type) != IBV_QPT_XRC_RECV ||
        attr->xrcd == nullptr || attr->xrcd->context != context) {
        return fail_with<ibv_qp>(EINVAL);
    }
    if (context_of(context).gone()) {
        return fail_with<ibv_qp>(EIO);
    }
    Xrcd& xrcd = xrcd_of(attr->xrcd);
    const device::Device::ProgressSession session(xrcd.owner().device);
    const engine::QueuePair* const found = session.engine().find(attr->qp_num);
    if (found == nullptr || found->type() != engine::QpType::kXrcReceive) {
        return fail_with<ibv_qp>(EINVAL);
    }
    Qp& known = *static_cast<Qp*>(found->owner());
    if (known.xrcd->domain != xrcd.domain) {
        return fail_with<ibv_qp>(EINVAL);
    }
    return join_qp(known, xrcd,
                   (attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT) != 0 ? attr->qp_context : nullptr);
}

bool leave_handles(Qp& qp) noexcept {
    Qp* before = &qp;
    while (before->next_handle != &qp) {
        before = before->next_handle;
    }
    before->next_handle = std::exchange(qp.next_handle, &qp);
    if (before == &qp) {
        return false;
    }
    if (qp.engine->owner() == &qp) {
        qp.engine->set_owner(before);
    }
    return true;
}

} // namespace sluice::uroce::verbs
