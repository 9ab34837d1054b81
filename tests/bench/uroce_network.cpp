// SPDX-License-Identifier: BSD-3-Clause
//
// Between two processes, over UDP on the loopback interface. Both contenders move messages of 64 KiB,
// have the same number of bytes under way, and wait for answers; each has a process of its own at
// the other end, which sleeps while it isn't its turn.
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <memory>

#include "tests/bench/uroce.hpp"
#include "tests/bench/uroce_end.hpp"

namespace sluice::bench {

namespace {

constexpr std::uint32_t kMtu = 4096;
constexpr std::uint32_t kPackets = 16;
constexpr std::uint32_t kMessageBytes = kMtu * kPackets;
constexpr int kUnderWay = 8; // messages
constexpr int kMessages = 64;

// A process that runs SERVE with one end of a socket pair, and ends when ours is closed.
class Peer {
  public:
    template<typename Serve>
    explicit Peer(Serve serve) {
        int fds[2] = {-1, -1};
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
            die("socketpair");
        }
        pid_ = fork();
        if (pid_ == 0) {
            close(fds[0]);
            serve(fds[1]);
            _exit(0);
        }
        close(fds[1]);
        fd_ = fds[0];
    }
    ~Peer() {
        close(fd_);
        (void)kill(pid_, SIGTERM); // it may sit in a system call of its own
        waitpid(pid_, nullptr, 0);
    }
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;

    int fd() const { return fd_; }

  private:
    pid_t pid_ = -1;
    int fd_ = -1;
};

template<typename T>
void tell(int fd, const T& what) {
    if (write(fd, &what, sizeof what) != static_cast<ssize_t>(sizeof what)) {
        die("telling the other process");
    }
}

template<typename T>
T hear(int fd) {
    T what{};
    if (read(fd, &what, sizeof what) != static_cast<ssize_t>(sizeof what)) {
        die("hearing from the other process");
    }
    return what;
}

void serve_writes(int fd) {
    const Buffer memory(kMessageBytes);
    const Context context(own_address(0));
    End end(context, memory);
    tell(fd, end.card());
    end.connect(hear<Card>(fd));
    tell(fd, 'r');
    char byte = 0;
    (void)!read(fd, &byte, 1);
}

// Writes into another process, which does nothing about it.
class Ours {
  public:
    explicit Ours(const Peer& peer)
        : memory_(kMessageBytes), context_(own_address(0)), end_(context_, memory_) {
        tell(peer.fd(), end_.card());
        end_.connect(hear<Card>(peer.fd()));
        (void)hear<char>(peer.fd());
    }

    void run() {
        int posted = 0;
        for (int done = 0; done < kMessages;) {
            for (; posted < kMessages && posted - done < kUnderWay; ++posted) {
                end_.post_write(kMessageBytes);
            }
            done += wait();
        }
    }
    void ping() {
        end_.post_write(8);
        (void)wait();
    }

  private:
    // The peer's thread may be waiting for our core: two processes with a thread each beside them are
    // more than many machines have cores.
    int wait() {
        int count = end_.poll(16);
        for (; count == 0; count = end_.poll(16)) {
            sched_yield();
        }
        return count;
    }

    Buffer memory_;
    Context context_;
    End end_;
};

int bound_socket(sockaddr_in& local) {
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    local = {};
    local.sin_family = AF_INET;
    local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int buffer = 4 << 20;
    const int on = 1;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer) != 0) {
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    }
    setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof on);
    socklen_t bytes = sizeof local;
    if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&local), bytes) != 0 ||
        getsockname(fd, reinterpret_cast<sockaddr*>(&local), &bytes) != 0) {
        die("binding a socket");
    }
    return fd;
}

// Takes what is there, sleeping if there is nothing. Returns how many bytes.
std::size_t take(int fd, const Buffer& into) {
    std::array<mmsghdr, 16> messages{};
    std::array<iovec, 16> vectors{};
    std::array<std::array<char, 64>, 16> controls{};
    for (std::size_t i = 0; i < messages.size(); ++i) {
        vectors[i] = {into.data() + i * 65536, 65536};
        messages[i].msg_hdr.msg_iov = &vectors[i];
        messages[i].msg_hdr.msg_iovlen = 1;
        messages[i].msg_hdr.msg_control = controls[i].data();
        messages[i].msg_hdr.msg_controllen = controls[i].size();
    }
    const int taken = recvmmsg(fd, messages.data(), messages.size(), MSG_WAITFORONE, nullptr);
    std::size_t bytes = 0;
    for (int i = 0; i < taken; ++i) {
        bytes += messages[static_cast<std::size_t>(i)].msg_len;
    }
    return bytes;
}

