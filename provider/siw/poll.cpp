// SPDX-License-Identifier: BSD-3-Clause
//
// Taking completions out of a queue. An empty queue is told by one look at the next element,
// without the lock. The kernel's numbers for operations and results go through tables; a number
// that is in neither reads as an error, and indexes nothing.
#include <cstring>

#include "provider/siw/verbs.hpp"

namespace sluice::provider::siw {

namespace {

constexpr ibv_wc_status kStatus[SIW_NUM_WC_STATUS] = {
    IBV_WC_SUCCESS,         IBV_WC_LOC_LEN_ERR,  IBV_WC_LOC_PROT_ERR,   IBV_WC_LOC_QP_OP_ERR,
    IBV_WC_WR_FLUSH_ERR,    IBV_WC_BAD_RESP_ERR, IBV_WC_LOC_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR,
    IBV_WC_REM_INV_REQ_ERR, IBV_WC_GENERAL_ERR,
};
constexpr ibv_wc_opcode kOpcode[] = {
    IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ, IBV_WC_RDMA_READ, IBV_WC_SEND, IBV_WC_SEND,
    IBV_WC_SEND,       IBV_WC_FETCH_ADD, IBV_WC_COMP_SWAP, IBV_WC_RECV,
};
static_assert(sizeof kOpcode / sizeof kOpcode[0] == SIW_OP_RECEIVE + 1);

template<typename T, std::size_t kSize>
T look_up(const T (&table)[kSize], std::size_t index, T otherwise) noexcept {
    return index < kSize ? table[index] : otherwise;
}

bool looks_empty(const Cq& cq) noexcept {
    return !is_valid(cq.head.load(std::memory_order_relaxed)->flags);
}

void convert(const siw_cqe& cqe, ibv_wc& wc) noexcept {
    std::memset(&wc, 0, sizeof wc);
    wc.wr_id = cqe.id;
    wc.status = look_up(kStatus, cqe.status, IBV_WC_GENERAL_ERR);
    wc.opcode = look_up(kOpcode, cqe.opcode, IBV_WC_SEND);
    wc.byte_len = cqe.bytes;
    wc.qp_num = static_cast<std::uint32_t>(cqe.qp_id);
    if ((cqe.flags & SIW_WQE_REM_INVAL) != 0) {
        wc.wc_flags = IBV_WC_WITH_INV;
        wc.invalidated_rkey = cqe.inval_stag;
    }
}

// Takes one completion, if there is one, and gives its element back.
bool take(Cq& cq, ibv_wc& wc) noexcept {
    siw_cqe& cqe = cq.ring.at(cq.ring.next);
    if (!is_valid(cqe.flags)) {
        return false;
    }
    convert(cqe, wc);
    set_flags(cqe.flags, 0);
    ++cq.ring.next;
    cq.head.store(&cq.ring.at(cq.ring.next), std::memory_order_relaxed);
    return true;
}

} // namespace

int poll_cq(ibv_cq* ibcq, int count, ibv_wc* wc) noexcept {
    Cq& cq = cq_of(ibcq);
    if (count < 0) [[unlikely]] {
        return -EINVAL;
    }
    if (looks_empty(cq)) {
        return 0;
    }
    const LockGuard guard(cq.lock);
    int n = 0;
    while (n < count && take(cq, wc[n])) {
        ++n;
    }
    return n;
}

namespace {

int show_next(Cq& cq) noexcept {
    if (!take(cq, cq.current)) {
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
    if (looks_empty(cq)) {
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
