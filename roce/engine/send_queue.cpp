// SPDX-License-Identifier: BSD-3-Clause
#include "roce/engine/send_queue.hpp"

#include <bit>

#include "core/probes.hpp"

namespace sluice::roce::engine {
namespace {

WcOpcode completion_opcode(WrOpcode opcode) noexcept {
    switch (opcode) {
    case WrOpcode::kSend:
    case WrOpcode::kSendImm:
    case WrOpcode::kSendInv:
        return WcOpcode::kSend;
    case WrOpcode::kWrite:
    case WrOpcode::kWriteImm:
        return WcOpcode::kWrite;
    case WrOpcode::kRead:
        return WcOpcode::kRead;
    case WrOpcode::kCompareSwap:
        return WcOpcode::kCompareSwap;
    case WrOpcode::kFetchAdd:
        return WcOpcode::kFetchAdd;
    case WrOpcode::kAtomicWrite:
        return WcOpcode::kAtomicWrite;
    case WrOpcode::kFlush:
        return WcOpcode::kFlush;
    case WrOpcode::kLocalInv:
        return WcOpcode::kLocalInv;
    case WrOpcode::kBindMw:
        return WcOpcode::kBindMw;
    }
    return WcOpcode::kSend;
}

// Atomics move eight bytes; operations on keys and flushes move none.
bool length_fits(WrOpcode opcode, std::uint32_t len_bytes) noexcept {
    switch (opcode) {
    case WrOpcode::kCompareSwap:
    case WrOpcode::kFetchAdd:
    case WrOpcode::kAtomicWrite:
        return len_bytes == sizeof(std::uint64_t);
    case WrOpcode::kFlush:
    case WrOpcode::kLocalInv:
    case WrOpcode::kBindMw:
        return len_bytes == 0;
    default:
        return len_bytes <= kMaxMessageBytes;
    }
}

std::uint64_t total_bytes(std::span<const Sge> sges) noexcept {
    std::uint64_t total = 0;
    for (const Sge& sge : sges) {
        total += sge.len_bytes;
    }
    return total;
}

bool inline_fits(WrOpcode opcode) noexcept {
    return opcode == WrOpcode::kSend || opcode == WrOpcode::kSendImm || opcode == WrOpcode::kSendInv ||
           opcode == WrOpcode::kWrite || opcode == WrOpcode::kWriteImm || opcode == WrOpcode::kAtomicWrite;
}

} // namespace

SendQueue::SendQueue(QpContext& context, std::uint32_t capacity, std::uint32_t max_sge,
                     std::uint32_t max_inline, bool signal_all)
    : context_(context), capacity_(capacity), mask_(std::bit_ceil(capacity) - 1),
      entries_(std::make_unique<SendEntry[]>(mask_ + 1)),
      sges_(std::make_unique<Sge[]>(std::size_t{mask_ + 1} * max_sge)),
      inline_(std::make_unique<std::uint8_t[]>(std::size_t{mask_ + 1} * max_inline)), max_sge_(max_sge),
      max_inline_(max_inline), signal_all_(signal_all) {}

SendEntry& SendQueue::stage(std::uint32_t ahead) noexcept {
    SendEntry& entry = at(tail_ + ahead);
    entry = {};
    return entry;
}

bool SendQueue::put_sges(SendEntry& entry, std::span<const Sge> sges) noexcept {
    if (sges.size() > max_sge_) {
        return false;
    }
    const std::uint64_t len_bytes = total_bytes(sges);
    if (len_bytes > kMaxMessageBytes) {
        return false;
    }
    Sge* to = sges_.get() + slot_of(entry) * max_sge_;
    std::ranges::copy(sges, to);
    entry.wr.sges = {to, sges.size()};
    entry.inline_data = nullptr;
    entry.len_bytes = static_cast<std::uint32_t>(len_bytes);
    return true;
}

bool SendQueue::put_inline(SendEntry& entry, std::span<const Sge> pieces) noexcept {
    const std::uint64_t len_bytes = total_bytes(pieces);
    if (len_bytes > max_inline_) {
        return false;
    }
    std::uint8_t* to = inline_.get() + slot_of(entry) * max_inline_;
    entry.wr.sges = {};
    entry.wr.flags |= kInline;
    entry.inline_data = to;
    entry.len_bytes = static_cast<std::uint32_t>(len_bytes);
    for (const Sge& piece : pieces) {
        if (!context_.memory.copy_out(to, piece.addr, piece.len_bytes)) {
            return false;
        }
        to += piece.len_bytes;
    }
    return true;
}

bool SendQueue::is_sound(const SendEntry& entry) noexcept {
    return length_fits(entry.wr.opcode, entry.len_bytes) &&
           (entry.inline_data == nullptr || inline_fits(entry.wr.opcode));
}

bool SendQueue::hand_out(const SendEntry& entry, std::uint32_t offset, std::uint32_t len,
                         OutPacket& out) noexcept {
    if (entry.inline_data == nullptr) {
        return context_.gather(entry.wr.sges, offset, len, out);
    }
    if (len != 0) {
        out.add_piece(reinterpret_cast<std::uintptr_t>(entry.inline_data) + offset, len);
    }
    out.payload_is_ours = true;
    return true;
}

Post SendQueue::post(const SendWr& wr) noexcept {
    if (room() == 0) {
        return Post::kFull;
    }
    SendEntry& entry = stage(0);
    entry.wr = wr;
    const bool put = (wr.flags & kInline) != 0 ? put_inline(entry, wr.sges) : put_sges(entry, wr.sges);
    if (!put || !is_sound(entry)) {
        return Post::kInvalid;
    }
    publish(1);
    return Post::kPosted;
}

void SendQueue::publish(std::uint32_t count) noexcept {
    for (const std::uint32_t end = tail_ + count; tail_ != end; ++tail_) {
        [[maybe_unused]] const SendEntry& entry = at(tail_);
        SLUICE_PROBE(post_send, context_.qpn, entry.wr.wr_id, static_cast<std::uint32_t>(entry.wr.opcode),
                     entry.len_bytes);
    }
}

void SendQueue::retire(Status status) noexcept {
    const SendEntry& entry = at(head_);
    if (status == Status::kSuccess) {
        context_.count_sent(entry.wr.opcode, entry.len_bytes);
    }
    if (signal_all_ || (entry.wr.flags & kSignaled) != 0 || status != Status::kSuccess) {
        context_.complete(context_.send_cq, {.wr_id = entry.wr.wr_id,
                                             .status = status,
                                             .opcode = completion_opcode(entry.wr.opcode),
                                             .len_bytes = entry.len_bytes});
    }
    if (context_.operation_counters.any()) [[unlikely]] {
        context_.operation_counters.count(counted_kind(entry.wr.opcode), status, entry.len_bytes);
    }
    ++head_;
}

void SendQueue::flush(Status first) noexcept {
    for (Status status = first; !empty(); status = Status::kFlushed) {
        retire(status);
    }
}

} // namespace sluice::roce::engine
