// SPDX-License-Identifier: BSD-3-Clause
//
// Fault injection: which packet is lost, which completion comes late. Other people's programs are
// tested with it, so the same text and the same traffic give the same faults, each time.
//
// The text, SLUICE_UROCE_FAULTS, is a list: "seed=7,drop-ack=3,delay=2%:5ms,kill-qp=100". docs/
// uroce-faults.md has the grammar; the parser's table of words is in faults.cpp.
//
// A FaultSchedule only decides. Each rule counts what it applies to and draws from a stream of its
// own, so that one more rule doesn't change what the others do. It knows no time and no device:
// the code that sends, receives or completes asks first, and does what it is told (faulty_sender.hpp does
// it for packets that leave).
//
// Not thread safe: under the device's lock. Decisions allocate nothing.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "roce/engine/types.hpp"
#include "roce/wire/packet.hpp"

namespace sluice::roce::socket {

struct SendVerdict {
    bool drop = false;
    bool duplicate = false;
    bool flip_icrc = false;
    bool kill_qp = false; // the queue pair that sent it goes to the error state, after this
    engine::Nanoseconds delay = 0;
};

struct ReceiveVerdict {
    bool drop = false;
    bool duplicate = false;
    bool rnr = false; // it is not taken; its sender is told that the receiver isn't ready
};

struct CompletionVerdict {
    engine::Nanoseconds stall = 0; // this one and those behind it in its queue come that much later
};

class FaultSchedule {
  public:
    // No faults.
    FaultSchedule() = default;
    // kInvalidArgument with the word, and those that there are. Null or empty: no faults.
    static Result<FaultSchedule> parse(const char* text);

    bool empty() const noexcept { return rules_.empty(); }
    std::uint64_t seed() const noexcept { return seed_; }

    // HEADER is what OutPacket has: a BTH at least, and the headers of its opcode.
    SendVerdict on_send(wire::ConstBytes header) noexcept;
    ReceiveVerdict on_receive(const wire::Packet& packet) noexcept;
    CompletionVerdict on_completion() noexcept;

    // How often a fault of any kind has happened.
    std::uint64_t happened() const noexcept { return happened_; }

  private:
    friend class FaultParser;

    enum class Action : std::uint8_t {
        kDrop,
        kDuplicate,
        kFlipIcrc,
        kDelay,
        kKillQp,
        kReceiveDrop,
        kReceiveDuplicate,
        kRnr,
        kStall,
    };
    struct Rule {
        Action action = Action::kDrop;
        std::uint8_t kinds = 0;   // of packets, a set
        std::uint64_t first = 0;  // the how many-th; 0: by chance
        std::uint64_t period = 0; // 0: once
        std::uint32_t chance = 0; // of 2^32, per case
        engine::Nanoseconds time = 0;
        std::uint64_t seen = 0;
        std::uint64_t random = 0;
    };

    bool strikes(Rule& rule) noexcept;

    std::vector<Rule> rules_;
    std::uint64_t seed_ = 1;
    std::uint64_t happened_ = 0;
};

} // namespace sluice::roce::socket
