// SPDX-License-Identifier: BSD-3-Clause
//
// Receive requests, for a queue pair or shared. The kernel looks at the ring when a message
// arrives, so posting is nothing but filling it.
#include "provider/rxe/verbs.hpp"

namespace sluice::provider::rxe {

namespace {

// What nearly every request is: one piece of memory.
void fill_one(const ibv_recv_wr& wr, rxe_recv_wqe& wqe) noexcept {
    const ibv_sge sge = *wr.sg_list;
    wqe.wr_id = wr.wr_id;
    start_data(wqe.dma, sge.length, 1);
    copy_sges(wqe.dma, &sge, 1);
}

// Apart, so that the way of those stays short.
[[gnu::noinline]] int fill(const RecvQueue& queue, const ibv_recv_wr& wr, rxe_recv_wqe& wqe) noexcept {
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
    return 0;
}

// What stands before the request that fails is posted.
int post(RecvQueue& queue, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept {
    const LockGuard guard(queue.lock);
    const Ring ring = queue.ring.ring(); // a copy that the program's memory can't alias
    const std::uint32_t next = queue.ring.next();
    const bool takes_one = queue.max_sge != 0;
    std::uint32_t count = 0;
    int error = 0;
    for (; wr != nullptr; wr = wr->next, ++count) {
        if (!queue.ring.has_room(count)) [[unlikely]] {
            error = ENOMEM;
            break;
        }
        auto& wqe = *static_cast<rxe_recv_wqe*>(ring.element(next + count));
        if (wr->num_sge == 1 && takes_one) [[likely]] {
            fill_one(*wr, wqe);
        } else if ((error = fill(queue, *wr, wqe)) != 0) {
            break;
        }
    }
    if (error != 0) [[unlikely]] {
        *bad_wr = wr;
    }
    if (count != 0) [[likely]] {
        queue.ring.publish(count);
    }
    return error;
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
