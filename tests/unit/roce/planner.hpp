// SPDX-License-Identifier: BSD-3-Clause
//
// Makes up what one side asks of the other, and writes into the ledger what must come of it.
#pragma once

#include <cstring>
#include <vector>

#include "tests/unit/roce/ledger.hpp"

namespace sluice::roce::test {

using namespace engine;

// Where things are in a Block.
inline constexpr std::size_t kSourceBytes = 49152;
inline constexpr std::size_t kTargetAt = kSourceBytes, kTargetBytes = 49152;
inline constexpr std::size_t kCountersAt = kTargetAt + kTargetBytes, kCounters = 4;
inline constexpr std::size_t kHoleAt = kCountersAt + kCounters * 8, kHoleBytes = 8192;
inline constexpr std::size_t kRoomAt = kHoleAt + kHoleBytes;
inline constexpr std::size_t kWindows = 4;

// What the sender knows of a side.
struct Keys {
    std::uint32_t all = 0;                         // local key of the whole block
    std::uint32_t target = 0;                      // remote key of targets, counters and hole
    std::uint32_t read_only = 0;                   // remote key of the targets, for reading
    std::array<std::uint32_t, kWindows> windows{}; // over the targets, open for writing
    std::uint32_t own_window = 0;                  // type 1, for this side to bind
};

enum class Failure : std::uint8_t {
    kNone,
    kWrongKey,
    kPastTheEnd,
    kNoPermission,
    kUnalignedAtomic,
    kUnmappedTarget,
    kWrongLocalKey,
    kUnmappedSource,
    kMessageTooLong,
    kUnmappedReceive,
    kClosedWindow,
};
inline constexpr std::uint32_t kFailures = 11;

class Planner {
  public:
    Planner(Random& random, std::array<Block, 2>& blocks, Plan& plan, const std::array<Keys, 2>& keys,
            std::uint32_t mtu)
        : random_(random), blocks_(blocks), plan_(plan), keys_(keys), mtu_(mtu), sender_(plan.sender),
          receiver_(sender_ == kLeft ? kRight : kLeft), model_(blocks[receiver_].truth) {}

    void add_requests(std::uint32_t count) {
        for (std::uint32_t i = 0; i < count; ++i) {
            Entry& entry = begin();
            switch (random_.below(12)) {
            case 0:
            case 1:
            case 2:
                send(entry, random_length());
                break;
            case 3:
            case 4:
                write(entry, random_length());
                break;
            case 5:
            case 6:
            case 7:
                read(entry, random_length());
                break;
            case 8:
            case 9:
                atomic(entry);
                break;
            case 10:
                random_.chance(0.5) ? atomic_write(entry) : flush(entry);
                break;
            default:
                bind(entry);
            }
        }
    }

    void add_failure(Failure failure) {
        plan_.fails = true;
        Entry& entry = begin();
        switch (failure) {
        case Failure::kNone:
            break;
        case Failure::kWrongKey:
            fail_access(entry, keys_[receiver_].target ^ 0x55, target_addr(0));
            break;
        case Failure::kPastTheEnd:
            fail_access(entry, keys_[receiver_].target, target_addr(kRoomAt - kTargetAt - 3));
            break;
        case Failure::kNoPermission:
            fail_access(entry, keys_[receiver_].read_only, target_addr(0));
            break;
        case Failure::kUnalignedAtomic:
            atomic(entry);
            entry.wr.remote_addr += 4;
            entry.status = Status::kRemoteInvalidRequest;
            break;
        case Failure::kUnmappedTarget:
            write_without_receive(entry);
            entry.wr.remote_addr = blocks_[receiver_].addr(kHoleAt);
            entry.wr.rkey = keys_[receiver_].target;
            entry.effects.clear();
            entry.status = Status::kRemoteOperation;
            break;
        case Failure::kWrongLocalKey:
        case Failure::kUnmappedSource:
            fail_locally(entry, failure);
            break;
        case Failure::kMessageTooLong:
        case Failure::kUnmappedReceive:
            fail_receive(entry, failure);
            break;
        case Failure::kClosedWindow:
            if (next_window_ == kWindows) {
                fail_access(entry, keys_[receiver_].windows[0], target_addr(0));
            } else {
                close_window(entry);
                fail_access(begin(), keys_[receiver_].windows[next_window_ - 1], target_addr(0));
            }
            break;
        }
    }

    std::uint32_t flushes() const { return flushes_; }

