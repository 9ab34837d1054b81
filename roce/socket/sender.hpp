// SPDX-License-Identifier: BSD-3-Clause
//
// Packets on their way into a UDP socket.
//
// append() copies a packet into a batch and computes its ICRC over the copy, not over the program's
// memory: a program may write there at any time, and then the two must not differ, or a peer that
// polls a changing word by RDMA Read would never get a valid answer. The copy costs little because
// the checksum reads the bytes anyway, and pays for itself: the kernel gets one contiguous piece,
// and no page can vanish under a system call.
//
// Packets of equal size to one queue pair form a run, sent as one message that the kernel cuts
// (UDP_SEGMENT); the last may be shorter. Those to several queue pairs would, where they arrive, be given to
// one of the processes that share the address. The kernel gives segment k the identification k, which
// the ICRC covers; so a packet's place in its run is known before its checksum is.
//
// Not thread safe: append() and flush() in one thread at a time. They allocate nothing.
#pragma once

#include <sys/socket.h>

#include <memory>

#include "roce/engine/memory.hpp"
#include "roce/engine/out_packet.hpp"
#include "roce/socket/address.hpp"
#include "roce/socket/counters.hpp"
#include "roce/socket/pcap_recorder.hpp"

namespace sluice::roce::socket {

class Sender {
  public:
    // SOCKET stays its owner's. SCOPE is the interface for link-local destinations. RECORDER may be null.
    // COUNTERS outlive the sender; null: it counts in itself.
    Sender(int socket, const engine::Address& local, unsigned scope, engine::Memory& memory, bool use_gso,
           PcapRecorder* recorder, SendCounters* counters = nullptr);

    // Takes a packet; sends the batch first when there is no room. False: dropped and counted,
    // because its payload is gone or the socket has been full for a whole batch.
    // DAMAGE sends it with a checksum that is wrong, for programs that want to see that.
    bool append(const engine::OutPacket& packet, bool damage = false) noexcept;
    // Hands everything to the kernel. False: the socket is full. The rest stays, to be flushed again
    // when the socket is writable.
    bool flush() noexcept;
    bool empty() const noexcept { return next_run_ == run_count_; }

    const SendCounters& counters() const noexcept { return counters_; }

  private:
    static constexpr std::size_t kMaxRuns = 32;
    static constexpr std::uint32_t kMaxSegments = 64;            // of one message: the kernel's limit
    static constexpr std::size_t kMaxMessageBytes = 0xffff - 28; // of one message: IPv4's limit
    static constexpr std::size_t kBatchBytes = std::size_t{256} * 1024;

    struct Run {
        engine::Address destination;
        std::uint32_t qpn = 0;    // of the destination
        std::uint32_t offset = 0; // into bytes_
        std::uint32_t bytes = 0;
        std::uint32_t segment_bytes = 0; // of each packet but the last
        std::uint32_t packets = 0;
        bool open = false;
    };

    Run* run_for(const engine::OutPacket& packet, std::size_t packet_bytes, bool alone) noexcept;
    void prepare(std::size_t index) noexcept;
    bool on_refusal(int os_errno) noexcept;
    bool send_singly(const Run& run) noexcept;
    void lose(const Run& run, int os_errno) noexcept;

    int socket_;
    unsigned scope_;
    bool use_gso_;
    engine::Address local_;
    engine::Memory& memory_;
    PcapRecorder* recorder_;
    SendCounters own_counters_;
    SendCounters& counters_;
    std::unique_ptr<std::uint8_t[]> bytes_;
    std::size_t used_bytes_ = 0;
    std::size_t run_count_ = 0;
    std::size_t next_run_ = 0; // those before it have been sent
    std::array<Run, kMaxRuns> runs_{};

    // What sendmmsg() is given, one for each run.
    struct alignas(cmsghdr) SegmentSize {
        std::array<std::uint8_t, CMSG_SPACE(sizeof(std::uint16_t))> bytes;
    };
    std::array<SocketAddress, kMaxRuns> addresses_{};
    std::array<iovec, kMaxRuns> vectors_{};
    std::array<SegmentSize, kMaxRuns> controls_{};
    std::array<mmsghdr, kMaxRuns> messages_{};
};

} // namespace sluice::roce::socket
