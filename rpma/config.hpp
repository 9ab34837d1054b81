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

// One that copies as it is found.
template<typename T>
class Setting : public std::atomic<T> {
  public:
    constexpr Setting(T value) noexcept : std::atomic<T>(value) {} // NOLINT(google-explicit-constructor)
    Setting(const Setting& other) noexcept : std::atomic<T>(other.load()) {}
    Setting& operator=(const Setting&) = delete;
    using std::atomic<T>::operator=;
};

struct PeerConfig {
    Setting<bool> direct_write_to_pmem{false};
};

struct ConnConfig {
    Setting<int> timeout_ms{RPMA_DEFAULT_TIMEOUT_MS};
    Setting<std::uint32_t> cq_size{10};
    Setting<std::uint32_t> rcq_size{0}; // 0: receives complete in the other queue
    Setting<std::uint32_t> sq_size{10};
    Setting<std::uint32_t> rq_size{10};
    Setting<std::uint32_t> max_pieces{1}; // of memory, in one request
    Setting<bool> has_shared_channel{false};
    Setting<bool> has_credits{false}; // completions are counted before a request is posted
    Setting<Srq*> srq{nullptr};
};

struct SrqConfig {
    Setting<std::uint32_t> rq_size{20};
    Setting<std::uint32_t> rcq_size{20}; // 0: it has none
    Setting<bool> has_credits{false};
};

} // namespace sluice::rpma
