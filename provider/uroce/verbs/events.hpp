// SPDX-License-Identifier: BSD-3-Clause
//
// Asynchronous events of one context: from the engine to ibv_get_async_event().
#pragma once

#include <infiniband/verbs.h>

#include <atomic>

#include "provider/uroce/roce.hpp"
#include "roce/engine/ring.hpp"
#include "roce/engine/types.hpp"

namespace sluice::uroce::verbs {

// Guarded by the device's lock, but for pending().
class AsyncEvents {
  public:
    // FD is the context's async_fd, which libibverbs closes.
    explicit AsyncEvents(int fd) : fd_(fd), waiting_(kMostWaiting) {}

    // False: lost, because nobody has read thousands of others.
    bool report(const void* element, ibv_event_type type) noexcept;
    bool report_of_port(std::uint8_t port, ibv_event_type type) noexcept;
    // Takes back what of ELEMENT wasn't read; how many they were.
    std::uint32_t forget(const void* element) noexcept;
    // Somebody has read one: there is room for those that wait.
    void refill() noexcept;
    bool pending() const noexcept { return pending_.load(std::memory_order_relaxed); }

  private:
    static constexpr std::uint32_t kMostWaiting = 4096;
    // As libibverbs reads it.
    struct Record {
        std::uint64_t element = 0;
        std::uint32_t type = 0;
        std::uint32_t reserved = 0;
    };
    static_assert(sizeof(Record) == 16);

    bool report(const Record& record) noexcept;

    const int fd_;
    engine::Ring<Record> waiting_; // what didn't fit into the socket
    std::atomic<bool> pending_{false};
};

} // namespace sluice::uroce::verbs
