// SPDX-License-Identifier: BSD-3-Clause
#include "roce/near/same_host.hpp"

#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bitset>

#include "core/log.hpp"
#include "core/not_cancelled.hpp"
#include "core/sync.hpp"
#include "roce/near/mapped_memory.hpp"
#include "roce/near/process_memory.hpp"
#include "roce/near/slice.hpp"

namespace sluice::roce::near {

namespace {

using engine::DirectRequest;
using engine::WrOpcode;

constexpr std::size_t kTurnBytes = std::size_t{1} << 20;
constexpr std::size_t kWordBytes = sizeof(std::uint64_t);
// For a process that is stopped in the middle of a turn; one that runs takes microseconds.
constexpr std::uint64_t kLongestWaitNs = 1'000'000'000;
// What a thread of a process that is being killed may still do in the kernel.
constexpr long kLastWorkNs = 5'000'000;
constexpr std::size_t kMostPeers = kPlaces;

std::uint64_t now_ns() noexcept {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

void nap(long nanoseconds) noexcept {
    const timespec length{.tv_sec = 0, .tv_nsec = nanoseconds};
    const NotCancelled guard;
    nanosleep(&length, nullptr);
}

constexpr bool is_working(std::uint32_t work) noexcept {
    return (work & 1) != 0;
}

std::uint32_t right_for(WrOpcode opcode) noexcept {
    switch (opcode) {
    case WrOpcode::kWrite:
        return engine::kRemoteWrite;
    case WrOpcode::kRead:
        return engine::kRemoteRead;
    default:
        return engine::kRemoteAtomic;
    }
}

// No sum that could wrap.
bool covers(const engine::PublishedRegion& region, std::uint64_t addr, std::uint64_t len_bytes) noexcept {
    return addr >= region.iova && len_bytes <= region.len_bytes &&
           addr - region.iova <= region.len_bytes - len_bytes;
}

// As the peer's engine would decide.
bool is_allowed(const DirectRequest& request, const engine::PublishedConnection& connection,
                const engine::PublishedRegion& region) noexcept {
    return region.pd == connection.pd && (region.qpn == 0 || region.qpn == request.ends.peer_qpn) &&
           (region.access & connection.access & right_for(request.opcode)) != 0 &&
           covers(region, request.remote_addr, request.len_bytes) &&
           (!is_atomic(request.opcode) || request.remote_addr % kWordBytes == 0);
}

// The last word, as far as it is written: programs wait for that.
std::size_t last_bytes(std::uint64_t to, std::size_t len_bytes) noexcept {
    const std::size_t behind = (to + len_bytes) % kWordBytes;
    return std::min(len_bytes, behind != 0 ? behind : kWordBytes);
}

bool write_in_order(PeerMemory& memory, std::uint64_t to, std::span<const iovec> from,
                    std::size_t len_bytes) noexcept {
    const std::size_t last = last_bytes(to, len_bytes);
    const std::size_t first = len_bytes - last;
    return first == 0 ? memory.write(to, from, len_bytes) : memory.write_in_order(to, from, first, last);
}

} // namespace

Result<Peer> SameHost::open(const Descriptor& board, pid_t pid, const engine::Memory& own) {
    Result<PeerBoard> mapped = PeerBoard::map(board);
    if (!mapped) {
        return std::move(mapped).error();
    }
    Peer peer{.board = *std::move(mapped), .pid = pid};
    auto memory = std::make_unique<ProcessMemory>(pid);
    if (memory->may_touch(peer.board.probe())) {
        peer.memory = std::move(memory);
        peer.shared = own.survives_peers() ? std::make_unique<SharedRegions>(pid) : nullptr;
    }
    Result<RingReader> ring = RingReader::create();
    if (ring) {
        peer.from_it = std::make_unique<RingReader>(*std::move(ring));
    } else {
        SLUICE_LOG(kInfo, "uroce", "packets of process %d of this host come by UDP: %s", pid,
                   ring.error().text());
    }
    return peer;
}

const Peer* SameHost::add(Peer peer) {
    forget_the_dead();
    const auto known =
        std::ranges::find_if(peers_, [&](const Peer& one) { return one.board.id() == peer.board.id(); });
    if (known != peers_.end()) {
        if (known->pid != peer.pid) {
            forget_ways(*known); // one of the two has passed off another's board
        }
        return &*known;
    }
    if (peers_.size() == kMostPeers) {
        return nullptr;
    }
    if (!bell_.can_ring()) {
        peer.from_it = nullptr;
    }
    peer.place = free_place();
    board_->sign(peer.place).store(0, std::memory_order_relaxed); // it may have been a dead process's
    const Peer* const added = &peers_.emplace_back(std::move(peer));
    look_for_rings();
    return added;
}

std::uint32_t SameHost::free_place() const noexcept {
    std::bitset<kPlaces> taken;
    for (const Peer& peer : peers_) {
        taken.set(peer.place);
    }
    std::uint32_t place = 0;
    while (taken.test(place)) {
        ++place;
    }
    return place;
}

void SameHost::waits_for_us(std::uint64_t id, pid_t pid, Ways ways) noexcept {
    const auto peer = std::ranges::find_if(peers_, [&](const Peer& known) { return known.board.id() == id; });
    if (peer == peers_.end() || peer->pid != pid) {
        return;
    }
    peer->waits_for_us = true;
    if (peer->to_it == nullptr && peer->from_it != nullptr && ways.ring != nullptr && ways.place < kPlaces) {
        const Signs signs{.own = board_->sign(peer->place),
                          .neighbours = peer->board.sign(static_cast<std::uint32_t>(ways.place))};
        peer->to_it = std::move(ways.ring);
        peer->bell = std::move(ways.bell);
        peer->to_it->begin(signs);
        peer->from_it->open(signs);
    }
}

void SameHost::forget_ways(Peer& peer) noexcept {
    peer.memory = nullptr;
    peer.from_it = nullptr;
    peer.to_it = nullptr;
    full_one_is_gone_ = std::exchange(peer.had_no_room, false) || full_one_is_gone_;
    has_full_rings_ = has_full_rings_ || full_one_is_gone_;
    look_for_rings();
}

void SameHost::look_for_rings() noexcept {
    has_rings_.store(std::ranges::any_of(peers_, [](const Peer& peer) { return peer.from_it != nullptr; }),
                     std::memory_order_relaxed);
}

// One that was killed in the middle of a turn is still to be waited for, and what it wrote before is to be
// read.
void SameHost::forget_the_dead() noexcept {
    known_receiver_ = nullptr;
    std::erase_if(peers_, [this](const Peer& peer) {
        const std::uint32_t work = peer.board.work();
        const bool has_more = peer.from_it != nullptr && peer.from_it->has_packets();
        const bool is_over =
            !peer.board.lives() && !has_more && (!is_working(work) || work == peer.given_up_at);
        full_one_is_gone_ = full_one_is_gone_ || (is_over && peer.had_no_room);
        return is_over;
    });
    look_for_rings();
}

void SameHost::abandon() noexcept {
    board_->abandon();
    bell_.abandon();
}

void SameHost::publish(std::uint32_t slot, const engine::PublishedRegion& region) noexcept {
    board_->publish(slot, region);
}

// It may have had more rights before.
void SameHost::publish(std::uint32_t seat, const engine::PublishedConnection& connection) noexcept {
    board_->publish(seat, connection);
    wait_for_work();
}

void SameHost::withdraw_region(std::uint32_t slot) noexcept {
    board_->withdraw_region(slot);
    wait_for_work();
}

void SameHost::withdraw_connection(std::uint32_t seat) noexcept {
    board_->withdraw_connection(seat);
    wait_for_work();
}

// Until each peer that may go by what was withdrawn has ended its turn. A stopped one is waited for once.
void SameHost::wait_for_work() noexcept {
    // Partner: the fence in Board::begin_work().
    std::atomic_thread_fence(std::memory_order_seq_cst);
    for (Peer& peer : peers_) {
        const std::uint32_t work = peer.board.work();
        if (is_working(work) && work != peer.given_up_at) {
            wait_for(peer, work);
        }
    }
}

void SameHost::wait_for(Peer& peer, std::uint32_t work) noexcept {
    constexpr int kSpins = 1024;
    constexpr long kBetweenLooksNs = 20'000;
    std::uint64_t end = 0;
    for (int turns = 0; peer.board.work() == work; ++turns) {
        if (turns < kSpins) {
            cpu_relax();
            continue;
        }
        end = end == 0 ? now_ns() + kLongestWaitNs : end;
        const bool lives = peer.board.lives();
        nap(lives ? kBetweenLooksNs : kLastWorkNs);
        if (!lives || now_ns() > end) {
            peer.given_up_at = work;
            if (lives) {
                SLUICE_LOG(
                    kWarning, "uroce",
                    "a process of this host is stopped while it reads or writes this one's memory; what "
                    "it has begun, up to 1 MiB, may go on after the memory is deregistered");
            }
            return;
        }
    }
}

template<typename Is>
Peer* SameHost::find_if(std::size_t& last, Is&& is) noexcept {
    if (last < peers_.size() && is(peers_[last].board)) {
        return &peers_[last];
    }
    for (std::size_t index = 0; index < peers_.size(); ++index) {
        if (is(peers_[index].board)) {
            last = index;
            return &peers_[index];
        }
    }
    return nullptr;
}

// A number belongs to one process at most of those at its address.
Peer* SameHost::find(const engine::Ends& ends) noexcept {
    return find_if(last_, [&](const PeerBoard& board) {
        return board.owner().share.owns(ends.peer_qpn) && board.connection(ends);
    });
}

// The only one that may have the connection. For a caller that looks at the connection itself.
Peer* SameHost::owner(const engine::Ends& ends) noexcept {
    return find_if(last_, [&](const PeerBoard& board) {
        const BoardOwner& owner = board.owner();
        return owner.share.owns(ends.peer_qpn) &&
               (owner.address == ends.remote ? board.lives() : board.connection(ends).has_value());
    });
}

bool SameHost::is_further(const engine::Address& address) const noexcept {
    return std::ranges::find(further_, address) != further_.end();
}

// At its home, and at further addresses that it has in common with this process, all its numbers are for it;
// at others it has connections.
Peer* SameHost::find_receiver(const engine::Ends& ends) noexcept {
    const engine::Address& home = is_further(ends.remote) ? board_->home() : ends.remote;
    return find_if(last_receiver_, [&](const PeerBoard& board) {
        const BoardOwner& owner = board.owner();
        return (owner.address == home ? owner.share.owns(ends.peer_qpn)
                                      : board.connection(ends).has_value()) &&
               board.lives();
    });
}

// It is asked for twice for each packet, and most packets go where the last one went.
Peer* SameHost::receiver(const engine::Ends& ends) noexcept {
    if (known_receiver_ != nullptr && known_qpn_ == ends.peer_qpn && known_home_ == ends.remote &&
        known_receiver_->board.lives()) {
        return known_receiver_;
    }
    Peer* const found = find_receiver(ends);
    const bool stays =
        found != nullptr && found->board.owner().address == ends.remote && !is_further(ends.remote);
    known_receiver_ = stays ? found : nullptr;
    known_home_ = ends.remote;
    known_qpn_ = ends.peer_qpn;
    return found;
}

engine::Neighbourhood::Room SameHost::room(const engine::Ends& ends) noexcept {
    Peer* const peer = receiver(ends);
    if (peer == nullptr || peer->to_it == nullptr) {
        return Room::kNoWay;
    }
    switch (peer->to_it->room()) {
    case RingWriter::Room::kFree:
        return Room::kFree;
    case RingWriter::Room::kFull:
        has_full_rings_ = peer->had_no_room = true;
        return Room::kFull;
    case RingWriter::Room::kClosed:
        return Room::kNoWay;
    }
    return Room::kNoWay;
}

bool SameHost::send(const engine::OutPacket& packet) noexcept {
    Peer* const peer = receiver({.local = packet.source,
                                 .qpn = packet.source_qpn,
                                 .remote = packet.destination,
                                 .peer_qpn = packet.packet.bth.dest_qpn});
    if (peer == nullptr || peer->to_it == nullptr || !peer->to_it->write(packet, memory_)) {
        return false;
    }
    if (peer->to_it->is_reader_asleep()) {
        Bell::ring(peer->bell);
    }
    return true;
}

bool SameHost::has_news() const noexcept {
    return std::ranges::any_of(peers_, [](const Peer& peer) {
        return (peer.from_it != nullptr && peer.from_it->has_packets()) ||
               (peer.had_no_room && !peer.to_it->is_full());
    });
}

// One that has died has none, and its packets take another way.
bool SameHost::room_again() noexcept {
    if (!has_full_rings_) {
        return false;
    }
    bool some = std::exchange(full_one_is_gone_, false);
    has_full_rings_ = false;
    for (Peer& peer : peers_) {
        if (peer.had_no_room) {
            // Asks again: meanwhile the reader may have answered, and the writer filled the ring once more.
            peer.had_no_room = peer.to_it->room() == RingWriter::Room::kFull && peer.board.lives();
            some = some || !peer.had_no_room;
            has_full_rings_ = has_full_rings_ || peer.had_no_room;
        }
    }
    return some;
}

void SameHost::report_garbage(const Peer& peer) const noexcept {
    SLUICE_LOG(kWarning, "uroce",
               "process %d of this host has written something to memory that is no packet; from now on its "
               "packets must come another way",
               peer.pid);
}

void SameHost::after_reading(Peer& peer) noexcept {
    if (peer.from_it->made_room()) {
        Bell::ring(peer.bell);
    }
}

bool SameHost::fall_asleep() noexcept {
    for (const Peer& peer : peers_) {
        if (peer.from_it != nullptr) {
            peer.from_it->set_asleep(true);
        }
    }
    // Partner: the fence in RingWriter::is_reader_asleep().
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return !has_news();
}

void SameHost::wake_up() noexcept {
    bell_.quiet();
    for (const Peer& peer : peers_) {
        if (peer.from_it != nullptr) {
            peer.from_it->set_asleep(false);
        }
    }
}

bool SameHost::may_touch(const Peer* peer) const noexcept {
    return peer != nullptr && peer->memory != nullptr && peer->waits_for_us && board_->lives();
}

bool SameHost::reaches(const engine::Ends& ends) noexcept {
    return may_touch(find(ends));
}

bool SameHost::knows(const engine::Ends& ends) noexcept {
    const Peer* const peer = find(ends);
    return peer != nullptr && peer->board.lives();
}

bool SameHost::execute(const DirectRequest& request, std::uint64_t& original) noexcept {
    Peer* const peer = owner(request.ends);
    if (!may_touch(peer)) {
        return false;
    }
    get_ready(*peer, request);
    if (!execute_in_turns(*peer, request, original)) {
        return false;
    }
    ++counters_.requests;
    if (request.opcode == WrOpcode::kWrite) {
        counters_.bytes_sent.add(request.len_bytes);
    } else {
        counters_.bytes_received.add(request.len_bytes);
    }
    return true;
}

// Whatever may take long: nobody waits for this process meanwhile. An atomic operation can't do without a
// mapping.
void SameHost::get_ready(Peer& peer, const DirectRequest& request) noexcept {
    const bool atomic = is_atomic(request.opcode);
    if (peer.shared == nullptr || (!atomic && peer.shared->is_settled(request.rkey))) {
        return;
    }
    const auto seen = peer.board.region(request.rkey);
    if (seen && peer.shared->before_use(*seen, atomic ? SharedRegions::Search::kNow
                                                      : SharedRegions::Search::kAfterSomeUses)) {
        (void)memory_.prepare(); // the program may have installed handlers since it registered memory
    }
}

bool SameHost::execute_in_turns(Peer& peer, const DirectRequest& request, std::uint64_t& original) noexcept {
    std::uint64_t offset = 0;
    do {
        const std::size_t len = std::min<std::uint64_t>(request.len_bytes - offset, kTurnBytes);
        const bool is_all = len == request.len_bytes;
        const Slice slice(request.pieces, offset, is_all ? 0 : len);
        board_->begin_work();
        const bool done =
            execute_turn(peer, request, {offset, len, is_all ? request.pieces : slice.pieces()}, original);
        board_->end_work();
        if (!done) {
            return false;
        }
        offset += len;
    } while (offset != request.len_bytes);
    return true;
}

bool SameHost::execute_on(PeerMemory& memory, std::uint64_t at, const DirectRequest& request,
                          const Turn& turn, std::uint64_t& original) noexcept {
    switch (request.opcode) {
    case WrOpcode::kWrite:
        return turn.offset + turn.len_bytes == request.len_bytes
                   ? write_in_order(memory, at, turn.pieces, turn.len_bytes)
                   : memory.write(at, turn.pieces, turn.len_bytes);
    case WrOpcode::kRead:
        return memory.read(turn.pieces, at, turn.len_bytes);
    case WrOpcode::kFetchAdd:
        return at % kWordBytes == 0 && memory.fetch_add(at, request.compare_add, original);
    case WrOpcode::kCompareSwap:
        return at % kWordBytes == 0 && memory.compare_swap(at, request.compare_add, request.swap, original);
    default:
        return false;
    }
}

bool SameHost::execute_turn(Peer& peer, const DirectRequest& request, const Turn& turn,
                            std::uint64_t& original) noexcept {
    const auto connection = peer.board.connection(request.ends);
    const auto seen = peer.board.region(request.rkey);
    if (!connection || !seen || !is_allowed(request, *connection, seen->region) || !peer.board.lives()) {
        return false;
    }
    const std::uint64_t there =
        seen->region.host_addr + (request.remote_addr - seen->region.iova) + turn.offset;
    const auto here = peer.shared != nullptr ? peer.shared->find(*seen, {there, turn.len_bytes})
                                             : std::optional<std::uint64_t>();
    MappedMemory mapped(memory_);
    return here ? execute_on(mapped, *here, request, turn, original)
                : execute_on(*peer.memory, there, request, turn, original);
}

} // namespace sluice::roce::near
