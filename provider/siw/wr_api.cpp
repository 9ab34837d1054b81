// SPDX-License-Identifier: BSD-3-Clause
//
// The ibv_wr_* interface: requests that are built piece by piece in the ring, without the flag
// that hands them over. An error in any piece is kept, and nothing of the batch is posted.
#include <cstring>

#include "provider/common/wr_functions.hpp"
#include "provider/siw/verbs.hpp"

namespace sluice::provider::siw {

namespace {

SendQueue& queue_of(ibv_qp_ex* qp) noexcept {
    return qp_of(&qp->qp_base).send;
}

void fail(SendQueue& queue, int error) noexcept {
    queue.current = nullptr;
    if (queue.error == 0) {
        queue.error = error;
    }
}

siw_sqe* begin(ibv_qp_ex* qp, siw_opcode opcode) noexcept {
    constexpr unsigned kKnown = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
    SendQueue& queue = queue_of(qp);
    if (queue.error != 0) {
        return nullptr;
    }
    if ((qp->wr_flags & ~kKnown) != 0) {
        fail(queue, EINVAL);
        return nullptr;
    }
    siw_sqe& sqe = queue.ring.at(queue.ring.next + queue.building);
    if (queue.building == queue.ring.count() || is_valid(sqe.flags)) {
        fail(queue, ENOMEM);
        return nullptr;
    }
    ++queue.building;
    sqe.id = qp->wr_id;
    sqe.opcode = static_cast<std::uint8_t>(opcode);
    sqe.raddr = 0;
    sqe.rkey = 0;
    sqe.num_sge = 0;
    if (opcode == SIW_OP_READ) {
        sqe.num_sge = 1; // a read of nothing still has a place to go
        sqe.sge[0] = {};
    }
    // Which data is inline, setters tell.
    sqe.flags = static_cast<__u16>(element_flags(queue, qp->wr_flags & ~unsigned{IBV_SEND_INLINE}));
    queue.current = &sqe;
    return &sqe;
}

void begin_rdma(ibv_qp_ex* qp, siw_opcode opcode, std::uint32_t rkey, std::uint64_t remote_addr) noexcept {
    if (siw_sqe* sqe = begin(qp, opcode)) {
        sqe->rkey = rkey;
        sqe->raddr = remote_addr;
    }
}

void wr_rdma_read(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_addr) noexcept {
    begin_rdma(qp, SIW_OP_READ, rkey, remote_addr);
}
void wr_rdma_write(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_addr) noexcept {
    begin_rdma(qp, SIW_OP_WRITE, rkey, remote_addr);
}
void wr_send(ibv_qp_ex* qp) noexcept {
    (void)begin(qp, SIW_OP_SEND);
}
void wr_send_inv(ibv_qp_ex* qp, std::uint32_t rkey) noexcept {
    if (siw_sqe* sqe = begin(qp, SIW_OP_SEND_REMOTE_INV)) {
        sqe->rkey = rkey;
    }
}

void set_sges(SendQueue& queue, const ibv_sge* list, std::size_t count) noexcept {
    if (queue.current == nullptr) {
        return;
    }
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < count && count <= queue.max_sge; ++i) {
        total += list[i].length;
    }
    if (count > queue.max_sge || total > UINT32_MAX || (queue.current->opcode == SIW_OP_READ && count > 1)) {
        fail(queue, EINVAL);
        return;
    }
    if (count != 0) {
        queue.current->num_sge = static_cast<std::uint8_t>(count);
        copy_sges(queue.current->sge, list, count);
    }
}

void wr_set_sge(ibv_qp_ex* qp, std::uint32_t lkey, std::uint64_t address, std::uint32_t length) noexcept {
    const ibv_sge sge{.addr = address, .length = length, .lkey = lkey};
    set_sges(queue_of(qp), &sge, 1);
}
void wr_set_sge_list(ibv_qp_ex* qp, std::size_t count, const ibv_sge* list) noexcept {
    set_sges(queue_of(qp), list, count);
}

void set_inline(SendQueue& queue, const ibv_data_buf* list, std::size_t count) noexcept {
    if (queue.current == nullptr) {
        return;
    }
    std::size_t total = 0;
    for (std::size_t i = 0; i < count; ++i) {
        if (list[i].length > kMaxInline - total) {
            fail(queue, EINVAL);
            return;
        }
        total += list[i].length;
    }
    siw_sqe& sqe = *queue.current;
    if (sqe.opcode == SIW_OP_READ) {
        fail(queue, EINVAL);
        return;
    }
    auto* to = reinterpret_cast<std::uint8_t*>(&sqe.sge[1]);
    for (std::size_t i = 0; i < count; ++i) {
        std::memcpy(to, list[i].addr, list[i].length);
        to += list[i].length;
    }
    sqe.num_sge = 1;
    sqe.sge[0] = {.laddr = 0, .length = static_cast<std::uint32_t>(total), .lkey = 0};
    sqe.flags = static_cast<__u16>(sqe.flags | SIW_WQE_INLINE);
}

void wr_set_inline_data(ibv_qp_ex* qp, void* address, std::size_t length) noexcept {
    const ibv_data_buf buffer{.addr = address, .length = length};
    set_inline(queue_of(qp), &buffer, 1);
}
void wr_set_inline_data_list(ibv_qp_ex* qp, std::size_t count, const ibv_data_buf* list) noexcept {
    set_inline(queue_of(qp), list, count);
}

void wr_start(ibv_qp_ex* qp) noexcept SLUICE_TSA(no_thread_safety_analysis) {
    SendQueue& queue = queue_of(qp);
    queue.lock.lock();
    queue.building = 0;
    queue.current = nullptr;
    queue.error = is_closed(qp_of(&qp->qp_base)) ? EIO : 0;
}

// Gives the kernel all that was built. The ring step of the first.
std::uint32_t hand_over(SendQueue& queue) noexcept {
    const std::uint32_t first = queue.ring.next;
    for (std::uint32_t i = 0; i < queue.building; ++i) {
        siw_sqe& sqe = queue.ring.at(first + i);
        set_flags(sqe.flags, sqe.flags | unsigned{SIW_WQE_VALID});
    }
    queue.ring.next = first + queue.building;
    return first;
}

int wr_complete(ibv_qp_ex* ex) noexcept SLUICE_TSA(no_thread_safety_analysis) {
    Qp& qp = qp_of(&ex->qp_base);
    int error = qp.send.error;
    if (error == 0 && qp.send.building != 0) {
        std::uint32_t taken = 0;
        error = make_seen(qp, hand_over(qp.send), taken);
        error = taken == qp.send.building ? 0 : error;
    }
    qp.send.lock.unlock();
    return error;
}

void wr_abort(ibv_qp_ex* qp) noexcept SLUICE_TSA(no_thread_safety_analysis) {
    queue_of(qp).lock.unlock();
}

} // namespace

void set_wr_functions(Qp& qp, std::uint64_t send_ops_flags) noexcept {
    provider::set_wr_functions(qp, send_ops_flags,
                               {.rdma_read = wr_rdma_read,
                                .rdma_write = wr_rdma_write,
                                .send = wr_send,
                                .send_inv = wr_send_inv,
                                .set_inline_data = wr_set_inline_data,
                                .set_inline_data_list = wr_set_inline_data_list,
                                .set_sge = wr_set_sge,
                                .set_sge_list = wr_set_sge_list,
                                .start = wr_start,
                                .complete = wr_complete,
                                .abort = wr_abort});
}

} // namespace sluice::provider::siw
