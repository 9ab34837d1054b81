// SPDX-License-Identifier: BSD-3-Clause
//
// Completion queues: made, resized, armed and destroyed. Polling is in poll.cpp.
#include <memory>

#include "core/facade.hpp"
#include "provider/uroce/verbs/event_socket.hpp"
#include "provider/uroce/verbs/verbs.hpp"

namespace sluice::uroce::verbs {

namespace {

struct CqRequest {
    std::int64_t cqe;
    std::int64_t vector;
    ibv_comp_channel* channel;
    void* cq_context;
    bool single_threaded;
    bool ignores_overrun;
    bool keeps_time;
};

void arm(Cq& cq, engine::CompletionQueue::Arm kind) noexcept {
    if (cq.queue.arm(kind)) {
        cq.owner().device.queue_armed();
    }
}

void disarm(Cq& cq, device::Device& device) noexcept {
    if (cq.queue.disarm()) {
        device.queue_disarmed();
    }
}

void leave_device(void* object, device::Device& device) noexcept {
    Cq& cq = *static_cast<Cq*>(object);
    device.end_queue(cq.queue);
    disarm(cq, device);
}

// Runs in the engine, with the device's lock.
void event_is_due(engine::CompletionQueue& queue) noexcept {
    Cq& cq = static_cast<Cq::Queue&>(queue).cq;
    device::Device& device = cq.owner().device;
    device.queue_disarmed();
    device.wake_later(cq.wakeup);
}

// With the device's lock. libibverbs reads the queue's address from the channel. One that is full has events
// of other queues: this one is armed again, for the next completion.
void send_due_event(device::Device::Wakeup& wakeup) noexcept {
    Cq& cq = static_cast<Cq::Wakeup&>(wakeup).cq;
    const std::uint64_t record = reinterpret_cast<std::uintptr_t>(ibv_cq_ex_to_cq(&cq));
    if (send_event(cq.channel->fd, &record, sizeof record)) {
        ++cq.completions_reported;
    } else {
        arm(cq, engine::CompletionQueue::Arm::kAny);
    }
}

Cq* create(ibv_context* ibcontext, const CqRequest& request) noexcept {
    Context& context = context_of(ibcontext);
    if (context.gone()) {
        return fail_with<Cq>(EIO);
    }
    if (request.cqe < 1 || request.cqe > std::int64_t{kMaxCqe} || request.vector < 0 ||
        request.vector >= ibcontext->num_comp_vectors ||
        (request.channel != nullptr && request.channel->context != ibcontext)) {
        return fail_with<Cq>(EINVAL);
    }
    Result<std::unique_ptr<Cq>> made = at_boundary("ibv_create_cq", [&] {
        Result<std::unique_ptr<Cq>> cq(
            std::make_unique<Cq>(*ibcontext, static_cast<std::uint32_t>(request.cqe),
                                 request.channel != nullptr ? event_is_due : nullptr, send_due_event));
        if (request.keeps_time) {
            (*cq)->queue.stamp_by(device::monotonic_now);
        }
        return cq;
    });
    if (!made) {
        return fail_with<Cq>(made.error().to_errno());
    }
    std::unique_ptr<Cq>& cq = *made;
    context.device.prepare_queue(cq->queue, [](engine::CompletionQueue& queue) noexcept {
        Cq& its_cq = static_cast<Cq::Queue&>(queue).cq;
        its_cq.owner().device.before_completion(queue);
    });
    cq->channel = request.channel;
    cq->cq_context = request.cq_context;
    cq->cqe = static_cast<int>(request.cqe);
    pthread_mutex_init(&cq->mutex, nullptr);
    pthread_cond_init(&cq->cond, nullptr);
    if (request.single_threaded) {
        cq->lock.elide();
    }
    if (request.ignores_overrun) {
        cq->queue.ignore_overrun();
    }
    cq->membership.join(cq->context, cq.get(), leave_device);
    if (cq->channel != nullptr) {
        cq->channel_membership.join(cq->channel->context); // libibverbs looks there, too
    }
    return cq.release();
}

// What the program has to acknowledge. No more will come: no queue pair completes there.
struct EventsRead {
    std::uint32_t completions;
    std::uint32_t events;
};

EventsRead events_read(Cq& cq) noexcept {
    ibv_cq* ibcq = ibv_cq_ex_to_cq(&cq);
    const device::Device::ProgressSession session(cq.owner().device);
    disarm(cq, cq.owner().device);
    const std::uint32_t unread = cq.channel != nullptr ? take_back_events(cq.channel->fd, ibcq) : 0;
    return {.completions = cq.completions_reported - unread,
            .events = cq.events_reported - cq.owner().events.forget(ibcq)};
}

} // namespace

ibv_cq* create_cq(ibv_context* context, int cqe, ibv_comp_channel* channel, int vector) noexcept {
    Cq* cq = create(context, {.cqe = cqe,
                              .vector = vector,
                              .channel = channel,
                              .cq_context = nullptr,
                              .single_threaded = false,
                              .ignores_overrun = false,
                              .keeps_time = false});
    return cq != nullptr ? ibv_cq_ex_to_cq(cq) : nullptr;
}

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr) noexcept {
    constexpr std::uint32_t kKnownMask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    constexpr std::uint32_t kKnownFlags =
        IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
    constexpr std::uint64_t kTimeFlags =
        IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
    const std::uint32_t flags = (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ? attr->flags : 0;
    ibv_pd* domain = (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0 ? attr->parent_domain : nullptr;
    if ((attr->comp_mask & ~kKnownMask) != 0 || (flags & ~kKnownFlags) != 0 ||
        (attr->wc_flags & ~(std::uint64_t{IBV_WC_STANDARD_FLAGS} | kTimeFlags)) != 0) {
        return fail_with<ibv_cq_ex>(EOPNOTSUPP);
    }
    if (domain != nullptr && (domain->context != context || domain_of(domain).parent == nullptr)) {
        return fail_with<ibv_cq_ex>(EINVAL);
    }
    Cq* cq = create(context, {.cqe = attr->cqe,
                              .vector = attr->comp_vector,
                              .channel = attr->channel,
                              .cq_context = attr->cq_context,
                              .single_threaded = (flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0 ||
                                                 provider::is_single_threaded(domain),
                              .ignores_overrun = (flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0,
                              .keeps_time = (attr->wc_flags & kTimeFlags) != 0});
    if (cq != nullptr) {
        set_poll_functions(*cq);
    }
    return cq;
}

// Neither side may touch the queue meanwhile: first the takers' lock, which a program holds between
// start_poll() and end_poll() while it posts, and then the device's.
int resize_cq(ibv_cq* ibcq, int cqe) noexcept {
    Cq& cq = cq_of(ibcq);
    if (cq.owner().gone()) {
        return EIO;
    }
    if (cqe < 1 || static_cast<std::uint32_t>(cqe) > kMaxCqe) {
        return EINVAL;
    }
    const LockGuard guard(cq.lock);
    const device::Device::ProgressSession session(cq.owner().device);
    const int error =
        Errno::answer([&] { return cq.queue.resize(static_cast<std::uint32_t>(cqe)) ? 0 : EINVAL; });
    cq.cqe = error == 0 ? cqe : cq.cqe;
    return error;
}

int destroy_cq(ibv_cq* ibcq) noexcept {
    Cq& cq = cq_of(ibcq);
    if (cq.users.load(std::memory_order_acquire) != 0) {
        return EBUSY;
    }
    if (!cq.owner().gone()) {
        const EventsRead read = events_read(cq);
        provider::await_events(cq.mutex, cq.cond, cq.comp_events_completed, read.completions);
        provider::await_events(cq.mutex, cq.cond, cq.async_events_completed, read.events);
        cq.owner().device.end_queue(cq.queue);
    }
    delete &cq;
    return 0;
}

int req_notify_cq(ibv_cq* ibcq, int solicited_only) noexcept {
    Cq& cq = cq_of(ibcq);
    if (cq.owner().gone()) {
        return EIO;
    }
    arm(cq,
        solicited_only != 0 ? engine::CompletionQueue::Arm::kSolicited : engine::CompletionQueue::Arm::kAny);
    return 0;
}

} // namespace sluice::uroce::verbs
