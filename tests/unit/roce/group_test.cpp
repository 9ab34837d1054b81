// SPDX-License-Identifier: BSD-3-Clause
//
// Processes that share an address: who gets which packet, and what remains when one of them dies.
#include "roce/group/group.hpp"

#include <csignal>
#include <fcntl.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "roce/group/messages.hpp"
#include "roce/socket/flat_packet.hpp"
#include "roce/wire/cm.hpp"
#include "roce/wire/mad.hpp"
#include "tests/loopback.hpp"
#include "tests/unit/roce/random.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

using namespace sluice;
using namespace sluice::roce;
using group::Group;
using group::Holder;
using group::kSeats;
using group::Table;
using roce::test::Random;

namespace {

constexpr std::uint64_t kSeed = 20261121;
constexpr std::uint32_t kSquattersUser = 65534;

// Said once for each test that needs the kernel to steer packets.
bool cannot_share() {
#if defined(TEST_EMULATED)
    std::puts("SKIP: user-mode emulation passes on no program for a socket");
    return true;
#else
    return false;
#endif
}

engine::Address next_address() {
    return *socket::parse_address(sluice::test::Loopback::instance().next_address().c_str());
}

// Where the group's thread waits as long as a test has it shut.
class Gate {
  public:
    // Until the result ends.
    [[nodiscard]] std::unique_lock<std::mutex> shut() {
        is_reached_ = false;
        return std::unique_lock(mutex_);
    }
    void wait_until_reached() const {
        while (!is_reached_) {
            sched_yield();
        }
    }
    void pass() {
        is_reached_ = true;
        const std::lock_guard open(mutex_);
    }

  private:
    std::mutex mutex_;
    std::atomic<bool> is_reached_{false};
};

// What the group's thread handed over.
class Taken final : public group::Arrivals {
  public:
    void catch_up() noexcept override {}
    void arrived(const engine::InPacket& in) noexcept override {
        const std::lock_guard lock(mutex_);
        psns_.insert(in.packet.bth.psn);
        destination_ = in.destination;
        eventfd_write(changed_.get(), 1);
    }
    bool is_connected(std::uint32_t qpn, const engine::Address& /*peer*/,
                      std::uint32_t peer_qpn) noexcept override {
        question_gate.pass();
        return qpn == peer_qpn + 1;
    }
    void peer_told(std::uint32_t qpn, bool connected) noexcept override {
        answer_gate.pass();
        const std::lock_guard lock(mutex_);
        told_.emplace(qpn, connected);
        eventfd_write(changed_.get(), 1);
    }
    void member_ended(const engine::Address& /*address*/, const engine::Share& its) noexcept override {
        const std::lock_guard lock(mutex_);
        ended_.insert(its.which());
        psns_at_end_ = psns_;
        eventfd_write(changed_.get(), 1);
    }
    // Packets that had arrived when a member ended.
    std::set<std::uint32_t> psns_at_end() {
        const std::lock_guard lock(mutex_);
        return psns_at_end_;
    }
    bool wait_for(std::uint32_t psn) {
        return wait_until([&] { return psns_.contains(psn); });
    }
    // Of the last packet.
    engine::Address destination() {
        const std::lock_guard lock(mutex_);
        return destination_;
    }
    bool wait_for_end_of(std::uint32_t seat) {
        return wait_until([&] { return ended_.contains(seat); });
    }
    bool has_answer(std::uint32_t qpn) {
        const std::lock_guard lock(mutex_);
        return told_.contains(qpn);
    }
    // The answer about QPN, or none.
    std::optional<bool> wait_for_answer(std::uint32_t qpn) {
        (void)wait_until([&] { return told_.contains(qpn); });
        const std::lock_guard lock(mutex_);
        return told_.contains(qpn) ? std::optional(told_.at(qpn)) : std::nullopt;
    }

    // Before a peer's question is answered, and before a peer's answer is taken.
    Gate question_gate;
    Gate answer_gate;

