// SPDX-License-Identifier: BSD-3-Clause
//
// What stands before libsluice-sync, before libdat's syncs, and before the functions that give events of
// connections.
#include <dat/udat.h>
#include <rdma/rdma_cma.h>
#include <sluice/sluice.h>
#include <sluice/sync.h>

#include <span>

#include "layers/hooks/next.hpp"
#include "layers/trace/recorder.hpp"

namespace trace = sluice::layers::trace;

using sluice::layers::hooks::Next;
using trace::file::Kind;
using trace::file::Sync;

namespace {

void record_sync(Kind kind, Sync which, std::uint64_t id, bool failed) noexcept {
    trace::record({.time_ns = trace::now_ns(),
                   .id = id,
                   .bytes = 0,
                   .queue_pair = 0,
                   .device = 0,
                   .kind = kind,
                   .code = static_cast<std::uint8_t>(which),
                   .status = failed ? std::uint8_t{1} : std::uint8_t{0},
                   .flags = 0});
}

template<typename Call>
auto record_around(Sync which, std::uint64_t address, std::uint64_t bytes, Call&& call) noexcept {
    record_sync(Kind::kSync, which, address, false);
    const auto result = call();
    record_sync(Kind::kSynced, which, bytes, result != decltype(result){});
    return result;
}

std::uint64_t number_of(const void* address) noexcept {
    return reinterpret_cast<std::uintptr_t>(address);
}

std::uint64_t bytes_of(const sluice_sync_segment* segments, std::uint64_t count) noexcept {
    std::uint64_t bytes = 0;
    for (const sluice_sync_segment& each : std::span(segments, segments != nullptr ? count : 0)) {
        bytes += each.length;
    }
    return bytes;
}

std::uint64_t bytes_of(const DAT_LMR_TRIPLET* segments, DAT_VLEN count) noexcept {
    std::uint64_t bytes = 0;
    for (const DAT_LMR_TRIPLET& each : std::span(segments, segments != nullptr ? count : 0)) {
        bytes += each.segment_length;
    }
    return bytes;
}

using Range = Next<int(const void*, std::uint64_t)>;
using Batch = Next<int(const sluice_sync_segment*, std::uint64_t)>;
using LmrSync = Next<DAT_RETURN(DAT_IA_HANDLE, const DAT_LMR_TRIPLET*, DAT_VLEN)>;

int sync_range(Range& real, Sync which, const void* address, std::uint64_t length) noexcept {
    return record_around(which, number_of(address), length,
                         [&] { return real.call(ENOSYS, address, length); });
}

int sync_batch(Batch& real, Sync which, const sluice_sync_segment* segments, std::uint64_t count) noexcept {
    return record_around(which, 0, bytes_of(segments, count),
                         [&] { return real.call(ENOSYS, segments, count); });
}

DAT_RETURN sync_lmrs(LmrSync& real, Sync which, DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET* segments,
                     DAT_VLEN count) noexcept {
    return record_around(which, 0, bytes_of(segments, count), [&] {
        return real.call(static_cast<DAT_RETURN>(DAT_NOT_IMPLEMENTED), ia, segments, count);
    });
}

void record_connection(std::uint32_t type, int status, std::uint32_t pair,
                       const ibv_context* context) noexcept {
    trace::record({.time_ns = trace::now_ns(),
                   .id = 0,
                   .bytes = static_cast<std::uint32_t>(status),
                   .queue_pair = pair,
                   .device = context != nullptr ? trace::tag_of(context) : 0,
                   .kind = Kind::kConnection,
                   .code = static_cast<std::uint8_t>(type),
                   .status = 0,
                   .flags = 0});
}

// The same as rdma_cm calls it.
std::uint32_t type_of(const sluice_cm_event& event) noexcept {
    switch (event.type) {
    case SLUICE_CM_CONNECT_REQUEST:
        return RDMA_CM_EVENT_CONNECT_REQUEST;
    case SLUICE_CM_CONNECT_RESPONSE:
        return RDMA_CM_EVENT_CONNECT_RESPONSE;
    case SLUICE_CM_ESTABLISHED:
        return RDMA_CM_EVENT_ESTABLISHED;
    case SLUICE_CM_REJECTED:
        return RDMA_CM_EVENT_REJECTED;
    case SLUICE_CM_UNREACHABLE:
        return RDMA_CM_EVENT_UNREACHABLE;
    case SLUICE_CM_CONNECT_ERROR:
        return RDMA_CM_EVENT_CONNECT_ERROR;
    case SLUICE_CM_DISCONNECTED:
        return RDMA_CM_EVENT_DISCONNECTED;
    default:
        return RDMA_CM_EVENT_TIMEWAIT_EXIT;
    }
}

} // namespace

