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

namespace sluice {

// Each class that has handles declares its own number: static constexpr HandleKind kHandleKind.
// Zero is the kind of a free slot.
using HandleKind = std::uint8_t;

class HandleTable;

namespace handle_detail {

constexpr std::size_t kFrontWords = 4;

struct alignas(64) Slot {
    // Atomic only because a reader with a stale handle may meet a reuse with another front.
    std::atomic<const void*> front[kFrontWords];
    std::atomic<std::uint64_t> state;
    std::atomic<void*> object;
    std::uint32_t next_free; // index of the slot freed after this one; guarded by the table
};
static_assert(sizeof(Slot) == 64);

void unpin(Slot& slot) noexcept;

} // namespace handle_detail

// Keeps an object in the table while it is used. Move-only; empty after being moved from.
template<typename T>
class [[nodiscard]] Pin {
  public:
    Pin(Pin&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)), object_(other.object_) {}
    Pin& operator=(Pin&& other) noexcept {
        std::swap(slot_, other.slot_);
        std::swap(object_, other.object_);
        return *this;
    }
    Pin(const Pin&) = delete;
    Pin& operator=(const Pin&) = delete;
    ~Pin() {
        if (slot_ != nullptr) {
            handle_detail::unpin(*slot_);
        }
    }

    T* operator->() const noexcept { return object_; }
    T& operator*() const noexcept { return *object_; }
    T* get() const noexcept { return object_; }

  private:
    friend class HandleTable;
    Pin(handle_detail::Slot& slot, T* object) noexcept : slot_(&slot), object_(object) {}

    handle_detail::Slot* slot_;
    T* object_;
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
        handle_detail::Slot* slot = pin(handle, T::kHandleKind);
        if (slot == nullptr) {
            return Error(ErrorKind::kInvalidHandle, "not a live handle of this kind");
        }
        return Pin<T>(*slot, static_cast<T*>(slot->object.load(std::memory_order_relaxed)));
    }

    // Ends the object's life in the table, waits until nobody else has it pinned, and gives it
    // back to be destroyed. Of several callers with the same object one wins; the others get
    // kInvalidHandle. A thread that holds a second pin on the object waits for itself: don't.
    template<typename T>
    Result<T*> retire(Pin<T> pinned) noexcept {
        handle_detail::Slot& slot = *std::exchange(pinned.slot_, nullptr);
        if (!start_retiring(slot)) {
            return Error(ErrorKind::kInvalidHandle, "another thread is freeing this handle");
        }
        finish_retiring(slot);
        return pinned.object_;
    }

    // The same if nobody else has the object pinned at this moment; otherwise kBusy, and PINNED
    // and the handle stay as they were.
    template<typename T>
    Result<T*> try_retire(Pin<T>& pinned) noexcept {
        if (!start_retiring_alone(*pinned.slot_)) {
            return Error(ErrorKind::kBusy, "another thread is using this handle");
        }
        finish_retiring(*std::exchange(pinned.slot_, nullptr));
        return pinned.object_;
    }

    // How many handles are live now.
    std::uint32_t live() const noexcept { return live_.load(std::memory_order_relaxed); }

  private:
    using Slot = handle_detail::Slot;

    Result<void*> insert(HandleKind kind, void* object, const void* front);
    Slot* pin(const void* handle, HandleKind kind) noexcept;
    bool start_retiring(Slot& slot) noexcept;
    bool start_retiring_alone(Slot& slot) noexcept;
    void finish_retiring(Slot& slot) noexcept;

    Result<Slot*> take_slot_locked() SLUICE_TSA(requires_capability(mutex_));
    Result<void> grow_locked() SLUICE_TSA(requires_capability(mutex_));
    std::uint32_t index_of(const Slot& slot) const noexcept;

    static constexpr std::uint32_t kNone = 0xffff'ffff;

    const std::uint32_t max_handles_;
    const std::uint32_t quarantine_;
    std::atomic<std::uint32_t> live_{0};

    // Written once and only grown, under the lock; read by everybody.
    std::atomic<Slot*> slots_{nullptr};
    std::atomic<std::uint32_t> committed_{0};

    Mutex mutex_;
    std::uint32_t used_ SLUICE_TSA(guarded_by(mutex_)) = 0; // slots that were ever handed out
    std::uint32_t freed_ SLUICE_TSA(guarded_by(mutex_)) = 0;
    std::uint32_t oldest_free_ SLUICE_TSA(guarded_by(mutex_)) = kNone;
    std::uint32_t newest_free_ SLUICE_TSA(guarded_by(mutex_)) = kNone;
};

} // namespace sluice
