// SPDX-License-Identifier: BSD-3-Clause
//
// A transfer while a stranger floods its port: bench_uroce_flood [--json FILE] [--quick].
//
// Two processes have a connection over UDP, and one writes to the other. A third one sends packets of its own
// with right checksums to the writer's or the target's queue pair, or the same number to a port that nobody
// reads. What the transfer keeps beside the second flood is what the machine has left; beside the first it
// shall keep at least half of that.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>

#include <vector>

#include "roce/socket/datagram_frame.hpp"
#include "tests/bench/peer.hpp"
#include "tests/bench/uroce_end.hpp"

namespace sluice::bench {

namespace {

using namespace sluice::roce;

constexpr std::uint32_t kMessageBytes = 65536;
constexpr int kUnderWay = 8;
constexpr double kTimeOfARound = 0.25;
constexpr double kPacketsPerSecond = 250'000;
constexpr std::uint16_t kQuietPort = 4790;

sockaddr_in address_of(const std::string& text, std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    if (inet_pton(AF_INET, text.c_str(), &address.sin_addr) != 1) {
        die("an address of the loopback interface");
    }
    return address;
}

int bound_socket(const sockaddr_in& address) {
    const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        die("binding a socket");
    }
    return fd;
}

// Whom the stranger bothers.
struct Victim {
    char address[32] = "";
    std::uint32_t qpn = 0;
    std::uint16_t port = 0;
};

// Empty writes, each with another number, from a socket at FROM.
class Flood {
  public:
    explicit Flood(const std::string& from)
        : from_(from), fd_(bound_socket(address_of(from, 0))), datagrams_(kBatch), vectors_(kBatch),
          messages_(kBatch) {
        socklen_t bytes = sizeof local_;
        if (getsockname(fd_, reinterpret_cast<sockaddr*>(&local_), &bytes) != 0) {
            die("getsockname");
        }
    }

    // Until FD is readable. Tells there when it begins.
    void run(int fd, const Victim& victim) {
        aim(victim);
        const double start = seconds_now();
        double sent = 0;
        bool is_ahead = false; // of the rate
        for (bool told = false; !is_readable(fd, is_ahead ? kPause : timespec{}); told = true) {
            if (!told) {
                tell(fd, 'f');
            }
            is_ahead = sent > (seconds_now() - start) * kPacketsPerSecond;
            sent += is_ahead ? 0 : std::max(0, sendmmsg(fd_, messages_.data(), kBatch, MSG_DONTWAIT));
        }
        tell(fd, sent / (seconds_now() - start));
    }

  private:
    static constexpr std::uint32_t kBatch = 64;
    static constexpr std::size_t kBytes = wire::Bth::kBytes + 16 + wire::kIcrcBytes;

    static constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 100'000};

    // Within PAUSE.
    static bool is_readable(int fd, const timespec& pause) {
        pollfd wanted{.fd = fd, .events = POLLIN, .revents = 0};
        return ppoll(&wanted, 1, &pause, nullptr) == 1;
    }
    void aim(const Victim& victim) {
        to_ = address_of(victim.address, victim.port);
        for (std::uint32_t i = 0; i < kBatch; ++i) {
            write_datagram(victim, 0x800000 + i * 100, datagrams_[i]);
            vectors_[i] = {datagrams_[i].data(), kBytes};
            messages_[i] = {};
            messages_[i].msg_hdr.msg_name = &to_;
            messages_[i].msg_hdr.msg_namelen = sizeof to_;
            messages_[i].msg_hdr.msg_iov = &vectors_[i];
            messages_[i].msg_hdr.msg_iovlen = 1;
        }
    }
    void write_datagram(const Victim& victim, std::uint32_t psn, std::array<std::uint8_t, kBytes>& datagram) {
        wire::Packet packet;
        packet.bth.opcode = wire::kRcWriteOnly;
        packet.bth.migrated = true;
        packet.bth.dest_qpn = victim.qpn;
        packet.bth.psn = psn;
        (void)wire::write_headers(packet, datagram);
        const wire::ConstBytes transport = wire::ConstBytes(datagram).first(kBytes - wire::kIcrcBytes);
        const wire::Frame frame =
            socket::frame_between(*socket::parse_address(from_.c_str()),
                                  *socket::parse_address(victim.address), ntohs(local_.sin_port), transport);
        wire::icrc_store(wire::expected_icrc(frame), std::span(datagram).last<wire::kIcrcBytes>());
    }

