// SPDX-License-Identifier: BSD-3-Clause
//
// Shared receive queues.
#include <memory>
#include <optional>

#include "core/facade.hpp"
#include "provider/uroce/verbs/verbs.hpp"

namespace sluice::uroce::verbs {

namespace {

// Of queues of an XRC domain.
struct XrcParts {
    ibv_xrcd* xrcd = nullptr;
    ibv_cq* cq = nullptr;
};

std::unique_ptr<Srq> make(ibv_pd* pd, void* srq_context, const ibv_srq_attr& attr) noexcept {
    Context& context = context_of(pd->context);
    if (context.gone()) {
        errno = EIO;
        return nullptr;
    }
    if (attr.max_wr == 0 || attr.max_wr > kMaxWr || attr.max_sge > engine::kMaxSge) {
        errno = EINVAL;
        return nullptr;
    }
    Result<std::unique_ptr<Srq>> made = at_boundary("ibv_create_srq", [&] {
        return Result<std::unique_ptr<Srq>>(std::make_unique<Srq>(*pd->context, attr.max_wr, attr.max_sge));
    });
    if (!made) {
        errno = made.error().to_errno();
        return nullptr;
    }
    std::unique_ptr<Srq>& srq = *made;
    srq->srq.srq_context = srq_context;
    srq->srq.pd = pd;
    srq->srq_type = IBV_SRQT_BASIC;
    pthread_mutex_init(&srq->srq.mutex, nullptr);
    pthread_cond_init(&srq->srq.cond, nullptr);
    return std::move(srq);
}

void use_all(Srq& srq, int count) noexcept {
    domain_of(srq.srq.pd).users.fetch_add(count, std::memory_order_acq_rel);
    if (srq.is_xrc()) {
        xrcd_of(srq.xrcd).users.fetch_add(count, std::memory_order_acq_rel);
        cq_of(srq.cq).users.fetch_add(count, std::memory_order_acq_rel);
    }
}

Srq* create(ibv_pd* pd, void* srq_context, const ibv_srq_attr& attr) noexcept {
    std::unique_ptr<Srq> srq = make(pd, srq_context, attr);
    if (srq == nullptr) {
        return nullptr;
    }
    srq->srq_num = context_of(pd->context).device.new_domain();
    use_all(*srq, 1);
    srq->membership.join(srq->srq.context);
    return srq.release();
}

// From now on, messages for its number are for it.
int enter_domain(Srq& srq) noexcept {
    const device::Device::ProgressSession session(srq.owner().device);
    const std::optional<std::uint32_t> number = session.engine().next_srq_number();
    if (!number) {
        return ENOMEM;
    }
    srq.srq_num = *number;
    return Errno::answer([&]() -> Result<void> {
        xrcd_of(srq.xrcd).domain->queues.add({.number = *number,
                                              .pd = srq.srq.pd->handle,
                                              .receives = &srq.receives,
                                              .cq = &cq_of(srq.cq).queue,
                                              .owner = &srq});
        return {};
    });
}

void leave_domain(void* object, device::Device& device) noexcept {
    const device::Device::ProgressSession session(device);
    const Srq& srq = *static_cast<Srq*>(object);
    xrcd_of(srq.xrcd).domain->queues.remove(srq.srq_num);
}

Srq* create_for_xrc(ibv_pd* pd, void* srq_context, const ibv_srq_attr& attr, const XrcParts& parts) noexcept {
    std::unique_ptr<Srq> srq = make(pd, srq_context, attr);
    if (srq == nullptr) {
        return nullptr;
    }
    srq->srq_type = IBV_SRQT_XRC;
    srq->xrcd = parts.xrcd;
    srq->cq = parts.cq;
    if (const int error = enter_domain(*srq)) {
        return fail_with<Srq>(error);
    }
    use_all(*srq, 1);
    srq->membership.join(srq->srq.context, srq.get(), leave_domain);
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
    constexpr std::uint32_t kBasic = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
    constexpr std::uint32_t kOfXrc = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    const auto type = (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 ? number_of(attr->srq_type)
                                                                      : std::uint32_t{IBV_SRQT_BASIC};
    const bool is_xrc = type == IBV_SRQT_XRC;
    if ((attr->comp_mask & ~(kBasic | (is_xrc ? kOfXrc : 0))) != 0 || (type != IBV_SRQT_BASIC && !is_xrc)) {
        return fail_with<ibv_srq>(EOPNOTSUPP);
    }
    if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || attr->pd == nullptr ||
        attr->pd->context != context) {
        return fail_with<ibv_srq>(EINVAL);
    }
    const auto is_ours = [context](const auto* object) {
        return object != nullptr && object->context == context;
    };
    if (is_xrc && ((attr->comp_mask & kOfXrc) != kOfXrc || !is_ours(attr->xrcd) || !is_ours(attr->cq))) {
        return fail_with<ibv_srq>(EINVAL);
    }
    Srq* srq =
        is_xrc ? create_for_xrc(attr->pd, attr->srq_context, attr->attr, {.xrcd = attr->xrcd, .cq = attr->cq})
               : create(attr->pd, attr->srq_context, attr->attr);
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
        if (srq.is_xrc()) {
            leave_domain(&srq, srq.owner().device);
        }
        provider::await_events(ibsrq->mutex, ibsrq->cond, ibsrq->events_completed, events_read(srq));
    }
    use_all(srq, -1);
    delete &srq;
    return 0;
}

int get_srq_num(ibv_srq* srq, std::uint32_t* number) noexcept {
    *number = srq_of(srq).srq_num;
    return 0;
}

} // namespace sluice::uroce::verbs
