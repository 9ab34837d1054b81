// SPDX-License-Identifier: BSD-3-Clause
//
// Where datagrams go, until their completions are polled: a request's element of the ring may be used again
// before that.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace sluice::provider::rxe {

// A header's seventh byte names what follows it; the aligned word that has this byte ends here at the latest.
constexpr std::uint64_t kNextHeader = 6;
constexpr std::uint32_t kBytesLookedAt = kNextHeader + sizeof(std::uint32_t);

// Where the receive requests of a queue pair want their datagrams. They complete in the order in which they
// were posted. Nothing here is memory that anybody promised to keep: a place may be a device's address, or
// given back.
class HeaderPlaces {
  public:
    // For so many requests that wait, and so many completions that nobody has polled. Null without memory.
    static std::unique_ptr<HeaderPlaces> make(std::uint32_t requests, std::uint32_t completions) noexcept;

    // One thread at a time, and before the kernel sees the request.
    void note(const ibv_recv_wr& wr) noexcept;
    // The place of the next request of that name, or 0; those in front of it ended in another way. One thread
    // at a time, also with forget().
    std::uint64_t find(std::uint64_t wr_id) noexcept;
    // All of them, when the queue pair is reset.
    void forget() noexcept { found_ = noted_.load(std::memory_order_acquire); }

  private:
    struct Place {
        std::atomic<std::uint64_t> wr_id;
        std::atomic<std::uint64_t> address;
    };

    std::unique_ptr<Place[]> places_;
    std::uint32_t mask_ = 0;
    std::atomic<std::uint32_t> noted_{0};
    std::uint32_t found_ = 0;
};

} // namespace sluice::provider::rxe
