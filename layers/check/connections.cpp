// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/connections.hpp"

#include "layers/check/finding.hpp"
#include "layers/check/registry.hpp"

namespace sluice::layers::check {

namespace {

// The id that waits for EVENT when it is destroyed. Null: none does.
const rdma_cm_id* owner_of(const rdma_cm_event& event) noexcept {
    switch (event.event) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
        return event.listen_id;
    case RDMA_CM_EVENT_MULTICAST_JOIN:
    case RDMA_CM_EVENT_MULTICAST_ERROR:
        return nullptr; // rdma_leave_multicast() does
    default:
        return event.id;
    }
}

bool says_no(rdma_cm_event_type type) noexcept {
    return type == RDMA_CM_EVENT_REJECTED || type == RDMA_CM_EVENT_UNREACHABLE ||
           type == RDMA_CM_EVENT_CONNECT_ERROR;
}

std::shared_ptr<ConnectionEvents> events_of(const rdma_cm_id* id) {
    Registry& all = Registry::instance();
    std::shared_ptr<ConnectionEvents> known = all.connection_events.find(id);
    if (known == nullptr) {
        known = std::make_shared<ConnectionEvents>();
        all.connection_events.put(id, known);
    }
    return known;
}

} // namespace

void take_connection_event(const rdma_cm_event& event, Place place) noexcept {
    (void)at_boundary("check", [&]() -> Result<void> {
        if (const rdma_cm_id* const owner = owner_of(event)) {
            const std::shared_ptr<ConnectionEvents> events = events_of(owner);
            events->last_getter = this_thread();
            events->last_taken = place;
            events->unacknowledged.fetch_add(1);
        }
        const bool is_refusal = says_no(event.event) && event.id != nullptr && event.id->qp != nullptr;
        const auto pair = is_refusal ? Registry::instance().pairs.find(event.id->qp) : nullptr;
        if (pair != nullptr) {
            pair->refused = place;
            pair->refusal_seen_by = this_thread();
        }
        return {};
    });
}

void forget_connection_event(const rdma_cm_event& event) noexcept {
    const rdma_cm_id* const owner = owner_of(event);
    const auto events = owner != nullptr ? Registry::instance().connection_events.find(owner) : nullptr;
    // Those that were taken past us aren't counted.
    if (events != nullptr && events->unacknowledged.load() != 0) {
        events->unacknowledged.fetch_sub(1);
    }
}

void check_end(const rdma_cm_id* id, Place place) noexcept {
    const std::shared_ptr<ConnectionEvents> events = Registry::instance().connection_events.take(id);
    // A synchronous id keeps its last event, and rdma_destroy_id() acknowledges it.
    const std::uint32_t kept = id->event != nullptr ? 1 : 0;
    // Another thread may acknowledge while this one waits.
    if (events == nullptr || events->unacknowledged.load() <= kept ||
        events->last_getter.load() != this_thread()) {
        return;
    }
    tell("connection-event-not-acknowledged",
         {{"the id is destroyed", place}, {"its last event was taken", events->last_taken.load()}}, [&] {
             return Told{"an id of librdmacm",
                         std::to_string(events->unacknowledged.load()) +
                             " of its events were taken by this thread and not acknowledged: "
                             "rdma_destroy_id() waits for that without end",
                         "copy what is needed of an event, call rdma_ack_cm_event(), then destroy the id"};
         });
}

} // namespace sluice::layers::check
