// SPDX-License-Identifier: BSD-3-Clause
//
// Counts of operations that have ended, whether or not their completion was asked for: what a program may
// wait for instead of completions.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "roce/engine/types.hpp"

namespace sluice::roce::engine {

// Several queue pairs, of several threads, may count here, and the program changes the numbers as it likes.
struct OperationCounter {
    // One that counts bytes does so where they arrived; each failure counts as one.
    void count(Status status, std::uint32_t len_bytes) noexcept {
        const bool good = status == Status::kSuccess;
        // Partner of a reader's acquire: what was received is in its place.
        (good ? ended_well : failed).fetch_add(good && of_bytes ? len_bytes : 1, std::memory_order_acq_rel);
    }

    std::atomic<std::uint64_t> ended_well{0};
    std::atomic<std::uint64_t> failed{0};
    bool of_bytes = false;
};

// Kinds of operations that have a counter each. Atomic and local ones belong to none.
enum class CountedKind : std::uint8_t { kSend, kReceive, kRead, kWrite };
constexpr std::size_t kCountedKinds = 4;

constexpr std::optional<CountedKind> counted_kind(WrOpcode opcode) noexcept {
    switch (opcode) {
    case WrOpcode::kSend:
    case WrOpcode::kSendImm:
    case WrOpcode::kSendInv:
        return CountedKind::kSend;
    case WrOpcode::kWrite:
    case WrOpcode::kWriteImm:
        return CountedKind::kWrite;
    case WrOpcode::kRead:
        return CountedKind::kRead;
    default:
        return std::nullopt;
    }
}

// Those of one queue pair.
class OperationCounters {
  public:
    OperationCounter*& of(CountedKind kind) noexcept { return counters_[static_cast<std::size_t>(kind)]; }
    void attach(CountedKind kind, OperationCounter& counter) noexcept {
        of(kind) = &counter;
        any_ = true;
    }
    bool any() const noexcept { return any_; }

    void count(std::optional<CountedKind> kind, Status status, std::uint32_t len_bytes) noexcept {
        if (OperationCounter* counter = kind ? of(*kind) : nullptr) {
            counter->count(status, len_bytes);
        }
    }

  private:
    std::array<OperationCounter*, kCountedKinds> counters_{};
    bool any_ = false;
};

} // namespace sluice::roce::engine
