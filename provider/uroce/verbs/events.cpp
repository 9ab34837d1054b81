// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/verbs/events.hpp"

#include "core/log.hpp"
#include "provider/uroce/verbs/event_socket.hpp"
#include "provider/uroce/verbs/objects.hpp"

namespace sluice::uroce::face {

bool AsyncEvents::report(const void* element, ibv_event_type type) noexcept {
    const Record record{reinterpret_cast<std::uintptr_t>(element), static_cast<std::uint32_t>(type), 0};
    refill();
    if (waiting_.empty() && send_event(fd_, &record, sizeof record)) {
        return true;
    }
    if (waiting_.full()) {
        SLUICE_LOG(kWarning, "uroce", "asynchronous event %u is lost: nobody reads ibv_get_async_event()",
                   record.type);
        return false;
    }
    waiting_.grow() = record;
    pending_.store(true, std::memory_order_relaxed);
    return true;
}

void AsyncEvents::refill() noexcept {
    while (!waiting_.empty() && send_event(fd_, &waiting_.front(), sizeof(Record))) {
        waiting_.pop_front();
    }
    pending_.store(!waiting_.empty(), std::memory_order_relaxed);
}

std::uint32_t AsyncEvents::forget(const void* element) noexcept {
    std::uint32_t taken = take_back_events(fd_, element);
    for (std::uint32_t left = waiting_.size(); left != 0; --left) {
        const Record record = waiting_.front();
        waiting_.pop_front();
        if (record.element == reinterpret_cast<std::uintptr_t>(element)) {
            ++taken;
        } else {
            waiting_.grow() = record;
        }
    }
    refill();
    return taken;
}

namespace {

void report_of(Qp& qp, ibv_event_type type) noexcept {
    qp.events_reported += qp.owner().events.report(&qp.qp, type) ? 1 : 0;
}

void report_of(Cq& cq, ibv_event_type type) noexcept {
    cq.events_reported += cq.owner().events.report(ibv_cq_ex_to_cq(&cq), type) ? 1 : 0;
}

void report_of(Srq& srq, ibv_event_type type) noexcept {
    srq.events_reported += srq.owner().events.report(&srq.srq, type) ? 1 : 0;
}

void report_failed(Cq& cq) noexcept {
    if (cq.queue.overflowed() && !cq.failure_reported) {
        cq.failure_reported = true;
        report_of(cq, IBV_EVENT_CQ_ERR);
    }
}

} // namespace

void report_event(void* owner, AsyncEvent event) noexcept {
    Qp& qp = *static_cast<Qp*>(owner);
    switch (event) {
    case AsyncEvent::kCqError:
        report_failed(cq_of(qp.qp.send_cq));
        report_failed(cq_of(qp.qp.recv_cq));
        return;
    case AsyncEvent::kQpFatal:
        report_of(qp, IBV_EVENT_QP_FATAL);
        return;
    case AsyncEvent::kQpRequestError:
        report_of(qp, IBV_EVENT_QP_REQ_ERR);
        return;
    case AsyncEvent::kQpAccessError:
        report_of(qp, IBV_EVENT_QP_ACCESS_ERR);
        return;
    case AsyncEvent::kSrqLimit:
        report_of(srq_of(qp.qp.srq), IBV_EVENT_SRQ_LIMIT_REACHED);
        return;
    case AsyncEvent::kLastWqeReached:
        report_of(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
        return;
    case AsyncEvent::kSendQueueDrained:
        report_of(qp, IBV_EVENT_SQ_DRAINED);
        return;
    }
}

} // namespace sluice::uroce::face