  private:
    template<typename Condition>
    bool wait_until(Condition&& condition) {
        for (;;) {
            {
                const std::lock_guard lock(mutex_);
                if (condition()) {
                    return true;
                }
            }
            pollfd wanted = {.fd = changed_.get(), .events = POLLIN, .revents = 0};
            eventfd_t count = 0;
            if (poll(&wanted, 1, 10'000) != 1 || eventfd_read(changed_.get(), &count) != 0) {
                return false;
            }
        }
    }

    std::mutex mutex_;
    std::set<std::uint32_t> psns_;
    std::set<std::uint32_t> psns_at_end_;
    std::set<std::uint32_t> ended_;
    engine::Address destination_;
    std::map<std::uint32_t, bool> told_;
    Descriptor changed_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

// A member that runs, in this process.
struct Member {
    explicit Member(const engine::Address& address) {
        Result<std::unique_ptr<Group>> made = Group::join({.local = address});
        if (!made) {
            std::fprintf(stderr, "%s\n", made.error().text());
        }
        assert_true(made.ok());
        group = *std::move(made);
        assert_true(group->start(taken).ok());
    }
    // After its group: that calls it.
    Taken taken;
    std::unique_ptr<Group> group;
};

// MEMBER's socket at a further address.
Descriptor opened(const Member& member, const engine::Address& further) {
    Result<Descriptor> made = member.group->open_at(further);
    if (!made) {
        std::fprintf(stderr, "%s\n", made.error().text());
    }
    assert_true(made.ok());
    return *std::move(made);
}

// A number that belongs to MEMBER.
std::uint32_t number_of(const Group& member, Random& random) {
    for (;;) {
        const auto number = static_cast<std::uint32_t>(random.next()) & 0xffffff;
        if (number > wire::kGsiQpn && member.share().owns(number)) {
            return number;
        }
    }
}

// A packet with its checksum, as the sender's socket would have it.
std::vector<std::uint8_t> packet_to(std::uint32_t qpn, std::uint32_t psn, const engine::Address& from,
                                    const engine::Address& to, std::uint16_t identification) {
    wire::Packet packet;
    packet.bth.opcode = wire::kRcSendOnly;
    packet.bth.dest_qpn = qpn;
    packet.bth.psn = psn;
    std::vector<std::uint8_t> bytes(wire::kMaxHeaderBytes);
    bytes.resize(wire::write_headers(packet, bytes));
    bytes.resize(bytes.size() + 64 + wire::kIcrcBytes, 0x5a);
    (void)socket::seal(bytes, from, to, identification);
    return bytes;
}

struct Stranger {
    Stranger() : address(next_address()) {
        Result<Descriptor> made = socket::make_socket({.local = address}, socket::Sharing::kNone);
        assert_true(made.ok());
        socket = *std::move(made);
        assert_true(socket::bind_socket(socket.get(), address, *socket::find_network_device(address)).ok());
    }
    // All of them in one message, which the kernel cuts at the other end or here.
    void send_train(const std::vector<std::vector<std::uint8_t>>& packets, const engine::Address& to) const {
        std::vector<std::uint8_t> train;
        for (const auto& packet : packets) {
            train.insert(train.end(), packet.begin(), packet.end());
        }
        const socket::SocketAddress where = socket::to_socket_address(to, wire::kRocePort, 0);
        const int segment = static_cast<int>(packets.front().size());
        assert_int_equal(setsockopt(socket.get(), SOL_UDP, UDP_SEGMENT, &segment, sizeof segment), 0);
        assert_int_equal(sendto(socket.get(), train.data(), train.size(), 0, &where.any, where.bytes),
                         train.size());
    }
    void send(const std::vector<std::uint8_t>& packet, const engine::Address& to) const {
        send_train({packet}, to);
    }
    engine::Address address;
    Descriptor socket;
};

bool arrives(int socket_fd) {
    pollfd wanted = {.fd = socket_fd, .events = POLLIN, .revents = 0};
    std::array<std::uint8_t, 65536> bytes;
    return poll(&wanted, 1, 10'000) == 1 && recv(socket_fd, bytes.data(), bytes.size(), 0) > 0;
}
bool is_empty(int socket_fd) {
    std::uint8_t byte = 0;
    return recv(socket_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0;
}

// Runs BODY in a process of its own, which then stays until it is ended. ready() is what BODY said.
class Child {
  public:
    explicit Child(const std::function<bool()>& body) {
        int ends[2];
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        pid_ = fork();
        assert_true(pid_ >= 0);
        if (pid_ == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            const char said = body() ? 'y' : 'n';
            (void)!write(ends[1], &said, 1);
            for (;;) {
                pause();
            }
        }
        close(ends[1]);
        char said = 0;
        ready_ = read(ends[0], &said, 1) == 1 && said == 'y';
        close(ends[0]);
    }
    ~Child() {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    bool ready() const { return ready_; }
    pid_t pid() const { return pid_; }

  private:
    pid_t pid_ = -1;
    bool ready_ = false;
};

// A member in a process of its own, until it is killed.
struct MemberProcess : Child {
    explicit MemberProcess(const engine::Address& address) : Child([&] { return join_for_good(address); }) {}

    static bool join_for_good(const engine::Address& address) {
        static Taken taken;
        Result<std::unique_ptr<Group>> made = Group::join({.local = address});
        if (!made) {
            std::fprintf(stderr, "%s\n", made.error().text());
            return false;
        }
        member() = *std::move(made);
        return member()->start(taken).ok();
    }
    static std::unique_ptr<Group>& member() {
        static std::unique_ptr<Group> its;
        return its;
    }
};

// A join that succeeds or fails at once, for its error.
Error refused_join(const engine::Address& address) {
    const Result<std::unique_ptr<Group>> made = Group::join({.local = address});
    assert_false(made.ok());
    return made.error().clone();
}

TEST(numbers__of_64_shares__each_has_one_owner_and_all_have_some) {
    Random random(kSeed);
    const engine::Share::Words words = {0x12345678, 0x9abcdef0, 0x0badcafe, 0x2f6e2b1d};
    std::array<int, kSeats> owned{};
    for (int i = 0; i < 64'000; ++i) {
        const auto number = static_cast<std::uint32_t>(random.next()) & 0xffffff;
        const std::uint32_t owner = engine::Share::share_of(words, number);
        assert_true(owner < kSeats);
        assert_true(engine::Share(words, owner).owns(number));
        assert_false(engine::Share(words, (owner + 1) % kSeats).owns(number));
        ++owned[owner];
    }
    for (const int count : owned) {
        assert_in_range(count, 700, 1300); // of 1000
    }
}

// A process draws the numbers of a slot until one is its own. With one multiplication less these words left
// some seats without any.
TEST(numbers__of_one_slot__each_share_has_some) {
    constexpr std::uint32_t kSlots = 4096;
    for (const engine::Share::Words& words :
         {engine::Share::Words{0x1b30caf4, 0x21f3908f, 0x1e01fde2, 0x16889b6f},
          {0x2efc226f, 0x355e56ed, 0x6f11c320, 0x50ad8f49}}) {
        for (std::uint32_t slot = 0; slot < kSlots; slot += 64) {
            std::array<int, kSeats> owned{};
            for (std::uint32_t tag = 0; tag < (1U << 24) / kSlots; ++tag) {
                ++owned[engine::Share::share_of(words, tag * kSlots + slot)];
            }
            assert_true(*std::ranges::min_element(owned) > 0);
        }
    }
}

TEST(packets__to_members_numbers__arrive_at_their_sockets_and_no_others) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address();
    const Stranger stranger;
    std::vector<std::unique_ptr<Member>> running;
    for (int i = 0; i < 5; ++i) {
        running.push_back(std::make_unique<Member>(address));
    }
    Random random(kSeed);
    for (int i = 0; i < 500; ++i) {
        const std::size_t to = random.next() % running.size();
        const std::uint32_t qpn = number_of(*running[to]->group, random);
        stranger.send(packet_to(qpn, 1, stranger.address, address, 0), address);
        assert_true(arrives(running[to]->group->socket()));
        for (const auto& other : running) {
            assert_true(is_empty(other->group->socket()));
        }
    }
}

// One member opens a further address; those that were there before it and those that come after have sockets
// there, too.
TEST(further_address__opened_by_one__each_member_gets_its_packets_there) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address(), further = next_address();
    const Stranger stranger;
    std::vector<std::unique_ptr<Member>> running;
    std::vector<Descriptor> sockets;
    for (int i = 0; i < 3; ++i) {
        running.push_back(std::make_unique<Member>(address));
    }
    assert_false(running[1]->group->has(further));
    sockets.push_back(opened(*running[1], further));
    assert_true(running[1]->group->has(further));
    for (int i = 0; i < 3; ++i) {
        running.push_back(std::make_unique<Member>(address));
        assert_true(running.back()->group->has(further));
    }
    sockets.clear();
    for (const auto& member : running) {
        sockets.push_back(opened(*member, further));
    }
    Random random(kSeed);
    for (int i = 0; i < 500; ++i) {
        const std::size_t to = random.next() % running.size();
        const std::uint32_t qpn = number_of(*running[to]->group, random);
        stranger.send(packet_to(qpn, 1, stranger.address, further, 0), further);
        assert_true(arrives(sockets[to].get()));
        for (const Descriptor& other : sockets) {
            assert_true(is_empty(other.get()));
        }
    }
}

// Its members go, but for the last one; no socket leaves the kernel's group.
TEST(further_address__its_founder_dies__others_have_it_and_its_seat_is_taken_again) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address(), further = next_address();
    const Stranger stranger;
    Random random(kSeed);
    auto founder = std::make_unique<Member>(address);
    const Member second(address);
    (void)opened(*founder, further);
    founder.reset();
    const Member third(address);
    assert_int_equal(third.group->share().which(), 0);
    for (const Member* const member : {&second, &third}) {
        const Descriptor its = opened(*member, further);
        stranger.send(packet_to(number_of(*member->group, random), 1, stranger.address, further, 0), further);
        assert_true(arrives(its.get()));
    }
}

// Nobody but its thread reads that socket.
TEST(further_address__message_for_queue_pair_1__arrives_with_its_address) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address(), further = next_address();
    const Stranger stranger;
    Member only(address);
    (void)opened(only, further);
    stranger.send(packet_to(wire::kGsiQpn, 77, stranger.address, further, 0), further);
    assert_true(only.taken.wait_for(77));
    assert_true(only.taken.destination() == further);
}

TEST(further_address__that_processes_have_for_themselves__refused_and_not_taken) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address(), further = next_address();
    const Member member(address);
    {
        const Member other(further);
        const Result<Descriptor> refused = member.group->open_at(further);
        assert_false(refused.ok());
        assert_int_equal(refused.error().to_errno(), EADDRINUSE);
        assert_non_null(std::strstr(refused.error().text(), "as a device of its own"));
        assert_false(member.group->has(further));
    }
    const Stranger holder;
    const Result<Descriptor> refused = member.group->open_at(holder.address);
    assert_false(refused.ok());
    assert_int_equal(refused.error().to_errno(), EADDRINUSE);
    (void)opened(member, further);
    const Error error = refused_join(further);
    assert_int_equal(error.to_errno(), EADDRINUSE);
    assert_non_null(std::strstr(error.text(), "one of several addresses"));
}

TEST(further_addresses__as_many_as_there_can_be__the_next_is_told) {
    if (cannot_share()) {
        return;
    }
    const Member member(next_address());
    for (std::size_t i = 0; i < group::kMaxFurther; ++i) {
        (void)opened(member, next_address());
    }
    const Result<Descriptor> refused = member.group->open_at(next_address());
    assert_false(refused.ok());
    assert_int_equal(refused.error().to_errno(), ENOSPC);
    assert_non_null(std::strstr(refused.error().text(), "which is the most"));
}

TEST(train__segments_for_two_members__what_isnt_the_readers_is_handed_on) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address();
    const Stranger stranger;
    Member reader(address);
    Member other(address);
    Random random(kSeed);
    const std::uint32_t readers = number_of(*reader.group, random);
    const std::uint32_t others = number_of(*other.group, random);
    stranger.send_train({packet_to(readers, 10, stranger.address, address, 0),
                         packet_to(others, 11, stranger.address, address, 1),
                         packet_to(readers, 12, stranger.address, address, 2),
                         packet_to(others, 13, stranger.address, address, 3)},
                        address);
    pollfd wanted = {.fd = reader.group->socket(), .events = POLLIN, .revents = 0};
    assert_int_equal(poll(&wanted, 1, 10'000), 1);
    socket::Receiver receiver(reader.group->socket(), address, nullptr);
    std::vector<std::uint32_t> own;
    while (receiver.fetch(16) != 0) {
        receiver.deliver([&](const engine::InPacket& in) {
            if (reader.group->owns(in.packet)) {
                own.push_back(in.packet.bth.psn);
            } else {
                reader.group->hand_on(in);
            }
        });
    }
    assert_true(own == (std::vector<std::uint32_t>{10, 12}));
    assert_true(other.taken.wait_for(11));
    assert_true(other.taken.wait_for(13));
}

TEST(services__taken_once_and_free_when_their_seat_is) {
    const Result<std::unique_ptr<Table>> made = Table::create();
    assert_true(made.ok());
    Table& table = **made;
    constexpr Holder kOne = 0x1'0000'0003, kOther = 0x1'0000'0005;
    const std::uint64_t service = wire::cm_service_id(wire::kPortSpaceTcp, 7174);
    assert_true(table.take_seat(3, kOne));
    assert_true(table.take_seat(4, kOther));
    assert_false(table.take_seat(4, kOne));
    assert_int_equal(table.seat_of_service(service), kSeats);
    assert_true(table.take_service(service, kOne));
    assert_int_equal(table.seat_of_service(service), 3);
    assert_false(table.take_service(service, kOther));
    assert_true(table.take_service(wire::cm_service_id(wire::kPortSpaceUdp, 7174), kOther));
    table.give_up_service(service, kOther); // it isn't that one's
    assert_int_equal(table.seat_of_service(service), 3);
    table.give_up_seat(3, kOne); // as the survivors do
    assert_int_equal(table.seat_of_service(service), kSeats);
    assert_true(table.take_service(service, kOther));
    assert_int_equal(table.seat_of_service(service), 4);
    // Whoever had it last answers until another one takes it.
    table.give_up_service(service, kOther);
    assert_int_equal(table.seat_of_service(service), 4);
    constexpr Holder kThird = 0x1'0000'0007;
    assert_true(table.take_seat(5, kThird));
    assert_true(table.take_service(service, kThird));
    assert_int_equal(table.seat_of_service(service), 5);
    assert_false(table.take_service(service, kOther));
}

TEST(member__dies__its_seat_and_its_port_are_free_for_the_next) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address();
    const MemberProcess survivor(address);
    for (int i = 0; i < 20; ++i) {
        const MemberProcess second(address);
        assert_true(second.ready());
    }
    const Member third(address);
    assert_int_equal(third.group->share().which(), 1);
}

TEST(peer__asked__answers_whether_it_has_the_connection) {
    if (cannot_share()) {
        return;
    }
    Random random(kSeed);
    const engine::Address address = next_address();
    Member first(address);
    auto second = std::make_unique<Member>(address);
    const std::uint32_t seat = second->group->share().which();
    const std::uint32_t theirs = number_of(*second->group, random);
    while (first.group->ask({.local = address, .qpn = theirs - 1, .remote = address, .peer_qpn = theirs}) ==
           engine::Peer::kUnknown) {
        sched_yield(); // the first hasn't read yet who has called
    }
    assert_true(first.taken.wait_for_answer(theirs - 1) == std::optional(true));
    assert_true(
        first.group->ask({.local = address, .qpn = theirs - 2, .remote = address, .peer_qpn = theirs}) ==
        engine::Peer::kLives);
    assert_true(first.taken.wait_for_answer(theirs - 2) == std::optional(false));
    second.reset();
    assert_true(first.taken.wait_for_end_of(seat));
    assert_true(first.group->is_empty(address, seat));
    assert_true(
        first.group->ask({.local = address, .qpn = theirs - 1, .remote = address, .peer_qpn = theirs}) ==
        engine::Peer::kGone);
}

// Until there is a line, nobody is asked.
void ask_until_answered(Member& here, const engine::Address& there, std::uint32_t theirs) {
    while (!here.taken.has_answer(theirs - 1)) {
        (void)here.group->ask({.local = {}, .qpn = theirs - 1, .remote = there, .peer_qpn = theirs});
        sched_yield();
    }
}

// A line to the process that has the number, at another address.
TEST(peer_at_another_address__watched__answers_and_its_end_is_reported) {
    if (cannot_share()) {
        return;
    }
    Random random(kSeed);
    const engine::Address there = next_address();
    Member here(next_address());
    const Member other(there); // which has nothing to do with it
    auto peer = std::make_unique<Member>(there);
    const std::uint32_t theirs = number_of(*peer->group, random);
    const std::uint32_t seat = peer->group->share().which();
    here.group->watch(there, theirs);
    ask_until_answered(here, there, theirs);
    assert_true(here.taken.wait_for_answer(theirs - 1) == std::optional(true));
    peer.reset();
    assert_true(here.taken.wait_for_end_of(seat));
    assert_true(here.group->is_empty(there, seat));
    assert_true(here.taken.wait_for_end_of(seat));
}

// As a process does that disconnects and ends, while this one's thread is busy.
TEST(peer_at_another_address__sends_a_message_and_ends__the_message_arrives_first) {
    if (cannot_share()) {
        return;
    }
    Random random(kSeed);
    const engine::Address address = next_address(), there = next_address();
    const Stranger stranger;
    Member here(address);
    auto peer = std::make_unique<Member>(there);
    const std::uint32_t theirs = number_of(*peer->group, random);
    const std::uint32_t seat = peer->group->share().which();
    here.group->watch(there, theirs);
    ask_until_answered(here, there, theirs);
    {
        const auto shut = here.taken.answer_gate.shut();
        (void)here.group->ask({.local = {}, .qpn = theirs - 1, .remote = there, .peer_qpn = theirs});
        here.taken.answer_gate.wait_until_reached();
        stranger.send(packet_to(wire::kGsiQpn, 77, stranger.address, address, 0), address);
        peer.reset();
    }
    assert_true(here.taken.wait_for_end_of(seat));
    assert_true(here.taken.psns_at_end().contains(77));
}

// It had ended before anybody called it.
TEST(peer_at_another_address__that_has_ended__is_reported_when_watched) {
    if (cannot_share()) {
        return;
    }
    Random random(kSeed);
    const engine::Address there = next_address();
    Member here(next_address());
    const Member other(there);
    auto peer = std::make_unique<Member>(there);
    const std::uint32_t theirs = number_of(*peer->group, random);
    const std::uint32_t seat = peer->group->share().which();
    peer.reset();
    here.group->watch(there, theirs);
    assert_true(here.taken.wait_for_end_of(seat));
}

// A line to the process that has the number at a further address of its group, where no process joins.
TEST(peer_at_a_further_address__watched__answers_and_its_end_is_reported) {
    if (cannot_share()) {
        return;
    }
    Random random(kSeed);
    const engine::Address there = next_address(), further = next_address();
    Member here(next_address());
    const Member other(there);
    auto peer = std::make_unique<Member>(there);
    (void)opened(other, further);
    const std::uint32_t theirs = number_of(*peer->group, random);
    const std::uint32_t seat = peer->group->share().which();
    here.group->watch(further, theirs);
    ask_until_answered(here, further, theirs);
    assert_true(here.taken.wait_for_answer(theirs - 1) == std::optional(true));
    assert_false(group::is_shared(further));
    peer.reset();
    assert_true(here.taken.wait_for_end_of(seat));
    assert_true(here.group->is_empty(further, seat));
}

// All processes of the address have changed: what is known of the former ones counts for nothing.
TEST(peer_at_another_address__of_a_group_that_was_founded_anew__is_found) {
    if (cannot_share()) {
        return;
    }
    Random random(kSeed);
    const engine::Address there = next_address();
    Member here(next_address());
    for (int life = 0; life < 3; ++life) {
        const Member peer(there);
        const std::uint32_t theirs = number_of(*peer.group, random);
        here.group->watch(there, theirs);
        ask_until_answered(here, there, theirs);
        assert_true(here.taken.wait_for_answer(theirs - 1) == std::optional(true));
    }
}

TEST(address_of_nobody__watched__nothing_is_known) {
    if (cannot_share()) {
        return;
    }
    Member here(next_address());
    const engine::Address there = next_address();
    here.group->watch(there, 77);
    assert_true(here.group->ask({.local = {}, .qpn = 76, .remote = there, .peer_qpn = 77}) ==
                engine::Peer::kUnknown);
}

template<typename Message>
void say(const Descriptor& line, const Message& message) {
    const iovec piece{.iov_base = const_cast<Message*>(&message), .iov_len = sizeof message};
    assert_true(group::send(line.get(), {&piece, 1}, {}));
}

// A line to MEMBER, whose group's table is told at the door of ADDRESS.
struct Caller {
    explicit Caller(const engine::Address& address) : visitor(*group::call(group::door_name(address))) {
        std::array<std::uint8_t, sizeof(group::Welcome)> bytes{};
        group::Received received;
        assert_true(group::receive_within(10'000, visitor.get(), bytes, received) ==
                    group::Receipt::kMessage);
        table = *group::Table::map(std::move(received.descriptors[0]));
    }
    Descriptor call_member() const {
        return *group::call(group::line_name(table->group(), table->holder(0)));
    }
    void ask_for_sockets() const { say(visitor, group::AskForSockets()); }
    Descriptor visitor;
    std::unique_ptr<group::Table> table;
};

// As a program opens a socket that gets the number of a line which ended just now, and finds a message in it
// that is for nobody else.
void open_and_read_sockets() {
    constexpr std::size_t kAtOnce = 32;
    for (int turns = 0; turns < 200; ++turns) {
        std::array<std::array<Descriptor, 2>, kAtOnce> pairs;
        for (auto& pair : pairs) {
            int ends[2];
            assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
            pair = {Descriptor(ends[0]), Descriptor(ends[1])};
            assert_int_equal(::send(ends[0], "x", 1, 0), 1);
            assert_int_equal(::send(ends[1], "x", 1, 0), 1);
        }
        for (const auto& pair : pairs) {
            for (const Descriptor& end : pair) {
                char got = 0;
                assert_int_equal(recv(end.get(), &got, sizeof got, MSG_DONTWAIT), 1);
            }
        }
    }
}

// The visitor is answered before the ends of the lines are looked at one by one: by then they were all seen.
TEST(lines__several_end_while_a_visitor_asks__no_other_socket_is_read) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address();
    const Member member(address);
    for (int turns = 0; turns < 50; ++turns) {
        const Caller caller(address);
        std::array<Descriptor, 12> lines;
        for (Descriptor& line : lines) {
            line = caller.call_member();
        }
        caller.ask_for_sockets();
        for (Descriptor& line : lines) {
            line.reset();
        }
        open_and_read_sockets();
    }
}

// The thread stops twice: until all have asked and ended, and then, while it answers the first, between its
// look at the others and the answers. There the program opens sockets, which get the numbers of those others.
TEST(visitors__several_ask_and_end__nothing_is_sent_to_other_sockets) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address();
    Member member(address);
    std::vector<Caller> visitors;
    for (int i = 0; i < 4; ++i) {
        visitors.emplace_back(address);
    }
    const Descriptor before = visitors.front().call_member();
    const Descriptor last = visitors.front().call_member(); // is looked at behind the visitors
    auto question = member.taken.question_gate.shut();
    auto answer = member.taken.answer_gate.shut();
    say(before, group::Ask());
    member.taken.question_gate.wait_until_reached();
    for (const Caller& visitor : visitors) {
        visitor.ask_for_sockets();
    }
    say(last, group::Tell());
    visitors.clear();
    question.unlock();
    member.taken.answer_gate.wait_until_reached();
    std::array<std::array<int, 2>, 32> pairs{};
    for (auto& pair : pairs) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()), 0);
    }
    answer.unlock();
    const Caller next(address); // is let in when the others have been answered
    for (const auto& pair : pairs) {
        assert_true(is_empty(pair[0]) && is_empty(pair[1]));
        close(pair[0]);
        close(pair[1]);
    }
}

