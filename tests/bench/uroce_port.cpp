// SPDX-License-Identifier: BSD-3-Clause
//
// Packets through UDP sockets, and what guarding memory costs: bench_uroce_port [--json FILE] [--quick].
//
// A message of 64 KiB, cut as an RDMA Write of MTU 4096, goes over the loopback interface and is taken
// in by the same thread, so that what is compared is the work of both sides. The yardstick is the
// same bytes through bare sendmmsg() with segmentation and recvmmsg() with its inverse: no headers to
// make, no checksum.
#include <netinet/udp.h>
#include <poll.h>

#include <cerrno>

#include "roce/socket/guarded_memory.hpp"
#include "roce/socket/udp_port.hpp"
#include "tests/bench/harness.hpp"
#include "tests/loopback.hpp"

namespace sluice::bench {

namespace {

using namespace sluice::roce;
using namespace sluice::roce::engine;
using namespace sluice::roce::socket;

constexpr std::uint32_t kMtu = 4096;
constexpr std::uint32_t kPackets = 16;
constexpr std::uint32_t kMessageBytes = kMtu * kPackets;

[[noreturn]] void die(const char* what) {
    std::fprintf(stderr, "bench_uroce_port: %s: %s\n", what, std::strerror(errno));
    std::exit(1);
}

Address free_address() {
    return *parse_address(sluice::test::Loopback::instance().next_address().c_str());
}

std::unique_ptr<UdpPort> open_port(Memory& memory) {
    auto port = UdpPort::open({.local = free_address()}, memory);
    if (!port) {
        std::fprintf(stderr, "bench_uroce_port: %s\n", port.error().text());
        std::exit(1);
    }
    return *std::move(port);
}

void wait_readable(int descriptor) {
    pollfd wanted = {.fd = descriptor, .events = POLLIN, .revents = 0};
    if (poll(&wanted, 1, 1000) != 1) {
        die("a packet was lost on the loopback interface");
    }
}

// One message from one port to another.
class Ours {
  public:
    Ours(Memory& memory, bool copy)
        : memory_(memory), copy_(copy), from_(open_port(memory)), to_(open_port(memory)),
          source_(kMessageBytes), target_(kMessageBytes) {}

    void run() {
        for (std::uint32_t i = 0; i < kPackets; ++i) {
            wire::Packet packet;
            packet.bth.opcode = i == 0              ? wire::kRcWriteFirst
                                : i + 1 == kPackets ? wire::kRcWriteLast
                                                    : wire::kRcWriteMiddle;
            packet.bth.psn = i;
            OutPacket& out = out_;
            out.begin();
            out.add_piece(source_.address() + std::uint64_t{i} * kMtu, kMtu);
            out.packet = packet;
            out.finish();
            out.destination = to_->local();
            from_->sender().append(out);
        }
        from_->sender().flush();
        for (std::uint32_t arrived = 0; arrived < kPackets;) {
            if (to_->receiver().fetch(Receiver::kMaxMessages) == 0) {
                wait_readable(to_->descriptor());
                continue;
            }
            arrived += to_->receiver().deliver([&](const InPacket& in) {
                if (copy_) {
                    memory_.copy_in(target_.address() + std::uint64_t{in.packet.bth.psn} * kMtu,
                                    in.packet.payload.data(), in.packet.payload.size());
                }
            });
        }
    }

  private:
    Memory& memory_;
    bool copy_;
    std::unique_ptr<UdpPort> from_;
    std::unique_ptr<UdpPort> to_;
    Buffer source_;
    Buffer target_;
    OutPacket out_;
};

// The same bytes with nothing of ours.
class Bare {
  public:
    Bare() : from_(bound_socket()), to_(bound_socket()), source_(kMessageBytes + 8192), target_(16 * 65536) {
        const int on = 1;
        setsockopt(to_.get(), SOL_UDP, UDP_GRO, &on, sizeof on);
        socklen_t bytes = sizeof destination_;
        getsockname(to_.get(), reinterpret_cast<sockaddr*>(&destination_), &bytes);
    }

    void run() {
        send();
        std::size_t arrived = 0;
        while (arrived < kBytes) {
            std::array<mmsghdr, 16> messages{};
            std::array<iovec, 16> vectors{};
            std::array<std::array<char, 64>, 16> controls{};
            for (std::size_t i = 0; i < messages.size(); ++i) {
                vectors[i] = {target_.data() + i * 65536, 65536};
                messages[i].msg_hdr.msg_iov = &vectors[i];
                messages[i].msg_hdr.msg_iovlen = 1;
                messages[i].msg_hdr.msg_control = controls[i].data();
                messages[i].msg_hdr.msg_controllen = controls[i].size();
            }
            const int taken = recvmmsg(to_.get(), messages.data(), messages.size(), MSG_DONTWAIT, nullptr);
            if (taken <= 0) {
                wait_readable(to_.get());
            }
            for (int i = 0; i < taken; ++i) {
                arrived += messages[static_cast<std::size_t>(i)].msg_len;
            }
        }
    }

