// SPDX-License-Identifier: BSD-3-Clause
#include "ibverbs-glue/completion.hpp"

#include <sluice/sluice.h>

#include "core/not_cancelled.hpp"
#include "ibverbs-glue/descriptor.hpp"

namespace sluice::glue {

Result<CompletionChannel> CompletionChannel::make_blocking(const Context& context) {
    Result<ibv_comp_channel*> made =
        from_null(sluice_create_comp_channel(context.get()), "making a completion channel");
    if (!made) {
        return std::move(made).error();
    }
    return CompletionChannel(*made);
}

Result<CompletionChannel> CompletionChannel::make(const Context& context) {
    Result<CompletionChannel> channel = make_blocking(context);
    if (!channel) {
        return channel;
    }
    if (Result<void> done = make_non_blocking(channel->fd()); !done) {
        return std::move(done).error();
    }
    return channel;
}

CompletionChannel::Owner CompletionChannel::next_owner() const {
    ibv_cq* queue = nullptr;
    Owner next;
    if (ibv_get_cq_event(get(), &queue, &next.owner) != 0) {
        return {.os_errno = errno == EAGAIN ? 0 : errno};
    }
    ibv_ack_cq_events(queue, 1);
    return next;
}

bool CompletionChannel::take_notification() const noexcept {
    const NotCancelled guard;
    ibv_cq* queue = nullptr;
    void* owner = nullptr;
    return ibv_get_cq_event(get(), &queue, &owner) == 0;
}

Result<CompletionQueue> CompletionQueue::make(const Context& context, int min_entries, void* owner,
                                              const CompletionChannel* channel, int vector) {
    Result<ibv_cq*> queue = from_null(ibv_create_cq(context.get(), min_entries, owner,
                                                    channel == nullptr ? nullptr : channel->get(), vector),
                                      "making a completion queue");
    if (!queue) {
        return std::move(queue).error();
    }
    return CompletionQueue(*queue);
}

Result<void> CompletionQueue::resize(int min_entries) const {
    return from_rc(ibv_resize_cq(get(), min_entries), "resizing a completion queue");
}

} // namespace sluice::glue
