// SPDX-License-Identifier: BSD-3-Clause
//
// The numbers that a connection manager makes up, and that a stranger must not guess: each kind has a stream
// of its own.
//
// Not thread safe.
#pragma once

#include <cstdint>

#include "core/random.hpp"
#include "roce/wire/mad.hpp"

namespace sluice::roce::cm {

class RandomNumbers {
  public:
    explicit RandomNumbers(const RandomKey& secret) noexcept
        : transactions_(secret.derive("transactions")), sequence_(secret.derive("sequence")),
          flow_labels_(secret.derive("flow labels")), ports_(secret.derive("ports")) {}

    std::uint64_t transaction_id() noexcept { return transactions_.draw_64(); }
    std::uint32_t sequence_number() noexcept { return sequence_.draw() & wire::kPsnMask; }
    std::uint32_t flow_label() noexcept { return flow_labels_.draw() & 0xfffff; }
    // One of so many.
    std::uint32_t port(std::uint32_t count) noexcept { return ports_.draw_below(count); }

  private:
    RandomStream transactions_;
    RandomStream sequence_;
    RandomStream flow_labels_;
    RandomStream ports_;
};

} // namespace sluice::roce::cm
