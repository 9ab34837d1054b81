// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/verbs/event_reports.hpp"

#include "provider/uroce/verbs/objects.hpp"

namespace sluice::uroce::verbs {

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

void report_event(void* owner, engine::AsyncEvent event) noexcept {
    Qp& qp = *static_cast<Qp*>(owner);
    switch (event) {
    case engine::AsyncEvent::kCqError:
        report_failed(cq_of(qp.qp.send_cq));
        report_failed(cq_of(qp.qp.recv_cq));
        return;
    case engine::AsyncEvent::kQpFatal:
        report_of(qp, IBV_EVENT_QP_FATAL);
        return;
    case engine::AsyncEvent::kQpRequestError:
        report_of(qp, IBV_EVENT_QP_REQ_ERR);
        return;
    case engine::AsyncEvent::kQpAccessError:
        report_of(qp, IBV_EVENT_QP_ACCESS_ERR);
        return;
    case engine::AsyncEvent::kSrqLimit:
        report_of(srq_of(qp.qp.srq), IBV_EVENT_SRQ_LIMIT_REACHED);
        return;
    case engine::AsyncEvent::kLastWqeReached:
        report_of(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
        return;
    case engine::AsyncEvent::kSendQueueDrained:
        report_of(qp, IBV_EVENT_SQ_DRAINED);
        return;
    }
}

} // namespace sluice::uroce::verbs
