// SPDX-License-Identifier: BSD-3-Clause
//
// The services and ports at which programs listen, and how many requests wait at each.
//
// Not thread safe.
#pragma once

#include <array>
#include <vector>

#include "core/result.hpp"
#include "roce/cm/connection.hpp"
#include "roce/cm/random_numbers.hpp"

namespace sluice::roce::cm {

struct Listener {
    ListenParams params;
    std::uint32_t id = 0; // 0: free
    std::uint32_t pending = 0;

    bool has_room() const noexcept { return pending < params.backlog; }
};

class Listeners {
  public:
    // CLAIMS may be null.
    Listeners(std::uint32_t most, PortClaims* claims) : listeners_(most), claims_(claims) {}

    Result<ListenerId> add(const ListenParams& params);
    // Requests that wait there keep the place taken until they are answered.
    void remove(ListenerId id, engine::Nanoseconds now) noexcept;
    // Whether the last listener of SERVICE_ID was removed a moment ago. Of many, the last few are known.
    bool was_removed_just_now(std::uint64_t service_id, engine::Nanoseconds now) const noexcept;
    // The listener of SERVICE_ID at LOCAL; null if there is none.
    Listener* find(std::uint64_t service_id, const engine::Address& local) noexcept;
    // A port of rdma_cm's PORT_SPACE at which nobody listens.
    Result<std::uint16_t> free_port(std::uint16_t port_space, RandomNumbers& random) const noexcept;

    // REQUEST waits at LISTENER until leave().
    void enter(Listener& listener, Connection& request) noexcept;
    // Nothing happens for a connection that waits nowhere.
    void leave(Connection& request) noexcept;

  private:
    bool has(std::uint64_t service_id) const noexcept;
    void give_up(const ListenParams& params) noexcept;

    std::vector<Listener> listeners_;
    PortClaims* claims_;
    std::uint32_t next_id_ = 1;
    struct Removed {
        std::uint64_t service_id = 0;
        engine::Nanoseconds when = 0;
    };
    std::array<Removed, 16> removed_{};
    std::uint32_t removed_count_ = 0;
};

} // namespace sluice::roce::cm
