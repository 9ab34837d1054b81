// SPDX-License-Identifier: BSD-3-Clause
//
// The way of a connection's queue pair through its states, in the terms of verbs.
#pragma once

#include "core/result.hpp"
#include "provider/uroce/connect/management_port.hpp"
#include "provider/uroce/roce.hpp"

namespace sluice::uroce::connect {

// What the program wants to decide by itself.
struct TransitionOptions {
    unsigned access =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    std::uint8_t min_rnr_timer = 0;
    std::uint8_t timeout = 0; // 0: as negotiated
};

struct Step {
    ibv_qp_attr attr{};
    int mask = 0;
};

Step step_to_init(const TransitionOptions& options) noexcept;
Step step_to_rtr(const cm::QpSettings& settings, const TransitionOptions& options,
                 const ManagementPort& port) noexcept;
Step step_to_rts(const cm::QpSettings& settings, const TransitionOptions& options) noexcept;

// 0 or an errno, then QP is where the last step that worked left it.
int move_to_init(ManagementPort& port, ibv_qp& qp, const TransitionOptions& options) noexcept;
int move_to_rts(ManagementPort& port, ibv_qp& qp, const cm::QpSettings& settings,
                const TransitionOptions& options) noexcept;
void move_to_error(ManagementPort& port, ibv_qp& qp) noexcept;

} // namespace sluice::uroce::connect
