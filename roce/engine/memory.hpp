// SPDX-License-Identifier: BSD-3-Clause
//
// How the engine touches the program's memory. It has checked keys and ranges before; what it
// can't know is whether the program has unmapped a page that it had registered. So each touch may
// fail, and then the peer gets a "remote operational error" instead of this process a signal.
//
// PlainMemory is for memory that is known to stay; a device puts a guarded copy behind the same
// interface.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/result.hpp"

namespace sluice::roce::engine {

class Memory {
  public:
    Memory() = default;
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    // Before the program's memory is registered, and touched.
    virtual Result<void> prepare() const { return {}; }
    // Whether memory may be touched that a peer can take away at any moment.
    virtual bool survives_peers() const noexcept { return true; }
    // Each returns false when a page isn't there, or isn't there for this kind of access.
    virtual bool copy_in(std::uint64_t to, const void* from, std::size_t len_bytes) noexcept = 0;
    virtual bool copy_out(void* to, std::uint64_t from, std::size_t len_bytes) noexcept = 0;
    // May these bytes be read? Asked for what is handed out by reference instead of copied.
    virtual bool readable(std::uint64_t addr, std::size_t len_bytes) noexcept = 0;
    // Instead of both, for a few bytes that are to be sent.
    virtual bool read(void* to, std::uint64_t from, std::size_t len_bytes) noexcept {
        return readable(from, len_bytes) && copy_out(to, from, len_bytes);
    }
    // Addresses are multiples of eight. Atomic towards the program's own atomics.
    virtual bool fetch_add(std::uint64_t addr, std::uint64_t add, std::uint64_t& original) noexcept = 0;
    virtual bool compare_swap(std::uint64_t addr, std::uint64_t compare, std::uint64_t swap,
                              std::uint64_t& original) noexcept = 0;
    virtual bool store(std::uint64_t addr, std::uint64_t value) noexcept = 0;
    // Makes what was written visible (PLACEMENT bit 0) or persistent (bit 1).
    virtual bool flush(std::uint64_t addr, std::size_t len_bytes, std::uint8_t placement) noexcept = 0;

  protected:
    ~Memory() = default;
};

class PlainMemory final : public Memory {
  public:
    bool copy_in(std::uint64_t to, const void* from, std::size_t len_bytes) noexcept override;
    bool copy_out(void* to, std::uint64_t from, std::size_t len_bytes) noexcept override;
    bool readable(std::uint64_t addr, std::size_t len_bytes) noexcept override;
    bool fetch_add(std::uint64_t addr, std::uint64_t add, std::uint64_t& original) noexcept override;
    bool compare_swap(std::uint64_t addr, std::uint64_t compare, std::uint64_t swap,
                      std::uint64_t& original) noexcept override;
    bool store(std::uint64_t addr, std::uint64_t value) noexcept override;
    bool flush(std::uint64_t addr, std::size_t len_bytes, std::uint8_t placement) noexcept override;
};

} // namespace sluice::roce::engine
