// SPDX-License-Identifier: BSD-3-Clause
//
// Completions on their way to the program. A queue that is too small loses completions and says
// so: that is an error of the program, and the standard ends the queue with an event (IBTA vol 1,
// 10.10).
//
// One thread at a time pushes (under the engine's lock), another one at a time polls, and the two
// need no lock between them: each publishes its own index. arm() may be called from anywhere.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <memory>

#include "roce/engine/types.hpp"

namespace sluice::roce::engine {

class CompletionQueue {
  public:
    enum class Arm : std::uint8_t { kNone, kSolicited, kAny };
    // Reports the completion for which QUEUE was armed; runs where the engine runs, and the queue isn't armed
    // any more.
    using Notify = void (*)(CompletionQueue& queue) noexcept;

    explicit CompletionQueue(std::uint32_t capacity, Notify notify = nullptr)
        : items_(std::make_unique_for_overwrite<Completion[]>(std::bit_ceil(capacity))),
          mask_(std::bit_ceil(capacity) - 1), capacity_(capacity), notify_(notify) {}

    // Asked before each push, where the engine runs; may hold() the queue.
    using BeforePush = void (*)(CompletionQueue& queue) noexcept;
    void ask_before_push(BeforePush ask) noexcept { before_push_ = ask; }
    // What is pushed from now on isn't seen until let_go().
    void hold() noexcept { holding_ = true; }
    void let_go() noexcept {
        holding_ = false;
        for (; held_ != 0; --held_) {
            publish(produced_.load(std::memory_order_relaxed));
        }
    }

    // From now on each completion keeps the time of its push, by CLOCK. Allocates; before the first push.
    void stamp_by(Moment::Clock clock) {
        stamps_ = std::make_unique_for_overwrite<Nanoseconds[]>(std::size_t{mask_} + 1);
        clock_ = clock;
    }
    bool keeps_time() const noexcept { return clock_ != nullptr; }
    // Of what front() shows.
    Nanoseconds front_stamp() const noexcept {
        return stamps_[consumed_.load(std::memory_order_relaxed) & mask_];
    }

    // What doesn't fit is dropped in silence, because the program said that it knows better.
    void ignore_overrun() noexcept { ignores_overrun_ = true; }

    // False from the first completion on that didn't fit.
    bool push(const Completion& completion) noexcept {
        if (before_push_ != nullptr) [[unlikely]] {
            before_push_(*this);
        }
        const std::uint32_t at = produced_.load(std::memory_order_relaxed) + held_;
        if (at - consumed_seen_ >= capacity_ && !has_room(at)) {
            return ignores_overrun_;
        }
        items_[at & mask_] = completion;
        if (clock_ != nullptr) [[unlikely]] {
            stamps_[at & mask_] = clock_();
        }
        if (holding_) [[unlikely]] {
            ++held_;
        } else {
            publish(at);
        }
        return true;
    }

