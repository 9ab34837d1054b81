// SPDX-License-Identifier: BSD-3-Clause
//
// Connections: how they come about, and how they end. What an endpoint is made of is in ep_parts.cpp, posts
// are in ep_post.cpp.
#include "udapl/provider/ep.hpp"

#include <cerrno>

#include "core/boundary.hpp"
#include "core/log.hpp"
#include "udapl/provider/ia.hpp"

namespace sluice::dapl {

namespace {

EpAnswer failed(const Error& error) noexcept {
    SLUICE_LOG(kInfo, "dat", "an endpoint: %s (%d)", error.text(), error.os_errno());
    if (error.kind() == ErrorKind::kInsufficientResources) {
        return EpAnswer::kNoResources;
    }
    switch (error.os_errno()) {
    case EMSGSIZE:
        return EpAnswer::kPrivateDataTooLong;
    case EAFNOSUPPORT:
    case EADDRNOTAVAIL:
    case ENETUNREACH:
    case EHOSTUNREACH:
        return EpAnswer::kBadAddress;
    default:
        return EpAnswer::kFailed;
    }
}

// Whoever asked has gone since: a handshake that fails, and no mistake of the program's.
bool is_withdrawn(const Error& error) noexcept {
    return error.os_errno() == EINVAL || error.os_errno() == ENOTCONN || error.os_errno() == ECONNRESET;
}

} // namespace

// The events of a connection name the endpoint by its handle: none reaches it any more.
void Ep::abandon() noexcept {
    std::unique_ptr<glue::Connection> connection;
    {
        const LockGuard guard(mutex_);
        connection = std::move(connection_);
        forget_deadline_locked();
        state_ = EpState::kDisconnected;
    }
    if (connection != nullptr) {
        (void)connection->disconnect(); // it may have ended already
    }
}

glue::ConnectionOptions Ep::connection_options(std::span<const std::byte> private_data) const noexcept {
    glue::ConnectionOptions options;
    options.private_data = private_data;
    options.reads_in = parts_.options.max_reads_in;
    options.reads_out = parts_.options.max_reads_out;
    options.has_shared_receive_queue = static_cast<bool>(parts_.srq);
    return options;
}

bool Ep::is_pending_locked() const noexcept {
    return state() == EpState::kConnecting || state() == EpState::kAccepting;
}

void Ep::forget_deadline_locked() noexcept {
    if (deadline_ != kNever) {
        ia().forget_time(std::exchange(deadline_, kNever), handle());
    }
}

EpAnswer Ep::connect(const EpPeer& peer, std::uint32_t timeout_us, std::span<const std::byte> private_data) {
    const LockGuard guard(mutex_);
    if (state() != EpState::kUnconnected) {
        return EpAnswer::kBadState;
    }
    Result<std::unique_ptr<glue::Connection>> made = ia().connections().make_connection(handle());
    if (!made) {
        return failed(made.error());
    }
    const glue::QueuePair& qp = *qp_;
    const glue::ConnectionOptions options = connection_options(private_data);
    const std::uint64_t deadline = deadline_ns(timeout_us);
    if (deadline != kNever) {
        ia().wake_at(deadline, handle());
        deadline_ = deadline;
    }
    state_ = EpState::kConnecting;
    const Result<void> begun =
        at_boundary("connecting", [&] { return (*made)->connect(peer.address, qp, options); });
    if (!begun) {
        forget_deadline_locked();
        state_ = EpState::kUnconnected;
        return failed(begun.error());
    }
    connection_ = *std::move(made);
    peer_ = peer;
    return EpAnswer::kDone;
}

EpAnswer Ep::reserve() noexcept {
    const LockGuard guard(mutex_);
    if (state() != EpState::kUnconnected) {
        return EpAnswer::kBadState;
    }
    state_ = EpState::kReserved;
    return EpAnswer::kDone;
}

bool Ep::promise(const glue::Address& peer) noexcept {
    const LockGuard guard(mutex_);
    if (state() != EpState::kReserved) {
        return false;
    }
    peer_ = {peer, peer.port()};
    state_ = EpState::kPassive;
    return true;
}

void Ep::keep_reserved() noexcept {
    const LockGuard guard(mutex_);
    state_ = state() == EpState::kPassive ? EpState::kReserved : state();
}

void Ep::release(EpState from) noexcept {
    const LockGuard guard(mutex_);
    state_ = state() == from ? EpState::kUnconnected : state();
}

EpAnswer Ep::accept(std::unique_ptr<glue::Connection>& request, EpState from,
                    std::span<const std::byte> private_data) {
    const LockGuard guard(mutex_);
    if (state() != from) {
        return EpAnswer::kBadState;
    }
    const glue::QueuePair& qp = *qp_;
    const glue::ConnectionOptions options = connection_options(private_data);
    state_ = EpState::kAccepting;
    request->set_owner(handle());
    const Result<void> begun = at_boundary("accepting", [&] { return request->accept(qp, options); });
    if (!begun && !is_withdrawn(begun.error())) {
        request->set_owner(nullptr);
        state_ = from;
        return failed(begun.error());
    }
    peer_.address = request->peer_address();
    peer_.qualifier = peer_.address.port();
    local_port_ = request->local_address().port();
    connection_ = std::move(request);
    if (!begun) {
        end_locked(EventKind::kAcceptError);
    }
    return EpAnswer::kDone;
}

void Ep::tell_locked(EventKind kind) noexcept {
    if (!parts_.evds.connect) {
        return; // the program doesn't want to know
    }
    Event event;
    event.kind = kind;
    event.object = handle();
    if (kind == EventKind::kEstablished && !peer_data_.empty()) {
        event.data = peer_data_.data();
        event.length = peer_data_.size();
    }
    if (parts_.evds.connect->post(event) != EvdAnswer::kDone) {
        ia().tell_overflow(*parts_.evds.connect);
    }
}

// Whatever is posted is flushed. Completions that are there come before the event that says that there will
// be no more.
void Ep::end_locked(EventKind kind) noexcept {
    forget_deadline_locked();
    if (state() == EpState::kDisconnecting) {
        parts_.evds.request->await_idle(requests_, handle(), false);
    }
    state_ = EpState::kDisconnected;
    {
        // Whoever posts from now on sees the state; who was at it, is done, and is flushed.
        const LockGuard no_requests(requests_.lock());
        const LockGuard no_receives(receives_.lock());
    }
    (void)qp_->to_error(); // fails where it is there already, or the device is gone
    for (const Held<Evd>* evd : {&parts_.evds.request, &parts_.evds.receive}) {
        if (*evd && evd->get() == parts_.evds.connect.get()) {
            (*evd)->collect();
        }
    }
    tell_locked(kind);
}

void Ep::hang_up_locked() noexcept {
    if (connection_ != nullptr) {
        (void)connection_->disconnect(); // the peer may have been first
    }
}

void Ep::break_locked() noexcept {
    if (state() == EpState::kConnected || state() == EpState::kDisconnecting) {
        hang_up_locked();
        end_locked(EventKind::kBroken);
    }
}

// Posts see the new state from now on. None is under way any more once their lock was free.
EpAnswer Ep::begin_drain_locked() noexcept {
    state_ = EpState::kDisconnecting;
    if (!parts_.evds.request || (!post_marker() && !is_request_idle())) {
        hang_up_locked();
        end_locked(EventKind::kDisconnected);
        return EpAnswer::kDone;
    }
    parts_.evds.request->await_idle(requests_, handle(), true);
    return EpAnswer::kDone;
}

EpAnswer Ep::disconnect(bool is_graceful) {
    std::unique_ptr<glue::Connection> unmade; // what is only being made ends with it, without the lock
    const LockGuard guard(mutex_);
    switch (state()) {
    case EpState::kDisconnected:
        return EpAnswer::kDone;
    case EpState::kUnconnected:
    case EpState::kReserved:
    case EpState::kPassive:
        return EpAnswer::kBadState;
    case EpState::kConnecting:
    case EpState::kAccepting:
        unmade = std::move(connection_);
        end_locked(EventKind::kDisconnected);
        return EpAnswer::kDone;
    case EpState::kDisconnecting:
        if (is_graceful) {
            return EpAnswer::kDone;
        }
        break;
    case EpState::kConnected:
        if (is_graceful) {
            return begin_drain_locked();
        }
        break;
    }
    hang_up_locked();
    end_locked(EventKind::kDisconnected);
    return EpAnswer::kDone;
}

void Ep::settle(const Unsettled& told) noexcept {
    const LockGuard guard(mutex_);
    if (told.connection != requests_.connection()) {
        return; // of a connection that was reset since
    }
    if (told.holds_soft) {
        ia().tell({EventKind::kEpHeldTooMany, handle()});
    }
    if (told.has_failed || told.holds_hard) {
        break_locked();
    } else if (told.is_drained && state() == EpState::kDisconnecting) {
        hang_up_locked();
        end_locked(EventKind::kDisconnected);
    }
}

// The queue pair is in error: what its peer asked for couldn't be, or the device has a fault.
void Ep::on_device_error() noexcept {
    const LockGuard guard(mutex_);
    if (state() != EpState::kDisconnected) {
        ia().tell({EventKind::kEpBroken, handle()});
    }
    break_locked();
}

void Ep::on_communication() noexcept {
    const LockGuard guard(mutex_);
    if (state() == EpState::kAccepting && connection_ != nullptr) {
        (void)connection_->notify_communication(); // the manager may have heard by itself
    }
}

void Ep::on_time(std::uint64_t now) noexcept {
    std::unique_ptr<glue::Connection> unmade;
    const LockGuard guard(mutex_);
    if (state() == EpState::kConnecting && deadline_ <= now) {
        unmade = std::move(connection_);
        end_locked(EventKind::kTimedOut);
    }
}

void Ep::on_event(glue::ConnectionEvent& event) {
    const LockGuard guard(mutex_);
    const bool is_active = state() == EpState::kConnecting;
    const bool is_pending = is_pending_locked();
    if (connection_ == nullptr) {
        return; // it has been given up since
    }
    switch (event.kind) {
    case glue::ConnectionEventKind::kEstablished:
        if (is_pending) {
            forget_deadline_locked();
            peer_data_ = is_active ? std::move(event.private_data) : std::vector<std::byte>();
            local_port_ = connection_->local_address().port();
            state_ = EpState::kConnected;
            tell_locked(EventKind::kEstablished);
        }
        return;
    case glue::ConnectionEventKind::kRejected:
        if (is_pending) {
            const EventKind why =
                event.by_the_program ? EventKind::kPeerRejected : EventKind::kNonPeerRejected;
            end_locked(is_active ? why : EventKind::kAcceptError);
        }
        return;
    case glue::ConnectionEventKind::kUnreachable:
    case glue::ConnectionEventKind::kFailed:
        if (is_pending) {
            // Also when nobody answers: what times out is the program's own time, which on_time() looks
            // after.
            end_locked(is_active ? EventKind::kUnreachable : EventKind::kAcceptError);
        }
        return;
    case glue::ConnectionEventKind::kDisconnected:
        if (state() != EpState::kDisconnected) {
            end_locked(is_pending && !is_active ? EventKind::kAcceptError : EventKind::kDisconnected);
        }
        return;
    case glue::ConnectionEventKind::kDeviceGone:
        if (state() != EpState::kDisconnected) {
            end_locked(EventKind::kBroken);
        }
        return;
    case glue::ConnectionEventKind::kTimedWait:
    case glue::ConnectionEventKind::kRequest:
        return; // nothing for an endpoint
    }
}

} // namespace sluice::dapl
