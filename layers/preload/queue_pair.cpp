// SPDX-License-Identifier: BSD-3-Clause
#include "layers/preload/queue_pair.hpp"

#include <algorithm>
#include <cerrno>

#include "ibverbs-glue/adaptors.hpp"
#include "ibverbs-glue/qp_attributes.hpp"
#include "layers/hooks/real.hpp"

namespace sluice::layers::preload {

namespace {

struct Queue {
    ibv_comp_channel* channel = nullptr;
    ibv_cq* queue = nullptr;
};

// With a channel of its own, for rdma_get_send_comp() and rdma_get_recv_comp().
Result<Queue> make_queue(Id& id, std::uint32_t entries) {
    Queue made;
    Result<ibv_comp_channel*> channel =
        glue::from_null(sluice_create_comp_channel(id.visible->verbs), "making a completion channel");
    if (!channel) {
        return std::move(channel).error();
    }
    made.channel = *channel;
    made.queue = hooks::real_verbs()->create_cq(id.visible->verbs, static_cast<int>(entries), id.visible,
                                                made.channel, 0);
    if (made.queue == nullptr) {
        const int error = errno;
        (void)hooks::real_verbs()->destroy_comp_channel(made.channel);
        return Error::from_errno(error, "making a completion queue");
    }
    return made;
}

void destroy_queue(ibv_comp_channel*& channel, ibv_cq*& queue) noexcept {
    if (queue != nullptr) {
        (void)hooks::real_verbs()->destroy_cq(queue);
    }
    if (channel != nullptr) {
        (void)hooks::real_verbs()->destroy_comp_channel(channel);
    }
    queue = nullptr;
    channel = nullptr;
}

void destroy_queues(rdma_cm_id& visible) noexcept {
    destroy_queue(visible.recv_cq_channel, visible.recv_cq);
    destroy_queue(visible.send_cq_channel, visible.send_cq);
}

// Those that the program leaves out, and has need of.
Result<void> make_queues(Id& id, const ibv_qp_init_attr_ex& attributes) {
    rdma_cm_id& visible = *id.visible;
    if (attributes.recv_cq == nullptr && visible.recv_cq == nullptr && attributes.cap.max_recv_wr != 0) {
        Result<Queue> made = make_queue(id, attributes.cap.max_recv_wr);
        if (!made) {
            return std::move(made).error();
        }
        visible.recv_cq_channel = made->channel;
        visible.recv_cq = made->queue;
    }
    if (attributes.send_cq == nullptr && visible.send_cq == nullptr && attributes.cap.max_send_wr != 0) {
        Result<Queue> made = make_queue(id, attributes.cap.max_send_wr);
        if (!made) {
            destroy_queues(visible);
            return std::move(made).error();
        }
        visible.send_cq_channel = made->channel;
        visible.send_cq = made->queue;
    }
    return {};
}

// The extended call only where attributes ask for what the plain one hasn't got.
Result<ibv_qp*> make_queue_pair(ibv_context* context, ibv_qp_init_attr_ex& attributes) {
    if (attributes.comp_mask == IBV_QP_INIT_ATTR_PD) {
        ibv_qp_init_attr plain{};
        plain.qp_context = attributes.qp_context;
        plain.send_cq = attributes.send_cq;
        plain.recv_cq = attributes.recv_cq;
        plain.srq = attributes.srq;
        plain.cap = attributes.cap;
        plain.qp_type = attributes.qp_type;
        plain.sq_sig_all = attributes.sq_sig_all;
        Result<ibv_qp*> made =
            glue::from_null(hooks::real_verbs()->create_qp(attributes.pd, &plain), "making a queue pair");
        attributes.cap = plain.cap;
        return made;
    }
    const verbs_context* const whole = verbs_get_ctx_op(context, create_qp_ex);
    if (whole == nullptr) {
        return Error(ErrorKind::kNotSupported, "this libibverbs has no extended queue pairs", EOPNOTSUPP);
    }
    return glue::from_null(whole->create_qp_ex(context, &attributes), "making a queue pair");
}

Result<void> get_ready(Id& id) {
    Result<void> moved = move_to(id, IBV_QPS_INIT);
    if (id.visible->qp->qp_type != IBV_QPT_UD) {
        return moved;
    }
    for (const ibv_qp_state state : {IBV_QPS_RTR, IBV_QPS_RTS}) {
        if (moved) {
            moved = move_to(id, state);
        }
    }
    return moved;
}

Error invalid(const char* text) noexcept {
    return Error(ErrorKind::kInvalidArgument, text, EINVAL);
}

} // namespace

Result<void> create_queue_pair(Id& id, ibv_qp_init_attr_ex& attributes) {
    rdma_cm_id& visible = *id.visible;
    if (id.cm == nullptr || visible.qp != nullptr) {
        return invalid("making a queue pair: the id has no device yet (call rdma_resolve_addr or "
                       "rdma_bind_addr first), or it has a queue pair already");
    }
    if ((attributes.comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || attributes.pd == nullptr) {
        attributes.comp_mask |= IBV_QP_INIT_ATTR_PD;
        attributes.pd = visible.pd;
    }
    if (attributes.pd->context != visible.verbs) {
        return invalid("the domain is of another device than the id");
    }
    Result<void> done = make_queues(id, attributes);
    if (!done) {
        return done;
    }
    attributes.send_cq = attributes.send_cq != nullptr ? attributes.send_cq : visible.send_cq;
    attributes.recv_cq = attributes.recv_cq != nullptr ? attributes.recv_cq : visible.recv_cq;
    attributes.srq = attributes.srq != nullptr ? attributes.srq : visible.srq;
    Result<ibv_qp*> made = make_queue_pair(visible.verbs, attributes);
    if (!made) {
        destroy_queues(visible);
        return std::move(made).error();
    }
    visible.qp = *made;
    done = get_ready(id);
    if (!done) {
        destroy_queue_pair(id);
        return done;
    }
    visible.pd = visible.qp->pd;
    return {};
}

Result<void> create_queue_pair(Id& id, ibv_pd* domain, ibv_qp_init_attr& attributes) {
    ibv_qp_init_attr_ex extended = glue::to_extended(attributes, domain);
    Result<void> done = create_queue_pair(id, extended);
    if (done) {
        attributes.cap = extended.cap;
        attributes.send_cq = extended.send_cq;
        attributes.recv_cq = extended.recv_cq;
        attributes.srq = extended.srq;
    }
    return done;
}

void destroy_queue_pair(Id& id) noexcept {
    rdma_cm_id& visible = *id.visible;
    if (visible.qp != nullptr) {
        (void)hooks::real_verbs()->destroy_qp(visible.qp);
        visible.qp = nullptr;
    }
    destroy_queues(visible);
}

Result<void> create_shared_queue(Id& id, ibv_pd* domain, ibv_srq_init_attr& attributes) {
    rdma_cm_id& visible = *id.visible;
    if (id.cm == nullptr || visible.srq != nullptr) {
        return invalid("making a shared receive queue: the id has no device yet (call rdma_resolve_addr or "
                       "rdma_bind_addr first), or it has a shared receive queue already");
    }
    ibv_pd* const its = domain != nullptr ? domain : visible.pd;
    if (its->context != visible.verbs) {
        return invalid("the domain is of another device than the id");
    }
    Result<ibv_srq*> made =
        glue::from_null(hooks::real_verbs()->create_srq(its, &attributes), "making a shared receive queue");
    if (!made) {
        return std::move(made).error();
    }
    visible.srq = *made;
    visible.pd = its;
    return {};
}

Result<void> create_shared_queue(Id& id, const ibv_srq_init_attr_ex& attributes) {
    const bool is_plain =
        (attributes.comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0 || attributes.srq_type == IBV_SRQT_BASIC;
    if (!is_plain) {
        return Error(ErrorKind::kNotSupported, "uroce has plain shared receive queues only", EOPNOTSUPP);
    }
    ibv_srq_init_attr plain{};
    plain.srq_context = attributes.srq_context;
    plain.attr = attributes.attr;
    const bool has_domain = (attributes.comp_mask & IBV_SRQ_INIT_ATTR_PD) != 0;
    return create_shared_queue(id, has_domain ? attributes.pd : nullptr, plain);
}

void destroy_shared_queue(Id& id) noexcept {
    if (id.visible->srq != nullptr) {
        (void)hooks::real_verbs()->destroy_srq(id.visible->srq);
        id.visible->srq = nullptr;
    }
}

Result<void> queue_pair_attributes(Id& id, ibv_qp_attr& attr, int& mask) {
    if (id.cm == nullptr) {
        return not_bound();
    }
    if (is_datagram(id)) {
        const ibv_qp_state to = attr.qp_state;
        attr = {};
        attr.qp_state = to;
        attr.port_num = 1;
        attr.qkey = RDMA_UDP_QKEY;
        mask = IBV_QP_STATE | (to == IBV_QPS_INIT  ? IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY
                               : to == IBV_QPS_RTS ? IBV_QP_SQ_PSN
                                                   : 0);
        return {};
    }
    Result<void> done =
        glue::from_rc(sluice_cm_qp_attr(id.cm, &attr, &mask), "finding a queue pair's attributes");
    if (!done) {
        return done;
    }
    attr.max_dest_rd_atomic = std::min(attr.max_dest_rd_atomic, id.most_reads_in);
    attr.max_rd_atomic = std::min(attr.max_rd_atomic, id.most_reads_out);
    attr.ah_attr.grh.traffic_class = id.type_of_service;
    if (id.ack_timeout != 0) {
        attr.timeout = id.ack_timeout;
    }
    return {};
}

Result<void> move_to(Id& id, ibv_qp_state to) {
    if (id.visible->qp == nullptr) {
        return {};
    }
    ibv_qp_attr attr{};
    attr.qp_state = to;
    int mask = 0;
    Result<void> known = queue_pair_attributes(id, attr, mask);
    if (!known) {
        return known;
    }
    return glue::from_rc(hooks::real_verbs()->modify_qp(id.visible->qp, &attr, mask),
                         "moving a queue pair to its next state");
}

Result<void> move_to_error(Id& id) {
    if (id.visible->qp == nullptr) {
        return {};
    }
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    return glue::from_rc(hooks::real_verbs()->modify_qp(id.visible->qp, &attr, IBV_QP_STATE),
                         "moving a queue pair to the error state");
}

} // namespace sluice::layers::preload
