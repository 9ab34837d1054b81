// SPDX-License-Identifier: BSD-3-Clause
//
// Handles for C callers: pointers that can be checked without ever reading freed memory.
//
// A handle is the address of a word in a slot. The slots are mapped once and stay mapped until
// the process ends, so that a stale, foreign or random handle is answered with kInvalidHandle
// by looking at memory that is always there. What makes a stale handle stale:
//
//   kind        each slot knows what kind of object it holds; get<T>() asks for T's
//   generation  grows with each reuse; its two low bits choose which of the slot's first four
//               words the handle points to, so a handle of the last reuse has another address
//   quarantine  a freed slot is used again only after kQuarantine other slots were freed
//
// All four words hold the same FRONT pointer: a C registry that finds its dispatch table through
// the first word of whatever a handle points to works with any of them, stale ones included.
//
// Objects are pinned while a call uses them. retire() ends an object's life in the table: from
// then on its handle is invalid, and the caller gets the object back when the last pin is gone.
// Pins are counted in the slot, which costs two atomic exchanges; those of kinds that are used far more
// often than they are made and freed (kIsHot) are noted where only the thread itself writes
// (core/thread_pins.hpp), which costs a store each, and a system call per retire().
//
// Thread safety: everything may be called from any thread. get() and the end of a Pin are
// lock-free; insert() and retire() take a lock, and retire() sleeps until other pins are gone.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/result.hpp"
#include "core/sync.hpp"
#include "core/thread_pins.hpp"

namespace sluice {

// Each class that has handles declares its own number: static constexpr HandleKind kHandleKind.
// Zero is the kind of a free slot.
using HandleKind = std::uint8_t;

// Whether objects of T are used far more often than made: static constexpr bool kIsHot = true.
template<typename T>
concept HotKind = requires {
    requires T::kIsHot;
};

class HandleTable;

namespace handle_detail {

constexpr std::size_t kFrontWords = 4;

struct alignas(64) Slot {
    // Atomic only because a reader with a stale handle may meet a reuse with another front.
    std::atomic<const void*> front[kFrontWords];
    std::atomic<std::uint64_t> state;
    std::atomic<void*> object;
    std::uint32_t next_free;          // index of the slot freed after this one; guarded by the table
    std::atomic<std::uint32_t> ended; // pins that ended while somebody waited for that
    thread_pins::Entry counted;       // stands for an entry where a pin is counted; always null
};
static_assert(sizeof(Slot) == 64);

// A slot's whole condition is one word, so that each step is one atomic operation:
//
//   bits 63..32  generation: which use of the slot this is
//   bits 31..24  kind of the object, 0 while the slot is free
//   bit  23      retiring: no new pins; the retirer waits for the old ones
//   bits 22..0   pins that are counted
constexpr std::uint64_t kOnePin = 1;
constexpr std::uint64_t kPinMask = (1U << 23) - 1;
constexpr std::uint64_t kRetiring = 1U << 23;
constexpr int kKindShift = 24;
constexpr int kGenerationShift = 32;

constexpr HandleKind kMaxKind = 31; // see is_live()

// Whether a handle to the byte WITHIN of the slot is live, and of KIND. A byte that no word begins at makes
// bits that no kind has.
inline bool is_live(std::uint64_t state, HandleKind kind, std::uint64_t within) noexcept {
    constexpr int kWithinShift = kGenerationShift - 3; // to the word's number
    constexpr std::uint64_t kMask =
        kRetiring | std::uint64_t{0xff} << kKindShift | std::uint64_t{kFrontWords - 1} << kGenerationShift;
    static_assert(sizeof(void*) == 8 && kMaxKind < 1 << (kWithinShift - kKindShift));
    return (state & kMask) == (std::uint64_t{kind} << kKindShift | within << kWithinShift);
}

bool count_pin(Slot& slot, HandleKind kind, std::uint64_t within) noexcept;
void end_counted_pin(Slot& slot) noexcept;

// Where the first entry isn't free. Null: the handle isn't live.
thread_pins::Entry* note_pin_elsewhere(Slot& slot, HandleKind kind, std::uint64_t within) noexcept;
// Where somebody waits for it, or pins are counted.
void end_noted_pin(Slot& slot, const thread_pins::Entry& entry) noexcept;

inline void unpin(Slot& slot, thread_pins::Entry& entry) noexcept {
    thread_pins::unpin(entry);
    if ((slot.state.load(std::memory_order_seq_cst) & (kRetiring | kPinMask)) != 0) [[unlikely]] {
        end_noted_pin(slot, entry);
    }
}

// Where the pin is noted; null: the handle isn't live.
inline thread_pins::Entry* note_pin(Slot& slot, HandleKind kind, std::uint64_t within) noexcept {
    thread_pins::Entry& entry = thread_pins::mine->used[0];
    if (entry.load(std::memory_order_relaxed) != nullptr) [[unlikely]] {
        return note_pin_elsewhere(slot, kind, within);
    }
    thread_pins::pin(entry, &slot);
    // At least acquire: the object that insert() published with this state is seen whole.
    if (!is_live(slot.state.load(std::memory_order_seq_cst), kind, within)) [[unlikely]] {
        unpin(slot, entry);
        return nullptr;
    }
    return &entry;
}

} // namespace handle_detail

// Keeps an object in the table while it is used. Move-only; empty after being moved from.
template<typename T>
class [[nodiscard]] Pin {
  public:
    Pin(Pin&& other) noexcept
        : slot_(std::exchange(other.slot_, nullptr)), object_(other.object_), entry_(other.entry_) {}
    Pin& operator=(Pin&& other) noexcept {
        std::swap(slot_, other.slot_);
        std::swap(object_, other.object_);
        std::swap(entry_, other.entry_);
        return *this;
    }
    Pin(const Pin&) = delete;
    Pin& operator=(const Pin&) = delete;
    ~Pin() {
        if (slot_ == nullptr) {
            return;
        }
        if constexpr (HotKind<T>) {
            handle_detail::unpin(*slot_, *entry_);
        } else {
            handle_detail::end_counted_pin(*slot_);
        }
    }

