// SPDX-License-Identifier: BSD-3-Clause
#include "provider/wr_flush.hpp"

#include <netinet/in.h> // before the kernel has its own of it

#include <cerrno>
#include <cstring>

#include "provider/common/context.hpp"
#include "provider/common/context_memory.hpp"
#include "provider/common/verbs.hpp"
#include "provider/common/wr_functions.hpp"
#include "provider/uroce/verbs/verbs.hpp"

namespace sluice::provider {

namespace {

// The function that the queue pair's provider has put into its place, if this libibverbs has that
// place.
FlushFunction* appended_function(const ibv_qp_ex* qp) noexcept {
    FlushFunction* function = nullptr;
    if (current_abi().layout.qp_mask_offset >= abi::kQpFlushOffset + sizeof function) {
        std::memcpy(&function, reinterpret_cast<const std::byte*>(qp) + abi::kQpFlushOffset, sizeof function);
    }
    return function;
}

// By a function that no layer stands before, as those of `sluice check` and `sluice trace` do before
// post_send and bind_mw.
bool is_ours(const ibv_qp_ex* qp) noexcept {
    const auto allocate = qp->qp_base.context->ops.alloc_mw;
    return allocate == alloc_mw || allocate == uroce::verbs::alloc_mw;
}

FlushFunction* function_of(ibv_qp_ex* qp) noexcept {
    return is_ours(qp) ? static_cast<WrQueuePair*>(reinterpret_cast<abi::VerbsQp*>(qp))->flush
                       : appended_function(qp);
}

} // namespace

int wr_flush(ibv_qp_ex* qp, const FlushRange& range) noexcept {
    FlushFunction* function = function_of(qp);
    if (function == nullptr) {
        return EOPNOTSUPP;
    }
    function(qp, range.rkey, range.remote_addr, range.len_bytes, range.type, range.level);
    return 0;
}

} // namespace sluice::provider
