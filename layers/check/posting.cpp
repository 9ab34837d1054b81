// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/posting.hpp"

#include <algorithm>
#include <cerrno>

#include "layers/check/buffers.hpp"
#include "layers/check/operation_rules.hpp"
#include "layers/check/post_rules.hpp"
#include "layers/check/vain_polls.hpp"
#include "layers/check/waits.hpp"

namespace sluice::layers::check {

namespace {

Kind kind_of(ibv_wr_opcode opcode) noexcept {
    switch (opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_SEND_WITH_INV:
    case IBV_WR_TSO:
        return Kind::kSend;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return Kind::kWrite;
    case IBV_WR_RDMA_READ:
        return Kind::kRead;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return Kind::kAtomic;
    case IBV_WR_BIND_MW:
        return Kind::kBind;
    case IBV_WR_LOCAL_INV:
        return Kind::kInvalidate;
    default:
        return Kind::kOther;
    }
}

// A completion more may come to QUEUE.
void owe(Queue& queue) noexcept {
    queue.owed.fetch_add(1, std::memory_order_relaxed);
}

std::size_t bytes_of(std::span<const ibv_sge> pieces) noexcept {
    std::size_t bytes = 0;
    for (const ibv_sge& piece : pieces) {
        bytes += piece.length;
    }
    return bytes;
}

// What takes a place away from the oldest request also takes its completion.
Request& add_to(Requests& requests, Queue& queue) noexcept {
    const std::size_t before = requests.owed();
    if (requests.is_full()) {
        buffers::release(requests[0]); // the device has more places than it has granted
    }
    Request& added = requests.add();
    queue.owed.fetch_sub(static_cast<std::uint32_t>(before - requests.owed()), std::memory_order_relaxed);
    return added;
}

void take_back(Requests& requests, Queue& queue, std::size_t count) noexcept {
    const std::size_t before = requests.owed();
    for (std::size_t i = 0; i < count && i < requests.size(); ++i) {
        buffers::release(requests[requests.size() - 1 - i]);
    }
    requests.drop_youngest(count);
    queue.owed.fetch_sub(static_cast<std::uint32_t>(before - requests.owed()), std::memory_order_relaxed);
}

void take_receive(const Owner& owner, Request& request, const ibv_recv_wr& posted, Place place) noexcept {
    request.id = posted.wr_id;
    request.posted = place;
    request.kind = Kind::kReceive;
    request.has_completion = true;
    take_pieces(owner, request, {posted.sg_list, static_cast<std::size_t>(std::max(posted.num_sge, 0))},
                true);
}

} // namespace

void prepare_send(QueuePair& pair, const SendParts& parts, Place place) noexcept {
    Request& request = add_to(pair.sends, *pair.send_queue);
    request.id = parts.id;
    request.posted = place;
    request.kind = kind_of(parts.opcode);
    request.has_completion = pair.signals_all || (parts.flags & IBV_SEND_SIGNALED) != 0;
    request.is_inline = (parts.flags & IBV_SEND_INLINE) != 0 || parts.inline_bytes != 0;
    request.arrivals = pair.arrivals.load(std::memory_order_relaxed);
    request.address_handle = parts.address_handle;
    request.remote_address = parts.remote_address;
    request.remote_key = parts.remote_key;
    const std::span<const ibv_sge> pieces(parts.pieces, parts.count);
    const bool is_written_to = request.kind == Kind::kRead || request.kind == Kind::kAtomic;
    check_process(pair, request);
    check_failure(pair, request);
    check_alignment(pair, request);
    check_target(pair, request);
    check_refusal(pair, request, parts.inline_bytes + bytes_of(pieces));
    check_reads(pair, request);
    check_count(pair, request, pieces.size(), pair.max_send_pieces);
    check_inline_kind(pair, request);
    check_inline(pair, request, parts.inline_bytes + bytes_of(pieces));
    check_result(pair, request, bytes_of(pieces));
    if (parts.bind != nullptr) {
        check_bind(pair, request, *parts.bind);
    }
    if (!request.is_inline) {
        take_pieces(owner_of(pair), request, pieces, is_written_to);
        check_sent_before_read(pair, request, parts.flags);
    }
    check_reclaim(pair, request);
    take_post(*pair.send_queue);
    take_sending(*pair.send_queue);
    take_post(*pair.receive_queue);
    pair.sends.count_owed(request);
    if (request.has_completion) {
        owe(*pair.send_queue);
    }
    buffers::hold(request);
}

SendParts parts_of(const QueuePair& pair, const ibv_send_wr& posted) noexcept {
    SendParts parts{.opcode = posted.opcode,
                    .id = posted.wr_id,
                    .flags = posted.send_flags,
                    .pieces = posted.sg_list,
                    .count = static_cast<std::size_t>(std::max(posted.num_sge, 0))};
    const Kind kind = kind_of(posted.opcode);
    if (kind == Kind::kAtomic) {
        parts.remote_address = posted.wr.atomic.remote_addr;
        parts.remote_key = posted.wr.atomic.rkey;
    } else if (kind == Kind::kWrite || kind == Kind::kRead) {
        parts.remote_address = posted.wr.rdma.remote_addr;
        parts.remote_key = posted.wr.rdma.rkey;
    } else if (pair.type == IBV_QPT_UD) {
        parts.address_handle = posted.wr.ud.ah;
        parts.remote_number = posted.wr.ud.remote_qpn;
        parts.remote_q_key = posted.wr.ud.remote_qkey;
    }
    if (posted.opcode == IBV_WR_TSO || kind == Kind::kBind || kind == Kind::kInvalidate) {
        parts.count = 0; // others than memory that is registered as it is
        parts.bind = kind == Kind::kBind ? &posted.bind_mw.bind_info : nullptr;
    }
    return parts;
}

void prepare_send(QueuePair& pair, const ibv_send_wr& posted, Place place) noexcept {
    prepare_send(pair, parts_of(pair, posted), place);
}

void prepare_receive(QueuePair& pair, const ibv_recv_wr& posted, Place place) noexcept {
    Request& request = add_to(pair.receives, *pair.receive_queue);
    take_receive(owner_of(pair), request, posted, place);
    check_count(pair, request, static_cast<std::size_t>(std::max(posted.num_sge, 0)),
                pair.max_receive_pieces);
    check_one_buffer(owner_of(pair), pair.receives, request);
    pair.receives.count_owed(request);
    owe(*pair.receive_queue);
    buffers::hold(request);
}

void prepare_receive(SharedQueue& queue, const ibv_recv_wr& posted, Place place) noexcept {
    if (queue.requests.is_full()) {
        buffers::release(queue.requests[0]);
    }
    Request& request = queue.requests.add();
    take_receive(owner_of(queue), request, posted, place);
    check_one_buffer(owner_of(queue), queue.requests, request);
    queue.requests.count_owed(request);
    buffers::hold(request);
}

void take_back_sends(QueuePair& pair, std::size_t count, int error) noexcept {
    if (count != 0 && count <= pair.sends.size()) {
        const Request& first = pair.sends[pair.sends.size() - count];
        check_refused(pair, first, error, IBV_QPS_RTS);
        if (error == ENOMEM && pair.sends.size() - count >= pair.sends.granted()) {
            check_full(owner_of(pair), first, pair.sends.granted(), pair.made);
        }
    }
    take_back(pair.sends, *pair.send_queue, count);
}

void take_back_sends(QueuePair& pair, std::size_t count) noexcept {
    take_back(pair.sends, *pair.send_queue, count);
}

void take_back_receives(QueuePair& pair, std::size_t count, int error) noexcept {
    if (count != 0 && count <= pair.receives.size()) {
        const Request& first = pair.receives[pair.receives.size() - count];
        check_refused(pair, first, error, IBV_QPS_INIT);
        if (error == ENOMEM && pair.receives.size() - count >= pair.receives.granted()) {
            check_full(owner_of(pair), first, pair.receives.granted(), pair.made);
        }
    }
    take_back(pair.receives, *pair.receive_queue, count);
}

void take_back_receives(SharedQueue& queue, std::size_t count, int error) noexcept {
    // Others, among those that are kept, may have ended before the oldest.
    if (count != 0 && count <= queue.requests.size() && error == ENOMEM &&
        queue.requests.owed() - count >= queue.requests.granted()) {
        const Request& first = queue.requests[queue.requests.size() - count];
        check_full(owner_of(queue), first, queue.requests.granted(), queue.made);
    }
    for (std::size_t i = 0; i < count && i < queue.requests.size(); ++i) {
        buffers::release(queue.requests[queue.requests.size() - 1 - i]);
    }
    queue.requests.drop_youngest(count);
}

} // namespace sluice::layers::check
