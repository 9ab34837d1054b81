// SPDX-License-Identifier: BSD-3-Clause
//
// Posting send requests, and the doorbell that makes the kernel look at them.
//
// Each element is handed over by its flag. The kernel clears the flag of an element when it has
// copied it, with a full barrier, and then looks at the next one. So while the element before
// ours still has its flag after ours was set, the kernel is going to see ours, and needs no
// doorbell. The fence in between is what makes that certain.
#include <cstring>

#include "provider/siw/verbs.hpp"

namespace sluice::provider::siw {

namespace {

constexpr unsigned kSendFlags = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;

// Our number for an operation, or -1 for one that iWARP doesn't have.
int operation_of(const ibv_send_wr& wr) noexcept {
    std::uint32_t opcode = 0;
    std::memcpy(&opcode, &wr.opcode, sizeof opcode); // any number may stand there
    switch (opcode) {
    case IBV_WR_RDMA_WRITE:
        return SIW_OP_WRITE;
    case IBV_WR_RDMA_READ:
        return SIW_OP_READ;
    case IBV_WR_SEND:
        return SIW_OP_SEND;
    case IBV_WR_SEND_WITH_INV:
        return SIW_OP_SEND_REMOTE_INV;
    default:
        return -1;
    }
}

int check(const SendQueue& queue, const ibv_send_wr& wr, int operation, std::uint64_t& length) noexcept {
    const auto count = static_cast<std::uint32_t>(wr.num_sge);
    if (operation < 0 || (wr.send_flags & ~kSendFlags) != 0 || count > queue.max_sge ||
        (operation == SIW_OP_READ && count > 1)) [[unlikely]] {
        return EINVAL;
    }
    length = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
        length += wr.sg_list[i].length;
    }
    if (length > UINT32_MAX) {
        return EINVAL;
    }
    const bool inlined = (wr.send_flags & IBV_SEND_INLINE) != 0;
    return inlined && (operation == SIW_OP_READ || length > kMaxInline) ? EINVAL : 0;
}

// Inline data lies in the place of the second and later list elements.
void copy_inline(siw_sqe& sqe, const ibv_send_wr& wr, std::uint64_t length) noexcept {
    auto* to = reinterpret_cast<std::uint8_t*>(&sqe.sge[1]);
    for (int i = 0; i < wr.num_sge; ++i) {
        std::memcpy(to, reinterpret_cast<const void*>(static_cast<std::uintptr_t>(wr.sg_list[i].addr)),
                    wr.sg_list[i].length);
        to += wr.sg_list[i].length;
    }
    sqe.num_sge = 1;
    sqe.sge[0] = {.laddr = 0, .length = static_cast<std::uint32_t>(length), .lkey = 0};
}

// Fills all but the flag that hands it over.
int fill(SendQueue& queue, const ibv_send_wr& wr, siw_sqe& sqe) noexcept {
    const int operation = operation_of(wr);
    std::uint64_t length = 0;
    if (const int error = check(queue, wr, operation, length)) {
        return error;
    }
    sqe.id = wr.wr_id;
    sqe.opcode = static_cast<std::uint8_t>(operation);
    sqe.raddr = wr.wr.rdma.remote_addr;
    sqe.rkey = operation == SIW_OP_SEND_REMOTE_INV ? wr.invalidate_rkey : wr.wr.rdma.rkey;
    if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
        copy_inline(sqe, wr, length);
    } else {
        sqe.num_sge = static_cast<std::uint8_t>(wr.num_sge);
        copy_sges(sqe.sge, wr.sg_list, static_cast<std::size_t>(wr.num_sge));
    }
    if (operation == SIW_OP_READ && wr.num_sge == 0) {
        sqe.num_sge = 1; // a read of nothing still has a place to go
        sqe.sge[0] = {};
    }
    __atomic_store_n(&sqe.flags, static_cast<__u16>(element_flags(queue, wr.send_flags)), __ATOMIC_RELAXED);
    return 0;
}

