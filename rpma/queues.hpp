// SPDX-License-Identifier: BSD-3-Clause
//
// Completion queues, shared receive queues, and all the queues of one connection together.
//
// Thread safety: as libibverbs'; everything but the destructors may be called from any thread.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "core/descriptor.hpp"
#include "core/sync.hpp"
#include "ibverbs-glue/queue_pair.hpp"
#include "rpma/codes.hpp"
#include "rpma/config.hpp"
#include "rpma/credits.hpp"
#include "rpma/region.hpp"

namespace sluice::rpma {

class Cq {
  public:
    // With a channel of its own, or with SHARED, which outlives it.
    static Result<std::unique_ptr<Cq>> make(const glue::Context& context, std::uint32_t entries,
                                            const glue::CompletionChannel* shared, bool has_credits);

    bool has_own_channel() const noexcept { return own_channel_.has_value(); }
    // Of its channel, shared or not.
    int fd() const noexcept { return channel_->fd(); }
    const glue::CompletionQueue& queue() const noexcept { return *queue_; }
    // Null where nothing is counted.
    Credits* credits() const noexcept { return credits_.get(); }

    // Only with a channel of its own.
    Answer wait();
    Answer take(int max, ibv_wc* completions, int* taken) noexcept;
    // The same, but waits for the first.
    Answer wait_and_take(int max, ibv_wc* completions, int* taken);
    // The parts of wait(), for programs that acknowledge and arm by themselves. kInvalid: there are not COUNT
    // that were taken.
    Answer take_notification() noexcept;
    Answer acknowledge(unsigned count) noexcept;
    Answer arm_again() noexcept;
    // Writes to FD, an eventfd that outlives it, when a completion is taken that tells that the peer is dead.
    void tell_of_loss(int fd) noexcept { loss_fd_ = fd; }

    Result<void> close() noexcept;

  private:
    Cq() = default;
    // For sluice_cancellable_call().
    static int wait_for(void* cq);
    static void end_turn(void* cq) noexcept SLUICE_TSA(no_thread_safety_analysis);

    std::optional<glue::CompletionChannel> own_channel_;
    const glue::CompletionChannel* channel_ = nullptr;
    std::optional<glue::CompletionQueue> queue_; // before its channel goes
    std::unique_ptr<Credits> credits_;
    std::atomic<unsigned> unacknowledged_{0}; // what take_notification() took
    Mutex waiting_;                           // wait_and_take()'s turn
    int loss_fd_ = -1;
};

// Takes a notification off CHANNEL, and arms the queue that it is of for the next: that queue, which is FIRST
// or SECOND. Null, with the reason in ANSWER, if there is none. SECOND may be null.
Cq* next_notified(const glue::CompletionChannel& channel, Cq* first, Cq* second, Answer& answer);

class Srq {
  public:
    static Result<std::unique_ptr<Srq>> make(const Peer& peer, const SrqConfig& config);

    ibv_srq* get() const noexcept { return queue_->get(); }
    // Null where receives complete in the queues of connections.
    Cq* rcq() const noexcept { return rcq_.get(); }
    Answer receive(const LocalRegion* to, std::size_t offset, std::size_t length, const void* id) noexcept;
    Result<void> close() noexcept;

  private:
    Srq() = default;

    std::unique_ptr<Cq> rcq_;
    std::optional<glue::SharedReceiveQueue> queue_;
};

// A connection's, from the request on.
class Queues {
  public:
    static Result<std::unique_ptr<Queues>> make(const Peer& peer, const ConnConfig& config);

    const glue::QueuePair& qp() const noexcept { return *qp_; }
    Cq& cq() const noexcept { return *cq_; }
    Cq* rcq() const noexcept { return rcq_.get(); }
    bool has_srq() const noexcept { return has_srq_; }
    std::uint32_t max_pieces() const noexcept { return max_pieces_; }
    // Null where each queue has its own.
    const glue::CompletionChannel* shared_channel() const noexcept { return channel_ ? &*channel_ : nullptr; }
    // Readable when a completion has told that the peer is dead.
    int loss_fd() const noexcept { return loss_.get(); }
    Answer receive(const LocalRegion* to, std::size_t offset, std::size_t length, const void* id) noexcept;
    Result<void> close() noexcept;

  private:
    Queues() = default;
    Result<void> make_completion_queues(const Peer& peer, const ConnConfig& config, const Srq* srq);
    Result<void> make_queue_pair(const Peer& peer, const ConnConfig& config, const Srq* srq);
    // Null for receives of a shared queue, which counts them by itself.
    Credits* receive_credits() const noexcept {
        return has_srq_ ? nullptr : rcq_ != nullptr ? rcq_->credits() : cq_->credits();
    }

    // What is named first goes last.
    Descriptor loss_;
    std::optional<glue::CompletionChannel> channel_;
    std::unique_ptr<Cq> cq_;
    std::unique_ptr<Cq> rcq_;
    std::optional<glue::QueuePair> qp_;
    bool has_srq_ = false;
    std::uint32_t max_pieces_ = 1;
};

// One result out of two steps that are both done: the first error.
inline Result<void> both(Result<void> first, Result<void> second) noexcept {
    return first ? std::move(second) : std::move(first);
}

} // namespace sluice::rpma
