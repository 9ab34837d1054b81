// SPDX-License-Identifier: BSD-3-Clause
#include "roce/socket/port_probe.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "core/not_cancelled.hpp"
#include "roce/socket/address.hpp"
#include "roce/wire/headers.hpp"
#include "roce/wire/ip.hpp"
#include "roce/wire/opcode.hpp"

namespace sluice::roce::socket {

namespace {

// A BTH, of a Write in one packet, without all that must follow: every device drops it for its length. With
// less than a BTH, the rxe of Linux 6.1 crashes its kernel.
constexpr std::array<std::uint8_t, wire::Bth::kBytes> kQuestion = {wire::kRcWriteOnly, 0, 0xff, 0xff};

} // namespace

engine::Port PortProbe::look(const engine::Address& local, const engine::Address& peer,
                             engine::Nanoseconds now) noexcept {
    const NotCancelled guard;
    Probe* const probe = find(local, peer, now);
    if (probe == nullptr) {
        return engine::Port::kNotAsked;
    }
    read_answers(*probe, now);
    if (probe->asked_at == 0 || now - probe->asked_at >= kBetween) {
        probe->asked_at = now;
        if (send(probe->socket.get(), kQuestion.data(), kQuestion.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 &&
            errno == ECONNREFUSED) {
            probe->refused_at = now;
        }
    }
    return probe->refused_at != 0 && now - probe->refused_at < kValid ? engine::Port::kRefused
                                                                      : engine::Port::kSilent;
}

void PortProbe::abandon() noexcept {
    for (Probe& probe : probes_) {
        probe.socket.reset();
    }
}

PortProbe::Probe* PortProbe::find(const engine::Address& local, const engine::Address& peer,
                                  engine::Nanoseconds now) noexcept {
    const auto known = std::ranges::find_if(probes_, [&](const Probe& one) {
        return one.asked_at != 0 && one.local == local && one.peer == peer;
    });
    if (known != probes_.end()) {
        return &*known;
    }
    Probe& oldest = *std::ranges::min_element(probes_, {}, &Probe::asked_at);
    const bool is_in_use = oldest.asked_at != 0 && now - oldest.asked_at < kKept;
    return !is_in_use && open(oldest, local, peer) ? &oldest : nullptr;
}

// Connected, so that the kernel gives it what is said about this peer's port, and nothing else.
bool PortProbe::open(Probe& probe, const engine::Address& local, const engine::Address& peer) const noexcept {
    probe = {};
    Descriptor made(::socket(engine::is_ipv4(local) ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const SocketAddress from = to_socket_address(local, 0, scope_);
    const SocketAddress to = to_socket_address(peer, wire::kRocePort, scope_);
    if (made.get() < 0 || bind(made.get(), &from.any, from.bytes) != 0 ||
        connect(made.get(), &to.any, to.bytes) != 0) {
        return false;
    }
    probe.socket = std::move(made);
    probe.local = local;
    probe.peer = peer;
    return true;
}

// A datagram from there would be a sign of life.
void PortProbe::read_answers(Probe& probe, engine::Nanoseconds now) noexcept {
    char first = 0;
    const ssize_t got = recv(probe.socket.get(), &first, sizeof first, MSG_DONTWAIT);
    if (got >= 0) {
        probe.refused_at = 0;
    } else if (errno == ECONNREFUSED) {
        probe.refused_at = now;
    }
}

} // namespace sluice::roce::socket
