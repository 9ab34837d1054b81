// SPDX-License-Identifier: BSD-3-Clause
//
// Members of groups in this process and in others, a stranger that sends to them, and processes that die when
// a test says so.
#pragma once

#include <csignal>
#include <fcntl.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "roce/group/group.hpp"
#include "roce/socket/flat_packet.hpp"
#include "roce/wire/mad.hpp"
#include "tests/loopback.hpp"
#include "tests/unit/roce/random.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

namespace sluice::roce::test {

using group::Group;

inline constexpr std::uint64_t kGroupSeed = 20261121;

// Said once for each test that needs the kernel to steer packets.
inline bool cannot_share() {
#if defined(TEST_EMULATED)
    std::puts("SKIP: user-mode emulation passes on no program for a socket");
    return true;
#else
    return false;
#endif
}

inline engine::Address next_address() {
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
        (qpn == kLateQpn ? late_question_gate : question_gate).pass();
        return qpn == peer_qpn + 1;
    }
    void peer_told(const engine::Ends& ends, bool connected) noexcept override {
        answer_gate.pass();
        const std::lock_guard lock(mutex_);
        told_.emplace(ends.qpn, connected);
        remote_told_ = ends.remote;
        eventfd_write(changed_.get(), 1);
    }
    void member_ended(const engine::Address& /*address*/, const engine::Share& its) noexcept override {
        if (at_end) {
            at_end();
        }
        const std::lock_guard lock(mutex_);
        ended_.insert(its.which());
        psns_at_end_ = psns_;
        eventfd_write(changed_.get(), 1);
    }
    void nobody_at(const engine::Address& address) noexcept override {
        const std::lock_guard lock(mutex_);
        ++left_[address.gid];
        eventfd_write(changed_.get(), 1);
    }
    int board() const noexcept override {
        lines_ = lines_ + 1;
        return -1;
    }
    // Until this one has called a process.
    void wait_for_line() const {
        while (lines_ == 0) {
            sched_yield();
        }
    }
    // How often it was said that nobody is at ADDRESS, once it was.
    int wait_for_nobody_at(const engine::Address& address) {
        (void)wait_until([&] { return left_.contains(address.gid); });
        const std::lock_guard lock(mutex_);
        return left_[address.gid];
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

    // The peer of the last answer.
    engine::Address remote_told() {
        const std::lock_guard lock(mutex_);
        return remote_told_;
    }

    // Before a peer's question is answered, and before a peer's answer is taken. A question about this number
    // has a gate of its own.
    static constexpr std::uint32_t kLateQpn = 1;
    Gate question_gate;
    Gate late_question_gate;
    Gate answer_gate;
    // From the group's thread, when a member has ended.
    std::function<void()> at_end;

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
    mutable std::atomic<int> lines_{0};
    std::map<decltype(engine::Address::gid), int> left_;
    engine::Address destination_;
    std::map<std::uint32_t, bool> told_;
    engine::Address remote_told_;
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
inline Descriptor opened(const Member& member, const engine::Address& further) {
    Result<Descriptor> made = member.group->open_at(further);
    if (!made) {
        std::fprintf(stderr, "%s\n", made.error().text());
    }
    assert_true(made.ok());
    return *std::move(made);
}

// A number that belongs to a member.
inline std::uint32_t number_in(const engine::Share& its, Random& random) {
    for (;;) {
        const auto number = static_cast<std::uint32_t>(random.next()) & 0xffffff;
        if (number > wire::kGsiQpn && its.owns(number)) {
            return number;
        }
    }
}
inline std::uint32_t number_of(const Group& member, Random& random) {
    return number_in(member.share(), random);
}

// A packet with its checksum, as the sender's socket would have it.
inline std::vector<std::uint8_t> packet_to(std::uint32_t qpn, std::uint32_t psn, const engine::Address& from,
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

// A datagram does, sooner or later, and isn't read.
inline bool waits(int socket_fd) {
    pollfd wanted = {.fd = socket_fd, .events = POLLIN, .revents = 0};
    return poll(&wanted, 1, 10'000) == 1;
}
inline bool arrives(int socket_fd) {
    std::array<std::uint8_t, 65536> bytes;
    return waits(socket_fd) && recv(socket_fd, bytes.data(), bytes.size(), MSG_DONTWAIT) > 0;
}
// What no event tells of.
template<typename Condition>
bool comes_true(const Condition& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!condition()) {
        if (std::chrono::steady_clock::now() > end) {
            return false;
        }
        sched_yield();
    }
    return true;
}
inline bool is_empty(int socket_fd) {
    std::uint8_t byte = 0;
    return recv(socket_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0;
}

// Runs BODY in a process of its own, which then stays until it is ended. ready() is what BODY said. LATER
// runs after that.
class Child {
  public:
    explicit Child(
        const std::function<bool()>& body, const std::function<void()>& later = [] {}) {
        int ends[2];
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        pid_ = fork();
        assert_true(pid_ >= 0);
        if (pid_ == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            const char said = body() ? 'y' : 'n';
            (void)!write(ends[1], &said, 1);
            later();
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

// Between two processes, one of which waits for the other.
class Signal {
  public:
    void give(bool good = true) const { eventfd_write(count_.get(), good ? kGood : kBad); }
    // Whether it was a good one. False after ten seconds, too.
    bool wait() const {
        pollfd wanted = {.fd = count_.get(), .events = POLLIN, .revents = 0};
        eventfd_t count = 0;
        return poll(&wanted, 1, 10'000) == 1 && eventfd_read(count_.get(), &count) == 0 && count == kGood;
    }

  private:
    static constexpr eventfd_t kGood = 1, kBad = 2;
    Descriptor count_{eventfd(0, EFD_CLOEXEC)};
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
    static bool open_for_good(const engine::Address& further) {
        const Result<Descriptor> made = member()->open_at(further);
        if (!made) {
            std::fprintf(stderr, "%s\n", made.error().text());
        }
        return made.ok();
    }
    static std::unique_ptr<Group>& member() {
        static std::unique_ptr<Group> its;
        return its;
    }
};

// A join that succeeds or fails at once, for its error.
inline Error refused_join(const engine::Address& address) {
    const Result<std::unique_ptr<Group>> made = Group::join({.local = address});
    assert_false(made.ok());
    return made.error().clone();
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

// Each call stops twice: before, and after.
template<typename Check>
int die_everywhere(const Check& check) {
    int call = 0;
    while (check(call)) {
        ++call;
    }
    return call;
}

template<typename Message>
void say(const Descriptor& line, const Message& message, std::span<const int> descriptors = {}) {
    const iovec piece{.iov_base = const_cast<Message*>(&message), .iov_len = sizeof message};
    assert_true(group::send(line.get(), {&piece, 1}, descriptors));
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

} // namespace sluice::roce::test
