// SPDX-License-Identifier: BSD-3-Clause
//
// Packets from other devices of this process that came while somebody held ours. Of fixed size:
// what doesn't fit is lost, as a network would lose it. Its memory is touched as it is used.
//
// Any thread puts; only the holder of the device's lock takes.
#pragma once

#include <atomic>
#include <memory>

#include "core/sync.hpp"
#include "provider/uroce/roce.hpp"
#include "roce/engine/out_packet.hpp"

namespace sluice::uroce::device {

inline constexpr std::uint32_t kMaxPayloadBytes = 4096;

class Inbox {
  public:
    struct Entry {
        wire::Packet packet; // its payload lies in the inbox
        engine::Address source;
        engine::Address destination;
    };

    Inbox()
        : entries_(std::make_unique<Entry[]>(kEntries)),
          bytes_(std::make_unique_for_overwrite<std::uint8_t[]>(std::size_t{kEntries} * kMaxPayloadBytes)) {}

    // PAYLOAD has at most kMaxPayloadBytes. False: it is full.
    bool put(const engine::OutPacket& packet, wire::ConstBytes payload) noexcept {
        const LockGuard guard(putting_);
        const std::uint32_t at = put_.load(std::memory_order_relaxed);
        if (at - taken_.load(std::memory_order_acquire) == kEntries) {
            return false;
        }
        std::uint8_t* to = bytes_.get() + std::size_t{at % kEntries} * kMaxPayloadBytes;
        std::copy(payload.begin(), payload.end(), to);
        Entry& entry = entries_[at % kEntries];
        entry.packet = packet.packet;
        entry.packet.payload = {to, payload.size()};
        entry.source = packet.source;
        entry.destination = packet.destination;
        put_.store(at + 1, std::memory_order_release); // partner: acquire in front()
        return true;
    }

    // The oldest, or null; it stays until pop().
    const Entry* front() const noexcept {
        const std::uint32_t at = taken_.load(std::memory_order_relaxed);
        return at == put_.load(std::memory_order_acquire) ? nullptr : &entries_[at % kEntries];
    }
    void pop() noexcept {
        // Partner: acquire in put().
        taken_.store(taken_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }

  private:
    static constexpr std::uint32_t kEntries = 256; // two windows of a requester

    std::unique_ptr<Entry[]> entries_;
    std::unique_ptr<std::uint8_t[]> bytes_;
    SpinLock putting_;
    std::atomic<std::uint32_t> put_{0};
    std::atomic<std::uint32_t> taken_{0};
};

} // namespace sluice::uroce::device
