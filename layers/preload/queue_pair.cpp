// SPDX-License-Identifier: BSD-3-Clause
#include "layers/preload/queue_pair.hpp"

#include <cerrno>

#include "ibverbs-glue/adaptors.hpp"
#include "ibverbs-glue/qp_attributes.hpp"
#include "layers/hooks/real.hpp"
#include "layers/preload/connection.hpp"

namespace sluice::preload {

namespace {

struct Queue {
    ibv_comp_channel* channel = nullptr;
    ibv_cq* queue = nullptr;
};

// With a channel of its own, for rdma_get_send_comp() and rdma_get_recv_comp().
Result<Queue> make_queue(Id& id, std::uint32_t entries) {
    Queue made;
    Result<ibv_comp_channel*> channel =
        glue::from_null(sluice_create_comp_channel(id.face->verbs), "making a completion channel");
    if (!channel) {
        return std::move(channel).error();
    }
    made.channel = *channel;
    made.queue = real_verbs()->create_cq(id.face->verbs, static_cast<int>(entries), id.face, made.channel, 0);
    if (made.queue == nullptr) {
        const int error = errno;
        (void)real_verbs()->destroy_comp_channel(made.channel);
        return Error::from_errno(error, "making a completion queue");
    }
    return made;
}

void destroy_queue(ibv_comp_channel*& channel, ibv_cq*& queue) noexcept {
    if (queue != nullptr) {
        (void)real_verbs()->destroy_cq(queue);
    }
    if (channel != nullptr) {
        (void)real_verbs()->destroy_comp_channel(channel);
    }
    queue = nullptr;
    channel = nullptr;
}

void destroy_queues(rdma_cm_id& face) noexcept {
    destroy_queue(face.recv_cq_channel, face.recv_cq);
    destroy_queue(face.send_cq_channel, face.send_cq);
}

// Those that the program leaves out, and has need of.
Result<void> make_queues(Id& id, const ibv_qp_init_attr_ex& attributes) {
    rdma_cm_id& face = *id.face;
    if (attributes.recv_cq == nullptr && face.recv_cq == nullptr && attributes.cap.max_recv_wr != 0) {
        Result<Queue> made = make_queue(id, attributes.cap.max_recv_wr);
        if (!made) {
            return std::move(made).error();
        }
        face.recv_cq_channel = made->channel;
        face.recv_cq = made->queue;
    }
    if (attributes.send_cq == nullptr && face.send_cq == nullptr && attributes.cap.max_send_wr != 0) {
        Result<Queue> made = make_queue(id, attributes.cap.max_send_wr);
        if (!made) {
            destroy_queues(face);
            return std::move(made).error();
        }
        face.send_cq_channel = made->channel;
        face.send_cq = made->queue;
    }
    return {};
}

// The extended call only for who asks for something that the plain one hasn't got.
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
            glue::from_null(real_verbs()->create_qp(attributes.pd, &plain), "making a queue pair");
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
    Result<void> led = lead(id, IBV_QPS_INIT);
    if (id.face->qp->qp_type != IBV_QPT_UD) {
        return led;
    }
    for (const ibv_qp_state state : {IBV_QPS_RTR, IBV_QPS_RTS}) {
        if (led) {
            led = lead(id, state);
        }
    }
    return led;
}

Error invalid(const char* text) noexcept {
    return Error(ErrorKind::kInvalidArgument, text, EINVAL);
}

} // namespace

Result<void> create_queue_pair(Id& id, ibv_qp_init_attr_ex& attributes) {
    rdma_cm_id& face = *id.face;
    if (id.cm == nullptr || face.qp != nullptr) {
        return invalid("a queue pair is for an id with a device and without one");
    }
    if ((attributes.comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || attributes.pd == nullptr) {
        attributes.comp_mask |= IBV_QP_INIT_ATTR_PD;
        attributes.pd = face.pd;
    }
    if (attributes.pd->context != face.verbs) {
        return invalid("the domain is of another device than the id");
    }
    Result<void> done = make_queues(id, attributes);
    if (!done) {
        return done;
    }
    attributes.send_cq = attributes.send_cq != nullptr ? attributes.send_cq : face.send_cq;
    attributes.recv_cq = attributes.recv_cq != nullptr ? attributes.recv_cq : face.recv_cq;
    attributes.srq = attributes.srq != nullptr ? attributes.srq : face.srq;
    Result<ibv_qp*> made = make_queue_pair(face.verbs, attributes);
    if (!made) {
        destroy_queues(face);
        return std::move(made).error();
    }
    face.qp = *made;
    done = get_ready(id);
    if (!done) {
        destroy_queue_pair(id);
        return done;
    }
    face.pd = face.qp->pd;
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
    rdma_cm_id& face = *id.face;
    if (face.qp != nullptr) {
        (void)real_verbs()->destroy_qp(face.qp);
        face.qp = nullptr;
    }
    destroy_queues(face);
}

Result<void> create_shared_queue(Id& id, ibv_pd* domain, ibv_srq_init_attr& attributes) {
    rdma_cm_id& face = *id.face;
    if (id.cm == nullptr || face.srq != nullptr) {
        return invalid("a shared receive queue is for an id with a device and without one");
    }
    ibv_pd* const its = domain != nullptr ? domain : face.pd;
    if (its->context != face.verbs) {
        return invalid("the domain is of another device than the id");
    }
    Result<ibv_srq*> made =
        glue::from_null(real_verbs()->create_srq(its, &attributes), "making a shared receive queue");
    if (!made) {
        return std::move(made).error();
    }
    face.srq = *made;
    face.pd = its;
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
    if (id.face->srq != nullptr) {
        (void)real_verbs()->destroy_srq(id.face->srq);
        id.face->srq = nullptr;
    }
}

Result<void> lead(Id& id, ibv_qp_state to) {
    if (id.face->qp == nullptr) {
        return {};
    }
    ibv_qp_attr attr{};
    attr.qp_state = to;
    int mask = 0;
    Result<void> known = queue_pair_attributes(id, attr, mask);
    if (!known) {
        return known;
    }
    return glue::from_rc(real_verbs()->modify_qp(id.face->qp, &attr, mask), "leading a queue pair");
}

Result<void> lead_to_error(Id& id) {
    if (id.face->qp == nullptr) {
        return {};
    }
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    return glue::from_rc(real_verbs()->modify_qp(id.face->qp, &attr, IBV_QP_STATE),
                         "leading a queue pair to error");
}

} // namespace sluice::preload
