// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/service_points.hpp"

#include "core/boundary.hpp"
#include "core/log.hpp"
#include "udapl/provider/ia_context.hpp"

namespace sluice::dapl {

namespace {

// More than any service holds back: a request is refused where the dispatcher has no room for it, and nowhere
// before.
constexpr int kBacklog = 4096;

// Makes a Cr of the request that EVENT brings, and an event for EVD's program. False: it has no room, and the
// request is refused. EVENT's request and data are gone, unless there was no memory for them.
bool announce(glue::ConnectionEvent& event, IaContext& ia, Ref<Ep> reserved, Event arrival, Evd& evd,
              const void* front) {
    const Result<void*> handle = at_boundary("a request for a connection", [&] {
        return ia.adopt(std::make_unique<Cr>(ia, event, std::move(reserved)), front);
    });
    if (!handle) {
        return false; // the peer asks again, or gives up
    }
    arrival.kind = EventKind::kRequest;
    arrival.object = *handle;
    if (evd.post(arrival) == EvdAnswer::kDone) {
        return true;
    }
    // The program doesn't know of it.
    if (Result<Pin<Cr>> unheard = handles().get<Cr>(*handle)) {
        (*unheard)->refuse();
        (void)IaContext::destroy(*std::move(unheard));
    }
    return false;
}

} // namespace

EpAnswer Cr::accept(Ep& ep, std::span<const std::byte> private_data) {
    const LockGuard guard(mutex_);
    const EpState from = reserved_ ? EpState::kPassive : EpState::kUnconnected;
    return connection_ != nullptr ? ep.connection().accept(connection_, from, private_data)
                                  : EpAnswer::kBadState;
}

EpAnswer Cr::reject(std::span<const std::byte> private_data) {
    const LockGuard guard(mutex_);
    if (connection_ == nullptr) {
        return EpAnswer::kBadState;
    }
    if (private_data.size() > ia().connections().limits().reject) {
        return EpAnswer::kPrivateDataTooLong;
    }
    if (const Result<void> done = connection_->reject(private_data); !done) {
        SLUICE_LOG(kInfo, "dat", "rejecting: %s", done.error().text()); // the peer is gone
    }
    connection_.reset();
    if (reserved_) {
        reserved_->connection().release();
    }
    return EpAnswer::kDone;
}

std::optional<glue::ConnectionEvent> Cr::hand_off() {
    const LockGuard guard(mutex_);
    if (connection_ == nullptr) {
        return std::nullopt;
    }
    std::vector<std::byte> data = private_data_; // before anything is changed: there may be no memory
    if (reserved_) {
        reserved_->connection().release();
    }
    return glue::ConnectionEvent{.kind = glue::ConnectionEventKind::kRequest,
                                 .owner = nullptr,
                                 .request = std::move(connection_),
                                 .private_data = std::move(data)};
}

void Cr::refuse() noexcept {
    const LockGuard guard(mutex_);
    if (connection_ != nullptr) {
        (void)connection_->refuse(); // the peer may be gone
    }
}

Result<void> Psp::listen(std::uint64_t& qualifier) {
    const LockGuard guard(mutex_);
    Result<std::unique_ptr<glue::Listener>> listener =
        ia().connections().listen(port_of(qualifier), kBacklog, handle());
    if (!listener) {
        return std::move(listener).error();
    }
    listener_ = *std::move(listener);
    qualifier = qualifier != 0 ? qualifier : listener_->port();
    qualifier_ = qualifier;
    return {};
}

void Psp::abandon() noexcept {
    std::unique_ptr<glue::Listener> listener; // goes without the lock
    const LockGuard guard(mutex_);
    listener = std::move(listener_);
}

void Psp::on_request(glue::ConnectionEvent& event) {
    if (event.request == nullptr) {
        return;
    }
    Event arrival;
    arrival.source = handle();
    arrival.cookie = qualifier();
    (void)announce(event, ia(), {}, arrival, *evd_, front_);
}

EpAnswer Rsp::reserve() noexcept {
    const LockGuard guard(mutex_);
    const EpAnswer answer = ep_->connection().reserve();
    has_reserved_ = answer == EpAnswer::kDone;
    return answer;
}

Result<void> Rsp::listen(std::uint64_t& qualifier) {
    const LockGuard guard(mutex_);
    Result<std::unique_ptr<glue::Listener>> listener =
        ia().connections().listen(port_of(qualifier), kBacklog, handle());
    if (!listener) {
        return std::move(listener).error();
    }
    listener_ = *std::move(listener);
    qualifier_ = qualifier;
    return {};
}

// Its endpoint is the program's again, unless a request for it has come.
void Rsp::abandon() noexcept {
    std::unique_ptr<glue::Listener> listener; // goes without the lock
    const LockGuard guard(mutex_);
    listener = std::move(listener_);
    let_go_locked();
}

Rsp::~Rsp() {
    const LockGuard guard(mutex_);
    let_go_locked(); // it never listened
}

void Rsp::let_go_locked() noexcept {
    if (std::exchange(has_reserved_, false)) {
        ep_->connection().release(EpState::kReserved);
    }
}

// The endpoint is promised first: the program may answer as soon as it has the event.
bool Rsp::on_request(glue::ConnectionEvent& event) {
    std::unique_ptr<glue::Listener> listener;
    const LockGuard guard(mutex_);
    if (event.request == nullptr || listener_ == nullptr || !ep_->connection().promise(*event.request)) {
        return false; // its peer is refused as where no point listens
    }
    Event arrival;
    arrival.cookie = qualifier(); // no source: the point is gone when the program gets this
    if (!announce(event, ia(), Ref<Ep>(ep_.get()), arrival, *evd_, front_)) {
        ep_->connection().release(EpState::kPassive, EpState::kReserved);
        return false;
    }
    listener = std::move(listener_);
    has_reserved_ = false;
    return true;
}

} // namespace sluice::dapl