TEST(founder__dies__the_others_go_on_and_take_new_members) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address();
    const Stranger stranger;
    auto founder = std::make_unique<MemberProcess>(address);
    Member second(address);
    founder.reset();
    Member third(address);
    Random random(kSeed);
    for (const Member* const member : {&second, &third}) {
        const std::uint32_t qpn = number_of(*member->group, random);
        stranger.send(packet_to(qpn, 1, stranger.address, address, 0), address);
        assert_true(arrives(member->group->socket()));
    }
    assert_true(second.group->share().which() != third.group->share().which());
}

TEST(all__leave__the_address_is_free) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address();
    {
        const Member first(address);
        const Member second(address);
    }
    const Stranger plain; // has a port of its own, so that the next isn't it
    Result<Descriptor> alone = socket::make_socket({.local = address}, socket::Sharing::kNone);
    assert_true(alone.ok());
    assert_true(socket::bind_socket(alone->get(), address, *socket::find_network_device(address)).ok());
}

TEST(address__of_a_program_that_shares_nothing__the_error_names_it) {
    if (cannot_share()) { // nor does it show the host's /proc in its own byte order
        return;
    }
    const Stranger holder;
    const Error error = refused_join(holder.address);
    assert_int_equal(error.to_errno(), EADDRINUSE);
    assert_non_null(std::strstr(error.text(), "this very process"));
}

