// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/operations.hpp"

#include <algorithm>
#include <cerrno>

#include "core/boundary.hpp"
#include "layers/check/completions.hpp"
#include "layers/check/datagram_rules.hpp"
#include "layers/check/list_rules.hpp"
#include "layers/check/operation_rules.hpp"
#include "layers/check/post_rules.hpp"
#include "layers/check/posting.hpp"
#include "layers/check/registry.hpp"
#include "layers/check/touches.hpp"
#include "layers/check/vain_polls.hpp"
#include "layers/check/waits.hpp"
#include "layers/hooks/next.hpp"

namespace sluice::layers::check {

namespace {

const Operations& real_of(const ibv_context* context) noexcept {
    return Registry::instance().contexts.find(context)->real; // it is there since its table is ours
}

// How many of LIST come before BAD.
template<typename Work>
std::size_t count_until(const Work* list, const Work* bad) noexcept {
    std::size_t count = 0;
    for (; list != nullptr && list != bad; list = list->next) {
        ++count;
    }
    return count;
}

template<typename Owner, typename Work, typename Prepare>
std::size_t prepare_all(Owner& owner, const Work* list, Place place, Prepare&& prepare) noexcept {
    std::size_t count = 0;
    for (; list != nullptr; list = list->next, ++count) {
        prepare(owner, *list, place);
    }
    return count;
}

int post_send(ibv_qp* qp, ibv_send_wr* list, ibv_send_wr** bad) noexcept {
    const std::shared_ptr<QueuePair> pair = Registry::instance().pairs.find(qp);
    if (pair == nullptr) {
        return real_of(qp->context).post_send(qp, list, bad);
    }
    touches::tell_all();
    const Place place = here();
    for (const ibv_send_wr* each = list; pair->type == IBV_QPT_UD && each != nullptr; each = each->next) {
        check_datagram(*pair, parts_of(*pair, *each), place);
    }
    const LockGuard sending(pair->sending);
    const LockGuard lock(pair->mutex);
    check_list(*pair, list, place);
    const std::size_t count = prepare_all(
        *pair, list, place, [](auto& to, const auto& work, Place where) { prepare_send(to, work, where); });
    const touches::ForDevice calling;
    const int error = pair->context->real.post_send(qp, list, bad);
    if (error != 0 && bad != nullptr) {
        const std::size_t accepted = std::min(count, count_until(list, *bad));
        take_back_sends(*pair, count - accepted, error);
        take_refused_list(*pair, list, *bad, accepted);
    }
    check_room(*pair->send_queue, place);
    return error;
}

int post_recv(ibv_qp* qp, ibv_recv_wr* list, ibv_recv_wr** bad) noexcept {
    const std::shared_ptr<QueuePair> pair = Registry::instance().pairs.find(qp);
    if (pair == nullptr) {
        return real_of(qp->context).post_recv(qp, list, bad);
    }
    touches::tell_all();
    const Place place = here();
    const LockGuard lock(pair->mutex);
    const std::size_t count = prepare_all(*pair, list, place, [](auto& to, const auto& work, Place where) {
        prepare_receive(to, work, where);
    });
    const touches::ForDevice calling;
    const int error = pair->context->real.post_recv(qp, list, bad);
    if (error != 0 && bad != nullptr) {
        take_back_receives(*pair, count - std::min(count, count_until(list, *bad)), error);
    }
    check_room(*pair->receive_queue, place);
    return error;
}

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* list, ibv_recv_wr** bad) noexcept {
    const std::shared_ptr<SharedQueue> queue = Registry::instance().shared_queues.find(srq);
    if (queue == nullptr) {
        return real_of(srq->context).post_srq_recv(srq, list, bad);
    }
    touches::tell_all();
    const Place place = here();
    const LockGuard lock(queue->mutex);
    const std::size_t count = prepare_all(*queue, list, place, [](auto& to, const auto& work, Place where) {
        prepare_receive(to, work, where);
    });
    const touches::ForDevice calling;
    const int error = queue->context->real.post_srq_recv(srq, list, bad);
    if (error != 0 && bad != nullptr) {
        take_back_receives(*queue, count - std::min(count, count_until(list, *bad)), error);
    }
    return error;
}

// Its completion isn't matched to anything.
int bind_mw(ibv_qp* qp, ibv_mw* window, ibv_mw_bind* how) noexcept {
    if (const std::shared_ptr<QueuePair> pair = Registry::instance().pairs.find(qp)) {
        check_bind(*pair, how->bind_info, here());
    }
    return real_of(qp->context).bind_mw(qp, window, how);
}

// What look_ahead() has taken comes first.
int take_ahead_or_poll(Queue& queue, int most, ibv_wc* completions) noexcept {
    int count = 0;
    for (; count < most && !queue.ahead.empty(); ++count) {
        completions[count] = queue.ahead.front();
        queue.ahead.pop_front();
    }
    if (count == most && most > 0) {
        return count;
    }
    const touches::ForDevice calling;
    const int polled = queue.context->real.poll_cq(queue.object, most - count, completions + count);
    return count > 0 && polled < 0 ? count : count + polled;
}

int poll_cq(ibv_cq* cq, int most, ibv_wc* completions) noexcept {
    const std::shared_ptr<Queue> queue = Registry::instance().queues.find(cq);
    if (queue == nullptr) {
        return real_of(cq->context).poll_cq(cq, most, completions);
    }
    take_look(*queue);
    touches::tell_all();
    const LockGuard lock(queue->mutex);
    const int count = take_ahead_or_poll(*queue, most, completions);
    take_poll(*queue, count);
    queue->is_left_full.store(count > 0 && count == most, std::memory_order_relaxed);
    if (count > 0) {
        const Place place = here();
        queue->polled_last.store(place, std::memory_order_relaxed);
        look_at(*queue, {completions, static_cast<std::size_t>(count)}, place);
    } else if (count == 0 && queue->lost_with_pairs.load(std::memory_order_relaxed) != 0) {
        take_empty_poll(*queue, here());
    }
    return count;
}

int req_notify_cq(ibv_cq* cq, int solicited_only) noexcept {
    const std::shared_ptr<Queue> queue = Registry::instance().queues.find(cq);
    if (queue == nullptr) {
        return real_of(cq->context).req_notify_cq(cq, solicited_only);
    }
    take_arming(*queue, solicited_only != 0, here());
    return queue->context->real.req_notify_cq(cq, solicited_only);
}

// ---- objects

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* how) noexcept {
    ibv_cq_ex* const made = real_of(context).create_cq_ex(context, how);
    if (made != nullptr) {
        take_queue(ibv_cq_ex_to_cq(made), how, here());
    }
    return made;
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* how) noexcept {
    ibv_qp* const made = real_of(context).create_qp_ex(context, how);
    if (made != nullptr) {
        take_pair(made, *how, here());
    }
    return made;
}

ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* how) noexcept {
    ibv_srq* const made = real_of(context).create_srq_ex(context, how);
    if (made != nullptr) {
        take_shared_queue(made, how->attr.max_wr, made->pd, here());
    }
    return made;
}

ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* how) noexcept {
    ibv_pd* const made = real_of(context).alloc_parent_domain(context, how);
    if (made != nullptr) {
        (void)at_boundary("check", [&]() -> Result<void> {
            Registry::instance().domains.put(
                made, std::make_shared<Domain>(
                          Domain{.pd = made, .root = how->pd, .context = context, .made = here()}));
            return {};
        });
    }
    return made;
}

