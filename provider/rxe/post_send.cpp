// SPDX-License-Identifier: BSD-3-Clause
//
// Posting send requests, and the doorbell that makes the kernel look at them.
//
// A request is checked as a whole before a byte of it is written, and nothing is published
// before the chain has ended or failed. The doorbell is rung without the lock: until kernel 6.4
// the packets are built and sent inside that system call, and other threads can fill the ring
// meanwhile.
#include "provider/common/bind_window.hpp"
#include "provider/rxe/verbs.hpp"

namespace sluice::provider::rxe {

namespace {

// Checks what is common to all operations, and adds up the length.
int check(const SendLimits& limits, const ibv_send_wr& wr, std::uint32_t& length) noexcept {
    const auto opcode = number_of(wr.opcode);
    const auto count = static_cast<std::uint32_t>(wr.num_sge);
    if (opcode > 31 || (limits.ops & op_bit(opcode)) == 0 || (wr.send_flags & ~kSendFlags) != 0 ||
        count > limits.max_sge) [[unlikely]] {
        return EINVAL;
    }
    const std::uint64_t total = total_length(wr.sg_list, count);
    if (total > UINT32_MAX) [[unlikely]] {
        return EINVAL;
    }
    if ((wr.send_flags & IBV_SEND_INLINE) != 0 &&
        (total > limits.max_inline_data || (op_bit(opcode) & kInlineOps) == 0)) {
        return EINVAL;
    }
    length = static_cast<std::uint32_t>(total);
    return 0;
}

int fill_data(rxe_send_wqe& wqe, const ibv_send_wr& wr, std::uint32_t length) noexcept {
    const auto count = static_cast<std::uint32_t>(wr.num_sge);
    start_data(wqe.dma, length, count);
    if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
        copy_inline(wqe.dma, wr.sg_list, count);
    } else {
        copy_sges(wqe.dma, wr.sg_list, count);
    }
    return 0;
}

void start(rxe_send_wqe& wqe, const ibv_send_wr& wr) noexcept {
    start_send(wqe, wr.wr_id, number_of(wr.opcode), wr.send_flags);
}

int fill_rdma(rxe_send_wqe& wqe, const ibv_send_wr& wr, std::uint32_t length) noexcept {
    start(wqe, wr);
    wqe.wr.wr.rdma.remote_addr = wr.wr.rdma.remote_addr;
    wqe.wr.wr.rdma.rkey = wr.wr.rdma.rkey;
    wqe.iova = wr.wr.rdma.remote_addr;
    wqe.wr.ex.imm_data = wr.imm_data;
    return fill_data(wqe, wr, length);
}

int fill_send(rxe_send_wqe& wqe, const ibv_send_wr& wr, std::uint32_t length, const SendLimits& limits,
              const ibv_context* context) noexcept {
    if (limits.datagram) {
        const ibv_ah* ah = wr.wr.ud.ah;
        if (ah == nullptr || ah->context != context) {
            return EINVAL;
        }
        start(wqe, wr);
        wqe.wr.wr.ud.remote_qpn = wr.wr.ud.remote_qpn;
        wqe.wr.wr.ud.remote_qkey = wr.wr.ud.remote_qkey;
        wqe.wr.wr.ud.pkey_index = 0;
        wqe.wr.wr.ud.ah_num = ah_of(ah).number;
    } else {
        start(wqe, wr);
    }
    wqe.wr.ex.imm_data = wr.imm_data; // or the key to invalidate, in the same place
    return fill_data(wqe, wr, length);
}

int fill_atomic(rxe_send_wqe& wqe, const ibv_send_wr& wr, std::uint32_t length) noexcept {
    if (length < sizeof(std::uint64_t) || wr.wr.atomic.remote_addr % sizeof(std::uint64_t) != 0) {
        return EINVAL;
    }
    start(wqe, wr);
    wqe.wr.wr.atomic.remote_addr = wr.wr.atomic.remote_addr;
    wqe.wr.wr.atomic.compare_add = wr.wr.atomic.compare_add;
    wqe.wr.wr.atomic.swap = wr.wr.atomic.swap;
    wqe.wr.wr.atomic.rkey = wr.wr.atomic.rkey;
    wqe.iova = wr.wr.atomic.remote_addr;
    return fill_data(wqe, wr, length);
}

// The eight bytes travel in the request itself: the kernel reads no memory of ours for them.
int fill_atomic_write(rxe_send_wqe& wqe, const ibv_send_wr& wr, std::uint32_t length) noexcept {
    if (length != sizeof(std::uint64_t) || wr.wr.rdma.remote_addr % sizeof(std::uint64_t) != 0) {
        return EINVAL;
    }
    start(wqe, wr);
    wqe.wr.wr.rdma.remote_addr = wr.wr.rdma.remote_addr;
    wqe.wr.wr.rdma.rkey = wr.wr.rdma.rkey;
    wqe.iova = wr.wr.rdma.remote_addr;
    start_data(wqe.dma, length, 0);
    copy_inline(wqe.dma, wr.sg_list, static_cast<std::uint32_t>(wr.num_sge));
    return 0;
}

int fill_bind_mw(rxe_send_wqe& wqe, const ibv_send_wr& wr) noexcept {
    if (wr.bind_mw.mw == nullptr) {
        return EINVAL;
    }
    if (const int error = fill_bind(wqe, *wr.bind_mw.mw, wr.bind_mw.rkey, wr.bind_mw.bind_info)) {
        return error;
    }
    start(wqe, wr);
    return 0;
}

// Apart, so that the way of a plain request stays short.
[[gnu::noinline]] int fill(const SendLimits& limits, const ibv_context* context, const ibv_send_wr& wr,
                           rxe_send_wqe& wqe) noexcept {
    std::uint32_t length = 0;
    if (const int error = check(limits, wr, length)) [[unlikely]] {
        return error;
    }
    switch (number_of(wr.opcode)) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_SEND_WITH_INV:
        return fill_send(wqe, wr, length, limits, context);
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_READ:
        return fill_rdma(wqe, wr, length);
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return fill_atomic(wqe, wr, length);
    case kWrAtomicWrite:
        return fill_atomic_write(wqe, wr, length);
    case IBV_WR_LOCAL_INV:
        start(wqe, wr);
        wqe.wr.ex.invalidate_rkey = wr.invalidate_rkey;
        start_data(wqe.dma, 0, 0);
        return 0;
    case IBV_WR_BIND_MW:
        return fill_bind_mw(wqe, wr);
    default:
        return EINVAL;
    }
}