TEST(seats__all_taken__the_next_is_told) {
    if (cannot_share()) {
        return;
    }
    const rlimit many{.rlim_cur = 16384, .rlim_max = 16384};
    if (setrlimit(RLIMIT_NOFILE, &many) != 0) {
        rlimit limit{};
        getrlimit(RLIMIT_NOFILE, &limit);
        assert_true(limit.rlim_cur >= 1024);
    }
    const engine::Address address = next_address();
    std::vector<std::unique_ptr<MemberProcess>> members;
    for (std::uint32_t i = 0; i < kSeats; ++i) {
        members.push_back(std::make_unique<MemberProcess>(address));
        assert_true(members.back()->ready());
    }
    const Error error = refused_join(address);
    assert_non_null(std::strstr(error.text(), "64 processes share"));
    members[17].reset();
    const Member last(address);
    assert_int_equal(last.group->share().which(), 17);
}

TEST(only_member__stopped__the_error_says_so_and_it_goes_on_later) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address();
    const MemberProcess only(address);
    assert_true(only.ready());
    int status = 0;
    assert_int_equal(kill(only.pid(), SIGSTOP), 0);
    assert_int_equal(waitpid(only.pid(), &status, WUNTRACED), only.pid());
    assert_true(WIFSTOPPED(status));
    const Error error = refused_join(address);
    assert_non_null(std::strstr(error.text(), "is it stopped?"));
    assert_non_null(std::strstr(error.text(), std::to_string(only.pid()).c_str()));
    assert_int_equal(kill(only.pid(), SIGCONT), 0);
    const Member second(address);
}

