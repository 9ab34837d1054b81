// SPDX-License-Identifier: BSD-3-Clause
//
// Queue pairs: made, led through their states, and destroyed.
#include <algorithm>
#include <new>

#include "provider/common/verbs.hpp"
#include "provider/rxe/verbs.hpp"

namespace sluice::provider::rxe {

namespace {

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

constexpr std::uint32_t kDatagramOps = op_bit(IBV_WR_SEND) | op_bit(IBV_WR_SEND_WITH_IMM);
constexpr std::uint32_t kUnreliableOps =
    kDatagramOps | kWriteOps | op_bit(IBV_WR_LOCAL_INV) | op_bit(IBV_WR_BIND_MW);
constexpr std::uint32_t kReliableOps =
    kUnreliableOps | op_bit(IBV_WR_SEND_WITH_INV) | op_bit(IBV_WR_RDMA_READ) | kAtomicOps;

std::uint32_t ops_of(ibv_qp_type type, std::uint64_t device_flags) noexcept {
    switch (type) {
    case IBV_QPT_RC:
        return kReliableOps | ((device_flags & kDeviceAtomicWrite) != 0 ? op_bit(kWrAtomicWrite) : 0) |
               ((device_flags & (kDeviceFlushGlobal | kDeviceFlushPersistent)) != 0 ? op_bit(kWrFlush) : 0);
    case IBV_QPT_UC:
        return kUnreliableOps;
    case IBV_QPT_UD:
        return kDatagramOps;
    default:
        return 0;
    }
}

abi::Uverbs& uverbs_of(const Qp& qp) noexcept {
    return context_of(qp.qp.context).uverbs;
}

void join(Membership& member, Qp& qp, ibv_cq* ibcq, bool sends) noexcept {
    if (ibcq == nullptr) {
        return;
    }
    Cq& cq = cq_of(ibcq);
    member.qp = &qp;
    member.cq = &cq;
    member.sends = sends;
    const LockGuard guard(cq.members_mutex);
    member.next = cq.members;
    cq.members = &member;
}

void leave(Membership& member) noexcept {
    if (member.cq == nullptr) {
        return;
    }
    const LockGuard guard(member.cq->members_mutex);
    Membership** link = &member.cq->members;
    while (*link != &member) {
        link = &(*link)->next;
    }
    *link = member.next;
}

// How many scatter/gather elements and inline bytes an element of the ring has room for: what
// the kernel said, unless the ring is smaller.
int map_send_ring(Qp& qp, const mminfo& info, const ib_uverbs_create_qp_resp& caps) noexcept {
    SendQueue& queue = qp.send;
    if (const int error = queue.mapping.map(uverbs_of(qp), info.size, info.offset)) {
        return error;
    }
    const std::size_t payload =
        std::max<std::size_t>(caps.max_inline_data, std::size_t{caps.max_send_sge} * sizeof(rxe_sge));
    queue.limits.max_sge = caps.max_send_sge;
    queue.limits.max_inline_data = caps.max_inline_data;
    return queue.ring.attach(queue.mapping.data(), queue.mapping.len_bytes(), kSendHeaderBytes + payload);
}

int map_recv_ring(Qp& qp, const mminfo& info, std::uint32_t max_sge) noexcept {
    RecvQueue& queue = qp.recv;
    if (qp.qp.srq != nullptr || info.size == 0) {
        return 0;
    }
    if (const int error = queue.mapping.map(uverbs_of(qp), info.size, info.offset)) {
        return error;
    }
    queue.max_sge = max_sge;
    return queue.ring.attach(queue.mapping.data(), queue.mapping.len_bytes(),
                             kRecvHeaderBytes + std::size_t{max_sge} * sizeof(rxe_sge));
}

int destroy_in_kernel(const Qp& qp, ib_uverbs_destroy_qp_resp& answer) noexcept {
    ib_uverbs_destroy_qp command{};
    command.qp_handle = qp.qp.handle;
    return destroy_result(uverbs_of(qp).invoke(IB_USER_VERBS_CMD_DESTROY_QP, command, answer));
}

int create_in_kernel(Qp& qp, const QpRequest& request, ib_uverbs_create_qp_resp& answer,
                     rxe_create_qp_resp& shared) noexcept {
    ib_uverbs_create_qp command{};
    command.user_handle = reinterpret_cast<std::uintptr_t>(&qp.qp);
    command.pd_handle = kernel_domain_of(request.pd).handle;
    command.send_cq_handle = request.send_cq->handle;
    command.recv_cq_handle = request.recv_cq->handle;
    command.srq_handle = request.srq != nullptr ? request.srq->handle : 0;
    command.max_send_wr = request.cap->max_send_wr;
    command.max_recv_wr = request.cap->max_recv_wr;
    command.max_send_sge = request.cap->max_send_sge;
    command.max_recv_sge = request.cap->max_recv_sge;
    command.max_inline_data = request.cap->max_inline_data;
    command.sq_sig_all = request.sq_sig_all != 0 ? 1 : 0;
    command.qp_type = static_cast<std::uint8_t>(request.type);
    command.is_srq = request.srq != nullptr ? 1 : 0;
    return uverbs_of(qp).invoke(IB_USER_VERBS_CMD_CREATE_QP, command, answer, abi::driver_answer(shared));
}

void fill_public_part(Qp& qp, const QpRequest& request) noexcept {
    qp.qp.context = request.pd->context;
    qp.qp.qp_context = request.qp_context;
    qp.qp.pd = request.pd;
    qp.qp.send_cq = request.send_cq;
    qp.qp.recv_cq = request.recv_cq;
    qp.qp.srq = request.srq;
    qp.qp.qp_type = request.type;
    qp.qp.state = IBV_QPS_RESET;
    pthread_mutex_init(&qp.qp.mutex, nullptr);
    pthread_cond_init(&qp.qp.cond, nullptr);
}

abi::SendDoorbell doorbell_of(const Qp& qp) noexcept {
    abi::PostSendBody body{};
    body.response = reinterpret_cast<std::uintptr_t>(&qp.doorbell_answer);
    body.qp_handle = qp.qp.handle;
    body.wqe_size = sizeof(ib_uverbs_send_wr);
    return {IB_USER_VERBS_CMD_POST_SEND, body, sizeof qp.doorbell_answer};
}

int map_rings(Qp& qp, const rxe_create_qp_resp& shared, const ib_uverbs_create_qp_resp& caps) noexcept {
    if (const int error = map_send_ring(qp, shared.sq_mi, caps)) {
        return error;
    }
    return map_recv_ring(qp, shared.rq_mi, caps.max_recv_sge);
}

Qp* create(const QpRequest& request) noexcept {
    const std::uint32_t ops = ops_of(request.type, 0);
    if (ops == 0) {
        return fail_with<Qp>(EOPNOTSUPP);
    }
    if (request.send_cq == nullptr || request.recv_cq == nullptr) {
        return fail_with<Qp>(EINVAL);
    }
    std::unique_ptr<Qp> qp(new (std::nothrow) Qp);
    if (qp == nullptr) {
        return fail_with<Qp>(ENOMEM);
    }
    fill_public_part(*qp, request);
    ib_uverbs_create_qp_resp answer{};
    rxe_create_qp_resp shared{};
    if (const int error = create_in_kernel(*qp, request, answer, shared)) {
        return fail_with<Qp>(error);
    }
    qp->qp.handle = answer.qp_handle;
    qp->qp.qp_num = answer.qpn;
    if (const int error = map_rings(*qp, shared, answer)) {
        ib_uverbs_destroy_qp_resp ignored{};
        (void)destroy_in_kernel(*qp, ignored);
        return fail_with<Qp>(error);
    }
    qp->send.limits.ops = ops;
    qp->send.limits.datagram = request.type == IBV_QPT_UD;
    qp->doorbell = doorbell_of(*qp);
    if (is_single_threaded(request.pd)) {
        qp->send.lock.elide();
        qp->recv.lock.elide();
    }
    join(qp->send_member, *qp, request.send_cq, true);
    join(qp->recv_member, *qp, request.recv_cq, false);
    request.cap->max_send_wr = answer.max_send_wr;
    request.cap->max_recv_wr = answer.max_recv_wr;
    request.cap->max_send_sge = answer.max_send_sge;
    request.cap->max_recv_sge = answer.max_recv_sge;
    request.cap->max_inline_data = answer.max_inline_data;
    return qp.release();
}

// What the kernel says that the device can do beyond the first set.
std::uint64_t device_flags(ibv_context* context) noexcept {
    ibv_device_attr_ex attr{};
    return query_device_ex(context, nullptr, &attr, sizeof attr) == 0 ? attr.device_cap_flags_ex : 0;
}

} // namespace

ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) noexcept {
    Qp* qp = create({.pd = pd,
                     .qp_context = attr->qp_context,
                     .send_cq = attr->send_cq,
                     .recv_cq = attr->recv_cq,
                     .srq = attr->srq,
                     .cap = &attr->cap,
                     .type = attr->qp_type,
                     .sq_sig_all = attr->sq_sig_all});
    return qp != nullptr ? &qp->qp : nullptr;
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr) noexcept {
    constexpr std::uint32_t kKnown = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    // Naming no special wish by the mask of one is no wish.
    constexpr std::uint32_t kZero = IBV_QP_INIT_ATTR_CREATE_FLAGS;
    if ((attr->comp_mask & ~(kKnown | kZero)) != 0 ||
        ((attr->comp_mask & kZero) != 0 && attr->create_flags != 0)) {
        return fail_with<ibv_qp>(EOPNOTSUPP);
    }
    if ((attr->comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || attr->pd == nullptr || attr->pd->context != context) {
        return fail_with<ibv_qp>(EINVAL);
    }
    const bool extended = (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
    if (extended &&
        (attr->send_ops_flags & ~supported_wr_ops(ops_of(attr->qp_type, device_flags(context)))) != 0) {
        return fail_with<ibv_qp>(EOPNOTSUPP);
    }
    Qp* qp = create({.pd = attr->pd,
                     .qp_context = attr->qp_context,
                     .send_cq = attr->send_cq,
                     .recv_cq = attr->recv_cq,
                     .srq = attr->srq,
                     .cap = &attr->cap,
                     .type = attr->qp_type,
                     .sq_sig_all = attr->sq_sig_all});
    if (qp == nullptr) {
        return nullptr;
    }
    if (extended) {
        set_wr_functions(*qp, attr->send_ops_flags);
    }
    return &qp->qp;
}

int modify_qp(ibv_qp* ibqp, ibv_qp_attr* attr, int mask) noexcept {
    Qp& qp = qp_of(ibqp);
    if (const int error = modify_qp_in_kernel(ibqp, *attr, mask)) {
        return error;
    }
    if ((mask & IBV_QP_STATE) == 0) {
        return 0;
    }
    qp.state.store(attr->qp_state, std::memory_order_relaxed);
    if (attr->qp_state == IBV_QPS_RESET) {
        // The kernel has emptied the rings, and may have set them back.
        const LockGuard send_guard(qp.send.lock);
        qp.send.ring.resynchronise();
        const LockGuard recv_guard(qp.recv.lock);
        if (qp.recv.ring.ring().attached()) {
            qp.recv.ring.resynchronise();
        }
    }
    return 0;
}

int destroy_qp(ibv_qp* ibqp) noexcept {
    Qp& qp = qp_of(ibqp);
    ib_uverbs_destroy_qp_resp answer{};
    if (const int error = destroy_in_kernel(qp, answer)) {
        return error;
    }
    leave(qp.send_member);
    leave(qp.recv_member);
    await_events(ibqp->mutex, ibqp->cond, ibqp->events_completed, answer.events_reported);
    delete &qp;
    return 0;
}

} // namespace sluice::provider::rxe
