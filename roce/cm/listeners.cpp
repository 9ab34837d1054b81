// SPDX-License-Identifier: BSD-3-Clause
#include "roce/cm/listeners.hpp"

#include <algorithm>

namespace sluice::roce::cm {

namespace {

constexpr std::uint16_t kFirstEphemeral = 32768, kLastEphemeral = 60999;
// perftest's client takes a second from one connection to the next, and its server closes and opens its
// listener meanwhile. As long as a peer on loopback goes on asking often.
constexpr engine::Nanoseconds kMoment = 2'000'000'000;

constexpr engine::Address kAny{};

bool is_wildcard(const engine::Address& address) noexcept {
    return address == kAny || address == kAnyIpv4;
}

bool hears(const engine::Address& listener, const engine::Address& address) noexcept {
    return listener == kAny || listener == address || (listener == kAnyIpv4 && engine::is_ipv4(address));
}

// As in the kernel a program may listen at both wildcards. That of IPv4 has what both hear.
bool exclude_each_other(const engine::Address& one, const engine::Address& other) noexcept {
    const bool are_both_wildcards = is_wildcard(one) && is_wildcard(other);
    return are_both_wildcards ? one == other : hears(one, other) || hears(other, one);
}

} // namespace

Result<ListenerId> Listeners::add(const ListenParams& params) {
    Listener* free = nullptr;
    for (Listener& listener : listeners_) {
        const bool used = listener.id != 0;
        if (used && listener.params.service_id == params.service_id &&
            exclude_each_other(listener.params.local, params.local)) {
            return Error(
                ErrorKind::kExists,
                "another listener has this service or port already; choose another one, or close that one");
        }
        if (!used && listener.pending == 0) {
            free = &listener;
        }
    }
    if (free == nullptr) {
        return Error(ErrorKind::kInsufficientResources, "no room for another listener; close one first");
    }
    if (claims_ != nullptr && !claims_->claim(params.service_id, params.local)) {
        return Error(ErrorKind::kExists,
                     "another process listens at this port of the address already; choose another port, or "
                     "close that one");
    }
    *free = {params, next_id_, 0};
    next_id_ = std::max<std::uint32_t>(next_id_ + 1, 1);
    return static_cast<ListenerId>(free->id);
}

void Listeners::remove(ListenerId id, engine::Nanoseconds now) noexcept {
    for (Listener& listener : listeners_) {
        if (listener.id == static_cast<std::uint32_t>(id) && listener.id != 0) {
            listener.id = 0;
            removed_[removed_count_++ % removed_.size()] = {listener.params.service_id, now};
            give_up(listener.params);
        }
    }
}

// To other processes both wildcards are one claim.
void Listeners::give_up(const ListenParams& params) noexcept {
    const bool is_still_needed =
        is_wildcard(params.local) && std::ranges::any_of(listeners_, [&](const Listener& listener) {
            return listener.id != 0 && listener.params.service_id == params.service_id &&
                   is_wildcard(listener.params.local);
        });
    if (claims_ != nullptr && !is_still_needed) {
        claims_->release(params.service_id, params.local);
    }
}

bool Listeners::has(std::uint64_t service_id) const noexcept {
    return std::ranges::any_of(listeners_, [service_id](const Listener& listener) {
        return listener.id != 0 && listener.params.service_id == service_id;
    });
}

bool Listeners::was_removed_just_now(std::uint64_t service_id, engine::Nanoseconds now) const noexcept {
    const std::size_t known = std::min<std::size_t>(removed_count_, removed_.size());
    return std::any_of(removed_.begin(), removed_.begin() + known, [&](const Removed& removed) {
        return removed.service_id == service_id && now - removed.when < kMoment;
    });
}

Listener* Listeners::find(std::uint64_t service_id, const engine::Address& local) noexcept {
    Listener* found = nullptr;
    for (Listener& listener : listeners_) {
        if (listener.id != 0 && listener.params.service_id == service_id &&
            hears(listener.params.local, local) && (found == nullptr || found->params.local == kAny)) {
            found = &listener;
        }
    }
    return found;
}

Result<std::uint16_t> Listeners::free_port(std::uint16_t port_space, RandomNumbers& random) const noexcept {
    constexpr std::uint32_t kCount = kLastEphemeral - kFirstEphemeral + 1;
    const std::uint32_t start = random.port(kCount);
    for (std::uint32_t i = 0; i < kCount; ++i) {
        const auto port = static_cast<std::uint16_t>(kFirstEphemeral + (start + i) % kCount);
        if (!has(wire::cm_service_id(port_space, port))) {
            return port;
        }
    }
    return Error(ErrorKind::kExists, "every ephemeral port is listened at");
}

void Listeners::enter(Listener& listener, Connection& request) noexcept {
    request.listener = static_cast<std::uint32_t>(&listener - listeners_.data());
    ++listener.pending;
}

void Listeners::leave(Connection& request) noexcept {
    if (request.listener != Connection::kNobody) {
        --listeners_[request.listener].pending;
        request.listener = Connection::kNobody;
    }
}

} // namespace sluice::roce::cm