// A visitor that was let in.
Descriptor knock(const engine::Address& address) {
    Result<Descriptor> made = group::call(group::door_name(address));
    assert_true(made.ok());
    std::array<std::uint8_t, sizeof(group::Welcome)> bytes{};
    group::Received received;
    assert_true(group::receive_within(10'000, made->get(), bytes, received) == group::Receipt::kMessage);
    return *std::move(made);
}

// The first may have been killed after it asked: then the second has the joining lock.
TEST(visitors__two_ask_at_once__both_are_answered) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address();
    const MemberProcess only(address);
    assert_true(only.ready());
    const Descriptor visitors[] = {knock(address), knock(address)};
    int status = 0;
    assert_int_equal(kill(only.pid(), SIGSTOP), 0);
    assert_int_equal(waitpid(only.pid(), &status, WUNTRACED), only.pid());
    for (const Descriptor& visitor : visitors) {
        say(visitor, group::AskForSockets());
    }
    assert_int_equal(kill(only.pid(), SIGCONT), 0);
    for (const Descriptor& visitor : visitors) {
        std::array<std::uint8_t, sizeof(group::Sockets)> bytes{};
        group::Received received;
        assert_true(group::receive_within(10'000, visitor.get(), bytes, received) ==
                    group::Receipt::kMessage);
        assert_true(group::read_as<group::Sockets>({bytes.data(), received.bytes}).has_value());
    }
}

TEST(name__of_another_user__sharing_is_refused_and_the_user_named) {
    if (geteuid() != 0) {
        std::puts("SKIP: becoming another user needs root");
        return;
    }
    const engine::Address address = next_address();
    const group::SocketName name = group::door_name(address);
    const Child squatter([&] {
        static Descriptor door;
        if (setuid(kSquattersUser) != 0) {
            return false;
        }
        auto made = group::bind_name(name);
        door = made ? *std::move(made) : Descriptor();
        return group::listen_at(door.get()).ok();
    });
    assert_true(squatter.ready());
    const Error error = refused_join(address);
    assert_int_equal(static_cast<int>(error.kind()), static_cast<int>(ErrorKind::kPermission));
    assert_non_null(std::strstr(error.text(), "user 65534"));
    assert_non_null(std::strstr(error.text(), std::to_string(squatter.pid()).c_str()));
}

// Whoever opens answers with DESCRIPTORS and a WELCOME.
void open_door_and_say(const engine::Address& address, const group::Welcome& welcome,
                       std::span<const int> descriptors) {
    const Child host([&] {
        static Descriptor door;
        auto made = group::bind_name(group::door_name(address));
        door = made ? *std::move(made) : Descriptor();
        if (!group::listen_at(door.get())) {
            return false;
        }
        static const std::vector<int> given(descriptors.begin(), descriptors.end());
        static const group::Welcome said = welcome;
        static std::vector<Descriptor> visitors;
        static pthread_t thread;
        pthread_create(
            &thread, nullptr,
            [](void*) -> void* {
                for (;;) {
                    pollfd wanted = {.fd = door.get(), .events = POLLIN, .revents = 0};
                    poll(&wanted, 1, -1);
                    Descriptor visitor = group::accept_caller(door.get());
                    const iovec piece{.iov_base = const_cast<group::Welcome*>(&said), .iov_len = sizeof said};
                    (void)group::send(visitor.get(), {&piece, 1}, given);
                    visitors.push_back(std::move(visitor));
                }
            },
            nullptr);
        return true;
    });
    assert_true(host.ready());
    const Error error = refused_join(address);
    assert_int_equal(static_cast<int>(error.kind()), static_cast<int>(ErrorKind::kProtocol));
}

TEST(door__opened_by_something_else__refused) {
    Result<std::unique_ptr<Table>> table = Table::create();
    assert_true(table.ok());
    const Descriptor small(memfd_create("small", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    assert_int_equal(ftruncate(small.get(), 4096), 0);
    const Descriptor grows(memfd_create("grows", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    struct stat whole {};
    assert_int_equal(fstat((*table)->descriptor(), &whole), 0);
    assert_int_equal(ftruncate(grows.get(), whole.st_size), 0); // right size, not sealed
    const Descriptor empty(memfd_create("empty", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    assert_int_equal(ftruncate(empty.get(), whole.st_size), 0); // sealed, without a table
    assert_int_equal(fcntl(empty.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL), 0);
    for (const int memory : {small.get(), grows.get(), empty.get()}) {
        open_door_and_say(next_address(), {}, std::array{memory, memory, memory});
    }
    open_door_and_say(next_address(), {}, std::array{(*table)->descriptor()});
    open_door_and_say(next_address(), {.version = 7}, std::array{(*table)->descriptor(), 0, 0});
    open_door_and_say(next_address(), {.kind = group::Kind::kHello},
                      std::array{(*table)->descriptor(), 0, 0});
}

// Runs BODY in a process of its own, which is killed at system call number CALL of all its threads'. False:
// it had fewer.
template<typename Body>
bool run_and_die_at(int call, const Body& body) {
    const pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
        raise(SIGSTOP);
        body();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSTOPPED(status));
    ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL);
    pid_t stopped = child;
    for (int stops = 0; stops != call; ++stops) {
        do {
            ptrace(PTRACE_SYSCALL, stopped, nullptr, nullptr);
            stopped = waitpid(-1, &status, __WALL);
            if (stopped == child && !WIFSTOPPED(status)) {
                return false;
            }
        } while (!WIFSTOPPED(status)); // a thread has ended
    }
    kill(child, SIGKILL);
    while (waitpid(-1, &status, __WALL) != child || WIFSTOPPED(status)) {
    }
    return true;
}

bool join_and_die_at(const engine::Address& address, int call) {
    return run_and_die_at(call, [&] {
        Taken taken;
        Result<std::unique_ptr<Group>> made = Group::join({.local = address});
        if (made && (*made)->start(taken)) {
            made->reset(); // leaves, which has system calls, too
        }
    });
}

// Each call stops twice: before, and after.
template<typename Check>
int die_everywhere(const Check& check) {
    int call = 0;
    while (check(call)) {
        ++call;
    }
    return call;
}

TEST(founder__killed_at_each_system_call__the_next_has_the_address) {
    if (cannot_share()) {
        return;
    }
    const int calls = die_everywhere([](int call) {
        const engine::Address address = next_address();
        const bool died = join_and_die_at(address, call);
        const Member next(address);
        return died;
    });
    assert_true(calls > 40);
}

// Each time in a group of its own: the second member is the one that makes a socket.
TEST(second__killed_at_each_system_call__others_join_and_get_their_packets) {
    if (cannot_share()) {
        return;
    }
#if defined(__SANITIZE_THREAD__)
    std::puts("SKIP: the thread sanitizer takes no children of a process with threads");
    return;
#endif
    const Stranger stranger;
    Random random(kSeed);
    const int calls = die_everywhere([&](int call) {
        const engine::Address address = next_address();
        const engine::Address further = next_address();
        const Member first(address);
        (void)opened(first, further);
        const bool died = join_and_die_at(address, call);
        const Member next(address);
        const Member after(address);
        for (const Member* const member : {&first, &next, &after}) {
            const std::uint32_t qpn = number_of(*member->group, random);
            stranger.send(packet_to(qpn, 1, stranger.address, address, 0), address);
            stranger.send(packet_to(qpn, 1, stranger.address, further, 0), further);
            if (!arrives(member->group->socket()) || !arrives(opened(*member, further).get())) {
                std::fprintf(stderr, "killed at stop %d: seat %u gets nothing\n", call,
                             member->group->share().which());
                return assert_true(false), false;
            }
        }
        return died;
    });
    assert_true(calls > 40);
}

// Its group's thread does the most of it.
TEST(member__killed_at_each_system_call_of_opening_a_further_address__others_open_it) {
    if (cannot_share()) {
        return;
    }
#if defined(__SANITIZE_THREAD__)
    std::puts("SKIP: the thread sanitizer takes no children of a process with threads");
    return;
#endif
    const Stranger stranger;
    Random random(kSeed);
    const int calls = die_everywhere([&](int call) {
        const engine::Address address = next_address(), further = next_address();
        const Member first(address);
        const bool died = run_and_die_at(call, [&] {
            if (MemberProcess::join_for_good(address)) {
                (void)MemberProcess::member()->open_at(further);
            }
        });
        const Member next(address);
        const Descriptor firsts = opened(first, further);
        const Member after(address);
        for (const Member* const member : {&first, &next, &after}) {
            const Descriptor its = opened(*member, further);
            stranger.send(packet_to(number_of(*member->group, random), 1, stranger.address, further, 0),
                          further);
            if (!arrives(its.get())) {
                std::fprintf(stderr, "killed at stop %d: seat %u gets nothing\n", call,
                             member->group->share().which());
                return assert_true(false), false;
            }
        }
        return died;
    });
    assert_true(calls > 80);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