  private:
    Entry& begin() {
        plan_.entries.emplace_back();
        Entry& entry = plan_.entries.back();
        entry.wr.wr_id = 1000UL * (sender_ + 1UL) + plan_.entries.size();
        entry.wr.flags = random_.chance(0.7) ? kSignaled : 0;
        if (random_.chance(0.1)) {
            fence(entry);
        }
        return entry;
    }

    void fence(Entry& entry) {
        entry.wr.flags |= kFence;
        read_since_fence_.clear();
    }

    std::uint32_t random_length() {
        if (random_.chance(0.1)) {
            return 0;
        }
        if (random_.chance(0.01)) {
            return std::min<std::uint32_t>(mtu_ * 150, kTargetBytes); // more packets than the window
        }
        if (random_.chance(0.2)) {
            return mtu_ * (1 + random_.below(3)); // exactly full packets
        }
        return 1 + random_.below(4 * mtu_);
    }

    std::uint64_t target_addr(std::size_t offset) const {
        return blocks_[receiver_].addr(kTargetAt + offset);
    }

    // One to three pieces of fresh room, or of the source.
    std::vector<Piece> cut(std::uint32_t len, Side side, bool fresh) {
        std::vector<Piece> pieces;
        const std::uint32_t parts = 1 + random_.below(3);
        for (std::uint32_t i = 0; i < parts && (len > 0 || i == 0); ++i) {
            const std::uint32_t part = i + 1 == parts ? len : random_.below(len + 1);
            const std::size_t at = fresh ? blocks_[side].take(part)
                                         : random_.below(static_cast<std::uint32_t>(kSourceBytes - part + 1));
            pieces.push_back({at, part});
            len -= part;
        }
        return pieces;
    }

    std::vector<Sge> sges_of(const std::vector<Piece>& pieces, Side side) const {
        std::vector<Sge> sges;
        for (const Piece& piece : pieces) {
            sges.push_back({blocks_[side].addr(piece.offset), piece.len, keys_[side].all});
        }
        return sges;
    }

    // What a gather list gives; the source never changes.
    std::vector<std::uint8_t> content(const std::vector<Piece>& pieces) const {
        std::vector<std::uint8_t> bytes;
        for (const Piece& piece : pieces) {
            const auto from = blocks_[sender_].truth.begin() + static_cast<std::ptrdiff_t>(piece.offset);
            bytes.insert(bytes.end(), from, from + piece.len);
        }
        return bytes;
    }

    static void spread(Entry& entry, Side side, const std::vector<Piece>& pieces, const std::uint8_t* bytes,
                       std::size_t len) {
        for (const Piece& piece : pieces) {
            const std::size_t part = std::min<std::size_t>(piece.len, len);
            entry.effects.push_back({side, piece.offset, {bytes, bytes + part}});
            bytes += part;
            len -= part;
        }
    }

    std::vector<std::uint8_t> gather(Entry& entry, std::uint32_t len) {
        const auto pieces = cut(len, sender_, false);
        entry.sges = sges_of(pieces, sender_);
        if (len <= 64 && random_.chance(0.3)) {
            entry.wr.flags |= kInline;
        }
        return content(pieces);
    }

    // Executes on the model of the receiver's targets, and notes it.
    void change_target(Entry& entry, std::size_t offset, const std::vector<std::uint8_t>& bytes) {
        std::ranges::copy(bytes, model_.begin() + static_cast<std::ptrdiff_t>(offset));
        entry.effects.push_back({receiver_, offset, bytes});
    }

    // The receive that this entry will use, with room for at least LEN bytes.
    PostedReceive& prepare_receive(Entry& entry, std::uint32_t len, WcOpcode opcode) {
        PostedReceive receive;
        receive.wr_id = 5000UL * (receiver_ + 1UL) + plan_.receives.size();
        receive.pieces = cut(len + (random_.chance(0.5) ? random_.below(50) : 0), receiver_, true);
        receive.sges = sges_of(receive.pieces, receiver_);
        plan_.receives.push_back(receive);
        entry.takes_receive = true;
        entry.receive.opcode = opcode;
        entry.receive.len_bytes = len;
        if (random_.chance(0.3)) {
            entry.wr.flags |= kSolicited;
            entry.receive.flags |= kSolicitedEvent;
        }
        return plan_.receives.back();
    }

    void send(Entry& entry, std::uint32_t len) {
        const auto bytes = gather(entry, len);
        PostedReceive& receive = prepare_receive(entry, len, WcOpcode::kRecv);
        spread(entry, receiver_, receive.pieces, bytes.data(), bytes.size());
        const std::uint32_t kind = random_.below(3);
        entry.wr.opcode = kind == 0 ? WrOpcode::kSendImm : WrOpcode::kSend;
        if (kind == 0) {
            immediate(entry);
        } else if (kind == 1 && next_window_ < kWindows) {
            invalidate(entry);
        }
    }

