// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/service_points.hpp"

#include "core/log.hpp"
#include "udapl/provider/ia.hpp"

namespace sluice::dapl {

namespace {

// More than any service holds back: a request is refused where the dispatcher has no room for it, and nowhere
// before.
constexpr int kBacklog = 4096;

// Whose connection the request EVENT brings, as a Cr that EVD's program hears of. False: it has no room, and
// the request is refused. What EVENT has is gone in any case.
bool announce(glue::ConnectionEvent& event, Ia& ia, Held<Ep> reserved, Event told, Evd& evd,
              const void* front) {
    const Result<void*> handle = ia.adopt(std::make_unique<Cr>(ia, event, std::move(reserved)), front);
    if (!handle) {
        return false; // the peer asks again, or gives up
    }
    told.kind = EventKind::kRequest;
    told.object = *handle;
    if (evd.post(told) == EvdAnswer::kDone) {
        return true;
    }
    // Nobody can know of it.
    if (Result<Pin<Cr>> unheard = handles().get<Cr>(*handle)) {
        (*unheard)->refuse();
        (void)Ia::destroy(*std::move(unheard));
    }
    return false;
}

} // namespace

EpAnswer Cr::accept(Ep& ep, std::span<const std::byte> private_data) {
    const LockGuard guard(mutex_);
    const EpState from = reserved_ ? EpState::kPassive : EpState::kUnconnected;
    return connection_ != nullptr ? ep.accept(connection_, from, private_data) : EpAnswer::kBadState;
}

EpAnswer Cr::reject() {
    const LockGuard guard(mutex_);
    if (connection_ == nullptr) {
        return EpAnswer::kBadState;
    }
    if (const Result<void> done = connection_->reject({}); !done) {
        SLUICE_LOG(kInfo, "dat", "rejecting: %s", done.error().text()); // the peer is gone
    }
    connection_.reset();
    if (reserved_) {
        reserved_->release();
    }
    return EpAnswer::kDone;
}

std::optional<glue::ConnectionEvent> Cr::hand_off() {
    const LockGuard guard(mutex_);
    if (connection_ == nullptr) {
        return std::nullopt;
    }
    if (reserved_) {
        reserved_->release();
    }
    return glue::ConnectionEvent{.kind = glue::ConnectionEventKind::kRequest,
                                 .owner = nullptr,
                                 .request = std::move(connection_),
                                 .private_data = private_data_};
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
    Event told;
    told.source = handle();
    told.cookie = qualifier();
    (void)announce(event, ia(), {}, told, *evd_, front_);
}

EpAnswer Rsp::reserve() noexcept {
    const LockGuard guard(mutex_);
    const EpAnswer answer = ep_->reserve();
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
        ep_->release(EpState::kReserved);
    }
}

// The endpoint is promised first: whoever hears of the request may answer at once.
bool Rsp::on_request(glue::ConnectionEvent& event) {
    std::unique_ptr<glue::Listener> listener;
    const LockGuard guard(mutex_);
    if (event.request == nullptr || listener_ == nullptr || !ep_->promise(event.request->peer_address())) {
        return false; // who is refused so, hears that nobody listens
    }
    Event told;
    told.cookie = qualifier(); // no source: the point is gone when the program hears
    if (!announce(event, ia(), Held<Ep>(ep_.get()), told, *evd_, front_)) {
        ep_->keep_reserved();
        return false;
    }
    listener = std::move(listener_);
    has_reserved_ = false;
    return true;
}

} // namespace sluice::dapl
