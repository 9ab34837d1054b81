// SPDX-License-Identifier: BSD-3-Clause
//
// The processes of one address (ADR 63), seen by one of them.
//
// Each member has a seat: its share of the address's numbers, and a UDP socket that the kernel gives the
// packets for that share, and the messages about its connections. What belongs to all arrives at the common
// socket: requests, each for the member that has its port. Between each two members is a line, a Unix
// socket; over it goes what one of them read and the other must have, and its end is the death of the
// member at the other end. The sockets of a seat that nobody has any more are read by all (deserted.hpp).
//
// How one joins. Somebody knocks at the address's door, which all members have open. Whoever answers sends
// the table and the common socket; the visitor takes the table's joining lock, asks for the seats' sockets,
// picks a seat, calls each member, and sends its socket if it is a new one. The socket is bound after all
// members have it, so that it can't leave the kernel's group before the last of them, and no index moves.
// The seat is taken last. A process that dies on the way leaves nothing that the next one trips over.
//
// Processes at other addresses of the machine have lines, too, while queue pairs are connected to theirs
// (elsewhere.hpp).
//
// A group may have further addresses, each with a set of sockets like the first's (further_address.hpp). A
// member adds one under the joining lock, and a process that joins brings a socket for each. One of the
// loopback network is given back when the last process that used it has ended (ADR 65).
//
// A thread of its own answers the door, reads the common sockets and the lines. It calls Arrivals.
//
// Thread safety: hand_on(), owns(), has(), watch(), hear(), ask(), is_empty(), claim() and release() may be
// called from any thread; open_at() from any but the group's.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "core/sync.hpp"
#include "roce/cm/port_claims.hpp"
#include "roce/group/arrivals.hpp"
#include "roce/group/deserted.hpp"
#include "roce/group/door.hpp"
#include "roce/group/elsewhere.hpp"
#include "roce/group/further_address.hpp"
#include "roce/group/messages.hpp"
#include "roce/group/table.hpp"
#include "roce/socket/udp_port.hpp"

namespace sluice::roce::group {

class Group final : public cm::PortClaims, Arrivals {
  public:
    // Finds the group of config.local, or founds one. kNotSupported: an address can't be shared here.
    static Result<std::unique_ptr<Group>> join(const socket::PortConfig& config);
    // Leaves. start()'s ARRIVALS gets nothing any more after stop().
    ~Group();

    // Returns when the members that this one has called know it, or haven't answered for a while.
    Result<void> start(Arrivals& arrivals);
    void stop() noexcept;

    const engine::Share& share() const noexcept { return share_; }
    // Of this member's seat; it stays the group's.
    int socket() const noexcept { return sockets_[share_.which()].get(); }

    // A socket of this member's seat at ADDRESS, a further one; with it those of all seats, if the group has
    // none there yet. Between start() and stop(). May wait for a process that joins. kExists: the port is
    // taken, and the error says by whom.
    Result<Descriptor> open_at(const engine::Address& address);
    // Whether members have sockets at ADDRESS, a further one.
    bool has(const engine::Address& address) const noexcept;

    // Whether a packet to the address is this member's, or nobody's in particular.
    bool owns(const wire::Packet& packet, const engine::Address& destination) const noexcept;
    // Gives a packet to the member that it belongs to. Without one, or if that one has no room, it is lost.
    void hand_on(const engine::InPacket& in) noexcept;

    // A queue pair of ours is connected to queue pair PEER_QPN of ADDRESS, which may be any.
    void watch(const engine::Address& address, std::uint32_t peer_qpn) noexcept;
    // That one has been heard for the first time.
    void hear(const engine::Address& address, std::uint32_t peer_qpn) noexcept {
        if (!is_ours(address)) {
            elsewhere_.hear(address, peer_qpn);
        }
    }
    // Asks the process of the peer whether that has the connection. kLives: it is asked; kGone: nobody has
    // that number.
    engine::Peer ask(const engine::Ends& ends) noexcept;
    // Whether nobody has SEAT of ADDRESS.
    bool is_empty(const engine::Address& address, std::uint32_t seat) noexcept;

    bool claim(std::uint64_t service, const engine::Address& local) noexcept override {
        return table_->take_service(service, place_of(local), holder_);
    }
    bool is_claimed_everywhere(std::uint64_t service) const noexcept override {
        return table_->is_service_taken(service, Place::kEverywhere);
    }
    bool may_all_claim_soon() const noexcept override;
    void release(std::uint64_t service, const engine::Address& local) noexcept override {
        table_->give_up_service(service, place_of(local), holder_);
    }

