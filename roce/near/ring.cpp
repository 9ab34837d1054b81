// SPDX-License-Identifier: BSD-3-Clause
#include "roce/near/ring.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>
#include <new>

#include "core/sealed_file.hpp"
#include "roce/engine/copy_packet.hpp"

namespace sluice::roce::near {

namespace {

using Word = std::atomic<std::uint32_t>;

constexpr std::uint64_t kRingMagic = 0x736c7569636572;     // and the layout's version
constexpr std::size_t kHeadBytes = std::size_t{64} * 1024; // a page, wherever we run
constexpr std::size_t kLineBytes = 64;
constexpr std::uint32_t kAlignment = 8;

struct Head {
    std::uint64_t magic;
    alignas(kLineBytes) Word written; // the writer's
    alignas(kLineBytes) Word read;    // the reader's
    Word open;                        // the reader's
    // One end sets each, and the other one takes it back.
    alignas(kLineBytes) Word asleep;
    Word wants_room;
};
static_assert(sizeof(Head) <= kHeadBytes && Word::is_always_lock_free);

// What stands before a packet.
struct Label {
    std::uint32_t packet_bytes;
    std::uint32_t unused;
    engine::Address source;
    engine::Address destination;
};
static_assert(sizeof(Label) % kAlignment == 0);

constexpr std::uint32_t place_bytes(std::size_t packet_bytes) noexcept {
    const std::size_t bytes = sizeof(Label) + packet_bytes;
    return static_cast<std::uint32_t>((bytes + kAlignment - 1) / kAlignment * kAlignment);
}
constexpr std::uint32_t kMostPlaceBytes = place_bytes(kMostPacketBytes);
static_assert(kRingBytes % kHeadBytes == 0 && kMostPlaceBytes < kRingBytes);

Head& head_of(const MappedBytes& ring) noexcept {
    return *std::launder(reinterpret_cast<Head*>(ring.at()));
}

char* bytes_at(const MappedBytes& ring, std::uint32_t position) noexcept {
    return ring.at() + kHeadBytes + position % kRingBytes;
}

Result<MappedBytes> map_twice(int file) {
    Result<MappedBytes> mapped = MappedBytes::map(-1, 0, kHeadBytes + 2 * std::size_t{kRingBytes}, PROT_NONE,
                                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
    if (!mapped) {
        return mapped;
    }
    const auto fix = [&](std::size_t at, std::size_t len_bytes, off_t offset) {
        return mmap(mapped->at() + at, len_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
                    offset) != MAP_FAILED;
    };
    if (!fix(0, kHeadBytes + kRingBytes, 0) || !fix(kHeadBytes + kRingBytes, kRingBytes, kHeadBytes)) {
        return Error::from_errno(errno, "can't map a ring of packets of a process of this host");
    }
    return mapped;
}

} // namespace

Result<RingReader> RingReader::create() {
    Result<Descriptor> file = make_memory_file("sluice-ring", kHeadBytes + kRingBytes);
    if (!file) {
        return std::move(file).error();
    }
    Result<void> sealed = seal_size(*file);
    if (!sealed) {
        return std::move(sealed).error();
    }
    Result<MappedBytes> mapped = map_twice(file->get());
    if (!mapped) {
        return std::move(mapped).error();
    }
    Head& head = head_of(*mapped);
    head.magic = kRingMagic;
    head.asleep.store(1, std::memory_order_relaxed);
    return RingReader(*std::move(file), *std::move(mapped));
}

std::uint32_t RingReader::written() const noexcept {
    // Partner: the release in write().
    return closed_ ? read_ : head_of(mapped_).written.load(std::memory_order_acquire);
}

bool RingReader::has_packets() const noexcept {
    return written() != read_;
}

// The label is copied before it is looked at, and so is the packet.
bool RingReader::next(std::uint32_t end, wire::MutableBytes bytes, Packet& out) noexcept {
    const std::uint32_t there = end - read_;
    Label label;
    if (there > kRingBytes || there < sizeof label) {
        return false;
    }
    std::memcpy(&label, bytes_at(mapped_, read_), sizeof label);
    if (label.packet_bytes > bytes.size() || place_bytes(label.packet_bytes) > there) {
        return false;
    }
    std::memcpy(bytes.data(), bytes_at(mapped_, read_) + sizeof label, label.packet_bytes);
    read_ += place_bytes(label.packet_bytes);
    head_of(mapped_).read.store(read_, std::memory_order_release); // partner: the acquire in free_bytes()
    out.source = label.source;
    out.destination = label.destination;
    return wire::parse(bytes.first(label.packet_bytes), out.packet) == wire::Refusal::kNone;
}

bool RingReader::made_room() noexcept {
    Head& head = head_of(mapped_);
    // Partner: the fence in RingWriter::room().
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return head.wants_room.load(std::memory_order_relaxed) != 0 &&
           head.wants_room.exchange(0, std::memory_order_relaxed) != 0;
}

void RingReader::set_asleep(bool asleep) noexcept {
    head_of(mapped_).asleep.store(asleep ? 1 : 0, std::memory_order_relaxed);
}

RingReader::~RingReader() {
    if (mapped_.at() != nullptr) {
        close();
    }
}

void RingReader::open() noexcept {
    head_of(mapped_).open.store(closed_ ? 0 : 1, std::memory_order_relaxed);
}

void RingReader::close() noexcept {
    closed_ = true;
    head_of(mapped_).open.store(0, std::memory_order_relaxed);
}

Result<RingWriter> RingWriter::map(const Descriptor& file) {
    if (sealed_bytes(file) != kHeadBytes + kRingBytes) {
        return Error(ErrorKind::kProtocol, "a process of this host has sent something that is no ring");
    }
    Result<MappedBytes> mapped = map_twice(file.get());
    if (!mapped) {
        return std::move(mapped).error();
    }
    if (head_of(*mapped).magic != kRingMagic) {
        return Error(ErrorKind::kProtocol, "a process of this host has another version of this library");
    }
    return RingWriter(*std::move(mapped));
}

std::optional<std::uint32_t> RingWriter::free_bytes() const noexcept {
    const Head& head = head_of(mapped_);
    // Partner: the release in next(): what is read may be written over.
    const std::uint32_t used = written_ - head.read.load(std::memory_order_acquire);
    return used <= kRingBytes && head.open.load(std::memory_order_relaxed) != 0
               ? std::optional(kRingBytes - used)
               : std::nullopt;
}

bool RingWriter::is_full() const noexcept {
    const auto free = free_bytes();
    return free && *free < kMostPlaceBytes;
}

RingWriter::Room RingWriter::room() noexcept {
    const auto free = free_bytes();
    if (!free) {
        return Room::kClosed;
    }
    if (*free >= kMostPlaceBytes) {
        return Room::kFree;
    }
    head_of(mapped_).wants_room.store(1, std::memory_order_relaxed);
    // Partner: the fence in RingReader::made_room(). Either the reader sees the wish, or we see its room.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return is_full() ? Room::kFull : Room::kFree;
}

bool RingWriter::write(const engine::OutPacket& packet, engine::Memory& memory) noexcept {
    const Label label{.packet_bytes = packet.header_bytes + packet.payload_bytes,
                      .unused = 0,
                      .source = packet.source,
                      .destination = packet.destination};
    const auto free = free_bytes();
    if (!free || label.packet_bytes > kMostPacketBytes || *free < place_bytes(label.packet_bytes)) {
        return false;
    }
    char* const at = bytes_at(mapped_, written_);
    std::memcpy(at, &label, sizeof label);
    if (!engine::copy_packet(packet, memory,
                             {reinterpret_cast<std::uint8_t*>(at + sizeof label), label.packet_bytes})) {
        return false;
    }
    written_ += place_bytes(label.packet_bytes);
    head_of(mapped_).written.store(written_, std::memory_order_release); // partner: the acquire in written()
    return true;
}

bool RingWriter::is_reader_asleep() noexcept {
    Word& asleep = head_of(mapped_).asleep;
    // Partner: the fence in SameHost::fall_asleep(). Either the reader sees the packet, or we see that it
    // sleeps.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return asleep.load(std::memory_order_relaxed) != 0 && asleep.exchange(0, std::memory_order_relaxed) != 0;
}

} // namespace sluice::roce::near
