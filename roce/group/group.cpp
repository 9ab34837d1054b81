// SPDX-License-Identifier: BSD-3-Clause
#include "roce/group/group.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/boundary.hpp"
#include "core/event_descriptor.hpp"
#include "core/log.hpp"
#include "core/thread.hpp"
#include "roce/group/messages.hpp"
#include "roce/group/stopwatch.hpp"
#include "roce/wire/cm.hpp"
#include "roce/wire/mad.hpp"

namespace sluice::roce::group {

namespace {

constexpr std::size_t kStackBytes = std::size_t{256} * 1024; // nothing here calls a program
constexpr std::size_t kMaxLines = std::size_t{16} * kSeats;  // visitors and peers elsewhere included
constexpr int kMaxEvents = 16;
constexpr int kMessagesPerTurn = 64;
// A member that is stopped doesn't answer. Packets to it take UDP then.
constexpr int kIntroductionMs = 200;
constexpr int kAgainMs = 20; // to the joining lock, which another process has
constexpr std::size_t kMaxPayloadBytes = 4096;
constexpr std::size_t kMaxMessageBytes =
    sizeof(PacketHead) + wire::kMaxHeaderBytes + kMaxPayloadBytes + 4; // and padding

} // namespace

Group::Group(const socket::PortConfig& config, std::unique_ptr<Table> table, Descriptor door,
             Descriptor common)
    : config_(config), table_(std::move(table)), door_(std::move(door)), common_(std::move(common)),
      receiver_(common_.get(), config.local, config.recorder) {
    lines_.reserve(kMaxLines);
}

// Members see the end of their line, and free the seat if we don't get to it.
Group::~Group() {
    stop();
    if (!share_.is_all()) {
        table_->give_up_seat(share_.which(), holder_);
    }
}

Result<void> Group::start(Arrivals& arrivals) {
    arrivals_ = &arrivals;
    epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
    wake_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    introduced_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (epoll_.get() < 0 || wake_.get() < 0 || introduced_.get() < 0) {
        return Error::from_errno(errno, "no descriptors for sharing an address; raise `ulimit -n`");
    }
    Result<void> ready = elsewhere_.start();
    if (!ready) {
        return ready;
    }
    for (const auto& further : further_) {
        for (const std::size_t index : {FurtherAddress::kDoor, FurtherAddress::kCommon}) {
            Result<void> added = further != nullptr ? watch_further(*further, index) : Result<void>();
            if (!added) {
                return added;
            }
        }
    }
    std::vector<int> watched = {wake_.get(), door_.get(), common_.get(), listener_.get(), elsewhere_.fd()};
    {
        const LockGuard guard(changing_lines_);
        for (const Line& line : lines_) {
            watched.push_back(line.socket.get());
        }
    }
    for (const int descriptor : watched) {
        Result<void> added = watch(descriptor, EPOLLIN);
        if (!added) {
            return added;
        }
    }
    desert_all();
    const int error = start_quiet_thread(thread_, "uroce-group", kStackBytes, run, this);
    if (error != 0) {
        return Error::from_errno(error, "no thread for sharing an address; raise `ulimit -u`");
    }
    running_ = true;
    pollfd introduced{.fd = introduced_.get(), .events = POLLIN, .revents = 0};
    while (poll(&introduced, 1, kIntroductionMs) < 0 && errno == EINTR) {
    }
    return {};
}

void Group::stop() noexcept {
    if (running_) {
        stopping_ = true;
        ring_eventfd(wake_.get());
        pthread_join(thread_, nullptr);
        running_ = false;
    }
}

// Nothing is locked: the threads that had the locks are the parent's.
void Group::abandon() noexcept SLUICE_TSA(no_thread_safety_analysis) {
    running_ = false;
    for (Descriptor* const one : {&door_, &common_, &listener_, &epoll_, &wake_, &introduced_}) {
        one->reset();
    }
    for (Descriptor& one : sockets_) {
        one.reset();
    }
    for (const auto& further : further_) {
        if (further != nullptr) {
            further->abandon();
        }
    }
    for (Line& line : lines_) {
        line.socket.reset();
    }
    elsewhere_.abandon();
    table_->abandon();
}

bool Group::owns(const wire::Packet& packet, const engine::Address& destination) const noexcept {
    return owner_of(packet, destination) == share_.which();
}

// What is nobody's, the member that has it answers.
std::uint32_t Group::owner_of(const wire::Packet& packet, const engine::Address& destination) const noexcept {
    const std::uint32_t owner = packet.bth.dest_qpn <= wire::kGsiQpn
                                    ? owner_of_message(packet.payload, destination)
                                    : share_.owner_of(packet.bth.dest_qpn);
    const bool is_mine = owner == share_.which() || owner == kSeats || table_->holder(owner) == kNobody;
    return is_mine ? share_.which() : owner;
}

// A request belongs to the seat that has the port, any other message to that which made the id; steering.cpp
// has the latter for the kernel.
std::uint32_t Group::owner_of_message(wire::ConstBytes payload,
                                      const engine::Address& destination) const noexcept {
    std::uint32_t owner = kSeats;
    if (payload.size() >= wire::kMadBytes) {
        const auto header = wire::decode<wire::MadHeader>(payload.first<wire::MadHeader::kBytes>());
        wire::visit_cm(header.attribute_id, payload.subspan<wire::MadHeader::kBytes, wire::kCmBytes>(),
                       [&]<typename Message>(const Message& message) {
                           if constexpr (std::is_same_v<Message, wire::CmReq> ||
                                         std::is_same_v<Message, wire::CmSidrReq>) {
                               owner = table_->seat_of_service(message.service_id, place_of(destination));
                           } else if constexpr (std::is_same_v<Message, wire::CmSidrRep>) {
                               owner = share_.owner_of(message.request_id);
                           } else {
                               owner = share_.owner_of(message.remote_comm_id);
                           }
                       });
    }
    return owner;
}

void Group::hand_on(const engine::InPacket& in) noexcept {
    const std::uint32_t seat = owner_of(in.packet, in.destination);
    std::array<std::uint8_t, wire::kMaxHeaderBytes> headers{};
    static constexpr std::array<std::uint8_t, 4> kPadding{};
    PacketHead head{
        .source_port = in.source_port, .source = in.source, .destination = in.destination, .grh = in.grh};
    const std::size_t header_bytes = wire::write_headers(in.packet, headers);
    const iovec pieces[] = {
        {.iov_base = &head, .iov_len = sizeof head},
        {.iov_base = headers.data(), .iov_len = header_bytes},
        {.iov_base = const_cast<std::uint8_t*>(in.packet.payload.data()),
         .iov_len = in.packet.payload.size()},
        {.iov_base = const_cast<std::uint8_t*>(kPadding.data()), .iov_len = in.packet.bth.pad},
    };
    const Holder holder = table_->holder(seat);
    {
        const LockGuard guard(changing_lines_);
        const auto line = std::ranges::find(lines_, holder, &Line::holder);
        if (line != lines_.end()) {
            (void)send(line->socket.get(), pieces, {});
            return;
        }
    }
    // It joined a moment ago, and this member's thread hasn't got to its call yet.
    if (const Result<Descriptor> once = call(line_name(table_->group(), holder))) {
        (void)send(once->get(), pieces, {});
    }
}

bool Group::is_ours(const engine::Address& address) const noexcept {
    return address == config_.local || has(address);
}

bool Group::may_all_claim_soon() const noexcept {
    constexpr auto kTimeToBeginMs = static_cast<std::int64_t>(cm::kTimeToBegin / 1'000'000);
    return !table_->has_member_before(Stopwatch::now_ms() - kTimeToBeginMs);
}

void Group::watch(const engine::Address& address, std::uint32_t peer_qpn) noexcept {
    if (!is_ours(address)) {
        elsewhere_.watch(address, peer_qpn); // all members of this group have lines
    }
}

engine::Peer Group::ask(const engine::Ends& ends) noexcept {
    return is_ours(ends.remote) ? ask_member(ends) : elsewhere_.ask(ends);
}

bool Group::is_empty(const engine::Address& address, std::uint32_t seat) noexcept {
    if (!is_ours(address)) {
        return elsewhere_.is_empty(address, seat);
    }
    return seat < kSeats && table_->holder(seat) == kNobody; // never all: this member has one
}

engine::Peer Group::ask_member(const engine::Ends& ends) noexcept {
    const Holder holder = table_->holder(share_.owner_of(ends.peer_qpn));
    if (holder == kNobody) {
        return engine::Peer::kGone;
    }
    const Ask question{.ends = ends};
    const iovec piece{.iov_base = const_cast<Ask*>(&question), .iov_len = sizeof question};
    const LockGuard guard(changing_lines_);
    const auto line = std::ranges::find(lines_, holder, &Line::holder);
    if (line == lines_.end()) {
        return engine::Peer::kUnknown; // it joined a moment ago
    }
    (void)send(line->socket.get(), {&piece, 1},
               {}); // one that has no room has been asked often, and is stopped
    return engine::Peer::kLives;
}

void* Group::run(void* self) noexcept {
    auto& group = *static_cast<Group*>(self);
    group.arrivals_->thread_begins();
    group.send_boards();
    group.serve();
    group.arrivals_->thread_ends();
    return nullptr;
}

// To those that this member has called. Those that call it later get theirs with the answer.
void Group::send_boards() noexcept {
    {
        const LockGuard guard(changing_lines_);
        // A process that meets no other one isn't asked: see Device::board().
        const int own = lines_.empty() ? -1 : board();
        for (Line& line : lines_) {
            send_board(line.socket.get(), own);
            line.awaited = own >= 0 ? Awaited::kAnswer : Awaited::kNothing;
        }
    }
    look_if_introduced();
}

// WHAT has come over a line where NEXT is awaited then.
void Group::take_introduction(int descriptor, Awaited what, Awaited next) noexcept {
    {
        const LockGuard guard(changing_lines_);
        const auto line =
            std::ranges::find(lines_, descriptor, [](const Line& one) { return one.socket.get(); });
        line->awaited = line->awaited == what ? next : line->awaited;
    }
    look_if_introduced();
}

void Group::look_if_introduced() noexcept {
    if (is_introduced_) {
        return;
    }
    const LockGuard guard(changing_lines_);
    is_introduced_ =
        std::ranges::all_of(lines_, [](const Line& line) { return line.awaited == Awaited::kNothing; });
    if (is_introduced_) {
        ring_eventfd(introduced_.get());
    }
}

Result<void> Group::watch(int descriptor, std::uint32_t events) const {
    epoll_event event{.events = events, .data = {.fd = descriptor}};
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) {
        return Error::from_errno(errno, "can't watch a descriptor for sharing an address");
    }
    return {};
}

