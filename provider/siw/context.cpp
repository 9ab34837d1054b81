// SPDX-License-Identifier: BSD-3-Clause
#include "core/not_cancelled.hpp"
#include "provider/common/context_memory.hpp"
#include "provider/common/open.hpp"
#include "provider/common/verbs.hpp"
#include "provider/siw/verbs.hpp"

namespace sluice::provider::siw {

namespace {

abi::OpsTable make_ops() noexcept {
    using abi::Slot;
    abi::OpsTable ops(current_abi().layout.slot_count);
    set_common_ops(ops);
    ops.set(Slot::reg_mr, siw::reg_mr);
    ops.set(Slot::create_cq, create_cq);
    ops.set(Slot::create_cq_ex, create_cq_ex);
    ops.set(Slot::destroy_cq, destroy_cq);
    ops.set(Slot::req_notify_cq, req_notify_cq);
    ops.set(Slot::poll_cq, poll_cq);
    ops.set(Slot::create_qp, create_qp);
    ops.set(Slot::create_qp_ex, create_qp_ex);
    ops.set(Slot::modify_qp, modify_qp);
    ops.set(Slot::query_qp, query_qp_with_state);
    ops.set(Slot::destroy_qp, destroy_qp);
    ops.set(Slot::post_send, post_send);
    ops.set(Slot::post_recv, post_recv);
    ops.set(Slot::create_srq, create_srq);
    ops.set(Slot::create_srq_ex, create_srq_ex);
    ops.set(Slot::modify_srq, modify_srq);
    ops.set(Slot::query_srq, query_srq);
    ops.set(Slot::destroy_srq, destroy_srq);
    ops.set(Slot::post_srq_recv, post_srq_recv);
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
    siw_uresp_alloc_ctx answer{};
    return open_context({.driver = abi::Driver::kSiw,
                         .device = device,
                         .cmd_fd = cmd_fd,
                         .imported = imported,
                         .ops = ops,
                         .verbs = kVerbs,
                         .driver_answer = abi::driver_answer(answer)});
}

} // namespace

// The low byte of a key is ours to choose. One that differs from region to region makes it
// likelier that a stale key is refused.
ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t len_bytes, std::uint64_t iova, int access) noexcept {
    static std::atomic<std::uint8_t> next_key{1};
    siw_ureq_reg_mr request{};
    request.stag_key = next_key.fetch_add(1, std::memory_order_relaxed);
    siw_uresp_reg_mr answer{};
    return reg_mr_with(
        pd, address, len_bytes, iova, access,
        {.in = std::as_bytes(std::span(&request, 1)), .out = std::as_writable_bytes(std::span(&answer, 1))});
}

verbs_context* open(ibv_device* device, int cmd_fd, void* /*private_data*/) noexcept {
    const NotCancelled guard;
    return open_as(device, cmd_fd, false);
}

verbs_context* import(ibv_device* device, int cmd_fd) noexcept {
    const NotCancelled guard;
    return open_as(device, cmd_fd, true);
}

} // namespace sluice::provider::siw
