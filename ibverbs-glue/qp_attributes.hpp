// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

namespace sluice::glue {

// What ibv_create_qp() takes, for ibv_create_qp_ex(), in DOMAIN.
inline ibv_qp_init_attr_ex to_extended(const ibv_qp_init_attr& attributes, ibv_pd* domain) noexcept {
    ibv_qp_init_attr_ex extended{};
    extended.qp_context = attributes.qp_context;
    extended.send_cq = attributes.send_cq;
    extended.recv_cq = attributes.recv_cq;
    extended.srq = attributes.srq;
    extended.cap = attributes.cap;
    extended.qp_type = attributes.qp_type;
    extended.sq_sig_all = attributes.sq_sig_all;
    extended.comp_mask = IBV_QP_INIT_ATTR_PD;
    extended.pd = domain;
    return extended;
}

} // namespace sluice::glue
