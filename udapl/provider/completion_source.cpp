// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/completion_source.hpp"

#include <utility>

namespace sluice::dapl {

CompletionSource::~CompletionSource() {
    if (queue_) {
        queue_->acknowledge(unacknowledged_); // its destruction waits for that
    }
}

Result<void> CompletionSource::open(const glue::Context& context, std::size_t length, AsyncEventTarget& owner,
                                    DescriptorHandler& handler) {
    Result<glue::CompletionChannel> channel = glue::CompletionChannel::make(context);
    if (!channel) {
        return std::move(channel).error();
    }
    Result<glue::CompletionQueue> queue =
        glue::CompletionQueue::make(context, static_cast<int>(length), &owner, &*channel);
    if (!queue) {
        return std::move(queue).error();
    }
    if (Result<void> added = loop_.add(channel->fd(), handler); !added) {
        return added;
    }
    handler_ = &handler;
    channel_ = *std::move(channel);
    queue_ = *std::move(queue);
    return {};
}

void CompletionSource::close() noexcept {
    if (channel_) {
        loop_.remove(channel_->fd(), *handler_);
    }
}

Result<void> CompletionSource::resize(std::size_t length) const {
    return queue_ ? queue_->resize(static_cast<int>(length)) : Result<void>();
}

bool CompletionSource::arm(bool needs_each, bool is_served) noexcept {
    if (!queue_) {
        return false;
    }
    const bool is_solicited_only = knows_solicited();
    const bool is_notified = is_solicited_only || notice_.failures;
    const Armed wanted = (needs_each && !is_solicited_only) || watchers_ != 0 ? Armed::kForEach
                         : joined_ != nullptr && is_notified                  ? Armed::kForFailures
                                                                              : Armed::kNot;
    if (wanted != Armed::kNot && is_served) {
        serve(true);
    }
    if (armed_ >= wanted) {
        return false;
    }
    // It fails where the device is gone, of which there is an event.
    (void)queue_->arm(wanted == Armed::kForFailures);
    armed_ = wanted;
    return true;
}

void CompletionSource::serve(bool is_served) noexcept {
    if (channel_ && std::exchange(is_served_, is_served) != is_served) {
        loop_.pause(channel_->fd(), *handler_, !is_served);
    }
}

bool CompletionSource::take_notification() noexcept {
    if (!channel_ || !channel_->take_notification()) {
        return false;
    }
    ++unacknowledged_;
    armed_ = Armed::kNot;
    return true;
}

bool CompletionSource::join(DtoRing& ring, NotifyModel model) noexcept {
    if (joined_ != nullptr && model != model_) {
        return false;
    }
    model_ = model;
    ring.next_joined = joined_;
    ring.joined_at = &joined_;
    if (joined_ != nullptr) {
        joined_->joined_at = &ring.next_joined;
    }
    joined_ = &ring;
    return true;
}

void CompletionSource::leave(DtoRing& ring) noexcept {
    if (ring.joined_at == nullptr) {
        return; // it couldn't join
    }
    *ring.joined_at = ring.next_joined;
    if (ring.next_joined != nullptr) {
        ring.next_joined->joined_at = ring.joined_at;
    }
    ring.next_joined = nullptr;
    ring.joined_at = nullptr;
    if (joined_ == nullptr) {
        model_ = NotifyModel::kEach;
    }
}

void CompletionSource::count_watcher(bool was_watcher, bool is_watcher) noexcept {
    watchers_ += (is_watcher ? 1U : 0U) - (was_watcher ? 1U : 0U);
}

} // namespace sluice::dapl
