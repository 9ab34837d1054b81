// SPDX-License-Identifier: BSD-3-Clause
#include "layers/cmdev/queue_pair.hpp"

#include <algorithm>

#include "ibverbs-glue/adaptors.hpp"

namespace sluice::layers::cmdev {

namespace {

ib_uverbs_qp_attr of_datagrams(ibv_qp_state state) noexcept {
    ib_uverbs_qp_attr attr{};
    attr.qp_state = state;
    attr.port_num = 1;
    attr.qkey = kDatagramKey;
    attr.qp_attr_mask = IBV_QP_STATE | (state == IBV_QPS_INIT  ? IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY
                                        : state == IBV_QPS_RTS ? IBV_QP_SQ_PSN
                                                               : 0);
    return attr;
}

void copy_way(ib_uverbs_ah_attr& to, const ibv_ah_attr& from) noexcept {
    std::ranges::copy(from.grh.dgid.raw, to.grh.dgid);
    to.grh.flow_label = from.grh.flow_label;
    to.grh.sgid_index = from.grh.sgid_index;
    to.grh.hop_limit = from.grh.hop_limit;
    to.grh.traffic_class = from.grh.traffic_class;
    to.dlid = from.dlid;
    to.sl = from.sl;
    to.src_path_bits = from.src_path_bits;
    to.static_rate = from.static_rate;
    to.is_global = from.is_global;
    to.port_num = from.port_num;
}

ib_uverbs_qp_attr to_kernels(const ibv_qp_attr& from, int mask) noexcept {
    ib_uverbs_qp_attr attr{};
    attr.qp_attr_mask = static_cast<std::uint32_t>(mask);
    attr.qp_state = from.qp_state;
    attr.cur_qp_state = from.cur_qp_state;
    attr.path_mtu = from.path_mtu;
    attr.path_mig_state = from.path_mig_state;
    attr.qkey = from.qkey;
    attr.rq_psn = from.rq_psn;
    attr.sq_psn = from.sq_psn;
    attr.dest_qp_num = from.dest_qp_num;
    attr.qp_access_flags = from.qp_access_flags;
    copy_way(attr.ah_attr, from.ah_attr);
    attr.pkey_index = from.pkey_index;
    attr.max_rd_atomic = from.max_rd_atomic;
    attr.max_dest_rd_atomic = from.max_dest_rd_atomic;
    attr.min_rnr_timer = from.min_rnr_timer;
    attr.port_num = from.port_num;
    attr.timeout = from.timeout;
    attr.retry_cnt = from.retry_cnt;
    attr.rnr_retry = from.rnr_retry;
    return attr;
}

} // namespace

Result<ib_uverbs_qp_attr> queue_pair_attributes(const Id& id, ibv_qp_state state) {
    if (id.is_datagram) {
        return of_datagrams(state);
    }
    ibv_qp_attr attr{};
    attr.qp_state = state;
    int mask = 0;
    Result<void> done =
        glue::from_rc(sluice_cm_qp_attr(id.cm, &attr, &mask), "finding a queue pair's attributes");
    if (!done) {
        return std::move(done).error();
    }
    attr.ah_attr.grh.traffic_class = id.type_of_service;
    if (id.ack_timeout != 0) {
        attr.timeout = id.ack_timeout;
    }
    return to_kernels(attr, mask);
}

} // namespace sluice::layers::cmdev
