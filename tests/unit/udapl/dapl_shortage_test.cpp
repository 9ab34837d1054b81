// SPDX-License-Identifier: BSD-3-Clause
//
// No memory: each allocation of a call fails once, the first, the second and so on, until the call succeeds.
// It answers with DAT_INSUFFICIENT_RESOURCES, gives nothing, leaves nothing behind, and can be made again.
#include <functional>
#include <utility>

#include "tests/unit/shortage.hpp"
#include "tests/unit/udapl/dapl_pair.hpp"

using namespace sluice::dapl::test;
using sluice::test::until_failure;

namespace {

constexpr int kMostAllocations = 500;

void fails_until_it_succeeds(const char* what, const std::function<DAT_RETURN()>& call) {
    DAT_RETURN status = DAT_CLASS_ERROR;
    int number = 0;
    for (; status != DAT_SUCCESS && number < kMostAllocations; ++number) {
        until_failure = number;
        status = call();
        until_failure = -1;
        if (status != DAT_SUCCESS && (status & ~DAT_SUBTYPE_MASK) != coded(DAT_INSUFFICIENT_RESOURCES)) {
            fail_msg("%s answers 0x%x when allocation %d fails", what, status, number);
        }
    }
    assert_int_equal(status, DAT_SUCCESS);
    if (number < 2) {
        fail_msg("%s needs no memory", what);
    }
}

// What CREATE makes; nothing was given before.
DAT_HANDLE made_in_the_end(const char* what, const std::function<DAT_RETURN(DAT_HANDLE*)>& create) {
    DAT_HANDLE made = DAT_HANDLE_NULL;
    fails_until_it_succeeds(what, [&] {
        const DAT_RETURN status = create(&made);
        assert_int_equal(status == DAT_SUCCESS, made != DAT_HANDLE_NULL);
        return status;
    });
    return made;
}

// Of everything that is opened for the first time.
void warm_up() {
    const Pair pair;
    pair.connect();
}

TEST(adapter__no_memory__told_and_nothing_is_left) {
    warm_up();
    std::string name = own_device(2);
    { const Opened before(name); } // what is kept of a device
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = made_in_the_end("dat_ia_open", [&](DAT_HANDLE* made) {
        async_evd = DAT_HANDLE_NULL;
        return dat_ia_open(name.data(), 8, &async_evd, made);
    });
    assert_int_equal(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS);
}

TEST(parts__no_memory__told_and_nothing_is_left) {
    warm_up();
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    std::string name = own_device();
    assert_int_equal(dat_ia_open(name.data(), 8, &async_evd, &ia), DAT_SUCCESS);
    const DAT_PZ_HANDLE pz =
        made_in_the_end("dat_pz_create", [&](auto* made) { return dat_pz_create(ia, made); });
    const DAT_CNO_HANDLE cno = made_in_the_end("dat_cno_create", [&](auto* made) {
        return dat_cno_create(ia, {nullptr, nullptr}, made);
    });
    const DAT_EVD_HANDLE transfers = made_in_the_end(
        "dat_evd_create", [&](auto* made) { return dat_evd_create(ia, 8, cno, DAT_EVD_DTO_FLAG, made); });
    const DAT_EVD_HANDLE connections = made_in_the_end("dat_evd_create", [&](auto* made) {
        return dat_evd_create(ia, 8, DAT_HANDLE_NULL,
                              static_cast<DAT_EVD_FLAGS>(DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG), made);
    });
    fails_until_it_succeeds("dat_evd_resize", [&] { return dat_evd_resize(connections, 64); });
    const DAT_RMR_HANDLE rmr =
        made_in_the_end("dat_rmr_create", [&](auto* made) { return dat_rmr_create(pz, made); });
    DAT_SRQ_ATTR srq_attr{};
    srq_attr.max_recv_dtos = 8;
    srq_attr.max_recv_iov = 1;
    srq_attr.low_watermark = DAT_SRQ_LW_DEFAULT;
    const DAT_SRQ_HANDLE srq = made_in_the_end(
        "dat_srq_create", [&](auto* made) { return dat_srq_create(ia, pz, &srq_attr, made); });
    const DAT_EP_HANDLE ep = made_in_the_end("dat_ep_create", [&](auto* made) {
        return dat_ep_create(ia, pz, transfers, transfers, connections, nullptr, made);
    });
    fails_until_it_succeeds("dat_srq_resize", [&] { return dat_srq_resize(srq, 32); });
    DAT_EP_PARAM param{};
    assert_int_equal(dat_ep_query(ep, DAT_EP_FIELD_ALL, &param), DAT_SUCCESS);
    const DAT_EP_HANDLE sharing = made_in_the_end("dat_ep_create_with_srq", [&](auto* made) {
        return dat_ep_create_with_srq(ia, pz, transfers, transfers, connections, srq, &param.ep_attr, made);
    });
    param.ep_attr.max_request_dtos = 32;
    fails_until_it_succeeds("dat_ep_modify",
                            [&] { return dat_ep_modify(ep, DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS, &param); });
    DAT_CONN_QUAL qualifier = 0;
    const DAT_PSP_HANDLE psp = made_in_the_end("dat_psp_create_any", [&](auto* made) {
        return dat_psp_create_any(ia, &qualifier, connections, DAT_PSP_CONSUMER_FLAG, made);
    });
    const DAT_RSP_HANDLE rsp = made_in_the_end("dat_rsp_create", [&](auto* made) {
        return dat_rsp_create(ia, qualifier + 1, ep, connections, made);
    });
    const DAT_PSP_HANDLE chosen = made_in_the_end("dat_psp_create", [&](auto* made) {
        return dat_psp_create(ia, qualifier + 2, connections, DAT_PSP_CONSUMER_FLAG, made);
    });
    for (const DAT_RETURN status :
         {dat_rsp_free(rsp), dat_psp_free(psp), dat_psp_free(chosen), dat_ep_free(ep), dat_ep_free(sharing),
          dat_srq_free(srq), dat_rmr_free(rmr), dat_evd_free(transfers), dat_evd_free(connections),
          dat_cno_free(cno), dat_pz_free(pz)}) {
        assert_int_equal(status, DAT_SUCCESS);
    }
    assert_int_equal(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS);
}

TEST(region__no_memory__told_and_nothing_is_left) {
    const Opened opened;
    const DAT_PZ_HANDLE pz = opened.make_pz();
    std::vector<std::uint8_t> bytes(4096);
    DAT_REGION_DESCRIPTION region{};
    region.for_va = bytes.data();
    DAT_LMR_CONTEXT context = 0;
    DAT_RMR_CONTEXT key = 0;
    DAT_VLEN size = 0;
    DAT_VADDR address = 0;
    const DAT_LMR_HANDLE lmr = made_in_the_end("dat_lmr_create", [&](auto* made) {
        return dat_lmr_create(opened.ia, DAT_MEM_TYPE_VIRTUAL, region, bytes.size(), pz,
                              DAT_MEM_PRIV_ALL_FLAG, made, &context, &key, &size, &address);
    });
    assert_int_equal(dat_pz_free(pz), coded(DAT_INVALID_STATE, DAT_INVALID_STATE_PZ_IN_USE));
    assert_int_equal(dat_lmr_free(lmr), DAT_SUCCESS);
    assert_int_equal(dat_pz_free(pz), DAT_SUCCESS); // nothing of what has failed holds it
}

// The endpoint is as before, and the peer hears of nobody.
TEST(connect__no_memory__told_and_unconnected) {
    const Pair pair;
    fails_until_it_succeeds("dat_ep_connect", [&] {
        const int failure = std::exchange(until_failure, -1);
        auto* const address = pair.address();
        until_failure = failure;
        const DAT_RETURN status = pair.active.connect_to(address, pair.qualifier);
        until_failure = -1;
        assert_int_equal(pair.active.state(), status == DAT_SUCCESS ? DAT_EP_STATE_ACTIVE_CONNECTION_PENDING
                                                                    : DAT_EP_STATE_UNCONNECTED);
        return status;
    });
    const DAT_CR_HANDLE request = pair.request();
    fails_until_it_succeeds("dat_cr_accept",
                            [&] { return dat_cr_accept(request, pair.passive.ep, 0, nullptr); });
    pair.active.must_hear(DAT_CONNECTION_EVENT_ESTABLISHED);
    pair.passive.must_hear(DAT_CONNECTION_EVENT_ESTABLISHED);
    const Side third(2);
    fails_until_it_succeeds("dat_ep_dup_connect", [&] {
        return dat_ep_dup_connect(third.ep, pair.active.ep, DAT_TIMEOUT_INFINITE, 0, nullptr,
                                  DAT_QOS_BEST_EFFORT);
    });
    assert_int_equal(dat_cr_reject(pair.request()), DAT_SUCCESS);
    third.must_hear(DAT_CONNECTION_EVENT_PEER_REJECTED);
}

// The request stays until it is handed on. A point that has no memory for it is one that has no room.
TEST(handoff__no_memory__told_or_refused) {
    const Pair pair;
    pair.ask();
    const DAT_CR_HANDLE request = pair.request();
    fails_until_it_succeeds("dat_cr_handoff", [&] { return dat_cr_handoff(request, pair.qualifier); });
    assert_int_equal(dat_cr_reject(request), coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_CR));
    const DAT_EVENT refused = next(pair.active.connections);
    assert_true(refused.event_number == DAT_CONNECTION_EVENT_NON_PEER_REJECTED ||
                refused.event_number == DAT_CONNECTION_EVENT_PEER_REJECTED); // over rdma_cm
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
