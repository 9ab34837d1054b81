// SPDX-License-Identifier: BSD-3-Clause
//
// The base of everything that has a handle.
//
// Objects belong to an IA, which lists them; the table of handles knows where they are. A call pins the
// objects that it uses. An object that refers to another for longer, as an endpoint to its dispatchers, has a
// Ref: an object with references can't be freed, and one that is being freed gives none.
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

class IaContext;

class Object {
  public:
    // IA: its owner, which outlives it; null for an IA itself.
    explicit Object(IaContext* ia) noexcept : ia_(ia) {}
    Object(const Object&) = delete;
    Object& operator=(const Object&) = delete;
    virtual ~Object() = default;

    // The IA is being closed: ends every wait, and events that may still come.
    virtual void abandon() noexcept {}

    void* handle() const noexcept { return handle_; }
    IaContext& ia() const noexcept { return *ia_; }

    // From now on there are no references to it. False: there is one, and it stays as it was.
    bool close() noexcept {
        std::int32_t none = 0;
        return holders_.compare_exchange_strong(none, kClosed, std::memory_order_acq_rel);
    }
    bool is_held() const noexcept { return holders_.load(std::memory_order_relaxed) > 0; }

    std::atomic<std::uint64_t> consumer_context{0};

  private:
    friend class IaContext;
    template<typename T>
    friend class Ref;

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
    // Release: the thread that closes it sees what the holder did.
    void let_go() noexcept { holders_.fetch_sub(1, std::memory_order_release); }

    IaContext* const ia_;
    std::atomic<std::int32_t> holders_{0};
    void* handle_ = nullptr;
    Object* next_ = nullptr; // in its IA's list
    Object* previous_ = nullptr;
};

// Keeps an object from being freed. Empty where it was made of null, or of an object that is being freed.
template<typename T>
class Ref {
  public:
    Ref() = default;
    explicit Ref(T* object) noexcept : object_(object != nullptr && object->hold() ? object : nullptr) {}
    Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    Ref& operator=(Ref&& other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    Ref(const Ref&) = delete;
    Ref& operator=(const Ref&) = delete;
    ~Ref() {
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
