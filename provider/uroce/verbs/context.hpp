// SPDX-License-Identifier: BSD-3-Clause
//
// What a program has made of a context and hasn't destroyed. When it closes the context, all of that
// leaves the device, as the kernel ends what belongs to a descriptor. The handles stay the program's:
// each call on them fails with EIO, and destroying them gives back their memory. Until then they belong
// to a context of no device, which is the first that was closed so.
#pragma once

#include <infiniband/verbs.h>

#include "core/sync.hpp"

namespace sluice::uroce {

class Device;

namespace face {

struct Context;

// A member of each object; not in the list of the context in the child of a fork.
class Belonging {
  public:
    // Takes OBJECT out of what works in DEVICE.
    using Leave = void (*)(void* object, Device& device) noexcept;

    Belonging() = default;
    ~Belonging();
    Belonging(const Belonging&) = delete;
    Belonging& operator=(const Belonging&) = delete;

    // CONTEXT is the pointer in the public structure.
    void join(ibv_context*& context, void* object = nullptr, Leave leave = nullptr) noexcept;

  private:
    friend class Belongings;

    ibv_context** context_ = nullptr;
    void* object_ = nullptr;
    Leave leave_ = nullptr;
    Belonging* newer_ = nullptr;
    Belonging* older_ = nullptr;
};

class Belongings {
  public:
    void add(Belonging& one) noexcept;
    void remove(Belonging& one) noexcept;
    bool empty() noexcept;
    // Newest first, so that what uses something else goes before it.
    void leave(Device& device) noexcept;
    // All of them belong to the context of ALL from now on.
    void move_to(Belongings& all, ibv_context& context) noexcept;

  private:
    SpinLock lock_;
    Belonging* newest_ SLUICE_TSA(guarded_by(lock_)) = nullptr;
};

// When the program closes CONTEXT, whose device isn't poisoned. True: it must stay, for what is left.
bool leave_behind(Context& context) noexcept;

} // namespace face
} // namespace sluice::uroce
