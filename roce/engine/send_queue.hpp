// SPDX-License-Identifier: BSD-3-Clause
//
// Send work requests from post to completion, oldest first. Requests are named by a number that
// counts up forever, so that "before" and "after" need no ring arithmetic. Not thread safe.
#pragma once

#include "roce/engine/context.hpp"

namespace sluice::roce::engine {

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
    // It touches the peer's memory and nothing else of it.
    bool is_one_sided() const noexcept {
        return wr.opcode == WrOpcode::kWrite || wr.opcode == WrOpcode::kRead;
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

    // Building in place. The request AHEAD of the last is nobody's before publish(), so that it may be
    // filled without what protects the queue otherwise; there is room for it.
    std::uint32_t room() const noexcept { return capacity_ - (tail_ - head_); }
    SendEntry& stage(std::uint32_t ahead) noexcept;
    // Its data, by reference or copied. False: too much, or the memory can't be read.
    bool put_sges(SendEntry& entry, std::span<const Sge> sges) noexcept;
    bool put_inline(SendEntry& entry, std::span<const Sge> pieces) noexcept;
    // Whether length and operation fit each other.
    static bool is_sound(const SendEntry& entry) noexcept;
    // LEN bytes of a request's data from OFFSET on. False: a key doesn't fit, or a page is gone.
    bool hand_out(const SendEntry& entry, std::uint32_t offset, std::uint32_t len, OutPacket& out) noexcept;
    void publish(std::uint32_t count) noexcept;

    std::uint32_t head() const noexcept { return head_; }
    std::uint32_t tail() const noexcept { return tail_; }
    bool empty() const noexcept { return head_ == tail_; }
    std::size_t slot_of(const SendEntry& entry) const noexcept {
        return static_cast<std::size_t>(&entry - entries_.get());
    }
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

} // namespace sluice::roce::engine
