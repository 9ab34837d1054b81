// SPDX-License-Identifier: BSD-3-Clause
//
// Consumer notification objects: many dispatchers, and the threads that wait for any of them.
//
// Each dispatcher that has triggered is remembered, once, until a waiter is told of it: of two that trigger
// before a waiter runs, none is lost. The agent is called in the loop's thread for every trigger.
//
// Thread safety: everything may be called from any thread, also from an agent.
#pragma once

#include <memory>

#include "core/descriptor.hpp"
#include "core/sync.hpp"
#include "udapl/provider/loop.hpp"
#include "udapl/provider/object.hpp"

namespace sluice::dapl {

// What the program wants called: FUNCTION may be null.
struct Agent {
    void* data = nullptr;
    void (*function)(void* data, void* evd) = nullptr;
};

// What a dispatcher leaves with its CNO, whose lock guards it.
struct Trigger {
    void* evd = nullptr; // its handle
    Trigger* next_hint = nullptr;
    Trigger* next_call = nullptr;
    std::uint32_t calls = 0; // of the agent, that are to come
    bool is_hint = false;    // a waiter will be told
};

enum class CnoAnswer {
    kDone,
    kTimedOut,
    kInterrupted,
    kDead, // the IA is being closed
};

class Cno final : public Object, private Task {
  public:
    static constexpr HandleKind kHandleKind = kCno;

    static Result<std::unique_ptr<Cno>> make(Ia& ia, Agent agent);
    ~Cno() override;
    void abandon() noexcept override;

    Agent agent() noexcept;
    // A call of the former one has returned when this does, unless this is called by it. CNO isn't
    // pinned meanwhile: that call may free it.
    static void set_agent(Pin<Cno> cno, Agent agent);
    bool has_waiter() noexcept;

    // EVD becomes which dispatcher has triggered; null when it is gone since, when nobody triggered, and
    // for everybody who waits when the last dispatcher goes.
    CnoAnswer wait(std::uint32_t timeout_us, void*& evd) noexcept;

    // For dispatchers; a Trigger belongs to one CNO at a time.
    void attach() noexcept;
    void detach(Trigger& trigger) noexcept;
    void trigger(Trigger& trigger, void* evd) noexcept;

  private:
    Cno(Ia& ia, Agent agent, Descriptor wake) noexcept : Object(&ia), wake_(std::move(wake)), agent_(agent) {}

    void run() noexcept override;
    void wake_locked() noexcept SLUICE_TSA(requires_capability(mutex_));
    bool take_locked(std::uint32_t since, void*& evd) noexcept SLUICE_TSA(requires_capability(mutex_));
    void leave_locked(std::uint32_t since) noexcept SLUICE_TSA(requires_capability(mutex_));
    void forget_calls_locked() noexcept SLUICE_TSA(requires_capability(mutex_));

    const Descriptor wake_; // readable while there is something for those who wait

    Mutex mutex_;
    Agent agent_ SLUICE_TSA(guarded_by(mutex_));
    Trigger* first_hint_ SLUICE_TSA(guarded_by(mutex_)) = nullptr;
    Trigger* last_hint_ SLUICE_TSA(guarded_by(mutex_)) = nullptr;
    Trigger* first_call_ SLUICE_TSA(guarded_by(mutex_)) = nullptr;
    Trigger* last_call_ SLUICE_TSA(guarded_by(mutex_)) = nullptr;
    std::uint32_t attached_ SLUICE_TSA(guarded_by(mutex_)) = 0;
    std::uint32_t waiters_ SLUICE_TSA(guarded_by(mutex_)) = 0;
    std::uint32_t releases_ SLUICE_TSA(guarded_by(mutex_)) = 0;   // how often all waiters were let go
    std::uint32_t unreleased_ SLUICE_TSA(guarded_by(mutex_)) = 0; // who still has to see the last of these
    bool has_orphan_ SLUICE_TSA(guarded_by(mutex_)) = false;      // one has triggered and gone
    bool is_dead_ SLUICE_TSA(guarded_by(mutex_)) = false;
};

} // namespace sluice::dapl
