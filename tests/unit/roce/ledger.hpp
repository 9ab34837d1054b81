// SPDX-License-Identifier: BSD-3-Clause
//
// What must come of a list of work requests, computed without any transport: requests are executed
// at once, in order, on copies of both memories. The simulation then has to arrive at the same
// bytes and completions, whatever the network does.
//
// Each side has one block of memory: data that is only read, targets for its peer, and fresh room
// for each receive and each result. Each request is an Entry: the work request, what it changes if
// it succeeds (its effects), and the completions it causes on both sides. When a request fails,
// nothing of the later ones may have happened; when it fails because the network was too bad, the
// requests from there on may have happened or not, and their bytes are not compared.
#pragma once

#include <string>
#include <vector>

#include "tests/unit/roce/simulation.hpp"

namespace sluice::roce::test {

using namespace engine;

enum Side : std::uint8_t { kLeft = 0, kRight = 1 };

struct Piece {
    std::size_t offset;
    std::uint32_t len;
};

struct Effect {
    Side side;
    std::size_t offset;
    std::vector<std::uint8_t> bytes;
};

struct Entry {
    SendWr wr;
    std::vector<Sge> sges;
    Status status = Status::kSuccess; // how it must end
    std::vector<Effect> effects;
    bool takes_receive = false;
    Completion receive; // what the peer must see, if it takes a receive
    Status receive_status = Status::kSuccess;
    bool may_be_partial = false; // a failure that may leave the beginning of its data
};

struct PostedReceive {
    std::uint64_t wr_id = 0;
    std::vector<Piece> pieces;
    std::vector<Sge> sges;
};

// One direction: what the sender posts and the receiver prepares.
struct Plan {
    Side sender = kLeft;
    std::vector<Entry> entries;
    std::vector<PostedReceive> receives;
    bool fails = false; // the last but few entries end in an error by design
};

struct Block {
    std::vector<std::uint8_t> bytes; // what the engine works on
    std::vector<std::uint8_t> truth; // what the ledger says
    std::vector<bool> unknown;
    std::size_t used = 0;

    std::size_t take(std::size_t len) {
        const std::size_t at = used;
        used += (len + 15) / 8 * 8; // a gap that must stay as it is
        return at;
    }
    std::uint64_t addr(std::size_t offset) const {
        return reinterpret_cast<std::uintptr_t>(bytes.data()) + offset;
    }
};

// What came out, in order.
struct Outcome {
    std::vector<Completion> sends;
    std::vector<Completion> receives;
};

inline std::string describe(const Completion& c) {
    return "wr " + std::to_string(c.wr_id) + " status " + std::to_string(static_cast<int>(c.status)) +
           " opcode " + std::to_string(static_cast<int>(c.opcode)) + " bytes " + std::to_string(c.len_bytes) +
           " imm " + std::to_string(c.imm_or_rkey) + " flags " + std::to_string(c.flags);
}

// The ledger of one run. Every function returns what is wrong, or nothing.
class Ledger {
  public:
    explicit Ledger(std::array<Block, 2>& blocks) : blocks_(blocks) {}

    // How many requests of PLAN certainly succeeded, judged by the completions of its sender: all
    // of them, or those before the first error. Checks their order and statuses.
    std::string check_sends(const Plan& plan, const std::vector<Completion>& seen, bool network_is_bad,
                            bool peer_may_fail) {
        std::size_t at = 0;
        bool failed = false;
        certain_ = plan.entries.size();
        gave_up_ = false;
        for (std::size_t i = 0; i < plan.entries.size(); ++i) {
            const Entry& entry = plan.entries[i];
            const bool visible = (entry.wr.flags & kSignaled) != 0;
            const bool next_is_this = at < seen.size() && seen[at].wr_id == entry.wr.wr_id;
            if (failed) {
                if (!next_is_this || seen[at].status != Status::kFlushed) {
                    return "send " + std::to_string(i) + " isn't flushed";
                }
                ++at;
                continue;
            }
            if (!next_is_this) {
                if (visible || entry.status != Status::kSuccess) {
                    return "send " + std::to_string(i) + " has no completion";
                }
                continue;
            }
            const Completion& completion = seen[at++];
            if (completion.status == Status::kSuccess && entry.status == Status::kSuccess) {
                if (!visible) {
                    return "send " + std::to_string(i) + " wasn't signaled but completed";
                }
                if (completion.len_bytes != entry_bytes(entry)) {
                    return "send " + std::to_string(i) + " has another length";
                }
                continue;
            }
            const bool by_design = completion.status == entry.status;
            const bool by_network = network_is_bad && completion.status == Status::kRetryExceeded;
            const bool by_peer = peer_may_fail && completion.status == Status::kFlushed;
            // The response of a read before the refused request was lost: it can't come again.
            const bool early =
                network_is_bad && plan.fails && response_before_failure(plan, i, completion.status);
            if (!by_design && !by_network && !by_peer && !early) {
                return "send " + std::to_string(i) + " ended so: " + describe(completion);
            }
            failed = true;
            gave_up_ = !by_design;
            certain_ = i;
        }
        if (at != seen.size()) {
            return "a completion too many: " + describe(seen[at]);
        }
        return {};
    }

