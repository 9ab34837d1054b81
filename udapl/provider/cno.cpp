// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/cno.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <optional>

#include "core/event_descriptor.hpp"
#include "udapl/provider/ia_context.hpp"

namespace sluice::dapl {

namespace {

// Takes TRIGGER out of the list that kNext links.
template<auto kNext>
void unlink(Trigger& trigger, Trigger*& first, Trigger*& last) noexcept {
    Trigger* before = nullptr;
    for (Trigger* each = first; each != nullptr; before = each, each = each->*kNext) {
        if (each == &trigger) {
            (before != nullptr ? before->*kNext : first) = trigger.*kNext;
            last = last == &trigger ? before : last;
            return;
        }
    }
}

template<auto kNext>
void append(Trigger& trigger, Trigger*& first, Trigger*& last) noexcept {
    trigger.*kNext = nullptr;
    (last != nullptr ? last->*kNext : first) = &trigger;
    last = &trigger;
}

} // namespace

Result<std::unique_ptr<Cno>> Cno::make(IaContext& ia, Agent agent) {
    Descriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (wake.get() < 0) {
        return Error::from_errno(errno, "making a descriptor to wait on; raise `ulimit -n`");
    }
    return std::unique_ptr<Cno>(new Cno(ia, agent, std::move(wake)));
}

Cno::~Cno() {
    ia().loop().cancel(*this);
}

void Cno::abandon() noexcept {
    const LockGuard guard(mutex_);
    is_dead_ = true;
    ring_eventfd(wake_.get()); // stays readable
}

Agent Cno::agent() noexcept {
    const LockGuard guard(mutex_);
    return agent_;
}

void Cno::set_agent(Pin<Cno> cno, Agent agent) {
    const std::shared_ptr<Loop> loop = cno->ia().loop().shared_from_this();
    const Task* task = nullptr;
    {
        const Pin<Cno> pinned = std::move(cno);
        const LockGuard guard(pinned->mutex_);
        pinned->agent_ = agent;
        if (agent.function == nullptr) {
            pinned->forget_calls_locked();
        }
        task = pinned.get();
    }
    loop->await(task);
}

void Cno::forget_calls_locked() noexcept {
    for (Trigger* each = first_call_; each != nullptr; each = each->next_call) {
        each->calls = 0;
    }
    first_call_ = last_call_ = nullptr;
}

bool Cno::has_waiter() noexcept {
    const LockGuard guard(mutex_);
    return waiters_ != 0;
}

void Cno::attach() noexcept {
    const LockGuard guard(mutex_);
    ++attached_;
}

// A waiter is woken by a dispatcher that has triggered, also where that is gone: a program may wake its
// waiters with one that it makes for that.
void Cno::detach(Trigger& trigger) noexcept {
    const LockGuard guard(mutex_);
    unlink<&Trigger::next_hint>(trigger, first_hint_, last_hint_);
    unlink<&Trigger::next_call>(trigger, first_call_, last_call_);
    has_orphan_ = has_orphan_ || trigger.is_hint;
    trigger = {};
    if (--attached_ == 0 && waiters_ != 0) {
        ++releases_;
        unreleased_ = waiters_;
        has_orphan_ = false;
        wake_locked();
    }
}

void Cno::trigger(Trigger& trigger, void* evd) noexcept {
    const LockGuard guard(mutex_);
    trigger.evd = evd;
    if (!trigger.is_hint) {
        trigger.is_hint = true;
        append<&Trigger::next_hint>(trigger, first_hint_, last_hint_);
        wake_locked();
    }
    if (agent_.function != nullptr) {
        if (trigger.calls++ == 0) {
            append<&Trigger::next_call>(trigger, first_call_, last_call_);
        }
        ia().loop().schedule(*this);
    }
}

// One call; the agent may free everything here.
void Cno::run() noexcept {
    Agent agent;
    void* evd = nullptr;
    {
        const LockGuard guard(mutex_);
        Trigger* const call = first_call_;
        if (call == nullptr) {
            return;
        }
        agent = agent_;
        evd = call->evd;
        if (--call->calls == 0) {
            unlink<&Trigger::next_call>(*call, first_call_, last_call_);
        }
        if (first_call_ != nullptr) {
            ia().loop().schedule(*this);
        }
    }
    agent.function(agent.data, evd);
}

void Cno::wake_locked() noexcept {
    if (waiters_ != 0) {
        ring_eventfd(wake_.get());
    }
}

// SINCE: how often all had been let go when the wait began. False: there is nothing yet.
bool Cno::take_locked(std::uint32_t since, void*& evd) noexcept {
    evd = nullptr;
    if (first_hint_ != nullptr) {
        Trigger& hint = *first_hint_;
        evd = hint.evd;
        hint.is_hint = false;
        unlink<&Trigger::next_hint>(hint, first_hint_, last_hint_);
        return true;
    }
    const bool is_released = has_orphan_ || since != releases_;
    has_orphan_ = false;
    return is_released;
}

void Cno::leave_locked(std::uint32_t since) noexcept {
    --waiters_;
    unreleased_ -= since != releases_ ? 1 : 0;
}

// Without the lock; a thread that is cancelled in there waits no more.
int Cno::sleep(std::uint64_t deadline, std::uint32_t since) {
    pollfd waited{wake_.get(), POLLIN, 0};
    timespec storage{};
    try {
        const int ready = ppoll(&waited, 1, left_until(deadline, storage), nullptr);
        return ready < 0 ? errno : ready == 0 ? -1 : 0;
    } catch (...) {
        const LockGuard guard(mutex_);
        leave_locked(since);
        throw;
    }
}

CnoAnswer Cno::wait(std::uint32_t timeout_us, void*& evd) {
    const std::uint64_t deadline = deadline_ns(timeout_us);
    std::uint32_t since = 0;
    {
        const LockGuard guard(mutex_);
        ++waiters_;
        since = releases_;
    }
    std::optional<CnoAnswer> end;
    bool is_over = false;
    while (true) {
        {
            const LockGuard guard(mutex_);
            if (is_dead_) {
                evd = nullptr;
                end = CnoAnswer::kDead;
            } else if (take_locked(since, evd)) {
                end = CnoAnswer::kDone;
            } else if (is_over && !end) {
                end = CnoAnswer::kTimedOut;
            }
            if (end) {
                leave_locked(since);
            }
            if (!is_dead_ && first_hint_ == nullptr && !has_orphan_ && unreleased_ == 0) {
                (void)quiet_eventfd(wake_.get()); // no other waiter has anything to see
            }
        }
        if (end) {
            return *end;
        }
        const int slept = sleep(deadline, since);
        if (slept == EINTR) {
            end = CnoAnswer::kInterrupted;
        }
        is_over = slept == -1;
    }
}

Ref<Cno> CnoLink::replace(Ref<Cno> cno) noexcept {
    if (cno && cno.get() == cno_.get()) {
        return cno; // what has triggered stays so
    }
    if (cno_) {
        cno_->detach(trigger_);
    }
    Ref<Cno> former = std::exchange(cno_, std::move(cno));
    if (cno_) {
        cno_->attach();
    }
    return former;
}

} // namespace sluice::dapl
