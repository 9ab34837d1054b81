// SPDX-License-Identifier: BSD-3-Clause
//
// Receive requests, for a queue pair or shared. The kernel looks at the ring when a message
// arrives, so posting is nothing but filling it.
#include "provider/common/total_length.hpp"
#include "provider/siw/verbs.hpp"

namespace sluice::provider::siw {

namespace {

int fill(RecvQueue& queue, const ibv_recv_wr& wr) noexcept {
    siw_rqe& rqe = queue.ring.at(queue.ring.next);
    const auto count = static_cast<std::uint32_t>(wr.num_sge);
    if (is_valid(rqe.flags)) {
        return ENOMEM;
    }
    if (count > queue.max_sge || (count > 1 && total_length(wr.sg_list, count) > UINT32_MAX)) {
        return EINVAL;
    }
    rqe.id = wr.wr_id;
    rqe.num_sge = static_cast<std::uint8_t>(count);
    copy_sges(rqe.sge, wr.sg_list, count);
    set_flags(rqe.flags, SIW_WQE_VALID);
    ++queue.ring.next;
    return 0;
}

int post(RecvQueue& queue, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept {
    const LockGuard guard(queue.lock);
    for (; wr != nullptr; wr = wr->next) {
        if (const int error = fill(queue, *wr)) {
            *bad_wr = wr;
            return error;
        }
    }
    return 0;
}

} // namespace

int post_recv(ibv_qp* ibqp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept {
    Qp& qp = qp_of(ibqp);
    if (!qp.recv.ring.attached()) {
        *bad_wr = wr;
        return EINVAL;
    }
    if (is_closed(qp)) {
        *bad_wr = wr;
        return EIO;
    }
    return post(qp.recv, wr, bad_wr);
}

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept {
    return post(srq_of(srq).queue, wr, bad_wr);
}

} // namespace sluice::provider::siw