    void immediate(Entry& entry) {
        entry.wr.imm_or_rkey = static_cast<std::uint32_t>(random_.next());
        entry.receive.imm_or_rkey = entry.wr.imm_or_rkey;
        entry.receive.flags |= kWithImm;
    }

    void invalidate(Entry& entry) {
        entry.wr.opcode = WrOpcode::kSendInv;
        entry.wr.imm_or_rkey = keys_[receiver_].windows[next_window_++];
        entry.receive.imm_or_rkey = entry.wr.imm_or_rkey;
        entry.receive.flags |= kWithInv;
    }

    void close_window(Entry& entry) {
        const auto bytes = gather(entry, 10);
        PostedReceive& receive = prepare_receive(entry, 10, WcOpcode::kRecv);
        spread(entry, receiver_, receive.pieces, bytes.data(), bytes.size());
        invalidate(entry);
    }

    void write(Entry& entry, std::uint32_t len) {
        const auto bytes = gather(entry, len);
        const std::size_t at = kTargetAt + random_.below(static_cast<std::uint32_t>(kTargetBytes - len + 1));
        after_reads_of(entry, at, len);
        entry.wr.opcode = WrOpcode::kWrite;
        entry.wr.remote_addr = blocks_[receiver_].addr(at);
        const bool through_window = next_window_ < kWindows && random_.chance(0.3);
        entry.wr.rkey = through_window ? keys_[receiver_].windows[next_window_] : keys_[receiver_].target;
        change_target(entry, at, bytes);
        if (random_.chance(0.3)) {
            entry.wr.opcode = WrOpcode::kWriteImm;
            prepare_receive(entry, len, WcOpcode::kRecvWriteImm);
            immediate(entry);
        } else if (random_.chance(0.2)) {
            entry.wr.flags |= kSolicited; // means nothing without a receive
        }
    }

    // 10.8.3.3: a read may be overtaken by what follows, unless that is fenced.
    void after_reads_of(Entry& entry, std::size_t at, std::size_t len) {
        for (const Piece& piece : read_since_fence_) {
            if (at < piece.offset + piece.len && piece.offset < at + len) {
                fence(entry);
                return;
            }
        }
    }

    void read(Entry& entry, std::uint32_t len) {
        const std::size_t at = kTargetAt + random_.below(static_cast<std::uint32_t>(kTargetBytes - len + 1));
        const auto pieces = cut(len, sender_, true);
        entry.wr.opcode = WrOpcode::kRead;
        entry.wr.remote_addr = blocks_[receiver_].addr(at);
        entry.wr.rkey = random_.chance(0.5) ? keys_[receiver_].target : keys_[receiver_].read_only;
        entry.sges = sges_of(pieces, sender_);
        spread(entry, sender_, pieces, model_.data() + at, len);
        read_since_fence_.push_back({at, len});
    }

    void atomic(Entry& entry) {
        const std::size_t at = kCountersAt + 8UL * random_.below(kCounters);
        std::uint64_t before = 0;
        std::memcpy(&before, model_.data() + at, sizeof before);
        std::uint64_t after = 0;
        entry.wr.remote_addr = blocks_[receiver_].addr(at);
        entry.wr.rkey = keys_[receiver_].target;
        if (random_.chance(0.5)) {
            entry.wr.opcode = WrOpcode::kFetchAdd;
            entry.wr.compare_add = random_.next();
            after = before + entry.wr.compare_add;
        } else {
            entry.wr.opcode = WrOpcode::kCompareSwap;
            entry.wr.compare_add = random_.chance(0.6) ? before : random_.next();
            entry.wr.swap = random_.next();
            after = entry.wr.compare_add == before ? entry.wr.swap : before;
        }
        const std::vector<Piece> result = {{blocks_[sender_].take(8), 8}};
        entry.sges = sges_of(result, sender_);
        spread(entry, sender_, result, reinterpret_cast<const std::uint8_t*>(&before), 8);
        std::vector<std::uint8_t> bytes(8);
        std::memcpy(bytes.data(), &after, 8);
        change_target(entry, at, bytes);
    }

    void atomic_write(Entry& entry) {
        const auto bytes = gather(entry, 8);
        const std::size_t at = kTargetAt + 8UL * random_.below(kTargetBytes / 8);
        after_reads_of(entry, at, 8);
        entry.wr.opcode = WrOpcode::kAtomicWrite;
        entry.wr.remote_addr = blocks_[receiver_].addr(at);
        entry.wr.rkey = keys_[receiver_].target;
        change_target(entry, at, bytes);
    }

