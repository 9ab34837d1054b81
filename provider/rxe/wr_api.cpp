// SPDX-License-Identifier: BSD-3-Clause
//
// The ibv_wr_* interface: requests that are built piece by piece, straight in the ring.
//
// Between wr_start() and wr_complete() or wr_abort() the send queue is the caller's. An error in
// any piece is kept, the pieces behind it do nothing, and wr_complete() gives the error back with
// nothing published: the whole batch is posted, or none of it.
#include "provider/common/wr_functions.hpp"
#include "provider/rxe/verbs.hpp"

namespace sluice::provider::rxe {

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

// Begins a request. Without data of its own it is complete: setters fill in the rest.
rxe_send_wqe* begin(ibv_qp_ex* qp, std::uint32_t opcode) noexcept {
    SendQueue& queue = queue_of(qp);
    if (queue.error != 0) {
        return nullptr;
    }
    if ((qp->wr_flags & ~kSendFlags) != 0 || queue.needs_address) {
        fail(queue, EINVAL);
        return nullptr;
    }
    if (!queue.ring.has_room(queue.building)) {
        fail(queue, ENOMEM);
        return nullptr;
    }
    auto* wqe = static_cast<rxe_send_wqe*>(queue.ring.element(queue.building));
    ++queue.building;
    // Which data is inline, setters tell.
    start_send(*wqe, qp->wr_id, opcode, qp->wr_flags & ~unsigned{IBV_SEND_INLINE});
    start_data(wqe->dma, 0, 0);
    queue.current = wqe;
    queue.needs_address = queue.limits.datagram;
    return wqe;
}

void begin_rdma(ibv_qp_ex* qp, std::uint32_t opcode, std::uint32_t rkey, std::uint64_t remote_addr,
                __be32 imm_data) noexcept {
    if (rxe_send_wqe* wqe = begin(qp, opcode)) {
        wqe->wr.wr.rdma.remote_addr = remote_addr;
        wqe->wr.wr.rdma.rkey = rkey;
        wqe->wr.ex.imm_data = imm_data;
        wqe->iova = remote_addr;
    }
}

void begin_atomic(ibv_qp_ex* qp, std::uint32_t opcode, std::uint32_t rkey, std::uint64_t remote_addr,
                  std::uint64_t compare_add, std::uint64_t swap) noexcept {
    if (remote_addr % sizeof(std::uint64_t) != 0) {
        fail(queue_of(qp), EINVAL);
        return;
    }
    if (rxe_send_wqe* wqe = begin(qp, opcode)) {
        wqe->wr.wr.atomic.remote_addr = remote_addr;
        wqe->wr.wr.atomic.compare_add = compare_add;
        wqe->wr.wr.atomic.swap = swap;
        wqe->wr.wr.atomic.rkey = rkey;
        wqe->iova = remote_addr;
    }
}

void wr_atomic_cmp_swp(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_addr, std::uint64_t compare,
                       std::uint64_t swap) noexcept {
    begin_atomic(qp, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, remote_addr, compare, swap);
}
void wr_atomic_fetch_add(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_addr,
                         std::uint64_t add) noexcept {
    begin_atomic(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, remote_addr, add, 0);
}
void wr_rdma_read(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_addr) noexcept {
    begin_rdma(qp, IBV_WR_RDMA_READ, rkey, remote_addr, 0);
}
void wr_rdma_write(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_addr) noexcept {
    begin_rdma(qp, IBV_WR_RDMA_WRITE, rkey, remote_addr, 0);
}
void wr_rdma_write_imm(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_addr,
                       __be32 imm_data) noexcept {
    begin_rdma(qp, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr, imm_data);
}
void wr_send(ibv_qp_ex* qp) noexcept {
    (void)begin(qp, IBV_WR_SEND);
}
void wr_send_imm(ibv_qp_ex* qp, __be32 imm_data) noexcept {
    if (rxe_send_wqe* wqe = begin(qp, IBV_WR_SEND_WITH_IMM)) {
        wqe->wr.ex.imm_data = imm_data;
    }
}
void wr_send_inv(ibv_qp_ex* qp, std::uint32_t rkey) noexcept {
    if (rxe_send_wqe* wqe = begin(qp, IBV_WR_SEND_WITH_INV)) {
        wqe->wr.ex.invalidate_rkey = rkey;
    }
}
void wr_local_inv(ibv_qp_ex* qp, std::uint32_t rkey) noexcept {
    if (rxe_send_wqe* wqe = begin(qp, IBV_WR_LOCAL_INV)) {
        wqe->wr.ex.invalidate_rkey = rkey;
    }
}
void wr_bind_mw(ibv_qp_ex* qp, ibv_mw* mw, std::uint32_t rkey, const ibv_mw_bind_info* info) noexcept {
    if (rxe_send_wqe* wqe = begin(qp, IBV_WR_BIND_MW)) {
        if (const int error = mw != nullptr ? fill_bind(*wqe, *mw, rkey, *info) : EINVAL) {
            fail(queue_of(qp), error);
        }
    }
}

// The eight bytes are in the request from the start; there is nothing for a setter to add.
void wr_atomic_write(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_addr,
                     const void* value) noexcept {
    if (remote_addr % sizeof(std::uint64_t) != 0) {
        fail(queue_of(qp), EINVAL);
        return;
    }
    if (rxe_send_wqe* wqe = begin(qp, kWrAtomicWrite)) {
        wqe->wr.wr.rdma.remote_addr = remote_addr;
        wqe->wr.wr.rdma.rkey = rkey;
        wqe->iova = remote_addr;
        start_data(wqe->dma, sizeof(std::uint64_t), 0);
        std::memcpy(data_behind(wqe->dma), value, sizeof(std::uint64_t));
    }
}

void wr_flush(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_addr, std::size_t len_bytes,
              std::uint8_t type, std::uint8_t level) noexcept {
    if (len_bytes > UINT32_MAX) {
        fail(queue_of(qp), EINVAL);
        return;
    }
    if (rxe_send_wqe* wqe = begin(qp, kWrFlush)) {
        const FlushRequest flush{.remote_addr = remote_addr,
                                 .length = static_cast<std::uint32_t>(len_bytes),
                                 .rkey = rkey,
                                 .type = type,
                                 .level = level};
        std::memcpy(&wqe->wr.wr, &flush, sizeof flush);
        wqe->iova = remote_addr;
    }
}

void wr_set_ud_addr(ibv_qp_ex* qp, ibv_ah* ah, std::uint32_t remote_qpn, std::uint32_t remote_qkey) noexcept {
    SendQueue& queue = queue_of(qp);
    if (queue.current == nullptr) {
        return;
    }
    if (ah == nullptr || ah->context != qp->qp_base.context) {
        fail(queue, EINVAL);
        return;
    }
    queue.current->wr.wr.ud.remote_qpn = remote_qpn;
    queue.current->wr.wr.ud.remote_qkey = remote_qkey;
    queue.current->wr.wr.ud.pkey_index = 0;
    queue.current->wr.wr.ud.ah_num = ah_of(ah).number;
    queue.needs_address = false;
}

// The data of the current request, as a list of places in memory.
void set_sges(SendQueue& queue, const ibv_sge* list, std::size_t count) noexcept {
    if (queue.current == nullptr) {
        return;
    }
    if (count > queue.limits.max_sge) {
        fail(queue, EINVAL);
        return;
    }
    const auto n = static_cast<std::uint32_t>(count);
    const std::uint64_t total = total_length(list, n);
    if (total > UINT32_MAX) {
        fail(queue, EINVAL);
        return;
    }
    start_data(queue.current->dma, static_cast<std::uint32_t>(total), n);
    copy_sges(queue.current->dma, list, n);
}

void wr_set_sge(ibv_qp_ex* qp, std::uint32_t lkey, std::uint64_t address, std::uint32_t length) noexcept {
    const ibv_sge sge{.addr = address, .length = length, .lkey = lkey};
    set_sges(queue_of(qp), &sge, 1);
}
void wr_set_sge_list(ibv_qp_ex* qp, std::size_t count, const ibv_sge* list) noexcept {
    set_sges(queue_of(qp), list, count);
}

// The data of the current request, copied.
void set_inline(SendQueue& queue, const ibv_data_buf* list, std::size_t count) noexcept {
    if (queue.current == nullptr) {
        return;
    }
    std::size_t total = 0;
    for (std::size_t i = 0; i < count; ++i) {
        if (list[i].length > queue.limits.max_inline_data - total) {
            fail(queue, EINVAL);
            return;
        }
        total += list[i].length;
    }
    rxe_send_wqe& wqe = *queue.current;
    start_data(wqe.dma, static_cast<std::uint32_t>(total), 0);
    wqe.wr.send_flags |= IBV_SEND_INLINE;
    std::uint8_t* to = data_behind(wqe.dma);
    for (std::size_t i = 0; i < count; ++i) {
        std::memcpy(to, list[i].addr, list[i].length);
        to += list[i].length;
    }
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
    queue.error = 0;
    queue.needs_address = false;
    if (qp_of(&qp->qp_base).state.load(std::memory_order_relaxed) < IBV_QPS_RTS) {
        queue.error = EINVAL;
    } else if (context_of(qp->qp_base.context).gone.load(std::memory_order_relaxed)) {
        queue.error = EIO;
    }
}

int wr_complete(ibv_qp_ex* qp) noexcept SLUICE_TSA(no_thread_safety_analysis) {
    SendQueue& queue = queue_of(qp);
    const int error = queue.error != 0 || !queue.needs_address ? queue.error : EINVAL;
    const std::uint32_t count = error == 0 ? queue.building : 0;
    if (count != 0) {
        queue.ring.publish(count);
    }
    queue.lock.unlock();
    return count != 0 ? ring_doorbell(qp_of(&qp->qp_base)) : error;
}

void wr_abort(ibv_qp_ex* qp) noexcept SLUICE_TSA(no_thread_safety_analysis) {
    queue_of(qp).lock.unlock();
}

struct WrOp {
    std::uint32_t op;
    std::uint64_t flag;
};
constexpr WrOp kWrOps[] = {
    {IBV_WR_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE},
    {IBV_WR_RDMA_WRITE_WITH_IMM, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM},
    {IBV_WR_SEND, IBV_QP_EX_WITH_SEND},
    {IBV_WR_SEND_WITH_IMM, IBV_QP_EX_WITH_SEND_WITH_IMM},
    {IBV_WR_RDMA_READ, IBV_QP_EX_WITH_RDMA_READ},
    {IBV_WR_ATOMIC_CMP_AND_SWP, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP},
    {IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD},
    {IBV_WR_LOCAL_INV, IBV_QP_EX_WITH_LOCAL_INV},
    {IBV_WR_BIND_MW, IBV_QP_EX_WITH_BIND_MW},
    {IBV_WR_SEND_WITH_INV, IBV_QP_EX_WITH_SEND_WITH_INV},
    {kWrFlush, kQpExWithFlush},
    {kWrAtomicWrite, kQpExWithAtomicWrite},
};

} // namespace

