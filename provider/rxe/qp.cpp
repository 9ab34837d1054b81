// SPDX-License-Identifier: BSD-3-Clause
//
// Queue pairs: made, led through their states, and destroyed.
#include <algorithm>
#include <new>

#include "provider/common/verbs.hpp"
#include "provider/rxe/verbs.hpp"

namespace sluice::provider::rxe {

namespace {

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
    if (!sends && qp.recv.headers != nullptr) {
        cq.datagrams.fetch_add(1, std::memory_order_relaxed);
    }
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
    if (!member.sends && member.qp->recv.headers != nullptr) {
        member.cq->datagrams.fetch_sub(1, std::memory_order_relaxed);
    }
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
    return queue.ring.attach(queue.mapping.data(), queue.mapping.len_bytes(), kSendHeaderBytes + payload,
                             caps.max_send_wr);
}

int map_recv_ring(Qp& qp, const mminfo& info, const ib_uverbs_create_qp_resp& caps) noexcept {
    RecvQueue& queue = qp.recv;
    if (qp.qp.srq != nullptr || info.size == 0) {
        return 0;
    }
    if (const int error = queue.mapping.map(uverbs_of(qp), info.size, info.offset)) {
        return error;
    }
    queue.max_sge = caps.max_recv_sge;
    return queue.ring.attach(queue.mapping.data(), queue.mapping.len_bytes(),
                             kRecvHeaderBytes + std::size_t{caps.max_recv_sge} * sizeof(rxe_sge),
                             caps.max_recv_wr);
}

int map_rings(Qp& qp, const rxe_create_qp_resp& shared, const ib_uverbs_create_qp_resp& caps) noexcept {
    if (const int error = map_send_ring(qp, shared.sq_mi, caps)) {
        return error;
    }
    return map_recv_ring(qp, shared.rq_mi, caps);
}

// Those of a shared receive queue complete at several queue pairs, in an order that nobody knows.
int make_header_places(Qp& qp, const QpRequest& request) noexcept {
    if (request.type != IBV_QPT_UD || !qp.recv.ring.ring().attached() || request.recv_cq == nullptr) {
        return 0;
    }
    qp.recv.headers =
        HeaderPlaces::make(qp.recv.ring.ring().mask() + 1, static_cast<std::uint32_t>(request.recv_cq->cqe));
    return qp.recv.headers != nullptr ? 0 : ENOMEM;
}

void forget_header_places(Qp& qp) noexcept {
    if (qp.recv.headers != nullptr) {
        const LockGuard guard(qp.recv_member.cq->members_mutex);
        qp.recv.headers->forget();
    }
}

Qp* create(const QpRequest& request) noexcept {
    const std::uint32_t ops = ops_of(request.type, 0);
    if (ops == 0) {
        return fail_with<Qp>(EOPNOTSUPP);
    }
    std::unique_ptr<Qp> qp(new (std::nothrow) Qp);
    if (qp == nullptr) {
        return fail_with<Qp>(ENOMEM);
    }
    ib_uverbs_create_qp_resp answer{};
    rxe_create_qp_resp shared{};
    if (const int error = make_in_kernel(*qp, request, answer, abi::driver_answer(shared))) {
        return fail_with<Qp>(error);
    }
    if (const int error = map_rings(*qp, shared, answer)) {
        unmake_in_kernel(*qp);
        return fail_with<Qp>(error);
    }
    qp->send.limits.ops = ops;
    qp->send.limits.plain_ops = request.type != IBV_QPT_UD && answer.max_send_sge != 0 ? ops & kPlainOps : 0;
    qp->send.signal_all = request.sq_sig_all != 0;
    qp->send.limits.datagram = request.type == IBV_QPT_UD;
    if (const int error = make_header_places(*qp, request)) {
        unmake_in_kernel(*qp);
        return fail_with<Qp>(error);
    }
    if (is_single_threaded(request.pd)) {
        qp->send.lock.elide();
        qp->recv.lock.elide();
    }
    join(qp->send_member, *qp, request.send_cq, true);
    join(qp->recv_member, *qp, request.recv_cq, false);
    announce(*qp, request, answer);
    return qp.release();
}

// What the kernel says that the device can do beyond the first set.
std::uint64_t device_flags(ibv_context* context) noexcept {
    ibv_device_attr_ex attr{};
    return query_device_ex(context, nullptr, &attr, sizeof attr) == 0 ? attr.device_cap_flags_ex : 0;
}

// After a reset: the kernel has emptied the rings, and may have set them back. Completions of what
// was asked before the reset would be taken for those of what is asked after it.
void start_again(Qp& qp) noexcept {
    {
        const LockGuard send_guard(qp.send.lock);
        qp.send.ring.resynchronise();
        const LockGuard recv_guard(qp.recv.lock);
        if (qp.recv.ring.ring().attached()) {
            qp.recv.ring.resynchronise();
        }
    }
    discard_completions(cq_of(qp.qp.send_cq), qp);
    if (qp.qp.recv_cq != qp.qp.send_cq) {
        discard_completions(cq_of(qp.qp.recv_cq), qp);
    }
    forget_header_places(qp);
}

} // namespace

ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) noexcept {
    Qp* qp = create(qp_request(pd, *attr));
    return qp != nullptr ? &qp->qp : nullptr;
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr) noexcept {
    const std::uint64_t supported =
        wants_wr_functions(*attr) ? supported_wr_ops(ops_of(attr->qp_type, device_flags(context))) : 0;
    if (const int error = check_extended_request(context, *attr, supported)) {
        return fail_with<ibv_qp>(error);
    }
    Qp* qp = create(qp_request(attr->pd, *attr));
    if (qp == nullptr) {
        return nullptr;
    }
    if (wants_wr_functions(*attr)) {
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
        start_again(qp);
    }
    return 0;
}

int destroy_qp(ibv_qp* ibqp) noexcept {
    Qp& qp = qp_of(ibqp);
    if (const int error = retire(qp)) {
        return error;
    }
    leave(qp.send_member);
    leave(qp.recv_member);
    delete &qp;
    return 0;
}

} // namespace sluice::provider::rxe
