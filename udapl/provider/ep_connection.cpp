// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/ep_connection.hpp"

#include <cerrno>

#include "core/boundary.hpp"
#include "core/log.hpp"
#include "udapl/provider/ia_context.hpp"

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

// The peer has gone since: a handshake that fails, and no mistake of the program's.
bool is_withdrawn(const Error& error) noexcept {
    return error.os_errno() == EINVAL || error.os_errno() == ENOTCONN || error.os_errno() == ECONNRESET;
}

} // namespace

void EpConnection::abandon() noexcept {
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

void EpConnection::stop() noexcept {
    ep_.ia().loop().cancel(*this);
}

void EpConnection::forget_locked() noexcept {
    peer_data_.clear();
    state_ = EpState::kUnconnected;
}

std::optional<EpPeer> EpConnection::peer() noexcept {
    const LockGuard guard(mutex_);
    return state() == EpState::kConnected ? std::optional(peer_) : std::nullopt;
}

void EpConnection::describe_locked(EpView& view) const noexcept {
    view.state = state();
    if (view.state != EpState::kUnconnected && view.state != EpState::kReserved &&
        view.state != EpState::kDisconnected) {
        view.peer = &peer_.address;
        view.peer_qualifier = peer_.qualifier;
        view.local_port = view.state == EpState::kConnecting ? connection_->local_port() : local_port_;
    }
}

glue::ConnectionOptions EpConnection::options(std::span<const std::byte> private_data) const noexcept {
    const EpSetup& setup = queues_.setup();
    glue::ConnectionOptions options;
    options.private_data = private_data;
    options.reads_in = setup.options.max_reads_in;
    options.reads_out = setup.options.max_reads_out;
    options.has_shared_receive_queue = static_cast<bool>(setup.srq);
    return options;
}

bool EpConnection::is_pending_locked() const noexcept {
    return state() == EpState::kConnecting || state() == EpState::kAccepting;
}

void EpConnection::forget_deadline_locked() noexcept {
    if (std::exchange(deadline_, kNever) != kNever) {
        ep_.ia().loop().wake_at(*this, kNever);
    }
}

EpAnswer EpConnection::connect(const EpPeer& peer, std::uint32_t timeout_us,
                               std::span<const std::byte> private_data) {
    const LockGuard guard(mutex_);
    if (state() != EpState::kUnconnected) {
        return EpAnswer::kBadState;
    }
    Result<std::unique_ptr<glue::Connection>> made = ep_.ia().connections().make_connection(ep_.handle());
    if (!made) {
        return failed(made.error());
    }
    const glue::QueuePair& qp = queues_.queue_pair();
    const glue::ConnectionOptions options = this->options(private_data);
    const std::uint64_t deadline = deadline_ns(timeout_us);
    if (deadline != kNever) {
        ep_.ia().loop().wake_at(*this, deadline);
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

EpAnswer EpConnection::reserve() noexcept {
    const LockGuard guard(mutex_);
    if (state() != EpState::kUnconnected) {
        return EpAnswer::kBadState;
    }
    state_ = EpState::kReserved;
    return EpAnswer::kDone;
}

bool EpConnection::promise(const glue::Connection& request) noexcept {
    const LockGuard guard(mutex_);
    if (state() != EpState::kReserved) {
        return false;
    }
    peer_ = {request.peer_address(), request.peer_address().port()};
    local_port_ = request.local_port();
    state_ = EpState::kPassive;
    return true;
}

void EpConnection::release(EpState from, EpState to) noexcept {
    const LockGuard guard(mutex_);
    state_ = state() == from ? to : state();
}

EpAnswer EpConnection::accept(std::unique_ptr<glue::Connection>& request, EpState from,
                              std::span<const std::byte> private_data) {
    const LockGuard guard(mutex_);
    if (state() != from) {
        return EpAnswer::kBadState;
    }
    const glue::QueuePair& qp = queues_.queue_pair();
    const glue::ConnectionOptions options = this->options(private_data);
    state_ = EpState::kAccepting;
    request->set_owner(ep_.handle());
    const Result<void> begun = at_boundary("accepting", [&] { return request->accept(qp, options); });
    if (!begun && !is_withdrawn(begun.error())) {
        request->set_owner(nullptr);
        state_ = from;
        return failed(begun.error());
    }
    peer_.address = request->peer_address();
    peer_.qualifier = peer_.address.port();
    local_port_ = request->local_port();
    connection_ = std::move(request);
    if (!begun) {
        end_locked(EventKind::kAcceptError);
    }
    return EpAnswer::kDone;
}

void EpConnection::report_locked(EventKind kind) noexcept {
    const Ref<Evd>& evd = queues_.setup().evds.connect;
    if (!evd) {
        return; // the program wants no such events
    }
    Event event;
    event.kind = kind;
    event.object = ep_.handle();
    const bool has_data = kind == EventKind::kEstablished || kind == EventKind::kPeerRejected;
    if (has_data && !peer_data_.empty()) {
        event.data = peer_data_.data();
        event.length = peer_data_.size();
    }
    if (evd->post(event) != EvdAnswer::kDone) {
        evd->ia().report_overflow(*evd);
    }
}

// Everything that is posted is flushed. Completions that are there come before the event that says that there
// will be no more.
void EpConnection::end_locked(EventKind kind) noexcept {
    forget_deadline_locked();
    if (state() == EpState::kDisconnecting) {
        queues_.end_drain();
    }
    const EpState former = state_.exchange(EpState::kDisconnected);
    queues_.flush_posted();
    report_locked(kind);
    const bool took_receives = former == EpState::kConnected || former == EpState::kDisconnecting;
    if (took_receives && queues_.setup().srq && ep_.ia().options().announces_last_receives) {
        ep_.ia().report({EventKind::kEpLastReceive, ep_.handle()});
    }
}

void EpConnection::hang_up_locked() noexcept {
    if (connection_ != nullptr) {
        (void)connection_->disconnect(); // the peer may have been first
    }
}

void EpConnection::break_locked() noexcept {
    if (state() == EpState::kConnected || state() == EpState::kDisconnecting) {
        hang_up_locked();
        end_locked(EventKind::kBroken);
    }
}

void EpConnection::fail_locked() noexcept {
    if (state() != EpState::kDisconnected) {
        ep_.ia().report({EventKind::kEpBroken, ep_.handle()});
    }
    break_locked();
}

// Posts see the new state from now on. None is in flight any more once their lock was free.
EpAnswer EpConnection::begin_drain_locked() noexcept {
    state_ = EpState::kDisconnecting;
    if (!queues_.begin_drain()) {
        hang_up_locked();
        end_locked(EventKind::kDisconnected);
    }
    return EpAnswer::kDone;
}

EpAnswer EpConnection::disconnect(bool is_graceful) {
    std::unique_ptr<glue::Connection>
        unmade; // a connection that isn't established yet ends with it, without the lock
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

// A peer that is connected writes to memory here by itself, and this can overtake its answer to the
// acceptance. A program that watches its memory then posts, and no event has told it or us that it may.
bool EpConnection::await_handshake() const noexcept {
    constexpr std::uint32_t kPatienceMicroseconds = 200'000;
    constexpr timespec kPause{0, 20'000};
    // The handshake ends in the loop's thread, where agents of the program's run, too.
    const bool can_end = !ep_.ia().loop().is_own_thread();
    const std::uint64_t deadline = can_end ? deadline_ns(kPatienceMicroseconds) : 0;
    while (state() == EpState::kAccepting && now_ns() < deadline) {
        nanosleep(&kPause, nullptr);
    }
    return state() == EpState::kConnected;
}

void EpConnection::on_reports() noexcept {
    const LockGuard guard(mutex_);
    const RingReport report = queues_.take_report();
    if (report.is_overrun) {
        fail_locked();
    }
    if (report.holds_soft) {
        ep_.ia().report({EventKind::kEpHeldTooMany, ep_.handle()});
    }
    if (report.has_failed || report.holds_hard) {
        break_locked();
    } else if (report.is_drained && state() == EpState::kDisconnecting) {
        hang_up_locked();
        end_locked(EventKind::kDisconnected);
    }
}

// The queue pair is in error: a request of the peer's couldn't be done, or the device has a fault.
void EpConnection::on_device_error() noexcept {
    const LockGuard guard(mutex_);
    fail_locked();
}

void EpConnection::on_communication() noexcept {
    const LockGuard guard(mutex_);
    if (state() == EpState::kAccepting && connection_ != nullptr) {
        (void)connection_->notify_communication(); // the manager may have heard by itself
    }
}

void EpConnection::on_time() noexcept {
    std::unique_ptr<glue::Connection> unmade;
    const LockGuard guard(mutex_);
    if (state() == EpState::kConnecting && deadline_ <= now_ns()) {
        unmade = std::move(connection_);
        end_locked(EventKind::kTimedOut);
    }
}

void EpConnection::establish_locked(glue::ConnectionEvent& event) noexcept {
    const bool is_active = state() == EpState::kConnecting;
    forget_deadline_locked();
    peer_data_ = is_active ? std::move(event.private_data) : std::vector<std::byte>();
    local_port_ = connection_->local_port();
    state_ = EpState::kConnected;
    report_locked(EventKind::kEstablished);
    queues_.check_watermarks();
}

void EpConnection::on_event(glue::ConnectionEvent& event) {
    const LockGuard guard(mutex_);
    const bool is_active = state() == EpState::kConnecting;
    const bool is_pending = is_pending_locked();
    if (connection_ == nullptr) {
        return; // it has been given up since
    }
    switch (event.kind) {
    case glue::ConnectionEventKind::kEstablished:
        if (is_pending) {
            establish_locked(event);
        }
        return;
    case glue::ConnectionEventKind::kRejected:
        if (is_pending) {
            const EventKind why =
                event.by_the_program ? EventKind::kPeerRejected : EventKind::kNonPeerRejected;
            peer_data_ = is_active ? std::move(event.private_data) : std::vector<std::byte>();
            end_locked(is_active ? why : EventKind::kAcceptError);
        }
        return;
    case glue::ConnectionEventKind::kUnreachable:
    case glue::ConnectionEventKind::kFailed:
        if (is_pending) {
            // Also when no peer answers: only the program's own time limit is a timeout, and on_time() sees
            // to that.
            end_locked(is_active ? EventKind::kUnreachable : EventKind::kAcceptError);
        }
        return;
    case glue::ConnectionEventKind::kDisconnected:
        if (is_pending && !is_active) {
            establish_locked(event); // the peer ends what it has; its word that it has it was lost
        }
        if (state() != EpState::kDisconnected) {
            end_locked(EventKind::kDisconnected);
        }
        return;
    case glue::ConnectionEventKind::kPeerDied:
    case glue::ConnectionEventKind::kDeviceGone:
        if (state() != EpState::kDisconnected) {
            end_locked(is_pending && !is_active ? EventKind::kAcceptError : EventKind::kBroken);
        }
        return;
    case glue::ConnectionEventKind::kTimedWait:
    case glue::ConnectionEventKind::kRequest:
    case glue::ConnectionEventKind::kAddressFound:
    case glue::ConnectionEventKind::kPathFound:
        return; // nothing for an endpoint
    }
}

} // namespace sluice::dapl
