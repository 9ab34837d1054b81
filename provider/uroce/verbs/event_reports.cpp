// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/verbs/event_reports.hpp"

#include <utility>

#include "provider/uroce/verbs/verbs.hpp"

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

// Which of them have lost completions is found out by looking.
void report_failed(Qp& qp) noexcept {
    for (ibv_cq* const cq : {qp.qp.send_cq, qp.qp.recv_cq}) {
        if (cq != nullptr) {
            report_failed(cq_of(cq));
        }
    }
    if (qp.xrcd != nullptr) {
        qp.xrcd->domain->queues.for_each([](const engine::SharedReceives& queue) {
            report_failed(cq_of(static_cast<Srq*>(queue.owner)->cq));
        });
    }
}

void report_limit(Qp& qp) noexcept {
    if (qp.qp.srq != nullptr) {
        report_of(srq_of(qp.qp.srq), IBV_EVENT_SRQ_LIMIT_REACHED);
    }
    if (qp.xrcd != nullptr) {
        qp.xrcd->domain->queues.for_each([](engine::SharedReceives& queue) {
            if (std::exchange(queue.reached_limit, false)) {
                report_of(*static_cast<Srq*>(queue.owner), IBV_EVENT_SRQ_LIMIT_REACHED);
            }
        });
    }
}

// To all that have the queue pair open.
void report_to_handles(Qp& qp, ibv_event_type type) noexcept {
    for_each_handle(qp, [type](Qp& one) { report_of(one, type); });
}

} // namespace

void report_event(void* owner, engine::AsyncEvent event) noexcept {
    Qp& qp = *static_cast<Qp*>(owner);
    switch (event) {
    case engine::AsyncEvent::kCqError:
        report_failed(qp);
        return;
    case engine::AsyncEvent::kQpFatal:
        report_to_handles(qp, IBV_EVENT_QP_FATAL);
        return;
    case engine::AsyncEvent::kQpRequestError:
        report_to_handles(qp, IBV_EVENT_QP_REQ_ERR);
        return;
    case engine::AsyncEvent::kQpAccessError:
        report_to_handles(qp, IBV_EVENT_QP_ACCESS_ERR);
        return;
    case engine::AsyncEvent::kSrqLimit:
        report_limit(qp);
        return;
    case engine::AsyncEvent::kLastWqeReached:
        report_to_handles(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
        return;
    case engine::AsyncEvent::kSendQueueDrained:
        report_to_handles(qp, IBV_EVENT_SQ_DRAINED);
        return;
    }
}

} // namespace sluice::uroce::verbs
