// SPDX-License-Identifier: BSD-3-Clause
#include "provider/common/queue_pair.hpp"

#include "provider/common/verbs.hpp"

namespace sluice::provider {

namespace {

abi::Uverbs& uverbs_of(const QueuePair& qp) noexcept {
    return context_of(qp.qp.context).uverbs;
}

void fill_public_part(QueuePair& qp, const QpRequest& request) noexcept {
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

int destroy_in_kernel(const QueuePair& qp, ib_uverbs_destroy_qp_resp& answer) noexcept {
    ib_uverbs_destroy_qp command{};
    command.qp_handle = qp.qp.handle;
    return destroy_result(uverbs_of(qp).invoke(IB_USER_VERBS_CMD_DESTROY_QP, command, answer));
}

void enlist(QueuePair& qp) noexcept {
    Context& context = context_of(qp.qp.context);
    const LockGuard guard(context.qps_mutex);
    qp.next = context.qps;
    context.qps = &qp;
}

void delist(QueuePair& qp) noexcept {
    Context& context = context_of(qp.qp.context);
    const LockGuard guard(context.qps_mutex);
    QueuePair** link = &context.qps;
    while (*link != &qp) {
        link = &(*link)->next;
    }
    *link = qp.next;
}

} // namespace

int check_extended_request(const ibv_context* context, const ibv_qp_init_attr_ex& attr,
                           std::uint64_t supported_ops) noexcept {
    constexpr std::uint32_t kKnown = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    // Naming no special wish by the mask of one is no wish.
    constexpr std::uint32_t kZero = IBV_QP_INIT_ATTR_CREATE_FLAGS;
    if ((attr.comp_mask & ~(kKnown | kZero)) != 0 ||
        ((attr.comp_mask & kZero) != 0 && attr.create_flags != 0)) {
        return EOPNOTSUPP;
    }
    if ((attr.comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || attr.pd == nullptr || attr.pd->context != context) {
        return EINVAL;
    }
    return wants_wr_functions(attr) && (attr.send_ops_flags & ~supported_ops) != 0 ? EOPNOTSUPP : 0;
}

int make_in_kernel(QueuePair& qp, const QpRequest& request, ib_uverbs_create_qp_resp& answer,
                   const abi::DriverData& driver) noexcept {
    // Handles are numbers: another context's could be those of something else here.
    const auto is_ours = [&request](const auto* object) { return object->context == request.pd->context; };
    if (request.send_cq == nullptr || request.recv_cq == nullptr || !is_ours(request.send_cq) ||
        !is_ours(request.recv_cq) || (request.srq != nullptr && !is_ours(request.srq))) {
        return EINVAL;
    }
    fill_public_part(qp, request);
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
    if (const int error = uverbs_of(qp).invoke(IB_USER_VERBS_CMD_CREATE_QP, command, answer, driver)) {
        return error;
    }
    qp.qp.handle = answer.qp_handle;
    qp.qp.qp_num = answer.qpn;
    qp.doorbell.hang(answer.qp_handle);
    return 0;
}

void unmake_in_kernel(const QueuePair& qp) noexcept {
    ib_uverbs_destroy_qp_resp ignored{};
    (void)destroy_in_kernel(qp, ignored);
}

void announce(QueuePair& qp, const QpRequest& request, const ib_uverbs_create_qp_resp& answer) noexcept {
    request.cap->max_send_wr = answer.max_send_wr;
    request.cap->max_recv_wr = answer.max_recv_wr;
    request.cap->max_send_sge = answer.max_send_sge;
    request.cap->max_recv_sge = answer.max_recv_sge;
    request.cap->max_inline_data = answer.max_inline_data;
    enlist(qp);
}

int retire(QueuePair& qp) noexcept {
    ib_uverbs_destroy_qp_resp answer{};
    if (const int error = destroy_in_kernel(qp, answer)) {
        return error;
    }
    delist(qp);
    await_events(qp.qp.mutex, qp.qp.cond, qp.qp.events_completed, answer.events_reported);
    return 0;
}

} // namespace sluice::provider
