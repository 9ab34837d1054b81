// SPDX-License-Identifier: BSD-3-Clause
//
// Packets through UDP sockets, and what guarding memory costs: bench_uroce_port [--json FILE] [--quick].
//
// A message of 64 KiB, cut as an RDMA Write of MTU 4096, goes over the loopback interface and is taken
// in by the same thread, so that what is compared is the work of both sides.
#include <poll.h>

#include "roce/socket/guarded_memory.hpp"
#include "roce/socket/udp_port.hpp"
#include "tests/bench/bare_socket.hpp"
#include "tests/bench/failure.hpp"
#include "tests/bench/harness.hpp"
#include "tests/loopback.hpp"

namespace sluice::bench {

namespace {

using namespace sluice::roce;
using namespace sluice::roce::engine;
using namespace sluice::roce::socket;

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

class Bare {
  public:
    Bare() : source_(BareSocket::kMessageOnWire), target_(BareSocket::kRoom) {}

    void run() {
        from_.send(source_, to_.local());
        for (std::size_t arrived = 0; arrived < BareSocket::kMessageOnWire;) {
            const std::size_t taken = to_.take(target_, MSG_DONTWAIT);
            if (taken == 0) {
                to_.await_readable();
            }
            arrived += taken;
        }
    }

  private:
    BareSocket from_;
    BareSocket to_;
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
