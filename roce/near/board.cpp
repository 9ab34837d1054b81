// SPDX-License-Identifier: BSD-3-Clause
#include "roce/near/board.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>

#include "core/random.hpp"
#include "core/sealed_file.hpp"

namespace sluice::roce::near {

namespace {

constexpr std::uint64_t kBoardMagic = 0x736c75626f617205; // and the layout's version
constexpr int kNoFurtherWriters = 0x10;                   // F_SEAL_FUTURE_WRITE, since Linux 5.1
constexpr std::uint32_t kMostEntries = 1U << 20;
constexpr std::size_t kEntryBytes = 64;
constexpr std::size_t kHeaderBytes = 4096;

std::size_t bytes_of(const BoardSize& size) noexcept {
    return kHeaderBytes + kEntryBytes * (std::size_t{size.regions} + size.connections);
}

using Word = std::atomic<std::uint32_t>;
using LongWord = std::atomic<std::uint64_t>;
static_assert(Word::is_always_lock_free && LongWord::is_always_lock_free);

template<typename T>
T load(const std::atomic<T>& word) noexcept {
    return word.load(std::memory_order_relaxed);
}

template<typename T>
void store(std::atomic<T>& word, T value) noexcept {
    word.store(value, std::memory_order_relaxed);
}

struct Header {
    struct Fixed {
        std::uint64_t magic;
        std::uint64_t id;
        BoardSize size;
        engine::Share::Words words;
        std::uint32_t which;
        std::uint64_t probe;
        engine::Address address;
    };
    Fixed fixed;
    alignas(kEntryBytes) LifeMark life;
    alignas(kEntryBytes) Word work;
    alignas(kEntryBytes) std::array<Sign, kPlaces> signs;
};
static_assert(sizeof(Header) <= kHeaderBytes);

struct alignas(kEntryBytes) Region {
    Word version;
    Word key;
    Word pd;
    Word qpn;
    Word access; // 0: nothing is published here
    LongWord iova;
    LongWord host_addr;
    LongWord len_bytes;
};
static_assert(sizeof(Region) == kEntryBytes);

struct alignas(kEntryBytes) Connection {
    Word version;
    Word qpn; // 0: nothing is published here
    Word peer_qpn;
    Word pd;
    Word access;
    std::array<LongWord, 2> local;
    std::array<LongWord, 2> remote;
};
static_assert(sizeof(Connection) == kEntryBytes);

using GidWords = std::array<std::uint64_t, 2>;

void store(std::array<LongWord, 2>& to, const engine::Address& address) noexcept {
    const auto words = std::bit_cast<GidWords>(address.gid);
    store(to[0], words[0]);
    store(to[1], words[1]);
}

engine::Address load(const std::array<LongWord, 2>& from) noexcept {
    return {std::bit_cast<std::array<std::uint8_t, 16>>(GidWords{load(from[0]), load(from[1])})};
}

// Its writer is one at a time.
template<typename Entry, typename Change>
void change(Entry& entry, Change&& apply) noexcept {
    const std::uint32_t version = load(entry.version);
    store(entry.version, version | 1);
    // Partner: the fence in read(). A reader that sees one of the new words sees an odd version, or a later
    // one.
    std::atomic_thread_fence(std::memory_order_release);
    apply();
    entry.version.store((version | 1) + 1, std::memory_order_release); // partner: the acquire in read()
}

// Calls TAKE, which copies. The version of what it copied; none: the entry changes.
template<typename Entry, typename Take>
std::optional<std::uint32_t> read(const Entry& entry, Take&& take) noexcept {
    const std::uint32_t before = entry.version.load(std::memory_order_acquire);
    take();
    std::atomic_thread_fence(std::memory_order_acquire);
    return (before & 1) == 0 && load(entry.version) == before ? std::optional(before) : std::nullopt;
}

Error is_no_board() {
    return Error(ErrorKind::kProtocol, "a process of this host uses another version of this library");
}

Header& header_of(const MappedBytes& board) noexcept {
    return *std::launder(reinterpret_cast<Header*>(board.at()));
}

// INDEX is less than the board's size.
Region& region_at(const MappedBytes& board, std::uint32_t index) noexcept {
    return std::launder(reinterpret_cast<Region*>(board.at() + kHeaderBytes))[index];
}

Connection& connection_at(const MappedBytes& board, std::uint32_t index, const BoardSize& size) noexcept {
    char* const first = board.at() + kHeaderBytes + sizeof(Region) * size.regions;
    return std::launder(reinterpret_cast<Connection*>(first))[index];
}

bool is_sound(const BoardSize& size) noexcept {
    return std::has_single_bit(size.connections) && std::has_single_bit(size.regions) &&
           size.connections <= kMostEntries && size.regions <= kMostEntries;
}

// The address of this byte is what others may try to read.
constexpr char kProbed = kProbe;

} // namespace

Result<std::unique_ptr<Board>> Board::create(const BoardSize& size, const BoardOwner& owner) {
    const Result<RandomKey> key = RandomKey::from_system();
    if (!key) {
        return key.error().clone();
    }
    if (!is_sound(size)) {
        return Error(ErrorKind::kInvalidArgument, "a board has powers of two of entries");
    }
    const std::size_t bytes = bytes_of(size);
    Result<Descriptor> file = make_memory_file("sluice-board", bytes);
    if (!file) {
        return std::move(file).error();
    }
    Result<MappedBytes> mapped = MappedBytes::map("can't map the board of a process of this host",
                                                  file->get(), 0, bytes, PROT_READ | PROT_WRITE);
    if (!mapped) {
        return std::move(mapped).error();
    }
    Result<void> sealed = seal_size(*file, kNoFurtherWriters);
    if (!sealed) {
        return std::move(sealed).error();
    }
    header_of(*mapped).fixed = {.magic = kBoardMagic,
                                .id = RandomStream(*key).draw_64(),
                                .size = size,
                                .words = owner.share.words(),
                                .which = owner.share.which(),
                                .probe = reinterpret_cast<std::uintptr_t>(&kProbed),
                                .address = owner.address};
    return std::unique_ptr<Board>(new Board(*std::move(file), *std::move(mapped), size));
}

std::uint64_t Board::id() const noexcept {
    return header_of(mapped_).fixed.id;
}

const engine::Address& Board::home() const noexcept {
    return header_of(mapped_).fixed.address;
}

LifeMark& Board::life() noexcept {
    return header_of(mapped_).life;
}

bool Board::lives() const noexcept {
    return header_of(mapped_).life.lives();
}

void Board::publish(std::uint32_t slot, const engine::PublishedRegion& region) noexcept {
    Region& entry = region_at(mapped_, slot);
    change(entry, [&] {
        store(entry.key, region.key);
        store(entry.pd, region.pd);
        store(entry.qpn, region.qpn);
        store(entry.access, region.access);
        store(entry.iova, region.iova);
        store(entry.host_addr, region.host_addr);
        store(entry.len_bytes, region.len_bytes);
    });
}

void Board::publish(std::uint32_t seat, const engine::PublishedConnection& connection) noexcept {
    Connection& entry = connection_at(mapped_, seat, size_);
    change(entry, [&] {
        store(entry.qpn, connection.ends.qpn);
        store(entry.peer_qpn, connection.ends.peer_qpn);
        store(entry.pd, connection.pd);
        store(entry.access, connection.access);
        store(entry.local, connection.ends.local);
        store(entry.remote, connection.ends.remote);
    });
}

void Board::withdraw_region(std::uint32_t slot) noexcept {
    Region& entry = region_at(mapped_, slot);
    change(entry, [&] { store(entry.access, std::uint32_t{0}); });
}

void Board::withdraw_connection(std::uint32_t seat) noexcept {
    Connection& entry = connection_at(mapped_, seat, size_);
    change(entry, [&] { store(entry.qpn, std::uint32_t{0}); });
}

Sign& Board::sign(std::uint32_t place) noexcept {
    return header_of(mapped_).signs[place];
}

void Board::begin_work() noexcept {
    Word& work = header_of(mapped_).work;
    store(work, load(work) + 1);
    // Partner: the fence of the owner that has withdrawn an entry and then looks at this count.
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

void Board::end_work() noexcept {
    Word& work = header_of(mapped_).work;
    work.store(load(work) + 1, std::memory_order_release); // partner: the acquire in PeerBoard::work()
}

Result<PeerBoard> PeerBoard::map(const Descriptor& file) {
    const std::size_t bytes = sealed_bytes(file).value_or(0);
    if (bytes < kHeaderBytes) {
        return is_no_board();
    }
    Result<MappedBytes> mapped =
        MappedBytes::map("can't map the board of a process of this host", file.get(), 0, bytes, PROT_READ);
    if (!mapped) {
        return std::move(mapped).error();
    }
    Header::Fixed fixed;
    std::memcpy(&fixed, &header_of(*mapped).fixed, sizeof fixed);
    if (fixed.magic != kBoardMagic || !is_sound(fixed.size) || bytes_of(fixed.size) != bytes ||
        fixed.which >= engine::Share::kShares) {
        return is_no_board();
    }
    return PeerBoard(*std::move(mapped), fixed.size, {engine::Share(fixed.words, fixed.which), fixed.address},
                     fixed.id, fixed.probe);
}

bool PeerBoard::lives() const noexcept {
    return header_of(mapped_).life.lives();
}

std::optional<engine::PublishedConnection> PeerBoard::connection(const engine::Ends& ends) const noexcept {
    const Connection& entry = connection_at(mapped_, ends.peer_qpn & (size_.connections - 1), size_);
    engine::PublishedConnection copy;
    const std::optional<std::uint32_t> version = read(entry, [&] {
        copy.ends.qpn = load(entry.qpn);
        copy.ends.peer_qpn = load(entry.peer_qpn);
        copy.pd = load(entry.pd);
        copy.access = load(entry.access);
        copy.ends.local = load(entry.local);
        copy.ends.remote = load(entry.remote);
    });
    const bool fits = version && copy.ends.qpn == ends.peer_qpn && copy.ends.peer_qpn == ends.qpn &&
                      copy.ends.local == ends.remote && copy.ends.remote == ends.local;
    return fits ? std::optional(copy) : std::nullopt;
}

std::optional<SeenRegion> PeerBoard::region(std::uint32_t key) const noexcept {
    const Region& entry = region_at(mapped_, key >> engine::kKeyVariantBits & (size_.regions - 1));
    engine::PublishedRegion copy;
    const std::optional<std::uint32_t> version = read(entry, [&] {
        copy.key = load(entry.key);
        copy.pd = load(entry.pd);
        copy.qpn = load(entry.qpn);
        copy.access = load(entry.access);
        copy.iova = load(entry.iova);
        copy.host_addr = load(entry.host_addr);
        copy.len_bytes = load(entry.len_bytes);
    });
    return version && copy.access != 0 && copy.key == key ? std::optional(SeenRegion{copy, *version})
                                                          : std::nullopt;
}

const Sign& PeerBoard::sign(std::uint32_t place) const noexcept {
    return header_of(mapped_).signs[place];
}

std::uint32_t PeerBoard::work() const noexcept {
    return header_of(mapped_).work.load(std::memory_order_acquire); // partner: the release in end_work()
}

} // namespace sluice::roce::near
