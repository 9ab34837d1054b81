// SPDX-License-Identifier: BSD-3-Clause
//
// What the objects of an interface adapter share: its device and its connections, the list that owns them,
// and the place where asynchronous errors go. An object knows this much of its adapter; Ia, which derives
// from it, knows the objects.
//
// Thread safety: everything may be called from any thread, but for use_for_errors() and forget_errors().
#pragma once

#include <array>
#include <memory>

#include "core/sync.hpp"
#include "ibverbs-glue/connection.hpp"
#include "udapl/provider/device.hpp"
#include "udapl/provider/event.hpp"
#include "udapl/provider/object.hpp"

namespace sluice::dapl {

class IaContext;

// Takes events; a dispatcher. Adapters report their errors there, also others than its own.
class EventSink : public Object {
  public:
    // False: it is full.
    virtual bool take(const Event& event) noexcept = 0;

  protected:
    explicit EventSink(IaContext& ia) noexcept : Object(&ia) {}
    // It is about to end: these adapters have no place for their errors any more.
    void dismiss_users() noexcept;

  private:
    friend class IaContext;

    // In a child by fork(): whatever the mutex guarded is the parent's.
    [[gnu::constructor]] static void renew_users_mutex_in_children() noexcept;

    static constinit Mutex users_mutex; // who reports where, in this process; held during a report
    IaContext* first_user_ SLUICE_TSA(guarded_by(users_mutex)) = nullptr;
};

// What the program that opens an adapter expects of it.
struct IaOptions {
    bool is_ordering_aware = false;       // it knows which of its regions may be written out of order
    bool announces_last_receives = false; // by an event, when an endpoint is done with its shared queue
};

class IaContext : public Object {
  public:
    ~IaContext() override { forget_errors(); }

    Device& device() const noexcept { return *device_; }
    Loop& loop() const noexcept { return device_->loop(); }
    const IaOptions& options() const noexcept { return options_; }
    glue::ConnectionService& connections() const noexcept { return *connections_; }

    // Gives OBJECT a handle and an owner. FRONT: the first word of what its handle points to. As soon as this
    // returns, another thread may have freed it.
    template<typename T>
    Result<void*> adopt(std::unique_ptr<T> object, const void* front) {
        const LockGuard guard(mutex_); // a thread that frees it at once waits until it is listed
        Result<void*> handle = handles().insert(object.get(), front);
        if (handle) {
            list_locked(*object.release(), T::kHandleKind, *handle);
        }
        return handle;
    }

    // Ends what adopt() began, when no other call uses the object any more. False: another thread does so.
    template<typename T>
    static bool destroy(Pin<T> object) noexcept {
        const Result<T*> mine = handles().retire(std::move(object));
        if (mine) {
            const std::unique_ptr<T> owned(*mine);
            owned->ia().forget(*owned, T::kHandleKind);
        }
        return mine.ok();
    }

    // The dispatcher for asynchronous errors, once, before another thread knows the IA. SINK is EVD's.
    // IS_OWN: it was made for that, and is destroyed with the IA.
    void use_for_errors(Ref<Object> evd, EventSink& sink, bool is_own) noexcept;
    // Errors go to the log from now on.
    void forget_errors() noexcept;
    // That dispatcher's handle; null: there is none, or it went with another IA.
    void* async_evd() noexcept;
    // Reports an asynchronous error there, or in the log.
    void report(const Event& event) noexcept;
    // EVD had no room for an event.
    void report_overflow(const Object& evd) noexcept;

    // Held while endpoints join their dispatchers and leave them, so that an endpoint that can't join others
    // can go back.
    Mutex& joining() noexcept SLUICE_TSA(lock_returned(joining_)) { return joining_; }
    // Held while an event of a connection is taken and delivered. A thread that disconnects while it holds
    // this lock sees no later event of that connection.
    Mutex& delivering() noexcept SLUICE_TSA(lock_returned(delivering_)) { return delivering_; }

    // Whether nothing lives here but the dispatcher that came with it.
    bool is_idle() noexcept;

  protected:
    IaContext(std::shared_ptr<Device> device, const IaOptions& options) noexcept
        : Object(nullptr), device_(std::move(device)), options_(options) {}

  private:
    const std::shared_ptr<Device> device_; // the last to go

  protected:
    // The newest object of KIND, or null; and the one that is older than that.
    Object* first_locked(HandleKind kind) const noexcept SLUICE_TSA(requires_capability(mutex_)) {
        return first_[kind];
    }
    static Object* next_of(const Object& object) noexcept { return object.next_; }
    static void set_handle(Object& object, void* handle) noexcept { object.handle_ = handle; }

    std::unique_ptr<glue::ConnectionService> connections_;
    Mutex mutex_;
    ConditionVariable changed_; // the list

  private:
    friend class EventSink;

    void forget_sink_locked() noexcept SLUICE_TSA(requires_capability(EventSink::users_mutex));

    const IaOptions options_;
    void list_locked(Object& object, HandleKind kind, void* handle) noexcept
        SLUICE_TSA(requires_capability(mutex_));
    void forget(Object& object, HandleKind kind) noexcept;

    bool owns_async_evd_ SLUICE_TSA(guarded_by(EventSink::users_mutex)) = false;
    Ref<Object> async_evd_ SLUICE_TSA(guarded_by(EventSink::users_mutex));
    EventSink* async_sink_ SLUICE_TSA(guarded_by(EventSink::users_mutex)) = nullptr;
    IaContext* next_user_ SLUICE_TSA(guarded_by(EventSink::users_mutex)) = nullptr; // of that sink
    Mutex joining_;
    Mutex delivering_;
    std::array<Object*, kKindsEnd> first_ SLUICE_TSA(guarded_by(mutex_)){};
};

} // namespace sluice::dapl