    // This is the child of a fork: everything here is the parent's.
    void abandon() noexcept;

  private:
    enum class Awaited : std::uint8_t { kNothing, kAnswer, kIntroduction };
    // A connection to another member, or of a visitor at the door, which has no seat.
    struct Line {
        Descriptor socket;
        std::uint32_t seat = kSeats;
        Holder holder = kNobody;
        Awaited awaited = Awaited::kNothing;
    };
    // What open_at() wants of the group's thread, which alone has the further addresses once it runs. The
    // last two need the joining lock.
    enum class Wish : std::uint8_t { kWhatIs, kComplete, kMade };
    struct Request {
        const engine::Address& address;
        Wish wish;
        Result<Descriptor> socket;
        bool done = false;
    };
    Group(const socket::PortConfig& config, std::unique_ptr<Table> table, Descriptor door, Descriptor common);

    // group_join.cpp. kBusy and kExists: try again.
    static Result<std::unique_ptr<Group>> found(const socket::PortConfig& config,
                                                const socket::NetworkDevice& device);
    static Result<std::unique_ptr<Group>> enter(const socket::PortConfig& config,
                                                const socket::NetworkDevice& device, int door);
    Result<void> take_part(const socket::NetworkDevice& device, int door);
    Result<void> open_listener();
    Result<std::uint32_t> ask_for_sockets(int door);
    Result<void> receive_further(int door);
    std::uint32_t find_seat(std::uint32_t bound) noexcept;
    Result<void> call_members(std::uint32_t seat, bool is_new);
    void sit_down(std::uint32_t seat) noexcept;

    // group_further.cpp
    Result<Descriptor> ask_thread(const engine::Address& address, Wish wish);
    void answer_request() noexcept;
    Result<Descriptor> socket_at(const engine::Address& address, Wish wish);
    Place place_of(const engine::Address& address) const noexcept;
    FurtherAddress* find_further(const engine::Address& address) const noexcept;
    Result<FurtherAddress*> add_further(const engine::Address& address);
    FurtherAddress& put_further(std::uint32_t number, std::uint64_t generation,
                                const engine::Address& address);
    void drop_further(std::uint32_t number) noexcept;
    bool is_unused(const std::unique_ptr<FurtherAddress>& further) const noexcept;
    void look_for_unused() noexcept;
    void give_back_unused() noexcept;
    void take_given_back(const GivenBack& given_back) noexcept;
    Result<void> check_is_free(const engine::Address& address) const;
    Result<void> complete(FurtherAddress& further);
    Result<void> complete_for_use(FurtherAddress& further);
    void complete_all();
    Result<void> tell_members(const std::function<bool(int)>& send_to);
    Result<void> take_further(const Further& head, Received& received);
    bool send_further(int to, const FurtherAddress& further, std::size_t from,
                      std::size_t end) const noexcept;
    Result<void> watch_further(const FurtherAddress& further, std::size_t index) const;
    void unwatch_further(const FurtherAddress& further, std::size_t index) const noexcept;
    bool read_further(int descriptor) noexcept;
    std::size_t bound_seats() const noexcept;

    std::uint32_t owner_of(const wire::Packet& packet, const engine::Address& destination) const noexcept;
    std::uint32_t owner_of_message(wire::ConstBytes payload,
                                   const engine::Address& destination) const noexcept;

    static void* run(void* self) noexcept;
    void serve() noexcept;
    void serve_one(int descriptor) noexcept;
    // group_seats.cpp
    void take_hello(int descriptor, const Hello& hello, Received& received) noexcept;
    void end_line(int descriptor) noexcept;
    void report_end(std::uint32_t seat) noexcept;
    void desert_all() noexcept;
    void desert(std::uint32_t seat) noexcept;
    Result<void> read_for_the_dead(int socket_fd, const engine::Address& local);
    bool has_member_at(std::uint32_t seat) noexcept;
    void settle(std::uint32_t seat) noexcept;
    void leave_to_member(int socket_fd) noexcept;
    bool read_deserted(int descriptor) noexcept;