template<typename Function>
void exchange(Function& slot, Function& kept, std::type_identity_t<Function> ours) noexcept {
    kept = slot;
    if (slot != nullptr) {
        slot = ours;
    }
}

// A context that is made for an older interface has less of it.
template<typename Function>
void exchange_extended(verbs_context* context, Function verbs_context::*member, Function& kept,
                       std::type_identity_t<Function> ours) noexcept {
    const auto* const base = reinterpret_cast<const char*>(context);
    const auto* const at = reinterpret_cast<const char*>(&(context->*member));
    const std::size_t needed = sizeof *context - static_cast<std::size_t>(at - base);
    if (context->sz >= needed) {
        exchange(context->*member, kept, ours);
    }
}

// The kernel's rxe and siw leave a queue pair's completions in their queues when it is reset or destroyed;
// adapters and uroce take them away (ADR 68).
bool keeps_completions(ibv_context* context) noexcept {
    constexpr std::uint32_t kRxe = 0xffffff;
    constexpr std::uint32_t kSiw = 0x626d74;
    static constinit hooks::Next<int(ibv_context*, ibv_device_attr*)> query("ibv_query_device");
    const int saved_errno = errno;
    ibv_device_attr attr{};
    const bool is_known = query.call(-1, context, &attr) == 0;
    errno = saved_errno;
    return is_known && (attr.vendor_id == kRxe || attr.vendor_id == kSiw);
}

void exchange_all(ibv_context& context, Operations& kept) noexcept {
    exchange(context.ops.poll_cq, kept.poll_cq, &poll_cq);
    exchange(context.ops.req_notify_cq, kept.req_notify_cq, &req_notify_cq);
    exchange(context.ops.post_send, kept.post_send, &post_send);
    exchange(context.ops.post_recv, kept.post_recv, &post_recv);
    exchange(context.ops.post_srq_recv, kept.post_srq_recv, &post_srq_recv);
    exchange(context.ops.bind_mw, kept.bind_mw, &bind_mw);
    verbs_context* const extended = verbs_get_ctx(&context);
    if (extended == nullptr) {
        return;
    }
    exchange_extended(extended, &verbs_context::create_qp_ex, kept.create_qp_ex, &create_qp_ex);
    exchange_extended(extended, &verbs_context::create_cq_ex, kept.create_cq_ex, &create_cq_ex);
    exchange_extended(extended, &verbs_context::create_srq_ex, kept.create_srq_ex, &create_srq_ex);
    exchange_extended(extended, &verbs_context::alloc_parent_domain, kept.alloc_parent_domain,
                      &alloc_parent_domain);
}

} // namespace

