// SPDX-License-Identifier: BSD-3-Clause
//
// What programs configure. Each member may be set and read by any thread; a connection that is being made
// takes what it finds.
#pragma once

#include <atomic>
#include <cstdint>

#include "rpma/include/librpma.h"

namespace sluice::rpma {

class Srq;

struct PeerConfig {
    std::atomic<bool> direct_write_to_pmem{false};
};

struct ConnConfig {
    std::atomic<int> timeout_ms{RPMA_DEFAULT_TIMEOUT_MS};
    std::atomic<std::uint32_t> cq_size{10};
    std::atomic<std::uint32_t> rcq_size{0}; // 0: receives complete in the other queue
    std::atomic<std::uint32_t> sq_size{10};
    std::atomic<std::uint32_t> rq_size{10};
    std::atomic<std::uint32_t> max_pieces{1}; // of memory, in one request
    std::atomic<bool> has_shared_channel{false};
    std::atomic<bool> has_credits{false}; // completions are counted before a request is posted
    std::atomic<Srq*> srq{nullptr};
};

struct SrqConfig {
    std::atomic<std::uint32_t> rq_size{20};
    std::atomic<std::uint32_t> rcq_size{20}; // 0: it has none
    std::atomic<bool> has_credits{false};
};

} // namespace sluice::rpma
