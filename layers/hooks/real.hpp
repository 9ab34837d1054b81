// SPDX-License-Identifier: BSD-3-Clause
//
// The functions that ours stand before: those of the next library that has them, most often libibverbs'
// and librdmacm's. Looked up at first use, so that a program that uses no RDMA loads neither for us.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

namespace sluice::layers::hooks {

struct RealVerbs {
    decltype(&::ibv_get_device_list) get_device_list = nullptr;
    decltype(&::ibv_free_device_list) free_device_list = nullptr;
    decltype(&::ibv_get_device_guid) get_device_guid = nullptr;
    decltype(&::ibv_get_device_index) get_device_index = nullptr; // null: a libibverbs older than 1.9
    decltype(&::ibv_open_device) open_device = nullptr;
    decltype(&::ibv_alloc_pd) alloc_pd = nullptr;
    decltype(&::ibv_create_comp_channel) create_comp_channel = nullptr;
    decltype(&::ibv_create_cq) create_cq = nullptr;
    decltype(&::ibv_destroy_cq) destroy_cq = nullptr;
    decltype(&::ibv_destroy_comp_channel) destroy_comp_channel = nullptr;
    decltype(&::ibv_create_qp) create_qp = nullptr;
    decltype(&::ibv_modify_qp) modify_qp = nullptr;
    decltype(&::ibv_destroy_qp) destroy_qp = nullptr;
    decltype(&::ibv_create_srq) create_srq = nullptr;
    decltype(&::ibv_destroy_srq) destroy_srq = nullptr;
};

// Null without a libibverbs; errno is ENOSYS then.
const RealVerbs* real_verbs() noexcept;

// A librdmacm may be too old for those with a version beside them: they may be null, the others not.
struct RealCm {
    decltype(&::rdma_create_event_channel) create_event_channel = nullptr;
    decltype(&::rdma_destroy_event_channel) destroy_event_channel = nullptr;
    decltype(&::rdma_create_id) create_id = nullptr;
    decltype(&::rdma_destroy_id) destroy_id = nullptr;
    decltype(&::rdma_create_ep) create_ep = nullptr;
    decltype(&::rdma_destroy_ep) destroy_ep = nullptr;
    decltype(&::rdma_bind_addr) bind_addr = nullptr;
    decltype(&::rdma_resolve_addr) resolve_addr = nullptr;
    decltype(&::rdma_resolve_route) resolve_route = nullptr;
    decltype(&::rdma_create_qp) create_qp = nullptr;
    decltype(&::rdma_create_qp_ex) create_qp_ex = nullptr;
    decltype(&::rdma_destroy_qp) destroy_qp = nullptr;
    decltype(&::rdma_create_srq) create_srq = nullptr;
    decltype(&::rdma_create_srq_ex) create_srq_ex = nullptr;
    decltype(&::rdma_destroy_srq) destroy_srq = nullptr;
    decltype(&::rdma_connect) connect = nullptr;
    decltype(&::rdma_listen) listen = nullptr;
    decltype(&::rdma_get_request) get_request = nullptr;
    decltype(&::rdma_accept) accept = nullptr;
    decltype(&::rdma_reject) reject = nullptr;
    decltype(&::rdma_notify) notify = nullptr;
    decltype(&::rdma_disconnect) disconnect = nullptr;
    decltype(&::rdma_join_multicast) join_multicast = nullptr;
    decltype(&::rdma_leave_multicast) leave_multicast = nullptr;
    decltype(&::rdma_get_cm_event) get_cm_event = nullptr;
    decltype(&::rdma_ack_cm_event) ack_cm_event = nullptr;
    decltype(&::rdma_get_devices) get_devices = nullptr;
    decltype(&::rdma_free_devices) free_devices = nullptr;
    decltype(&::rdma_set_option) set_option = nullptr;
    decltype(&::rdma_migrate_id) migrate_id = nullptr;
    decltype(&::rdma_getaddrinfo) getaddrinfo = nullptr;
    decltype(&::rdma_join_multicast_ex) join_multicast_ex = nullptr; // RDMACM_1.1
    decltype(&::rdma_establish) establish = nullptr;                 // RDMACM_1.2
    decltype(&::rdma_init_qp_attr) init_qp_attr = nullptr;           // RDMACM_1.2
    decltype(&::rdma_reject_ece) reject_ece = nullptr;               // RDMACM_1.3
    decltype(&::rdma_set_local_ece) set_local_ece = nullptr;         // RDMACM_1.3
    decltype(&::rdma_get_remote_ece) get_remote_ece = nullptr;       // RDMACM_1.3
};

// Null without a librdmacm; errno is ENOSYS then.
const RealCm* real_cm() noexcept;

// Whether this kernel connects anybody: without that, each call of librdmacm's would fail, and say so on
// standard error.
bool kernel_connects() noexcept;

// Whether CALLER, an address in code, is librdmacm's own: what it makes for itself (rsockets, sync ids of the
// kernel's) must be of its own making, because it looks behind the public part.
bool is_in_librdmacm(const void* caller) noexcept;

} // namespace sluice::layers::hooks
