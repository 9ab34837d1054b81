// SPDX-License-Identifier: BSD-3-Clause
//
// The verbs of uroce, in the signatures of libibverbs' provider table. Those that return an int give
// 0 or a positive errno; those that return a pointer set errno.
#pragma once

#include "provider/uroce/roce.hpp"
#include "provider/uroce/verbs/objects.hpp"

namespace sluice::uroce::verbs {

// query.cpp
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attr,
                    std::size_t attr_bytes) noexcept;
int query_rt_values(ibv_context* context, ibv_values_ex* values) noexcept;
int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr) noexcept;
ibv_mtu to_ibv_mtu(std::uint32_t bytes) noexcept;

// memory.cpp
ibv_pd* alloc_pd(ibv_context* context) noexcept;
int dealloc_pd(ibv_pd* pd) noexcept;
ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr) noexcept;
int dealloc_td(ibv_td* td) noexcept;
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr) noexcept;
ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t len_bytes, std::uint64_t iova, int access) noexcept;
ibv_mr* reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t len_bytes, std::uint64_t iova, int fd,
                      int access) noexcept;
int rereg_mr(abi::VerbsMr* mr, int flags, ibv_pd* pd, void* address, std::size_t len_bytes,
             int access) noexcept;
int dereg_mr(abi::VerbsMr* mr) noexcept;
ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) noexcept;
int dealloc_mw(ibv_mw* mw) noexcept;

// device_memory.cpp
ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attr) noexcept;
int free_dm(ibv_dm* dm) noexcept;
ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* dm, std::uint64_t offset, std::size_t len_bytes,
                  unsigned access) noexcept;

// prefetch.cpp
int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* list,
              std::uint32_t count) noexcept;

// ah.cpp
ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* attr) noexcept;
int destroy_ah(ibv_ah* ah) noexcept;
// 0, or EINVAL for a path that doesn't begin at one of this device's GIDs.
int check_path(const ibv_ah_attr& attr, const device::GidTable& gids) noexcept;
// Before packets go from LOCAL, an entry of the GID table; not with the device's lock. An errno, and its
// reason in the log.
int use_address(const engine::Address& local, device::Device& device, const char* call) noexcept;
engine::Address destination_of(const ibv_ah_attr& attr) noexcept;

// cq.cpp
ibv_cq* create_cq(ibv_context* context, int cqe, ibv_comp_channel* channel, int vector) noexcept;
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr) noexcept;
int resize_cq(ibv_cq* cq, int cqe) noexcept;
int destroy_cq(ibv_cq* cq) noexcept;
int req_notify_cq(ibv_cq* cq, int solicited_only) noexcept;

// poll.cpp
int poll_cq(ibv_cq* cq, int count, ibv_wc* wc) noexcept;
void set_poll_functions(Cq& cq) noexcept;

// qp.cpp
ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) noexcept;
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr) noexcept;
int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) noexcept;
int query_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init_attr) noexcept;
int destroy_qp(ibv_qp* qp) noexcept;
// KNOWN is XRC's receiver; what is made is another handle for it, of a domain's handle XRCD. The caller holds
// the device's lock.
ibv_qp* join_qp(Qp& known, Xrcd& xrcd, void* qp_context) noexcept;

// xrc.cpp
ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attr) noexcept;
int close_xrcd(ibv_xrcd* xrcd) noexcept;
ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* attr) noexcept;
// Of a queue pair's handles, with the device's lock held. True: there are others.
bool leave_handles(Qp& qp) noexcept;
template<typename Visit>
void for_each_handle(Qp& qp, Visit&& visit) noexcept {
    Qp* next = &qp;
    do {
        visit(*next);
        next = next->next_handle;
    } while (next != &qp);
}

// multicast.cpp
int attach_mcast(ibv_qp* qp, const union ibv_gid* gid, std::uint16_t lid) noexcept;
int detach_mcast(ibv_qp* qp, const union ibv_gid* gid, std::uint16_t lid) noexcept;

// completion_counters.cpp
int query_comp_cntr_caps(ibv_context* context, abi::CompCntrCaps* caps, std::size_t caps_bytes) noexcept;
abi::CompCntr* create_comp_cntr(ibv_context* context, abi::CompCntrInitAttr* attr) noexcept;
int destroy_comp_cntr(abi::CompCntr* counter) noexcept;
int set_comp_cntr(abi::CompCntr* counter, std::uint64_t value) noexcept;
int set_err_comp_cntr(abi::CompCntr* counter, std::uint64_t value) noexcept;
int inc_comp_cntr(abi::CompCntr* counter, std::uint64_t amount) noexcept;
int inc_err_comp_cntr(abi::CompCntr* counter, std::uint64_t amount) noexcept;
int read_comp_cntr(abi::CompCntr* counter, std::uint64_t* value) noexcept;
int read_err_comp_cntr(abi::CompCntr* counter, std::uint64_t* value) noexcept;
int qp_attach_comp_cntr(ibv_qp* qp, abi::CompCntr* counter, abi::AttachCompCntrAttr* attr) noexcept;

// post.cpp
int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) noexcept;
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept;
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept;
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind) noexcept;
// What all requests have in common: flags of verbs into flags of the engine. False: unknown ones.
bool to_flags(unsigned send_flags, std::uint8_t& flags) noexcept;
// 0 or an errno; then BIND is as it was.
int to_bind(const ibv_mw* mw, std::uint32_t rkey, const ibv_mw_bind_info& info,
            engine::MwBind& bind) noexcept;
int to_errno(engine::Post posted) noexcept;

// wr_api.cpp
// Of enum ibv_qp_create_send_ops_flags, for a type of enum ibv_qp_type.
std::uint64_t supported_wr_ops(std::uint32_t type) noexcept;
// Makes the queue pair an extended one, for these operations.
void set_wr_functions(Qp& qp, std::uint64_t send_ops_flags) noexcept;

// srq.cpp
ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) noexcept;
ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attr) noexcept;
int modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask) noexcept;
int query_srq(ibv_srq* srq, ibv_srq_attr* attr) noexcept;
int destroy_srq(ibv_srq* srq) noexcept;
int get_srq_num(ibv_srq* srq, std::uint32_t* number) noexcept;

} // namespace sluice::uroce::verbs
