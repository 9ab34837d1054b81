// SPDX-License-Identifier: BSD-3-Clause
#include "provider/rxe/context.hpp"

#include "core/not_cancelled.hpp"
#include "provider/common/context.hpp"
#include "provider/common/context_memory.hpp"
#include "provider/common/open.hpp"
#include "provider/common/verbs.hpp"
#include "provider/rxe/verbs.hpp"

namespace sluice::provider::rxe {

namespace {

abi::OpsTable make_ops() noexcept {
    using abi::Slot;
    abi::OpsTable ops(current_abi().layout.slot_count);
    set_common_ops(ops);
    ops.set(Slot::alloc_mw, alloc_mw);
    ops.set(Slot::dealloc_mw, dealloc_mw);
    ops.set(Slot::bind_mw, bind_mw);
    ops.set(Slot::create_cq, create_cq);
    ops.set(Slot::create_cq_ex, create_cq_ex);
    ops.set(Slot::resize_cq, resize_cq);
    ops.set(Slot::destroy_cq, destroy_cq);
    ops.set(Slot::req_notify_cq, req_notify_cq);
    ops.set(Slot::poll_cq, poll_cq);
    ops.set(Slot::create_qp, create_qp);
    ops.set(Slot::create_qp_ex, create_qp_ex);
    ops.set(Slot::modify_qp, modify_qp);
    ops.set(Slot::query_qp, query_qp);
    ops.set(Slot::destroy_qp, destroy_qp);
    ops.set(Slot::attach_mcast, attach_mcast);
    ops.set(Slot::detach_mcast, detach_mcast);
    ops.set(Slot::post_send, post_send);
    ops.set(Slot::post_recv, post_recv);
    ops.set(Slot::create_srq, create_srq);
    ops.set(Slot::create_srq_ex, create_srq_ex);
    ops.set(Slot::modify_srq, modify_srq);
    ops.set(Slot::query_srq, query_srq);
    ops.set(Slot::destroy_srq, destroy_srq);
    ops.set(Slot::get_srq_num, get_srq_num);
    ops.set(Slot::post_srq_recv, post_srq_recv);
    ops.set(Slot::create_ah, create_ah);
    ops.set(Slot::destroy_ah, destroy_ah);
    return ops;
}

constexpr DriverVerbs kVerbs{.alloc_pd = alloc_pd,
                             .dealloc_pd = dealloc_pd,
                             .create_cq = create_cq,
                             .destroy_cq = destroy_cq,
                             .create_qp = create_qp,
                             .modify_qp = modify_qp,
                             .destroy_qp = destroy_qp,
                             .post_recv = post_recv};

verbs_context* open_as(ibv_device* device, int cmd_fd, bool imported) noexcept {
    const abi::OpsTable ops = make_ops();
    return open_context({.driver = abi::Driver::kRxe,
                         .device = device,
                         .cmd_fd = cmd_fd,
                         .imported = imported,
                         .ops = ops,
                         .verbs = kVerbs,
                         .driver_answer = {}});
}

} // namespace

verbs_context* open(ibv_device* device, int cmd_fd, void* /*private_data*/) noexcept {
    const NotCancelled guard;
    return open_as(device, cmd_fd, false);
}

verbs_context* import(ibv_device* device, int cmd_fd) noexcept {
    const NotCancelled guard;
    return open_as(device, cmd_fd, true);
}

} // namespace sluice::provider::rxe
