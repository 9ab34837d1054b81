// SPDX-License-Identifier: BSD-3-Clause
//
// Registered memory, this side's and the peer's.
//
// Thread safety: objects don't change; everything but the destructor may be called from any thread.
#pragma once

#include "rpma/peer.hpp"

namespace sluice::rpma {

// The longest piece of memory that a request can name.
constexpr std::size_t kMaxPiece = UINT32_MAX;

// Whether LENGTH bytes at OFFSET are within SIZE bytes, and not more than a request can name.
constexpr bool is_within(std::uint64_t size, std::uint64_t offset, std::uint64_t length) noexcept {
    return length <= kMaxPiece && offset <= size && length <= size - offset;
}

class LocalRegion {
  public:
    // USAGE: bits RPMA_MR_USAGE_*.
    static Result<std::unique_ptr<LocalRegion>> make(Peer& peer, void* address, std::size_t size,
                                                     unsigned usage);

    void* address() const noexcept { return address_; }
    std::size_t size() const noexcept { return size_; }
    RegionDescriptor descriptor() const noexcept;

    bool contains(std::size_t offset, std::size_t length) const noexcept {
        return is_within(size_, offset, length);
    }
    // Only what it contains.
    ibv_sge piece(std::size_t offset, std::size_t length) const noexcept {
        return {reinterpret_cast<std::uintptr_t>(address_) + offset, static_cast<std::uint32_t>(length),
                region_.local_key()};
    }
    Result<void> advise(std::size_t offset, std::size_t length, int advice, std::uint32_t flags) const;
    Result<void> close() noexcept { return region_.destroy(); }

  private:
    LocalRegion(glue::MemoryRegion region, void* address, std::size_t size, unsigned usage) noexcept
        : region_(std::move(region)), address_(address), size_(size),
          usage_(static_cast<std::uint8_t>(usage)) {}

    glue::MemoryRegion region_;
    void* const address_;
    const std::size_t size_;
    const std::uint8_t usage_;
};

class RemoteRegion {
  public:
    explicit RemoteRegion(const RegionDescriptor& descriptor) noexcept : is_(descriptor) {}

    std::uint64_t size() const noexcept { return is_.length; }
    std::uint32_t key() const noexcept { return is_.key; }
    unsigned usage() const noexcept { return is_.usage; }
    std::uint64_t address(std::size_t offset) const noexcept { return is_.address + offset; }
    bool contains(std::size_t offset, std::size_t length) const noexcept {
        return is_within(is_.length, offset, length);
    }

  private:
    const RegionDescriptor is_;
};

} // namespace sluice::rpma
