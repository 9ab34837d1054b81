// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/ep_queues.hpp"

#include <algorithm>

#include "core/log.hpp"
#include "udapl/provider/ia_context.hpp"

namespace sluice::dapl {

namespace {

constexpr std::uint8_t kPort = 1;

// What a peer may do, if a region lets it.
unsigned peer_may(const ibv_device_attr& limits) noexcept {
    constexpr unsigned kReadAndWrite = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    return limits.atomic_cap != IBV_ATOMIC_NONE ? kReadAndWrite | IBV_ACCESS_REMOTE_ATOMIC : kReadAndWrite;
}

// Where completions come to: EVD, or else UNUSED, which the program doesn't know.
EventQueue& queue_of(const Ref<Evd>& evd, const std::unique_ptr<Evd>& unused) noexcept {
    return evd ? evd->queue() : unused->queue();
}

// Completions of receives that the program doesn't want: of a shared queue, as its own isn't posted to then.
bool has_unwanted(const EpSetup& setup) noexcept {
    return setup.srq && !setup.evds.receive;
}

int unused_length(const IaContext& ia, const EpSetup& setup) noexcept {
    return has_unwanted(setup)
               ? std::min(static_cast<int>(setup.srq->counts().max_receives), ia.device().limits().max_cqe)
               : 1;
}

// A queue pair needs completion queues also where the program has none.
Result<void> fill_gaps(IaContext& ia, EpSetup& setup) {
    if (setup.unused != nullptr || (setup.evds.receive && setup.evds.request)) {
        return {};
    }
    Result<std::unique_ptr<Evd>> made = Evd::make(ia, unused_length(ia, setup), kDtoStream);
    if (!made) {
        return std::move(made).error();
    }
    setup.unused = *std::move(made);
    if (has_unwanted(setup)) {
        setup.unused->queue().discard();
    }
    return {};
}

EpAnswer failed(const Error& error) noexcept {
    SLUICE_LOG(kInfo, "dat", "the queues of an endpoint: %s (%d)", error.text(), error.os_errno());
    return EpAnswer::kNoResources;
}

// Segments of each request that are kept until it is complete, where the device doesn't see the CPU's caches.
std::uint32_t kept_segments(const IaContext& ia, std::uint32_t segments) noexcept {
    return ia.device().memory().sync_required() ? segments : 0;
}

DtoStore make_requests(const IaContext& ia, const EpSetup& setup) {
    return {setup.options.max_requests, kept_segments(ia, setup.options.max_read_segments)};
}

DtoStore make_receives(const IaContext& ia, const EpSetup& setup) {
    return {setup.srq ? 0 : setup.options.max_receives,
            kept_segments(ia, setup.options.max_receive_segments)};
}

} // namespace

EpQueues::EpQueues(const Object& owner, AsyncEventTarget& target, Task& reports,
                   const std::atomic<EpState>& state, EpSetup setup)
    : owner_(owner), target_(target), memory_(owner.ia().device().memory()),
      check_(owner.ia().device().simulated() != nullptr ? SyncCheck::wanted() : nullptr), state_(state),
      setup_(std::move(setup)), requests_(make_requests(owner.ia(), setup_), reports),
      receives_(make_receives(owner.ia(), setup_), reports) {}

Result<void> EpQueues::open() {
    if (Result<void> filled = fill_gaps(owner_.ia(), setup_); !filled) {
        return filled;
    }
    {
        const LockGuard guard(owner_.ia().joining());
        if (!join(setup_)) {
            return Error(ErrorKind::kInvalidArgument, "other endpoints use the dispatcher in another way");
        }
    }
    Result<glue::QueuePair> qp = make_queue_pair(setup_);
    if (!qp) {
        return std::move(qp).error();
    }
    qp_ = *std::move(qp);
    attach();
    return {};
}

void EpQueues::close() noexcept {
    if (check_ != nullptr) {
        check_->forget_queue_pair(this);
    }
    if (qp_) {
        take_back_shared(*qp_);
    }
    qp_.reset();
    (void)count_receives({});
    forget_posted();
    if (setup_.srq) {
        setup_.srq->detach(owner_);
    }
    const LockGuard guard(owner_.ia().joining());
    leave(setup_);
}

Result<glue::QueuePair> EpQueues::make_queue_pair(const EpSetup& setup) const {
    ibv_qp_init_attr attributes{};
    attributes.qp_context = &target_;
    attributes.send_cq = queue_of(setup.evds.request, setup.unused).completion_queue();
    attributes.recv_cq = queue_of(setup.evds.receive, setup.unused).completion_queue();
    const EpOptions& options = setup.options;
    // Devices have at least one.
    attributes.cap = {options.max_requests + kOwnRequests, std::max(options.max_receives, 1U),
                      std::max(options.max_request_segments, 1U), std::max(options.max_receive_segments, 1U),
                      0};
    attributes.qp_type = IBV_QPT_RC;
    if (setup.srq) {
        attributes.srq = setup.srq->queue().get();
        attributes.cap.max_recv_wr = attributes.cap.max_recv_sge = 0;
    }
    Result<glue::QueuePair> qp = glue::QueuePair::make(setup.pz->domain(), attributes);
    if (!qp) {
        return std::move(qp).error();
    }
    // Receives may be posted before it is connected.
    if (Result<void> ready = qp->to_init(kPort, peer_may(owner_.ia().device().limits())); !ready) {
        return std::move(ready).error();
    }
    return qp;
}

void EpQueues::attach() {
    if (check_ != nullptr) {
        const Device& device = owner_.ia().device();
        check_->set_queue_pair(this, *device.simulated(), {device.address(), qp_->number()});
    }
    if (setup_.srq) {
        setup_.srq->attach({&owner_, qp_->number(), receive_queue(), &receives_});
    }
}

EventQueue* EpQueues::receive_queue() const noexcept {
    if (setup_.evds.receive) {
        return &setup_.evds.receive->queue();
    }
    return has_unwanted(setup_) && setup_.unused != nullptr ? &setup_.unused->queue() : nullptr;
}

bool EpQueues::join(const EpSetup& setup) noexcept {
    const auto joins = [](const Ref<Evd>& evd, DtoRing& ring, NotifyModel model) {
        return !evd || evd->queue().join(ring, model, evd->streams());
    };
    if (!joins(setup.evds.receive, receives_, setup.options.receive_model)) {
        return false;
    }
    if (!joins(setup.evds.request, requests_, setup.options.request_model)) {
        if (setup.evds.receive) {
            setup.evds.receive->queue().leave(receives_);
        }
        return false;
    }
    return true;
}

void EpQueues::leave(const EpSetup& setup) noexcept {
    if (setup.evds.receive) {
        setup.evds.receive->queue().leave(receives_);
    }
    if (setup.evds.request) {
        setup.evds.request->queue().leave(requests_);
    }
}

void EpQueues::forget_posted() noexcept {
    if (setup_.evds.request) {
        setup_.evds.request->queue().forget(owner_.handle(), requests_);
    }
    if (EventQueue* const receives = receive_queue()) {
        receives->forget(owner_.handle(), receives_);
    }
    requests_.clear();
    receives_.clear();
}

// Buffers of a shared queue come back by their completions, which adapters take away with a queue pair that
// is reset or destroyed.
void EpQueues::take_back_shared(const glue::QueuePair& qp) noexcept {
    EventQueue* const receives = setup_.srq ? receive_queue() : nullptr;
    if (receives != nullptr) {
        (void)qp.to_error(); // its messages take no more of them; fails where the device is gone
        receives->forget(owner_.handle(), receives_);
    }
}

void EpQueues::collect() noexcept {
    for (const Ref<Evd>* evd : {&setup_.evds.request, &setup_.evds.receive}) {
        if (*evd) {
            (*evd)->queue().collect();
        }
    }
}

ReceiveUse EpQueues::receive_use() noexcept {
    collect();
    const std::uint32_t held = setup_.evds.receive ? setup_.evds.receive->queue().held(receives_) : 0;
    const std::uint32_t allocated = receives_.posted() + held;
    return {allocated, allocated}; // they complete in the order in which they were posted
}

Watermarks EpQueues::count_receives(const Watermarks& watermarks) noexcept {
    return setup_.evds.receive ? setup_.evds.receive->queue().set_watermarks(receives_, watermarks)
                               : std::exchange(receives_.watermarks, watermarks);
}

void EpQueues::set_watermarks(const Watermarks& watermarks) noexcept {
    watermarks_ = watermarks;
    setup_.options.soft_watermark = watermarks.soft;
    if (setup_.srq) {
        setup_.options.max_receives = watermarks.hard;
    }
    (void)count_receives(watermarks);
}

void EpQueues::check_watermarks() noexcept {
    if (setup_.evds.receive && watermarks_.are_set()) {
        setup_.evds.receive->queue().check_held(receives_);
    }
}

bool EpQueues::needs_queue_pair(const EpSetup& setup) const noexcept {
    const EpOptions& now = setup_.options;
    const EpOptions& then = setup.options;
    return setup.pz.get() != setup_.pz.get() || setup.evds.receive.get() != setup_.evds.receive.get() ||
           setup.evds.request.get() != setup_.evds.request.get() || then.max_receives != now.max_receives ||
           then.max_requests != now.max_requests || then.max_receive_segments != now.max_receive_segments ||
           then.max_request_segments != now.max_request_segments;
}

EpAnswer EpQueues::change(EpSetup& setup, std::optional<glue::QueuePair>& former) {
    const bool needs_queues = needs_queue_pair(setup);
    if (needs_queues && !is_receive_idle()) {
        return EpAnswer::kHasReceives;
    }
    DtoStore requests = make_requests(owner_.ia(), setup);
    DtoStore receives = make_receives(owner_.ia(), setup);
    if (needs_queues) {
        if (const Result<void> filled = fill_gaps(owner_.ia(), setup); !filled) {
            return failed(filled.error());
        }
        Result<glue::QueuePair> qp = make_queue_pair(setup);
        if (!qp) {
            return failed(qp.error());
        }
        former = *std::move(qp);
    } else {
        setup.unused = std::move(setup_.unused);
    }
    {
        const LockGuard joining(owner_.ia().joining());
        leave(setup_);
        if (!join(setup)) {
            (void)join(setup_); // as it was: no other endpoint has joined meanwhile
            if (!needs_queues) {
                setup_.unused = std::move(setup.unused);
            }
            return EpAnswer::kOtherModel;
        }
    }
    const Watermarks armed = count_receives({});
    {
        const LockGuard no_requests(requests_.lock());
        const LockGuard no_receives(receives_.lock());
        if (needs_queues) {
            former.swap(qp_);
            requests_.replace_locked(requests);
            receives_.replace_locked(receives);
        }
        std::swap(setup_, setup);
    }
    attach();
    const std::uint32_t soft = setup_.options.soft_watermark;
    const bool is_same = std::exchange(watermarks_.soft, soft) == soft;
    watermarks_.hard = setup_.srq ? setup_.options.max_receives : watermarks_.hard;
    (void)count_receives({is_same ? armed.soft : soft, watermarks_.hard});
    return EpAnswer::kDone;
}

// Nothing of the former queue pair comes any more when it is in reset, so that its records are free for
// posts.
glue::QueuePair EpQueues::replace(glue::QueuePair fresh) {
    glue::QueuePair former = [&] {
        const LockGuard no_requests(requests_.lock());
        const LockGuard no_receives(receives_.lock());
        glue::QueuePair present = *std::exchange(qp_, std::move(fresh));
        requests_.count_connection();
        receives_.count_connection();
        take_back_shared(present);
        (void)present.to_reset();
        forget_posted();
        return present;
    }();
    attach();
    return former;
}

void EpQueues::flush_posted() noexcept {
    {
        // Posts from now on see the new state. In-flight posts have finished, and are flushed.
        const LockGuard no_requests(requests_.lock());
        const LockGuard no_receives(receives_.lock());
    }
    (void)qp_->to_error(); // fails where it is in error already, or the device is gone
    for (const Ref<Evd>* evd : {&setup_.evds.request, &setup_.evds.receive}) {
        if (*evd && evd->get() == setup_.evds.connect.get()) {
            (*evd)->queue().collect();
        }
    }
}

bool EpQueues::begin_drain() noexcept {
    if (!setup_.evds.request || (!post_marker() && !is_request_idle())) {
        return false;
    }
    setup_.evds.request->queue().await_idle(requests_, true);
    return true;
}

void EpQueues::end_drain() noexcept {
    if (setup_.evds.request) {
        setup_.evds.request->queue().await_idle(requests_, false);
    }
}

RingReport EpQueues::take_report() noexcept {
    RingReport all;
    const auto add = [&](EventQueue* queue, DtoRing& ring) {
        if (queue == nullptr) {
            return;
        }
        const RingReport report = queue->take_report(ring);
        if (!report.is_pending || report.connection != ring.connection()) {
            return; // of a connection that was reset since
        }
        all.has_failed |= report.has_failed;
        all.is_drained |= report.is_drained;
        all.holds_soft |= report.holds_soft;
        all.holds_hard |= report.holds_hard;
        all.is_overrun |= report.is_overrun;
    };
    add(setup_.evds.request ? &setup_.evds.request->queue() : nullptr, requests_);
    add(receive_queue(), receives_);
    return all;
}

} // namespace sluice::dapl
