// SPDX-License-Identifier: BSD-3-Clause
//
// What a device knows of the processes it talks to: those of its address, and those of this host.
#include "provider/uroce/device/device.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/boundary.hpp"
#include "core/log.hpp"

namespace sluice::uroce::device {

namespace {

// More than a socket's buffer has.
constexpr int kMostFetches = 128;

} // namespace

// Once the rings, and the link until it has nothing; but a sender that goes on and on must not keep the
// caller for ever, and has sent what it sent before with the first socketfuls.
void Device::catch_up() noexcept SLUICE_TSA(no_thread_safety_analysis) {
    if (same_host_ != nullptr) {
        const ProgressSession session(*this);
        rings_due_ = true;
    }
    for (int fetches = 0; link_ != nullptr && fetches < kMostFetches; ++fetches) {
        take_link();
        if (!link_->fetch()) {
            link_taken_.store(false, std::memory_order_release);
            return;
        }
        link_fetched_.store(true, std::memory_order_release); // partner: acquire in read_link()
        if (lock_.leave_note()) {
            progress_and_unlock();
        }
    }
}

void Device::arrived(const engine::InPacket& in) noexcept {
    const engine::Moment now(monotonic_now);
    const ProgressSession session(*this);
    receive(in, counters_.udp, now);
}

bool Device::is_connected(std::uint32_t qpn, const engine::Address& peer, std::uint32_t peer_qpn) noexcept {
    const ProgressSession session(*this);
    return engine_.is_connected(qpn, peer, peer_qpn);
}

void Device::peer_told(const engine::Ends& ends, bool connected) noexcept {
    {
        const ProgressSession session(*this);
        connected ? engine_.peer_answers(ends) : engine_.peer_is_gone(ends);
    }
    const LockGuard guard(making_companion_);
    if (!connected && companion_ != nullptr) {
        companion_->peer_denies(ends);
    }
}

// A process that has taken the seat since may have connections with us: their queue pairs ask it, and so does
// the connection manager.
void Device::member_ended(const engine::Address& address, const engine::Share& its) noexcept {
    {
        const ProgressSession session(*this);
        if (same_host_ != nullptr) {
            same_host_->forget_the_dead();
        }
        engine_.for_each([&](const engine::QueuePair& qp) {
            const engine::QpAttributes& attr = qp.attributes();
            if (engine::awaits_answers(qp.type()) && attr.remote == address && its.owns(attr.dest_qpn) &&
                link_->ask(qp.ends()) == engine::Peer::kGone) {
                engine_.peer_is_gone(qp.qpn());
            }
        });
    }
    const LockGuard guard(making_companion_);
    if (companion_ != nullptr) {
        companion_->process_ended(address, its);
    }
}

// A peer that was heard before a look that finds nobody is gone. So we look once more: one that came after
// the first look may have been heard, too.
void Device::nobody_at(const engine::Address& address) noexcept {
    (void)at_boundary("the end of a peer", [&]() -> Result<void> {
        std::vector<engine::Ends> heard;
        {
            const ProgressSession session(*this);
            if (same_host_ != nullptr) {
                same_host_->forget_the_dead();
            }
            engine_.for_each([&](const engine::QueuePair& qp) {
                if (qp.attributes().remote == address && qp.may_lose_peer()) {
                    heard.push_back(qp.ends());
                }
            });
        }
        if (!heard.empty() && is_seat_empty(address, engine::Share().which())) {
            const ProgressSession session(*this);
            for (const engine::Ends& ends : heard) {
                engine_.peer_is_gone(ends);
            }
        }
        return {};
    });
    const LockGuard guard(making_companion_);
    if (companion_ != nullptr) {
        companion_->process_ended(address, engine::Share());
    }
}

void Device::connection_ended(const engine::Ends& ends) noexcept {
    const ProgressSession session(*this);
    engine_.peer_is_gone(ends);
}

void Device::thread_begins() noexcept {
    if (same_host_ != nullptr && !same_host_->begin_life()) {
        SLUICE_LOG(kInfo, "uroce",
                   "%s: other processes of this host send packets, since this system doesn't "
                   "tell them of the end of this one",
                   where_.name.c_str());
    }
}

void Device::thread_ends() noexcept {
    if (same_host_ != nullptr) {
        same_host_->end_life();
    }
}

// A process that gets it tries at once to read this process's memory.
int Device::board() const noexcept {
    if (same_host_ == nullptr) {
        return -1;
    }
    // Where Yama lets nobody but a parent do so. Elsewhere it is an error, and needless.
    (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    return same_host_->board().descriptor();
}

std::uint64_t Device::board_id() const noexcept {
    return same_host_ != nullptr ? same_host_->board().id() : 0;
}

// Of a board that isn't taken, the owner sends its packets over UDP.
Device::Admission Device::board_came(const Descriptor& board, pid_t pid) noexcept {
    if (same_host_ == nullptr) {
        return {};
    }
    const Result<Admission> added = at_boundary("a process of this host", [&]() -> Result<Admission> {
        Result<near::Peer> peer = near::SameHost::open(board, pid, memory_);
        if (!peer) {
            return std::move(peer).error();
        }
        if (peer->memory == nullptr) {
            SLUICE_LOG(kInfo, "uroce",
                       "%s: packets go to process %d of this host, whose memory this one may not touch",
                       where_.name.c_str(), pid);
        }
        const ProgressSession session(*this);
        const near::Peer* const known = same_host_->add(*std::move(peer));
        return known == nullptr || known->from_it == nullptr ? Admission{.is_taken = known != nullptr}
                                                             : Admission{.is_taken = true,
                                                                         .ring = known->from_it->descriptor(),
                                                                         .bell = same_host_->bell().far_end(),
                                                                         .place = known->place};
    });
    if (!added) {
        SLUICE_LOG(kInfo, "uroce", "%s: packets come from process %d of this host: %s", where_.name.c_str(),
                   pid, added.error().text());
    }
    return added ? *added : Admission();
}

void Device::board_taken(pid_t pid, Admittance given) noexcept {
    if (same_host_ == nullptr) {
        return;
    }
    std::unique_ptr<near::RingWriter> writer;
    if (given.ring.get() >= 0) {
        const Result<void> mapped = at_boundary("a process of this host", [&]() -> Result<void> {
            Result<near::RingWriter> made = near::RingWriter::map(given.ring);
            if (!made) {
                return std::move(made).error();
            }
            writer = std::make_unique<near::RingWriter>(*std::move(made));
            return {};
        });
        if (!mapped) {
            SLUICE_LOG(kInfo, "uroce", "%s: UDP carries packets to a process of this host: %s",
                       where_.name.c_str(), mapped.error().text());
        }
    }
    const ProgressSession session(*this);
    same_host_->waits_for_us(
        given.id, pid, {.ring = std::move(writer), .bell = std::move(given.bell), .place = given.place});
}

bool Device::is_in_this_process(const engine::Address& address, std::uint32_t qpn) noexcept {
    if (address == where_.gid || (link_ != nullptr && link_->is_shared(address))) {
        return share_.owns(qpn);
    }
    const Neighbour* const neighbour = neighbours_.find(address);
    return neighbour != nullptr && neighbour->has_number(qpn);
}

void Device::watch_peer(const engine::QueuePair& qp) noexcept {
    const engine::QpAttributes& attr = qp.attributes();
    if (link_ != nullptr && !is_in_this_process(attr.remote, attr.dest_qpn)) {
        link_->watch(attr.remote, attr.dest_qpn);
    }
}

void Device::peer_heard(const engine::Ends& ends) noexcept {
    if (link_ != nullptr && !is_in_this_process(ends.remote, ends.peer_qpn)) {
        link_->hear(ends.remote, ends.peer_qpn);
    }
}

// In this process nobody starves, and no packet is lost.
engine::Peer Device::silent_peer(const engine::Ends& ends) noexcept {
    if (is_in_this_process(ends.remote, ends.peer_qpn)) {
        return engine::Peer::kGone;
    }
    return link_ != nullptr ? link_->ask(ends) : engine::Peer::kUnknown;
}

// This process lives, whatever its peer's thread is about.
engine::Peer Device::find_peer(const engine::Ends& ends) noexcept {
    return is_in_this_process(ends.remote, ends.peer_qpn) ? engine::Peer::kLives : silent_peer(ends);
}

// This process's own ports are there.
engine::Port Device::look_at_port(const engine::Ends& ends) noexcept {
    const bool is_here = link_ == nullptr || ends.remote == where_.gid || link_->is_shared(ends.remote) ||
                         neighbours_.find(ends.remote) != nullptr;
    return is_here ? engine::Port::kNotAsked : link_->look_at_port(ends, monotonic_now());
}

} // namespace sluice::uroce::device
