// SPDX-License-Identifier: BSD-3-Clause
//
// Receive requests, for a queue pair or shared. The kernel looks at the ring when a message
// arrives, so posting is nothing but filling it.
#include "provider/rxe/verbs.hpp"

namespace sluice::provider::rxe {

namespace {

int fill(const RecvQueue& queue, const ibv_recv_wr& wr, rxe_recv_wqe& wqe) noexcept {
    const auto count = static_cast<std::uint32_t>(wr.num_sge);
    if (count > queue.max_sge) {
        return EINVAL;
    }
    const std::uint64_t total = total_length(wr.sg_list, count);
    if (total > UINT32_MAX) {
        return EINVAL;
    }
    wqe.wr_id = wr.wr_id;
    start_data(wqe.dma, static_cast<std::uint32_t>(total), count);
    copy_sges(wqe.dma, wr.sg_list, count);
    if (queue.headers != nullptr) [[unlikely]] {
        queue.headers->note(wr);
    }
    return 0;
}

// What stands before the request that fails is posted.
[[gnu::noinline]] int post_chain(RecvQueue& queue, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept {
    const LockGuard guard(queue.lock);
    std::uint32_t count = 0;
    int error = 0;
    for (; wr != nullptr; wr = wr->next) {
        error = queue.ring.has_room(count)
                    ? fill(queue, *wr, *static_cast<rxe_recv_wqe*>(queue.ring.element(count)))
                    : ENOMEM;
        if (error != 0) {
            *bad_wr = wr;
            break;
        }
        ++count;
    }
    if (count != 0) {
        queue.ring.publish(count);
    }
    return error;
}

// What nearly every request is: alone, and one piece of memory. False, with nothing posted, if it is anything
// else.
[[gnu::always_inline]] inline bool post_plain(RecvQueue& queue, const ibv_recv_wr* wr) noexcept {
    if (wr == nullptr || wr->next != nullptr || wr->num_sge != 1 || queue.max_sge == 0) [[unlikely]] {
        return false;
    }
    const LockGuard guard(queue.lock);
    if (!queue.ring.has_room(0)) [[unlikely]] {
        return false;
    }
    const ibv_sge sge = *wr->sg_list;
    auto& wqe = *static_cast<rxe_recv_wqe*>(queue.ring.element(0));
    wqe.wr_id = wr->wr_id;
    start_data(wqe.dma, sge.length, 1);
    copy_sges(wqe.dma, &sge, 1);
    if (queue.headers != nullptr) [[unlikely]] {
        queue.headers->note(*wr);
    }
    queue.ring.publish(1);
    return true;
}

[[gnu::always_inline]] inline int post(RecvQueue& queue, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept {
    return post_plain(queue, wr) ? 0 : post_chain(queue, wr, bad_wr);
}

} // namespace

int post_recv(ibv_qp* ibqp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept {
    Qp& qp = qp_of(ibqp);
    // A queue pair with a shared receive queue takes none, nor does one before its first state.
    if (!qp.recv.ring.ring().attached() || qp.state.load(std::memory_order_relaxed) == IBV_QPS_RESET) {
        *bad_wr = wr;
        return EINVAL;
    }
    if (context_of(ibqp->context).gone.load(std::memory_order_relaxed)) {
        *bad_wr = wr;
        return EIO;
    }
    return post(qp.recv, wr, bad_wr);
}

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept {
    if (context_of(srq->context).gone.load(std::memory_order_relaxed)) {
        *bad_wr = wr;
        return EIO;
    }
    return post(srq_of(srq).queue, wr, bad_wr);
}

} // namespace sluice::provider::rxe
