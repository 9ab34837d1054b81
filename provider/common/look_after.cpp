// SPDX-License-Identifier: BSD-3-Clause
#include "provider/common/look_after.hpp"

#include "core/log.hpp"
#include "provider/common/queue_pair.hpp"
#include "provider/common/verbs.hpp"

namespace sluice::provider {

namespace {

// Whether the kernel has cut this program off.
bool is_cut_off(const Context& context) noexcept {
    std::uint32_t vectors = 0;
    abi::IoctlCommand<1> command(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT);
    command.output(UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, &vectors, sizeof vectors);
    const int error = context.uverbs.call(command);
    return error == EIO || error == ENODEV;
}

// One that has nothing to flush refuses, which is as good.
void move_to_error(Context& context) noexcept {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    const LockGuard guard(context.qps_mutex);
    for (QueuePair* qp = context.qps; qp != nullptr; qp = qp->next) {
        if (modify_qp_in_kernel(&qp->qp, attr, IBV_QP_STATE) == 0) {
            qp->state.store(IBV_QPS_ERR, std::memory_order_relaxed);
        }
    }
}

} // namespace

bool look_after_device(ibv_context* ibcontext) noexcept {
    Context& context = context_of(ibcontext);
    if (context.gone.load(std::memory_order_relaxed)) {
        return true;
    }
    if (!context.removal.is_time()) {
        return false;
    }
    if (is_cut_off(context)) {
        context.gone.store(true, std::memory_order_relaxed);
        return true;
    }
    if (context.removal.begins()) {
        SLUICE_LOG(kWarning, "provider", "%s was removed; it goes when the last program has closed it",
                   ibcontext->device->name);
        move_to_error(context);
        context.removal.report(ibcontext);
    }
    return false;
}

} // namespace sluice::provider
