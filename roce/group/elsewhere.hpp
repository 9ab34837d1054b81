// SPDX-License-Identifier: BSD-3-Clause
//
// The processes at other addresses of this machine, as far as this member is connected to them (ADR 63, 8).
//
// How one is found. The door of its address is named after address and user. The member that answers sends
// the group's table; that says which seat a queue pair number belongs to, and under which name its holder is
// reached. This member calls that holder, and keeps the line: it asks over it as it asks a member of its
// own group, and the end of the line is the death of the process. A line may also end because the process has
// no room for it: only a name that nobody listens at is a death.
//
// A peer on another machine, of another user or in another network namespace has no such door, and
// nothing is known of it. Where the address is one of this network namespace, and the kernel shows nobody at
// its port either, a peer that was there has ended before it could be called.
//
// Thread safety: watch(), hear(), ask() and is_empty() may be called from any thread; what else there is,
// only from the group's thread, or while that doesn't run.
#pragma once

#include <memory>
#include <vector>

#include "core/sync.hpp"
#include "roce/group/door.hpp"
#include "roce/group/table.hpp"

namespace sluice::roce::group {

class Arrivals;

class Elsewhere {
  public:
    Elsewhere();
    Elsewhere(const Elsewhere&) = delete;
    Elsewhere& operator=(const Elsewhere&) = delete;
    ~Elsewhere() = default;

    Result<void> start();
    // Readable when serve() has something to do.
    int fd() const noexcept { return epoll_.get(); }

    // A queue pair of ours is connected to queue pair PEER_QPN of ADDRESS: the death of its process is
    // reported from now on.
    void watch(const engine::Address& address, std::uint32_t peer_qpn) noexcept;
    // That queue pair has been heard. When we knocked, its process may not have been there.
    void hear(const engine::Address& address, std::uint32_t peer_qpn) noexcept;
    // As Group::ask(). kUnknown: no line leads there; it is called.
    engine::Peer ask(const engine::Ends& ends) noexcept;
    // Whether no process has SEAT of ADDRESS, after the end of a former holder was reported;
    // engine::Share().which() means all seats.
    bool is_empty(const engine::Address& address, std::uint32_t seat) noexcept;

    void serve(Arrivals& arrivals) noexcept;
    // This is the child of a fork: everything here is the parent's.
    void abandon() noexcept;

  private:
    struct Wanted {
        engine::Address address;
        std::uint32_t qpn = 0;
    };
    // A group at another address, whose members have lines from here.
    struct Known {
        engine::Address address;
        std::unique_ptr<Table> table;
    };
    struct Line {
        Descriptor socket;
        const Known* group = nullptr;
        std::uint32_t seat = 0;
        Holder holder = kNobody;
        int calls = 1;
    };
    // Somebody at the door is to send the table.
    struct Visit {
        Descriptor socket;
        engine::Address address;
        std::vector<std::uint32_t> qpns;
        int calls = 1;
    };

    void want_locked(const Wanted& peer) noexcept SLUICE_TSA(requires_capability(changing_));
    bool are_all_empty(const engine::Address& address);
    bool is_seat_empty(const engine::Address& address, std::uint32_t seat);
    bool is_deserted_locked(const engine::Address& address) const noexcept
        SLUICE_TSA(requires_capability(changing_));
    Known* find_locked(const engine::Address& address) const noexcept
        SLUICE_TSA(requires_capability(changing_));
    Line* find_line_locked(const Known& group, Holder holder) noexcept
        SLUICE_TSA(requires_capability(changing_));
    bool is_used_locked(const Known& group) const noexcept SLUICE_TSA(requires_capability(changing_));

    void take_wanted(Arrivals& arrivals);
    void look_for(const Wanted& peer, Arrivals& arrivals);
    bool has_line_to(const Wanted& peer, Arrivals& arrivals);
    void knock(const Wanted& peer, Arrivals& arrivals);
    void serve_one(int descriptor, Arrivals& arrivals);
    bool is_visit(int descriptor) noexcept;
    bool is_line(int descriptor) noexcept;
    void continue_visit(int descriptor, Arrivals& arrivals);
    void visit_ended(Visit visit, Arrivals& arrivals);
    void all_ended(const engine::Address& address, Arrivals& arrivals);
    bool is_wanted(const engine::Address& address) noexcept;
    void enter(const Visit& visit, Descriptor table, Arrivals& arrivals);
    void call_holder(const Known& group, std::uint32_t qpn, Arrivals& arrivals);
    void read_line(int descriptor, Arrivals& arrivals);
    // Whether the process that has the peer of ENDS is at the other end of this line.
    bool is_from_peer(int descriptor, const engine::Ends& ends) noexcept;
    void line_ended(int descriptor, Arrivals& arrivals);
    void forget_unused() noexcept;
    Result<void> watch_descriptor(int descriptor) const;

    Descriptor epoll_;
    Descriptor wake_; // an eventfd: wanted_ isn't empty
    Mutex changing_;  // the group's thread alone changes what follows, but for wanted_ and deserted_
    std::vector<Wanted> wanted_ SLUICE_TSA(guarded_by(changing_)); // within what is reserved
    std::vector<Visit> visits_ SLUICE_TSA(guarded_by(changing_));
    // Where somebody was when we knocked, and nobody is left. watch() forgets one: somebody may be there
    // again.
    std::vector<engine::Address> deserted_ SLUICE_TSA(guarded_by(changing_));
    std::vector<std::unique_ptr<Known>> known_ SLUICE_TSA(guarded_by(changing_));
    // The last ones to which no line leads any more, for is_empty().
    std::vector<std::unique_ptr<Known>> former_ SLUICE_TSA(guarded_by(changing_));
    std::vector<Line> lines_ SLUICE_TSA(guarded_by(changing_));
};

} // namespace sluice::roce::group
