// SPDX-License-Identifier: BSD-3-Clause
//
// Taking completions out of a queue.
//
// An empty queue is told by one look at the kernel's index, without the lock. With the lock, the
// index is read once for a batch and our own is published once behind it. What a completion says
// is handed on and never used as an index, so that a wrong one harms nobody here.
//
// A device may go while it is in use, so that now and then an empty poll looks after it
// (provider/common/removal.hpp). If the kernel has cut us off, the requests that it never completed
// are completed here, as flushed.
#include <algorithm>
#include <cstring>

#include "provider/common/look_after.hpp"
#include "provider/rxe/datagrams.hpp"
#include "provider/rxe/verbs.hpp"

namespace sluice::provider::rxe {

namespace {

static_assert(sizeof(ib_uverbs_wc) == sizeof(ibv_wc) &&
              offsetof(ibv_wc, wc_flags) == offsetof(ib_uverbs_wc, wc_flags) &&
              offsetof(ibv_wc, dlid_path_bits) == offsetof(ib_uverbs_wc, dlid_path_bits));

bool looks_empty(const Cq& cq) noexcept {
    const std::uint32_t* produced = cq.produced_word.load(std::memory_order_acquire);
    return __atomic_load_n(produced, __ATOMIC_RELAXED) == cq.next.load(std::memory_order_relaxed);
}

// Whether an empty poll may be the last word; if not, it is time to look after the device.
bool is_idle(Cq& cq) noexcept {
    return !context_of(cq.context).gone.load(std::memory_order_relaxed) && cq.empty_polls.are_few();
}

// What is_idle() asks for. True: what the kernel left is for us to complete.
bool look_around(Cq& cq) noexcept {
    cq.empty_polls.restart();
    return look_after_device(cq.context);
}

void make_flushed(ib_uverbs_wc& wc, std::uint64_t wr_id, const Qp& qp, ibv_wc_opcode opcode) noexcept {
    wc = {};
    wc.wr_id = wr_id;
    wc.status = IBV_WC_WR_FLUSH_ERR;
    wc.opcode = opcode;
    wc.qp_num = qp.qp.qp_num;
}

// The next request that the kernel left behind; FLUSHED counts those that were given out.
const void* next_left_behind(const ProducerRing& ring, std::uint32_t& flushed) noexcept {
    if (!ring.ring().attached()) {
        return nullptr;
    }
    const std::uint32_t at = (ring.ring().consumed() + flushed) & ring.ring().mask();
    if (at == ring.next() || flushed > ring.ring().mask()) {
        return nullptr;
    }
    ++flushed;
    return ring.ring().element(at);
}

bool flush_one(Cq& cq, ib_uverbs_wc& wc) noexcept {
    const LockGuard guard(cq.members_mutex);
    for (Membership* member = cq.members; member != nullptr; member = member->next) {
        Qp& qp = *member->qp;
        if (member->sends) {
            const LockGuard queue_guard(qp.send.lock);
            if (const void* wqe = next_left_behind(qp.send.ring, qp.send.flushed)) {
                make_flushed(wc, static_cast<const rxe_send_wqe*>(wqe)->wr.wr_id, qp, IBV_WC_SEND);
                return true;
            }
        } else {
            const LockGuard queue_guard(qp.recv.lock);
            if (const void* wqe = next_left_behind(qp.recv.ring, qp.recv.flushed)) {
                make_flushed(wc, static_cast<const rxe_recv_wqe*>(wqe)->wr_id, qp, IBV_WC_RECV);
                return true;
            }
        }
    }
    return false;
}

[[gnu::noinline]] int poll_flushed(Cq& cq, int count, ibv_wc* wc) noexcept {
    int n = 0;
    ib_uverbs_wc flushed{};
    while (n < count && flush_one(cq, flushed)) {
        std::memcpy(&wc[n++], &flushed, sizeof flushed);
    }
    return n;
}

bool receives_datagrams(const Cq& cq) noexcept {
    return cq.datagrams.load(std::memory_order_relaxed) != 0;
}

// Copies COUNT elements that stand behind each other from element AT on.
void copy(const Ring& ring, std::uint32_t at, std::uint32_t count, ibv_wc* wc) noexcept {
    const auto* from = static_cast<const std::uint8_t*>(ring.element(at));
    for (const ibv_wc* const end = wc + count; wc != end; ++wc, from += ring.element_bytes()) {
        std::memcpy(wc, from, sizeof *wc);
    }
}

// Takes up to COUNT completions under the lock.
int take(Cq& cq, std::uint32_t count, ibv_wc* wc) noexcept {
    const LockGuard guard(cq.lock);
    const Ring ring = cq.ring; // a copy that the caller's memory can't alias
    const std::uint32_t next = cq.next.load(std::memory_order_relaxed);
    const std::uint32_t n = std::min((ring.produced() - next) & ring.mask(), count);
    const std::uint32_t until_the_end = std::min(n, ring.mask() + 1 - (next & ring.mask()));
    copy(ring, next, until_the_end, wc);
    copy(ring, 0, n - until_the_end, wc + until_the_end);
    if (receives_datagrams(cq)) {
        for (std::uint32_t i = 0; i < n; ++i) {
            tell_header_type(cq, wc[i]);
        }
    }
    if (n != 0) {
        const std::uint32_t behind = (next + n) & ring.mask();
        ring.publish_consumed(behind);
        cq.next.store(behind, std::memory_order_relaxed);
    }
    return static_cast<int>(n);
}

// Takes one completion, which most programs ask for. The caller has the lock.
bool take_one(Cq& cq, ibv_wc& wc) noexcept {
    const Ring ring = cq.ring;
    const std::uint32_t next = cq.next.load(std::memory_order_relaxed);
    if (ring.produced() == next) {
        return false;
    }
    std::memcpy(&wc, ring.element(next), sizeof wc);
    const std::uint32_t behind = (next + 1) & ring.mask();
    ring.publish_consumed(behind);
    cq.next.store(behind, std::memory_order_relaxed);
    return true;
}

// Three functions and not one, so that neither an empty poll nor a single completion saves the
// registers that a batch needs, or that a look into a datagram does.
[[gnu::noinline]] int poll_further(Cq& cq, int count, ibv_wc* wc) noexcept {
    if (count < 0) {
        return -EINVAL;
    }
    if (const int n = take(cq, static_cast<std::uint32_t>(count), wc)) {
        return n;
    }
    return is_idle(cq) || !look_around(cq) ? 0 : poll_flushed(cq, count, wc);
}

[[gnu::noinline]] int poll_something(Cq& cq, int count, ibv_wc* wc) noexcept {
    if (count == 1 && !receives_datagrams(cq) && cq.lock.try_lock()) [[likely]] {
        const bool taken = take_one(cq, *wc);
        cq.lock.unlock();
        if (taken) [[likely]] {
            return 1;
        }
    }
    return poll_further(cq, count, wc);
}

} // namespace

int poll_cq(ibv_cq* ibcq, int count, ibv_wc* wc) noexcept {
    Cq& cq = cq_of(ibcq);
    if (!looks_empty(cq)) {
        return poll_something(cq, count, wc);
    }
    return is_idle(cq) ? 0 : poll_further(cq, count, wc);
}

// Those that stay move to the end of the ring: its other index is the kernel's.
void discard_completions(Cq& cq, const Qp& qp) noexcept {
    const LockGuard guard(cq.lock);
    if (cq.current != nullptr) {
        return; // of a queue without a lock, which the same thread is reading just now
    }
    const Ring& ring = cq.ring;
    const std::uint32_t first = cq.next.load(std::memory_order_relaxed);
    std::uint32_t from = ring.produced();
    std::uint32_t to = from;
    while (from != first) {
        from = (from - 1) & ring.mask();
        ib_uverbs_wc wc;
        std::memcpy(&wc, ring.element(from), sizeof wc);
        const bool shared_receive = qp.qp.srq != nullptr && (wc.opcode & IBV_WC_RECV) != 0;
        if (wc.qp_num != qp.qp.qp_num || shared_receive) {
            to = (to - 1) & ring.mask();
            std::memcpy(ring.element(to), &wc, sizeof wc);
        }
    }
    ring.publish_consumed(to);
    cq.next.store(to, std::memory_order_relaxed);
}

// --- The extended interface: from start_poll() to end_poll() the queue is the caller's. ---

namespace {

void show(Cq& cq, const ib_uverbs_wc* wc) noexcept {
    cq.current = wc;
    cq.wr_id = wc->wr_id;
    std::memcpy(&cq.status, &wc->status, sizeof cq.status); // whatever number it is
    cq.header = receives_datagrams(cq) ? header_place(cq, *wc) : 0;
}

// The element at the cursor, or a flushed completion, or ENOENT.
int show_next(Cq& cq) noexcept {
    if (cq.cursor != cq.ring.produced()) {
        show(cq, static_cast<const ib_uverbs_wc*>(cq.ring.element(cq.cursor)));
        return 0;
    }
    if (context_of(cq.context).gone.load(std::memory_order_relaxed) && flush_one(cq, cq.flushed)) {
        show(cq, &cq.flushed);
        return 0;
    }
    return ENOENT;
}

void step_over_current(Cq& cq) noexcept {
    if (cq.current != &cq.flushed) {
        cq.cursor = (cq.cursor + 1) & cq.ring.mask();
    }
}

int start_poll(ibv_cq_ex* ibcq, ibv_poll_cq_attr* attr) noexcept SLUICE_TSA(no_thread_safety_analysis) {
    Cq& cq = cq_of(ibcq);
    if (attr->comp_mask != 0) {
        return EINVAL;
    }
    if (looks_empty(cq) && (is_idle(cq) || !look_around(cq))) {
        return ENOENT;
    }
    cq.lock.lock();
    cq.cursor = cq.next.load(std::memory_order_relaxed);
    const int error = show_next(cq);
    if (error != 0) {
        cq.lock.unlock();
    }
    return error;
}

int next_poll(ibv_cq_ex* ibcq) noexcept {
    Cq& cq = cq_of(ibcq);
    if (cq.current != nullptr) {
        step_over_current(cq);
        cq.current = nullptr; // a second call after ENOENT steps over nothing
    }
    return show_next(cq);
}

void end_poll(ibv_cq_ex* ibcq) noexcept SLUICE_TSA(no_thread_safety_analysis) {
    Cq& cq = cq_of(ibcq);
    if (cq.current != nullptr) {
        step_over_current(cq);
        cq.current = nullptr;
    }
    cq.ring.publish_consumed(cq.cursor);
    cq.next.store(cq.cursor, std::memory_order_relaxed);
    cq.lock.unlock();
}

const ib_uverbs_wc& current(ibv_cq_ex* cq) noexcept {
    return *cq_of(cq).current;
}

ibv_wc_opcode read_opcode(ibv_cq_ex* cq) noexcept {
    return static_cast<ibv_wc_opcode>(current(cq).opcode);
}
std::uint32_t read_vendor_err(ibv_cq_ex* cq) noexcept {
    return current(cq).vendor_err;
}
std::uint32_t read_byte_len(ibv_cq_ex* cq) noexcept {
    return current(cq).byte_len;
}
__be32 read_imm_data(ibv_cq_ex* cq) noexcept {
    return current(cq).ex.imm_data;
}
std::uint32_t read_qp_num(ibv_cq_ex* cq) noexcept {
    return current(cq).qp_num;
}
std::uint32_t read_src_qp(ibv_cq_ex* cq) noexcept {
    return current(cq).src_qp;
}
unsigned read_wc_flags(ibv_cq_ex* cq) noexcept {
    return current(cq).wc_flags;
}
std::uint32_t read_slid(ibv_cq_ex* cq) noexcept {
    return current(cq).slid;
}
std::uint8_t read_sl(ibv_cq_ex* cq) noexcept {
    const std::uint8_t told = current(cq).sl;
    return told != 0 ? told : header_type_at(cq_of(cq).header);
}
std::uint8_t read_dlid_path_bits(ibv_cq_ex* cq) noexcept {
    return current(cq).dlid_path_bits;
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

} // namespace sluice::provider::rxe
