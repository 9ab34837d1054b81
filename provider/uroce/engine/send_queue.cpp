// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/engine/send_queue.hpp"

#include <bit>
#include <cstring>

namespace sluice::uroce {
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
bool length_fits(const SendWr& wr, std::uint64_t len_bytes) noexcept {
    switch (wr.opcode) {
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

Post SendQueue::post(const SendWr& wr) noexcept {
    std::uint64_t len_bytes = 0;
    for (const Sge& sge : wr.sges) {
        len_bytes += sge.len_bytes;
    }
    const bool is_inline = (wr.flags & kInline) != 0;
    if (!length_fits(wr, len_bytes) ||
        (is_inline ? len_bytes > max_inline_ || !inline_fits(wr.opcode) : wr.sges.size() > max_sge_)) {
        return Post::kInvalid;
    }
    if (tail_ - head_ == capacity_) {
        return Post::kFull;
    }
    SendEntry& entry = at(tail_);
    entry = {.wr = wr, .len_bytes = static_cast<std::uint32_t>(len_bytes)};
    if (is_inline) {
        std::uint8_t* to = inline_.get() + std::size_t{tail_ & mask_} * max_inline_;
        entry.inline_data = to;
        for (const Sge& sge : wr.sges) {
            if (!context_.memory.copy_out(to, sge.addr, sge.len_bytes)) {
                return Post::kInvalid;
            }
            to += sge.len_bytes;
        }
        entry.wr.sges = {};
    } else {
        Sge* to = sges_.get() + std::size_t{tail_ & mask_} * max_sge_;
        std::ranges::copy(wr.sges, to);
        entry.wr.sges = {to, wr.sges.size()};
    }
    ++tail_;
    return Post::kPosted;
}

void SendQueue::retire(Status status) noexcept {
    const SendEntry& entry = at(head_);
    if (signal_all_ || (entry.wr.flags & kSignaled) != 0 || status != Status::kSuccess) {
        context_.complete(context_.send_cq, {.wr_id = entry.wr.wr_id,
                                             .status = status,
                                             .opcode = completion_opcode(entry.wr.opcode),
                                             .len_bytes = entry.len_bytes});
    }
    ++head_;
}

void SendQueue::flush(Status first) noexcept {
    for (Status status = first; !empty(); status = Status::kFlushed) {
        retire(status);
    }
}

} // namespace sluice::uroce
