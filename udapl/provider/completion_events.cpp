// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/completion_events.hpp"

#include <span>

#include "udapl/provider/rmr.hpp"
#include "udapl/provider/shared_receives.hpp"
#include "udapl/provider/sync_check.hpp"

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

// The CPU mustn't use what its caches hold of memory that the device has written. That may be less than there
// was room for.
void show_written(const Dto& dto, std::uint64_t length, coherence::Engine& memory) noexcept {
    for (coherence::Segment& segment : std::span(dto.segments, dto.segment_count)) {
        segment.length = std::min(segment.length, length);
        length -= segment.length;
    }
    (void)memory.after_device_wrote(dto.segments, dto.segment_count); // a region that was freed has no reader
}

void report_bound(const Dto& dto, bool is_success) noexcept {
    if (const Result<Pin<Rmr>> rmr = handles().get<Rmr>(dto.window)) {
        (*rmr)->on_bound(dto.length, is_success);
    }
}

// The event of COMPLETION, a receive that brought immediate data.
void add_immediate(const ibv_wc& completion, Event& event) noexcept {
    event.operation = completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM ? DtoOperation::kReceiveWriteImmediate
                                                                     : DtoOperation::kReceiveSendImmediate;
    event.immediate = completion.imm_data;
}

bool has_immediate(const ibv_wc& completion, bool is_receive) noexcept {
    return is_receive && (completion.wc_flags & IBV_WC_WITH_IMM) != 0;
}

// COMPLETION's record. What the device wrote is seen from now on.
Dto& read_record(const ibv_wc& completion, bool is_success, bool is_receive, const IaContext& ia) noexcept {
    Dto& record = *reinterpret_cast<Dto*>(completion.wr_id);
    if (is_receive) {
        record.length = completion.byte_len;
    }
    if (record.is(Dto::kKept) && SyncCheck::wanted() != nullptr) [[unlikely]] {
        SyncCheck::wanted()->after_read(record, is_success);
    }
    if (is_success && record.is(Dto::kKept)) [[unlikely]] {
        // A peer's write takes a receive, but not its buffer.
        const bool is_elsewhere = is_receive && completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
        show_written(record, is_elsewhere ? 0 : record.length, ia.device().memory());
    }
    return record;
}

} // namespace

// Whether DTO, which is over, makes an EVENT.
[[gnu::always_inline]] inline bool CompletionEvents::describe(const Dto& dto, DtoStatus status,
                                                              bool is_receive, Event& event) noexcept {
    const bool is_success = status == DtoStatus::kSuccess;
    if (dto.is(Dto::kBind)) [[unlikely]] {
        report_bound(dto, is_success); // also a silent one: a region may come free
    }
    if (dto.is(Dto::kMarker) || (is_success && dto.is(PostFlags::kSilent))) {
        silent_ += dto.is(Dto::kMarker) ? 0U : 1U;
        return false;
    }
    const bool is_quiet = is_success && source_.model() != NotifyModel::kEach &&
                          (source_.knows_solicited() || dto.is(PostFlags::kQuiet));
    event = {EventKind::kDto, dto.endpoint, status, is_quiet, dto.operation(), 0, dto.cookie, dto.length};
    if (dto.is(Dto::kBind)) [[unlikely]] {
        event.kind = EventKind::kBind;
        event.object = dto.window;
    }
    if (is_success && is_receive) {
        event.ring = dto.ring;
    }
    return true;
}

// The same for a receive from a shared queue.
[[gnu::noinline]] bool CompletionEvents::read_shared(Dto& record, const ibv_wc& completion,
                                                     Event& event) noexcept {
    const DtoStatus status = status_of(completion.status);
    const Dto dto = record.shared->finish(record, completion.qp_num);
    if (dto.ring == nullptr) {
        dto.shared->release(); // its endpoint is gone
        return false;
    }
    if (status != DtoStatus::kSuccess || dto.ring->waits_for_idle) {
        note(dto, status);
    }
    const bool is_event = describe(dto, status, true, event);
    if (has_immediate(completion, status == DtoStatus::kSuccess)) [[unlikely]] {
        add_immediate(completion, event);
    }
    event.source = is_event ? dto.shared->handle() : nullptr;
    return is_event;
}

bool CompletionEvents::read(const ibv_wc& completion, Event& event) noexcept {
    if (is_plain(completion) && source_.model() == NotifyModel::kEach) [[likely]] {
        DtoRing* const ring = reinterpret_cast<const Dto*>(completion.wr_id)->ring;
        auto keep = [&event](const Event& plain) { event = plain; };
        take_plain(completion, keep);
        event.ring = (completion.opcode & IBV_WC_RECV) != 0 ? ring : nullptr; // receives count as held
        return true;
    }
    const DtoStatus status = status_of(completion.status);
    const bool is_success = status == DtoStatus::kSuccess;
    const bool is_receive = is_success && (completion.opcode & IBV_WC_RECV) != 0;
    Dto& record = read_record(completion, is_success, is_receive, ia_);
    if (record.is(Dto::kShared)) [[unlikely]] {
        return read_shared(record, completion, event);
    }
    const bool is_event = describe(record, status, is_receive, event);
    if (has_immediate(completion, is_receive)) [[unlikely]] {
        add_immediate(completion, event);
    }
    DtoRing& ring = *record.ring;
    if (is_success && !ring.waits_for_idle) [[likely]] {
        ring.complete(record);
    } else {
        const Dto dto = record; // another post may get it from now on
        ring.complete(record);
        note(dto, status);
    }
    return is_event;
}

// A transfer that failed by itself breaks its endpoint.
void CompletionEvents::note(const Dto& dto, DtoStatus status) noexcept {
    if (status != DtoStatus::kSuccess && status != DtoStatus::kFlushed) {
        dto.ring->report.has_failed = true;
        request_report(*dto.ring, dto.connection);
    }
    check_idle(*dto.ring);
}

void CompletionEvents::check_idle(DtoRing& ring) noexcept {
    if (ring.waits_for_idle && ring.is_idle()) {
        ring.report.is_drained = true;
        request_report(ring, ring.connection());
    }
}

void CompletionEvents::check_held(DtoRing& ring) noexcept {
    const bool is_soft = ring.held > ring.watermarks.soft;
    const bool is_hard = ring.held > ring.watermarks.hard;
    if (is_soft || is_hard) {
        ring.watermarks.soft = is_soft ? Watermarks::kInfinite : ring.watermarks.soft; // reported once
        ring.report.holds_soft |= is_soft;
        ring.report.holds_hard |= is_hard;
        request_report(ring, ring.connection());
    }
}

void CompletionEvents::report_overrun(DtoRing& ring) noexcept {
    ring.report.is_overrun = true;
    request_report(ring, ring.connection());
}

void CompletionEvents::request_report(DtoRing& ring, std::uint32_t connection) noexcept {
    if (!ring.report.is_pending) {
        ring.report.is_pending = true;
        ring.report.connection = connection;
        ia_.loop().schedule(ring.endpoint());
    }
}

void CompletionEvents::release(const Event& event) noexcept {
    if (event.kind != EventKind::kDto || event.source == nullptr) {
        return;
    }
    if (const Result<Pin<SharedReceives>> receives = handles().get<SharedReceives>(event.source)) {
        (*receives)->release();
    }
}

} // namespace sluice::dapl
