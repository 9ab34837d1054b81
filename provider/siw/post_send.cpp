// SPDX-License-Identifier: BSD-3-Clause
//
// Posting send requests, and the doorbell that makes the kernel look at them.
//
// Each element is handed over by its flag. The kernel clears the flag of an element when it has
// copied it, with a full barrier, and then looks at the next one. So while the element before
// ours still has its flag after ours was set, the kernel is going to see ours, and needs no
// doorbell. The fence in between is what makes that certain.
#include <array>
#include <cstring>

#include "provider/common/total_length.hpp"
#include "provider/siw/verbs.hpp"

namespace sluice::provider::siw {

namespace {

constexpr unsigned kKnownSendFlags =
    IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
static_assert(kKnownSendFlags == 15);

// What an element says for the flags of a request.
constexpr auto kElementFlags = [] {
    std::array<std::uint8_t, kKnownSendFlags + 1> table{};
    for (unsigned flags = 0; flags <= kKnownSendFlags; ++flags) {
        table[flags] = static_cast<std::uint8_t>(((flags & IBV_SEND_SIGNALED) != 0 ? SIW_WQE_SIGNALLED : 0) |
                                                 ((flags & IBV_SEND_SOLICITED) != 0 ? SIW_WQE_SOLICITED : 0) |
                                                 ((flags & IBV_SEND_FENCE) != 0 ? SIW_WQE_READ_FENCE : 0) |
                                                 ((flags & IBV_SEND_INLINE) != 0 ? SIW_WQE_INLINE : 0));
    }
    return table;
}();

} // namespace

unsigned element_flags(const SendQueue& queue, unsigned send_flags) noexcept {
    return kElementFlags[send_flags & kKnownSendFlags] | queue.signal_all;
}

namespace {

// The kernel's number for an operation, by ours, or kNone for one that iWARP doesn't have.
constexpr std::uint8_t kNone = UINT8_MAX;
constexpr auto kOperation = [] {
    std::array<std::uint8_t, IBV_WR_SEND_WITH_INV + 1> table{};
    table.fill(kNone);
    table[IBV_WR_RDMA_WRITE] = SIW_OP_WRITE;
    table[IBV_WR_RDMA_READ] = SIW_OP_READ;
    table[IBV_WR_SEND] = SIW_OP_SEND;
    table[IBV_WR_SEND_WITH_INV] = SIW_OP_SEND_REMOTE_INV;
    return table;
}();

std::uint8_t operation_of(const ibv_send_wr& wr) noexcept {
    std::uint32_t opcode = 0;
    std::memcpy(&opcode, &wr.opcode, sizeof opcode); // any number may stand there
    return opcode < kOperation.size() ? kOperation[opcode] : kNone;
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

// The data of requests that aren't made of a single piece of memory.
int fill_data(const SendQueue& queue, const ibv_send_wr& wr, siw_sqe& sqe) noexcept {
    const auto count = static_cast<std::uint32_t>(wr.num_sge);
    const bool reads = sqe.opcode == SIW_OP_READ;
    if (count > queue.max_sge || (reads && count > 1)) {
        return EINVAL;
    }
    const std::uint64_t length = total_length(wr.sg_list, count);
    if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
        if (reads || length > kMaxInline) {
            return EINVAL;
        }
        copy_inline(sqe, wr, length);
        return 0;
    }
    if (length > UINT32_MAX) {
        return EINVAL;
    }
    sqe.num_sge = static_cast<std::uint8_t>(count);
    copy_sges(sqe.sge, wr.sg_list, count);
    if (reads && count == 0) {
        sqe.num_sge = 1; // a read of nothing still has a place to go
        sqe.sge[0] = {};
    }
    return 0;
}

// What nearly every request is: one piece of memory, not inline. Filled and handed over; false, with
// nothing written, if it is anything else or there is no room.
[[gnu::always_inline]] inline bool fill_plain(const SendQueue& queue, const ibv_send_wr& wr,
                                              siw_sqe& sqe) noexcept {
    const std::uint8_t operation = operation_of(wr);
    if (is_valid(sqe.flags) || operation == kNone ||
        wr.send_flags > (kKnownSendFlags & ~unsigned{IBV_SEND_INLINE}) || wr.num_sge != 1 ||
        queue.max_sge == 0) [[unlikely]] {
        return false;
    }
    sqe.id = wr.wr_id;
    sqe.num_sge = 1;
    sqe.opcode = operation;
    sqe.raddr = wr.wr.rdma.remote_addr;
    sqe.rkey = operation == SIW_OP_SEND_REMOTE_INV ? wr.invalidate_rkey : wr.wr.rdma.rkey;
    const unsigned flags = element_flags(queue, wr.send_flags);
    copy_sges(sqe.sge, wr.sg_list, 1);
    set_flags(sqe.flags, flags | unsigned{SIW_WQE_VALID});
    return true;
}

// The others. 0 or an errno.
[[gnu::noinline]] int fill_otherwise(const SendQueue& queue, const ibv_send_wr& wr, siw_sqe& sqe) noexcept {
    const std::uint8_t operation = operation_of(wr);
    if (is_valid(sqe.flags)) {
        return ENOMEM;
    }
    if (operation == kNone || wr.send_flags > kKnownSendFlags) {
        return EINVAL;
    }
    sqe.id = wr.wr_id;
    sqe.opcode = operation;
    sqe.raddr = wr.wr.rdma.remote_addr;
    sqe.rkey = operation == SIW_OP_SEND_REMOTE_INV ? wr.invalidate_rkey : wr.wr.rdma.rkey;
    if (const int error = fill_data(queue, wr, sqe)) {
        return error;
    }
    set_flags(sqe.flags, element_flags(queue, wr.send_flags) | unsigned{SIW_WQE_VALID});
    return 0;
}

// Hands over what WR begins, up to the first request that is refused, which WR is then. 0 or an errno.
int fill_all(SendQueue& queue, ibv_send_wr*& wr) noexcept {
    const Elements<siw_sqe> elements = queue.ring.elements();
    std::uint32_t step = queue.ring.next;
    int error = 0;
    for (; wr != nullptr; wr = wr->next, ++step) {
        siw_sqe& sqe = elements.at(step);
        if (fill_plain(queue, *wr, sqe)) [[likely]] {
            continue;
        }
        error = fill_otherwise(queue, *wr, sqe);
        if (error != 0) {
            break;
        }
    }
    queue.ring.next = step;
    return error;
}

[[gnu::always_inline]] inline int ring_doorbell(Qp& qp) noexcept {
    const int error = qp.doorbell.ring(context_of(qp.qp.context).uverbs);
    if (error == 0) [[likely]] {
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

// Whether the kernel is going to see the COUNT elements from FIRST on without a doorbell.
bool will_be_seen(const SendQueue& queue, std::uint32_t first, std::uint32_t count) noexcept {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return is_valid(queue.ring.at(first - 1).flags) && count < queue.ring.count();
}

// The only request, if it is such a one. False, with nothing posted, if it isn't; ERROR is what the
// kernel said. The caller has the lock.
[[gnu::always_inline]] inline bool post_plain(Qp& qp, const ibv_send_wr& wr, int& error) noexcept {
    SendQueue& queue = qp.send;
    const std::uint32_t at = queue.ring.next;
    if (!fill_plain(queue, wr, queue.ring.at(at))) [[unlikely]] {
        return false;
    }
    queue.ring.next = at + 1;
    error = will_be_seen(queue, at, 1) ? 0 : ring_doorbell(qp);
    if (error != 0 && take_back(queue, 1) != 0) [[unlikely]] {
        error = 0; // completed, as flushed
    }
    return true;
}

[[gnu::noinline]] int post_chain(Qp& qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) noexcept {
    if (wr == nullptr) {
        return 0; // nothing is posted
    }
    SendQueue& queue = qp.send;
    ibv_send_wr* refused = wr;
    const LockGuard guard(queue.lock);
    const std::uint32_t first = queue.ring.next;
    const int error = fill_all(queue, wr);
    if (error != 0) [[unlikely]] {
        *bad_wr = wr;
    }
    const std::uint32_t count = queue.ring.next - first;
    if (count == 0) [[unlikely]] {
        return error;
    }
    std::uint32_t taken = 0;
    const int kernel_error = make_seen(qp, first, taken);
    if (kernel_error == 0 || taken == count) [[likely]] {
        return error; // with an error, the kernel has completed them all, as flushed
    }
    for (; taken != 0 && refused->next != nullptr; --taken) {
        refused = refused->next;
    }
    *bad_wr = refused;
    return kernel_error;
}

} // namespace

int make_seen(Qp& qp, std::uint32_t first, std::uint32_t& taken) noexcept {
    const std::uint32_t count = qp.send.ring.next - first;
    taken = count;
    if (will_be_seen(qp.send, first, count)) {
        return 0;
    }
    const int error = ring_doorbell(qp);
    if (error != 0) [[unlikely]] {
        taken = take_back(qp.send, count);
    }
    return error;
}

int post_send(ibv_qp* ibqp, ibv_send_wr* wr, ibv_send_wr** bad_wr) noexcept {
    Qp& qp = qp_of(ibqp);
    if (is_closed(qp)) [[unlikely]] {
        *bad_wr = wr;
        return EIO;
    }
    if (wr == nullptr || wr->next != nullptr || !qp.send.lock.try_lock()) [[unlikely]] {
        return post_chain(qp, wr, bad_wr);
    }
    int error = 0;
    const bool posted = post_plain(qp, *wr, error);
    qp.send.lock.unlock();
    if (!posted) [[unlikely]] {
        return post_chain(qp, wr, bad_wr);
    }
    if (error != 0) [[unlikely]] {
        *bad_wr = wr;
    }
    return error;
}

} // namespace sluice::provider::siw
