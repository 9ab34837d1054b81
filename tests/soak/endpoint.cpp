// SPDX-License-Identifier: BSD-3-Clause
#include "tests/soak/endpoint.hpp"

#include <cstdlib>

namespace sluice::test::soak {

namespace {

constexpr int kAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
// Of all connections, requests and receives, and a margin for what is posted to see where a queue ends.
constexpr int kCompletions =
    kMaxConnections * (2 * kUnderWay + kReceives) + 2 * kUnderWay + kDatagramReceives + 16;

} // namespace

OpenDevice::OpenDevice(const std::string& address, bool packets_only, const std::string& faults) {
    if (packets_only) {
        setenv("SLUICE_UROCE_NEIGHBOURS", "packets", 1);
    }
    if (!faults.empty()) {
        setenv("SLUICE_UROCE_FAULTS", faults.c_str(), 1);
    }
    context_ = must_be(sluice_open_uroce(address.c_str()), "sluice_open_uroce");
    unsetenv("SLUICE_UROCE_NEIGHBOURS");
    unsetenv("SLUICE_UROCE_FAULTS");
}

Endpoint::Endpoint(const Step& its_step, const std::string& its_address, const std::string& faults)
    : step(its_step), address(its_address), device(its_address, its_step.goes_through_packets_only(), faults),
      block(its_step.in_shared_file) {
    ibv_context* const context = device.get();
    pd = must_be(ibv_alloc_pd(context), "ibv_alloc_pd");
    mr = must_be(ibv_reg_mr(pd, block.at(0), kBlockBytes, kAccess), "ibv_reg_mr");
    if (step.waits) {
        channel = must_be(sluice_create_comp_channel(context), "sluice_create_comp_channel");
    }
    cq = must_be(ibv_create_cq(context, kCompletions, nullptr, channel, 0), "ibv_create_cq");
    must_be_zero(sluice_cm_create_channel(context, &cm), "sluice_cm_create_channel");
}

Endpoint::~Endpoint() {
    must_be_zero(sluice_cm_destroy_channel(cm), "sluice_cm_destroy_channel");
    must_be_zero(ibv_destroy_cq(cq), "ibv_destroy_cq");
    if (channel != nullptr) {
        must_be_zero(ibv_destroy_comp_channel(channel), "ibv_destroy_comp_channel");
    }
    must_be_zero(ibv_dereg_mr(mr), "ibv_dereg_mr");
    must_be_zero(ibv_dealloc_pd(pd), "ibv_dealloc_pd");
}

ibv_qp* Endpoint::make_queue_pair() const {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.srq = srq;
    init.qp_type = IBV_QPT_RC;
    init.cap = {2 * kUnderWay, kReceives, 1, 1, 0};
    return must_be(ibv_create_qp(pd, &init), "ibv_create_qp");
}

void Endpoint::make_queue_pairs() {
    std::memset(block.at(0), 0, kPlacesAt);
    if (step.with_srq) {
        ibv_srq_init_attr attr{};
        attr.attr = {kMaxConnections * kReceives, 1, 0};
        srq = must_be(ibv_create_srq(pd, &attr), "ibv_create_srq");
    }
    for (unsigned i = 0; i < step.connections; ++i) {
        qps[i] = make_queue_pair();
    }
    if (step.with_datagrams) {
        make_datagrams();
    }
}

void Endpoint::make_datagrams() {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.qp_type = IBV_QPT_UD;
    init.cap = {2 * kUnderWay, kDatagramReceives, 1, 1, 0};
    datagrams = must_be(ibv_create_qp(pd, &init), "ibv_create_qp of a datagram service");
    ibv_qp_attr attr{};
    attr.port_num = 1;
    attr.qkey = kQkey;
    attr.qp_state = IBV_QPS_INIT;
    must_be_zero(
        ibv_modify_qp(datagrams, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
        "INIT of a datagram service");
    attr.qp_state = IBV_QPS_RTR;
    must_be_zero(ibv_modify_qp(datagrams, &attr, IBV_QP_STATE), "RTR of a datagram service");
    attr.qp_state = IBV_QPS_RTS;
    must_be_zero(ibv_modify_qp(datagrams, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "RTS of a datagram service");
}

void Endpoint::destroy_queue_pairs() {
    for (ibv_qp*& qp : qps) {
        if (qp != nullptr) {
            must_be_zero(ibv_destroy_qp(qp), "ibv_destroy_qp");
            qp = nullptr;
        }
    }
    if (datagrams != nullptr) {
        must_be_zero(ibv_destroy_qp(datagrams), "ibv_destroy_qp of a datagram service");
        datagrams = nullptr;
    }
    if (srq != nullptr) {
        must_be_zero(ibv_destroy_srq(srq), "ibv_destroy_srq");
        srq = nullptr;
    }
}

} // namespace sluice::test::soak