void Group::serve() noexcept {
    while (!stopping_) {
        std::array<epoll_event, kMaxEvents> events{};
        look_for_unused();
        const int count = epoll_wait(epoll_.get(), events.data(), kMaxEvents, unused_due_ ? kAgainMs : -1);
        for (int i = 0; i < count; ++i) {
            serve_one(events[static_cast<std::size_t>(i)].data.fd);
        }
    }
}

void Group::serve_one(int descriptor) noexcept {
    if (descriptor == door_.get()) {
        answer_door(descriptor);
    } else if (descriptor == listener_.get()) {
        accept_members();
    } else if (descriptor == common_.get()) {
        (void)read_common(receiver_);
    } else if (descriptor == elsewhere_.fd()) {
        elsewhere_.serve(*this);
    } else if (descriptor == wake_.get()) {
        answer_request();
    } else if (!read_further(descriptor) && !read_deserted(descriptor)) {
        (void)read_line(descriptor);
    }
}

void Group::answer_door(int door) noexcept {
    const std::array<int, 3> descriptors = {table_->descriptor(), door_.get(), common_.get()};
    Welcome welcome{.is_further = door != door_.get() ? 1U : 0U};
    const iovec piece{.iov_base = &welcome, .iov_len = sizeof welcome};
    for (Descriptor visitor = accept_caller(door); visitor.get() >= 0; visitor = accept_caller(door)) {
        if (send(visitor.get(), {&piece, 1}, descriptors)) {
            add_line(std::move(visitor));
        }
    }
}