std::uint64_t supported_wr_ops(std::uint32_t ops) noexcept {
    std::uint64_t flags = 0;
    for (const WrOp& wr : kWrOps) {
        flags |= (ops & op_bit(wr.op)) != 0 ? wr.flag : 0;
    }
    return flags;
}

void set_wr_functions(Qp& qp, std::uint64_t send_ops_flags) noexcept {
    provider::set_wr_functions(qp, send_ops_flags,
                               {.atomic_cmp_swp = wr_atomic_cmp_swp,
                                .atomic_fetch_add = wr_atomic_fetch_add,
                                .bind_mw = wr_bind_mw,
                                .local_inv = wr_local_inv,
                                .rdma_read = wr_rdma_read,
                                .rdma_write = wr_rdma_write,
                                .rdma_write_imm = wr_rdma_write_imm,
                                .send = wr_send,
                                .send_imm = wr_send_imm,
                                .send_inv = wr_send_inv,
                                .set_ud_addr = wr_set_ud_addr,
                                .set_inline_data = wr_set_inline_data,
                                .set_inline_data_list = wr_set_inline_data_list,
                                .set_sge = wr_set_sge,
                                .set_sge_list = wr_set_sge_list,
                                .start = wr_start,
                                .complete = wr_complete,
                                .abort = wr_abort,
                                .atomic_write = wr_atomic_write,
                                .flush = wr_flush});
}

} // namespace sluice::provider::rxe