// The head of a plain request. A send has no place at the far end: the kernel doesn't look at what is copied
// for it.
[[gnu::always_inline]] inline void start_plain(rxe_send_wqe& wqe, const ibv_send_wr& wr,
                                               std::uint32_t opcode) noexcept {
    start_send(wqe, wr.wr_id, opcode, wr.send_flags);
    wqe.wr.ex.imm_data = wr.imm_data; // or the key to invalidate, in the same place
    wqe.wr.wr.rdma.remote_addr = wr.wr.rdma.remote_addr;
    wqe.wr.wr.rdma.rkey = wr.wr.rdma.rkey;
    wqe.iova = wr.wr.rdma.remote_addr;
}

// What nearly every request is: one piece of memory, of a connected queue pair. Filled without a
// further look; false, with nothing written, if it is anything else.
[[gnu::always_inline]] inline bool fill_plain(std::uint32_t plain_ops, const ibv_send_wr& wr,
                                              rxe_send_wqe& wqe) noexcept {
    const std::uint32_t opcode = number_of(wr.opcode);
    if (opcode > 31 || (plain_ops & op_bit(opcode)) == 0 || wr.num_sge != 1 ||
        (wr.send_flags & ~(kSendFlags & ~unsigned{IBV_SEND_INLINE})) != 0) [[unlikely]] {
        return false;
    }
    const ibv_sge sge = *wr.sg_list;
    start_plain(wqe, wr, opcode);
    start_data(wqe.dma, sge.length, 1);
    copy_sges(wqe.dma, &sge, 1);
    return true;
}

// The same for several pieces of memory.
[[gnu::always_inline]] inline bool fill_pieces(const SendLimits& limits, const ibv_send_wr& wr,
                                               rxe_send_wqe& wqe) noexcept {
    const std::uint32_t opcode = number_of(wr.opcode);
    const auto count = static_cast<std::uint32_t>(wr.num_sge);
    if (opcode > 31 || (limits.plain_ops & op_bit(opcode)) == 0 || count > limits.max_sge ||
        (wr.send_flags & ~(kSendFlags & ~unsigned{IBV_SEND_INLINE})) != 0) [[unlikely]] {
        return false;
    }
    const std::uint64_t length = total_length(wr.sg_list, count);
    if (length > UINT32_MAX) [[unlikely]] {
        return false;
    }
    start_plain(wqe, wr, opcode);
    start_data(wqe.dma, static_cast<std::uint32_t>(length), count);
    copy_sges(wqe.dma, wr.sg_list, count);
    return true;
}

// The only request, which FILL makes an element of, if nobody else has the queue. False, with nothing posted,
// if not. Nothing is called in here, so that no register has to be saved.
template<typename Fill>
[[gnu::always_inline]] inline bool post_only(SendQueue& queue, const Fill& fill) noexcept {
    if (!queue.lock.try_lock()) [[unlikely]] {
        return false;
    }
    const bool fits = queue.ring.has_room(0) && fill(*static_cast<rxe_send_wqe*>(queue.ring.element(0)));
    if (fits) [[likely]] {
        queue.ring.publish(1);
    }
    queue.lock.unlock();
    return fits;
}

// What a post answers for a doorbell that failed with ERROR.
[[gnu::cold, gnu::noinline]] int after_doorbell(Context& context, int error) noexcept {
    if (error == EIO || error == ENODEV) {
        // What was published comes back as flushed, like everything else of this device.
        context.gone.store(true, std::memory_order_relaxed);
        return 0;
    }
    return error;
}

[[gnu::always_inline]] inline int ring(Qp& qp) noexcept {
    Context& context = context_of(qp.qp.context);
    const int error = qp.doorbell.ring(context.uverbs);
    return error == 0 ? 0 : after_doorbell(context, error);
}

