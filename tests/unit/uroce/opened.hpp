// SPDX-License-Identifier: BSD-3-Clause
//
// Devices without a kernel as programs see them: through libibverbs' public calls, those of the library
// that this machine has.
#pragma once

#include <infiniband/verbs.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "provider/uroce/roce.hpp"
#include "provider/uroce/verbs/open.hpp"
#include "tests/loopback.hpp"
#include "tests/unit/roce/random.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

namespace sluice::uroce::test {

using roce::test::Random;

constexpr int kAllAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr std::uint32_t kQkey = 0x11223344;

using sluice::test::own_address;

inline ibv_context* open_uroce(const std::string& name = own_address()) {
    Result<ibv_context*> opened = verbs::open_context(name.c_str());
    if (!opened) {
        fail_msg("%s: %s", name.c_str(), opened.error().text());
    }
    return *opened;
}

struct ContextCloser {
    void operator()(ibv_context* context) const { assert_int_equal(ibv_close_device(context), 0); }
};
using OpenContext = std::unique_ptr<ibv_context, ContextCloser>;

struct EndOptions {
    ibv_qp_type type = IBV_QPT_RC;
    std::size_t block_bytes = 1 << 16;
    std::uint32_t depth = 64;
    std::uint32_t sges = 4;
    std::uint32_t inline_bytes = 256;
    int cqe = 256;
    bool with_srq = false;
    std::uint64_t wr_ops = 0; // extended, with these
    ibv_comp_channel* channel = nullptr;
};

// One side of a connection, with a block of memory.
class End {
  public:
    explicit End(ibv_context* its_context, const EndOptions& options = {})
        : context(its_context), block(options.block_bytes) {
        pd = ibv_alloc_pd(context);
        assert_non_null(pd);
        mr = ibv_reg_mr(pd, block.data(), block.size(), kAllAccess | IBV_ACCESS_MW_BIND);
        assert_non_null(mr);
        cq = ibv_create_cq(context, options.cqe, nullptr, options.channel, 0);
        assert_non_null(cq);
        if (options.with_srq) {
            ibv_srq_init_attr attr{};
            attr.attr = {options.depth, options.sges, 0};
            srq = ibv_create_srq(pd, &attr);
            assert_non_null(srq);
        }
        qp = make_qp(options);
        assert_non_null(qp);
        Random random(options.block_bytes);
        block = random.bytes(options.block_bytes);
        renew_region(kAllAccess | IBV_ACCESS_MW_BIND);
        assert_int_equal(ibv_query_gid(context, 1, 0, &gid), 0);
    }
    ~End() {
        if (qp != nullptr) {
            assert_int_equal(ibv_destroy_qp(qp), 0);
        }
        if (srq != nullptr) {
            assert_int_equal(ibv_destroy_srq(srq), 0);
        }
        assert_int_equal(ibv_destroy_cq(cq), 0);
        assert_int_equal(ibv_dereg_mr(mr), 0);
        assert_int_equal(ibv_dealloc_pd(pd), 0);
    }
    End(const End&) = delete;
    End& operator=(const End&) = delete;

    ibv_qp* make_qp(const EndOptions& options) {
        ibv_qp_init_attr_ex init{};
        init.send_cq = init.recv_cq = cq;
        init.srq = srq;
        init.cap = {options.depth, options.depth, options.sges, options.sges, options.inline_bytes};
        init.qp_type = options.type;
        init.pd = pd;
        init.comp_mask = IBV_QP_INIT_ATTR_PD;
        if (options.wr_ops != 0) {
            init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
            init.send_ops_flags = options.wr_ops;
        }
        return ibv_create_qp_ex(context, &init);
    }
    void renew_region(int access) {
        assert_int_equal(ibv_dereg_mr(mr), 0);
        mr = ibv_reg_mr(pd, block.data(), block.size(), access);
        assert_non_null(mr);
    }

    std::uint64_t addr(std::size_t offset = 0) const {
        return reinterpret_cast<std::uintptr_t>(block.data()) + offset;
    }
    ibv_sge sge(std::size_t offset, std::size_t len) const {
        return {addr(offset), static_cast<std::uint32_t>(len), mr->lkey};
    }

    int send(ibv_wr_opcode opcode, const ibv_sge& data, const End& peer, std::size_t peer_offset = 0,
             unsigned flags = IBV_SEND_SIGNALED) {
        ibv_send_wr wr{};
        ibv_sge list = data;
        wr.wr_id = ++sent;
        wr.opcode = opcode;
        wr.send_flags = flags;
        wr.sg_list = &list;
        wr.num_sge = 1;
        wr.wr.rdma.remote_addr = peer.addr(peer_offset);
        wr.wr.rdma.rkey = peer.mr->rkey;
        return post(wr);
    }
    int post(ibv_send_wr& wr) {
        ibv_send_wr* bad = nullptr;
        const int error = ibv_post_send(qp, &wr, &bad);
        assert_true(error == 0 || bad != nullptr);
        return error;
    }
    int receive(const ibv_sge& into, std::uint64_t id = 1000) {
        ibv_sge list = into;
        ibv_recv_wr wr{};
        ibv_recv_wr* bad = nullptr;
        wr.wr_id = id;
        wr.sg_list = &list;
        wr.num_sge = 1;
        return srq != nullptr ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad);
    }
    // The next completion; the test's time limit is the limit.
    ibv_wc wait() const {
        ibv_wc wc{};
        int n = 0;
        while (n == 0) {
            n = ibv_poll_cq(cq, 1, &wc);
        }
        assert_int_equal(n, 1);
        return wc;
    }
    bool idle() const {
        ibv_wc wc{};
        return ibv_poll_cq(cq, 1, &wc) == 0;
    }
    ibv_qp_state state() const {
        ibv_qp_attr attr{};
        ibv_qp_init_attr init{};
        assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
        return attr.qp_state;
    }

