// SPDX-License-Identifier: BSD-3-Clause
//
// Another memory, which tells the simulation of power what this device writes, and that a peer reads: with
// DDIO switched off a Read makes durable what was written before it (core/coherence/power.hpp, ADR 105).
//
// Thread safety: that of the other memory.
#pragma once

#include "roce/engine/memory.hpp"

namespace sluice::roce::socket {

class PushedMemory final : public engine::Memory {
  public:
    // Whether this process is in such a simulation.
    static bool is_wanted() noexcept;
    // BEHIND outlives it.
    explicit PushedMemory(engine::Memory& behind) noexcept : behind_(behind) {}

    Result<void> prepare() const override { return behind_.prepare(); }
    bool survives_peers() const noexcept override { return behind_.survives_peers(); }
    bool copy_in(std::uint64_t to, const void* from, std::size_t len_bytes) noexcept override;
    bool copy_out(void* to, std::uint64_t from, std::size_t len_bytes) noexcept override;
    // Asked for what leaves: answers to Reads of peers, and this process's own requests.
    bool readable(std::uint64_t addr, std::size_t len_bytes) noexcept override;
    bool fetch_add(std::uint64_t addr, std::uint64_t add, std::uint64_t& original) noexcept override;
    bool compare_swap(std::uint64_t addr, std::uint64_t compare, std::uint64_t swap,
                      std::uint64_t& original) noexcept override;
    bool store(std::uint64_t addr, std::uint64_t value) noexcept override;
    bool flush(std::uint64_t addr, std::size_t len_bytes, std::uint8_t placement) noexcept override;

  private:
    engine::Memory& behind_;
};

} // namespace sluice::roce::socket
