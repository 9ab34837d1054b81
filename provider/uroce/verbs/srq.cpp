// SPDX-License-Identifier: BSD-3-Clause
//
// Shared receive queues.
#include <memory>

#include "core/facade.hpp"
#include "provider/uroce/verbs/verbs.hpp"

namespace sluice::uroce::verbs {

namespace {

Srq* create(ibv_pd* pd, void* srq_context, ibv_srq_attr& attr) noexcept {
    Context& context = context_of(pd->context);
    if (context.gone()) {
        return fail_with<Srq>(EIO);
    }
    if (attr.max_wr == 0 || attr.max_wr > kMaxWr || attr.max_sge > engine::kMaxSge) {
        return fail_with<Srq>(EINVAL);
    }
    Result<std::unique_ptr<Srq>> made = at_boundary("ibv_create_srq", [&] {
        return Result<std::unique_ptr<Srq>>(std::make_unique<Srq>(*pd->context, attr.max_wr, attr.max_sge));
    });
    if (!made) {
        return fail_with<Srq>(made.error().to_errno());
    }
    std::unique_ptr<Srq>& srq = *made;
    srq->srq.srq_context = srq_context;
    srq->srq.pd = pd;
    srq->srq_type = IBV_SRQT_BASIC;
    srq->srq_num = context.device.new_domain();
    pthread_mutex_init(&srq->srq.mutex, nullptr);
    pthread_cond_init(&srq->srq.cond, nullptr);
    domain_of(pd).users.fetch_add(1, std::memory_order_relaxed);
    srq->membership.join(srq->srq.context);
    return srq.release();
}

// Under the device's lock. EINVAL where more requests wait than would fit, or the limit is above it.
int resize(Srq& srq, std::uint32_t max_wr) noexcept {
    if (srq.receives.limit() > max_wr) {
        return EINVAL;
    }
    const int error = Errno::answer([&] { return srq.receives.resize(max_wr) ? 0 : EINVAL; });
    srq.limits.max_wr = error == 0 ? max_wr : srq.limits.max_wr;
    return error;
}

// No more will come: no queue pair uses it.
std::uint32_t events_read(Srq& srq) noexcept {
    const device::Device::ProgressSession session(srq.owner().device);
    return srq.events_reported - srq.owner().events.forget(&srq.srq);
}

} // namespace

// The limit in ATTR is not looked at: it is armed by modify_srq, as the manual says.
ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) noexcept {
    Srq* srq = create(pd, attr->srq_context, attr->attr);
    return srq != nullptr ? &srq->srq : nullptr;
}

ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attr) noexcept {
    constexpr std::uint32_t kKnown = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
    if ((attr->comp_mask & ~kKnown) != 0 ||
        ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 && attr->srq_type != IBV_SRQT_BASIC)) {
        return fail_with<ibv_srq>(EOPNOTSUPP);
    }
    if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || attr->pd == nullptr ||
        attr->pd->context != context) {
        return fail_with<ibv_srq>(EINVAL);
    }
    Srq* srq = create(attr->pd, attr->srq_context, attr->attr);
    return srq != nullptr ? &srq->srq : nullptr;
}

int modify_srq(ibv_srq* ibsrq, ibv_srq_attr* attr, int mask) noexcept {
    Srq& srq = srq_of(ibsrq);
    if (srq.owner().gone()) {
        return EIO;
    }
    const bool resizes = (mask & IBV_SRQ_MAX_WR) != 0;
    const bool arms = (mask & IBV_SRQ_LIMIT) != 0;
    if ((mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) != 0 ||
        (resizes && (attr->max_wr == 0 || attr->max_wr > kMaxWr))) {
        return EINVAL;
    }
    const device::Device::ProgressSession session(srq.owner().device);
    if (arms && attr->srq_limit > (resizes ? attr->max_wr : srq.limits.max_wr)) {
        return EINVAL;
    }
    if (resizes) {
        if (const int error = resize(srq, attr->max_wr)) {
            return error;
        }
    }
    if (arms) {
        srq.receives.set_limit(attr->srq_limit);
    }
    return 0;
}

int query_srq(ibv_srq* ibsrq, ibv_srq_attr* attr) noexcept {
    Srq& srq = srq_of(ibsrq);
    if (srq.owner().gone()) {
        return EIO;
    }
    const device::Device::ProgressSession session(srq.owner().device);
    *attr = srq.limits;
    attr->srq_limit = srq.receives.limit();
    return 0;
}

int destroy_srq(ibv_srq* ibsrq) noexcept {
    Srq& srq = srq_of(ibsrq);
    if (srq.users.load(std::memory_order_acquire) != 0) {
        return EBUSY;
    }
    if (!srq.owner().gone()) {
        provider::await_events(ibsrq->mutex, ibsrq->cond, ibsrq->events_completed, events_read(srq));
    }
    domain_of(ibsrq->pd).users.fetch_sub(1, std::memory_order_release);
    delete &srq;
    return 0;
}

int get_srq_num(ibv_srq* srq, std::uint32_t* number) noexcept {
    *number = srq_of(srq).srq_num;
    return 0;
}

} // namespace sluice::uroce::verbs
