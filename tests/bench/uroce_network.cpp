// SPDX-License-Identifier: BSD-3-Clause
//
// Between two processes, over UDP on the loopback interface, as between hosts: memory, the short way between
// processes of one host, is switched off here (uroce_local.cpp measures it). Both contenders move messages of
// 64 KiB, have the same number of bytes under way, and wait for answers; each has a process of its own at
// the other end, which sleeps while it isn't its turn.
#include <cstdlib>

#include "tests/bench/bare_socket.hpp"
#include "tests/bench/peer.hpp"
#include "tests/bench/uroce.hpp"
#include "tests/bench/uroce_end.hpp"

namespace sluice::bench {

namespace {

constexpr int kUnderWay = 8; // messages
constexpr int kMessages = 64;

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

    void run(std::uint32_t bytes = kMessageBytes) {
        int posted = 0;
        for (int done = 0; done < kMessages;) {
            for (; posted < kMessages && posted - done < kUnderWay; ++posted) {
                end_.post_write(bytes);
            }
            done += wait();
        }
    }
    void ping(std::uint32_t bytes) {
        end_.post_write(bytes);
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

// While it lives, devices that are opened here send packets over UDP to all other processes.
class PacketsOnly {
  public:
    PacketsOnly() { setenv(kSetting, "packets", 1); }
    ~PacketsOnly() { unsetenv(kSetting); }
    PacketsOnly(const PacketsOnly&) = delete;
    PacketsOnly& operator=(const PacketsOnly&) = delete;

  private:
    static constexpr const char* kSetting = "SLUICE_UROCE_NEIGHBOURS";
};

// Answers each whole message with one byte.
void serve_bare(int fd) {
    const BareSocket socket;
    tell(fd, socket.local());
    const auto peer = hear<sockaddr_in>(fd);
    const Buffer target(BareSocket::kRoom);
    for (std::size_t arrived = 0;;) {
        arrived += socket.take(target);
        for (; arrived >= BareSocket::kMessageOnWire; arrived -= BareSocket::kMessageOnWire) {
            socket.answer(peer);
        }
    }
}

class Bare {
  public:
    explicit Bare(const Peer& peer) : source_(BareSocket::kMessageOnWire), answers_(BareSocket::kRoom) {
        tell(peer.fd(), socket_.local());
        destination_ = hear<sockaddr_in>(peer.fd());
    }

    void run() {
        int sent = 0;
        for (int answered = 0; answered < kMessages;) {
            for (; sent < kMessages && sent - answered < kUnderWay; ++sent) {
                socket_.send(source_, destination_);
            }
            socket_.await_readable();
            answered += static_cast<int>(socket_.take(answers_));
        }
    }

  private:
    Buffer source_;
    Buffer answers_;
    BareSocket socket_;
    sockaddr_in destination_{};
};

double mb_per_s(std::uint32_t bytes, double nanoseconds) {
    return double{kMessages} * bytes / nanoseconds * 1e3;
}

const Comparison kBandwidth{"RDMA Write between processes over UDP: bandwidth, 8 under way", "MB/s", "uroce",
                            "bare sockets"};
constexpr double kLeastOfBare = 0.6;

void compare_with_bare(Report& report, Ours& ours, Bare& bare) {
    const auto nothing = [] {};
    const std::vector<double> ns = interleave(
        {{nothing, [&] { ours.run(); }}, {nothing, [&] { bare.run(); }}, {nothing, [&] { bare.run(); }}},
        report.rounds(101), 1);
    const double our_rate = mb_per_s(kMessageBytes, ns[0]);
    const double bare_rate = mb_per_s(kMessageBytes, ns[1]);
    report.add(
        {.name = "64 KiB Writes between processes over UDP / bare sockets",
         .value = ns[1] / ns[0],
         .unit = "x",
         .kind = Goal::kAtLeast,
         .goal = kLeastOfBare,
         .ours = our_rate,
         .theirs = bare_rate,
         .compared_unit = "MB/s",
         .noise = std::fabs(ns[2] / ns[1] - 1),
         .points = compared(kBandwidth, kMessageBytes, our_rate, bare_rate, kLeastOfBare * bare_rate)});
}

void rate_of_smaller(Report& report, Ours& ours, std::uint32_t bytes) {
    const std::vector<double> ns = interleave({{[] {}, [&] { ours.run(bytes); }}}, report.rounds(51), 1);
    const double rate = mb_per_s(bytes, ns[0]);
    report.add({.name = std::to_string(bytes) + "-byte Writes between processes over UDP",
                .value = rate,
                .unit = "MB/s",
                .points = {{kBandwidth.chart, "MB/s", "uroce", bytes, rate}}});
}

void time_to_completion(Report& report, Ours& ours, std::uint32_t bytes, int rounds) {
    std::vector<double> pings;
    for (int i = 0; i < report.rounds(rounds); ++i) {
        const std::uint64_t start = ticks();
        ours.ping(bytes);
        pings.push_back(static_cast<double>(ticks() - start) * ns_per_tick());
    }
    const double us = median(std::move(pings)) / 1000;
    report.add({.name = std::to_string(bytes) + "-byte Write between processes over UDP, posted to completed",
                .value = us,
                .unit = "us",
                .points = {{"RDMA Write between processes over UDP: posted to completed", "us", "uroce",
                            bytes, us}}});
}

} // namespace

void network_figures(Report& report) {
    const PacketsOnly packets_only;
    const Peer our_peer(serve_writes);
    const Peer bare_peer(serve_bare);
    Ours ours(our_peer);
    Bare bare(bare_peer);
    compare_with_bare(report, ours, bare);
    for (const std::uint32_t bytes : {4096U, 16384U}) {
        rate_of_smaller(report, ours, bytes);
    }
    time_to_completion(report, ours, 8, 2000);
    for (const std::uint32_t bytes : {512U, 4096U, 65536U}) {
        time_to_completion(report, ours, bytes, 500);
    }
}

} // namespace sluice::bench
