// SPDX-License-Identifier: BSD-3-Clause
//
// The live regions of one device, found by their 32-bit context without a lock.
//
// A context is an index (low 16 bits) and a generation (high 16 bits). Each time a slot is freed
// its generation goes up by one, so a context that was freed is refused, and its value comes back
// only after its slot was freed 2^16 times. No context is ever 0: slot 0 stays empty.
//
// Memory: one reserved range of address space for all slots, whose pages the kernel provides
// when a slot is first used. A slot is 32 bytes; slots are used again first-in first-out before
// a new one is touched. Growing is therefore nothing but touching the next slot: no reader is
// stopped, nothing moves, nothing is unmapped before the table goes.
//
// Thread safety: everything may be called from any thread at any time. Readers take no lock and
// write nothing that is shared. add() and remove() of different regions take a spin lock for a few
// instructions. A reader that races with remove() of the region it asks for sees it either alive
// or gone, never a mixture; which of the two is the caller's race.
#pragma once

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/result.hpp"
#include "core/sync.hpp"

namespace sluice::coherence {

// What is known of a region. The table keeps it and gives it back; only ADDRESS and LENGTH mean
// something to it.
struct Region {
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    std::uint32_t flags = 0; // the caller's privileges, and the engine's marks
    std::uint32_t zone = 0;  // the protection zone's number
    std::uint32_t user = 0;  // the caller's: the local key, where there is one
};

class RegionTable {
  public:
    static constexpr std::uint32_t kIndexBits = 16;
    static constexpr std::uint32_t kIndexMask = (1u << kIndexBits) - 1;
    static constexpr std::uint32_t kMaxRegions = kIndexMask; // slot 0 is never used

    // Fails with kInsufficientResources when the address space can't be reserved.
    static Result<RegionTable> make();

    RegionTable(RegionTable&& other) noexcept;
    RegionTable& operator=(RegionTable&&) = delete;
    ~RegionTable();

    // Makes REGION live and gives its context. The range was checked by the caller. Fails with
    // kInsufficientResources when kMaxRegions are live.
    Result<std::uint32_t> add(const Region& region) noexcept;

    // Ends the region: when this returns, find() refuses the context. Fails with kInvalidHandle
    // when it isn't live.
    Result<void> remove(std::uint32_t context) noexcept;

    // Copies the region out and returns true, or returns false when CONTEXT isn't live: then what is in
    // REGION means nothing.
    bool find(std::uint32_t context, Region& region) const noexcept;

    // How many regions are live right now.
    std::uint32_t live() const noexcept;

    // One cache line holds two slots. Every member is atomic because a reader may look while a
    // writer makes the slot somebody else's; the reader finds out by the key.
    struct alignas(32) Slot {
        // Live: the context. Free: its next generation with index 0, which is nobody's context.
        std::atomic<std::uint32_t> key;
        std::atomic<std::uint32_t> user; // free: the next slot in the free list
        std::atomic<std::uint64_t> address;
        std::atomic<std::uint64_t> length;
        std::atomic<std::uint32_t> flags;
        std::atomic<std::uint32_t> zone;
    };

    // What a range check needs.
    struct Bounds {
        std::uint64_t address;
        std::uint64_t length;
        std::uint32_t flags;
    };

    // A reader's hold on the slots, for loops: a value that stays in a register. Valid as long as
    // the table.
    class View {
      public:
        // Copies the bounds out in one look; false when CONTEXT isn't live.
        [[gnu::always_inline]] bool bounds(std::uint32_t context, Bounds& bounds) const noexcept;

      private:
        friend class RegionTable;
        explicit View(const Slot* slots) noexcept : slots_(slots) {}
        const Slot* slots_;
    };
    View view() const noexcept { return View(slots_); }

  private:
    explicit RegionTable(Slot* slots) noexcept;

    std::uint32_t take_slot_locked() noexcept SLUICE_TSA(requires_capability(lock_));
    void give_slot_locked(std::uint32_t index) noexcept SLUICE_TSA(requires_capability(lock_));

    Slot* slots_;

    // Away from slots_, which readers load all the time.
    alignas(64) mutable SpinLock lock_;
    std::uint32_t next_fresh_ SLUICE_TSA(guarded_by(lock_)) = 1;
    std::uint32_t free_head_ SLUICE_TSA(guarded_by(lock_)) = 0; // 0: the list is empty
    std::uint32_t free_tail_ SLUICE_TSA(guarded_by(lock_)) = 0;
    std::uint32_t live_ SLUICE_TSA(guarded_by(lock_)) = 0;
};

static_assert(sizeof(RegionTable::Slot) == 32);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// How a reader gets a whole region without a lock, and why it can't get half of one:
//
// add() stores the members with release after the key of the free slot was stored by remove();
// its last store is the key, with release. The reader loads the key, the members, and the key
// again.
// * The first load of the key acquires add()'s last store: the members are at least as new as the
//   key.
// * If a member was newer, its acquiring load here has synchronised with the releasing store in a
//   later add(), which comes after the remove() that changed the key; so the second load of the
//   key can't give the old value, and the reader refuses.
// The generation makes the key a sequence number of 16 bits.
inline bool RegionTable::View::bounds(std::uint32_t context, Bounds& bounds) const noexcept {
    const Slot& slot = slots_[context & kIndexMask];
    const std::uint32_t before = slot.key.load(std::memory_order_acquire); // partner: publish in add()
    bounds.address = slot.address.load(std::memory_order_acquire);         // partners: the stores of the
    bounds.length = slot.length.load(std::memory_order_acquire);           // members in add()
    bounds.flags = slot.flags.load(std::memory_order_acquire);
    const std::uint32_t after = slot.key.load(std::memory_order_relaxed);
    return ((before ^ context) | (after ^ context)) == 0;
}

// The same for all of its members.
inline bool RegionTable::find(std::uint32_t context, Region& region) const noexcept {
    const Slot& slot = slots_[context & kIndexMask];
    const std::uint32_t before = slot.key.load(std::memory_order_acquire); // partner: publish in add()
    Region seen;
    seen.address = slot.address.load(std::memory_order_acquire); // partners: the stores of the
    seen.length = slot.length.load(std::memory_order_acquire);   // members in add(), and in
    seen.flags = slot.flags.load(std::memory_order_acquire);     // give_slot_locked()
    seen.zone = slot.zone.load(std::memory_order_acquire);
    seen.user = slot.user.load(std::memory_order_acquire);
    const std::uint32_t after = slot.key.load(std::memory_order_relaxed);
    if (((before ^ context) | (after ^ context)) != 0) {
        return false;
    }
    region = seen;
    return true;
}

} // namespace sluice::coherence
