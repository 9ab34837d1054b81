// SPDX-License-Identifier: BSD-3-Clause
//
// Writes what a device sends and receives into a file that Wireshark and tcpdump read: classic pcap
// with nanoseconds, each packet with the IP and UDP headers that the kernel gave it or took off.
//
// Records gather in a buffer of fixed size; one that finds it full writes it out first, which is a
// copy into the page cache unless the file lies somewhere slow. The device flushes whenever it has done what
// there was to do. After an error (a full disk) nothing more is recorded, and the log says so once.
//
// Thread safety: any thread at any time; a record takes a short lock. A child of a fork records
// nothing.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "core/descriptor.hpp"
#include "core/result.hpp"
#include "core/sync.hpp"
#include "roce/engine/memory.hpp"
#include "roce/engine/out_packet.hpp"
#include "roce/wire/frame.hpp"

namespace sluice::roce::socket {

class PcapRecorder {
  public:
    // Empties the file. One that another process is recording to gets a neighbour named PATH.PID.
    static Result<std::unique_ptr<PcapRecorder>> open(const std::string& path);
    // The one that SLUICE_UROCE_PCAP asks for, shared by all devices of this process; null if it is unset.
    static Result<PcapRecorder*> by_setting();

    PcapRecorder(const PcapRecorder&) = delete;
    PcapRecorder& operator=(const PcapRecorder&) = delete;
    ~PcapRecorder();

    // UDP_PAYLOAD is the frame's transport and the ICRC behind it, as sent or received.
    void record(const wire::Frame& frame, wire::ConstBytes udp_payload) noexcept;
    // A packet that takes a shorter way than through a socket, as it would have looked.
    void record(const engine::OutPacket& packet, engine::Memory& memory) noexcept;
    void flush() noexcept;

    const std::string& path() const noexcept { return path_; }

  private:
    static constexpr std::size_t kBufferBytes = std::size_t{256} * 1024;

    PcapRecorder(std::string path, Descriptor file);
    void flush_locked() noexcept SLUICE_TSA(requires_capability(lock_));

    const std::string path_;
    const pid_t process_;
    Mutex lock_;
    Descriptor file_ SLUICE_TSA(guarded_by(lock_));
    bool failed_ SLUICE_TSA(guarded_by(lock_)) = false;
    std::size_t used_bytes_ SLUICE_TSA(guarded_by(lock_)) = 0;
    std::unique_ptr<std::uint8_t[]> buffer_ SLUICE_TSA(guarded_by(lock_));
};

} // namespace sluice::roce::socket
