// SPDX-License-Identifier: BSD-3-Clause
//
// An opened interface adapter: owns everything that was made from it.
//
// Thread safety: everything may be called from any thread, but for empty() and what says so.
#pragma once

#include <array>
#include <memory>
#include <set>
#include <utility>

#include "core/sync.hpp"
#include "ibverbs-glue/connection.hpp"
#include "udapl/provider/device.hpp"
#include "udapl/provider/evd.hpp"
#include "udapl/provider/loop.hpp"
#include "udapl/provider/object.hpp"

namespace sluice::dapl {

class Ia final : public Object, private Watched {
  public:
    static constexpr HandleKind kHandleKind = kIa;
    static constexpr bool kIsHot = true;

    Ia(std::shared_ptr<Device> device, bool is_ordering_aware) noexcept
        : Object(nullptr), device_(std::move(device)), is_ordering_aware_(is_ordering_aware) {}

    // Gives IA, filled or not, its handle; then it owns itself until it is closed. FRONT: as for adopt().
    static Result<void*> open(std::unique_ptr<Ia>& ia, const void* front);
    // Destroys it and everything in it. False: another thread is at it.
    static bool close(Pin<Ia> ia) noexcept;

    Device& device() const noexcept { return *device_; }
    // Opened by a program that knows which of its regions may be written out of order.
    bool is_ordering_aware() const noexcept { return is_ordering_aware_; }

    // Where asynchronous errors go; null: nowhere.
    Evd* async_evd() noexcept {
        const LockGuard guard(errors_mutex_);
        return async_evd_.get();
    }
    // Once, before anybody else knows the IA. IS_OWN: it was made for that, and goes with the IA.
    void use_for_errors(Held<Evd> evd, bool is_own) noexcept;

    // Gives OBJECT a handle and an owner. FRONT: what its handle begins with. As soon as this returns,
    // another thread may have freed it.
    template<typename T>
    Result<void*> adopt(std::unique_ptr<T> object, const void* front) {
        const LockGuard guard(mutex_); // who frees it at once waits until it is listed
        Result<void*> handle = handles().insert(object.get(), front);
        if (handle) {
            list_locked(*object.release(), T::kHandleKind, *handle);
        }
        return handle;
    }

    // Ends what adopt() began, when no other call uses the object any more. False: another thread is at it.
    template<typename T>
    static bool destroy(Pin<T> object) noexcept {
        const Result<T*> mine = handles().retire(std::move(object));
        if (mine) {
            const std::unique_ptr<T> owned(*mine);
            owned->ia().forget(*owned, T::kHandleKind);
        }
        return mine.ok();
    }

    // An asynchronous error, to who wants to know of these; the log, where nobody can be told.
    void tell(const Event& event) noexcept;
    // EVD had no room for an event.
    void tell_overflow(const Evd& evd) noexcept;

    // The device has lost completions of EVD's: its endpoints can't be trusted any more.
    void end_endpoints_of(const Evd& evd);

    Loop& loop() const noexcept { return device_->loop(); }
    // Held while endpoints join their dispatchers and leave them, so that who can't join again can go back.
    Mutex& joining() noexcept SLUICE_TSA(lock_returned(joining_)) { return joining_; }
    // Held from taking an event of a connection until its endpoint was told: who has this, and has ended
    // a connection, hears no more of it.
    Mutex& telling() noexcept SLUICE_TSA(lock_returned(telling_)) { return telling_; }
    // At TIME the endpoint of that handle is told, unless it wants to forget it. Allocates.
    void wake_at(std::uint64_t time, void* endpoint);
    void forget_time(std::uint64_t time, void* endpoint) noexcept;

    // Once, before anybody else knows the IA: from then on it takes the events of its connections.
    Result<void> start_connections();
    glue::ConnectionService& connections() const noexcept { return *connections_; }

    // Gives a request to another service point, as if it had come there; refuses it where there is none.
    void hand_on(glue::ConnectionEvent& request, std::uint64_t qualifier);

    // Whether nothing lives here but the dispatcher that came with it.
    bool is_idle() noexcept;
    // Destroys everything in it, whoever waits. No call uses the IA itself any more.
    void empty() noexcept;

  private:
    void on_readable() noexcept override;
    void on_time() noexcept override;
    void* take_due(std::uint64_t now) noexcept;
    void take_events();
    void give_request(glue::ConnectionEvent& event, void* point);
    void* find_point(std::uint64_t qualifier) noexcept;
    void list_locked(Object& object, HandleKind kind, void* handle) noexcept
        SLUICE_TSA(requires_capability(mutex_));
    void forget(Object& object, HandleKind kind) noexcept;
    template<typename T>
    void destroy_all() noexcept;

    const std::shared_ptr<Device> device_;
    const bool is_ordering_aware_;
    bool owns_async_evd_ = false;
    std::unique_ptr<glue::ConnectionService> connections_;

    Mutex errors_mutex_;
    Held<Evd> async_evd_ SLUICE_TSA(guarded_by(errors_mutex_));
    Mutex joining_;
    Mutex telling_;
    Mutex times_mutex_;
    std::set<std::pair<std::uint64_t, void*>> times_ SLUICE_TSA(guarded_by(times_mutex_));

    Mutex mutex_;
    ConditionVariable changed_;
    std::array<Object*, kKindsEnd> first_ SLUICE_TSA(guarded_by(mutex_)){};
};

} // namespace sluice::dapl
