// SPDX-License-Identifier: BSD-3-Clause
//
// The receives of a shared queue, as completions need them: their records and counts, and the endpoints that
// take from the queue. A buffer is available until a message takes it, which shows when its completion is
// seen, and outstanding until the program has the event: so long it occupies an entry of the queue. The
// completion names a queue pair, and that the endpoint.
//
// Thread safety: everything may be called from any thread; finish() and release() also under a dispatcher's
// lock.
#pragma once

#include <vector>

#include "udapl/provider/dto.hpp"
#include "udapl/provider/loop.hpp"
#include "udapl/provider/object.hpp"

namespace sluice::dapl {

class EventQueue;

// An endpoint that takes from a shared queue through queue pair NUMBER. Its completions come to EVENTS, and
// RING counts them.
struct SrqUser {
    const Object* endpoint;
    std::uint32_t number;
    EventQueue* events;
    DtoRing* ring;
};

class SharedReceives : public Object {
  public:
    static constexpr HandleKind kHandleKind = kSrq;
    static constexpr bool kIsHot = true;

    // In place of one that the endpoint has already.
    void attach(const SrqUser& user);
    // None of its completions comes any more.
    void detach(const Object& endpoint) noexcept;

    // RECORD's buffer was taken through queue pair NUMBER, and the record comes free. Gives what it was, with
    // the endpoint that has it; without a ring if the endpoint is gone.
    Dto finish(Dto& record, std::uint32_t number) noexcept;
    // The program has the event of a buffer, or will never get it.
    void release() noexcept { outstanding_.fetch_sub(1, std::memory_order_relaxed); }

  protected:
    explicit SharedReceives(IaContext& ia) noexcept : Object(&ia) {}

    std::uint32_t available() const noexcept {
        return posted_.load(std::memory_order_relaxed) - taken_.load(std::memory_order_relaxed);
    }
    // A record for a buffer that is about to be posted; null: there is none.
    Dto* begin_post(std::uint64_t cookie) noexcept;
    void cancel_post(Dto& record) noexcept;
    // The dispatcher of user INDEX, with mutex_; false: there is no such user.
    bool find_events_locked(std::size_t index, EventQueue*& events) noexcept
        SLUICE_TSA(requires_capability(mutex_));
    // Fewer buffers than the low watermark are left: reports it once.
    void report_low() noexcept;

    Mutex mutex_; // sizes and users; before the dispatchers'
    DtoPool pool_;
    std::atomic<std::uint32_t> max_receives_{0};
    std::atomic<std::uint32_t> outstanding_{0};
    std::atomic<std::uint32_t> low_watermark_{0};
    std::atomic<bool> is_armed_{false}; // the thread that clears it reports

  private:
    // Reports the low watermark in the loop's thread. An object of its own, since that thread may look which
    // run() a task has while the task's owner is destroyed, class by class.
    class LowReport final : public Task {
      public:
        explicit LowReport(SharedReceives& queue) noexcept : queue_(queue) {}
        ~LowReport();
        LowReport(const LowReport&) = delete;
        LowReport& operator=(const LowReport&) = delete;

        // Once more.
        void schedule() noexcept;

      private:
        void run() noexcept override;

        SharedReceives& queue_;
        std::atomic<std::uint32_t> due_{0}; // reports not made yet
    };

    std::atomic<std::uint32_t> posted_{0};
    std::atomic<std::uint32_t> taken_{0};
    SpinLock users_lock_;
    std::vector<SrqUser> users_ SLUICE_TSA(guarded_by(users_lock_)); // changed with both locks
    LowReport low_report_{*this};
};

} // namespace sluice::dapl
