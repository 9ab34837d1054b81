// SPDX-License-Identifier: BSD-3-Clause
//
// Taking completions out of a queue. An empty queue is told by one look at the next element,
// without the lock. The kernel's numbers for operations and results go through tables; a number
// that is in neither reads as a send or as an error, and indexes nothing.
#include <array>
#include <cstring>

#include "provider/common/look_after.hpp"
#include "provider/siw/verbs.hpp"

namespace sluice::provider::siw {

namespace {

constexpr ibv_wc_status kStatus[SIW_NUM_WC_STATUS] = {
    IBV_WC_SUCCESS,         IBV_WC_LOC_LEN_ERR,  IBV_WC_LOC_PROT_ERR,   IBV_WC_LOC_QP_OP_ERR,
    IBV_WC_WR_FLUSH_ERR,    IBV_WC_BAD_RESP_ERR, IBV_WC_LOC_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR,
    IBV_WC_REM_INV_REQ_ERR, IBV_WC_GENERAL_ERR,
};
// As many as the kernel's byte has values, so that none needs a check.
constexpr auto kOpcode = [] {
    constexpr ibv_wc_opcode kKnown[] = {
        IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ, IBV_WC_RDMA_READ, IBV_WC_SEND, IBV_WC_SEND,
        IBV_WC_SEND,       IBV_WC_FETCH_ADD, IBV_WC_COMP_SWAP, IBV_WC_RECV,
    };
    static_assert(std::size(kKnown) == SIW_OP_RECEIVE + 1);
    std::array<std::uint8_t, UINT8_MAX + 1> table{}; // IBV_WC_SEND, the others
    for (std::size_t i = 0; i < std::size(kKnown); ++i) {
        table[i] = static_cast<std::uint8_t>(kKnown[i]);
    }
    return table;
}();
static_assert(IBV_WC_SUCCESS == 0 && IBV_WC_SEND == 0 && IBV_WC_RECV <= UINT8_MAX);

ibv_wc_status failure(std::uint16_t status) noexcept {
    return status < std::size(kStatus) ? kStatus[status] : IBV_WC_GENERAL_ERR;
}

// Now and then a poll in vain looks after the device.
[[gnu::noinline]] void look_around(Cq& cq) noexcept {
    cq.empty_polls.restart();
    (void)look_after_device(cq.context);
}

// Looks without the lock.
bool is_idle(Cq& cq) noexcept {
    if (is_valid(cq.head.load(std::memory_order_relaxed)->flags)) {
        return false;
    }
    if (!cq.empty_polls.are_few()) [[unlikely]] {
        look_around(cq);
    }
    return true;
}

void convert(const siw_cqe& cqe, unsigned flags, ibv_wc& wc) noexcept {
    std::memset(&wc, 0, sizeof wc); // a success, for one
    wc.wr_id = cqe.id;
    if (cqe.status != SIW_WC_SUCCESS) [[unlikely]] {
        wc.status = failure(cqe.status);
    }
    wc.opcode = static_cast<ibv_wc_opcode>(kOpcode[cqe.opcode]);
    wc.byte_len = cqe.bytes;
    wc.qp_num = static_cast<std::uint32_t>(cqe.qp_id);
    if ((flags & SIW_WQE_REM_INVAL) != 0) [[unlikely]] {
        wc.wc_flags = IBV_WC_WITH_INV;
        wc.invalidated_rkey = cqe.inval_stag;
    }
}

// Takes the next completion, if there is one, and gives its element back. The caller has the lock.
[[gnu::always_inline]] inline bool take_one(Cq& cq, ibv_wc& wc) noexcept {
    siw_cqe& cqe = *cq.head.load(std::memory_order_relaxed);
    const unsigned flags = flags_of(cqe.flags);
    if ((flags & SIW_WQE_VALID) == 0) [[unlikely]] {
        return false;
    }
    convert(cqe, flags, wc);
    set_flags(cqe.flags, 0);
    cq.head.store(&cq.ring.at(++cq.ring.next), std::memory_order_relaxed);
    return true;
}

// The same up to COUNT times.
int take(Cq& cq, int count, ibv_wc* wc) noexcept {
    const Elements<siw_cqe> elements = cq.ring.elements();
    std::uint32_t step = cq.ring.next;
    int n = 0;
    for (; n < count; ++n) {
        siw_cqe& cqe = elements.at(step);
        const unsigned flags = flags_of(cqe.flags);
        if ((flags & SIW_WQE_VALID) == 0) {
            break;
        }
        convert(cqe, flags, wc[n]);
        set_flags(cqe.flags, 0);
        ++step;
    }
    cq.ring.next = step;
    cq.head.store(&elements.at(step), std::memory_order_relaxed);
    return n;
}

// Apart from each other and from the look at an empty queue: each saves the registers that it needs. One
// completion without a lock, which needs none, is what a program with one thread takes.
[[gnu::noinline]] int poll_one_alone(Cq& cq, ibv_wc* wc) noexcept {
    return take_one(cq, *wc) ? 1 : 0;
}

[[gnu::noinline]] int poll_one(Cq& cq, ibv_wc* wc) noexcept {
    const LockGuard guard(cq.lock);
    return take_one(cq, *wc) ? 1 : 0;
}

[[gnu::noinline]] int poll_many(Cq& cq, int count, ibv_wc* wc) noexcept {
    const LockGuard guard(cq.lock);
    return take(cq, count, wc);
}

} // namespace

int poll_cq(ibv_cq* ibcq, int count, ibv_wc* wc) noexcept {
    Cq& cq = cq_of(ibcq);
    if (count < 0) [[unlikely]] {
        return -EINVAL;
    }
    if (is_idle(cq)) {
        return 0;
    }
    if (count == 1) {
        return cq.lock.elided() ? poll_one_alone(cq, wc) : poll_one(cq, wc);
    }
    return poll_many(cq, count, wc);
}

namespace {

int show_next(Cq& cq) noexcept {
    if (!take_one(cq, cq.current)) {
        return ENOENT;
    }
    cq.wr_id = cq.current.wr_id;
    cq.status = cq.current.status;
    return 0;
}

int start_poll(ibv_cq_ex* ibcq, ibv_poll_cq_attr* attr) noexcept SLUICE_TSA(no_thread_safety_analysis) {
    Cq& cq = cq_of(ibcq);
    if (attr->comp_mask != 0) {
        return EINVAL;
    }
    if (is_idle(cq)) {
        return ENOENT;
    }
    cq.lock.lock();
    const int error = show_next(cq);
    if (error != 0) {
        cq.lock.unlock();
    }
    return error;
}

int next_poll(ibv_cq_ex* cq) noexcept {
    return show_next(cq_of(cq));
}

void end_poll(ibv_cq_ex* cq) noexcept SLUICE_TSA(no_thread_safety_analysis) {
    cq_of(cq).lock.unlock();
}

ibv_wc_opcode read_opcode(ibv_cq_ex* cq) noexcept {
    return cq_of(cq).current.opcode;
}
std::uint32_t read_vendor_err(ibv_cq_ex* cq) noexcept {
    return cq_of(cq).current.vendor_err;
}
std::uint32_t read_byte_len(ibv_cq_ex* cq) noexcept {
    return cq_of(cq).current.byte_len;
}
__be32 read_imm_data(ibv_cq_ex* cq) noexcept {
    return cq_of(cq).current.imm_data;
}
std::uint32_t read_qp_num(ibv_cq_ex* cq) noexcept {
    return cq_of(cq).current.qp_num;
}
std::uint32_t read_src_qp(ibv_cq_ex* cq) noexcept {
    return cq_of(cq).current.src_qp;
}
unsigned read_wc_flags(ibv_cq_ex* cq) noexcept {
    return cq_of(cq).current.wc_flags;
}
std::uint32_t read_slid(ibv_cq_ex* cq) noexcept {
    return cq_of(cq).current.slid;
}
std::uint8_t read_sl(ibv_cq_ex* cq) noexcept {
    return cq_of(cq).current.sl;
}
std::uint8_t read_dlid_path_bits(ibv_cq_ex* cq) noexcept {
    return cq_of(cq).current.dlid_path_bits;
}

} // namespace

void set_poll_functions(Cq& cq) noexcept {
    cq.start_poll = start_poll;
    cq.next_poll = next_poll;
    cq.end_poll = end_poll;
    cq.read_opcode = read_opcode;
    cq.read_vendor_err = read_vendor_err;
    cq.read_byte_len = read_byte_len;
    cq.read_imm_data = read_imm_data;
    cq.read_qp_num = read_qp_num;
    cq.read_src_qp = read_src_qp;
    cq.read_wc_flags = read_wc_flags;
    cq.read_slid = read_slid;
    cq.read_sl = read_sl;
    cq.read_dlid_path_bits = read_dlid_path_bits;
}

} // namespace sluice::provider::siw
