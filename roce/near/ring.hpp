// SPDX-License-Identifier: BSD-3-Clause
//
// A ring of packets in a memory file: one process writes, another one reads. The reader has made it, and has
// one for each peer.
//
// Each end keeps its own position for itself. A packet begins with its length, which is written last, after a
// zero where the next one will be: so the reader finds packets without a position of the writer's, and a
// small one with its label is a single line. The reader publishes its position now and then.
//
// What an end finds of the other's is copied and checked before it is used: a length, a distance, the bytes
// of a packet, which are copied before anybody looks into them. A reader that finds what can't be closes the
// ring; a writer that does so writes nothing. Packets go elsewhere then.
//
// The bytes are mapped twice, behind each other, so that no packet is in two pieces.
//
// Nothing is written before the reader has opened the ring: it does so when it can write to the other
// process, too, so that an answer goes the way of its question. And nothing is looked at before the writer
// has written: memory that nobody has touched takes none. What the ends say to each other about that stands
// outside of the file (sign.hpp).
//
// A reader that is about to sleep says so, and looks once more; a writer that has written sees that and wakes
// it. A writer that found no room says so; the reader that has made some wakes it.
#pragma once

#include <atomic>
#include <optional>
#include <span>
#include <utility>

#include "core/descriptor.hpp"
#include "core/mapped_bytes.hpp"
#include "core/result.hpp"
#include "roce/engine/memory.hpp"
#include "roce/engine/out_packet.hpp"
#include "roce/near/sign.hpp"

namespace sluice::roce::near {

// A power of two, and of pages. Room for 30 packets of the largest MTU; what
// is read and not yet published takes up to a quarter of it.
inline constexpr std::uint32_t kRingBytes = std::uint32_t{128} * 1024;
// BTH and what follows, and a payload of the largest MTU with its padding.
inline constexpr std::size_t kMostPacketBytes = wire::kMaxHeaderBytes + 4096 + 3;

// What arrives.
struct RingPacket {
    wire::Packet packet;
    engine::Address source;
    engine::Address destination;
    std::optional<std::uint32_t> acknowledged_psn{};
};

class RingReader {
  public:
    static Result<RingReader> create();
    RingReader(RingReader&&) noexcept = default;
    RingReader& operator=(RingReader&&) noexcept = delete;
    // Closes it.
    ~RingReader();

    int descriptor() const noexcept { return file_.get(); }
    bool has_packets() const noexcept;
    // Calls TAKE(packet) for each packet that is there, but no more than the ring holds.
    // False: what is there is no packet, and the ring is closed.
    template<typename Take>
    bool read(Take&& take) noexcept {
        has_begun_ = has_begun();
        if (!has_begun_) {
            return true;
        }
        const std::uint32_t begin = read_;
        std::array<std::uint8_t, kMostPacketBytes> bytes; // not initialised
        RingPacket packet;
        for (std::uint32_t len = next_length(); len != 0 && read_ - begin < kRingBytes; len = next_length()) {
            if (!next(len, bytes, packet)) {
                close();
                return false;
            }
            take(std::as_const(packet));
        }
        return true;
    }
    // After read(). True: the writer waits for the room that is there now.
    bool made_room() noexcept;
    // Whether the writer is to wake the reader.
    void set_asleep(bool asleep) noexcept;
    // Packets may come from now on, until close(). SIGNS outlive the ring.
    void open(const Signs& signs) noexcept;
    void close() noexcept;

  private:
    RingReader(Descriptor file, MappedBytes mapped) noexcept
        : file_(std::move(file)), mapped_(std::move(mapped)) {}

    // Whether the writer has written.
    bool has_begun() const noexcept {
        return has_begun_ || (signs_ && says(signs_->neighbours, kHasWritten));
    }
    std::uint32_t next_length() const noexcept;
    bool next(std::uint32_t len_bytes, wire::MutableBytes bytes, RingPacket& out) noexcept;
    void publish() noexcept;

    Descriptor file_;
    MappedBytes mapped_;
    std::optional<Signs> signs_;
    std::uint32_t read_ = 0;
    std::uint32_t published_ = 0;
    bool has_begun_ = false; // as has_begun() was when read() was called last
    bool may_wake_ = false;  // has been published since made_room()
    bool closed_ = false;
};

class RingWriter {
  public:
    // kProtocol: it is no ring.
    static Result<RingWriter> map(const Descriptor& file);
    // Nothing is written before. SIGNS outlive the ring.
    void begin(const Signs& signs) noexcept { signs_.emplace(signs); }

    enum class Room : std::uint8_t { kFree, kFull, kClosed };
    // For a packet of the largest size. kFull: the reader is asked to say when there is some.
    Room room() noexcept;
    // Whether that is kFull, without asking.
    bool is_full() noexcept;
    // False: there is no room, it isn't open, or a page of the packet's payload is gone.
    bool write(const engine::OutPacket& packet, engine::Memory& memory) noexcept;
    // After write(). True: the reader sleeps, and is to be woken; said once.
    bool is_reader_asleep() noexcept;

  private:
    explicit RingWriter(MappedBytes mapped) noexcept : mapped_(std::move(mapped)) {}

    // kClosed: it isn't open, or the reader's position can't be.
    Room room_for_bytes(std::uint32_t bytes) noexcept;

    MappedBytes mapped_;
    std::optional<Signs> signs_;
    std::uint32_t written_ = 0;
    std::uint32_t read_ = 0; // by the reader, when last looked
    bool has_written_ = false;
};

} // namespace sluice::roce::near