// Fills elements with a chain of requests until one is refused; AT is then that one. The caller
// holds the queue's lock.
int fill_chain(SendQueue& queue, const ibv_context* context, ibv_send_wr*& at,
               std::uint32_t& count) noexcept {
    const Ring ring = queue.ring.ring(); // a copy that the program's memory can't alias
    const std::uint32_t next = queue.ring.next();
    const std::uint32_t plain_ops = queue.limits.plain_ops;
    for (; at != nullptr; at = at->next, ++count) {
        if (!queue.ring.has_room(count)) [[unlikely]] {
            return ENOMEM;
        }
        auto& wqe = *static_cast<rxe_send_wqe*>(ring.element(next + count));
        if (fill_plain(plain_ops, *at, wqe)) [[likely]] {
            continue;
        }
        if (const int error = fill(queue.limits, context, *at, wqe)) {
            return error;
        }
    }
    return 0;
}

// What stands before the request that fails is posted.
[[gnu::noinline]] int post_chain(Qp& qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) noexcept {
    ibv_send_wr* at = wr;
    std::uint32_t count = 0;
    int error = 0;
    {
        const LockGuard guard(qp.send.lock);
        error = fill_chain(qp.send, qp.qp.context, at, count);
        if (count != 0) [[likely]] {
            qp.send.ring.publish(count);
        }
    }
    if (error != 0) [[unlikely]] {
        *bad_wr = at;
    }
    if (count == 0) [[unlikely]] {
        return error;
    }
    if (const int doorbell_error = ring_doorbell(qp)) [[unlikely]] {
        *bad_wr = wr;
        return doorbell_error;
    }
    return error;
}

[[gnu::always_inline]] inline int ring_for(Qp& qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) noexcept {
    const int error = ring(qp);
    if (error != 0) [[unlikely]] {
        *bad_wr = wr;
    }
    return error;
}

// A function of its own: what it needs of registers would be saved for one piece, too.
[[gnu::noinline]] int post_pieces(Qp& qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) noexcept {
    const bool is_posted = post_only(
        qp.send, [&](rxe_send_wqe & wqe)
                     __attribute__((always_inline)) { return fill_pieces(qp.send.limits, *wr, wqe); });
    return is_posted ? ring_for(qp, wr, bad_wr) : post_chain(qp, wr, bad_wr);
}

// Whether the queue takes requests at all: only a queue pair that may send does, and one in
// error, which gives them back as flushed.
int check_state(const Qp& qp) noexcept {
    if (qp.state.load(std::memory_order_relaxed) < IBV_QPS_RTS) [[unlikely]] {
        return EINVAL;
    }
    return context_of(qp.qp.context).gone.load(std::memory_order_relaxed) ? EIO : 0;
}

} // namespace

int ring_doorbell(Qp& qp) noexcept {
    return ring(qp);
}

int fill_bind(rxe_send_wqe& wqe, const ibv_mw& mw, std::uint32_t rkey,
              const ibv_mw_bind_info& info) noexcept {
    if (info.mr == nullptr && (info.addr != 0 || info.length != 0)) {
        return EINVAL;
    }
    if (info.mr != nullptr && !is_same_domain(info.mr->pd, mw.pd)) {
        return EPERM;
    }
    wqe.wr.wr.mw.addr = info.addr;
    wqe.wr.wr.mw.length = info.length;
    wqe.wr.wr.mw.mr_lkey = info.mr != nullptr ? info.mr->lkey : 0;
    wqe.wr.wr.mw.mw_rkey = mw.rkey;
    wqe.wr.wr.mw.rkey = rkey;
    wqe.wr.wr.mw.access = info.mw_access_flags;
    start_data(wqe.dma, 0, 0);
    return 0;
}

int post_send(ibv_qp* ibqp, ibv_send_wr* wr, ibv_send_wr** bad_wr) noexcept {
    Qp& qp = qp_of(ibqp);
    if (const int error = check_state(qp)) [[unlikely]] {
        *bad_wr = wr;
        return error;
    }
    if (wr == nullptr || wr->next != nullptr) [[unlikely]] {
        return post_chain(qp, wr, bad_wr);
    }
    if (wr->num_sge != 1) [[unlikely]] {
        return post_pieces(qp, wr, bad_wr);
    }
    const bool is_posted = post_only(
        qp.send, [&](rxe_send_wqe & wqe) __attribute__((always_inline)) {
            return fill_plain(qp.send.limits.plain_ops, *wr, wqe);
        });
    return is_posted ? ring_for(qp, wr, bad_wr) : post_chain(qp, wr, bad_wr);
}

int bind_mw(ibv_qp* ibqp, ibv_mw* mw, ibv_mw_bind* bind) noexcept {
    if (mw->type != IBV_MW_TYPE_1 || (bind->bind_info.mw_access_flags & IBV_ACCESS_ZERO_BASED) != 0) {
        return EINVAL;
    }
    if (!is_same_domain(mw->pd, ibqp->pd)) {
        return EPERM;
    }
    return bind_window(ibqp, mw, *bind, post_send);
}

} // namespace sluice::provider::rxe
