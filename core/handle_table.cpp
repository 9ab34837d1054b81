// SPDX-License-Identifier: BSD-3-Clause
//
// A slot's whole condition is one word, so that each step is one atomic operation:
//
//   bits 63..32  generation: which use of the slot this is
//   bits 31..24  kind of the object, 0 while the slot is free
//   bit  23      retiring: no new pins; the retirer waits for the old ones
//   bits 22..0   pins
//
// The address space for all slots is reserved at the first insert and made usable in steps, so
// that slots never move and a range check tells whether a pointer can be a handle at all.
#include "core/handle_table.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

namespace sluice {

using handle_detail::kFrontWords;
using handle_detail::Slot;

namespace {

constexpr std::uint64_t kOnePin = 1;
constexpr std::uint64_t kPinMask = (1U << 23) - 1;
constexpr std::uint64_t kRetiring = 1U << 23;
constexpr int kKindShift = 24;
constexpr int kGenerationShift = 32;
// 64 KiB: whole pages on every architecture that we know.
constexpr std::uint32_t kSlotsPerStep = 1024;

HandleKind kind_of(std::uint64_t state) noexcept {
    return static_cast<HandleKind>(state >> kKindShift);
}

std::size_t word_of(std::uint64_t state) noexcept {
    return (state >> kGenerationShift) % kFrontWords;
}

std::uint64_t next_generation(std::uint64_t state) noexcept {
    return ((state >> kGenerationShift) + 1) << kGenerationShift;
}

} // namespace

void handle_detail::unpin(Slot& slot) noexcept {
    // Release: what was done with the object is seen by the retirer, whose acquire load is in
    // finish_retiring().
    const std::uint64_t before = slot.state.fetch_sub(kOnePin, std::memory_order_release);
    if ((before & kRetiring) != 0) {
        slot.state.notify_all();
    }
}

std::uint32_t HandleTable::index_of(const Slot& slot) const noexcept {
    return static_cast<std::uint32_t>(&slot - slots_.load(std::memory_order_relaxed));
}

Result<void> HandleTable::grow_locked() {
    Slot* slots = slots_.load(std::memory_order_relaxed);
    if (slots == nullptr) {
        void* reserved = mmap(nullptr, sizeof(Slot) * std::size_t{max_handles_}, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (reserved == MAP_FAILED) {
            return Error::format(ErrorKind::kInsufficientResources, errno,
                                 "no address space for %u handles (see ulimit -v)", max_handles_);
        }
        slots = static_cast<Slot*>(reserved);
        slots_.store(slots, std::memory_order_release); // partner: pin()
    }
    const std::uint32_t committed = committed_.load(std::memory_order_relaxed);
    const std::uint32_t step = std::min(kSlotsPerStep, max_handles_ - committed);
    if (step == 0) {
        return Error::format(ErrorKind::kInsufficientResources, 0, "all %u handles are in use", max_handles_);
    }
    if (mprotect(slots + committed, sizeof(Slot) * step, PROT_READ | PROT_WRITE) != 0) {
        return Error::format(ErrorKind::kInsufficientResources, errno, "no memory for %u more handles", step);
    }
    // Fresh pages are zero, which is a free slot of generation 0. Partner: pin().
    committed_.store(committed + step, std::memory_order_release);
    return {};
}

Result<Slot*> HandleTable::take_slot_locked() {
    if (freed_ <= quarantine_ && used_ < max_handles_) {
        if (used_ == committed_.load(std::memory_order_relaxed)) {
            if (Result<void> grown = grow_locked(); !grown) {
                return std::move(grown).error();
            }
        }
        return slots_.load(std::memory_order_relaxed) + used_++;
    }
    // Every slot has been used: a short quarantine is better than no handle.
    if (oldest_free_ == kNone) {
        return Error::format(ErrorKind::kInsufficientResources, 0, "all %u handles are in use", max_handles_);
    }
    Slot* slot = slots_.load(std::memory_order_relaxed) + oldest_free_;
    oldest_free_ = slot->next_free;
    if (oldest_free_ == kNone) {
        newest_free_ = kNone;
    }
    --freed_;
    return slot;
}

Result<void*> HandleTable::insert(HandleKind kind, void* object, const void* front) {
    Slot* slot = nullptr;
    {
        const LockGuard guard(mutex_);
        Result<Slot*> taken = take_slot_locked();
        if (!taken) {
            return std::move(taken).error();
        }
        slot = *taken;
    }
    for (auto& word : slot->front) {
        word.store(front, std::memory_order_relaxed);
    }
    slot->object.store(object, std::memory_order_relaxed);
    const std::uint64_t state =
        next_generation(slot->state.load(std::memory_order_relaxed)) | (std::uint64_t{kind} << kKindShift);
    slot->state.store(state, std::memory_order_release); // partner: the acquire in pin()
    live_.fetch_add(1, std::memory_order_relaxed);
    return static_cast<void*>(&slot->front[word_of(state)]);
}

Slot* HandleTable::pin(const void* handle, HandleKind kind) noexcept {
    // Partners: the two releases in grow_locked(). A count of 0 comes with no slots at all.
    const std::uint32_t committed = committed_.load(std::memory_order_acquire);
    Slot* slots = slots_.load(std::memory_order_acquire);
    const auto offset = reinterpret_cast<std::uintptr_t>(handle) - reinterpret_cast<std::uintptr_t>(slots);
    const std::uintptr_t index = offset / sizeof(Slot);
    const std::uintptr_t within = offset % sizeof(Slot);
    if (index >= committed || within % sizeof(void*) != 0) {
        return nullptr;
    }
    Slot& slot = slots[index];
    std::uint64_t state = slot.state.load(std::memory_order_relaxed);
    do {
        if (kind_of(state) != kind || (state & kRetiring) != 0 || within != word_of(state) * sizeof(void*) ||
            (state & kPinMask) == kPinMask) {
            return nullptr;
        }
        // Acquire: the object that insert() published with this state is seen whole.
    } while (!slot.state.compare_exchange_weak(state, state + kOnePin, std::memory_order_acquire,
                                               std::memory_order_relaxed));
    return &slot;
}

// The caller's pin becomes the retirer's; if another retirer was first, it is given up.
bool HandleTable::start_retiring(Slot& slot) noexcept {
    const std::uint64_t before = slot.state.fetch_or(kRetiring, std::memory_order_relaxed);
    if ((before & kRetiring) == 0) {
        return true;
    }
    handle_detail::unpin(slot);
    return false;
}

bool HandleTable::start_retiring_alone(Slot& slot) noexcept {
    std::uint64_t state = slot.state.load(std::memory_order_relaxed);
    do {
        if ((state & kPinMask) != kOnePin || (state & kRetiring) != 0) {
            return false;
        }
    } while (!slot.state.compare_exchange_weak(state, state | kRetiring, std::memory_order_relaxed));
    return true;
}

void HandleTable::finish_retiring(Slot& slot) noexcept {
    // Acquire: partner of the release in unpin(); the last user is done with the object.
    std::uint64_t state = slot.state.load(std::memory_order_acquire);
    while ((state & kPinMask) != kOnePin) {
        slot.state.wait(state, std::memory_order_acquire);
        state = slot.state.load(std::memory_order_acquire);
    }
    slot.object.store(nullptr, std::memory_order_relaxed);
    // A late get() on a stale handle may be looking: it sees kind 0 and turns away.
    slot.state.store((state >> kGenerationShift) << kGenerationShift, std::memory_order_release);
    live_.fetch_sub(1, std::memory_order_relaxed);

    const LockGuard guard(mutex_);
    const std::uint32_t index = index_of(slot);
    slot.next_free = kNone;
    if (newest_free_ == kNone) {
        oldest_free_ = index;
    } else {
        slots_.load(std::memory_order_relaxed)[newest_free_].next_free = index;
    }
    newest_free_ = index;
    ++freed_;
}

} // namespace sluice