  private:
    static constexpr std::uint16_t kSegment = kMtu + 16; // BTH and ICRC
    static constexpr std::size_t kBytes = std::size_t{kSegment} * kPackets;
    static constexpr std::size_t kFirst = std::size_t{kSegment} * (kPackets - 1);

    static Descriptor bound_socket() {
        Descriptor fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        const SocketAddress local = to_socket_address(free_address(), 0, 0);
        const int buffer = 4 << 20;
        if (setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer) != 0) {
            setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
        }
        if (bind(fd.get(), &local.any, local.bytes) != 0) {
            die("binding a socket");
        }
        return fd;
    }

    // As many packets as a message may have, and the rest.
    void send() {
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
        if (sendmmsg(from_.get(), messages.data(), 2, 0) != 2) {
            die("sendmmsg");
        }
    }

    Descriptor from_;
    Descriptor to_;
    sockaddr_in destination_{};
    Buffer source_;
    Buffer target_;
};

void port_figures(Report& report, Memory& memory) {
    constexpr int kMessages = 20;
    Ours ours(memory, false);
    Ours copying(memory, true);
    Bare bare;
    const auto nothing = [] {};
    const auto times = [](auto& what) {
        return [&what] {
            for (int i = 0; i < kMessages; ++i) {
                what.run();
            }
        };
    };
    const std::vector<double> ns = interleave(
        {{nothing, times(ours)}, {nothing, times(bare)}, {nothing, times(bare)}, {nothing, times(copying)}},
        report.rounds(201), 1);
    const auto mb_per_s = [](double nanoseconds) { return kMessages * kMessageBytes / nanoseconds * 1e3; };
    const double noise = std::fabs(ns[2] / ns[1] - 1);
    report.add({.name = "64 KiB over UDP loopback, port / bare sockets",
                .value = ns[1] / ns[0],
                .unit = "x",
                .kind = Goal::kAtLeast,
                .goal = 0.6,
                .ours = mb_per_s(ns[0]),
                .theirs = mb_per_s(ns[1]),
                .compared_unit = "MB/s",
                .noise = noise});
    report.add({.name = "the same, payload copied to the program's memory",
                .value = ns[1] / ns[3],
                .unit = "x",
                .ours = mb_per_s(ns[3]),
                .theirs = mb_per_s(ns[1]),
                .compared_unit = "MB/s",
                .noise = noise});
}

void guard_figures(Report& report, Memory& signal, Memory& system_call) {
    constexpr int kCalls = 1000;
    const Buffer from(1 << 16);
    const Buffer to(1 << 16);
    PlainMemory plain;
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{256}, std::size_t{4096}}) {
        const auto copies = [&](Memory& memory) {
            return [&, bytes] {
                for (int i = 0; i < kCalls; ++i) {
                    memory.copy_in(to.address(), from.data(), bytes);
                }
            };
        };
        const auto nothing = [] {};
        const std::vector<double> ns =
            interleave({{nothing, copies(signal)}, {nothing, copies(plain)}, {nothing, copies(system_call)}},
                       report.rounds(201), 1);
        const std::string size = std::to_string(bytes) + " bytes";
        report.add({.name = "what the guard adds to a copy of " + size,
                    .value = (ns[0] - ns[1]) / kCalls,
                    .unit = "ns",
                    .ours = ns[0] / kCalls,
                    .theirs = ns[1] / kCalls});
        report.add({.name = "what a system call adds instead, " + size,
                    .value = (ns[2] - ns[1]) / kCalls,
                    .unit = "ns",
                    .ours = ns[2] / kCalls,
                    .theirs = ns[1] / kCalls});
    }
}

int run(int argc, char** argv) {
    Report report("uroce: packets through sockets", argc, argv);
    const auto by_signal = GuardedMemory::create(GuardMethod::kSignal);
    const auto by_system_call = GuardedMemory::create(GuardMethod::kSystemCall);
    if (!by_signal || !by_system_call) {
        die("no guarded memory");
    }
    port_figures(report, **by_signal);
    guard_figures(report, **by_signal, **by_system_call);
    return report.finish();
}

} // namespace

} // namespace sluice::bench

int main(int argc, char** argv) {
    return sluice::bench::run(argc, argv);
}
