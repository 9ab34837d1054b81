// SPDX-License-Identifier: BSD-3-Clause
//
// What a device tells by itself, in the loop's thread.
//
// An object can't be destroyed while an event of it isn't acknowledged, which is our last act. So the
// pointers in an event are good, and nobody may wait for such an end with a lock that is taken here.
#include "core/boundary.hpp"
#include "core/log.hpp"
#include "udapl/provider/device.hpp"
#include "udapl/provider/ep.hpp"
#include "udapl/provider/ia.hpp"

namespace sluice::dapl {

void Device::join(const Ia* ia, void* handle) {
    const LockGuard guard(mutex_);
    ias_[ia] = handle;
}

void Device::leave(const Ia* ia) noexcept {
    const LockGuard guard(mutex_);
    ias_.erase(ia);
}

void Device::on_readable() noexcept {
    while (true) {
        Result<std::optional<glue::AsyncEvent>> event = context_.next_async_event();
        if (!event) {
            SLUICE_LOG(kWarning, "dat", "%s: %s", name_.c_str(), event.error().text());
            return;
        }
        if (!*event) {
            return;
        }
        tell(***event);
    }
}

void Device::tell(const ibv_async_event& event) noexcept {
    switch (event.event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
        static_cast<Ep*>(event.element.qp->qp_context)->on_device_error();
        return;
    case IBV_EVENT_COMM_EST:
        static_cast<Ep*>(event.element.qp->qp_context)->on_communication();
        return;
    case IBV_EVENT_CQ_ERR:
        static_cast<Evd*>(event.element.cq->cq_context)->on_overrun();
        return;
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        static_cast<Srq*>(event.element.srq->srq_context)->tell_low();
        return;
    case IBV_EVENT_SRQ_ERR:
        static_cast<Srq*>(event.element.srq->srq_context)->on_device_error();
        return;
    case IBV_EVENT_DEVICE_FATAL:
        tell_gone();
        return;
    default: // of ports and paths: who connects will notice
        SLUICE_LOG(kInfo, "dat", "%s: event %u", name_.c_str(), static_cast<unsigned>(event.event_type));
        return;
    }
}

void Device::tell_gone() noexcept {
    const Result<void> done = at_boundary("dat events", [this]() -> Result<void> {
        const std::map<const Ia*, void*> ias = [this] {
            const LockGuard guard(mutex_);
            return ias_;
        }();
        for (const auto& [whose, handle] : ias) {
            if (const Result<Pin<Ia>> ia = handles().get<Ia>(handle)) {
                (*ia)->tell({EventKind::kIaGone, handle});
            }
        }
        return {};
    });
    if (!done) {
        SLUICE_LOG(kWarning, "dat", "%s is lost, and not all are told", name_.c_str());
    }
}

} // namespace sluice::dapl
