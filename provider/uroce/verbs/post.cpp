// SPDX-License-Identifier: BSD-3-Clause
//
// Posting. A request is checked whole and copied into the engine; when the session ends, the packets
// are carried, so that a small message within this process has arrived when the call returns.
#include <arpa/inet.h>

#include "provider/common/bind_window.hpp"
#include "provider/uroce/verbs/verbs.hpp"

namespace sluice::uroce::verbs {

namespace {

static_assert(sizeof(engine::Sge) == sizeof(ibv_sge) &&
              offsetof(engine::Sge, len_bytes) == offsetof(ibv_sge, length) &&
              offsetof(engine::Sge, lkey) == offsetof(ibv_sge, lkey));

// False when the count can't be right. Sge may alias what it looks at.
bool to_sges(const ibv_sge* list, int count, std::span<const engine::Sge>& sges) noexcept {
    sges = {reinterpret_cast<const engine::Sge*>(list), static_cast<std::size_t>(count)};
    return count >= 0 && static_cast<std::uint32_t>(count) <= engine::kMaxSge &&
           (count == 0 || list != nullptr);
}

bool is_aligned(std::uint64_t address) noexcept {
    return address % sizeof(std::uint64_t) == 0;
}

int fill_rdma(const ibv_send_wr& wr, engine::WrOpcode opcode, engine::SendWr& to) noexcept {
    to.opcode = opcode;
    to.remote_addr = wr.wr.rdma.remote_addr;
    to.rkey = wr.wr.rdma.rkey;
    to.imm_or_rkey = ntohl(wr.imm_data);
    return opcode == engine::WrOpcode::kAtomicWrite && !is_aligned(to.remote_addr) ? EINVAL : 0;
}

int fill_atomic(const ibv_send_wr& wr, engine::WrOpcode opcode, engine::SendWr& to) noexcept {
    to.opcode = opcode;
    to.remote_addr = wr.wr.atomic.remote_addr;
    to.rkey = wr.wr.atomic.rkey;
    to.compare_add = wr.wr.atomic.compare_add;
    to.swap = wr.wr.atomic.swap;
    return is_aligned(to.remote_addr) ? 0 : EINVAL;
}

int fill_send(const Qp& qp, const ibv_send_wr& wr, engine::WrOpcode opcode, engine::SendWr& to) noexcept {
    to.opcode = opcode;
    to.imm_or_rkey = opcode == engine::WrOpcode::kSendInv ? wr.invalidate_rkey : ntohl(wr.imm_data);
    if (qp.qp.qp_type != IBV_QPT_UD) {
        return 0;
    }
    const ibv_ah* ah = wr.wr.ud.ah;
    if (ah == nullptr || ah->context != qp.qp.context) {
        return EINVAL;
    }
    to.source = static_cast<const AddressHandle*>(ah)->source;
    to.destination = static_cast<const AddressHandle*>(ah)->destination;
    to.dest_qpn = wr.wr.ud.remote_qpn;
    to.qkey = wr.wr.ud.remote_qkey;
    return 0;
}

int fill_bind(const ibv_send_wr& wr, engine::SendWr& to) noexcept {
    to.opcode = engine::WrOpcode::kBindMw;
    return to_bind(wr.bind_mw.mw, wr.bind_mw.rkey, wr.bind_mw.bind_info, to.bind);
}

int fill_operation(const Qp& qp, const ibv_send_wr& wr, engine::SendWr& to) noexcept {
    switch (number_of(wr.opcode)) {
    case IBV_WR_SEND:
        return fill_send(qp, wr, engine::WrOpcode::kSend, to);
    case IBV_WR_SEND_WITH_IMM:
        return fill_send(qp, wr, engine::WrOpcode::kSendImm, to);
    case IBV_WR_SEND_WITH_INV:
        return fill_send(qp, wr, engine::WrOpcode::kSendInv, to);
    case IBV_WR_RDMA_WRITE:
        return fill_rdma(wr, engine::WrOpcode::kWrite, to);
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return fill_rdma(wr, engine::WrOpcode::kWriteImm, to);
    case IBV_WR_RDMA_READ:
        return fill_rdma(wr, engine::WrOpcode::kRead, to);
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return fill_atomic(wr, engine::WrOpcode::kCompareSwap, to);
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return fill_atomic(wr, engine::WrOpcode::kFetchAdd, to);
    case kWrAtomicWrite:
        return fill_rdma(wr, engine::WrOpcode::kAtomicWrite, to);
    case IBV_WR_LOCAL_INV:
        to.opcode = engine::WrOpcode::kLocalInv;
        to.imm_or_rkey = wr.invalidate_rkey;
        return 0;
    case IBV_WR_BIND_MW:
        return fill_bind(wr, to);
    default:
        return EINVAL;
    }
}

int post_one(Qp& qp, const ibv_send_wr& wr) noexcept {
    engine::SendWr to;
    to.wr_id = wr.wr_id;
    if (!to_flags(wr.send_flags, to.flags) || !to_sges(wr.sg_list, wr.num_sge, to.sges)) {
        return EINVAL;
    }
    if (const int error = fill_operation(qp, wr, to)) {
        return error;
    }
    if (qp.qp.qp_type == IBV_QPT_XRC_SEND) {
        to.srqn = wr.qp_type.xrc.remote_srqn;
        if (to.srqn > kMaxSrqNumber) {
            return EINVAL;
        }
    }
    if (to.opcode == engine::WrOpcode::kLocalInv || to.opcode == engine::WrOpcode::kBindMw) {
        to.sges = {}; // they move no data, whatever the list says
    }
    return to_errno(qp.engine->post_send(to));
}

// POST_ONE for each of the chain, up to the first that fails, which BAD_WR names.
template<typename Wr, typename PostOne>
int post_chain(Wr* wr, Wr** bad_wr, PostOne&& post_one_wr) noexcept {
    for (; wr != nullptr; wr = wr->next) {
        if (const int error = post_one_wr(*wr)) {
            *bad_wr = wr;
            return error;
        }
    }
    return 0;
}

template<typename PostReceive>
int post_receives(const Context& context, ibv_recv_wr* wr, ibv_recv_wr** bad_wr,
                  PostReceive&& post) noexcept {
    if (context.gone()) {
        *bad_wr = wr;
        return EIO;
    }
    const device::Device::ProgressSession session(context.device, device::Device::Purpose::kPost);
    return post_chain(wr, bad_wr, [&](const ibv_recv_wr& one) {
        engine::RecvWr to{.wr_id = one.wr_id, .sges = {}};
        return to_sges(one.sg_list, one.num_sge, to.sges) ? to_errno(post(to)) : EINVAL;
    });
}

} // namespace

bool to_flags(unsigned send_flags, std::uint8_t& flags) noexcept {
    static_assert(IBV_SEND_FENCE == 1 && IBV_SEND_SIGNALED == 2 && IBV_SEND_SOLICITED == 4 &&
                  unsigned{IBV_SEND_INLINE} == unsigned{engine::kInline});
    constexpr unsigned kKnown = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
    flags = static_cast<std::uint8_t>(
        (send_flags & IBV_SEND_INLINE) |
        ((send_flags & IBV_SEND_FENCE) != 0 ? unsigned{engine::kFence} : 0U) |
        ((send_flags & IBV_SEND_SIGNALED) != 0 ? unsigned{engine::kSignaled} : 0U) |
        ((send_flags & IBV_SEND_SOLICITED) != 0 ? unsigned{engine::kSolicited} : 0U));
    return (send_flags & ~kKnown) == 0;
}

int to_bind(const ibv_mw* mw, std::uint32_t rkey, const ibv_mw_bind_info& info,
            engine::MwBind& bind) noexcept {
    // A window opens bytes to peers: what else a region may have been given is no error, and means nothing.
    constexpr unsigned kMeaningless =
        IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND | kOptionalAccess;
    const bool zero_based = (info.mw_access_flags & IBV_ACCESS_ZERO_BASED) != 0;
    if (mw == nullptr || (info.mr == nullptr && (info.addr != 0 || info.length != 0)) ||
        (zero_based && mw->type == IBV_MW_TYPE_1)) {
        return EINVAL;
    }
    if (info.mr != nullptr && !provider::is_same_domain(info.mr->pd, mw->pd)) {
        return EPERM;
    }
    bind = {.mw_rkey = mw->rkey,
            .new_rkey = rkey,
            .mr_key = info.mr != nullptr ? info.mr->lkey : 0,
            .addr = info.addr,
            .len_bytes = info.length,
            .access = info.mw_access_flags & ~kMeaningless,
            .zero_based = zero_based};
    return 0;
}

int to_errno(engine::Post posted) noexcept {
    switch (posted) {
    case engine::Post::kPosted:
        return 0;
    case engine::Post::kFull:
        return ENOMEM;
    case engine::Post::kInvalid:
        return EINVAL;
    }
    return EINVAL;
}

int post_send(ibv_qp* ibqp, ibv_send_wr* wr, ibv_send_wr** bad_wr) noexcept {
    Qp& qp = qp_of(ibqp);
    if (qp.owner().gone()) [[unlikely]] {
        *bad_wr = wr;
        return EIO;
    }
    const LockGuard guard(qp.lock);
    const device::Device::ProgressSession session(qp.owner().device, device::Device::Purpose::kPost);
    const int error = post_chain(wr, bad_wr, [&qp](const ibv_send_wr& one) { return post_one(qp, one); });
    session.engine().posted(*qp.engine);
    return error;
}

int post_recv(ibv_qp* ibqp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept {
    Qp& qp = qp_of(ibqp);
    return post_receives(qp.owner(), wr, bad_wr,
                         [&qp](const engine::RecvWr& to) { return qp.engine->post_receive(to); });
}

int post_srq_recv(ibv_srq* ibsrq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept {
    Srq& srq = srq_of(ibsrq);
    return post_receives(srq.owner(), wr, bad_wr,
                         [&srq](const engine::RecvWr& to) { return srq.receives.post(to); });
}

int bind_mw(ibv_qp* ibqp, ibv_mw* mw, ibv_mw_bind* bind) noexcept {
    if (mw->type != IBV_MW_TYPE_1) {
        return EINVAL;
    }
    if (!provider::is_same_domain(mw->pd, ibqp->pd)) {
        return EPERM;
    }
    return provider::bind_window(ibqp, mw, *bind, post_send);
}

} // namespace sluice::uroce::verbs
