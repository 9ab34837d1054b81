// SPDX-License-Identifier: BSD-3-Clause
//
// Consumer notification objects: many dispatchers, and the threads that wait for any of them.
//
// Each dispatcher that has triggered is in a list, once, until a waiter gets it: of two that trigger before a
// waiter runs, none is lost. The agent is called in the loop's thread for every trigger.
//
// Thread safety: everything may be called from any thread, also from an agent.
#pragma once

#include <memory>

#include "core/descriptor.hpp"
#include "core/sync.hpp"
#include "udapl/provider/loop.hpp"
#include "udapl/provider/object.hpp"

namespace sluice::dapl {

// The program's function; may be null.
struct Agent {
    void* data = nullptr;
    void (*function)(void* data, void* evd) = nullptr;
};

// A dispatcher's place in the lists of its CNO, under the CNO's lock.
struct Trigger {
    void* evd = nullptr; // its handle
    Trigger* next_hint = nullptr;
    Trigger* next_call = nullptr;
    std::uint32_t calls = 0; // of the agent, that are to come
    bool is_hint = false;    // a waiter will get it
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

    static Result<std::unique_ptr<Cno>> make(IaContext& ia, Agent agent);
    ~Cno() override;
    void abandon() noexcept override;

    Agent agent() noexcept;
    // A call of the former one has returned when this does, unless this is called by it. CNO isn't
    // pinned meanwhile: that call may free it.
    static void set_agent(Pin<Cno> cno, Agent agent);
    bool has_waiter() noexcept;

    // EVD becomes the dispatcher that has triggered; null when it is gone since, when none has triggered, and
    // for every waiter when the last dispatcher goes. A thread that is cancelled while it sleeps takes none.
    CnoAnswer wait(std::uint32_t timeout_us, void*& evd);

    // For dispatchers; a Trigger belongs to one CNO at a time.
    void attach() noexcept;
    void detach(Trigger& trigger) noexcept;
    void trigger(Trigger& trigger, void* evd) noexcept;

  private:
    Cno(IaContext& ia, Agent agent, Descriptor wake) noexcept
        : Object(&ia), wake_(std::move(wake)), agent_(agent) {}

    void run() noexcept override;
    void wake_locked() noexcept SLUICE_TSA(requires_capability(mutex_));
    bool take_locked(std::uint32_t since, void*& evd) noexcept SLUICE_TSA(requires_capability(mutex_));
    // What a waiter sleeps in; the errno of its end, or -1 when the time is over.
    int sleep(std::uint64_t deadline, std::uint32_t since) SLUICE_TSA(no_thread_safety_analysis);
    void leave_locked(std::uint32_t since) noexcept SLUICE_TSA(requires_capability(mutex_));
    void forget_calls_locked() noexcept SLUICE_TSA(requires_capability(mutex_));

    const Descriptor wake_; // readable while there is something for the waiters

    Mutex mutex_;
    Agent agent_ SLUICE_TSA(guarded_by(mutex_));
    Trigger* first_hint_ SLUICE_TSA(guarded_by(mutex_)) = nullptr;
    Trigger* last_hint_ SLUICE_TSA(guarded_by(mutex_)) = nullptr;
    Trigger* first_call_ SLUICE_TSA(guarded_by(mutex_)) = nullptr;
    Trigger* last_call_ SLUICE_TSA(guarded_by(mutex_)) = nullptr;
    std::uint32_t attached_ SLUICE_TSA(guarded_by(mutex_)) = 0;
    std::uint32_t waiters_ SLUICE_TSA(guarded_by(mutex_)) = 0;
    std::uint32_t releases_ SLUICE_TSA(guarded_by(mutex_)) = 0; // how often all waiters were let go
    std::uint32_t
        unreleased_ SLUICE_TSA(guarded_by(mutex_)) = 0;      // waiters that have to see the last of these
    bool has_orphan_ SLUICE_TSA(guarded_by(mutex_)) = false; // one has triggered and gone
    bool is_dead_ SLUICE_TSA(guarded_by(mutex_)) = false;
};

// A dispatcher's way to its CNO, if it has one. The dispatcher's lock guards it.
class CnoLink {
  public:
    CnoLink() = default;
    CnoLink(const CnoLink&) = delete;
    CnoLink& operator=(const CnoLink&) = delete;

    // Gives the former CNO, which is let go without the lock.
    [[nodiscard]] Ref<Cno> replace(Ref<Cno> cno) noexcept;
    void enable(bool is_enabled) noexcept { is_enabled_ = is_enabled; }

    void* handle() const noexcept { return cno_.handle(); }
    bool is_enabled() const noexcept { return is_enabled_; }
    // Whether events trigger a CNO.
    bool is_active() const noexcept { return cno_ && is_enabled_; }
    // EVD: the dispatcher's handle.
    void trigger(void* evd) noexcept {
        if (is_active()) {
            cno_->trigger(trigger_, evd);
        }
    }

  private:
    Ref<Cno> cno_;
    Trigger trigger_;
    bool is_enabled_ = true;
};

} // namespace sluice::dapl
