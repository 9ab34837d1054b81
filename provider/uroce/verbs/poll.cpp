// SPDX-License-Identifier: BSD-3-Clause
//
// Taking completions out of a queue. What is there is taken without the device's lock; an empty queue
// makes the device go on, if nobody else is at it.
#include <arpa/inet.h>

#include <ctime>

#include "provider/uroce/verbs/verbs.hpp"

namespace sluice::uroce::verbs {

namespace {

ibv_wc_opcode opcode_of(const engine::Completion& completion) noexcept {
    switch (completion.opcode) {
    case engine::WcOpcode::kSend:
        return IBV_WC_SEND;
    case engine::WcOpcode::kWrite:
        return IBV_WC_RDMA_WRITE;
    case engine::WcOpcode::kRead:
        return IBV_WC_RDMA_READ;
    case engine::WcOpcode::kCompareSwap:
        return IBV_WC_COMP_SWAP;
    case engine::WcOpcode::kFetchAdd:
        return IBV_WC_FETCH_ADD;
    case engine::WcOpcode::kAtomicWrite:
        return IBV_WC_ATOMIC_WRITE;
    case engine::WcOpcode::kFlush:
        return static_cast<ibv_wc_opcode>(kWcFlush);
    case engine::WcOpcode::kLocalInv:
        return IBV_WC_LOCAL_INV;
    case engine::WcOpcode::kBindMw:
        return IBV_WC_BIND_MW;
    case engine::WcOpcode::kRecv:
        return IBV_WC_RECV;
    case engine::WcOpcode::kRecvWriteImm:
        return IBV_WC_RECV_RDMA_WITH_IMM;
    }
    return IBV_WC_SEND;
}

unsigned flags_of(const engine::Completion& completion) noexcept {
    return ((completion.flags & engine::kWithImm) != 0 ? unsigned{IBV_WC_WITH_IMM} : 0U) |
           ((completion.flags & engine::kWithInv) != 0 ? unsigned{IBV_WC_WITH_INV} : 0U) |
           ((completion.flags & engine::kWithGrh) != 0 ? unsigned{IBV_WC_GRH} : 0U);
}

// Immediate data goes through as the network has it; a key is a number.
std::uint32_t imm_or_rkey_of(const engine::Completion& completion) noexcept {
    return (completion.flags & engine::kWithImm) != 0 ? htonl(completion.imm_or_rkey)
                                                      : completion.imm_or_rkey;
}

// There are no service levels. Behind a datagram's header programs find its type here, as mlx5 tells it: UCX
// up to 1.18 drops what says otherwise.
std::uint8_t sl_of(const engine::Completion& completion) noexcept {
    constexpr std::uint8_t kIpv6 = 1, kIpv4 = 2;
    if ((completion.flags & engine::kWithGrh) == 0) {
        return 0;
    }
    return (completion.flags & engine::kWithGrhOfIpv6) != 0 ? kIpv6 : kIpv4;
}

void convert(const engine::Completion& completion, ibv_wc& wc) noexcept {
    wc.wr_id = completion.wr_id;
    wc.status = static_cast<ibv_wc_status>(completion.status);
    wc.opcode = opcode_of(completion);
    wc.vendor_err = 0;
    wc.byte_len = completion.len_bytes;
    wc.qp_num = completion.qpn;
    wc.src_qp = completion.src_qpn;
    wc.pkey_index = 0;
    wc.slid = 0;
    wc.dlid_path_bits = 0;
    const bool is_plain = completion.flags == 0;
    wc.imm_data = is_plain ? completion.imm_or_rkey : imm_or_rkey_of(completion);
    wc.wc_flags = is_plain ? 0 : flags_of(completion);
    wc.sl = is_plain ? std::uint8_t{0} : sl_of(completion);
}

// Whether there may be something now.
bool look_further(Cq& cq) noexcept {
    device::Device& device = cq.owner().device;
    if (!device.may_progress()) {
        return false;
    }
    (void)device.poll_progress();
    return !cq.queue.empty();
}

} // namespace

int poll_cq(ibv_cq* ibcq, int count, ibv_wc* wc) noexcept {
    Cq& cq = cq_of(ibcq);
    if (cq.owner().gone() || count < 0) [[unlikely]] {
        return count < 0 ? -EINVAL : -EIO;
    }
    if (cq.queue.empty() && !look_further(cq)) {
        return cq.queue.has_ended() ? -EIO : 0;
    }
    const LockGuard guard(cq.lock);
    int n = 0;
    engine::Completion completion;
    while (n < count && cq.queue.poll(completion)) {
        convert(completion, wc[n++]);
    }
    return n;
}

// --- The extended interface: from start_poll() to end_poll() the queue is the caller's. ---

namespace {

int show_next(Cq& cq) noexcept {
    cq.current = cq.queue.front();
    if (cq.current == nullptr) {
        return cq.queue.has_ended() ? EIO : ENOENT;
    }
    cq.wr_id = cq.current->wr_id;
    cq.status = static_cast<ibv_wc_status>(cq.current->status);
    return 0;
}

void step_over_current(Cq& cq) noexcept {
    if (cq.current != nullptr) {
        cq.current = nullptr; // a second call after ENOENT steps over nothing
        cq.queue.pop();
    }
}

int start_poll(ibv_cq_ex* ibcq, ibv_poll_cq_attr* attr) noexcept SLUICE_TSA(no_thread_safety_analysis) {
    Cq& cq = cq_of(ibcq);
    if (attr->comp_mask != 0 || cq.owner().gone()) {
        return attr->comp_mask != 0 ? EINVAL : EIO;
    }
    if (cq.queue.empty() && !look_further(cq)) {
        return cq.queue.has_ended() ? EIO : ENOENT;
    }
    cq.lock.lock();
    const int error = show_next(cq);
    if (error != 0) {
        cq.lock.unlock();
    } else {
        cq.opener.store(std::this_thread::get_id(), std::memory_order_relaxed);
    }
    return error;
}

int next_poll(ibv_cq_ex* ibcq) noexcept {
    Cq& cq = cq_of(ibcq);
    step_over_current(cq);
    return show_next(cq);
}

void end_poll(ibv_cq_ex* ibcq) noexcept SLUICE_TSA(no_thread_safety_analysis) {
    Cq& cq = cq_of(ibcq);
    step_over_current(cq);
    cq.opener.store({}, std::memory_order_relaxed);
    cq.lock.unlock();
}

const engine::Completion& current(ibv_cq_ex* cq) noexcept {
    return *cq_of(cq).current;
}

ibv_wc_opcode read_opcode(ibv_cq_ex* cq) noexcept {
    return opcode_of(current(cq));
}
std::uint32_t read_byte_len(ibv_cq_ex* cq) noexcept {
    return current(cq).len_bytes;
}
__be32 read_imm_data(ibv_cq_ex* cq) noexcept {
    return imm_or_rkey_of(current(cq));
}
std::uint32_t read_qp_num(ibv_cq_ex* cq) noexcept {
    return current(cq).qpn;
}
std::uint32_t read_src_qp(ibv_cq_ex* cq) noexcept {
    return current(cq).src_qpn;
}
unsigned read_wc_flags(ibv_cq_ex* cq) noexcept {
    return flags_of(current(cq));
}
std::uint8_t read_sl(ibv_cq_ex* cq) noexcept {
    return sl_of(current(cq));
}
// The device's clock is CLOCK_MONOTONIC in nanoseconds.
std::uint64_t read_completion_ts(ibv_cq_ex* cq) noexcept {
    return cq_of(cq).queue.front_stamp();
}
// By what the wall clock says now: a step of it shows in all that are read after it.
std::uint64_t read_completion_wallclock_ns(ibv_cq_ex* cq) noexcept {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    const std::uint64_t wall_ns =
        static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
    return wall_ns - (device::monotonic_now() - cq_of(cq).queue.front_stamp());
}
// What a device without LIDs has nothing to say to.
std::uint32_t read_nothing(ibv_cq_ex* /*cq*/) noexcept {
    return 0;
}
std::uint8_t read_no_byte(ibv_cq_ex* /*cq*/) noexcept {
    return 0;
}

} // namespace

void set_poll_functions(Cq& cq) noexcept {
    cq.start_poll = start_poll;
    cq.next_poll = next_poll;
    cq.end_poll = end_poll;
    cq.read_opcode = read_opcode;
    cq.read_vendor_err = read_nothing;
    cq.read_byte_len = read_byte_len;
    cq.read_imm_data = read_imm_data;
    cq.read_qp_num = read_qp_num;
    cq.read_src_qp = read_src_qp;
    cq.read_wc_flags = read_wc_flags;
    cq.read_slid = read_nothing;
    cq.read_sl = read_sl;
    cq.read_dlid_path_bits = read_no_byte;
    if (cq.queue.keeps_time()) {
        cq.read_completion_ts = read_completion_ts;
        cq.read_completion_wallclock_ns = read_completion_wallclock_ns;
    }
}

} // namespace sluice::uroce::verbs