    bool poll(Completion& out) noexcept {
        const Completion* next = front();
        if (next == nullptr) {
            return false;
        }
        out = *next;
        pop();
        return true;
    }
    // The oldest completion, or null; it stays until pop().
    const Completion* front() const noexcept {
        const std::uint32_t at = consumed_.load(std::memory_order_relaxed);
        return at == produced_.load(std::memory_order_acquire) ? nullptr : &items_[at & mask_];
    }
    void pop() noexcept {
        // Partner: acquire in has_room().
        consumed_.store(consumed_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }
    // From any thread, as a hint.
    bool empty() const noexcept {
        return consumed_.load(std::memory_order_relaxed) == produced_.load(std::memory_order_relaxed);
    }
    std::uint32_t size() const noexcept {
        return produced_.load(std::memory_order_acquire) - consumed_.load(std::memory_order_relaxed);
    }
    std::uint32_t capacity() const noexcept { return capacity_; }

    // The next completion (that is solicited or an error, for kSolicited) is reported, once. False: the queue
    // was armed already.
    bool arm(Arm arm) noexcept {
        if (arm == Arm::kAny) {
            return arm_.exchange(arm, std::memory_order_seq_cst) == Arm::kNone;
        }
        Arm expected = Arm::kNone;
        return arm_.compare_exchange_strong(expected, arm, std::memory_order_seq_cst);
    }
    // True: it was armed.
    bool disarm() noexcept { return arm_.exchange(Arm::kNone, std::memory_order_relaxed) != Arm::kNone; }

    // From any thread. A completion was lost: what is there can be taken, and no other comes.
    bool overflowed() const noexcept { return overflowed_.load(std::memory_order_relaxed); }
    // The same, and everything was taken.
    bool has_ended() const noexcept {
        return overflowed_.load(std::memory_order_acquire) && empty(); // partner: release in has_room()
    }

    // Neither pushing nor polling may go on meanwhile. False: more completions wait than would fit.
    // Allocates.
    bool resize(std::uint32_t capacity) {
        let_go();
        const std::uint32_t waiting = size();
        if (waiting > capacity) {
            return false;
        }
        CompletionQueue other(capacity);
        if (clock_ != nullptr) {
            other.stamp_by(clock_);
        }
        for (std::uint32_t i = 0; i < waiting; ++i) {
            if (clock_ != nullptr) {
                other.stamps_[i] = front_stamp();
            }
            poll(other.items_[i]);
        }
        items_ = std::move(other.items_);
        stamps_ = std::move(other.stamps_);
        mask_ = other.mask_;
        capacity_ = capacity;
        consumed_seen_ = waiting - capacity; // looks full: the next push looks again
        consumed_.store(0, std::memory_order_relaxed);
        produced_.store(waiting, std::memory_order_relaxed);
        return true;
    }

    // Neither pushing nor polling may go on meanwhile. What queue pair QPN has completed isn't there any
    // more, but for the oldest KEPT of the queue.
    void forget(std::uint32_t qpn, std::uint32_t kept = 0) noexcept {
        let_go();
        const std::uint32_t end = produced_.load(std::memory_order_relaxed);
        std::uint32_t to = consumed_.load(std::memory_order_relaxed) + std::min(kept, size());
        for (std::uint32_t at = to; at != end; ++at) {
            if (items_[at & mask_].qpn == qpn) {
                continue;
            }
            items_[to & mask_] = items_[at & mask_];
            if (clock_ != nullptr) {
                stamps_[to & mask_] = stamps_[at & mask_];
            }
            ++to;
        }
        produced_.store(to, std::memory_order_release);
    }

  private:
    // The item at AT is there: the program may see it.
    void publish(std::uint32_t at) noexcept {
        if (notify_ == nullptr) {
            produced_.store(at + 1, std::memory_order_release); // partner: acquire in poll()
            return;
        }
        const Completion& completion = items_[at & mask_];
        const bool wanted =
            (completion.flags & kSolicitedEvent) != 0 || completion.status != Status::kSuccess;
        // Partner: arm(), whose caller polls once more afterwards. Of the two, one sees the other.
        produced_.store(at + 1, std::memory_order_seq_cst);
        const Arm armed = arm_.load(std::memory_order_seq_cst);
        if (armed == Arm::kAny || (armed == Arm::kSolicited && wanted)) {
            // Before the event: its reader may arm again at once.
            arm_.store(Arm::kNone, std::memory_order_relaxed);
            notify_(*this);
        }
    }

    bool has_room(std::uint32_t at) noexcept {
        if (overflowed()) {
            return false;
        }
        consumed_seen_ = consumed_.load(std::memory_order_acquire);
        const bool room = at - consumed_seen_ < capacity_;
        if (!room && !ignores_overrun_) {
            let_go();                                           // what is held back comes before the end
            overflowed_.store(true, std::memory_order_release); // partner: acquire in has_ended()
        }
        return room;
    }

    std::unique_ptr<Completion[]> items_;
    std::unique_ptr<Nanoseconds[]> stamps_; // as many, where clock_ is set
    Moment::Clock clock_ = nullptr;
    std::uint32_t mask_;
    std::uint32_t capacity_;
    Notify notify_;
    BeforePush before_push_ = nullptr;
    bool holding_ = false;
    std::uint32_t held_ = 0; // pushed, and not to be seen yet
    bool ignores_overrun_ = false;
    std::atomic<bool> overflowed_{false};
    std::uint32_t consumed_seen_ = 0; // by the producer, so that it seldom has to look
    std::atomic<std::uint32_t> produced_{0};
    std::atomic<Arm> arm_{Arm::kNone};
    alignas(64) std::atomic<std::uint32_t> consumed_{0};
};

} // namespace sluice::roce::engine