void Group::accept_members() noexcept {
    for (Descriptor member = accept_caller(listener_.get()); member.get() >= 0;
         member = accept_caller(listener_.get())) {
        add_line(std::move(member));
    }
}

// Dropping one ends it: a caller that finds no room tries again.
void Group::add_line(Descriptor socket) noexcept {
    const LockGuard guard(changing_lines_);
    if (lines_.size() < kMaxLines && watch(socket.get(), EPOLLIN)) {
        lines_.push_back({.socket = std::move(socket)});
    }
}

bool Group::read_common(socket::Receiver& receiver) noexcept {
    if (receiver.fetch(socket::Receiver::kMaxMessages) == 0) {
        return false;
    }
    arrivals_->catch_up();
    receiver.deliver([&](const engine::InPacket& in) { dispatch(in); });
    return true;
}

// A process that took leave before it ended has said so at a common socket. One that goes on sending must not
// keep the thread for ever.
void Group::catch_up() noexcept {
    constexpr int kMostFetches = 64;
    bool more = true;
    for (int fetches = 0; more && fetches < kMostFetches; ++fetches) {
        more = read_common(receiver_);
        for (const auto& further : further_) {
            socket::Receiver* const receiver = further != nullptr ? further->receiver() : nullptr;
            more = (receiver != nullptr && read_common(*receiver)) || more;
        }
    }
    arrivals_->catch_up();
}

