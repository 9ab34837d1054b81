// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/device/counters.hpp"

namespace sluice::uroce::device {

namespace {

struct Named {
    std::size_t offset;
    const char* name;
};

using C = DeviceCounters;

constexpr std::size_t completions(engine::Status status) {
    return offsetof(C, transport.completions) + static_cast<std::size_t>(status) * sizeof(Count);
}

constexpr std::size_t entered(cm::State state) {
    return offsetof(C, connections.entered) + static_cast<std::size_t>(state) * sizeof(Count);
}

constexpr Named kNamed[] = {
    {offsetof(C, loop.packets_sent), "path.loop.packets_sent"},
    {offsetof(C, loop.bytes_sent), "path.loop.bytes_sent"},
    {offsetof(C, loop.packets_received), "path.loop.packets_received"},
    {offsetof(C, loop.bytes_received), "path.loop.bytes_received"},
    {offsetof(C, memory.packets_sent), "path.memory.packets_sent"},
    {offsetof(C, memory.bytes_sent), "path.memory.bytes_sent"},
    {offsetof(C, memory.packets_received), "path.memory.packets_received"},
    {offsetof(C, memory.bytes_received), "path.memory.bytes_received"},
    {offsetof(C, udp.packets_sent), "path.udp.packets_sent"},
    {offsetof(C, udp.bytes_sent), "path.udp.bytes_sent"},
    {offsetof(C, udp.packets_received), "path.udp.packets_received"},
    {offsetof(C, udp.bytes_received), "path.udp.bytes_received"},
    {offsetof(C, direct.requests), "path.direct.requests"},
    {offsetof(C, direct.bytes_sent), "path.direct.bytes_sent"},
    {offsetof(C, direct.bytes_received), "path.direct.bytes_received"},

    {offsetof(C, deliveries.posted), "delivery.inbox"},
    {offsetof(C, deliveries.lost), "drop.inbox_full"},
    {offsetof(C, deliveries.damaged), "drop.injected_damage"},
    {offsetof(C, deliveries.no_route), "drop.no_route"},

    {offsetof(C, transport.dropped_unknown_qp), "drop.unknown_qp"},
    {offsetof(C, transport.dropped_wrong_peer), "drop.wrong_peer"},
    {offsetof(C, transport.dropped_wrong_port), "drop.wrong_port"},
    {offsetof(C, transport.dropped_wrong_state), "drop.wrong_state"},
    {offsetof(C, transport.dropped_no_room), "drop.no_room"},
    {offsetof(C, transport.dropped_messages), "drop.uc_messages"},
    {offsetof(C, transport.duplicates), "transport.duplicates_received"},
    {offsetof(C, transport.out_of_sequence), "transport.out_of_sequence"},
    {offsetof(C, transport.timeouts), "transport.timeouts"},
    {offsetof(C, transport.rewinds), "transport.rewinds"},
    {offsetof(C, transport.rnr_naks_in), "transport.rnr_received"},
    {offsetof(C, transport.stray_responses), "transport.stray_responses"},
    {offsetof(C, transport.rnr_naks_out), "transport.rnr_sent"},
    {offsetof(C, transport.packets_again), "transport.retransmissions"},
    {offsetof(C, transport.messages_sent), "transport.messages_sent"},
    {offsetof(C, transport.messages_received), "transport.messages_received"},
    {completions(engine::Status::kSuccess), "completion.success"},
    {completions(engine::Status::kLocalLength), "completion.local_length"},
    {completions(engine::Status::kLocalQpOperation), "completion.local_qp_operation"},
    {completions(engine::Status::kLocalProtection), "completion.local_protection"},
    {completions(engine::Status::kFlushed), "completion.flushed"},
    {completions(engine::Status::kMwBind), "completion.mw_bind"},
    {completions(engine::Status::kBadResponse), "completion.bad_response"},
    {completions(engine::Status::kLocalAccess), "completion.local_access"},
    {completions(engine::Status::kRemoteInvalidRequest), "completion.remote_invalid_request"},
    {completions(engine::Status::kRemoteAccess), "completion.remote_access"},
    {completions(engine::Status::kRemoteOperation), "completion.remote_operation"},
    {completions(engine::Status::kRetryExceeded), "completion.retry_exceeded"},
    {completions(engine::Status::kRnrRetryExceeded), "completion.rnr_retry_exceeded"},

    {offsetof(C, port.sent.packets), "socket.packets_sent"},
    {offsetof(C, port.sent.calls), "socket.calls_sending"},
    {offsetof(C, port.sent.gso_sends), "socket.gso_sends"},
    {offsetof(C, port.sent.lost), "drop.send_refused"},
    {offsetof(C, port.sent.too_long), "drop.send_too_long"},
    {offsetof(C, port.sent.page_gone), "drop.page_gone"},
    {offsetof(C, port.sent.no_segmentation), "socket.no_segmentation"},
    {offsetof(C, port.received.packets), "socket.packets_received"},
    {offsetof(C, port.received.calls), "socket.calls_receiving"},
    {offsetof(C, port.received.gro_receives), "socket.gro_receives"},
    {offsetof(C, port.received.truncated), "drop.truncated"},
    {offsetof(C, port.received.malformed), "drop.malformed"},
    {offsetof(C, port.received.solved), "socket.identifications_solved"},
    {offsetof(C, port.received.bad_icrc), "drop.bad_icrc"},
    {offsetof(C, port.received.implausible), "drop.implausible_identification"},
    {offsetof(C, port.received.overflowed), "drop.socket_full"},

    {offsetof(C, connections.mads_in), "cm.messages_received"},
    {offsetof(C, connections.mads_out), "cm.messages_sent"},
    {offsetof(C, connections.repeats_out), "cm.repeats_sent"},
    {offsetof(C, connections.duplicates_in), "cm.duplicates_received"},
    {offsetof(C, connections.dropped_malformed), "cm.dropped_malformed"},
    {offsetof(C, connections.dropped_unknown), "cm.dropped_unknown"},
    {offsetof(C, connections.dropped_backlog), "cm.dropped_backlog"},
    {offsetof(C, connections.dropped_busy), "cm.dropped_busy"},
    {offsetof(C, connections.rejects_out), "cm.refusals_sent"},
    {offsetof(C, connections.stale_in), "cm.stale_received"},
    {offsetof(C, connections.time_wait_cut_short), "cm.time_wait_cut_short"},
    {offsetof(C, connections.rejects_in), "cm.refusals_received"},
    {offsetof(C, connections.established), "cm.connections_opened"},
    {offsetof(C, connections.ended), "cm.connections_ended"},
    {entered(cm::State::kReqSent), "cm.entered.req_sent"},
    {entered(cm::State::kReqReceived), "cm.entered.req_received"},
    {entered(cm::State::kRepSent), "cm.entered.rep_sent"},
    {entered(cm::State::kRepReceived), "cm.entered.rep_received"},
    {entered(cm::State::kEstablished), "cm.entered.established"},
    {entered(cm::State::kDreqSent), "cm.entered.dreq_sent"},
    {entered(cm::State::kTimeWait), "cm.entered.time_wait"},
    {entered(cm::State::kClosed), "cm.entered.closed"},
    {entered(cm::State::kSidrSent), "cm.entered.lookup_sent"},

    {offsetof(C, syncs.before_device_reads), "sync.before_device_reads"},
    {offsetof(C, syncs.after_device_wrote), "sync.after_device_wrote"},
    {offsetof(C, syncs.refused), "sync.refused"},
    {offsetof(C, syncs.lines_cleaned), "sync.lines_cleaned"},
    {offsetof(C, syncs.lines_invalidated), "sync.lines_invalidated"},
};

// Only one that is added without a name of its own could be missing: statuses have gaps.
constexpr CounterNames by_place() {
    CounterNames names{};
    for (const Named& named : kNamed) {
        names[named.offset / sizeof(Count)] = named.name;
    }
    return names;
}

constexpr std::size_t kUnusedStatuses = 1; // 3
static_assert(std::size(kNamed) == kCounters - kUnusedStatuses, "a counter has no name");

} // namespace

const CounterNames& counter_names() noexcept {
    static constexpr CounterNames kNames = by_place();
    return kNames;
}

} // namespace sluice::uroce::device