constexpr std::uint16_t kSegment = kMtu + 16; // BTH and ICRC
constexpr std::size_t kMessageOnWire = std::size_t{kSegment} * kPackets;

// Answers each whole message with one byte.
void serve_bare(int fd) {
    sockaddr_in local{};
    const int socket_fd = bound_socket(local);
    tell(fd, local);
    const auto peer = hear<sockaddr_in>(fd);
    const Buffer target(std::size_t{16} * 65536);
    for (std::size_t arrived = 0;;) {
        arrived += take(socket_fd, target);
        for (; arrived >= kMessageOnWire; arrived -= kMessageOnWire) {
            const char answer = 'a';
            (void)!sendto(socket_fd, &answer, 1, 0, reinterpret_cast<const sockaddr*>(&peer), sizeof peer);
        }
    }
}

// The same bytes with nothing of ours: no headers to make, no checksum, nothing sent again.
class Bare {
  public:
    explicit Bare(const Peer& peer)
        : source_(kMessageOnWire), answers_(std::size_t{16} * 65536), fd_(bound_socket(local_)) {
        tell(peer.fd(), local_);
        destination_ = hear<sockaddr_in>(peer.fd());
    }
    ~Bare() { close(fd_); }
    Bare(const Bare&) = delete;
    Bare& operator=(const Bare&) = delete;

    void run() {
        int sent = 0;
        for (int answered = 0; answered < kMessages;) {
            for (; sent < kMessages && sent - answered < kUnderWay; ++sent) {
                send();
            }
            pollfd wanted = {.fd = fd_, .events = POLLIN, .revents = 0};
            if (::poll(&wanted, 1, 2000) != 1) {
                die("a packet of the bare sockets was lost on the loopback interface");
            }
            answered += static_cast<int>(take(fd_, answers_));
        }
    }

  private:
    // As many packets as a message may have, and the rest.
    void send() {
        constexpr std::size_t kFirst = std::size_t{kSegment} * (kPackets - 1);
        std::array<mmsghdr, 2> messages{};
        std::array<iovec, 2> vectors = {iovec{source_.data(), kFirst},
                                        iovec{source_.data() + kFirst, kSegment}};
        alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof kSegment)> control{};
        for (std::size_t i = 0; i < 2; ++i) {
            messages[i].msg_hdr.msg_name = &destination_;
            messages[i].msg_hdr.msg_namelen = sizeof destination_;
            messages[i].msg_hdr.msg_iov = &vectors[i];
            messages[i].msg_hdr.msg_iovlen = 1;
        }
        messages[0].msg_hdr.msg_control = control.data();
        messages[0].msg_hdr.msg_controllen = control.size();
        cmsghdr* const segment = CMSG_FIRSTHDR(&messages[0].msg_hdr);
        segment->cmsg_level = SOL_UDP;
        segment->cmsg_type = UDP_SEGMENT;
        segment->cmsg_len = CMSG_LEN(sizeof kSegment);
        std::memcpy(CMSG_DATA(segment), &kSegment, sizeof kSegment);
        if (sendmmsg(fd_, messages.data(), 2, 0) != 2) {
            die("sendmmsg");
        }
    }

    Buffer source_;
    Buffer answers_;
    sockaddr_in local_{};
    sockaddr_in destination_{};
    int fd_;
};

} // namespace

void network_figures(Report& report) {
    const Peer our_peer(serve_writes);
    const Peer bare_peer(serve_bare);
    Ours ours(our_peer);
    Bare bare(bare_peer);
    const auto nothing = [] {};
    const std::vector<double> ns = interleave(
        {{nothing, [&] { ours.run(); }}, {nothing, [&] { bare.run(); }}, {nothing, [&] { bare.run(); }}},
        report.rounds(101), 1);
    const auto mb_per_s = [](double nanoseconds) {
        return double{kMessages} * kMessageBytes / nanoseconds * 1e3;
    };
    report.add({.name = "64 KiB Writes between processes / bare sockets",
                .value = ns[1] / ns[0],
                .unit = "x",
                .kind = Goal::kAtLeast,
                .goal = 0.6,
                .ours = mb_per_s(ns[0]),
                .theirs = mb_per_s(ns[1]),
                .compared_unit = "MB/s",
                .noise = std::fabs(ns[2] / ns[1] - 1)});
    std::vector<double> pings;
    for (int i = 0; i < report.rounds(2000); ++i) {
        const std::uint64_t start = ticks();
        ours.ping();
        pings.push_back(static_cast<double>(ticks() - start) * ns_per_tick());
    }
    report.add({.name = "8-byte Write between processes, posted to completed",
                .value = median(std::move(pings)) / 1000,
                .unit = "us"});
}

} // namespace sluice::bench
