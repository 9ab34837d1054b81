// SPDX-License-Identifier: BSD-3-Clause
//
// Taking completions out of a queue. An empty queue is told by one look at the next element,
// without the lock. The kernel's numbers for operations and results go through tables; a number
// that is in neither reads as a send or as an error, and indexes nothing.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <new>

#include "provider/common/look_after.hpp"
#include "provider/siw/verbs.hpp"

namespace sluice::provider::siw {

namespace {

constexpr ibv_wc_status kStatus[SIW_NUM_WC_STATUS] = {
    IBV_WC_SUCCESS,         IBV_WC_LOC_LEN_ERR,  IBV_WC_LOC_PROT_ERR,   IBV_WC_LOC_QP_OP_ERR,
    IBV_WC_WR_FLUSH_ERR,    IBV_WC_BAD_RESP_ERR, IBV_WC_LOC_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR,
    IBV_WC_REM_INV_REQ_ERR, IBV_WC_GENERAL_ERR,
};
// What a success says of an operation: two neighbours of ibv_wc, which are written as one.
struct Outcome {
    std::uint32_t status;
    std::uint32_t opcode;
};
static_assert(offsetof(ibv_wc, opcode) == offsetof(ibv_wc, status) + offsetof(Outcome, opcode) &&
              sizeof(ibv_wc::opcode) == sizeof(Outcome::opcode));
// As many as the kernel's byte has values, so that none needs a check.
constexpr auto kSuccess = [] {
    constexpr ibv_wc_opcode kKnown[] = {
        IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ, IBV_WC_RDMA_READ, IBV_WC_SEND, IBV_WC_SEND,
        IBV_WC_SEND,       IBV_WC_FETCH_ADD, IBV_WC_COMP_SWAP, IBV_WC_RECV,
    };
    static_assert(std::size(kKnown) == SIW_OP_RECEIVE + 1);
    std::array<Outcome, UINT8_MAX + 1> table{};
    table.fill({.status = IBV_WC_SUCCESS, .opcode = IBV_WC_SEND});
    for (std::size_t i = 0; i < std::size(kKnown); ++i) {
        table[i].opcode = kKnown[i];
    }
    return table;
}();

// Whether an element says more than a plain success does: one comparison of its flags, its operation,
// and its status, which stand side by side.
bool is_special(const siw_cqe& cqe) noexcept {
    static_assert(offsetof(siw_cqe, status) == offsetof(siw_cqe, flags) + 2);
    constexpr siw_cqe kSpecial{.id = 0,
                               .flags = SIW_WQE_REM_INVAL,
                               .opcode = 0,
                               .status = UINT16_MAX,
                               .bytes = 0,
                               .imm_data = 0,
                               .base_qp = nullptr};
    const auto head = [](const siw_cqe& of) {
        std::uint32_t word = 0;
        std::memcpy(&word, reinterpret_cast<const char*>(&of) + offsetof(siw_cqe, flags), sizeof word);
        return word;
    };
    return (head(cqe) & head(kSpecial)) != 0;
}

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

// Whatever isn't said of a plain success: a failure, or a key that the peer has made invalid.
[[gnu::always_inline]] inline void convert_rest(const siw_cqe& cqe, ibv_wc& wc) noexcept {
    if (cqe.status != SIW_WC_SUCCESS) {
        wc.status = failure(cqe.status);
    }
    if ((cqe.flags & SIW_WQE_REM_INVAL) != 0) {
        wc.wc_flags = IBV_WC_WITH_INV;
        wc.invalidated_rkey = cqe.inval_stag;
    }
}

// Of an element that is valid. What is zero for all successes is written as a whole.
[[gnu::always_inline]] inline void convert(const siw_cqe& cqe, ibv_wc& wc) noexcept {
    constexpr std::size_t kRest = offsetof(ibv_wc, vendor_err);
    std::memset(reinterpret_cast<char*>(&wc) + kRest, 0, sizeof wc - kRest);
    wc.wr_id = cqe.id;
    std::memcpy(reinterpret_cast<char*>(&wc) + offsetof(ibv_wc, status), &kSuccess[cqe.opcode],
                sizeof(Outcome));
    wc.byte_len = cqe.bytes;
    wc.qp_num = static_cast<std::uint32_t>(cqe.qp_id);
    if (is_special(cqe)) [[unlikely]] {
        convert_rest(cqe, wc);
    }
}

// The address is laundered since a compiler that knows it from before keeps it in a register of its own.
void give_back(siw_cqe& cqe) noexcept {
    set_flags(std::launder(&cqe)->flags, 0);
}

// Takes the next completion, if there is one, and gives its element back. The caller has the lock.
[[gnu::always_inline]] inline bool take_one(Cq& cq, ibv_wc& wc) noexcept {
    siw_cqe& cqe = *cq.head.load(std::memory_order_relaxed);
    if (!is_valid(cqe.flags)) [[unlikely]] {
        return false;
    }
    convert(cqe, wc);
    give_back(cqe);
    siw_cqe* const behind = &cqe + 1;
    cq.head.store(behind == cq.ring.end() ? cq.ring.first() : behind, std::memory_order_relaxed);
    return true;
}

// The same up to COUNT times, and up to the ring's end.
[[gnu::always_inline]] inline std::uint32_t take_run(Cq& cq, std::uint32_t count, ibv_wc* wc) noexcept {
    siw_cqe* const ring_end = cq.ring.end();
    siw_cqe* const first = cq.head.load(std::memory_order_relaxed);
    siw_cqe* const end = first + std::min(std::ptrdiff_t{count}, ring_end - first);
    siw_cqe* cqe = first;
    for (; cqe != end && is_valid(cqe->flags); ++wc, ++cqe) {
        convert(*cqe, *wc);
        give_back(*cqe);
    }
    cq.head.store(cqe == ring_end ? cq.ring.first() : cqe, std::memory_order_relaxed);
    return static_cast<std::uint32_t>(cqe - first);
}

// What stands at the ring's beginning, behind a run up to its end.
[[gnu::noinline]] std::uint32_t take_next_run(Cq& cq, std::uint32_t count, ibv_wc* wc) noexcept {
    return take_run(cq, count, wc);
}

// Takes up to COUNT, and unlocks the queue, which the caller has locked. Apart from a single completion,
// which needs no register saved.
[[gnu::noinline]] int poll_many(Cq& cq, int count, ibv_wc* wc) noexcept
    SLUICE_TSA(release_capability(cq.lock)) {
    const auto wanted = static_cast<std::uint32_t>(count);
    std::uint32_t n = take_run(cq, wanted, wc);
    if (n != wanted) [[unlikely]] {
        n += take_next_run(cq, wanted - n, wc + n);
    }
    cq.lock.unlock();
    return static_cast<int>(n);
}

// The same for a queue that somebody else has just now.
[[gnu::noinline]] int wait_and_poll(Cq& cq, int count, ibv_wc* wc) noexcept {
    cq.lock.lock();
    return poll_many(cq, count, wc);
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
    if (!cq.lock.try_lock()) [[unlikely]] {
        return wait_and_poll(cq, count, wc);
    }
    if (count != 1) {
        return poll_many(cq, count, wc);
    }
    const bool taken = take_one(cq, *wc);
    cq.lock.unlock();
    return taken ? 1 : 0;
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