    T* operator->() const noexcept { return object_; }
    T& operator*() const noexcept { return *object_; }
    T* get() const noexcept { return object_; }

  private:
    friend class HandleTable;
    Pin(handle_detail::Slot& slot, thread_pins::Entry& entry) noexcept
        : slot_(&slot), object_(static_cast<T*>(slot.object.load(std::memory_order_relaxed))),
          entry_(&entry) {
        if (slot_ == nullptr) {
            __builtin_unreachable(); // gcc doesn't see it from the reference
        }
    }

    handle_detail::Slot* slot_;
    T* object_;
    thread_pins::Entry* entry_; // the slot's own where it is counted
};

// The addresses that a table's handles can have.
struct HandleRange {
    const void* begin;
    std::size_t size_bytes;
};

class HandleTable {
  public:
    static constexpr std::uint32_t kMaxHandles = 1U << 20;
    static constexpr std::uint32_t kQuarantine = 4096;

    // Costs nothing until the first insert(). The mapping is never given back: handles of a
    // table that is gone must still be answered, so make tables static.
    constexpr explicit HandleTable(std::uint32_t max_handles = kMaxHandles,
                                   std::uint32_t quarantine = kQuarantine) noexcept
        : max_handles_(max_handles), quarantine_(quarantine) {}
    HandleTable(const HandleTable&) = delete;
    HandleTable& operator=(const HandleTable&) = delete;

    // A new handle for OBJECT, which the table does not own. Fails with kInsufficientResources
    // when all slots are in use or memory is short.
    template<typename T>
    Result<void*> insert(T* object, const void* front) {
        return insert(T::kHandleKind, object, front);
    }

