// SPDX-License-Identifier: BSD-3-Clause
#include "core/coherence/region_table.hpp"

#include <cerrno>
#include <utility>

namespace sluice::coherence {

namespace {

constexpr std::size_t kTableBytes = (std::size_t{RegionTable::kMaxRegions} + 1) * sizeof(RegionTable::Slot);

// In slot 0: index 1 in a slot whose index is 0, so that no context ever matches.
constexpr std::uint32_t kNobody = 1;

constexpr std::uint32_t kOneGeneration = 1u << RegionTable::kIndexBits;

constexpr std::uint32_t generation_of(std::uint32_t key) {
    return key & ~RegionTable::kIndexMask;
}

} // namespace

Result<RegionTable> RegionTable::make() {
    void* memory = mmap(nullptr, kTableBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return Error::format(ErrorKind::kInsufficientResources, errno,
                             "reserving %zu bytes of address space for a device's region table failed",
                             kTableBytes);
    }
    // A huge page would cost 2 MiB for the first region. Where the advice is unknown there are
    // no huge pages to avoid.
    (void)madvise(memory, kTableBytes, MADV_NOHUGEPAGE);
    return RegionTable(static_cast<Slot*>(memory));
}

// The kernel's zero pages are free slots of generation 0.
RegionTable::RegionTable(Slot* slots) noexcept : slots_(slots) {
    slots_[0].key.store(kNobody, std::memory_order_relaxed);
}

// Only before the table is shared: make() hands it out this way.
RegionTable::RegionTable(RegionTable&& other) noexcept : slots_(std::exchange(other.slots_, nullptr)) {}

RegionTable::~RegionTable() {
    if (slots_ != nullptr) {
        munmap(slots_, kTableBytes);
    }
}

std::uint32_t RegionTable::take_slot_locked() noexcept {
    const std::uint32_t index = free_head_;
    if (index != 0) {
        free_head_ = slots_[index].user.load(std::memory_order_relaxed);
        return index;
    }
    return next_fresh_ <= kMaxRegions ? next_fresh_++ : 0;
}

// To the end of the list: the longer a slot rests, the later a stale context can meet it.
void RegionTable::give_slot_locked(std::uint32_t index) noexcept {
    slots_[index].user.store(0, std::memory_order_release); // as the members in add()
    if (free_head_ == 0) {
        free_head_ = index;
    } else {
        slots_[free_tail_].user.store(index, std::memory_order_release);
    }
    free_tail_ = index;
}

Result<std::uint32_t> RegionTable::add(const Region& region) noexcept {
    std::uint32_t index = 0;
    {
        const LockGuard guard(lock_);
        index = take_slot_locked();
        live_ += index != 0 ? 1 : 0;
    }
    if (index == 0) {
        return Error(ErrorKind::kInsufficientResources,
                     "65535 regions are registered with this device, which is the most; free some first");
    }
    Slot& slot = slots_[index];
    // Partners of all five: the loads in bounds() and find(). The key is last: it publishes.
    slot.user.store(region.user, std::memory_order_release);
    slot.address.store(region.address, std::memory_order_release);
    slot.length.store(region.length, std::memory_order_release);
    slot.flags.store(region.flags, std::memory_order_release);
    slot.zone.store(region.zone, std::memory_order_release);
    const std::uint32_t context = generation_of(slot.key.load(std::memory_order_relaxed)) | index;
    slot.key.store(context, std::memory_order_release);
    return context;
}

Result<void> RegionTable::remove(std::uint32_t context) noexcept {
    const std::uint32_t index = context & kIndexMask;
    const LockGuard guard(lock_);
    if (index == 0 || slots_[index].key.load(std::memory_order_relaxed) != context) {
        return Error(ErrorKind::kInvalidHandle,
                     "no live region has this context: it was freed, or never made");
    }
    // Ordered before what the slot's next owner stores, because those stores release.
    slots_[index].key.store(generation_of(context) + kOneGeneration, std::memory_order_relaxed);
    give_slot_locked(index);
    --live_;
    return {};
}

std::uint32_t RegionTable::live() const noexcept {
    const LockGuard guard(lock_);
    return live_;
}

} // namespace sluice::coherence