void look_at(Queue& queue, std::span<const ibv_wc> completions, Place place) noexcept {
    for (const ibv_wc& each : completions) {
        take_completion(queue,
                        {.id = each.wr_id,
                         .status = each.status,
                         .pair_number = each.qp_num,
                         .is_receive = (each.opcode & IBV_WC_RECV) != 0},
                        place);
    }
}

void take_over(ibv_context* context) noexcept {
    if (context == nullptr || context->ops.poll_cq == &poll_cq) {
        return;
    }
    (void)at_boundary("check", [&]() -> Result<void> {
        const auto known = std::make_shared<Context>();
        known->verbs = context;
        known->device = context->device != nullptr ? context->device->name : "?";
        known->keeps_completions = keeps_completions(context);
        exchange_all(*context, known->real);
        Registry::instance().contexts.put(context, known);
        return {};
    });
}

void take_queue(ibv_cq* made, const ibv_cq_init_attr_ex* how, Place place) noexcept {
    (void)at_boundary("check", [&]() -> Result<void> {
        Registry& all = Registry::instance();
        const auto queue = std::make_shared<Queue>();
        queue->object = made;
        queue->channel = made->channel;
        queue->context = all.contexts.find(made->context);
        queue->number = all.queues_made.fetch_add(1) + 1;
        queue->made = place;
        const bool has_flags = how != nullptr && (how->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0;
        queue->is_single_threaded = has_flags && (how->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0;
        queue->ignores_overrun = has_flags && (how->flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0;
        if (queue->context == nullptr) {
            return {};
        }
        if (how != nullptr) {
            take_over(*queue, reinterpret_cast<ibv_cq_ex*>(made));
        }
        all.queues.put(made, queue);
        return {};
    });
}

void take_shared_queue(ibv_srq* made, std::uint32_t granted, const ibv_pd* pd, Place place) noexcept {
    (void)at_boundary("check", [&]() -> Result<void> {
        Registry& all = Registry::instance();
        const auto queue = std::make_shared<SharedQueue>();
        queue->object = made;
        queue->pd = pd;
        queue->context = all.contexts.find(made->context);
        queue->number = all.shared_queues_made.fetch_add(1) + 1;
        queue->made = place;
        queue->requests.resize(granted);
        if (queue->context != nullptr) {
            all.shared_queues.put(made, queue);
        }
        return {};
    });
}

void take_pair(ibv_qp* made, const ibv_qp_init_attr_ex& how, Place place) noexcept {
    (void)at_boundary("check", [&]() -> Result<void> {
        Registry& all = Registry::instance();
        const auto pair = std::make_shared<QueuePair>();
        pair->object = made;
        pair->pd = made->pd;
        pair->number = made->qp_num;
        pair->process = this_process();
        pair->type = how.qp_type;
        pair->signals_all = how.sq_sig_all != 0;
        pair->max_inline = how.cap.max_inline_data;
        pair->max_send_pieces = how.cap.max_send_sge;
        pair->max_receive_pieces = how.cap.max_recv_sge;
        pair->context = all.contexts.find(made->context);
        pair->send_queue = all.queues.find(how.send_cq);
        pair->receive_queue = all.queues.find(how.recv_cq);
        pair->shared = how.srq != nullptr ? all.shared_queues.find(how.srq) : nullptr;
        pair->made = place;
        if (pair->context == nullptr || pair->send_queue == nullptr || pair->receive_queue == nullptr ||
            (how.srq != nullptr && pair->shared == nullptr)) {
            return {}; // a target of XRC, or a queue that was made past us
        }
        pair->sends.resize(how.cap.max_send_wr);
        pair->receives.resize(pair->shared != nullptr ? 0 : how.cap.max_recv_wr);
        for (Queue* queue : {pair->send_queue.get(), pair->receive_queue.get()}) {
            queue->pairs.fetch_add(1);
            queue->lost_with_pairs = 0;
            queue->polls_in_vain = 0;
        }
        // Of others ibv_qp_to_qp_ex() must not be asked: siw's structure is no beginning of that.
        if ((how.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0) {
            take_over(pair);
        }
        all.pairs_by_number.put({made->context, made->qp_num}, pair);
        all.pairs.put(made, pair);
        return {};
    });
}

} // namespace sluice::layers::check
