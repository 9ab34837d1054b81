// SPDX-License-Identifier: BSD-3-Clause
//
// Completion queues, and channels that tell when one has something.
#pragma once

#include "ibverbs-glue/context.hpp"

namespace sluice::glue {

class CompletionChannel : public Owned<ibv_comp_channel, ibv_destroy_comp_channel> {
  public:
    // Its descriptor doesn't block.
    static Result<CompletionChannel> make(const Context& context);
    // Its descriptor blocks, until somebody says otherwise by fcntl().
    static Result<CompletionChannel> make_blocking(const Context& context);

    // Readable when a notification waits.
    int fd() const noexcept { return get()->fd; }

    // Of a queue that has notified, as given to CompletionQueue::make(). The notification is acknowledged;
    // its receiver arms the queue again and then polls it. The thread may be cancelled while it sleeps, and
    // nothing here has to be destroyed then.
    struct Owner {
        void* owner = nullptr; // null when none has and the descriptor doesn't block, and after an error
        int os_errno = 0;
    };
    Owner next_owner() const;
    // The same for the channel of one queue, which acknowledges it. False: there is none.
    bool take_notification() const noexcept;

  private:
    using Owned::Owned;
};

class CompletionQueue : public Owned<ibv_cq, ibv_destroy_cq> {
  public:
    // CHANNEL may be null, and outlives the queue otherwise.
    static Result<CompletionQueue> make(const Context& context, int min_entries, void* owner,
                                        const CompletionChannel* channel, int vector = 0);

    // COUNT notifications that CompletionChannel::take_notification() took. All must be, before it goes.
    void acknowledge(unsigned count) const noexcept { ibv_ack_cq_events(get(), count); }

    int entries() const noexcept { return get()->cqe; }
    Result<void> resize(int min_entries) const;

    // The data path. How many completions were taken; 0 when the queue is empty, negative when the queue
    // has overflowed or the device is gone.
    int poll(ibv_wc* completions, int max) const noexcept { return ibv_poll_cq(get(), max, completions); }
    // The next completion, or the next that was solicited, notifies. 0 or an errno.
    int arm(bool solicited_only) const noexcept { return ibv_req_notify_cq(get(), solicited_only ? 1 : 0); }

  private:
    using Owned::Owned;
};

} // namespace sluice::glue
