// SPDX-License-Identifier: BSD-3-Clause
//
// Memory regions and memory windows: which key opens which bytes, and with which rights (IBTA vol 1, 10.6).
//
// A key is 24 bits of index and 8 bits of variant. The index is a slot that is drawn among the free ones and,
// above it, random bits that are drawn with it: no bit of a key can be guessed, and a stale one misses. The
// variant of a window changes with each bind. A region of all memory has an even key.
//
// A window of type 1 is opened and closed by binds alone, for every queue pair of its protection
// domain. One of type 2 (2B here) belongs to the queue pair that bound it, and is closed by an
// invalidation, the peer's or our own; only then may it be bound again.
//
// Not thread safe. Lookups take constant time, allocate nothing and never throw.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/random.hpp"
#include "core/result.hpp"
#include "roce/engine/free_slots.hpp"
#include "roce/engine/neighbourhood.hpp"
#include "roce/engine/types.hpp"

namespace sluice::roce::engine {

enum class WindowType : std::uint8_t { kType1, kType2 };

class RegionTable {
  public:
    // At most CAPACITY regions and windows together, up to 2^20. The keys come from SECRET. What peers may
    // touch is published to NEIGHBOURHOOD, which may be null and outlives the table.
    RegionTable(std::uint32_t capacity, const RandomKey& secret, Neighbourhood* neighbourhood = nullptr);
    RegionTable(const RegionTable&) = delete;
    RegionTable& operator=(const RegionTable&) = delete;
    ~RegionTable();

    // IOVA is the address that local and remote requests name; HOST_ADDR where the bytes are.
    Result<std::uint32_t> add_region(std::uint32_t pd, std::uint64_t host_addr, std::uint64_t iova,
                                     std::uint64_t len_bytes, std::uint32_t access);
    // The region keeps its key. After an error nothing has changed; kBusy while a window is bound to it.
    Result<void> change_region(std::uint32_t key, std::uint32_t pd, std::uint64_t host_addr,
                               std::uint64_t iova, std::uint64_t len_bytes, std::uint32_t access);
    Result<void> remove_region(std::uint32_t key); // kBusy while a window is bound to it
    Result<std::uint32_t> add_window(std::uint32_t pd, WindowType type);
    Result<void> remove_window(std::uint32_t rkey); // any key that it has had
    void remove_domain(std::uint32_t pd) noexcept;  // all regions and windows of PD

    // The host address of bytes that may be touched in the asked way, or none. ACCESS are the
    // Access bits that are all needed. No key is looked at for zero bytes: callers don't ask.
    std::optional<std::uint64_t> local(std::uint32_t lkey, std::uint32_t pd, std::uint64_t addr,
                                       std::uint64_t len_bytes, std::uint32_t access) const noexcept;
    std::optional<std::uint64_t> remote(std::uint32_t rkey, std::uint32_t pd, std::uint32_t qpn,
                                        std::uint64_t addr, std::uint64_t len_bytes,
                                        std::uint32_t access) const noexcept;

    // Whether LKEY names a region of PD that allows ACCESS.
    bool has(std::uint32_t lkey, std::uint32_t pd, std::uint32_t access) const noexcept {
        return region_of(lkey, pd, access) != nullptr;
    }

    // All bytes that the key opens, for a flush of the whole region.
    struct Extent {
        std::uint64_t host_addr;
        std::uint64_t len_bytes;
    };
    std::optional<Extent> whole(std::uint32_t rkey, std::uint32_t pd, std::uint32_t qpn,
                                std::uint32_t access) const noexcept;

    // The bind work request of queue pair QPN; false is a bind error, nothing has changed then.
    bool bind(const MwBind& bind, std::uint32_t pd, std::uint32_t qpn) noexcept;
    // Closes a window of type 2, for a local invalidation or a peer's send with invalidate.
    bool invalidate(std::uint32_t rkey, std::uint32_t pd, std::uint32_t qpn) noexcept;
    // A queue pair is gone: so are the type 2 windows that it had bound.
    void forget_queue_pair(std::uint32_t qpn) noexcept;

  private:
    enum class Kind : std::uint8_t { kFree, kRegion, kWindow1, kWindow2 };
    struct Slot {
        Kind kind = Kind::kFree;
        bool bound = false; // windows
        bool is_published = false;
        std::uint32_t key = 0;
        std::uint32_t pd = 0;
        std::uint32_t qpn = 0;     // of a bound type 2 window
        std::uint32_t parent = 0;  // slot of the region a window is bound to
        std::uint32_t windows = 0; // bound to this region
        std::uint32_t access = 0;
        std::uint64_t iova = 0;
        std::uint64_t host_addr = 0;
        std::uint64_t len_bytes = 0;
    };

    Result<Slot*> take_slot();
    Result<Slot*> unused_region(std::uint32_t key);
    const Slot* find(std::uint32_t key) const noexcept;
    Slot* find(std::uint32_t key) noexcept;
    const Slot* region_of(std::uint32_t lkey, std::uint32_t pd, std::uint32_t access) const noexcept;
    const Slot* usable_remotely(std::uint32_t rkey, std::uint32_t pd, std::uint32_t qpn,
                                std::uint32_t access) const noexcept;
    void unbind(Slot& window) noexcept;
    void release(Slot& slot) noexcept;
    void publish(Slot& slot) noexcept;
    void withdraw(Slot& slot) noexcept;
    std::uint32_t index_of(const Slot& slot) const noexcept {
        return static_cast<std::uint32_t>(&slot - slots_.data());
    }

    std::vector<Slot> slots_;
    std::uint32_t slot_bits_ = 0;
    std::uint32_t bound_type2_ = 0; // windows
    FreeSlots free_;
    RandomStream random_;
    Neighbourhood* const neighbourhood_;
};

} // namespace sluice::roce::engine
