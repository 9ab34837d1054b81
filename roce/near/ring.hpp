// SPDX-License-Identifier: BSD-3-Clause
//
// A ring of packets in a memory file: one process writes, another one reads. The reader has made it, and has
// one for each peer.
//
// Each end keeps its own position for itself, and publishes it for the other. What it finds of the other's is
// copied and checked before it is used: a length, a distance, the bytes of a packet, which are copied before
// anybody looks into them. A reader that finds what can't be closes the ring; a writer that does so writes
// nothing. Packets go elsewhere then.
//
// The bytes are mapped twice, behind each other, so that no packet is in two pieces.
//
// Nothing is written before the reader has opened the ring: it does so when it can write to the other
// process, too, so that an answer goes the way of its question.
//
// A reader that is about to sleep says so, and looks once more; a writer that has written sees that and wakes
// it. A writer that found no room says so; the reader that has made some wakes it.
#pragma once

#include <atomic>
#include <optional>
#include <span>

#include "core/descriptor.hpp"
#include "core/result.hpp"
#include "roce/engine/memory.hpp"
#include "roce/engine/out_packet.hpp"
#include "roce/near/mapped_bytes.hpp"

namespace sluice::roce::near {

// A power of two, and of pages. Room for 30 packets of the largest MTU.
inline constexpr std::uint32_t kRingBytes = std::uint32_t{128} * 1024;
// BTH and what follows, and a payload of the largest MTU with its padding.
inline constexpr std::size_t kMostPacketBytes = wire::kMaxHeaderBytes + 4096 + 3;

class RingReader {
  public:
    static Result<RingReader> create();
    RingReader(RingReader&&) noexcept = default;
    RingReader& operator=(RingReader&&) noexcept = delete;
    // Closes it.
    ~RingReader();

    int descriptor() const noexcept { return file_.get(); }
    bool has_packets() const noexcept;
    // Calls TAKE(packet, source, destination) for each packet that is there by now. False: what is there is
    // no packet, and the ring is closed.
    template<typename Take>
    bool read(Take&& take) noexcept {
        const std::uint32_t end = written();
        std::array<std::uint8_t, kMostPacketBytes> bytes; // not initialised
        Packet packet;
        while (read_ != end) {
            if (!next(end, bytes, packet)) {
                close();
                return false;
            }
            take(packet.packet, packet.source, packet.destination);
        }
        return true;
    }
    // After read(). True: the writer waits for the room that is there now.
    bool made_room() noexcept;
    // Whether the writer is to wake the reader.
    void set_asleep(bool asleep) noexcept;
    // Packets may come from now on, until close().
    void open() noexcept;
    void close() noexcept;

  private:
    struct Packet {
        wire::Packet packet;
        engine::Address source;
        engine::Address destination;
    };

    RingReader(Descriptor file, MappedBytes mapped) noexcept
        : file_(std::move(file)), mapped_(std::move(mapped)) {}

    std::uint32_t written() const noexcept;
    bool next(std::uint32_t end, wire::MutableBytes bytes, Packet& out) noexcept;

    Descriptor file_;
    MappedBytes mapped_;
    std::uint32_t read_ = 0;
    bool closed_ = false;
};

class RingWriter {
  public:
    // kProtocol: it is no ring, or another version's.
    static Result<RingWriter> map(const Descriptor& file);

    enum class Room : std::uint8_t { kFree, kFull, kClosed };
    // For a packet of the largest size. kFull: the reader is asked to say when there is some.
    Room room() noexcept;
    // Whether that is kFull, without asking.
    bool is_full() const noexcept;
    // False: there is no room, it isn't open, or a page of the packet's payload is gone.
    bool write(const engine::OutPacket& packet, engine::Memory& memory) noexcept;
    // After write(). True: the reader sleeps, and is to be woken; said once.
    bool is_reader_asleep() noexcept;

  private:
    explicit RingWriter(MappedBytes mapped) noexcept : mapped_(std::move(mapped)) {}

    // None: it isn't open, or the reader's position can't be.
    std::optional<std::uint32_t> free_bytes() const noexcept;

    MappedBytes mapped_;
    std::uint32_t written_ = 0;
};

} // namespace sluice::roce::near
