// SPDX-License-Identifier: BSD-3-Clause
//
// Both ends of XRC connections, by libibverbs' calls.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include "tests/unit/uroce/opened.hpp"

namespace sluice::uroce::test {

constexpr int kXrcToRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

// A file that nobody else has, with a descriptor.
struct TemporaryFile {
    TemporaryFile() : fd(mkstemp(name)) { assert_true(fd >= 0); }
    ~TemporaryFile() {
        close(fd);
        unlink(name);
    }
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;

    char name[32] = "/tmp/sluice-xrc-XXXXXX";
    int fd;
};

inline ibv_xrcd* open_domain(ibv_context* context, int fd = -1, int flags = O_CREAT) {
    ibv_xrcd_init_attr attr{};
    attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    attr.fd = fd;
    attr.oflags = flags;
    return ibv_open_xrcd(context, &attr);
}

// A handle of a domain, a receiving queue pair of it, and shared receive queues.
struct Receiver {
    explicit Receiver(ibv_context* its_context, int fd = -1)
        : end(its_context), context(its_context), xrcd(open_domain(its_context, fd)) {
        assert_non_null(xrcd);
        qp = make_qp();
        assert_non_null(qp);
    }
    ~Receiver() {
        for (ibv_srq* const srq : srqs) {
            assert_int_equal(ibv_destroy_srq(srq), 0);
        }
        if (qp != nullptr) {
            assert_int_equal(ibv_destroy_qp(qp), 0);
        }
        assert_int_equal(ibv_close_xrcd(xrcd), 0);
    }
    Receiver(const Receiver&) = delete;
    Receiver& operator=(const Receiver&) = delete;

    ibv_qp* make_qp() const {
        ibv_qp_init_attr_ex init{};
        init.qp_type = IBV_QPT_XRC_RECV;
        init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
        init.xrcd = xrcd;
        return ibv_create_qp_ex(context, &init);
    }
    ibv_srq_init_attr_ex srq_attr() const {
        ibv_srq_init_attr_ex attr{};
        attr.attr = {16, 2, 0};
        attr.comp_mask =
            IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
        attr.srq_type = IBV_SRQT_XRC;
        attr.pd = end.pd;
        attr.xrcd = xrcd;
        attr.cq = end.cq;
        return attr;
    }
    ibv_srq* add_srq() {
        ibv_srq_init_attr_ex attr = srq_attr();
        srqs.push_back(ibv_create_srq_ex(context, &attr));
        assert_non_null(srqs.back());
        return srqs.back();
    }
    void post(ibv_srq* srq, std::size_t offset, std::size_t len, std::uint64_t id) const {
        ibv_sge list = end.sge(offset, len);
        ibv_recv_wr wr{};
        ibv_recv_wr* bad = nullptr;
        wr.wr_id = id;
        wr.sg_list = &list;
        wr.num_sge = 1;
        assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
    }

    End end; // for its domain, memory and completion queue
    ibv_context* context;
    ibv_xrcd* xrcd;
    ibv_qp* qp = nullptr;
    std::vector<ibv_srq*> srqs;
};

inline std::uint32_t number_of(ibv_srq* srq) {
    std::uint32_t number = 0;
    assert_int_equal(ibv_get_srq_num(srq, &number), 0);
    return number;
}

inline EndOptions sender_options(std::uint64_t ops = 0) {
    EndOptions options;
    options.type = IBV_QPT_XRC_SEND;
    options.wr_ops = ops;
    return options;
}

// Each end with the attributes that it needs, or both with all of RC's: the rest is ignored.
inline void bring_up_xrc(ibv_qp* qp, std::uint32_t peer_qpn, const union ibv_gid& gid, bool as_rc = false) {
    const bool sends = qp->qp_type == IBV_QPT_XRC_SEND;
    const ibv_qp_attr attr = usual_path(peer_qpn, gid, {});
    constexpr int kOfReceiver = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    constexpr int kOfSender = IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    constexpr int kXrcToRts = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN;
    const int to_rtr = kXrcToRtr | (as_rc || !sends ? kOfReceiver : 0);
    assert_int_equal(modify(qp, attr, IBV_QPS_INIT, kToInit | IBV_QP_ACCESS_FLAGS), 0);
    assert_int_equal(modify(qp, attr, IBV_QPS_RTR, kXrcToRtr & ~IBV_QP_RQ_PSN), EINVAL);
    assert_int_equal(modify(qp, attr, IBV_QPS_RTR, to_rtr | IBV_QP_QKEY), EINVAL);
    assert_int_equal(modify(qp, attr, IBV_QPS_RTR, to_rtr), 0);
    assert_int_equal(modify(qp, attr, IBV_QPS_RTS, kXrcToRts | (as_rc || sends ? kOfSender : 0)), 0);
}

struct Joined {
    explicit Joined(Where where = Where::kOneContext, std::uint64_t ops = 0)
        : first(open_uroce()),
          second(where == Where::kOneContext ? nullptr
                                             : open_uroce(own_address(where == Where::kTwoContexts ? 0 : 1))),
          sender(first.get(), sender_options(ops)), receiver(second != nullptr ? second.get() : first.get()) {
        bring_up_xrc(sender.qp, receiver.qp->qp_num, receiver.end.gid, second != nullptr);
        bring_up_xrc(receiver.qp, sender.qp->qp_num, sender.gid, second != nullptr);
    }

    ibv_wc_status request(ibv_wr_opcode opcode, std::uint32_t number, std::size_t offset, std::size_t len) {
        ibv_send_wr wr{};
        ibv_sge list = sender.sge(offset, len);
        wr.opcode = opcode;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.sg_list = &list;
        wr.num_sge = 1;
        wr.wr.rdma.remote_addr = receiver.end.addr(offset);
        wr.wr.rdma.rkey = receiver.end.mr->rkey;
        wr.qp_type.xrc.remote_srqn = number;
        assert_int_equal(sender.post(wr), 0);
        return sender.wait().status;
    }

    OpenContext first;
    OpenContext second;
    End sender;
    Receiver receiver;
};

} // namespace sluice::uroce::test