    ibv_context* context;
    std::vector<std::uint8_t> block;
    ibv_pd* pd = nullptr;
    ibv_mr* mr = nullptr;
    ibv_cq* cq = nullptr;
    ibv_srq* srq = nullptr;
    ibv_qp* qp = nullptr;
    union ibv_gid gid {};
    std::uint64_t sent = 0;
};

struct Timers {
    std::uint8_t min_rnr_timer = 1;
    std::uint8_t timeout = 14;
    std::uint8_t retries = 7;
    std::uint8_t rnr_retries = 7;
};

constexpr int kToInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
constexpr int kToRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kToRts = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                       IBV_QP_MAX_QP_RD_ATOMIC;

constexpr int kToRtrUc = kToRtr & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
constexpr int kToRtsUc = IBV_QP_STATE | IBV_QP_SQ_PSN;

inline ibv_qp_attr usual_path(std::uint32_t peer_qpn, const union ibv_gid& peer_gid, const Timers& timers) {
    ibv_qp_attr attr{};
    attr.port_num = 1;
    attr.qp_access_flags = kAllAccess | 1 << 8 | 1 << 9; // both flushes
    attr.path_mtu = IBV_MTU_4096;
    attr.dest_qp_num = peer_qpn;
    attr.rq_psn = attr.sq_psn = 0xfffffe; // goes round at once
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 8;
    attr.min_rnr_timer = timers.min_rnr_timer;
    attr.timeout = timers.timeout;
    attr.retry_cnt = timers.retries;
    attr.rnr_retry = timers.rnr_retries;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = peer_gid;
    attr.ah_attr.grh.hop_limit = 64;
    return attr;
}

inline int modify(ibv_qp* qp, ibv_qp_attr attr, ibv_qp_state to, int mask) {
    attr.qp_state = to;
    return ibv_modify_qp(qp, &attr, mask);
}

inline void bring_up(ibv_qp* qp, std::uint32_t peer_qpn, const union ibv_gid& peer_gid,
                     const Timers& timers = {}) {
    const ibv_qp_attr attr = usual_path(peer_qpn, peer_gid, timers);
    assert_int_equal(modify(qp, attr, IBV_QPS_INIT, kToInit | IBV_QP_ACCESS_FLAGS), 0);
    const bool reliable = qp->qp_type != IBV_QPT_UC;
    assert_int_equal(modify(qp, attr, IBV_QPS_RTR, reliable ? kToRtr : kToRtrUc), 0);
    assert_int_equal(modify(qp, attr, IBV_QPS_RTS, reliable ? kToRts : kToRtsUc), 0);
}

inline void bring_up_datagrams(ibv_qp* qp) {
    ibv_qp_attr attr{};
    attr.port_num = 1;
    attr.qkey = kQkey;
    assert_int_equal(modify(qp, attr, IBV_QPS_INIT, kToInit | IBV_QP_QKEY), 0);
    assert_int_equal(modify(qp, attr, IBV_QPS_RTR, IBV_QP_STATE), 0);
    assert_int_equal(modify(qp, attr, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

inline void connect(End& left, End& right, const Timers& timers = {}) {
    bring_up(left.qp, right.qp->qp_num, right.gid, timers);
    bring_up(right.qp, left.qp->qp_num, left.gid, timers);
}

// Two connected ends: in one context, in two of one device, or on two devices.
enum class Where { kOneContext, kTwoContexts, kTwoDevices };
constexpr Where kEverywhere[] = {Where::kOneContext, Where::kTwoContexts, Where::kTwoDevices};

struct Connected {
    explicit Connected(Where where = Where::kOneContext, const EndOptions& options = {},
                       const Timers& timers = {})
        : first(open_uroce()),
          second(where == Where::kOneContext ? nullptr
                                             : open_uroce(own_address(where == Where::kTwoContexts ? 0 : 1))),
          left(first.get(), options), right(second != nullptr ? second.get() : first.get(), options) {
        if (options.type != IBV_QPT_UD) {
            connect(left, right, timers);
        } else {
            bring_up_datagrams(left.qp);
            bring_up_datagrams(right.qp);
        }
    }

    OpenContext first;
    OpenContext second;
    End left;
    End right;
};

} // namespace sluice::uroce::test
