// SPDX-License-Identifier: BSD-3-Clause
//
// What everything that has a handle is.
//
// Objects belong to an IA, which lists them; the table of handles knows where they are. Who uses one in a
// call has it pinned. Who refers to one for longer, as an endpoint to its dispatchers, holds it: what
// is held can't be freed, and what is being freed can't be held any more.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "core/handle_table.hpp"

namespace sluice::dapl {

enum Kind : HandleKind { kCr = 1, kEp, kEvd, kIa, kLmr, kPsp, kPz, kRmr, kRsp, kCno, kSrq, kKindsEnd };

// Every handle of this library; for good.
extern constinit HandleTable all_handles;
inline HandleTable& handles() noexcept {
    return all_handles;
}

class Ia;

class Object {
  public:
    // IA: what it belongs to, and goes before; null for an IA itself.
    explicit Object(Ia* ia) noexcept : ia_(ia) {}
    Object(const Object&) = delete;
    Object& operator=(const Object&) = delete;
    virtual ~Object() = default;

    // The IA is being closed under it: ends every wait, and what may still come.
    virtual void abandon() noexcept {}

    void* handle() const noexcept { return handle_; }
    Ia& ia() const noexcept { return *ia_; }

    // From now on nobody can hold it. False: somebody does, and it stays as it was.
    bool close() noexcept {
        std::int32_t none = 0;
        return holders_.compare_exchange_strong(none, kClosed, std::memory_order_acq_rel);
    }
    bool is_held() const noexcept { return holders_.load(std::memory_order_relaxed) > 0; }

    std::atomic<std::uint64_t> consumer_context{0};

  private:
    friend class Ia;
    template<typename T>
    friend class Held;

    static constexpr std::int32_t kClosed = -1;

    bool hold() noexcept {
        std::int32_t holders = holders_.load(std::memory_order_relaxed);
        do {
            if (holders == kClosed) {
                return false;
            }
        } while (!holders_.compare_exchange_weak(holders, holders + 1, std::memory_order_relaxed));
        return true;
    }
    // Release: what the holder did is seen by who closes it then.
    void let_go() noexcept { holders_.fetch_sub(1, std::memory_order_release); }

    Ia* const ia_;
    std::atomic<std::int32_t> holders_{0};
    void* handle_ = nullptr;
    Object* next_ = nullptr; // in its IA's list
    Object* previous_ = nullptr;
};

// Keeps an object from being freed. Empty where it was made of null, or of one that is being freed.
template<typename T>
class Held {
  public:
    Held() = default;
    explicit Held(T* object) noexcept : object_(object != nullptr && object->hold() ? object : nullptr) {}
    Held(Held&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    Held& operator=(Held&& other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held() {
        if (object_ != nullptr) {
            object_->let_go();
        }
    }

    explicit operator bool() const noexcept { return object_ != nullptr; }
    T* operator->() const noexcept { return object_; }
    T& operator*() const noexcept { return *object_; }
    T* get() const noexcept { return object_; }
    void* handle() const noexcept { return object_ != nullptr ? object_->handle() : nullptr; }

  private:
    T* object_ = nullptr;
};

} // namespace sluice::dapl