    void flush(Entry& entry) {
        const bool whole = random_.chance(0.3);
        entry.wr.opcode = WrOpcode::kFlush;
        // The block that a whole-region flush means has a hole in it, the read-only one doesn't.
        entry.wr.rkey = keys_[receiver_].read_only;
        entry.wr.remote_addr = target_addr(100);
        entry.wr.flush_bytes = whole ? 0 : 500;
        entry.wr.flush_selectivity = whole ? wire::Feth::kWholeRegion : wire::Feth::kRange;
        entry.wr.flush_placement = static_cast<std::uint8_t>(1 + random_.below(3));
        ++flushes_;
    }

    void bind(Entry& entry) {
        entry.wr.opcode = WrOpcode::kBindMw;
        const std::uint32_t old_key = own_window_ != 0 ? own_window_ : keys_[sender_].own_window;
        own_window_ = (old_key & 0xffffff00) | ((old_key + 1) & 0xff);
        entry.wr.bind = {.mw_rkey = old_key,
                         .new_rkey = own_window_,
                         .mr_key = keys_[sender_].target,
                         .addr = blocks_[sender_].addr(kTargetAt + 8),
                         .len_bytes = 64,
                         .access = kRemoteRead};
    }

    // For a write that fails before a receive would be taken.
    void write_without_receive(Entry& entry) {
        write(entry, 1 + random_.below(std::min<std::uint32_t>(3 * mtu_, kHoleBytes)));
        if (entry.takes_receive) {
            plan_.receives.pop_back();
            entry.takes_receive = false;
            entry.wr.opcode = WrOpcode::kWrite;
        }
    }

    void fail_access(Entry& entry, std::uint32_t rkey, std::uint64_t addr) {
        write_without_receive(entry);
        entry.wr.rkey = rkey;
        entry.wr.remote_addr = addr;
        entry.wr.flags &= static_cast<std::uint8_t>(~kInline);
        while (blocks_[receiver_].addr(kRoomAt) - addr < 4 && entry_len(entry) < 4) {
            entry.sges.push_back({blocks_[sender_].addr(0), 4, keys_[sender_].all});
        }
        entry.effects.clear();
        entry.status = Status::kRemoteAccess;
    }

    static std::uint32_t entry_len(const Entry& entry) {
        std::uint32_t len = 0;
        for (const Sge& sge : entry.sges) {
            len += sge.len_bytes;
        }
        return len;
    }

    void fail_locally(Entry& entry, Failure failure) {
        random_.chance(0.5) ? send(entry, 3 * mtu_) : write(entry, 3 * mtu_);
        entry.wr.flags &= static_cast<std::uint8_t>(~kInline);
        // The last piece is the bad one, so that good packets may have left before.
        Sge& last = entry.sges.emplace_back(Sge{blocks_[sender_].addr(0), 5, keys_[sender_].all});
        if (failure == Failure::kWrongLocalKey) {
            last.lkey ^= 0x700;
        } else {
            last.addr = blocks_[sender_].addr(kHoleAt + 10);
        }
        entry.takes_receive = false;
        entry.status = Status::kLocalProtection;
        entry.may_be_partial = true;
    }

    void fail_receive(Entry& entry, Failure failure) {
        send(entry, 2 * mtu_);
        PostedReceive& receive = plan_.receives.back();
        if (failure == Failure::kMessageTooLong) {
            receive.sges.assign(1,
                                {blocks_[receiver_].addr(receive.pieces[0].offset), 0, keys_[receiver_].all});
            entry.status = Status::kRemoteInvalidRequest;
            entry.receive_status = Status::kLocalLength;
            entry.effects.clear();
        } else {
            receive.sges.assign(1, {blocks_[receiver_].addr(kHoleAt), 3 * mtu_, keys_[receiver_].all});
            entry.status = Status::kRemoteOperation;
            entry.receive_status = Status::kLocalProtection;
            entry.effects.clear();
        }
    }

    Random& random_;
    std::array<Block, 2>& blocks_;
    Plan& plan_;
    const std::array<Keys, 2>& keys_;
    std::uint32_t mtu_;
    Side sender_;
    Side receiver_;
    std::vector<std::uint8_t> model_; // the receiver's block, as it will be
    std::vector<Piece> read_since_fence_;
    std::size_t next_window_ = 0;
    std::uint32_t own_window_ = 0;
    std::uint32_t flushes_ = 0;
};

} // namespace sluice::roce::test
