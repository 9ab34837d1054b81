// SPDX-License-Identifier: BSD-3-Clause
//
// What the tests of siw share: an opened device with a queue pair, and requests for it.
#pragma once

#include <array>
#include <cstring>

#include "provider/siw/verbs.hpp"
#include "tests/unit/provider/opened_device.hpp"

namespace sluice::provider::testing {

using abi::Slot;

inline constexpr std::uint32_t kDepth = 8;
inline constexpr std::uint64_t kOps = siw::kWrOps;

// A device with a domain, a completion queue and an extended queue pair. The kernel makes the
// rings in this order: completions, sends, receives.
struct Rig {
    explicit Rig(std::uint32_t cq_flags = 0, int signal_all = 0) : device(siw::open) {
        device.kernel.siw = true;
        pd = device.call<ibv_pd*(ibv_context*)>(Slot::alloc_pd, device.context());
        ibv_cq_init_attr_ex cq_attr{};
        cq_attr.cqe = kDepth;
        cq_attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
        cq_attr.flags = cq_flags;
        ibv_cq_ex* const cq_ex = siw::create_cq_ex(device.context(), &cq_attr);
        assert_non_null(cq_ex);
        cq = ibv_cq_ex_to_cq(cq_ex);
        ibv_qp_init_attr_ex attr = usual_attributes();
        attr.sq_sig_all = signal_all;
        qp = siw::create_qp_ex(device.context(), &attr);
        assert_non_null(qp);
    }
    ~Rig() {
        assert_int_equal(siw::destroy_qp(qp), 0);
        assert_int_equal(siw::destroy_cq(cq), 0);
        assert_int_equal(device.call<int(ibv_pd*)>(Slot::dealloc_pd, pd), 0);
    }
    Rig(const Rig&) = delete;
    Rig& operator=(const Rig&) = delete;

    ibv_qp_init_attr_ex usual_attributes() const {
        ibv_qp_init_attr_ex attr{};
        attr.send_cq = cq;
        attr.recv_cq = cq;
        attr.cap = {.max_send_wr = kDepth,
                    .max_recv_wr = kDepth,
                    .max_send_sge = 2,
                    .max_recv_sge = 2,
                    .max_inline_data = 80};
        attr.qp_type = IBV_QPT_RC;
        attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        attr.pd = pd;
        attr.send_ops_flags = kOps;
        return attr;
    }

    siw_cqe& cqe(std::size_t i) { return reinterpret_cast<siw_cqe*>(device.kernel.ring(0).memory.data())[i]; }
    siw_sqe& sqe(std::size_t i) { return reinterpret_cast<siw_sqe*>(device.kernel.ring(1).memory.data())[i]; }
    siw_rqe& rqe(std::size_t i) { return reinterpret_cast<siw_rqe*>(device.kernel.ring(2).memory.data())[i]; }

    int post(ibv_send_wr& wr, ibv_send_wr** bad = nullptr) {
        ibv_send_wr* ignored = nullptr;
        return siw::post_send(qp, &wr, bad != nullptr ? bad : &ignored);
    }

    OpenedDevice device;
    ibv_pd* pd = nullptr;
    ibv_cq* cq = nullptr;
    ibv_qp* qp = nullptr;
};

inline ibv_send_wr request(ibv_wr_opcode opcode, ibv_sge* list = nullptr, int count = 0,
                           unsigned flags = IBV_SEND_SIGNALED) {
    ibv_send_wr wr{};
    wr.wr_id = 5;
    wr.sg_list = list;
    wr.num_sge = count;
    wr.opcode = opcode;
    wr.send_flags = flags;
    return wr;
}

} // namespace sluice::provider::testing
