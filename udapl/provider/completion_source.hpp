// SPDX-License-Identifier: BSD-3-Clause
//
// Where a dispatcher's completions come from: a completion queue with its channel, and the endpoints that
// complete there. It decides for which completions the queue is armed: for each while a waiter, the CNO or an
// endpoint needs each, otherwise for those that failed or were solicited, so that an endpoint breaks though
// no thread looks. A source without a queue has no completions. It has no lock of its own: the dispatcher's
// guards it.
#pragma once

#include <algorithm>
#include <optional>

#include "ibverbs-glue/completion.hpp"
#include "udapl/provider/device.hpp"
#include "udapl/provider/dto.hpp"
#include "udapl/provider/loop.hpp"

namespace sluice::dapl {

// Which completions notify; those that failed always do.
enum class NotifyModel : std::uint8_t {
    kEach,
    kUnlessQuiet, // all but those that were posted so
    kSolicited,   // those that the peer wants noticed
};

class CompletionSource {
  public:
    explicit CompletionSource(const Device& device) noexcept
        : loop_(device.loop()), notice_(device.solicited_notice()) {}
    CompletionSource(const CompletionSource&) = delete;
    CompletionSource& operator=(const CompletionSource&) = delete;
    // close() came before, if open() did.
    ~CompletionSource();

    // OWNER gets the queue's asynchronous event, HANDLER serves the channel in the loop's thread.
    Result<void> open(const glue::Context& context, std::size_t length, AsyncEventTarget& owner,
                      DescriptorHandler& handler);
    // HANDLER isn't called any more when this has returned. Without the dispatcher's lock.
    void close() noexcept;

    bool is_open() const noexcept { return queue_.has_value(); }
    const glue::CompletionQueue* queue() const noexcept { return queue_ ? &*queue_ : nullptr; }
    // -1: there is none.
    int fd() const noexcept { return channel_ ? channel_->fd() : -1; }
    std::size_t capacity() const noexcept { return queue_ ? static_cast<std::size_t>(queue_->entries()) : 0; }
    Result<void> resize(std::size_t length) const;

    // The next completion; false: there is none.
    bool poll(ibv_wc& completion) const noexcept { return queue_ && queue_->poll(&completion, 1) == 1; }
    // The next MOST of them, or fewer: then there are no more.
    int poll(ibv_wc* completions, int most) const noexcept {
        return queue_ ? std::max(queue_->poll(completions, most), 0) : 0;
    }

    // For each where NEEDS_EACH, or else for what endpoints need. IS_SERVED: by the loop, and not by a
    // waiter. False: it is armed for as much already.
    bool arm(bool needs_each, bool is_served) noexcept;
    // Takes a notification from the channel, after which the queue isn't armed. False: there is none.
    bool take_notification() noexcept;
    // Whether the loop serves the channel.
    void serve(bool is_served) noexcept;

    // RING completes here. All rings have the same model; false: others have another one.
    bool join(DtoRing& ring, NotifyModel model) noexcept;
    void leave(DtoRing& ring) noexcept;
    // The rings that have joined, linked by next_joined.
    DtoRing* joined() const noexcept { return joined_; }
    NotifyModel model() const noexcept { return model_; }
    // An endpoint needs each completion, or no longer.
    void count_watcher(bool was_watcher, bool is_watcher) noexcept;
    // Whether only solicited receives notify. Where the device doesn't know which these are, every receive
    // does.
    bool knows_solicited() const noexcept { return model_ == NotifyModel::kSolicited && notice_.receives; }
    // Whether the device notifies of failures where the queue isn't armed for each completion.
    bool knows_failures() const noexcept { return notice_.failures; }

  private:
    enum class Armed : std::uint8_t { kNot, kForFailures, kForEach };

    Loop& loop_;
    const glue::SolicitedNotice notice_;
    DescriptorHandler* handler_ = nullptr;
    NotifyModel model_ = NotifyModel::kEach;
    Armed armed_ = Armed::kNot;
    bool is_served_ = true; // the channel, by the loop
    DtoRing* joined_ = nullptr;
    std::uint32_t watchers_ = 0; // endpoints that need each completion
    std::uint32_t unacknowledged_ = 0;
    // The channel is before the queue that uses it.
    std::optional<glue::CompletionChannel> channel_;
    std::optional<glue::CompletionQueue> queue_;
};

} // namespace sluice::dapl
