// SPDX-License-Identifier: BSD-3-Clause
//
// What a device and its port can do.
#include <endian.h>

#include <bit>
#include <cstdio>

#include "core/coherence/cacheflush.hpp"
#include "provider/common/verbs.hpp"
#include "provider/uroce/verbs/open.hpp"
#include "provider/uroce/verbs/verbs.hpp"
#include "sluice/version.hpp"

namespace sluice::uroce::verbs {

namespace {

constexpr unsigned kDeviceFlags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_SYS_IMAGE_GUID |
                                  IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_XRC |
                                  IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
                                  IBV_DEVICE_SRQ_RESIZE;

// Programs take 0 for a device that doesn't tell. "roc" in ASCII: its second bit makes it an OUI that is
// administered locally, so that the IEEE gives it to nobody.
constexpr std::uint32_t kVendorId = 0x726f63;
constexpr std::uint32_t kVendorPartId = 1;

// Time stamps are in nanoseconds.
constexpr std::uint64_t kClockKhz = 1'000'000;

// Nothing is pinned, whatever the transport.
ibv_odp_caps paging() noexcept {
    constexpr std::uint32_t kDatagrams =
        IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
    constexpr std::uint32_t kUnreliableCaps = kDatagrams | IBV_ODP_SUPPORT_WRITE;
    constexpr std::uint32_t kReliableCaps = kUnreliableCaps | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;
    ibv_odp_caps caps{};
    caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
    caps.per_transport_caps.rc_odp_caps = kReliableCaps;
    caps.per_transport_caps.uc_odp_caps = kUnreliableCaps;
    caps.per_transport_caps.ud_odp_caps = kDatagrams;
    return caps;
}

void fill_base(const device::Device& device, ibv_device_attr& attr) noexcept {
    std::snprintf(attr.fw_ver, sizeof attr.fw_ver, "%s", kVersion);
    attr.node_guid = htobe64(device::guid_of(device.where().gid));
    attr.sys_image_guid = attr.node_guid;
    attr.vendor_id = kVendorId;
    attr.vendor_part_id = kVendorPartId;
    attr.max_mr_size = ~std::uint64_t{0};
    attr.page_size_cap = ~std::uint64_t{4095};
    attr.max_qp = device::Device::kMaxQueuePairs;
    attr.max_qp_wr = kMaxWr;
    attr.device_cap_flags = kDeviceFlags;
    attr.max_sge = engine::kMaxSge;
    attr.max_sge_rd = engine::kMaxSge;
    attr.max_cq = kMaxObjects;
    attr.max_cqe = kMaxCqe;
    attr.max_mr = device::Device::kMaxRegions;
    attr.max_pd = kMaxObjects;
    attr.max_qp_rd_atom = kMaxRdAtomic;
    attr.max_res_rd_atom = kMaxRdAtomic * device::Device::kMaxQueuePairs;
    attr.max_qp_init_rd_atom = kMaxRdAtomic;
    // They are the CPU's own, and so global, which pci_atomic_caps tells. Programs know no other value than
    // adapters have: UCX 1.13 compares with this one.
    attr.atomic_cap = IBV_ATOMIC_HCA;
    attr.max_mw = device::Device::kMaxRegions;
    attr.max_ah = kMaxObjects;
    attr.max_mcast_grp = device::kMaxMulticastGroups;
    attr.max_mcast_qp_attach = device::Device::kMaxQueuePairs;
    attr.max_total_mcast_qp_attach = device::kMaxMulticastGroups * device::Device::kMaxQueuePairs;
    attr.max_srq = kMaxObjects;
    attr.max_srq_wr = kMaxWr;
    attr.max_srq_sge = engine::kMaxSge;
    attr.max_pkeys = 1;
    attr.phys_port_cnt = 1;
}

} // namespace

std::uint64_t capabilities() noexcept {
    return kDeviceFlags | kDeviceFlushGlobal | kDeviceAtomicWrite |
           (can_write_back() ? kDeviceFlushPersistent : std::uint64_t{0});
}

std::uint64_t paging_capabilities() noexcept {
    return paging().general_caps;
}

std::uint32_t max_sge() noexcept {
    return engine::kMaxSge;
}

std::uint32_t max_inline() noexcept {
    return kMaxInlineBytes;
}

bool can_write_back() noexcept {
    static const bool can = coherence::native_ops().ok();
    return can;
}

// Also in a child of fork(): none of it changes.
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attr,
                    std::size_t attr_bytes) noexcept {
    if ((input != nullptr && input->comp_mask != 0) || attr_bytes < sizeof attr->orig_attr) {
        return EINVAL;
    }
    if (context_of(context).closed) {
        return EIO;
    }
    const device::Device& device = context_of(context).device;
    ibv_device_attr_ex full{};
    fill_base(device, full.orig_attr);
    full.device_cap_flags_ex = capabilities();
    full.phys_port_cnt_ex = 1;
    full.odp_caps = paging();
    full.xrc_odp_caps = full.odp_caps.per_transport_caps.rc_odp_caps;
    full.max_dm_size = kMaxDeviceMemory;
    // Towards the host's own: the CPU's instructions, on eight bytes. There is no operation that swaps alone.
    full.pci_atomic_caps.fetch_add = full.pci_atomic_caps.compare_swap =
        IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP;
    full.completion_timestamp_mask = ~std::uint64_t{0};
    full.hca_core_clock = kClockKhz;
    provider::copy_device_attributes(full, attr, attr_bytes);
    return 0;
}

// The clock of the time stamps, as mlx5 gives it: all of it in the nanoseconds, so that it compares with
// them.
int query_rt_values(ibv_context* context, ibv_values_ex* values) noexcept {
    if (context_of(context).gone()) {
        return EIO;
    }
    values->comp_mask &= IBV_VALUES_MASK_RAW_CLOCK; // tells what there is
    if (values->comp_mask != 0) {
        values->raw_clock = {.tv_sec = 0, .tv_nsec = static_cast<long>(device::monotonic_now())};
    }
    return 0;
}

// As ibv_mtu_256 is 1.
ibv_mtu to_ibv_mtu(std::uint32_t bytes) noexcept {
    return static_cast<ibv_mtu>(std::countr_zero(bytes) - 7);
}

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr) noexcept {
    constexpr std::uint8_t kLinkUp = 5;
    constexpr std::uint32_t kCmSupported = 1U << 16;
    constexpr std::uint32_t kIpBasedGids = 1U << 26;
    if (context_of(context).gone()) {
        return EIO;
    }
    const device::Device& device = context_of(context).device;
    if (port != kPort) {
        return EINVAL;
    }
    ibv_port_attr answer{};
    answer.state = IBV_PORT_ACTIVE;
    answer.max_mtu = IBV_MTU_4096;
    answer.active_mtu = to_ibv_mtu(device.where().path_mtu());
    answer.gid_tbl_len = static_cast<int>(device.gids().length());
    answer.port_cap_flags = kCmSupported | kIpBasedGids;
    answer.max_msg_sz = engine::kMaxMessageBytes;
    answer.pkey_tbl_len = 1;
    answer.max_vl_num = 1;
    answer.active_width = 1; // there is nothing to be told of either
    answer.active_speed = 1;
    answer.phys_state = kLinkUp;
    answer.link_layer = IBV_LINK_LAYER_ETHERNET;
    *attr = answer;
    return 0;
}

} // namespace sluice::uroce::verbs