void Group::dispatch(const engine::InPacket& in) noexcept {
    if (owns(in.packet, in.destination)) {
        arrivals_->arrived(in);
    } else {
        hand_on(in);
    }
}

bool Group::has_line(int descriptor) noexcept {
    const LockGuard guard(changing_lines_);
    return std::ranges::any_of(lines_, [&](const Line& line) { return line.socket.get() == descriptor; });
}

// Not without end: other lines and the door want their turn. True: there may be more. A line may have ended
// since it was seen to be readable, also while a message of its own was answered; then its number may be that
// of any socket of the program's.
bool Group::read_line(int descriptor) noexcept {
    std::array<std::uint8_t, kMaxMessageBytes> bytes;
    Received received;
    for (int messages = 0; messages < kMessagesPerTurn && has_line(descriptor); ++messages) {
        switch (receive(descriptor, bytes, received)) {
        case Receipt::kNothing:
            return false;
        case Receipt::kEnd:
            end_line(descriptor);
            return false;
        case Receipt::kMessage:
            take_message(descriptor, {bytes.data(), received.bytes}, received);
        }
    }
    return has_line(descriptor);
}

void Group::take_message(int descriptor, std::span<const std::uint8_t> message, Received& received) noexcept {
    if (const auto hello = read_as<Hello>(message)) {
        take_hello(descriptor, *hello, received);
    } else if (read_as<AskForSockets>(message)) {
        answer_visitor(descriptor);
    } else if (read_as<Board>(message)) {
        take_board(descriptor, received);
    } else if (const auto yes = read_as<BoardTaken>(message)) {
        take_answer(descriptor, *yes, received, *this);
        Introduced introduced;
        const iovec piece{.iov_base = &introduced, .iov_len = sizeof introduced};
        (void)send(descriptor, {&piece, 1}, {});
        take_introduction(descriptor, Awaited::kAnswer,
                          yes->taken != 0 ? Awaited::kIntroduction : Awaited::kNothing);
    } else if (read_as<Introduced>(message)) {
        take_introduction(descriptor, Awaited::kIntroduction, Awaited::kNothing);
    } else if (const auto further = read_as<Further>(message)) {
        const Result<void> taken =
            at_boundary("sharing an address", [&] { return take_further(*further, received); });
        if (!taken) {
            SLUICE_LOG(kWarning, "uroce", "a further address isn't shared: %s", taken.error().text());
        }
    } else if (const auto given_back = read_as<GivenBack>(message)) {
        take_given_back(*given_back);
    } else if (const auto head = read_as<PacketHead>(message)) {
        take_packet(*head, message.subspan(sizeof *head));
    } else if (const auto question = read_as<Ask>(message)) {
        arrivals_->catch_up();
        const engine::Ends& ends = question->ends;
        const bool connected = arrivals_->is_connected(ends.peer_qpn, ends.local, ends.qpn);
        Tell answer{.connected = connected ? 1U : 0U, .ends = ends};
        const iovec piece{.iov_base = &answer, .iov_len = sizeof answer};
        (void)send(descriptor, {&piece, 1}, {});
    } else if (const auto answer = read_as<Tell>(message); answer && is_from_peer(descriptor, answer->ends)) {
        arrivals_->catch_up();
        arrivals_->peer_told(answer->ends, answer->connected != 0);
    }
}

