// SPDX-License-Identifier: BSD-3-Clause
//
// Queue pairs and shared receive queues as far as they are commands: state, multicast, queries.
#include <cstring>

#include "provider/common/objects.hpp"
#include "provider/common/verbs.hpp"

namespace sluice::provider {

namespace {

void to_kernel(const ibv_ah_attr& from, ib_uverbs_qp_dest& to) noexcept {
    std::memcpy(to.dgid, from.grh.dgid.raw, sizeof to.dgid);
    to.flow_label = from.grh.flow_label;
    to.dlid = from.dlid;
    to.sgid_index = from.grh.sgid_index;
    to.hop_limit = from.grh.hop_limit;
    to.traffic_class = from.grh.traffic_class;
    to.sl = from.sl;
    to.src_path_bits = from.src_path_bits;
    to.static_rate = from.static_rate;
    to.is_global = from.is_global;
    to.port_num = from.port_num;
}

void from_kernel(const ib_uverbs_qp_dest& from, ibv_ah_attr& to) noexcept {
    std::memcpy(to.grh.dgid.raw, from.dgid, sizeof from.dgid);
    to.grh.flow_label = from.flow_label;
    to.dlid = from.dlid;
    to.grh.sgid_index = from.sgid_index;
    to.grh.hop_limit = from.hop_limit;
    to.grh.traffic_class = from.traffic_class;
    to.sl = from.sl;
    to.src_path_bits = from.src_path_bits;
    to.static_rate = from.static_rate;
    to.is_global = from.is_global;
    to.port_num = from.port_num;
}

void convert(const ib_uverbs_query_qp_resp& from, ibv_qp_attr& to) noexcept {
    to.qp_state = static_cast<ibv_qp_state>(from.qp_state);
    to.cur_qp_state = static_cast<ibv_qp_state>(from.cur_qp_state);
    to.path_mtu = static_cast<ibv_mtu>(from.path_mtu);
    to.path_mig_state = static_cast<ibv_mig_state>(from.path_mig_state);
    to.qkey = from.qkey;
    to.rq_psn = from.rq_psn;
    to.sq_psn = from.sq_psn;
    to.dest_qp_num = from.dest_qp_num;
    to.qp_access_flags = from.qp_access_flags;
    to.pkey_index = from.pkey_index;
    to.alt_pkey_index = from.alt_pkey_index;
    to.sq_draining = from.sq_draining;
    to.max_rd_atomic = from.max_rd_atomic;
    to.max_dest_rd_atomic = from.max_dest_rd_atomic;
    to.min_rnr_timer = from.min_rnr_timer;
    to.port_num = from.port_num;
    to.timeout = from.timeout;
    to.retry_cnt = from.retry_cnt;
    to.rnr_retry = from.rnr_retry;
    to.alt_port_num = from.alt_port_num;
    to.alt_timeout = from.alt_timeout;
    to.cap.max_send_wr = from.max_send_wr;
    to.cap.max_recv_wr = from.max_recv_wr;
    to.cap.max_send_sge = from.max_send_sge;
    to.cap.max_recv_sge = from.max_recv_sge;
    to.cap.max_inline_data = from.max_inline_data;
    from_kernel(from.dest, to.ah_attr);
    from_kernel(from.alt_dest, to.alt_ah_attr);
}

} // namespace

int modify_qp_in_kernel(ibv_qp* qp, const ibv_qp_attr& attr, int mask) noexcept {
    ib_uverbs_modify_qp command{};
    to_kernel(attr.ah_attr, command.dest);
    to_kernel(attr.alt_ah_attr, command.alt_dest);
    command.qp_handle = qp->handle;
    command.attr_mask = static_cast<std::uint32_t>(mask);
    command.qkey = attr.qkey;
    command.rq_psn = attr.rq_psn;
    command.sq_psn = attr.sq_psn;
    command.dest_qp_num = attr.dest_qp_num;
    command.qp_access_flags = attr.qp_access_flags;
    command.pkey_index = attr.pkey_index;
    command.alt_pkey_index = attr.alt_pkey_index;
    command.qp_state = static_cast<std::uint8_t>(attr.qp_state);
    command.cur_qp_state = static_cast<std::uint8_t>(attr.cur_qp_state);
    command.path_mtu = static_cast<std::uint8_t>(attr.path_mtu);
    command.path_mig_state = static_cast<std::uint8_t>(attr.path_mig_state);
    command.en_sqd_async_notify = attr.en_sqd_async_notify;
    command.max_rd_atomic = attr.max_rd_atomic;
    command.max_dest_rd_atomic = attr.max_dest_rd_atomic;
    command.min_rnr_timer = attr.min_rnr_timer;
    command.port_num = attr.port_num;
    command.timeout = attr.timeout;
    command.retry_cnt = attr.retry_cnt;
    command.rnr_retry = attr.rnr_retry;
    command.alt_port_num = attr.alt_port_num;
    command.alt_timeout = attr.alt_timeout;
    return context_of(qp->context).uverbs.invoke(IB_USER_VERBS_CMD_MODIFY_QP, command);
}

int query_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init_attr) noexcept {
    ib_uverbs_query_qp command{};
    command.qp_handle = qp->handle;
    command.attr_mask = static_cast<std::uint32_t>(mask);
    ib_uverbs_query_qp_resp answer{};
    if (const int error =
            context_of(qp->context).uverbs.invoke(IB_USER_VERBS_CMD_QUERY_QP, command, answer)) {
        return error;
    }
    convert(answer, *attr);
    if (init_attr != nullptr) {
        init_attr->qp_context = qp->qp_context;
        init_attr->send_cq = qp->send_cq;
        init_attr->recv_cq = qp->recv_cq;
        init_attr->srq = qp->srq;
        init_attr->qp_type = qp->qp_type;
        init_attr->cap = attr->cap;
        init_attr->sq_sig_all = answer.sq_sig_all;
    }
    return 0;
}

int attach_mcast(ibv_qp* qp, const union ibv_gid* gid, std::uint16_t lid) noexcept {
    ib_uverbs_attach_mcast command{};
    std::memcpy(command.gid, gid->raw, sizeof command.gid);
    command.qp_handle = qp->handle;
    command.mlid = lid;
    return context_of(qp->context).uverbs.invoke(IB_USER_VERBS_CMD_ATTACH_MCAST, command);
}

int detach_mcast(ibv_qp* qp, const union ibv_gid* gid, std::uint16_t lid) noexcept {
    ib_uverbs_detach_mcast command{};
    std::memcpy(command.gid, gid->raw, sizeof command.gid);
    command.qp_handle = qp->handle;
    command.mlid = lid;
    return destroy_result(context_of(qp->context).uverbs.invoke(IB_USER_VERBS_CMD_DETACH_MCAST, command));
}

int query_srq(ibv_srq* srq, ibv_srq_attr* attr) noexcept {
    ib_uverbs_query_srq command{};
    command.srq_handle = srq->handle;
    ib_uverbs_query_srq_resp answer{};
    if (const int error =
            context_of(srq->context).uverbs.invoke(IB_USER_VERBS_CMD_QUERY_SRQ, command, answer)) {
        return error;
    }
    attr->max_wr = answer.max_wr;
    attr->max_sge = answer.max_sge;
    attr->srq_limit = answer.srq_limit;
    return 0;
}

int get_srq_num(ibv_srq* srq, std::uint32_t* number) noexcept {
    *number = reinterpret_cast<const abi::VerbsSrq*>(srq)->srq_num;
    return 0;
}

} // namespace sluice::provider
