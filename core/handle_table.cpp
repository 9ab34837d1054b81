// SPDX-License-Identifier: BSD-3-Clause
//
// The address space for all slots is reserved at the first insert and made usable in steps, so
// that slots never move and a range check tells whether a pointer can be a handle at all.
#include "core/handle_table.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

namespace sluice {

using handle_detail::kFrontWords;
using handle_detail::kGenerationShift;
using handle_detail::kKindShift;
using handle_detail::kOnePin;
using handle_detail::kPinMask;
using handle_detail::kRetiring;
using handle_detail::Slot;

namespace {

// 64 KiB: whole pages on every architecture that we know.
constexpr std::uint32_t kSlotsPerStep = 1024;

std::size_t word_of(std::uint64_t state) noexcept {
    return (state >> kGenerationShift) % kFrontWords;
}

std::uint64_t next_generation(std::uint64_t state) noexcept {
    return ((state >> kGenerationShift) + 1) << kGenerationShift;
}

} // namespace

namespace {

// The slot stays mapped: there is no harm where nobody waits any more.
void wake_retirer(Slot& slot) noexcept {
    slot.ended.fetch_add(1, std::memory_order_seq_cst); // partner: the acquire in finish_retiring()
    slot.ended.notify_all();
}

} // namespace

// Not inline: what is counted costs more than a call.
bool handle_detail::count_pin(Slot& slot, HandleKind kind, std::uint64_t within) noexcept {
    std::uint64_t state = slot.state.load(std::memory_order_relaxed);
    do {
        if (!is_live(state, kind, within) || (state & kPinMask) == kPinMask) {
            return false;
        }
        // Acquire: the object that insert() published with this state is seen whole.
    } while (!slot.state.compare_exchange_weak(state, state + kOnePin, std::memory_order_acquire,
                                               std::memory_order_relaxed));
    return true;
}

void handle_detail::end_counted_pin(Slot& slot) noexcept {
    // Release: what was done with the object is seen by the retirer, whose acquire load is in
    // finish_retiring().
    const std::uint64_t before = slot.state.fetch_sub(kOnePin, std::memory_order_release);
    if ((before & kRetiring) != 0) {
        wake_retirer(slot);
    }
}

thread_pins::Entry* handle_detail::note_pin_elsewhere(Slot& slot, HandleKind kind,
                                                      std::uint64_t within) noexcept {
    thread_pins::Entry* const entry = thread_pins::find();
    if (entry == nullptr) {
        return count_pin(slot, kind, within) ? &slot.counted : nullptr;
    }
    thread_pins::pin(*entry, &slot);
    if (is_live(slot.state.load(std::memory_order_seq_cst), kind, within)) {
        return entry;
    }
    unpin(slot, *entry);
    return nullptr;
}

void handle_detail::end_noted_pin(Slot& slot, const thread_pins::Entry& entry) noexcept {
    if (&entry == &slot.counted) {
        end_counted_pin(slot);
    } else if ((slot.state.load(std::memory_order_relaxed) & kRetiring) != 0) {
        wake_retirer(slot);
    }
}

std::uint32_t HandleTable::index_of(const Slot& slot) const noexcept {
    return static_cast<std::uint32_t>(&slot - slots_.load(std::memory_order_relaxed));
}

Result<Slot*> HandleTable::reserve_locked() {
    Slot* slots = slots_.load(std::memory_order_relaxed);
    if (slots == nullptr) {
        void* reserved = mmap(nullptr, sizeof(Slot) * std::size_t{max_handles_}, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (reserved == MAP_FAILED) {
            return Error::format(ErrorKind::kInsufficientResources, errno,
                                 "no address space for %u handles (see ulimit -v)", max_handles_);
        }
        slots = static_cast<Slot*>(reserved);
        slots_.store(slots, std::memory_order_release); // partner: get()
    }
    return slots;
}

Result<HandleRange> HandleTable::reserve() {
    const LockGuard guard(mutex_);
    Result<Slot*> slots = reserve_locked();
    if (!slots) {
        return std::move(slots).error();
    }
    return HandleRange{*slots, sizeof(Slot) * std::size_t{max_handles_}};
}

Result<void> HandleTable::grow_locked() {
    Result<Slot*> reserved = reserve_locked();
    if (!reserved) {
        return std::move(reserved).error();
    }
    Slot* slots = *reserved;
    const std::size_t usable_bytes = usable_bytes_.load(std::memory_order_relaxed);
    const auto usable = static_cast<std::uint32_t>(usable_bytes / sizeof(Slot));
    const std::uint32_t step = std::min(kSlotsPerStep, max_handles_ - usable);
    if (step == 0) {
        return Error::format(ErrorKind::kInsufficientResources, 0, "all %u handles are in use", max_handles_);
    }
    if (mprotect(slots + usable, sizeof(Slot) * step, PROT_READ | PROT_WRITE) != 0) {
        return Error::format(ErrorKind::kInsufficientResources, errno, "no memory for %u more handles", step);
    }
    // Fresh pages are zero, which is a free slot of generation 0. Partner: get().
    usable_bytes_.store(usable_bytes + sizeof(Slot) * step, std::memory_order_release);
    return {};
}

Result<Slot*> HandleTable::take_slot_locked() {
    if (freed_ <= quarantine_ && used_ < max_handles_) {
        if (sizeof(Slot) * std::size_t{used_} == usable_bytes_.load(std::memory_order_relaxed)) {
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
    slot->state.store(state, std::memory_order_release); // partner: the looks at it of get()
    live_.fetch_add(1, std::memory_order_relaxed);
    return static_cast<void*>(&slot->front[word_of(state)]);
}

// The caller's pin is given up, unless it is counted and becomes the retirer's.
bool HandleTable::start_retiring(Slot& slot, thread_pins::Entry& entry) noexcept {
    const std::uint64_t before = slot.state.fetch_or(kRetiring, std::memory_order_seq_cst);
    const bool is_first = (before & kRetiring) == 0;
    if (!is_first || &entry != &slot.counted) {
        handle_detail::unpin(slot, entry);
    }
    return is_first;
}

void HandleTable::finish_retiring(Slot& slot, bool is_counted, bool is_hot) noexcept {
    std::uint64_t state = 0;
    while (true) {
        const std::uint32_t ended = slot.ended.load(std::memory_order_acquire); // before looking
        // Acquire: partner of the release in end_counted_pin(); the last user is done with the object.
        state = slot.state.load(std::memory_order_acquire);
        const std::uint64_t others = (state & kPinMask) - (is_counted ? kOnePin : 0);
        if (others == 0 && !(is_hot && thread_pins::is_pinned(&slot))) {
            break;
        }
        slot.ended.wait(ended, std::memory_order_acquire);
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

// There is one thread. A slot that was in use isn't used again: the handle that points there stays dead.
void HandleTable::after_fork_in_child() noexcept {
    Slot* const slots = slots_.load(std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < used_; ++i) {
        const std::uint64_t state = slots[i].state.load(std::memory_order_relaxed);
        const bool is_free = (state >> kGenerationShift) << kGenerationShift == state;
        if (!is_free) {
            slots[i].state.store(next_generation(state), std::memory_order_relaxed);
        }
    }
    live_.store(0, std::memory_order_relaxed);
    mutex_.unlock();
}

} // namespace sluice