    // Whether ADDRESS is this group's, its first or a further one.
    bool is_ours(const engine::Address& address) const noexcept;
    engine::Peer ask_member(const engine::Ends& ends) noexcept;
    // Whether the process that has the peer of ENDS is at the other end of this line.
    bool is_from_peer(int descriptor, const engine::Ends& ends) noexcept;
    // For what Elsewhere has heard: before it, what has arrived at any of this member's sockets by now.
    void catch_up() noexcept override;
    void arrived(const engine::InPacket& in) noexcept override { arrivals_->arrived(in); }
    bool is_connected(std::uint32_t qpn, const engine::Address& peer,
                      std::uint32_t peer_qpn) noexcept override {
        return arrivals_->is_connected(qpn, peer, peer_qpn);
    }
    void peer_told(const engine::Ends& ends, bool connected) noexcept override {
        arrivals_->peer_told(ends, connected);
    }
    void nobody_at(const engine::Address& address) noexcept override { arrivals_->nobody_at(address); }
    void member_ended(const engine::Address& address, const engine::Share& its) noexcept override {
        arrivals_->member_ended(address, its);
    }
    int board() const noexcept override { return arrivals_->board(); }
    std::uint64_t board_id() const noexcept override { return arrivals_->board_id(); }
    Admission board_came(const Descriptor& board, pid_t pid) noexcept override {
        return arrivals_->board_came(board, pid);
    }
    void board_taken(pid_t pid, Admittance given) noexcept override {
        arrivals_->board_taken(pid, std::move(given));
    }
    void send_boards() noexcept;
    void take_introduction(int descriptor, Awaited what, Awaited next) noexcept;
    void look_if_introduced() noexcept;
    Result<void> watch(int descriptor, std::uint32_t events) const;
    void answer_door(int door) noexcept;
    void accept_members() noexcept;
    void add_line(Descriptor socket) noexcept;
    // False: nothing was there.
    bool read_common(socket::Receiver& receiver) noexcept;
    void look_at_lines(int but) noexcept;
    bool has_line(int descriptor) noexcept;
    bool read_line(int descriptor) noexcept;
    void take_message(int descriptor, std::span<const std::uint8_t> message, Received& received) noexcept;
    void take_board(int descriptor, const Received& received) noexcept;
    void answer_visitor(int descriptor) noexcept;
    void send_sockets(int descriptor) noexcept;
    void take_packet(const PacketHead& head, wire::ConstBytes transport) noexcept;
    void dispatch(const engine::InPacket& in) noexcept;

    const socket::PortConfig config_;
    std::unique_ptr<Table> table_;
    Descriptor door_;     // all members'
    Descriptor common_;   // all members'
    Descriptor listener_; // where other members call this one
    Holder holder_ = kNobody;
    engine::Share share_;
    std::array<Descriptor, kSeats> sockets_; // all that the kernel's group has, in its order
    socket::Receiver receiver_;              // of the common socket
    Deserted deserted_;
    // By number, null where there is none. The group's thread alone has them, once it runs.
    std::array<std::unique_ptr<FurtherAddress>, kMaxFurther> further_;
    // By number: the newest that was given back.
    std::array<std::uint64_t, kMaxFurther> ended_{};
    mutable Mutex changing_further_;
    // For all threads: which there are, all zeros where there is none.
    std::array<engine::Address, kMaxFurther> further_addresses_ SLUICE_TSA(guarded_by(changing_further_)){};
    Mutex opening_; // one open_at() at a time
    Mutex asking_;
    ConditionVariable answered_;
    Request* request_ SLUICE_TSA(guarded_by(asking_)) = nullptr;
    Mutex changing_lines_; // the group's thread alone changes them, once it runs
    std::vector<Line> lines_ SLUICE_TSA(guarded_by(changing_lines_));
    Elsewhere elsewhere_;
    Arrivals* arrivals_ = nullptr;
    bool answering_ = false; // a visitor; others wait for the joining lock
    int next_visitor_ = -1;  // the last that has asked meanwhile
    Descriptor epoll_;
    Descriptor wake_;       // an eventfd, for stop() and open_at()
    Descriptor introduced_; // an eventfd, for start()
    bool is_introduced_ = false;
    bool unused_due_ = true; // a further address may have lost its last user
    std::atomic<bool> stopping_{false};
    bool running_ = false;
    pthread_t thread_{};
};

} // namespace sluice::roce::group
