// SPDX-License-Identifier: BSD-3-Clause
//
// Verbs that are one command to the kernel, in the signatures of libibverbs' provider table.
// Those that return an int give 0 or a positive errno; those that return a pointer set errno.
#pragma once

#include "provider/abi/layout.hpp"
#include "provider/common/context.hpp"
#include "provider/common/objects.hpp"

namespace sluice::provider {

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attr,
                    std::size_t attr_bytes) noexcept;
// FROM to a caller that may be older than the structure, or newer.
void copy_device_attributes(const ibv_device_attr_ex& from, ibv_device_attr_ex* to,
                            std::size_t to_bytes) noexcept;
int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr) noexcept;

ibv_pd* alloc_pd(ibv_context* context) noexcept;
int dealloc_pd(ibv_pd* pd) noexcept;
ibv_pd* import_pd(ibv_context* context, std::uint32_t handle) noexcept;
void unimport_pd(ibv_pd* pd) noexcept;
ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr) noexcept;
int dealloc_td(ibv_td* td) noexcept;
// What a parent domain is made of. 0, or the errno for ATTR.
int check_parent_domain(const ibv_context* context, const ibv_parent_domain_init_attr& attr) noexcept;
void wrap(ProtectionDomain& domain, const ibv_parent_domain_init_attr& attr) noexcept;
void unwrap(const ProtectionDomain& domain) noexcept; // nothing for a domain that is real
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr) noexcept;

ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t len_bytes, std::uint64_t iova, int access) noexcept;
// The same, for a driver that has something to say to it.
ibv_mr* reg_mr_with(ibv_pd* pd, void* address, std::size_t len_bytes, std::uint64_t iova, int access,
                    const abi::DriverData& driver) noexcept;
int dereg_mr(abi::VerbsMr* mr) noexcept;
int rereg_mr(abi::VerbsMr* mr, int flags, ibv_pd* pd, void* address, std::size_t len_bytes,
             int access) noexcept;
ibv_mr* import_mr(ibv_pd* pd, std::uint32_t handle) noexcept;
void unimport_mr(ibv_mr* mr) noexcept;

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) noexcept;
int dealloc_mw(ibv_mw* mw) noexcept;

int modify_qp_in_kernel(ibv_qp* qp, const ibv_qp_attr& attr, int mask) noexcept;
int query_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init_attr) noexcept;
int attach_mcast(ibv_qp* qp, const union ibv_gid* gid, std::uint16_t lid) noexcept;
int detach_mcast(ibv_qp* qp, const union ibv_gid* gid, std::uint16_t lid) noexcept;
int query_srq(ibv_srq* srq, ibv_srq_attr* attr) noexcept;
int get_srq_num(ibv_srq* srq, std::uint32_t* number) noexcept;

} // namespace sluice::provider