    // The object behind HANDLE, pinned, or kInvalidHandle. Any pointer may be passed.
    template<typename T>
    Result<Pin<T>> get(const void* handle) noexcept {
        static_assert(T::kHandleKind <= handle_detail::kMaxKind);
        // Partners: the releases in grow_locked() and reserve_locked(). Where nothing is usable, no handle
        // fits.
        const std::size_t usable_bytes = usable_bytes_.load(std::memory_order_acquire);
        Slot* const slots = slots_.load(std::memory_order_acquire);
        const auto offset =
            reinterpret_cast<std::uintptr_t>(handle) - reinterpret_cast<std::uintptr_t>(slots);
        if (offset < usable_bytes) [[likely]] {
            const std::uint64_t within = offset % sizeof(Slot);
            Slot& slot = slots[offset / sizeof(Slot)];
            thread_pins::Entry* entry = &slot.counted;
            if constexpr (HotKind<T>) {
                entry = handle_detail::note_pin(slot, T::kHandleKind, within);
            } else if (!handle_detail::count_pin(slot, T::kHandleKind, within)) {
                entry = nullptr;
            }
            if (entry != nullptr) [[likely]] {
                return Pin<T>(slot, *entry);
            }
        }
        return Error(ErrorKind::kInvalidHandle, "not a live handle of this kind");
    }

    // Ends the object's life in the table, waits until nobody else has it pinned, and gives it
    // back to be destroyed. Of several callers with the same object one wins; the others get
    // kInvalidHandle. A thread that holds a second pin on the object waits for itself: don't.
    template<typename T>
    Result<T*> retire(Pin<T> pinned) noexcept {
        Slot& slot = *std::exchange(pinned.slot_, nullptr);
        if (!start_retiring(slot, *pinned.entry_)) {
            return Error(ErrorKind::kInvalidHandle, "another thread is freeing this handle");
        }
        if constexpr (HotKind<T>) {
            thread_pins::order_all_threads();
        }
        finish_retiring(slot, pinned.entry_ == &slot.counted, HotKind<T>);
        return pinned.object_;
    }

    // Where all handles of this table are or will be, until the process ends. Reserves the address
    // space, which the first insert() does otherwise; fails with kInsufficientResources.
    Result<HandleRange> reserve();

    // For pthread_atfork(), in this order. In the child no handle of the parent's is live, and new ones can
    // be made; the objects behind the former are nobody's.
    void before_fork() noexcept SLUICE_TSA(no_thread_safety_analysis) { mutex_.lock(); }
    void after_fork_in_parent() noexcept SLUICE_TSA(no_thread_safety_analysis) { mutex_.unlock(); }
    void after_fork_in_child() noexcept SLUICE_TSA(no_thread_safety_analysis);

    // How many handles are live now.
    std::uint32_t live() const noexcept { return live_.load(std::memory_order_relaxed); }

  private:
    using Slot = handle_detail::Slot;

    Result<void*> insert(HandleKind kind, void* object, const void* front);
    static bool start_retiring(Slot& slot, thread_pins::Entry& entry) noexcept;
    void finish_retiring(Slot& slot, bool is_counted, bool is_hot) noexcept;

    Result<Slot*> reserve_locked() SLUICE_TSA(requires_capability(mutex_));
    Result<Slot*> take_slot_locked() SLUICE_TSA(requires_capability(mutex_));
    Result<void> grow_locked() SLUICE_TSA(requires_capability(mutex_));
    std::uint32_t index_of(const Slot& slot) const noexcept;

    static constexpr std::uint32_t kNone = 0xffff'ffff;

    const std::uint32_t max_handles_;
    const std::uint32_t quarantine_;
    std::atomic<std::uint32_t> live_{0};

    // Written once and only grown, under the lock; read by everybody.
    std::atomic<Slot*> slots_{nullptr};
    std::atomic<std::size_t> usable_bytes_{0};

    Mutex mutex_;
    std::uint32_t used_ SLUICE_TSA(guarded_by(mutex_)) = 0; // slots that were ever handed out
    std::uint32_t freed_ SLUICE_TSA(guarded_by(mutex_)) = 0;
    std::uint32_t oldest_free_ SLUICE_TSA(guarded_by(mutex_)) = kNone;
    std::uint32_t newest_free_ SLUICE_TSA(guarded_by(mutex_)) = kNone;
};

} // namespace sluice