extern "C" {
#pragma GCC visibility push(default)

int sluice_sync_clean(const void* address, std::uint64_t length) {
    static constinit Range real("sluice_sync_clean");
    return sync_range(real, Sync::kClean, address, length);
}
int sluice_sync_invalidate(const void* address, std::uint64_t length) {
    static constinit Range real("sluice_sync_invalidate");
    return sync_range(real, Sync::kInvalidate, address, length);
}
int sluice_sync_clean_invalidate(const void* address, std::uint64_t length) {
    static constinit Range real("sluice_sync_clean_invalidate");
    return sync_range(real, Sync::kCleanInvalidate, address, length);
}
int sluice_sync_persist(const void* address, std::uint64_t length) {
    static constinit Range real("sluice_sync_persist");
    return sync_range(real, Sync::kPersist, address, length);
}
int sluice_sync_clean_batch(const sluice_sync_segment* segments, std::uint64_t count) {
    static constinit Batch real("sluice_sync_clean_batch");
    return sync_batch(real, Sync::kClean, segments, count);
}
int sluice_sync_invalidate_batch(const sluice_sync_segment* segments, std::uint64_t count) {
    static constinit Batch real("sluice_sync_invalidate_batch");
    return sync_batch(real, Sync::kInvalidate, segments, count);
}
int sluice_sync_clean_invalidate_batch(const sluice_sync_segment* segments, std::uint64_t count) {
    static constinit Batch real("sluice_sync_clean_invalidate_batch");
    return sync_batch(real, Sync::kCleanInvalidate, segments, count);
}
int sluice_sync_persist_batch(const sluice_sync_segment* segments, std::uint64_t count) {
    static constinit Batch real("sluice_sync_persist_batch");
    return sync_batch(real, Sync::kPersist, segments, count);
}
int sluice_sync_copy(void* to, const void* from, std::uint64_t length) {
    static constinit Next<int(void*, const void*, std::uint64_t)> real("sluice_sync_copy");
    return record_around(Sync::kCopy, number_of(to), length,
                         [&] { return real.call(ENOSYS, to, from, length); });
}

DAT_RETURN dat_lmr_sync_rdma_read(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET* segments, DAT_VLEN count) {
    static constinit LmrSync real("dat_lmr_sync_rdma_read");
    return sync_lmrs(real, Sync::kLmrRead, ia, segments, count);
}
DAT_RETURN dat_lmr_sync_rdma_write(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET* segments, DAT_VLEN count) {
    static constinit LmrSync real("dat_lmr_sync_rdma_write");
    return sync_lmrs(real, Sync::kLmrWrite, ia, segments, count);
}

int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
    static constinit Next<int(rdma_event_channel*, rdma_cm_event**)> real("rdma_get_cm_event");
    const int error = real.call(-1, channel, event);
    if (error == 0 && (*event)->id != nullptr) {
        const rdma_cm_id& id = *(*event)->id;
        record_connection((*event)->event, (*event)->status, id.qp != nullptr ? id.qp->qp_num : 0, id.verbs);
    }
    return error;
}

// The queue pair of an id isn't in its event.
int sluice_cm_get_event(sluice_cm_channel* channel, int timeout_ms, sluice_cm_event** event) {
    static constinit Next<int(sluice_cm_channel*, int, sluice_cm_event**)> real("sluice_cm_get_event");
    const int error = real.call(ENOSYS, channel, timeout_ms, event);
    if (error == 0) {
        record_connection(type_of(**event), (*event)->status, 0, nullptr);
    }
    return error;
}

#pragma GCC visibility pop
} // extern "C"
