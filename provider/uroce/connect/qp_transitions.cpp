// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/connect/qp_transitions.hpp"

namespace sluice::uroce::connect {
namespace {

constexpr std::uint8_t kPort = 1; // a device of ours has one

int take(ManagementPort& port, ibv_qp& qp, Step step) noexcept {
    return port.modify_qp(qp, step.attr, step.mask);
}

} // namespace

Step step_to_init(const TransitionOptions& options) noexcept {
    Step step;
    step.attr.qp_state = IBV_QPS_INIT;
    step.attr.port_num = kPort;
    step.attr.qp_access_flags = options.access;
    step.mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    return step;
}

Step step_to_rtr(const cm::QpSettings& settings, const TransitionOptions& options,
                 const ManagementPort& port) noexcept {
    Step step;
    ibv_qp_attr& attr = step.attr;
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = static_cast<ibv_mtu>(settings.path_mtu);
    attr.dest_qp_num = settings.dest_qpn;
    attr.rq_psn = settings.recv_psn;
    attr.max_dest_rd_atomic = settings.max_dest_rd_atomic;
    attr.min_rnr_timer = options.min_rnr_timer;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = kPort;
    std::ranges::copy(settings.remote.gid, attr.ah_attr.grh.dgid.raw);
    attr.ah_attr.grh.sgid_index = port.gid_index(settings.local);
    attr.ah_attr.grh.hop_limit = settings.hop_limit;
    attr.ah_attr.grh.traffic_class = settings.traffic_class;
    attr.ah_attr.grh.flow_label = settings.flow_label;
    step.mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    return step;
}

Step step_to_rts(const cm::QpSettings& settings, const TransitionOptions& options) noexcept {
    Step step;
    ibv_qp_attr& attr = step.attr;
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = settings.send_psn;
    attr.timeout = options.timeout != 0 ? options.timeout : settings.timeout;
    attr.retry_cnt = settings.retry_count;
    attr.rnr_retry = settings.rnr_retry;
    attr.max_rd_atomic = settings.max_rd_atomic;
    step.mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                IBV_QP_MAX_QP_RD_ATOMIC;
    return step;
}

int move_to_init(ManagementPort& port, ibv_qp& qp, const TransitionOptions& options) noexcept {
    // A program that brought it there by itself meant what it said.
    return qp.state == IBV_QPS_INIT ? 0 : take(port, qp, step_to_init(options));
}

int move_to_rts(ManagementPort& port, ibv_qp& qp, const cm::QpSettings& settings,
                const TransitionOptions& options) noexcept {
    if (const int error = move_to_init(port, qp, options); error != 0) {
        return error;
    }
    const int error = take(port, qp, step_to_rtr(settings, options, port));
    return error != 0 ? error : take(port, qp, step_to_rts(settings, options));
}

void move_to_error(ManagementPort& port, ibv_qp& qp) noexcept {
    Step step;
    step.attr.qp_state = IBV_QPS_ERR;
    step.mask = IBV_QP_STATE;
    (void)take(port, qp, step); // one that is in error already, or was reset, is where it shall be
}

} // namespace sluice::uroce::connect
