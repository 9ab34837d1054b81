// SPDX-License-Identifier: BSD-3-Clause
#include "roce/group/elsewhere.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "core/boundary.hpp"
#include "core/event_descriptor.hpp"
#include "core/file_tree.hpp"
#include "core/log.hpp"
#include "core/not_cancelled.hpp"
#include "roce/group/arrivals.hpp"
#include "roce/group/messages.hpp"
#include "roce/socket/address.hpp"
#include "roce/socket/port_owner.hpp"

namespace sluice::roce::group {

namespace {

constexpr std::size_t kMostLines = 4096; // several addresses with all their seats
constexpr std::size_t kMostWanted = 4096;
constexpr int kMostCalls = 8; // of one that hangs up each time: it has no room
constexpr int kEventsPerTurn = 16;
constexpr std::size_t kMostBytes = 256; // of what comes over a line
constexpr std::size_t kMostFormer = 16; // more than there are ends that nobody has looked at yet

bool is_gone(const Error& error) noexcept {
    return error.kind() == ErrorKind::kNotFound;
}

bool is_door_gone(const engine::Address& address) {
    const Result<Descriptor> door = call(door_name(address));
    return !door && is_gone(door.error());
}

bool has_members(const Table& table) noexcept {
    for (std::uint32_t seat = 0; seat < kSeats; ++seat) {
        if (table.holder(seat) != kNobody) {
            return true;
        }
    }
    return false;
}

// An address of this network namespace at which no process receives, of ours or not. One that is link-local
// may be another machine's, too, at another interface. The kernel's tables are looked at twice: what is read
// while sockets are closed may lack others.
bool is_left_by_all(const engine::Address& address) {
    const FileTree machine;
    return !socket::is_link_local(address) && socket::find_network_device(address).ok() &&
           socket::is_port_free(machine, address) && socket::is_port_free(machine, address);
}

// Without taking anything from it.
bool has_ended(int descriptor) noexcept {
    char first = 0;
    const NotCancelled guard;
    const ssize_t got = recv(descriptor, &first, sizeof first, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

} // namespace

Elsewhere::Elsewhere() {
    wanted_.reserve(kMostWanted);
    former_.reserve(kMostFormer);
}

Result<void> Elsewhere::start() {
    epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
    wake_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (epoll_.get() < 0 || wake_.get() < 0) {
        return Error::from_errno(errno, "no descriptors for peers at other addresses; raise `ulimit -n`");
    }
    return watch_descriptor(wake_.get());
}

Result<void> Elsewhere::watch_descriptor(int descriptor) const {
    epoll_event event{.events = EPOLLIN, .data = {.fd = descriptor}};
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) {
        return Error::from_errno(errno, "can't watch a descriptor for peers at other addresses");
    }
    return {};
}

// Nothing is locked: the threads that had the lock are the parent's.
void Elsewhere::abandon() noexcept SLUICE_TSA(no_thread_safety_analysis) {
    epoll_.reset();
    wake_.reset();
    for (Visit& visit : visits_) {
        visit.socket.reset();
    }
    for (Line& line : lines_) {
        line.socket.reset();
    }
    for (const auto* all : {&known_, &former_}) {
        for (const auto& known : *all) {
            known->table->abandon();
        }
    }
}

// Without room it is lost, and wanted again when the peer is silent.
void Elsewhere::want_locked(const Wanted& peer) noexcept {
    if (wanted_.size() < wanted_.capacity()) {
        wanted_.push_back(peer);
        ring_eventfd(wake_.get());
    }
}

void Elsewhere::watch(const engine::Address& address, std::uint32_t peer_qpn) noexcept {
    const LockGuard guard(changing_);
    std::erase(deserted_, address); // somebody may have come since
    want_locked({address, peer_qpn});
}

void Elsewhere::hear(const engine::Address& address, std::uint32_t peer_qpn) noexcept {
    const LockGuard guard(changing_);
    if (const Known* const known = find_locked(address)) {
        const std::uint32_t seat = engine::Share::share_of(known->table->words(), peer_qpn);
        if (find_line_locked(*known, known->table->holder(seat)) != nullptr) {
            return;
        }
    }
    std::erase(deserted_, address);
    want_locked({address, peer_qpn});
}

Elsewhere::Known* Elsewhere::find_locked(const engine::Address& address) const noexcept {
    const auto known = std::ranges::find_if(known_, [&](const auto& one) { return one->address == address; });
    return known != known_.end() ? known->get() : nullptr;
}

Elsewhere::Line* Elsewhere::find_line_locked(const Known& group, Holder holder) noexcept {
    const auto line = std::ranges::find_if(
        lines_, [&](const Line& one) { return one.group == &group && one.holder == holder; });
    return line != lines_.end() ? &*line : nullptr;
}

engine::Peer Elsewhere::ask(const engine::Ends& ends) noexcept {
    const LockGuard guard(changing_);
    if (is_deserted_locked(ends.remote)) {
        return engine::Peer::kGone;
    }
    const Known* const known = find_locked(ends.remote);
    if (known == nullptr) {
        want_locked({ends.remote, ends.peer_qpn});
        const bool is_there = std::ranges::find(visits_, ends.remote, &Visit::address) != visits_.end();
        return is_there ? engine::Peer::kLives : engine::Peer::kUnknown;
    }
    const Holder holder = known->table->holder(engine::Share::share_of(known->table->words(), ends.peer_qpn));
    if (holder == kNobody) {
        return engine::Peer::kGone;
    }
    const Line* const line = find_line_locked(*known, holder);
    if (line == nullptr) {
        want_locked({ends.remote, ends.peer_qpn});
        return engine::Peer::kUnknown;
    }
    const Ask question{.ends = ends};
    const iovec piece{.iov_base = const_cast<Ask*>(&question), .iov_len = sizeof question};
    (void)send(line->socket.get(), {&piece, 1}, {}); // a full one has been asked often, and is stopped
    return engine::Peer::kLives;
}

// Now: somebody may have come since we knocked.
bool Elsewhere::are_all_empty(const engine::Address& address) {
    bool are_deserted = false;
    {
        const LockGuard guard(changing_);
        are_deserted = is_deserted_locked(address);
    }
    return is_door_gone(address) && (are_deserted || is_left_by_all(address));
}

bool Elsewhere::is_deserted_locked(const engine::Address& address) const noexcept {
    return std::ranges::find(deserted_, address) != deserted_.end();
}

bool Elsewhere::is_seat_empty(const engine::Address& address, std::uint32_t seat) {
    {
        const LockGuard guard(changing_);
        if (const Known* const known = find_locked(address)) {
            return known->table->holder(seat) == kNobody;
        }
        const auto former =
            std::ranges::find_if(former_, [&](const auto& one) { return one->address == address; });
        if (former != former_.end() && has_members(*(*former)->table)) {
            return (*former)->table->holder(seat) == kNobody;
        }
    }
    return is_door_gone(address); // the group is over, and there may be another one
}

// False also where that can't be found out.
bool Elsewhere::is_empty(const engine::Address& address, std::uint32_t seat) noexcept {
    bool is_nobody_there = false;
    (void)at_boundary("looking for a peer", [&]() -> Result<void> {
        is_nobody_there =
            seat == engine::Share().which() ? are_all_empty(address) : is_seat_empty(address, seat);
        return {};
    });
    return is_nobody_there;
}

void Elsewhere::serve(Arrivals& arrivals) noexcept {
    const NotCancelled guard;
    std::array<epoll_event, kEventsPerTurn> events{};
    const int count = epoll_wait(epoll_.get(), events.data(), kEventsPerTurn, 0);
    for (int i = 0; i < count; ++i) {
        const int descriptor = events[static_cast<std::size_t>(i)].data.fd;
        const Result<void> served = at_boundary("peers at other addresses", [&]() -> Result<void> {
            serve_one(descriptor, arrivals);
            return {};
        });
        if (!served) {
            SLUICE_LOG(kWarning, "uroce", "the end of a peer at another address may be noticed late: %s",
                       served.error().text());
        }
    }
}

void Elsewhere::serve_one(int descriptor, Arrivals& arrivals) {
    if (descriptor == wake_.get()) {
        take_wanted(arrivals);
        return;
    }
    if (is_visit(descriptor)) {
        continue_visit(descriptor, arrivals);
    } else if (is_line(descriptor)) { // it may have ended since it was seen to be readable
        read_line(descriptor, arrivals);
    }
    forget_unused();
}

// What becomes wanted meanwhile rings again.
void Elsewhere::take_wanted(Arrivals& arrivals) {
    (void)quiet_eventfd(wake_.get());
    std::size_t left = 0;
    {
        const LockGuard guard(changing_);
        left = wanted_.size();
    }
    for (; left != 0; --left) {
        Wanted peer;
        {
            const LockGuard guard(changing_);
            peer = wanted_.back();
            wanted_.pop_back();
        }
        look_for(peer, arrivals);
    }
}

void Elsewhere::look_for(const Wanted& peer, Arrivals& arrivals) {
    if (has_line_to(peer, arrivals)) {
        return;
    }
    {
        const LockGuard guard(changing_);
        const auto visit = std::ranges::find(visits_, peer.address, &Visit::address);
        if (visit != visits_.end()) {
            visit->qpns.push_back(peer.qpn);
            return;
        }
    }
    knock(peer, arrivals);
}

// By what is known of its group. A line that has ended without being looked at may be of a former one.
bool Elsewhere::has_line_to(const Wanted& peer, Arrivals& arrivals) {
    int descriptor = -1;
    {
        const LockGuard guard(changing_);
        if (const Known* const known = find_locked(peer.address)) {
            const Holder holder =
                known->table->holder(engine::Share::share_of(known->table->words(), peer.qpn));
            if (const Line* const line = find_line_locked(*known, holder)) {
                descriptor = line->socket.get();
            }
        }
    }
    if (descriptor >= 0 && has_ended(descriptor)) {
        line_ended(descriptor, arrivals);
        return false;
    }
    return descriptor >= 0;
}

void Elsewhere::knock(const Wanted& peer, Arrivals& arrivals) {
    Result<Descriptor> door = call(door_name(peer.address));
    if (!door && is_gone(door.error()) && !is_wanted(peer.address) && is_left_by_all(peer.address)) {
        arrivals.catch_up();
        arrivals.nobody_at(peer.address);
        return;
    }
    if (!door || !watch_descriptor(door->get())) {
        return; // nobody of ours: a peer on another machine
    }
    const LockGuard guard(changing_);
    std::erase(deserted_, peer.address);
    visits_.push_back({.socket = *std::move(door), .address = peer.address, .qpns = {peer.qpn}});
}

bool Elsewhere::is_visit(int descriptor) noexcept {
    const LockGuard guard(changing_);
    return std::ranges::any_of(visits_, [&](const Visit& visit) { return visit.socket.get() == descriptor; });
}

bool Elsewhere::is_line(int descriptor) noexcept {
    const LockGuard guard(changing_);
    return std::ranges::any_of(lines_, [&](const Line& line) { return line.socket.get() == descriptor; });
}

void Elsewhere::continue_visit(int descriptor, Arrivals& arrivals) {
    std::array<std::uint8_t, sizeof(Welcome)> bytes{};
    Received received;
    const Receipt receipt = receive(descriptor, bytes, received);
    if (receipt == Receipt::kNothing) {
        return;
    }
    Visit visit;
    {
        const LockGuard guard(changing_);
        const auto found =
            std::ranges::find(visits_, descriptor, [](const Visit& one) { return one.socket.get(); });
        visit = std::move(*found);
        visits_.erase(found);
    }
    if (receipt == Receipt::kEnd) {
        visit_ended(std::move(visit), arrivals);
        return;
    }
    const auto welcome = read_as<Welcome>({bytes.data(), received.bytes});
    if (welcome && welcome->version == Welcome::kVersion && received.descriptor_count == 3) {
        enter(visit, std::move(received.descriptors[0]), arrivals);
    }
}

// The member that had us waiting has ended. Others go on answering, or there are none: then the process
// that had the queue pairs is gone.
void Elsewhere::visit_ended(Visit visit, Arrivals& arrivals) {
    Result<Descriptor> door = call(door_name(visit.address));
    if (door && visit.calls++ < kMostCalls && watch_descriptor(door->get())) {
        visit.socket = *std::move(door);
        const LockGuard guard(changing_);
        visits_.push_back(std::move(visit));
    } else if (!door && is_gone(door.error())) {
        all_ended(visit.address, arrivals);
    }
}

// True: we knock there again soon.
bool Elsewhere::is_wanted(const engine::Address& address) noexcept {
    const LockGuard guard(changing_);
    return std::ranges::find(wanted_, address, &Wanted::address) != wanted_.end();
}

void Elsewhere::all_ended(const engine::Address& address, Arrivals& arrivals) {
    if (is_wanted(address)) {
        return;
    }
    {
        const LockGuard guard(changing_);
        if (!is_deserted_locked(address)) {
            deserted_.push_back(address);
        }
    }
    arrivals.catch_up();
    arrivals.member_ended(address, engine::Share());
}

// Of the welcome, the table alone is for a visitor that doesn't join.
void Elsewhere::enter(const Visit& visit, Descriptor table, Arrivals& arrivals) {
    Result<std::unique_ptr<Table>> mapped = Table::map(std::move(table));
    if (!mapped) {
        return;
    }
    const Known* known = nullptr;
    std::vector<int> former;
    {
        const LockGuard guard(changing_);
        known = find_locked(visit.address);
        if (known != nullptr && known->table->group() != (*mapped)->group()) {
            for (const Line& line : lines_) {
                if (line.group == known) {
                    former.push_back(line.socket.get());
                }
            }
        }
    }
    for (const int descriptor : former) {
        line_ended(descriptor, arrivals); // a group ends with the last of its processes
    }
    forget_unused();
    {
        const LockGuard guard(changing_);
        known = find_locked(visit.address);
        if (known == nullptr) {
            known_.push_back(std::make_unique<Known>(Known{visit.address, *std::move(mapped)}));
            known = known_.back().get();
        }
    }
    for (const std::uint32_t qpn : visit.qpns) {
        call_holder(*known, qpn, arrivals);
    }
}

void Elsewhere::call_holder(const Known& group, std::uint32_t qpn, Arrivals& arrivals) {
    const engine::Share its(group.table->words(), engine::Share::share_of(group.table->words(), qpn));
    const Holder holder = group.table->holder(its.which());
    {
        const LockGuard guard(changing_);
        if (holder != kNobody &&
            (find_line_locked(group, holder) != nullptr || lines_.size() == kMostLines)) {
            return;
        }
    }
    Result<Descriptor> called = holder != kNobody ? call(line_name(group.table->group(), holder))
                                                  : Error(ErrorKind::kNotFound, "nobody has this seat");
    if (!called && is_gone(called.error())) {
        group.table->give_up_seat(its.which(), holder);
        arrivals.catch_up();
        arrivals.member_ended(group.address, its);
    } else if (called && watch_descriptor(called->get())) {
        send_board(called->get(), arrivals.board());
        const LockGuard guard(changing_);
        lines_.push_back(
            {.socket = *std::move(called), .group = &group, .seat = its.which(), .holder = holder});
    }
}

void Elsewhere::read_line(int descriptor, Arrivals& arrivals) {
    std::array<std::uint8_t, kMostBytes> bytes{};
    Received received;
    switch (receive(descriptor, bytes, received)) {
    case Receipt::kNothing:
        return;
    case Receipt::kEnd:
        line_ended(descriptor, arrivals);
        return;
    case Receipt::kMessage:
        if (const auto answer = read_as<Tell>({bytes.data(), received.bytes})) {
            if (is_from_peer(descriptor, answer->ends)) {
                arrivals.catch_up();
                arrivals.peer_told(answer->ends, answer->connected != 0);
            }
        } else if (read_as<Board>({bytes.data(), received.bytes})) {
            answer_board(descriptor, received, arrivals);
        } else if (const auto taken = read_as<BoardTaken>({bytes.data(), received.bytes})) {
            take_answer(descriptor, *taken, received, arrivals);
        }
    }
}

// A process speaks for its own queue pairs only.
bool Elsewhere::is_from_peer(int descriptor, const engine::Ends& ends) noexcept {
    const LockGuard guard(changing_);
    const auto line = std::ranges::find(lines_, descriptor, [](const Line& one) { return one.socket.get(); });
    return line != lines_.end() && line->group->address == ends.remote &&
           line->seat == engine::Share::share_of(line->group->table->words(), ends.peer_qpn);
}

// A process that lives is called again: it may have had no room for the line.
void Elsewhere::line_ended(int descriptor, Arrivals& arrivals) {
    const Known* group = nullptr;
    std::uint32_t seat = 0;
    Holder holder = kNobody;
    {
        const LockGuard guard(changing_);
        const auto line =
            std::ranges::find(lines_, descriptor, [](const Line& one) { return one.socket.get(); });
        if (line == lines_.end()) {
            return;
        }
        group = line->group;
        seat = line->seat;
        holder = line->holder;
        Result<Descriptor> again = call(line_name(group->table->group(), holder));
        if (again && line->calls++ < kMostCalls && watch_descriptor(again->get())) {
            send_board(again->get(), arrivals.board());
            line->socket = *std::move(again);
            return;
        }
        lines_.erase(line);
        if (again || !is_gone(again.error())) {
            return; // nothing is known of it from now on
        }
    }
    group->table->give_up_seat(seat, holder);
    arrivals.catch_up();
    arrivals.member_ended(group->address, engine::Share(group->table->words(), seat));
}

bool Elsewhere::is_used_locked(const Known& group) const noexcept {
    return std::ranges::any_of(lines_, [&](const Line& line) { return line.group == &group; });
}

void Elsewhere::forget_unused() noexcept {
    const LockGuard guard(changing_);
    for (auto known = known_.begin(); known != known_.end();) {
        if (is_used_locked(**known)) {
            ++known;
            continue;
        }
        std::erase_if(former_, [&](const auto& one) { return one->address == (*known)->address; });
        if (former_.size() == kMostFormer) {
            former_.erase(former_.begin());
        }
        former_.push_back(std::move(*known));
        known = known_.erase(known);
    }
}

} // namespace sluice::roce::group