    // The receives that the certain requests used, then nothing, or flushes when the pair failed.
    std::string check_receives(const Plan& plan, const std::vector<Completion>& seen, bool flushed) {
        std::size_t at = 0;
        for (std::size_t i = 0; i < plan.entries.size(); ++i) {
            const Entry& entry = plan.entries[i];
            const bool must =
                i < certain_ || (i == certain_ && !gave_up_ && entry.status != Status::kSuccess);
            if (!entry.takes_receive || (!must && !gave_up_)) {
                continue;
            }
            if (!must && (at == seen.size() || seen[at].status == Status::kFlushed)) {
                break; // the uncertain ones ended before this
            }
            if (at == seen.size()) {
                return "receive " + std::to_string(at) + " for send " + std::to_string(i) + " is missing";
            }
            std::string wrong = check_receive(plan, entry, at, seen[at]);
            if (!wrong.empty()) {
                return wrong;
            }
            ++at;
        }
        for (; at < seen.size(); ++at) {
            if (!flushed || seen[at].status != Status::kFlushed ||
                seen[at].wr_id != plan.receives[at].wr_id) {
                return "receive " + std::to_string(at) + " unexpected: " + describe(seen[at]);
            }
        }
        if (flushed && seen.size() != plan.receives.size()) {
            return "not all receives were flushed";
        }
        return {};
    }

    // Brings the truth up to date with what PLAN did.
    void settle(const Plan& plan) {
        for (std::size_t i = 0; i < plan.entries.size(); ++i) {
            const Entry& entry = plan.entries[i];
            const bool happened = i < certain_;
            const bool unknown = !happened && (gave_up_ || (i == certain_ && entry.may_be_partial));
            for (const Effect& effect : entry.effects) {
                Block& block = blocks_[effect.side];
                for (std::size_t k = 0; k < effect.bytes.size(); ++k) {
                    if (happened) {
                        block.truth[effect.offset + k] = effect.bytes[k];
                    }
                    block.unknown[effect.offset + k] = block.unknown[effect.offset + k] || unknown;
                }
            }
        }
    }

    std::string check_memory() const {
        for (const Side side : {kLeft, kRight}) {
            const Block& block = blocks_[side];
            if (block.bytes == block.truth) {
                continue;
            }
            for (std::size_t i = 0; i < block.bytes.size(); ++i) {
                if (block.bytes[i] != block.truth[i] && !block.unknown[i]) {
                    return std::string(side == kLeft ? "left" : "right") + " memory differs at " +
                           std::to_string(i);
                }
            }
        }
        return {};
    }

    bool gave_up() const { return gave_up_; }

  private:
    static std::uint32_t entry_bytes(const Entry& entry) {
        std::uint32_t len = 0;
        for (const Sge& sge : entry.sges) {
            len += sge.len_bytes;
        }
        return len;
    }

    static bool response_before_failure(const Plan& plan, std::size_t i, Status status) {
        for (std::size_t k = i + 1; k < plan.entries.size(); ++k) {
            if (plan.entries[k].status != Status::kSuccess) {
                return plan.entries[k].status == status;
            }
        }
        return false;
    }

    static std::string check_receive(const Plan& plan, const Entry& entry, std::size_t at,
                                     const Completion& seen) {
        const Completion& must = entry.receive;
        const bool same = seen.wr_id == plan.receives[at].wr_id && seen.status == entry.receive_status &&
                          (seen.status != Status::kSuccess ||
                           (seen.opcode == must.opcode && seen.len_bytes == must.len_bytes &&
                            seen.flags == must.flags && seen.imm_or_rkey == must.imm_or_rkey));
        return same ? std::string()
                    : "receive " + std::to_string(at) + " is " + describe(seen) + " and should be " +
                          describe(must);
    }

    std::array<Block, 2>& blocks_;
    std::size_t certain_ = 0;
    bool gave_up_ = false;
};

} // namespace sluice::roce::test