// A process speaks for its own queue pairs only.
bool Group::is_from_peer(int descriptor, const engine::Ends& ends) noexcept {
    if (!is_ours(ends.remote)) {
        return false;
    }
    const LockGuard guard(changing_lines_);
    const auto line = std::ranges::find(lines_, descriptor, [](const Line& one) { return one.socket.get(); });
    return line != lines_.end() && line->seat == share_.owner_of(ends.peer_qpn);
}

// While one is answered, another may ask: then the first was killed, and the lock is the other's. It may have
// ended since it asked; then its number may be that of any socket of the program's.
void Group::answer_visitor(int descriptor) noexcept {
    next_visitor_ = descriptor;
    if (answering_) {
        return;
    }
    answering_ = true;
    while (next_visitor_ >= 0) {
        const int visitor = std::exchange(next_visitor_, -1);
        if (has_line(visitor)) {
            send_sockets(visitor);
        }
    }
    answering_ = false;
}

// A process at another address doesn't say hello: it gets ours now.
void Group::take_board(int descriptor, const Received& received) noexcept {
    bool is_member = false;
    {
        const LockGuard guard(changing_lines_);
        const auto line =
            std::ranges::find(lines_, descriptor, [](const Line& one) { return one.socket.get(); });
        is_member = line->seat != kSeats;
    }
    if (!is_member) {
        send_board(descriptor, board());
    }
    answer_board(descriptor, received, *this);
}

// What other members have sent by now: one that has joined a moment ago may have sent its sockets.
void Group::look_at_lines(int but) noexcept {
    constexpr int kMostTurns = 64; // more than a line holds
    accept_members();
    std::array<int, kMaxLines> open{};
    std::size_t count = 0;
    {
        const LockGuard guard(changing_lines_);
        for (const Line& line : lines_) {
            open[count++] = line.socket.get();
        }
    }
    for (std::size_t i = 0; i < count; ++i) {
        for (int turns = 0; open[i] != but && turns < kMostTurns && read_line(open[i]); ++turns) {
        }
    }
}

void Group::send_sockets(int descriptor) noexcept {
    look_at_lines(descriptor);
    std::array<int, kSeats> descriptors{};
    std::size_t sockets = 0;
    while (sockets < kSeats && sockets_[sockets].get() >= 0) {
        descriptors[sockets] = sockets_[sockets].get();
        ++sockets;
    }
    Sockets answer{.further = static_cast<std::uint32_t>(
                       std::ranges::count_if(further_, [](const auto& one) { return one != nullptr; }))};
    const iovec piece{.iov_base = &answer, .iov_len = sizeof answer};
    bool sent = send(descriptor, {&piece, 1}, {descriptors.data(), sockets});
    for (const auto& further : further_) {
        sent = sent && (further == nullptr || send_further(descriptor, *further, 0, further->bound()));
    }
}

void Group::take_packet(const PacketHead& head, wire::ConstBytes transport) noexcept {
    wire::Packet packet;
    if (wire::parse(transport, packet) == wire::Refusal::kNone && owns(packet, head.destination)) {
        // Data isn't held up: what the seat's own socket has by now came later, or at another address.
        if (packet.bth.dest_qpn <= wire::kGsiQpn) {
            arrivals_->catch_up();
        }
        arrivals_->arrived({.packet = packet,
                            .source = head.source,
                            .destination = head.destination,
                            .grh = head.grh,
                            .source_port = static_cast<std::uint16_t>(head.source_port)});
    }
}

} // namespace sluice::roce::group
