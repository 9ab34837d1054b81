// SPDX-License-Identifier: BSD-3-Clause
//
// The ibv_wr_* interface: requests that are built piece by piece, in the places of the send queue
// that nobody sees before they are published.
//
// Between wr_start() and wr_complete() or wr_abort() the queue pair's lock is the caller's, and not
// the device's: a program may build for several queue pairs at once, and poll meanwhile. An error in
// any piece is kept, the pieces behind it do nothing, and wr_complete() gives it back with nothing
// published: the whole batch is posted, or none of it.
#include <arpa/inet.h>

#include <cstring>

#include "provider/common/wr_functions.hpp"
#include "provider/uroce/verbs/qp_attributes.hpp"
#include "provider/uroce/verbs/verbs.hpp"

namespace sluice::uroce::verbs {

namespace {

Builder& builder_of(ibv_qp_ex* qp) noexcept {
    return qp_of(&qp->qp_base).builder;
}

engine::SendQueue& queue_of(ibv_qp_ex* qp) noexcept {
    return qp_of(&qp->qp_base).engine->sends();
}

void fail(Builder& builder, int error) noexcept {
    builder.current = nullptr;
    if (builder.error == 0) {
        builder.error = error;
    }
}

// The request that was built last can't change any more.
void finish_current(Builder& builder) noexcept {
    if (builder.needs_address ||
        (builder.current != nullptr && !engine::SendQueue::is_sound(*builder.current))) {
        fail(builder, EINVAL);
    }
    builder.current = nullptr;
    builder.needs_address = false;
}

// Begins a request. Without data of its own it is complete: setters fill in the rest.
engine::SendWr* begin(ibv_qp_ex* qp, engine::WrOpcode opcode) noexcept {
    Builder& builder = builder_of(qp);
    finish_current(builder);
    std::uint8_t flags = 0;
    if (builder.error == 0 && !to_flags(qp->wr_flags, flags)) {
        fail(builder, EINVAL);
    } else if (builder.error == 0 && builder.count == builder.room) {
        fail(builder, ENOMEM);
    }
    if (builder.error != 0) {
        return nullptr;
    }
    engine::SendEntry& entry = queue_of(qp).stage(builder.count++);
    entry.wr.wr_id = qp->wr_id;
    entry.wr.opcode = opcode;
    entry.wr.flags =
        flags & static_cast<std::uint8_t>(~engine::kInline); // which data is inline, setters tell
    builder.current = &entry;
    const bool leaves = opcode != engine::WrOpcode::kLocalInv && opcode != engine::WrOpcode::kBindMw;
    builder.needs_address =
        qp->qp_base.qp_type == IBV_QPT_UD || (qp->qp_base.qp_type == IBV_QPT_XRC_SEND && leaves);
    return &entry.wr;
}

void begin_rdma(ibv_qp_ex* qp, engine::WrOpcode opcode, std::uint32_t rkey, std::uint64_t remote_addr,
                __be32 imm_data) noexcept {
    if (engine::SendWr* wr = begin(qp, opcode)) {
        wr->remote_addr = remote_addr;
        wr->rkey = rkey;
        wr->imm_or_rkey = ntohl(imm_data);
    }
}

bool check_aligned(ibv_qp_ex* qp, std::uint64_t remote_addr) noexcept {
    const bool aligned = remote_addr % sizeof(std::uint64_t) == 0;
    if (!aligned) {
        fail(builder_of(qp), EINVAL);
    }
    return aligned;
}

void begin_atomic(ibv_qp_ex* qp, engine::WrOpcode opcode, std::uint32_t rkey, std::uint64_t remote_addr,
                  std::uint64_t compare_add, std::uint64_t swap) noexcept {
    if (!check_aligned(qp, remote_addr)) {
        return;
    }
    if (engine::SendWr* wr = begin(qp, opcode)) {
        wr->remote_addr = remote_addr;
        wr->rkey = rkey;
        wr->compare_add = compare_add;
        wr->swap = swap;
    }
}

void begin_with_key(ibv_qp_ex* qp, engine::WrOpcode opcode, std::uint32_t rkey) noexcept {
    if (engine::SendWr* wr = begin(qp, opcode)) {
        wr->imm_or_rkey = rkey;
    }
}

void wr_atomic_cmp_swp(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_addr, std::uint64_t compare,
                       std::uint64_t swap) noexcept {
    begin_atomic(qp, engine::WrOpcode::kCompareSwap, rkey, remote_addr, compare, swap);
}
void wr_atomic_fetch_add(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_addr,
                         std::uint64_t add) noexcept {
    begin_atomic(qp, engine::WrOpcode::kFetchAdd, rkey, remote_addr, add, 0);
}
void wr_rdma_read(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_addr) noexcept {
    begin_rdma(qp, engine::WrOpcode::kRead, rkey, remote_addr, 0);
}
void wr_rdma_write(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_addr) noexcept {
    begin_rdma(qp, engine::WrOpcode::kWrite, rkey, remote_addr, 0);
}
void wr_rdma_write_imm(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_addr,
                       __be32 imm_data) noexcept {
    begin_rdma(qp, engine::WrOpcode::kWriteImm, rkey, remote_addr, imm_data);
}
void wr_send(ibv_qp_ex* qp) noexcept {
    (void)begin(qp, engine::WrOpcode::kSend);
}
void wr_send_imm(ibv_qp_ex* qp, __be32 imm_data) noexcept {
    begin_with_key(qp, engine::WrOpcode::kSendImm, ntohl(imm_data));
}
void wr_send_inv(ibv_qp_ex* qp, std::uint32_t rkey) noexcept {
    begin_with_key(qp, engine::WrOpcode::kSendInv, rkey);
}
void wr_local_inv(ibv_qp_ex* qp, std::uint32_t rkey) noexcept {
    begin_with_key(qp, engine::WrOpcode::kLocalInv, rkey);
}
void wr_bind_mw(ibv_qp_ex* qp, ibv_mw* mw, std::uint32_t rkey, const ibv_mw_bind_info* info) noexcept {
    if (engine::SendWr* wr = begin(qp, engine::WrOpcode::kBindMw)) {
        if (const int error = to_bind(mw, rkey, *info, wr->bind)) {
            fail(builder_of(qp), error);
        }
    }
}

void put_inline(ibv_qp_ex* qp, std::span<const engine::Sge> pieces) noexcept {
    Builder& builder = builder_of(qp);
    if (builder.current != nullptr && !queue_of(qp).put_inline(*builder.current, pieces)) {
        fail(builder, EINVAL);
    }
}

// Its eight bytes are given with it, and taken at once where there is room for them.
void wr_atomic_write(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_addr,
                     const void* value) noexcept {
    if (!check_aligned(qp, remote_addr)) {
        return;
    }
    begin_rdma(qp, engine::WrOpcode::kAtomicWrite, rkey, remote_addr, 0);
    const engine::Sge piece{.addr = reinterpret_cast<std::uintptr_t>(value),
                            .len_bytes = sizeof(std::uint64_t)};
    put_inline(qp, {&piece, 1});
}

void wr_flush(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_addr, std::size_t len_bytes,
              std::uint8_t type, std::uint8_t level) noexcept {
    if (len_bytes > UINT32_MAX) {
        fail(builder_of(qp), EINVAL);
        return;
    }
    if (engine::SendWr* wr = begin(qp, engine::WrOpcode::kFlush)) {
        wr->remote_addr = remote_addr;
        wr->rkey = rkey;
        wr->flush_bytes = static_cast<std::uint32_t>(len_bytes);
        wr->flush_placement = type;
        wr->flush_selectivity = level;
    }
}

void wr_set_ud_addr(ibv_qp_ex* qp, ibv_ah* ah, std::uint32_t remote_qpn, std::uint32_t remote_qkey) noexcept {
    Builder& builder = builder_of(qp);
    if (builder.current == nullptr) {
        return;
    }
    if (ah == nullptr || ah->context != qp->qp_base.context) {
        fail(builder, EINVAL);
        return;
    }
    engine::SendWr& wr = builder.current->wr;
    wr.source = static_cast<const AddressHandle*>(ah)->source;
    wr.destination = static_cast<const AddressHandle*>(ah)->destination;
    wr.dest_qpn = remote_qpn;
    wr.qkey = remote_qkey;
    builder.needs_address = false;
}

void wr_set_xrc_srqn(ibv_qp_ex* qp, std::uint32_t remote_srqn) noexcept {
    Builder& builder = builder_of(qp);
    if (builder.current == nullptr) {
        return;
    }
    if (remote_srqn > kMaxSrqNumber) {
        fail(builder, EINVAL);
        return;
    }
    builder.current->wr.srqn = remote_srqn;
    builder.needs_address = false;
}

void put_sges(ibv_qp_ex* qp, const ibv_sge* list, std::size_t count) noexcept {
    Builder& builder = builder_of(qp);
    if (builder.current == nullptr) {
        return;
    }
    if ((count != 0 && list == nullptr) ||
        !queue_of(qp).put_sges(*builder.current, {reinterpret_cast<const engine::Sge*>(list), count})) {
        fail(builder, EINVAL);
    }
}

void wr_set_sge(ibv_qp_ex* qp, std::uint32_t lkey, std::uint64_t address, std::uint32_t length) noexcept {
    const ibv_sge sge{.addr = address, .length = length, .lkey = lkey};
    put_sges(qp, &sge, 1);
}
void wr_set_sge_list(ibv_qp_ex* qp, std::size_t count, const ibv_sge* list) noexcept {
    put_sges(qp, list, count);
}

void wr_set_inline_data_list(ibv_qp_ex* qp, std::size_t count, const ibv_data_buf* list) noexcept {
    std::array<engine::Sge, engine::kMaxSge> pieces;
    if (count > pieces.size() || (count != 0 && list == nullptr)) {
        fail(builder_of(qp), EINVAL);
        return;
    }
    for (std::size_t i = 0; i < count; ++i) {
        if (list[i].length > kMaxInlineBytes) {
            fail(builder_of(qp), EINVAL);
            return;
        }
        pieces[i] = {.addr = reinterpret_cast<std::uintptr_t>(list[i].addr),
                     .len_bytes = static_cast<std::uint32_t>(list[i].length)};
    }
    put_inline(qp, {pieces.data(), count});
}
void wr_set_inline_data(ibv_qp_ex* qp, void* address, std::size_t length) noexcept {
    const ibv_data_buf buffer{.addr = address, .length = length};
    wr_set_inline_data_list(qp, 1, &buffer);
}

void wr_start(ibv_qp_ex* qp) noexcept SLUICE_TSA(no_thread_safety_analysis) {
    Qp& ours = qp_of(&qp->qp_base);
    if (ours.owner().gone()) {
        ours.builder = {.error = EIO}; // a thread that isn't here may have the lock
        return;
    }
    ours.lock.lock();
    ours.builder = {};
    // What is free now stays free until we publish: the queue only gets emptier.
    const device::Device::ProgressSession session(ours.owner().device, device::Device::Purpose::kPost);
    ours.builder.room = ours.engine->sends().room();
}

int wr_complete(ibv_qp_ex* qp) noexcept SLUICE_TSA(no_thread_safety_analysis) {
    Qp& ours = qp_of(&qp->qp_base);
    if (ours.owner().gone()) {
        return EIO;
    }
    finish_current(ours.builder);
    int error = ours.builder.error;
    if (error == 0) {
        const device::Device::ProgressSession session(ours.owner().device, device::Device::Purpose::kPost);
        error = to_errno(ours.engine->publish_sends(ours.builder.count));
        session.engine().posted(*ours.engine);
    }
    ours.lock.unlock();
    return error;
}

void wr_abort(ibv_qp_ex* qp) noexcept SLUICE_TSA(no_thread_safety_analysis) {
    Qp& ours = qp_of(&qp->qp_base);
    if (!ours.owner().gone()) {
        ours.lock.unlock();
    }
}

constexpr std::uint64_t kDatagramOps = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
constexpr std::uint64_t kUnreliableOps = kDatagramOps | IBV_QP_EX_WITH_RDMA_WRITE |
                                         IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_LOCAL_INV |
                                         IBV_QP_EX_WITH_BIND_MW;
constexpr std::uint64_t kReliableOps = kUnreliableOps | IBV_QP_EX_WITH_RDMA_READ |
                                       IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                       IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV |
                                       provider::kQpExWithFlush | provider::kQpExWithAtomicWrite;

} // namespace

std::uint64_t supported_wr_ops(std::uint32_t type) noexcept {
    const std::optional<engine::QpType> known = type_of(type);
    if (!known) {
        return 0;
    }
    switch (*known) {
    case engine::QpType::kRc:
    case engine::QpType::kXrcSend:
        return kReliableOps;
    case engine::QpType::kUc:
        return kUnreliableOps;
    case engine::QpType::kUd:
        return kDatagramOps;
    case engine::QpType::kXrcReceive:
        return 0;
    }
    return 0;
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
                                .set_xrc_srqn = wr_set_xrc_srqn,
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

} // namespace sluice::uroce::verbs
