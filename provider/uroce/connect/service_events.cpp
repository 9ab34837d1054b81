// SPDX-License-Identifier: BSD-3-Clause
//
// Events on their way from the manager to the program: to the id that they are about, to the
// channel's list of ids that have some, to the thread that asks.
#include <poll.h>

#include <cerrno>
#include <chrono>
#include <new>

#include "core/event_descriptor.hpp"
#include "core/facade.hpp"
#include "core/log.hpp"
#include "provider/uroce/connect/service.hpp"
#include "provider/uroce/connect/socket_address.hpp"

namespace sluice::uroce::connect {

// What a program gets, and what it was made from.
struct Service::Delivered : sluice_cm_event {
    explicit Delivered(Service& its_service) noexcept : sluice_cm_event{}, service(its_service) {}

    void fill_public_part() noexcept;

    Service& service;
    Id* subject = nullptr;
    Id* counted = nullptr; // the id whose destruction waits for the acknowledgement
    cm::Event event;
};

namespace {

std::uint32_t type_of(const cm::Event& event) noexcept {
    switch (event.type) {
    case cm::EventType::kConnectRequest:
        return SLUICE_CM_CONNECT_REQUEST;
    case cm::EventType::kConnectResponse:
        return SLUICE_CM_CONNECT_RESPONSE;
    case cm::EventType::kEstablished:
    case cm::EventType::kResolved:
        return SLUICE_CM_ESTABLISHED;
    case cm::EventType::kRejected:
        return SLUICE_CM_REJECTED;
    case cm::EventType::kUnreachable:
        return SLUICE_CM_UNREACHABLE;
    case cm::EventType::kDisconnected:
        return SLUICE_CM_DISCONNECTED;
    case cm::EventType::kTimewaitExit:
        return SLUICE_CM_TIMEWAIT_EXIT;
    }
    return 0;
}

// A rejection has a reason of the protocol's, silence and the end of the peer's process are an errno.
int status_of(const cm::Event& event) noexcept {
    if (event.type != cm::EventType::kRejected) {
        return event.reason == cm::reason::kTimeout        ? ETIMEDOUT
               : event.reason == cm::reason::kProcessEnded ? ECONNRESET
                                                           : 0;
    }
    if (!event.datagram) {
        return event.reason;
    }
    return event.reason == cm::kSidrRejected ? cm::reason::kConsumer : cm::reason::kInvalidServiceId;
}

static_assert(SLUICE_CM_STATUS_NO_RESOURCES == int{cm::reason::kNoResources} &&
              SLUICE_CM_STATUS_TIMEOUT == int{cm::reason::kTimeout} &&
              SLUICE_CM_STATUS_REFUSED == int{cm::reason::kInvalidServiceId} &&
              SLUICE_CM_STATUS_STALE == int{cm::reason::kStaleConnection} &&
              SLUICE_CM_STATUS_INVALID_MTU == int{cm::reason::kInvalidMtu} &&
              SLUICE_CM_STATUS_CONSUMER == int{cm::reason::kConsumer});

} // namespace

void Service::Delivered::fill_public_part() noexcept {
    private_data = event.private_bytes != 0 ? event.private_data.data() : nullptr;
    private_data_len = event.private_bytes;
    type = type_of(event);
    status = status_of(event);
    qp_num = event.qpn;
    qkey = event.qkey;
    responder_resources = event.responder_resources;
    initiator_depth = event.initiator_depth;
    flow_control = event.flow_control ? 1 : 0;
    retry_count = event.retry_count;
    rnr_retry_count = event.rnr_retry_count;
    srq = event.srq ? 1 : 0;
    local = to_sockaddr(event.local, event.local_port);
    peer = to_sockaddr(event.peer, event.peer_port);
}

void Service::take_events_locked() noexcept {
    cm::Event event;
    while (manager_.next_event(event)) {
        auto* id = reinterpret_cast<Id*>(static_cast<std::uintptr_t>(event.cookie));
        if (event.type == cm::EventType::kConnectRequest) {
            id = child_locked(*id, event);
        }
        if (id != nullptr) {
            queue_locked(*id, event);
        }
    }
}

// Null when there is no memory: then the peer is told no.
Id* Service::child_locked(Id& listening, const cm::Event& event) noexcept {
    auto* child = new (std::nothrow) Id(*listening.channel, listening.port_space, nullptr);
    if (child == nullptr) {
        manager_.destroy(event.id, port_.now());
        return nullptr;
    }
    ++child->channel->ids;
    child->use = Id::Use::kConnects;
    child->connection = event.id;
    child->asked = &listening;
    child->local_port = event.local_port;
    (void)manager_.set_cookie(event.id, reinterpret_cast<std::uintptr_t>(child)); // it was just made
    return child;
}

void Service::queue_locked(Id& id, const cm::Event& event) noexcept {
    if (id.event_count == Id::kMostEvents) {
        SLUICE_LOG(kError, "cm",
                   "an event is lost: a connection has more of them than there are in one life");
        return;
    }
    id.events[(id.event_first + id.event_count) % Id::kMostEvents] = event;
    if (++id.event_count == 1) {
        append_locked(id);
    }
}

void Service::append_locked(Id& id) noexcept {
    Channel& channel = *id.channel;
    id.previous = channel.last;
    (channel.last == nullptr ? channel.first : channel.last->next) = &id;
    channel.last = &id;
    if (channel.first == &id) {
        ring_eventfd(channel.fd);
    }
}

void Service::unlist_locked(Id& id) noexcept {
    Channel& channel = *id.channel;
    if (id.previous == nullptr && channel.first != &id) {
        return;
    }
    (id.previous == nullptr ? channel.first : id.previous->next) = id.next;
    (id.next == nullptr ? channel.last : id.next->previous) = id.previous;
    id.previous = id.next = nullptr;
    if (channel.first == nullptr) {
        (void)quiet_eventfd(channel.fd);
    }
}

// False: there is none. What the peer is told at the same time leaves before: a program that hears of the end
// may end itself.
bool Service::take_event(Channel& channel, Delivered& to) noexcept {
    const LockGuard guard(mutex_);
    while (channel.first != nullptr && another_sends_locked()) {
        settled_.wait(mutex_);
    }
    Id* const id = channel.first;
    if (id == nullptr) {
        return false;
    }
    to.event = id->events[id->event_first];
    id->event_first = (id->event_first + 1) % Id::kMostEvents;
    --id->event_count;
    unlist_locked(*id);
    if (id->event_count != 0) {
        append_locked(*id); // behind those of others, so that nobody starves
    }
    to.fill_public_part();
    to.subject = to.counted = id;
    to.id = reinterpret_cast<sluice_cm_id*>(id);
    to.id_context = id->context;
    if (id->asked != nullptr) {
        to.counted = std::exchange(id->asked, nullptr);
        to.listen_id = reinterpret_cast<sluice_cm_id*>(to.counted);
        to.id_context = to.counted->context;
    }
    ++to.counted->unacknowledged;
    return true;
}

void Service::acknowledge(sluice_cm_event& event) noexcept {
    auto& delivered = static_cast<Delivered&>(event);
    Service& service = delivered.service;
    if (service.gone()) {
        return; // the parent's; its lock may be held for good
    }
    {
        const LockGuard guard(service.mutex_);
        --delivered.counted->unacknowledged;
        service.settled_.notify_all(); // under the lock: then the id is gone
    }
    delete &delivered;
}

// Null: there is none.
Result<sluice_cm_event*> Service::next_event(Channel& channel) {
    std::unique_ptr<Delivered> event(new (std::nothrow) Delivered(*this));
    if (event == nullptr) {
        return Error(ErrorKind::kInsufficientResources, "no memory for an event");
    }
    while (take_event(channel, *event)) {
        if (finish(*event)) {
            return event.release();
        }
    }
    return nullptr;
}

[[gnu::noinline]] int Service::look_for_event(Channel& channel, sluice_cm_event*& found) noexcept {
    return Errno::give(&found, [&] { return next_event(channel); });
}

// A thread may be cancelled while it sleeps: nothing here has to be destroyed.
int Service::get_event(Channel& channel, int timeout_ms, sluice_cm_event*& event) {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::milliseconds(timeout_ms);
    event = nullptr;
    for (;;) {
        if (const int error = look_for_event(channel, event); error != 0 || event != nullptr) {
            return error;
        }
        // Up, so that no time is left when it is over.
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
        if (timeout_ms >= 0 && left <= 0) {
            return EAGAIN;
        }
        pollfd waiting = {.fd = channel.fd, .events = POLLIN, .revents = 0};
        if (poll(&waiting, 1, timeout_ms < 0 ? -1 : static_cast<int>(left)) < 0) {
            return errno;
        }
    }
}

// What the library does for its queue pair before the program hears. False: the event is out of date.
bool Service::finish(Delivered& delivered) noexcept {
    ibv_qp* qp = nullptr;
    bool moved = false;
    {
        const LockGuard guard(mutex_);
        qp = delivered.subject->qp;
        moved = delivered.subject->moved;
    }
    if (qp == nullptr) {
        return true;
    }
    switch (delivered.event.type) {
    case cm::EventType::kConnectResponse:
        return finish_answer(delivered, *qp);
    case cm::EventType::kRejected:
    case cm::EventType::kUnreachable:
    case cm::EventType::kDisconnected:
        if (moved) {
            move_to_error(port_, *qp);
        }
        return true;
    default:
        return true;
    }
}

bool Service::finish_answer(Delivered& delivered, ibv_qp& qp) noexcept {
    Id& id = *delivered.subject;
    cm::QpSettings settings;
    TransitionOptions options;
    {
        const LockGuard guard(mutex_);
        const Result<cm::QpSettings> known = manager_.qp_settings(delivered.event.id);
        if (!known) {
            --delivered.counted->unacknowledged; // it ended meanwhile, and another event says so
            settled_.notify_all();
            return false;
        }
        settings = *known;
        options = id.options;
        id.moved = true;
    }
    const int error = move_to_rts(port_, qp, settings, options);
    const engine::Nanoseconds now = port_.now();
    const Turn turn(*this);
    if (error == 0 && manager_.ready(delivered.event.id)) {
        delivered.type = SLUICE_CM_ESTABLISHED;
        return true;
    }
    if (error != 0 && manager_.reject(delivered.event.id, cm::reason::kConsumer, {}, now)) {
        delivered.type = SLUICE_CM_CONNECT_ERROR;
        delivered.status = error;
        return true;
    }
    --delivered.counted->unacknowledged;
    settled_.notify_all();
    return false;
}

} // namespace sluice::uroce::connect
