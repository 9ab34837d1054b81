// SPDX-License-Identifier: BSD-3-Clause
//
// What peers say. Nothing here trusts a byte: a message counts for a connection only if it comes
// from that connection's peer and names both ids, as far as both are known by then.
//
// Not thread safe.
#pragma once

#include <array>

#include "roce/cm/lifecycle.hpp"

namespace sluice::roce::cm {

class Receiver {
  public:
    Receiver(const ManagerConfig& config, ManagerCounters& counters, RandomNumbers& random,
             Listeners& listeners, Connections& connections, Lifecycle& lifecycle) noexcept
        : config_(config), counters_(counters), random_(random), listeners_(listeners),
          connections_(connections), lifecycle_(lifecycle) {}

    void receive(const engine::Address& source, const engine::Address& destination,
                 std::span<const std::uint8_t> mad, engine::Nanoseconds now) noexcept;

  private:
    // Where a message came from, to answer there.
    struct In {
        const engine::Address& source;
        const engine::Address& destination;
        std::uint64_t tid;
        engine::Nanoseconds now;
    };
    struct Ids {
        std::uint32_t ours;
        std::uint32_t theirs;
    };

    void on(const wire::CmReq& req, const In& in) noexcept;
    void on(const wire::CmMra& mra, const In& in) noexcept;
    void on(const wire::CmRej& rej, const In& in) noexcept;
    void on(const wire::CmRep& rep, const In& in) noexcept;
    void on(const wire::CmRtu& rtu, const In& in) noexcept;
    void on(const wire::CmDreq& dreq, const In& in) noexcept;
    void on(const wire::CmDrep& drep, const In& in) noexcept;
    void on(const wire::CmSidrReq& req, const In& in) noexcept;
    void on(const wire::CmSidrRep& rep, const In& in) noexcept;
    void on(const wire::CmLap& lap, const In& in) noexcept;
    void on(const wire::CmApr& apr, const In& in) noexcept;
    Connection* find_exact(std::uint32_t ours, std::uint32_t theirs, const In& in) const noexcept;
    Connection* find_request(std::uint32_t remote_comm_id, bool datagram, const In& in) noexcept;
    Connection* rejected_by(const wire::CmRej& rej, const In& in) const noexcept;
    Connection* make_passive(Listener& listener, std::uint32_t remote_comm_id, const In& in) noexcept;
    bool may_listen_soon(std::uint64_t service_id, std::uint32_t remote_comm_id, const In& in) noexcept;
    bool asks_since_just_now(std::uint32_t remote_comm_id, const In& in) noexcept;
    std::uint16_t problem_of(const wire::CmReq& req, const wire::CmPath& path, const In& in) const noexcept;
    void take_request(Connection& c, const wire::CmReq& req, const wire::CmPath& path) noexcept;
    void repeat_request(Connection& c, const In& in) noexcept;
    bool try_smaller_mtu(Connection& c, const wire::CmRej& rej, const In& in) noexcept;
    void take_reply(Connection& c, const wire::CmRep& rep, const In& in) noexcept;
    void repeat_reply(Connection& c, const wire::CmRep& rep, const In& in) noexcept;
    void doubt(Connection& c, engine::Nanoseconds now) noexcept;
    void refuse(const In& in, const Ids& ids, Refused message, std::uint16_t why,
                std::span<const std::uint8_t> info = {}) noexcept;
    void refuse_sidr(const In& in, const wire::CmSidrReq& req) noexcept;

    const ManagerConfig& config_;
    ManagerCounters& counters_;
    RandomNumbers& random_;
    Listeners& listeners_;
    Connections& connections_;
    Lifecycle& lifecycle_;

    // Requests for what nobody listens at, the last few.
    struct Unheard {
        engine::Address source;
        std::uint64_t tid = 0;
        std::uint32_t remote_comm_id = 0;
        engine::Nanoseconds since = 0;
    };
    std::array<Unheard, 128> unheard_{};
    std::uint32_t unheard_count_ = 0;
};

} // namespace sluice::roce::cm
