// SPDX-License-Identifier: BSD-3-Clause
//
// What must come of the requests of one connection, in the order in which they were posted: each byte of the
// peer's memory, what each Read and each atomic operation brings, and each completion. And the other way
// round, what must arrive in receives.
#pragma once

#include <infiniband/verbs.h>

#include <deque>
#include <vector>

#include "tests/soak/memory.hpp"
#include "tests/unit/roce/random.hpp"

namespace sluice::test::soak {

using roce::test::Random;

// What a work request's number begins with.
enum class Of : std::uint8_t { kRequest = 1, kReceive, kDatagram, kDatagramReceive };

constexpr std::uint64_t wr_id(Of what, unsigned connection, std::uint64_t number) {
    return static_cast<std::uint64_t>(what) << 56 | std::uint64_t{connection} << 48 | number;
}
constexpr Of kind_of(std::uint64_t id) {
    return static_cast<Of>(id >> 56);
}
constexpr unsigned connection_of(std::uint64_t id) {
    return static_cast<unsigned>(id >> 48 & 0xff);
}
constexpr std::uint64_t number_of(std::uint64_t id) {
    return id & 0xffffffffffff;
}

// A message that uses up a receive. Both sides know it by its number.
struct Message {
    bool is_write = false; // with immediate data, into the target
    bool with_immediate = false;
    std::uint32_t immediate = 0;
    std::size_t len = 0;
    std::size_t at = 0;
    std::uint64_t content = 0;
};
// KEY is of the sender and the round.
Message message_of(std::uint64_t key, unsigned connection, std::uint64_t number);
std::size_t draw_length(Random& random);

// How a completion of a request counts, for both classes below.
enum class Ends : std::uint8_t { kAllMustSucceed, kPeerIsDead };

class RequestLedger {
  public:
    RequestLedger(const Block& block, std::uint64_t key, unsigned connection)
        : block_(block), key_(key), connection_(connection), target_(kTargetBytes) {}

    bool has_room() const { return pending_.size() < kUnderWay; }
    bool is_empty() const { return pending_.empty(); }
    std::size_t under_way() const { return pending_.size(); }
    std::uint64_t messages() const { return messages_; }
    std::uint64_t hash_of_target() const { return hash(target_.data(), target_.size()); }

    // The next request, with its bytes in place, entered. Without keys and with addresses that count from the
    // peer's block.
    ibv_send_wr next(Random& random, ibv_sge& piece);
    // Reads LEN bytes back, signaled.
    ibv_send_wr read_back(std::size_t at, std::size_t len, ibv_sge& piece);
    // One that does nothing: its completion comes behind all others.
    ibv_send_wr marker();
    // How many have ended by that, and how many bytes they had.
    struct Ended {
        std::uint64_t requests = 0;
        std::uint64_t bytes = 0;
    };
    Ended complete(const ibv_wc& completion, Ends ends);

  private:
    struct Pending {
        ibv_wc_opcode opcode;
        bool is_signaled;
        std::size_t len;
        std::vector<std::uint8_t> brings; // empty: nothing comes back
    };

    ibv_send_wr write(Random& random, ibv_sge& piece);
    ibv_send_wr atomic(Random& random, ibv_sge& piece);
    ibv_send_wr message(ibv_sge& piece);
    ibv_send_wr enter(ibv_wr_opcode opcode, std::size_t len, std::size_t at, ibv_sge& piece, Pending pending);
    void check_bytes(const Pending& ended) const;
    void check_success(const Pending& ended, const ibv_wc* completion) const;
    void check_failure(const ibv_wc& completion, Ends ends);

    const Block& block_;
    std::uint64_t key_;
    unsigned connection_;
    std::vector<std::uint8_t> target_; // of the peer
    std::deque<Pending> pending_{};
    std::uint64_t first_pending_ = 0;
    std::uint64_t messages_ = 0;
    bool has_failed_ = false;
};

class ReceiveLedger {
  public:
    // KEY is the peer's.
    ReceiveLedger(const Block& block, std::uint64_t key, unsigned connection)
        : block_(block), key_(key), connection_(connection) {}

    std::uint64_t messages() const { return messages_; }
    // SLOT is where it lies.
    void arrived(const ibv_wc& completion, unsigned slot);

  private:
    const Block& block_;
    std::uint64_t key_;
    unsigned connection_;
    std::uint64_t messages_ = 0;
};

inline constexpr std::uint8_t kUntouched = 0xa5;

} // namespace sluice::test::soak