    std::string from_;
    sockaddr_in local_{};
    sockaddr_in to_{};
    int fd_;
    std::vector<std::array<std::uint8_t, kBytes>> datagrams_;
    std::vector<iovec> vectors_;
    std::vector<mmsghdr> messages_;
};

void flood(int fd) {
    Flood stranger(own_address(2));
    while (true) {
        const auto victim = hear<Victim>(fd);
        stranger.run(fd, victim);
        (void)hear<char>(fd);
    }
}

void serve(int fd) {
    const Buffer memory(kMessageBytes);
    const Context context(own_address(1));
    End end(context, memory);
    tell(fd, end.card());
    end.connect(hear<Card>(fd));
    tell(fd, 'r');
    (void)hear<char>(fd);
}

class Transfer {
  public:
    explicit Transfer(const Peer& peer)
        : memory_(kMessageBytes), context_(own_address(0)), end_(context_, memory_) {
        tell(peer.fd(), end_.card());
        peer_ = hear<Card>(peer.fd());
        end_.connect(peer_);
        (void)hear<char>(peer.fd());
    }
    Victim writer() const { return victim(own_address(0), end_.card()); }
    Victim target() const { return victim(own_address(1), peer_); }

    // MB/s.
    double run() {
        const double start = seconds_now();
        int posted = 0;
        int done = 0;
        for (; seconds_now() - start < kTimeOfARound; done += end_.poll(16)) {
            for (; posted - done < kUnderWay; ++posted) {
                end_.post_write(kMessageBytes);
            }
        }
        const double rate = done * (kMessageBytes / 1e6) / (seconds_now() - start);
        while (done < posted) {
            done += end_.poll(16);
        }
        return rate;
    }

  private:
    static Victim victim(const std::string& address, const Card& card) {
        Victim victim{.qpn = card.qpn, .port = 4791};
        address.copy(victim.address, sizeof victim.address - 1);
        return victim;
    }

    Buffer memory_;
    Context context_;
    End end_;
    Card peer_{};
};

// What the transfer keeps beside a flood of VICTIM.
double beside(const Peer& stranger, const Victim& victim, Transfer& transfer, double& packets) {
    tell(stranger.fd(), victim);
    (void)hear<char>(stranger.fd());
    const double rate = transfer.run();
    tell(stranger.fd(), 'e');
    packets = hear<double>(stranger.fd());
    return rate;
}

void add_figure(Report& report, const Peer& stranger, Transfer& transfer, const char* name,
                const Victim& victim, double alone) {
    Victim elsewhere = victim;
    elsewhere.port = kQuietPort;
    std::vector<double> hit;
    std::vector<double> missed;
    std::vector<double> rates;
    for (int round = 0; round < report.rounds(40); ++round) {
        double packets = 0;
        hit.push_back(beside(stranger, victim, transfer, packets));
        rates.push_back(packets);
        missed.push_back(beside(stranger, elsewhere, transfer, packets));
    }
    const double ours = median(std::move(hit));
    const double theirs = median(std::move(missed));
    report.add({.name = name,
                .value = ours / theirs,
                .unit = "x",
                .kind = Goal::kAtLeast,
                .goal = 0.5,
                .ours = ours,
                .theirs = theirs,
                .compared_unit = "MB/s"});
    std::printf("  (%.0f packets a second; without a flood %.0f MB/s)\n", median(std::move(rates)), alone);
}

int run(int argc, char** argv) {
    Report report("uroce: 64 KiB writes over UDP beside a flood", argc, argv);
    setenv("SLUICE_UROCE_NEIGHBOURS", "packets", 1);
    const Peer stranger(flood);
    const Peer target(serve);
    Transfer transfer(target);
    const int quiet[] = {bound_socket(address_of(own_address(0), kQuietPort)),
                         bound_socket(address_of(own_address(1), kQuietPort))};
    std::vector<double> rates;
    for (int round = 0; round < report.rounds(40); ++round) {
        rates.push_back(transfer.run());
    }
    const double alone = median(std::move(rates));
    add_figure(report, stranger, transfer, "flood of the target / of another port", transfer.target(), alone);
    add_figure(report, stranger, transfer, "flood of the writer / of another port", transfer.writer(), alone);
    for (const int fd : quiet) {
        close(fd);
    }
    return report.finish();
}

} // namespace

} // namespace sluice::bench

int main(int argc, char** argv) {
    return sluice::bench::run(argc, argv);
}
