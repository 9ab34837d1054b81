// SPDX-License-Identifier: BSD-3-Clause
//
// The way of a connection's queue pair through its states, in the terms of verbs.
#pragma once

#include "core/result.hpp"
#include "provider/uroce/connect/management_port.hpp"

namespace sluice::uroce::cm {

// What the program wants to decide by itself.
struct LeadWishes {
    unsigned access =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    std::uint8_t min_rnr_timer = 0;
    std::uint8_t timeout = 0; // 0: as negotiated
};

struct Step {
    ibv_qp_attr attr{};
    int mask = 0;
};

Step step_to_init(const LeadWishes& wishes) noexcept;
Step step_to_rtr(const QpSettings& settings, const LeadWishes& wishes) noexcept;
Step step_to_rts(const QpSettings& settings, const LeadWishes& wishes) noexcept;

// 0 or an errno, then QP is where the last step that worked left it.
int lead_to_init(ManagementPort& port, ibv_qp& qp, const LeadWishes& wishes) noexcept;
int lead_to_rts(ManagementPort& port, ibv_qp& qp, const QpSettings& settings,
                const LeadWishes& wishes) noexcept;
void lead_to_error(ManagementPort& port, ibv_qp& qp) noexcept;

} // namespace sluice::uroce::cm
