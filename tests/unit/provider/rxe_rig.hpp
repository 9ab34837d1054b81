// SPDX-License-Identifier: BSD-3-Clause
//
// What the tests of rxe share: an opened device with a queue pair that is ready to send, and
// requests and completions to give it.
#pragma once

#include <array>

#include "provider/rxe/context.hpp"
#include "provider/rxe/verbs.hpp"
#include "tests/unit/provider/opened_device.hpp"

namespace sluice::provider::testing {

using abi::Slot;

inline constexpr std::uint32_t kDepth = 7; // of each queue; eight slots, one of them always empty

// A device with a domain, a completion queue and a queue pair that is ready to send.
struct Rig {
    explicit Rig(ibv_qp_type type = IBV_QPT_RC, bool single_threaded = false) : device(rxe::open) {
        pd = device.call<ibv_pd*(ibv_context*)>(Slot::alloc_pd, device.context());
        if (single_threaded) {
            ibv_td_init_attr td_attr{};
            td = device.call<ibv_td*(ibv_context*, ibv_td_init_attr*)>(Slot::alloc_td, device.context(),
                                                                       &td_attr);
            ibv_parent_domain_init_attr attr{};
            attr.pd = pd;
            attr.td = td;
            parent = device.call<ibv_pd*(ibv_context*, ibv_parent_domain_init_attr*)>(
                Slot::alloc_parent_domain, device.context(), &attr);
            assert_non_null(parent);
        }
        cq = rxe::create_cq(device.context(), kDepth, nullptr, 0);
        assert_non_null(cq);
        qp = make_qp(type);
        assert_non_null(qp);
        go_to(IBV_QPS_RTS);
    }
    ~Rig() {
        assert_int_equal(rxe::destroy_qp(qp), 0);
        assert_int_equal(rxe::destroy_cq(cq), 0);
        if (parent != nullptr) {
            assert_int_equal(dealloc(pd), EBUSY);
            assert_int_equal(dealloc(parent), 0);
            assert_int_equal(device.call<int(ibv_td*)>(Slot::dealloc_td, td), 0);
        }
        assert_int_equal(dealloc(pd), 0);
    }
    Rig(const Rig&) = delete;
    Rig& operator=(const Rig&) = delete;

    int dealloc(ibv_pd* domain) { return device.call<int(ibv_pd*)>(Slot::dealloc_pd, domain); }

    ibv_qp* make_qp(ibv_qp_type type, std::uint64_t ops = 0) {
        ibv_qp_init_attr_ex attr{};
        attr.send_cq = cq;
        attr.recv_cq = cq;
        attr.cap = {.max_send_wr = kDepth,
                    .max_recv_wr = kDepth,
                    .max_send_sge = 2,
                    .max_recv_sge = 2,
                    .max_inline_data = 32};
        attr.qp_type = type;
        attr.comp_mask = IBV_QP_INIT_ATTR_PD | (ops != 0 ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0);
        attr.pd = parent != nullptr ? parent : pd;
        attr.send_ops_flags = ops;
        return rxe::create_qp_ex(device.context(), &attr);
    }
    void go_to(ibv_qp_state state) { move(qp, state); }
    static void move(ibv_qp* pair, ibv_qp_state state) {
        ibv_qp_attr attr{};
        attr.qp_state = state;
        assert_int_equal(rxe::modify_qp(pair, &attr, IBV_QP_STATE), 0);
    }

    FakeRing& cq_ring() { return device.kernel.ring(0); }
    FakeRing& recv_ring() { return device.kernel.ring(1); }
    FakeRing& send_ring() { return device.kernel.ring(2); }
    rxe_send_wqe& sent(std::uint32_t i) { return *reinterpret_cast<rxe_send_wqe*>(send_ring().element(i)); }
    std::uint8_t* sent_data(std::uint32_t i) { return send_ring().element(i) + 208; }

    int post(ibv_send_wr& wr, ibv_send_wr** bad = nullptr) {
        ibv_send_wr* ignored = nullptr;
        return rxe::post_send(qp, &wr, bad != nullptr ? bad : &ignored);
    }

    OpenedDevice device;
    ibv_pd* pd = nullptr;
    ibv_pd* parent = nullptr;
    ibv_td* td = nullptr;
    ibv_cq* cq = nullptr;
    ibv_qp* qp = nullptr;
};

inline ibv_send_wr send_request(ibv_sge* list, int count, unsigned flags = IBV_SEND_SIGNALED) {
    ibv_send_wr wr{};
    wr.wr_id = 11;
    wr.sg_list = list;
    wr.num_sge = count;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = flags;
    return wr;
}

inline void expect_refused(Rig& rig, ibv_send_wr wr, int error) {
    const std::vector<std::uint8_t> before = rig.send_ring().memory;
    const int doorbells = rig.device.kernel.doorbells_by_write;
    ibv_send_wr* bad = nullptr;
    assert_int_equal(rxe::post_send(rig.qp, &wr, &bad), error);
    assert_ptr_equal(bad, &wr);
    assert_memory_equal(before.data(), rig.send_ring().memory.data(), before.size());
    assert_int_equal(rig.device.kernel.doorbells_by_write, doorbells);
}

inline ib_uverbs_wc completion(std::uint64_t wr_id) {
    ib_uverbs_wc wc{};
    wc.wr_id = wr_id;
    wc.byte_len = 5;
    wc.qp_num = 9;
    wc.wc_flags = IBV_WC_WITH_IMM;
    wc.ex.imm_data = 0x55;
    return wc;
}

inline ibv_cq_ex* make_cq_ex(Rig& rig, std::uint32_t flags, std::uint64_t wc_flags = IBV_WC_STANDARD_FLAGS) {
    ibv_cq_init_attr_ex attr{};
    attr.cqe = kDepth;
    attr.wc_flags = wc_flags;
    attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    attr.flags = flags;
    return rxe::create_cq_ex(rig.device.context(), &attr);
}

} // namespace sluice::provider::testing
