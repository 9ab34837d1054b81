// SPDX-License-Identifier: BSD-3-Clause
#include "roce/near/ring.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <array>
#include <cstring>
#include <new>

#include "core/sealed_file.hpp"
#include "roce/engine/copy_packet.hpp"

namespace sluice::roce::near {

namespace {

using Word = std::atomic<std::uint32_t>;

constexpr const char* kCantMapRing = "can't map a ring of packets of a process of this host";
constexpr std::size_t kHeadBytes = std::size_t{64} * 1024; // a page, wherever we run
constexpr std::size_t kLineBytes = 64;
// The reader publishes its position each time it has read so much: the line goes to the other processor.
constexpr std::uint32_t kReadAtOnce = kRingBytes / 4;

// Zero at first, all of it.
struct Head {
    alignas(kLineBytes) Word read; // the reader's
    // One end sets each, and the other one takes it back.
    alignas(kLineBytes) Word awake; // the reader, or it has been woken
    Word wants_room;
};
static_assert(sizeof(Head) <= kHeadBytes && Word::is_always_lock_free);

constexpr std::uint32_t kAcknowledges = std::uint32_t{1} << 31;
constexpr std::uint32_t kPsnBits = 0xffffff;

// What stands before a packet. Its line also has a small packet.
struct Label {
    std::uint32_t packet_bytes; // written last; 0: there is none
    std::uint32_t acknowledged; // a number and kAcknowledges; or 0
    engine::Address source;
    engine::Address destination;
};

constexpr std::uint32_t place_bytes(std::size_t packet_bytes) noexcept {
    const std::size_t bytes = sizeof(Label) + packet_bytes;
    return static_cast<std::uint32_t>((bytes + kLineBytes - 1) / kLineBytes * kLineBytes);
}
// And a line for the label behind it.
constexpr std::uint32_t room_for(std::size_t packet_bytes) noexcept {
    return place_bytes(packet_bytes) + static_cast<std::uint32_t>(kLineBytes);
}
constexpr std::uint32_t kMostRoom = room_for(kMostPacketBytes);
static_assert(kRingBytes % kHeadBytes == 0 && kMostRoom + kReadAtOnce < kRingBytes);

Head& head_of(const MappedBytes& ring) noexcept {
    return *std::launder(reinterpret_cast<Head*>(ring.at()));
}

char* bytes_at(const MappedBytes& ring, std::uint32_t position) noexcept {
    return ring.at() + kHeadBytes + position % kRingBytes;
}

// The length that a label begins with.
std::atomic_ref<std::uint32_t> length_at(const MappedBytes& ring, std::uint32_t position) noexcept {
    return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(bytes_at(ring, position)));
}

Result<MappedBytes> map_twice(int file) {
    Result<MappedBytes> mapped =
        MappedBytes::map(kCantMapRing, -1, 0, kHeadBytes + 2 * std::size_t{kRingBytes}, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
    if (!mapped) {
        return mapped;
    }
    const auto fix = [&](std::size_t at, std::size_t len_bytes, off_t offset) {
        return mmap(mapped->at() + at, len_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
                    offset) != MAP_FAILED;
    };
    if (!fix(0, kHeadBytes + kRingBytes, 0) || !fix(kHeadBytes + kRingBytes, kRingBytes, kHeadBytes)) {
        return Error::from_errno(errno, kCantMapRing);
    }
    return mapped;
}

// The label, but for its length, and the packet.
bool compose(const engine::OutPacket& packet, engine::Memory& memory, std::uint32_t len_bytes,
             char* to) noexcept {
    const Label label{.packet_bytes = 0,
                      .acknowledged = packet.acknowledged_psn ? *packet.acknowledged_psn | kAcknowledges : 0,
                      .source = packet.source,
                      .destination = packet.destination};
    std::memcpy(to + sizeof len_bytes, reinterpret_cast<const char*>(&label) + sizeof len_bytes,
                sizeof label - sizeof len_bytes);
    return engine::copy_packet(packet, memory,
                               {reinterpret_cast<std::uint8_t*>(to + sizeof label), len_bytes});
}

// The same for a packet of one line. The reader looks at that line all the time, and each look takes it away:
// so it is composed elsewhere, and written by a few stores that follow each other at once.
bool compose_line(const engine::OutPacket& packet, engine::Memory& memory, std::uint32_t len_bytes,
                  char* to) noexcept {
    alignas(kLineBytes) std::array<char, kLineBytes> line{};
    if (!compose(packet, memory, len_bytes, line.data())) {
        return false;
    }
    std::memcpy(to + sizeof len_bytes, line.data() + sizeof len_bytes, kLineBytes - sizeof len_bytes);
    return true;
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
    return RingReader(*std::move(file), *std::move(mapped));
}

std::uint32_t RingReader::next_length() const noexcept {
    // Partner: the release in write().
    return closed_ || !has_begun() ? 0 : length_at(mapped_, read_).load(std::memory_order_acquire);
}

bool RingReader::has_packets() const noexcept {
    return next_length() != 0;
}

// The label is copied before it is looked at, and so is the packet.
bool RingReader::next(std::uint32_t len_bytes, wire::MutableBytes bytes, RingPacket& out) noexcept {
    if (len_bytes > bytes.size()) {
        return false;
    }
    __builtin_prefetch(bytes_at(mapped_, read_ + place_bytes(len_bytes))); // is looked at soon
    Label label;
    std::memcpy(&label, bytes_at(mapped_, read_), sizeof label);
    std::memcpy(bytes.data(), bytes_at(mapped_, read_) + sizeof label, len_bytes);
    read_ += place_bytes(len_bytes);
    if (read_ - published_ >= kReadAtOnce) {
        publish();
    }
    out.source = label.source;
    out.destination = label.destination;
    out.acknowledged_psn = (label.acknowledged & kAcknowledges) != 0
                               ? std::optional(label.acknowledged & kPsnBits)
                               : std::nullopt;
    return wire::parse(bytes.first(len_bytes), out.packet) == wire::Refusal::kNone;
}

void RingReader::publish() noexcept {
    published_ = read_;
    head_of(mapped_).read.store(read_, std::memory_order_release); // partner: the acquire in room_for_bytes()
    may_wake_ = true;
}

// A writer without room is behind a published position by more than is left unpublished: so another one is
// published before it waits for ever.
bool RingReader::made_room() noexcept {
    if (!std::exchange(may_wake_, false)) {
        return false;
    }
    Head& head = head_of(mapped_);
    // Partner: the fence in RingWriter::room().
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return head.wants_room.load(std::memory_order_relaxed) != 0 &&
           head.wants_room.exchange(0, std::memory_order_relaxed) != 0;
}

// Of a ring that hasn't begun, the writer takes it for asleep.
void RingReader::set_asleep(bool asleep) noexcept {
    if (has_begun_) {
        head_of(mapped_).awake.store(asleep ? 0 : 1, std::memory_order_relaxed);
    }
}

RingReader::~RingReader() {
    if (mapped_.at() != nullptr) {
        close();
    }
}

void RingReader::open(const Signs& signs) noexcept {
    signs_.emplace(signs);
    if (!closed_) {
        signs.own.fetch_or(kIsOpen, std::memory_order_relaxed);
    }
}

void RingReader::close() noexcept {
    closed_ = may_wake_ = true;
    if (signs_) {
        signs_->own.fetch_and(static_cast<std::uint8_t>(~kIsOpen), std::memory_order_relaxed);
    }
}

Result<RingWriter> RingWriter::map(const Descriptor& file) {
    if (sealed_bytes(file) != kHeadBytes + kRingBytes) {
        return Error(ErrorKind::kProtocol, "a process of this host has sent something that is no ring");
    }
    Result<MappedBytes> mapped = map_twice(file.get());
    if (!mapped) {
        return std::move(mapped).error();
    }
    return RingWriter(*std::move(mapped));
}

// What the reader has read may be written over. Its position is looked at when that which is known is too
// old.
RingWriter::Room RingWriter::room_for_bytes(std::uint32_t bytes) noexcept {
    if (!signs_ || !says(signs_->neighbours, kIsOpen)) {
        return Room::kClosed;
    }
    if (kRingBytes - (written_ - read_) >= bytes) {
        return Room::kFree;
    }
    // Partner: the release in publish().
    const std::uint32_t read = head_of(mapped_).read.load(std::memory_order_acquire);
    const std::uint32_t used = written_ - read;
    if (used > kRingBytes) {
        return Room::kClosed;
    }
    read_ = read;
    return kRingBytes - used >= bytes ? Room::kFree : Room::kFull;
}

bool RingWriter::is_full() noexcept {
    return room_for_bytes(kMostRoom) == Room::kFull;
}

RingWriter::Room RingWriter::room() noexcept {
    const Room room = room_for_bytes(kMostRoom);
    if (room != Room::kFull) {
        return room;
    }
    head_of(mapped_).wants_room.store(1, std::memory_order_relaxed);
    // Partner: the fence in RingReader::made_room(). Either the reader sees the wish, or we see its room.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return is_full() ? Room::kFull : Room::kFree;
}

bool RingWriter::write(const engine::OutPacket& packet, engine::Memory& memory) noexcept {
    const std::uint32_t len = packet.header_bytes + packet.payload_bytes;
    if (len > kMostPacketBytes || room_for_bytes(room_for(len)) != Room::kFree) {
        return false;
    }
    const std::uint32_t place = place_bytes(len);
    char* const at = bytes_at(mapped_, written_);
    if (!(place == kLineBytes ? compose_line(packet, memory, len, at) : compose(packet, memory, len, at))) {
        return false;
    }
    // What was there a lap before isn't to be taken for a label.
    length_at(mapped_, written_ + place).store(0, std::memory_order_relaxed);
    length_at(mapped_, written_).store(len, std::memory_order_release); // partner: next_length()
    written_ += place;
    if (!has_written_) {
        has_written_ = true;
        signs_->own.fetch_or(kHasWritten, std::memory_order_relaxed);
    }
    return true;
}

bool RingWriter::is_reader_asleep() noexcept {
    Word& awake = head_of(mapped_).awake;
    // Partner: the fence in SameHost::fall_asleep(). Either the reader sees the packet, or we see that it
    // sleeps.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return awake.load(std::memory_order_relaxed) == 0 && awake.exchange(1, std::memory_order_relaxed) == 0;
}

} // namespace sluice::roce::near
