// SPDX-License-Identifier: BSD-3-Clause
#include "provider/common/wr_functions.hpp"

#include <cstring>

#include "provider/common/context_memory.hpp"

namespace sluice::provider {

namespace {

// Functions behind the oldest form of the structure; only where this libibverbs has them.
template<typename Function>
void set_appended(abi::VerbsQp& qp, std::size_t offset, Function* function) noexcept {
    if (current_abi().layout.qp_mask_offset >= offset + sizeof function) {
        std::memcpy(qp.reserve + offset, static_cast<const void*>(&function), sizeof function);
    }
}

} // namespace

void set_wr_functions(WrQueuePair& qp, std::uint64_t send_ops_flags, const WrFunctions& functions) noexcept {
    const auto use = [send_ops_flags](std::uint64_t flag, auto*& slot, auto* function) {
        slot = (send_ops_flags & flag) != 0 ? function : nullptr;
    };
    ibv_qp_ex& ex = qp.qp_ex;
    use(IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, ex.wr_atomic_cmp_swp, functions.atomic_cmp_swp);
    use(IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, ex.wr_atomic_fetch_add, functions.atomic_fetch_add);
    use(IBV_QP_EX_WITH_BIND_MW, ex.wr_bind_mw, functions.bind_mw);
    use(IBV_QP_EX_WITH_LOCAL_INV, ex.wr_local_inv, functions.local_inv);
    use(IBV_QP_EX_WITH_RDMA_READ, ex.wr_rdma_read, functions.rdma_read);
    use(IBV_QP_EX_WITH_RDMA_WRITE, ex.wr_rdma_write, functions.rdma_write);
    use(IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, ex.wr_rdma_write_imm, functions.rdma_write_imm);
    use(IBV_QP_EX_WITH_SEND, ex.wr_send, functions.send);
    use(IBV_QP_EX_WITH_SEND_WITH_IMM, ex.wr_send_imm, functions.send_imm);
    use(IBV_QP_EX_WITH_SEND_WITH_INV, ex.wr_send_inv, functions.send_inv);
    if (qp.qp.qp_type == IBV_QPT_UD) {
        ex.wr_set_ud_addr = functions.set_ud_addr;
    }
    if (qp.qp.qp_type == IBV_QPT_XRC_SEND) {
        ex.wr_set_xrc_srqn = functions.set_xrc_srqn;
    }
    ex.wr_set_inline_data = functions.set_inline_data;
    ex.wr_set_inline_data_list = functions.set_inline_data_list;
    ex.wr_set_sge = functions.set_sge;
    ex.wr_set_sge_list = functions.set_sge_list;
    ex.wr_start = functions.start;
    ex.wr_complete = functions.complete;
    ex.wr_abort = functions.abort;
    if ((send_ops_flags & kQpExWithAtomicWrite) != 0) {
        set_appended(qp, abi::kQpAtomicWriteOffset, functions.atomic_write);
    }
    if ((send_ops_flags & kQpExWithFlush) != 0) {
        qp.flush = functions.flush;
        set_appended(qp, abi::kQpFlushOffset, functions.flush);
    }
    std::memcpy(qp.reserve + current_abi().layout.qp_mask_offset, &abi::kQpMaskExtended,
                sizeof abi::kQpMaskExtended);
}

} // namespace sluice::provider
