// SPDX-License-Identifier: BSD-3-Clause
#include "ibverbs-glue/queue_pair.hpp"

#include "ibverbs-glue/qp_attributes.hpp"

namespace sluice::glue {

Result<SharedReceiveQueue> SharedReceiveQueue::make(const ProtectionDomain& pd,
                                                    ibv_srq_init_attr& attributes) {
    Result<ibv_srq*> srq = from_null(ibv_create_srq(pd.get(), &attributes), "making a shared receive queue");
    if (!srq) {
        return std::move(srq).error();
    }
    return SharedReceiveQueue(*srq);
}

Result<void> SharedReceiveQueue::modify(ibv_srq_attr& attributes, int mask) const {
    return from_rc(ibv_modify_srq(get(), &attributes, mask), "changing a shared receive queue");
}

Result<ibv_srq_attr> SharedReceiveQueue::query() const {
    ibv_srq_attr attributes{};
    Result<void> done = from_rc(ibv_query_srq(get(), &attributes), "asking about a shared receive queue");
    if (!done) {
        return std::move(done).error();
    }
    return attributes;
}

Result<QueuePair> QueuePair::make(const ProtectionDomain& pd, ibv_qp_init_attr& attributes) {
    Result<ibv_qp*> qp = from_null(ibv_create_qp(pd.get(), &attributes), "making a queue pair");
    if (!qp) {
        return std::move(qp).error();
    }
    return QueuePair(*qp);
}

Result<QueuePair> QueuePair::make_extended(const ProtectionDomain& pd, const ibv_qp_init_attr& attributes,
                                           std::uint64_t send_ops) {
    ibv_qp_init_attr_ex extended = to_extended(attributes, pd.get());
    extended.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    extended.send_ops_flags = send_ops;
    Result<ibv_qp*> qp =
        from_null(ibv_create_qp_ex(pd.get()->context, &extended), "making an extended queue pair");
    if (!qp) {
        return std::move(qp).error();
    }
    return QueuePair(*qp);
}

Result<void> QueuePair::modify(ibv_qp_attr& attributes, int mask) const {
    return from_rc(ibv_modify_qp(get(), &attributes, mask), "changing a queue pair");
}

Result<QueuePair::Peer> QueuePair::peer() const {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr made{};
    Result<void> done = from_rc(ibv_query_qp(get(), &attributes, IBV_QP_DEST_QPN | IBV_QP_AV, &made),
                                "asking whom a queue pair is connected to");
    if (!done) {
        return std::move(done).error();
    }
    const std::optional<Address> address = address_in(attributes.ah_attr.grh.dgid);
    if (!address || attributes.dest_qp_num == 0) {
        return Error(ErrorKind::kInvalidState, "a queue pair isn't connected to an address");
    }
    return Peer{*address, attributes.dest_qp_num};
}

Result<void> QueuePair::to_init(std::uint8_t port, unsigned access) const {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = port;
    attributes.qp_access_flags = access;
    return modify(attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

Result<void> QueuePair::to_error() const {
    return to_state(IBV_QPS_ERR);
}

Result<void> QueuePair::to_reset() const {
    return to_state(IBV_QPS_RESET);
}

int QueuePair::post_atomic_write(std::uint64_t id, unsigned flags, Target target,
                                 const void* value) const noexcept {
    ibv_qp_ex* const qp = ibv_qp_to_qp_ex(get());
    ibv_wr_start(qp);
    qp->wr_id = id;
    qp->wr_flags = flags;
    ibv_wr_atomic_write(qp, target.key, target.address, value);
    return ibv_wr_complete(qp);
}

int QueuePair::post_flush(std::uint64_t id, unsigned flags, Target target, std::size_t length,
                          bool is_persistent) const noexcept {
    ibv_qp_ex* const qp = ibv_qp_to_qp_ex(get());
    ibv_wr_start(qp);
    qp->wr_id = id;
    qp->wr_flags = flags;
    const std::uint8_t type = is_persistent ? SLUICE_FLUSH_TYPE_PERSISTENT : SLUICE_FLUSH_TYPE_GLOBAL;
    if (const int unknown =
            sluice_wr_flush(qp, target.key, target.address, length, type, SLUICE_FLUSH_LEVEL_RANGE);
        unknown != 0) {
        ibv_wr_abort(qp);
        return unknown;
    }
    return ibv_wr_complete(qp);
}

Result<void> QueuePair::to_state(ibv_qp_state state) const {
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    return modify(attributes, IBV_QP_STATE);
}

} // namespace sluice::glue
