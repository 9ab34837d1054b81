// SPDX-License-Identifier: BSD-3-Clause
//
// Whether an IPv4 identification that was solved for (wire/icrc.hpp) is believable.
//
// Random damage passes the solver once in 65536: it gives some identification, any of them. Those of
// a healthy source follow each other. So the two together are nearly as good as the whole CRC:
//
// * While nothing from a source arrives damaged, everything that solves is taken. To see a damaged
//   packet that solves, one must have seen about 65535 that don't.
// * After one that doesn't solve, for as many packets as it takes to be out of that danger, an
//   identification must lie close ahead of the last one (or be a number below kSegments, which
//   a sender with segmentation offload counts from). One that doesn't is dropped; if the next one
//   is close to that, the source has jumped, and goes on from there. Three in a row are
//   believed in any case: such a source draws them at random.
//
// A table of fixed size; sources that fall into the same place forget each other, which costs the
// protection, never a packet. Not thread safe; allocates nothing.
#pragma once

#include <array>
#include <cstdint>

#include "roce/engine/types.hpp"

namespace sluice::roce::socket {

class IdentificationWatch {
  public:
    static constexpr std::uint32_t kWatchedPackets = 65536;
    static constexpr std::uint16_t kSegments = 64;
    static constexpr std::uint16_t kAhead = 2048; // Linux skips some for each clock tick
    static constexpr std::uint16_t kBehind = 64;  // the network has changed the order

    // Something from SOURCE fitted no identification.
    void damaged(const engine::Address& source) noexcept;
    bool believes(const engine::Address& source, std::uint16_t identification) noexcept;

  private:
    struct Source {
        engine::Address address;
        std::uint32_t watched = 0; // packets for which it is still under suspicion
        std::uint16_t last = 0;
        std::uint16_t doubtful = 0;
        std::uint8_t doubts = 0; // in a row
        bool known = false;      // LAST is one
    };

    Source& find(const engine::Address& source) noexcept;
    static bool follows(std::uint16_t identification, std::uint16_t last) noexcept;

    std::array<Source, 64> sources_{};
};

} // namespace sluice::roce::socket