int ring_doorbell(Qp& qp) noexcept {
    Context& context = context_of(qp.qp.context);
    const int error = context.uverbs.send(qp.doorbell, &qp.doorbell_answer, sizeof qp.doorbell_answer);
    if (error == 0) {
        qp.state.store(IBV_QPS_RTS, std::memory_order_relaxed); // or it would have refused
    } else if (error == ENOTCONN && qp.state.load(std::memory_order_relaxed) == IBV_QPS_RTS) {
        qp.state.store(IBV_QPS_ERR, std::memory_order_relaxed);
    }
    return error;
}

// Takes elements back that the kernel has refused to look at, from the last to the first. One
// without its flag has been completed meanwhile, and with it all before.
std::uint32_t take_back(SendQueue& queue, std::uint32_t count) noexcept {
    while (count != 0) {
        siw_sqe& last = queue.ring.at(queue.ring.next - 1);
        const auto before =
            __atomic_fetch_and(&last.flags, static_cast<__u16>(~SIW_WQE_VALID), __ATOMIC_ACQ_REL);
        if ((before & SIW_WQE_VALID) == 0) {
            break;
        }
        --queue.ring.next;
        --count;
    }
    return count;
}

} // namespace

unsigned element_flags(const SendQueue& queue, unsigned send_flags) noexcept {
    unsigned flags = 0;
    if (queue.signal_all || (send_flags & IBV_SEND_SIGNALED) != 0) {
        flags |= SIW_WQE_SIGNALLED;
    }
    if ((send_flags & IBV_SEND_SOLICITED) != 0) {
        flags |= SIW_WQE_SOLICITED;
    }
    if ((send_flags & IBV_SEND_FENCE) != 0) {
        flags |= SIW_WQE_READ_FENCE;
    }
    if ((send_flags & IBV_SEND_INLINE) != 0) {
        flags |= SIW_WQE_INLINE;
    }
    return flags;
}

int publish(Qp& qp, std::uint32_t first, std::uint32_t count, std::uint32_t& taken) noexcept {
    SendQueue& queue = qp.send;
    for (std::uint32_t i = 0; i < count; ++i) {
        siw_sqe& sqe = queue.ring.at(first + i);
        set_flags(sqe.flags, sqe.flags | unsigned{SIW_WQE_VALID});
    }
    queue.ring.next = first + count;
    taken = count;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (is_valid(queue.ring.at(first - 1).flags) && count < queue.ring.count()) {
        return 0;
    }
    const int error = ring_doorbell(qp);
    if (error != 0) {
        taken = take_back(queue, count);
    }
    return error;
}

int post_send(ibv_qp* ibqp, ibv_send_wr* wr, ibv_send_wr** bad_wr) noexcept {
    Qp& qp = qp_of(ibqp);
    SendQueue& queue = qp.send;
    ibv_send_wr* refused = wr;
    const LockGuard guard(queue.lock);
    std::uint32_t count = 0;
    int error = 0;
    for (; wr != nullptr; wr = wr->next) {
        siw_sqe& sqe = queue.ring.at(queue.ring.next + count);
        error = count < queue.ring.count() && !is_valid(sqe.flags) ? fill(queue, *wr, sqe) : ENOMEM;
        if (error != 0) [[unlikely]] {
            *bad_wr = wr;
            break;
        }
        ++count;
    }
    if (count == 0) [[unlikely]] {
        return error;
    }
    std::uint32_t taken = 0;
    if (const int kernel_error = publish(qp, queue.ring.next, count, taken)) {
        for (std::uint32_t i = 0; i < taken; ++i) {
            refused = refused->next;
        }
        if (taken == count) {
            return error; // the kernel has completed them all, as flushed
        }
        *bad_wr = refused;
        return kernel_error;
    }
    return error;
}

} // namespace sluice::provider::siw
