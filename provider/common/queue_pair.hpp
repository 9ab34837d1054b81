// SPDX-License-Identifier: BSD-3-Clause
//
// Queue pairs, as far as rxe and siw are alike: what a program asks for, what the kernel is told,
// and the list of those that a device has.
#pragma once

#include "provider/common/doorbell.hpp"
#include "provider/common/objects.hpp"
#include "provider/common/wr_functions.hpp"

namespace sluice::provider {

struct QueuePair : WrQueuePair {
    explicit QueuePair(ibv_qp_state first) noexcept : WrQueuePair{}, state(first) {}

    Doorbell doorbell;
    // As far as we have led it; the kernel may have gone on to an error by itself.
    std::atomic<ibv_qp_state> state;
    QueuePair* next = nullptr; // guarded by the mutex of the device's list
};

inline QueuePair& queue_pair_of(ibv_qp* qp) noexcept {
    return *static_cast<QueuePair*>(reinterpret_cast<abi::VerbsQp*>(qp));
}

// The elements of ibv_qp_init_attr, which both ways to make a queue pair have.
struct QpRequest {
    ibv_pd* pd;
    void* qp_context;
    ibv_cq* send_cq;
    ibv_cq* recv_cq;
    ibv_srq* srq;
    ibv_qp_cap* cap;
    ibv_qp_type type;
    int sq_sig_all;
};

template<typename InitAttr>
QpRequest qp_request(ibv_pd* pd, InitAttr& attr) noexcept {
    return {.pd = pd,
            .qp_context = attr.qp_context,
            .send_cq = attr.send_cq,
            .recv_cq = attr.recv_cq,
            .srq = attr.srq,
            .cap = &attr.cap,
            .type = attr.qp_type,
            .sq_sig_all = attr.sq_sig_all};
}

// What an extended request asks beyond the plain one: 0 if nothing speaks against it, so that a
// queue pair can be made on attr.pd, or an errno. SUPPORTED_OPS are flags of its send operations.
int check_extended_request(const ibv_context* context, const ibv_qp_init_attr_ex& attr,
                           std::uint64_t supported_ops) noexcept;
inline bool wants_wr_functions(const ibv_qp_init_attr_ex& attr) noexcept {
    return (attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
}

// Makes the kernel's half and fills in ours, the doorbell too. 0 or an errno.
int make_in_kernel(QueuePair& qp, const QpRequest& request, ib_uverbs_create_qp_resp& answer,
                   const abi::DriverData& driver) noexcept;
// Undoes that, for a queue pair that no program has seen.
void unmake_in_kernel(const QueuePair& qp) noexcept;

// Hands a finished queue pair to its program: tells the sizes, and puts it on the device's list.
void announce(QueuePair& qp, const QpRequest& request, const ib_uverbs_create_qp_resp& answer) noexcept;
// The kernel forgets it, and the program has acknowledged its events. 0, or an errno with nothing done.
int retire(QueuePair& qp) noexcept;

} // namespace sluice::provider
