// SPDX-License-Identifier: BSD-3-Clause
//
// Send work requests from post to completion, oldest first. Requests are named by a number that
// counts up forever, so that "before" and "after" need no ring arithmetic. Not thread safe.
#pragma once

#include "provider/uroce/engine/context.hpp"

namespace sluice::uroce {

struct SendEntry {
    SendWr wr; // its sges lie in the queue's own array
    std::uint32_t len_bytes = 0;
    const std::uint8_t* inline_data = nullptr; // instead of sges
    std::uint32_t first_psn = 0;
    std::uint32_t packets = 0; // sequence numbers that it takes, for a read those of the response
    bool in_flight = false;    // counts against max_rd_atomic
    bool done = false;         // local operations

    bool is_local() const noexcept {
        return wr.opcode == WrOpcode::kLocalInv || wr.opcode == WrOpcode::kBindMw;
    }
    // Answered by more than an acknowledgement.
    bool needs_response() const noexcept {
        switch (wr.opcode) {
        case WrOpcode::kRead:
        case WrOpcode::kCompareSwap:
        case WrOpcode::kFetchAdd:
        case WrOpcode::kAtomicWrite:
        case WrOpcode::kFlush:
            return true;
        default:
            return false;
        }
    }
};

class SendQueue {
  public:
    SendQueue(QpContext& context, std::uint32_t capacity, std::uint32_t max_sge, std::uint32_t max_inline,
              bool signal_all);

    // Copies the request, and with kInline its data.
    Post post(const SendWr& wr) noexcept;

    std::uint32_t head() const noexcept { return head_; }
    std::uint32_t tail() const noexcept { return tail_; }
    bool empty() const noexcept { return head_ == tail_; }
    SendEntry& at(std::uint32_t number) noexcept { return entries_[number & mask_]; }

    // Ends the oldest request.
    void retire(Status status) noexcept;
    // Ends all of them: the oldest with FIRST, the others flushed.
    void flush(Status first) noexcept;
    void clear() noexcept { head_ = tail_; }

  private:
    QpContext& context_;
    std::uint32_t capacity_;
    std::uint32_t mask_;
    std::unique_ptr<SendEntry[]> entries_;
    std::unique_ptr<Sge[]> sges_;
    std::unique_ptr<std::uint8_t[]> inline_;
    std::uint32_t max_sge_;
    std::uint32_t max_inline_;
    bool signal_all_;
    std::uint32_t head_ = 0;
    std::uint32_t tail_ = 0;
};

} // namespace sluice::uroce
