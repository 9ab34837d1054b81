// SPDX-License-Identifier: BSD-3-Clause
#include "rpma/queues.hpp"

#include <sys/eventfd.h>

#include <algorithm>
#include <climits>

#include "core/cancellable_call.h"
#include "core/event_descriptor.hpp"
#include "rpma/log.hpp"

namespace sluice::rpma {

namespace {

constexpr std::uint8_t kPort = 1; // the connection manager corrects it where it is another
constexpr std::uint32_t kInlineBytes = 8;

// What a peer may do here, if it finds a region that allows it.
unsigned peer_may(const Peer& peer) noexcept {
    return IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC |
           ((peer.features() & kFlushVisibility) != 0 ? glue::kAccessFlushGlobal : 0U) |
           ((peer.features() & kFlushPersistent) != 0 ? glue::kAccessFlushPersistent : 0U);
}

// Old providers refuse even the question for requests that they don't know, so only what there is is asked
// for.
std::uint64_t native_requests(const Peer& peer) noexcept {
    return ((peer.features() & kAtomicWrite) != 0 ? std::uint64_t{IBV_QP_EX_WITH_ATOMIC_WRITE} : 0U) |
           ((peer.features() & (kFlushVisibility | kFlushPersistent)) != 0 ? glue::kWithFlush : 0U);
}

Answer arm(const glue::CompletionQueue& queue) noexcept {
    const int refused = queue.arm(false);
    return refused == 0 ? Answer::kDone : log_refusal(refused, {});
}

// Without an answer after all retries the peer is gone, and nobody else may notice. A queue pair tells so
// once: what is behind it is flushed.
void look_for_loss(const ibv_wc* completions, int count, int fd) noexcept {
    for (int i = 0; i < count; ++i) {
        if (completions[i].status == IBV_WC_RETRY_EXC_ERR && fd >= 0) [[unlikely]] {
            ring_eventfd(fd);
        }
    }
}

// A receive into LENGTH bytes of TO, or into none. POST gives the device's answer. CREDITS may be null.
template<typename Post>
Answer post_receive(const LocalRegion* to, std::size_t offset, std::size_t length, const void* id,
                    Credits* credits, Post&& post) noexcept {
    ibv_sge piece{};
    if (to != nullptr ? !to->contains(offset, length) : (offset != 0 || length != 0)) {
        return Answer::kInvalid;
    }
    ibv_recv_wr request{};
    request.wr_id = reinterpret_cast<std::uintptr_t>(id);
    if (to != nullptr) {
        piece = to->piece(offset, length);
        request.sg_list = &piece;
        request.num_sge = 1;
    }
    if (credits != nullptr && !credits->take(1)) {
        return Answer::kNoRoom;
    }
    ibv_recv_wr* bad = nullptr;
    const int refused = post(&request, &bad);
    if (refused != 0 && credits != nullptr) {
        credits->give_back(1);
    }
    return refused == 0 ? Answer::kDone : log_refusal(refused, {});
}

} // namespace

Result<std::unique_ptr<Cq>> Cq::make(const glue::Context& context, std::uint32_t entries,
                                     const glue::CompletionChannel* shared, bool has_credits) {
    std::unique_ptr<Cq> cq(new Cq());
    if (shared == nullptr) {
        Result<glue::CompletionChannel> own = glue::CompletionChannel::make_blocking(context);
        if (!own) {
            return std::move(own).error();
        }
        cq->own_channel_ = *std::move(own);
    }
    cq->channel_ = shared != nullptr ? shared : &*cq->own_channel_;
    const auto size = static_cast<int>(std::min<std::uint32_t>(entries, INT_MAX));
    Result<glue::CompletionQueue> queue = glue::CompletionQueue::make(context, size, cq.get(), cq->channel_);
    if (!queue) {
        return std::move(queue).error();
    }
    cq->queue_ = *std::move(queue);
    if (has_credits) {
        cq->credits_ = std::make_unique<Credits>(static_cast<std::uint32_t>(cq->queue_->entries()));
    }
    if (Result<void> armed = glue::from_rc(cq->queue_->arm(false), "asking for notifications"); !armed) {
        return std::move(armed).error();
    }
    return cq;
}

Answer Cq::wait() {
    if (!has_own_channel()) {
        return Answer::kSharedChannel;
    }
    Answer answer = Answer::kDone;
    (void)next_notified(*channel_, this, nullptr, answer);
    return answer;
}

Answer Cq::take_notification() noexcept {
    if (!has_own_channel()) {
        return Answer::kSharedChannel;
    }
    if (!channel_->take_notification()) {
        return Answer::kNoCompletion;
    }
    ++unacknowledged_;
    return Answer::kDone;
}

Answer Cq::acknowledge(unsigned count) noexcept {
    unsigned left = unacknowledged_;
    do {
        if (count == 0 || count > left) {
            return Answer::kInvalid;
        }
    } while (!unacknowledged_.compare_exchange_weak(left, left - count));
    queue_->acknowledge(count);
    return Answer::kDone;
}

Answer Cq::arm_again() noexcept {
    return arm(*queue_);
}

Answer Cq::take(int max, ibv_wc* completions, int* taken) noexcept {
    const int count = queue_->poll(completions, max);
    if (count > 0 && count <= max) {
        look_for_loss(completions, count, loss_fd_);
        if (credits_ != nullptr) {
            credits_->completed({completions, static_cast<std::size_t>(count)});
        }
        if (taken != nullptr) {
            *taken = count;
        }
        return Answer::kDone;
    }
    if (count == 0) {
        return Answer::kNoCompletion;
    }
    const bool is_refused = count < 0;
    log_message(RPMA_LOG_LEVEL_ERROR, {},
                is_refused ? "the completion queue has overflowed, or the device is gone"
                           : "the device gives more completions than it was asked for");
    return is_refused ? Answer::kRefused : Answer::kForeign;
}

void Cq::end_turn(void* cq) noexcept {
    static_cast<Cq*>(cq)->waiting_.unlock();
}

int Cq::wait_for(void* cq) {
    return static_cast<int>(static_cast<Cq*>(cq)->wait());
}

// A notification may be for completions that were taken before it. It wakes one thread, which may leave
// completions that nothing notifies of any more: so threads wait one after the other, and each looks first.
// Nothing here is to be destroyed when a thread is cancelled.
Answer Cq::wait_and_take(int max, ibv_wc* completions, int* taken) {
    Answer answer = take(max, completions, taken);
    if (answer != Answer::kNoCompletion) {
        return answer;
    }
    waiting_.lock();
    answer = take(max, completions, taken);
    while (answer == Answer::kNoCompletion) {
        const auto waited = static_cast<Answer>(sluice_cancellable_call(wait_for, this, end_turn, this));
        if (waited != Answer::kDone) {
            answer = waited;
            break;
        }
        answer = take(max, completions, taken);
    }
    waiting_.unlock();
    return answer;
}

// A queue with notifications that nobody has acknowledged never goes.
Result<void> Cq::close() noexcept {
    if (const unsigned left = unacknowledged_.exchange(0); left != 0) {
        queue_->acknowledge(left);
    }
    Result<void> queue = queue_ ? queue_->destroy() : Result<void>();
    return queue && own_channel_ ? own_channel_->destroy() : std::move(queue);
}

Cq* next_notified(const glue::CompletionChannel& channel, Cq* first, Cq* second, Answer& answer) {
    void* const owner = channel.next_owner().owner;
    if (owner == nullptr) {
        answer = Answer::kNoCompletion;
        return nullptr;
    }
    Cq* const notified = owner == first ? first : owner == second ? second : nullptr;
    answer = notified == nullptr ? Answer::kForeign : arm(notified->queue());
    return answer == Answer::kDone ? notified : nullptr;
}

Result<std::unique_ptr<Srq>> Srq::make(const Peer& peer, const SrqConfig& config) {
    if (config.has_credits && config.rcq_size == 0) {
        return Error(ErrorKind::kInvalidArgument,
                     "receives can be counted only where they complete in a queue of their own");
    }
    std::unique_ptr<Srq> srq(new Srq());
    if (const std::uint32_t entries = config.rcq_size; entries != 0) {
        Result<std::unique_ptr<Cq>> rcq = Cq::make(peer.context(), entries, nullptr, config.has_credits);
        if (!rcq) {
            return std::move(rcq).error();
        }
        srq->rcq_ = *std::move(rcq);
    }
    ibv_srq_init_attr attributes{};
    attributes.attr = {.max_wr = config.rq_size, .max_sge = 1, .srq_limit = 0};
    Result<glue::SharedReceiveQueue> queue = glue::SharedReceiveQueue::make(peer.domain(), attributes);
    if (!queue) {
        return std::move(queue).error();
    }
    srq->queue_ = *std::move(queue);
    return srq;
}

Answer Srq::receive(const LocalRegion* to, std::size_t offset, std::size_t length, const void* id) noexcept {
    Credits* const credits = rcq_ == nullptr ? nullptr : rcq_->credits();
    return post_receive(to, offset, length, id, credits, [this](ibv_recv_wr* request, ibv_recv_wr** bad) {
        return queue_->post_recv(request, bad);
    });
}

Result<void> Srq::close() noexcept {
    Result<void> queue = queue_->destroy();
    return queue && rcq_ != nullptr ? rcq_->close() : std::move(queue);
}

Result<std::unique_ptr<Queues>> Queues::make(const Peer& peer, const ConnConfig& config) {
    const Srq* const srq = config.srq;
    if (config.has_shared_channel && srq != nullptr && srq->rcq() != nullptr) {
        return Error(ErrorKind::kInvalidArgument,
                     "a shared receive queue with a completion queue of its own has a channel of its own");
    }
    if (config.has_credits && srq != nullptr && srq->rcq() == nullptr) {
        return Error(ErrorKind::kInvalidArgument,
                     "which connection a shared receive completes at cannot be known, so that it cannot be "
                     "counted; give the shared receive queue a completion queue of its own");
    }
    std::unique_ptr<Queues> queues(new Queues());
    Result<void> made = queues->make_completion_queues(peer, config, srq);
    if (made) {
        made = queues->make_queue_pair(peer, config, srq);
    }
    if (!made) {
        return std::move(made).error();
    }
    return queues;
}

Result<void> Queues::make_completion_queues(const Peer& peer, const ConnConfig& config, const Srq* srq) {
    if (config.has_shared_channel) {
        Result<glue::CompletionChannel> channel = glue::CompletionChannel::make_blocking(peer.context());
        if (!channel) {
            return std::move(channel).error();
        }
        channel_ = *std::move(channel);
    }
    Result<std::unique_ptr<Cq>> cq =
        Cq::make(peer.context(), config.cq_size, shared_channel(), config.has_credits);
    if (!cq) {
        return std::move(cq).error();
    }
    cq_ = *std::move(cq);
    Result<int> loss = glue::from_minus_one(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "making an eventfd");
    if (!loss) {
        return std::move(loss).error();
    }
    loss_ = Descriptor(*loss);
    cq_->tell_of_loss(loss_.get()); // receives never find out
    const std::uint32_t receives = config.rcq_size;
    if (receives == 0 || (srq != nullptr && srq->rcq() != nullptr)) {
        return {};
    }
    Result<std::unique_ptr<Cq>> rcq =
        Cq::make(peer.context(), receives, shared_channel(), config.has_credits);
    if (!rcq) {
        return std::move(rcq).error();
    }
    rcq_ = *std::move(rcq);
    return {};
}

Result<void> Queues::make_queue_pair(const Peer& peer, const ConnConfig& config, const Srq* srq) {
    const Cq* const of_srq = srq == nullptr ? nullptr : srq->rcq();
    const Cq* const receives = of_srq != nullptr ? of_srq : rcq_ != nullptr ? rcq_.get() : cq_.get();
    ibv_qp_init_attr attributes{};
    attributes.send_cq = cq_->queue().get();
    attributes.recv_cq = receives->queue().get();
    attributes.srq = srq == nullptr ? nullptr : srq->get();
    max_pieces_ = config.max_pieces;
    attributes.cap = {config.sq_size, config.rq_size, max_pieces_, 1, kInlineBytes};
    attributes.qp_type = IBV_QPT_RC;
    const std::uint64_t native = native_requests(peer);
    Result<glue::QueuePair> qp = native == 0
                                     ? glue::QueuePair::make(peer.domain(), attributes)
                                     : glue::QueuePair::make_extended(peer.domain(), attributes, native);
    if (!qp) {
        return std::move(qp).error();
    }
    qp_ = *std::move(qp);
    has_srq_ = srq != nullptr;
    return qp_->to_init(kPort, peer_may(peer)); // receives may be posted before it is connected
}

Answer Queues::receive(const LocalRegion* to, std::size_t offset, std::size_t length,
                       const void* id) noexcept {
    const auto post = [this](ibv_recv_wr* request, ibv_recv_wr** bad) {
        return qp_->post_recv(request, bad);
    };
    return post_receive(to, offset, length, id, receive_credits(), post);
}

Result<void> Queues::close() noexcept {
    Result<void> done = qp_->destroy();
    if (rcq_ != nullptr) {
        done = both(std::move(done), rcq_->close());
    }
    done = both(std::move(done), cq_->close());
    return done && channel_ ? channel_->destroy() : std::move(done);
}

} // namespace sluice::rpma
