// SPDX-License-Identifier: BSD-3-Clause
//
// What a device and its ports can do, in libibverbs' structures.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "provider/common/verbs.hpp"

namespace sluice::provider {

namespace {

void format_firmware(std::uint64_t version, char (&text)[64]) noexcept {
    std::snprintf(text, sizeof text, "%u.%u.%u", static_cast<unsigned>(version >> 32 & 0xffff),
                  static_cast<unsigned>(version >> 16 & 0xffff), static_cast<unsigned>(version & 0xffff));
}

int to_int(std::uint32_t value) noexcept {
    return static_cast<int>(value);
}

void convert_base(const ib_uverbs_query_device_resp& from, ibv_device_attr& to) noexcept {
    format_firmware(from.fw_ver, to.fw_ver);
    to.node_guid = from.node_guid;
    to.sys_image_guid = from.sys_image_guid;
    to.max_mr_size = from.max_mr_size;
    to.page_size_cap = from.page_size_cap;
    to.vendor_id = from.vendor_id;
    to.vendor_part_id = from.vendor_part_id;
    to.hw_ver = from.hw_ver;
    to.max_qp = to_int(from.max_qp);
    to.max_qp_wr = to_int(from.max_qp_wr);
    to.device_cap_flags = from.device_cap_flags;
    to.max_sge = to_int(from.max_sge);
    to.max_sge_rd = to_int(from.max_sge_rd);
    to.max_cq = to_int(from.max_cq);
    to.max_cqe = to_int(from.max_cqe);
    to.max_mr = to_int(from.max_mr);
    to.max_pd = to_int(from.max_pd);
    to.max_qp_rd_atom = to_int(from.max_qp_rd_atom);
    to.max_ee_rd_atom = to_int(from.max_ee_rd_atom);
    to.max_res_rd_atom = to_int(from.max_res_rd_atom);
    to.max_qp_init_rd_atom = to_int(from.max_qp_init_rd_atom);
    to.max_ee_init_rd_atom = to_int(from.max_ee_init_rd_atom);
    to.atomic_cap = static_cast<ibv_atomic_cap>(from.atomic_cap);
    to.max_ee = to_int(from.max_ee);
    to.max_rdd = to_int(from.max_rdd);
    to.max_mw = to_int(from.max_mw);
    to.max_raw_ipv6_qp = to_int(from.max_raw_ipv6_qp);
    to.max_raw_ethy_qp = to_int(from.max_raw_ethy_qp);
    to.max_mcast_grp = to_int(from.max_mcast_grp);
    to.max_mcast_qp_attach = to_int(from.max_mcast_qp_attach);
    to.max_total_mcast_qp_attach = to_int(from.max_total_mcast_qp_attach);
    to.max_ah = to_int(from.max_ah);
    to.max_fmr = to_int(from.max_fmr);
    to.max_map_per_fmr = to_int(from.max_map_per_fmr);
    to.max_srq = to_int(from.max_srq);
    to.max_srq_wr = to_int(from.max_srq_wr);
    to.max_srq_sge = to_int(from.max_srq_sge);
    to.max_pkeys = from.max_pkeys;
    to.local_ca_ack_delay = from.local_ca_ack_delay;
    to.phys_port_cnt = from.phys_port_cnt;
}

void convert_extended(const ib_uverbs_ex_query_device_resp& from, ibv_device_attr_ex& to) noexcept {
    to.odp_caps.general_caps = from.odp_caps.general_caps;
    to.odp_caps.per_transport_caps.rc_odp_caps = from.odp_caps.per_transport_caps.rc_odp_caps;
    to.odp_caps.per_transport_caps.uc_odp_caps = from.odp_caps.per_transport_caps.uc_odp_caps;
    to.odp_caps.per_transport_caps.ud_odp_caps = from.odp_caps.per_transport_caps.ud_odp_caps;
    to.completion_timestamp_mask = from.timestamp_mask;
    to.hca_core_clock = from.hca_core_clock;
    to.device_cap_flags_ex = from.device_cap_flags_ex;
    to.rss_caps.supported_qpts = from.rss_caps.supported_qpts;
    to.rss_caps.max_rwq_indirection_tables = from.rss_caps.max_rwq_indirection_tables;
    to.rss_caps.max_rwq_indirection_table_size = from.rss_caps.max_rwq_indirection_table_size;
    to.max_wq_type_rq = from.max_wq_type_rq;
    to.raw_packet_caps = from.raw_packet_caps;
    to.tm_caps.max_rndv_hdr_size = from.tm_caps.max_rndv_hdr_size;
    to.tm_caps.max_num_tags = from.tm_caps.max_num_tags;
    to.tm_caps.flags = from.tm_caps.flags;
    to.tm_caps.max_ops = from.tm_caps.max_ops;
    to.tm_caps.max_sge = from.tm_caps.max_sge;
    to.cq_mod_caps.max_cq_count = from.cq_moderation_caps.max_cq_moderation_count;
    to.cq_mod_caps.max_cq_period = from.cq_moderation_caps.max_cq_moderation_period;
    to.max_dm_size = from.max_dm_size;
    to.xrc_odp_caps = from.xrc_odp_caps;
    to.phys_port_cnt_ex = from.base.phys_port_cnt;
}

} // namespace

void copy_device_attributes(const ibv_device_attr_ex& from, ibv_device_attr_ex* to,
                            std::size_t to_bytes) noexcept {
    const std::size_t known = std::min(to_bytes, sizeof from);
    std::memcpy(to, &from, known);
    std::memset(reinterpret_cast<std::byte*>(to) + known, 0, to_bytes - known);
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attr,
                    std::size_t attr_bytes) noexcept {
    if ((input != nullptr && input->comp_mask != 0) || attr_bytes < sizeof attr->orig_attr) {
        return EINVAL;
    }
    const ib_uverbs_ex_query_device command{};
    ib_uverbs_ex_query_device_resp answer{};
    const int error = context_of(context).uverbs.invoke(
        IB_USER_VERBS_EX_CMD_QUERY_DEVICE | IB_USER_VERBS_CMD_FLAG_EXTENDED, command, answer);
    if (error != 0) {
        return error;
    }
    ibv_device_attr_ex full{};
    convert_base(answer.base, full.orig_attr);
    convert_extended(answer, full);
    copy_device_attributes(full, attr, attr_bytes);
    return 0;
}

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr) noexcept {
    ib_uverbs_query_port_resp_ex answer{};
    abi::IoctlCommand<2> command(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT);
    command.constant(UVERBS_ATTR_QUERY_PORT_PORT_NUM, port);
    command.output(UVERBS_ATTR_QUERY_PORT_RESP, &answer, sizeof answer);
    if (const int error = context_of(context).uverbs.call(command)) {
        return error;
    }
    const ib_uverbs_query_port_resp& from = answer.legacy_resp;
    attr->state = static_cast<ibv_port_state>(from.state);
    attr->max_mtu = static_cast<ibv_mtu>(from.max_mtu);
    attr->active_mtu = static_cast<ibv_mtu>(from.active_mtu);
    attr->gid_tbl_len = to_int(from.gid_tbl_len);
    attr->port_cap_flags = from.port_cap_flags;
    attr->max_msg_sz = from.max_msg_sz;
    attr->bad_pkey_cntr = from.bad_pkey_cntr;
    attr->qkey_viol_cntr = from.qkey_viol_cntr;
    attr->pkey_tbl_len = from.pkey_tbl_len;
    attr->lid = from.lid;
    attr->sm_lid = from.sm_lid;
    attr->lmc = from.lmc;
    attr->max_vl_num = from.max_vl_num;
    attr->sm_sl = from.sm_sl;
    attr->subnet_timeout = from.subnet_timeout;
    attr->init_type_reply = from.init_type_reply;
    attr->active_width = from.active_width;
    attr->active_speed = from.active_speed;
    attr->phys_state = from.phys_state;
    attr->link_layer = from.link_layer;
    attr->flags = from.flags;
    attr->port_cap_flags2 = answer.port_cap_flags2;
    return 0;
}

} // namespace sluice::provider
