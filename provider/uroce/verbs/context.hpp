// SPDX-License-Identifier: BSD-3-Clause
//
// Our part of an open context, and the list of the objects that the program made from it.
//
// When the program closes a context, its remaining objects leave the device, as the kernel ends the
// objects of a descriptor. The handles stay the program's: each call on them fails with EIO, and destroying
// them frees their memory. Until then they belong to a context without a device: the first one that was
// closed with objects left (ADR 62).
#pragma once

#include <infiniband/verbs.h>

#include "core/sync.hpp"
#include "provider/uroce/device/device.hpp"
#include "provider/uroce/verbs/events.hpp"

namespace sluice::uroce::verbs {

// A member of each object; not in the list of the context in the child of a fork.
class Membership {
  public:
    // Takes OBJECT out of what works in DEVICE.
    using Leave = void (*)(void* object, device::Device& device) noexcept;

    Membership() = default;
    ~Membership();
    Membership(const Membership&) = delete;
    Membership& operator=(const Membership&) = delete;

    // CONTEXT is the pointer in the public structure.
    void join(ibv_context*& context, void* object = nullptr, Leave leave = nullptr) noexcept;

  private:
    friend class Memberships;

    ibv_context** context_ = nullptr;
    void* object_ = nullptr;
    Leave leave_ = nullptr;
    Membership* newer_ = nullptr;
    Membership* older_ = nullptr;
};

class Memberships {
  public:
    void add(Membership& one) noexcept;
    void remove(Membership& one) noexcept;
    bool empty() noexcept;
    // Newest first, so that what uses something else goes before it.
    void leave(device::Device& device) noexcept;
    // All of them belong to the context of ALL from now on.
    void move_to(Memberships& all, ibv_context& context) noexcept;

  private:
    SpinLock lock_;
    Membership* newest_ SLUICE_TSA(guarded_by(lock_)) = nullptr;
};

struct Context {
    Context(ibv_context& context, device::Device& its_device, int async_fd)
        : base(context), device(its_device), events(async_fd), gid_watch(events) {}

    // Reports each change of the device's GID table.
    struct GidWatch : device::Device::GidWatcher {
        explicit GidWatch(AsyncEvents& its_events) noexcept : GidWatcher(report), events(its_events) {}
        static void report(GidWatcher& self) noexcept;
        AsyncEvents& events;
    };

    // Nothing works any more; destroying gives back memory.
    bool gone() const noexcept { return closed || device.poisoned(); }
    bool forked() const noexcept { return !closed && device.poisoned(); }

    ibv_context& base;
    device::Device& device; // unless it is closed
    AsyncEvents events;
    GidWatch gid_watch;
    Memberships memberships;
    bool closed = false; // and left for what hasn't been destroyed
};

inline Context& context_of(const ibv_context* context) noexcept {
    return *reinterpret_cast<Context*>(reinterpret_cast<std::uintptr_t>(context) + sizeof(ibv_context));
}

// When the program closes CONTEXT, whose device isn't poisoned. True: it must stay, for what is left.
bool leave_behind(Context& context) noexcept;

} // namespace sluice::uroce::verbs
