// SPDX-License-Identifier: BSD-3-Clause
//
// How completions become events, and what they mean for endpoints.
#include "core/boundary.hpp"
#include "core/log.hpp"
#include "udapl/provider/ep.hpp"
#include "udapl/provider/evd.hpp"
#include "udapl/provider/ia.hpp"
#include "udapl/provider/rmr.hpp"

namespace sluice::dapl {

namespace {

DtoStatus status_of(ibv_wc_status status) noexcept {
    if (status == IBV_WC_SUCCESS) [[likely]] {
        return DtoStatus::kSuccess;
    }
    switch (status) {
    case IBV_WC_WR_FLUSH_ERR:
        return DtoStatus::kFlushed;
    case IBV_WC_LOC_LEN_ERR:
        return DtoStatus::kLocalLength;
    case IBV_WC_LOC_QP_OP_ERR:
        return DtoStatus::kLocalEndpoint;
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_RDD_VIOL_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
        return DtoStatus::kLocalProtection;
    case IBV_WC_MW_BIND_ERR:
        return DtoStatus::kBindFailed;
    case IBV_WC_BAD_RESP_ERR:
        return DtoStatus::kBadResponse;
    case IBV_WC_REM_ACCESS_ERR:
        return DtoStatus::kRemoteAccess;
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
        return DtoStatus::kRemoteResponder;
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return DtoStatus::kReceiverNotReady;
    default: // the path's, and what later versions may invent
        return DtoStatus::kTransport;
    }
}

// The CPU mustn't go on with what it knew of memory that the device has written. That may be less than there
// was room for.
void show_what_was_written(const Dto& dto, std::uint64_t length, coherence::Engine& memory) noexcept {
    for (coherence::Segment& part : std::span(dto.parts, dto.part_count)) {
        part.length = std::min(part.length, length);
        length -= part.length;
    }
    (void)memory.after_device_wrote(dto.parts, dto.part_count); // a region that was freed has no reader
}

// Whether the program wants to know, or not.
void tell_bound(const Dto& dto, bool is_success) noexcept {
    if (const Result<Pin<Rmr>> rmr = handles().get<Rmr>(dto.window)) {
        (*rmr)->on_bound(dto.length, is_success);
    }
}

// COMPLETION's record. What the device wrote is seen from now on.
Dto& read_record(const ibv_wc& completion, bool is_success, bool is_receive, const Ia& ia) noexcept {
    Dto& record = *reinterpret_cast<Dto*>(completion.wr_id);
    if (is_receive) {
        record.length = completion.byte_len;
    }
    if (is_success && record.is(Dto::kKept)) [[unlikely]] {
        show_what_was_written(record, record.length, ia.device().memory());
    }
    return record;
}

} // namespace

Result<void> Evd::add_completions(const glue::Context& context) {
    Result<glue::CompletionChannel> channel = glue::CompletionChannel::make(context);
    if (!channel) {
        return std::move(channel).error();
    }
    const LockGuard guard(mutex_);
    Result<glue::CompletionQueue> queue =
        glue::CompletionQueue::make(context, static_cast<int>(length_), this, &*channel);
    if (!queue) {
        return std::move(queue).error();
    }
    ring_.resize(length_ + static_cast<std::size_t>(queue->entries()));
    if (Result<void> added = ia().loop().add(channel->fd(), *this); !added) {
        return added;
    }
    channel_ = *std::move(channel);
    completions_ = *std::move(queue);
    return {};
}

void Evd::on_readable() noexcept {
    const LockGuard guard(mutex_);
    serve_locked();
}

// While endpoints complete here.
void Evd::look_again() noexcept {
    constexpr std::uint64_t kInterval = kNanosecondsPerSecond / 10;
    if (ia().device().solicited_notice().failures) {
        return;
    }
    const Result<void> done = at_boundary("dat times", [this]() -> Result<void> {
        ia().loop().wake_at(*this, now_ns() + kInterval);
        return {};
    });
    if (!done) {
        SLUICE_LOG(kWarning, "dat", "failures may go unnoticed: %s", done.error().text());
    }
}

// A program that polls finds failures by itself, and keeps the lock for itself.
void Evd::on_time() noexcept {
    if (is_polled_.exchange(false, std::memory_order_relaxed)) {
        look_again();
        return;
    }
    const LockGuard guard(mutex_);
    drain_locked();
    if (joined_ != 0) {
        look_again();
    }
}

// The device may not tell of each queue pair that goes with the queue.
void Evd::on_overrun() noexcept {
    ia().tell_overflow(*this);
    const Result<void> done = at_boundary("dat events", [this]() -> Result<void> {
        ia().end_endpoints_of(*this);
        return {};
    });
    if (!done) {
        SLUICE_LOG(kWarning, "dat", "endpoints aren't told of lost completions: %s", done.error().text());
    }
}

// A transfer that failed by itself breaks its endpoint.
void Evd::note_locked(const Dto& dto, DtoStatus status) noexcept {
    if (status != DtoStatus::kSuccess && status != DtoStatus::kFlushed) {
        dto.ring->unsettled.has_failed = true;
        list_locked(*dto.ring, dto.endpoint, dto.connection);
    }
    check_idle_locked(*dto.ring, dto.endpoint);
}

void Evd::check_idle_locked(DtoRing& ring, void* endpoint) noexcept {
    if (ring.waits_for_idle && ring.is_idle()) {
        ring.unsettled.is_drained = true;
        list_locked(ring, endpoint, ring.connection());
    }
}

void Evd::check_held_locked(DtoRing& ring, void* endpoint) noexcept {
    const bool is_soft = ring.held > ring.watermarks.soft;
    const bool is_hard = ring.held > ring.watermarks.hard;
    if (is_soft || is_hard) {
        ring.watermarks.soft = Watermarks::kInfinite; // told once
        ring.unsettled.holds_soft |= is_soft;
        ring.unsettled.holds_hard |= is_hard;
        list_locked(ring, endpoint, ring.connection());
    }
}

void Evd::list_locked(DtoRing& ring, void* endpoint, std::uint32_t connection) noexcept {
    if (ring.unsettled.endpoint == nullptr) {
        ring.unsettled.endpoint = endpoint;
        ring.unsettled.connection = connection;
        ring.unsettled.next = std::exchange(unsettled_, &ring);
        ia().loop().schedule(*this);
    }
}

void Evd::unlist_locked(DtoRing& ring) noexcept {
    for (DtoRing** each = &unsettled_; *each != nullptr; each = &(*each)->unsettled.next) {
        if (*each == &ring) {
            *each = ring.unsettled.next;
            break;
        }
    }
    ring.unsettled = {};
}

// In the loop's thread: endpoints take their own locks, and come back here.
void Evd::run() noexcept {
    while (true) {
        Unsettled told;
        {
            const LockGuard guard(mutex_);
            if (unsettled_ == nullptr) {
                return;
            }
            DtoRing& ring = *unsettled_;
            told = ring.unsettled;
            unlist_locked(ring);
        }
        if (const Result<Pin<Ep>> ep = handles().get<Ep>(told.endpoint)) {
            (*ep)->settle(told);
        }
    }
}

// Whether DTO, which is over, makes an EVENT.
[[gnu::always_inline]] inline bool Evd::describe_locked(const Dto& dto, DtoStatus status, bool is_receive,
                                                        Event& event) noexcept {
    const bool is_success = status == DtoStatus::kSuccess;
    if (dto.is(Dto::kMarker) || (is_success && dto.is(PostFlags::kSilent))) {
        return false;
    }
    const bool is_quiet =
        is_success && model_ != EvdModel::kEach && (knows_solicited_locked() || dto.is(PostFlags::kQuiet));
    event = {EventKind::kDto, dto.endpoint, status, is_quiet, dto.cookie, dto.length};
    if (dto.is(Dto::kBind)) [[unlikely]] {
        tell_bound(dto, is_success);
        event.kind = EventKind::kBind;
        event.object = dto.window;
    }
    if (is_success && is_receive) {
        event.ring = dto.ring;
    }
    return true;
}

// The same for a receive from a shared queue, whose RECORD comes free.
[[gnu::noinline]] bool Evd::finish_shared_locked(Dto& record, const ibv_wc& completion,
                                                 Event& event) noexcept {
    const DtoStatus status = status_of(completion.status);
    const Dto dto = record.shared->finish(record, completion.qp_num);
    if (dto.ring == nullptr) {
        dto.shared->reap(); // its endpoint is gone
        return false;
    }
    if (status != DtoStatus::kSuccess || dto.ring->waits_for_idle) {
        note_locked(dto, status);
    }
    const bool is_event = describe_locked(dto, status, true, event);
    event.source = is_event ? dto.shared->handle() : nullptr;
    return is_event;
}

// Whether that is an EVENT.
bool Evd::finish_locked(const ibv_wc& completion, Event& event) noexcept {
    const DtoStatus status = status_of(completion.status);
    const bool is_success = status == DtoStatus::kSuccess;
    const bool is_receive = is_success && (completion.opcode & IBV_WC_RECV) != 0;
    Dto& record = read_record(completion, is_success, is_receive, ia());
    if (record.is(Dto::kShared)) [[unlikely]] {
        return finish_shared_locked(record, completion, event);
    }
    const bool is_event = describe_locked(record, status, is_receive, event);
    DtoRing& ring = *record.ring;
    if (is_success && !ring.waits_for_idle) [[likely]] {
        ring.complete(record);
    } else {
        const Dto dto = record; // another post may get it from now on
        ring.complete(record);
        note_locked(dto, status);
    }
    return is_event;
}

bool Evd::poll_locked(Event& event) noexcept {
    ibv_wc completion{};
    while (completions_ && completions_->poll(&completion, 1) == 1) {
        if (finish_locked(completion, event)) {
            return true;
        }
    }
    return false;
}

EvdAnswer Evd::dequeue_other_locked(const ibv_wc* completion, Event& event) noexcept {
    if (is_waiting_) {
        return EvdAnswer::kHasWaiter;
    }
    if (count_ > 0) {
        event = take_locked();
    } else if ((completion != nullptr && finish_locked(*completion, event)) || poll_locked(event)) {
        reap(event);
    } else {
        return EvdAnswer::kEmpty;
    }
    return EvdAnswer::kDone;
}

void Evd::drain_locked() noexcept {
    Event event;
    while (count_ < ring_.size() && poll_locked(event)) {
        push_locked(event);
    }
}

// Only what the peer asks for notifies. Where the device doesn't tell what that is, everything does, so
// that nobody waits for ever.
bool Evd::knows_solicited_locked() const noexcept {
    return model_ == EvdModel::kSolicited && ia().device().solicited_notice().receives;
}

// False: it is armed for as much already, or there is none.
bool Evd::arm_locked() noexcept {
    if (!completions_) {
        return false;
    }
    const bool knows_solicited = knows_solicited_locked();
    const bool is_each = !knows_solicited && (is_waiting_ || (cno_ && is_enabled_));
    const bool is_told = knows_solicited || ia().device().solicited_notice().failures;
    const Armed wanted = is_each || watchers_ != 0 ? Armed::kForEach
                         : joined_ != 0 && is_told ? Armed::kForFailures
                                                   : Armed::kNot;
    if (wanted != Armed::kNot && !is_waiting_) {
        watch_channel_locked(true);
    }
    if (armed_ >= wanted) {
        return false;
    }
    (void)completions_->arm(wanted ==
                            Armed::kForFailures); // fails where the device is gone, which tells itself
    armed_ = wanted;
    return true;
}

void Evd::watch_channel_locked(bool is_watched) noexcept {
    if (channel_ && is_watched_ != is_watched) {
        is_watched_ = is_watched;
        ia().loop().pause(channel_->fd(), *this, !is_watched);
    }
}

// Which completion was solicited, the device doesn't tell; the last one is there for sure.
void Evd::take_notification_locked() noexcept {
    if (!channel_->take_notification()) {
        return;
    }
    ++unacknowledged_;
    armed_ = Armed::kNot;
    if (!knows_solicited_locked()) {
        return;
    }
    drain_locked();
    if (count_ != 0) {
        Event& newest = ring_[(first_ + count_ - 1) % ring_.size()];
        if (std::exchange(newest.is_quiet, false)) {
            notify_locked();
        }
    }
}

void Evd::serve_locked() noexcept {
    if (!completions_) {
        return;
    }
    take_notification_locked();
    do {
        drain_locked();
    } while (arm_locked()); // what came before it was armed
}

bool Evd::join(EvdModel model) noexcept {
    constexpr unsigned kTransfers = kDtoStream | kBindStream;
    const LockGuard guard(mutex_);
    const bool is_alone = (streams_ & ~kTransfers) == 0;
    if ((joined_ != 0 && model != model_) || (model != EvdModel::kEach && !is_alone)) {
        return false;
    }
    model_ = model;
    if (joined_++ == 0) {
        look_again();
    }
    serve_locked();
    return true;
}

void Evd::leave() noexcept {
    const LockGuard guard(mutex_);
    if (--joined_ == 0) {
        model_ = EvdModel::kEach;
    }
}

void Evd::watch_locked(bool was_watched, bool is_watched) noexcept {
    watchers_ += (is_watched ? 1U : 0U) - (was_watched ? 1U : 0U);
    serve_locked();
}

void Evd::await_idle(DtoRing& ring, void* endpoint, bool is_awaited) noexcept {
    const LockGuard guard(mutex_);
    watch_locked(std::exchange(ring.waits_for_idle, is_awaited), is_awaited);
    check_idle_locked(ring, endpoint);
}

void Evd::set_watermarks(DtoRing& ring, void* endpoint, const Watermarks& watermarks) noexcept {
    const LockGuard guard(mutex_);
    const bool was_watched = std::exchange(ring.is_counted, watermarks.are_set());
    ring.watermarks = watermarks;
    watch_locked(was_watched, ring.is_counted);
    check_held_locked(ring, endpoint);
}

std::uint32_t Evd::held(const DtoRing& ring) noexcept {
    const LockGuard guard(mutex_);
    return ring.held;
}

void Evd::collect() noexcept {
    const LockGuard guard(mutex_);
    drain_locked();
}

void Evd::forget(const void* endpoint, DtoRing& ring) noexcept {
    bool is_lost = false;
    {
        const LockGuard guard(mutex_);
        Event event;
        while (poll_locked(event)) {
            if (event.object == endpoint) {
                reap(event);
                continue;
            }
            if (count_ < ring_.size()) {
                push_locked(event);
            } else {
                is_lost = true;
            }
        }
        for (std::size_t i = 0; i < count_; ++i) {
            Event& queued = ring_[(first_ + i) % ring_.size()];
            queued.ring = queued.object == endpoint ? nullptr : queued.ring;
        }
        unlist_locked(ring);
        ring.held = 0;
        watch_locked(std::exchange(ring.waits_for_idle, false), false);
    }
    if (is_lost) {
        ia().tell_overflow(*this);
    }
}

} // namespace sluice::dapl
