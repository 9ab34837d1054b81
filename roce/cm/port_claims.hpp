// SPDX-License-Identifier: BSD-3-Clause
//
// The seam to the other processes of an address: all of them share rdma_cm's ports, as the sockets of a host
// do.
#pragma once

#include <cstdint>

#include "roce/engine/types.hpp"

namespace sluice::roce::cm {

// As long as a process that has the device open may take until it listens.
inline constexpr engine::Nanoseconds kTimeToBegin = 2'000'000'000;

class PortClaims {
  public:
    PortClaims() = default;
    PortClaims(const PortClaims&) = delete;
    PortClaims& operator=(const PortClaims&) = delete;

    // SERVICE is a service id, of whatever kind; LOCAL an address of the device, or all zeros for all of
    // them. False: another process listens there.
    virtual bool claim(std::uint64_t service, const engine::Address& local) noexcept = 0;
    // Whether any process listens there at all addresses.
    virtual bool is_claimed_everywhere(std::uint64_t service) const noexcept = 0;
    // Whether no process of the address has had its device open for kTimeToBegin.
    virtual bool may_all_claim_soon() const noexcept = 0;
    // Of one that was claimed.
    virtual void release(std::uint64_t service, const engine::Address& local) noexcept = 0;

  protected:
    ~PortClaims() = default;
};

} // namespace sluice::roce::cm
