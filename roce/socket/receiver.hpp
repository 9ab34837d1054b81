// SPDX-License-Identifier: BSD-3-Clause
//
// Packets out of a UDP socket, in two steps, so that the expensive one needs no lock:
//
//     receiver.fetch(n);                       // takes messages, cuts them, checks each ICRC
//     { lock; receiver.deliver([&](const InPacket& in) { engine.receive(in, now); }); }
//
// The kernel may give many packets of one sender in one message (UDP_GRO), all of the same size but
// the last. Each has its own ICRC. Over IPv4 it covers the identification, which a socket doesn't
// tell: a packet's place in its message is tried, because peers that send through sockets with
// segmentation count from 0; any other is solved for, and must be believable
// (identification_watch.hpp). Over IPv6 nothing is unknown.
//
// Bytes are hostile: work per call is bounded by what the kernel hands over, nothing is allocated,
// and what doesn't fit is dropped and counted. There is no counter for packets to other addresses:
// a socket bound to one address gets none.
//
// Not thread safe: fetch() and deliver() in one thread at a time, the packets of deliver() are good
// until the next fetch(). A Sender on the same socket may be used in another thread meanwhile.
#pragma once

#include <sys/socket.h>

#include <memory>

#include "core/mapped_bytes.hpp"
#include "roce/engine/engine.hpp"
#include "roce/socket/address.hpp"
#include "roce/socket/counters.hpp"
#include "roce/socket/datagram_frame.hpp"
#include "roce/socket/identification_watch.hpp"
#include "roce/socket/pcap_recorder.hpp"

namespace sluice::roce::socket {

class Receiver {
  public:
    static constexpr std::uint32_t kMaxMessages = 16; // of one fetch()

    // SOCKET stays its owner's. RECORDER may be null; it gets what has a wrong checksum, too. COUNTERS
    // outlive the receiver; null: it counts in itself.
    Receiver(int socket, const engine::Address& local, PcapRecorder* recorder,
             ReceiveCounters* counters = nullptr);

    // Takes up to MAX_MESSAGES of what is there, without waiting. Returns how many: fewer than asked
    // for means that the socket is empty. What was not delivered before is gone.
    std::uint32_t fetch(std::uint32_t max_messages) noexcept;

    // Calls SINK(const InPacket&) for each valid packet of the last fetch(), in order. Returns how many.
    template<typename Sink>
    std::uint32_t deliver(Sink&& sink) noexcept {
        std::uint32_t delivered = 0;
        wire::Packet packet;
        wire::Grh grh{};
        for (std::uint32_t i = 0; i < valid_count_; ++i) {
            const Source& source = sources_[valid_[i].message];
            if (!parse(valid_[i], packet, grh)) {
                continue;
            }
            sink(engine::InPacket{.packet = packet,
                                  .source = source.address,
                                  .destination = local_,
                                  .grh = grh,
                                  .source_port = source.port});
            ++delivered;
        }
        counters_.packets.add(delivered);
        valid_count_ = 0;
        return delivered;
    }

    const ReceiveCounters& counters() const noexcept { return counters_; }

  private:
    static constexpr std::size_t kMessageBytes = 0x10000;
    static constexpr std::uint32_t kMaxSegments = 128; // the kernel's limit is this or half of it
    static constexpr std::size_t kControlBytes = 128;

    // The sender of a message, and what the kernel said about it.
    struct Source {
        engine::Address address;
        std::uint16_t port = 0;
        std::uint8_t hops = 64;
        std::uint8_t traffic_class = 0;
        std::uint32_t segment_bytes = 0; // 0: the message is one packet
    };
    struct Valid {
        std::uint32_t message;
        std::uint32_t offset;
        std::uint16_t transport_bytes;
        std::uint16_t identification;
    };

    void prepare(std::uint32_t count) noexcept;
    bool read_control(msghdr& message, Source& source) noexcept;
    void split(std::uint32_t message, std::size_t len_bytes) noexcept;
    void check(std::uint32_t message, std::size_t offset, std::size_t len_bytes,
               std::uint32_t index) noexcept;
    bool verify(wire::Frame& frame, const engine::Address& source) noexcept;
    bool parse(const Valid& valid, wire::Packet& packet, wire::Grh& grh) noexcept;

    const std::uint8_t* bytes_of(std::uint32_t message) const noexcept {
        return reinterpret_cast<const std::uint8_t*>(bytes_.at()) + message * kMessageBytes;
    }

    int socket_;
    engine::Address local_;
    PcapRecorder* recorder_;
    ReceiveCounters own_counters_;
    ReceiveCounters& counters_;
    IdentificationWatch watch_;
    MappedBytes bytes_; // touched only as far as messages reach
    std::unique_ptr<Valid[]> valid_;
    std::uint32_t valid_count_ = 0;
    std::array<Source, kMaxMessages> sources_{};

    // What recvmmsg() fills.
    struct alignas(cmsghdr) Control {
        std::array<std::uint8_t, kControlBytes> bytes;
    };
    std::array<SocketAddress, kMaxMessages> addresses_{};
    std::array<iovec, kMaxMessages> vectors_{};
    std::array<Control, kMaxMessages> controls_{};
    std::array<mmsghdr, kMaxMessages> messages_{};
    std::uint32_t used_messages_ = kMaxMessages; // so many at the front aren't as recvmmsg() wants them
};

} // namespace sluice::roce::socket
