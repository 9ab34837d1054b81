// SPDX-License-Identifier: BSD-3-Clause
//
// Nothing to be had: each allocation, mapping, descriptor and thread that a call asks for fails once. The
// call answers with DAT_INSUFFICIENT_RESOURCES or does without, leaves nothing behind, and can be made again.
#include <functional>
#include <memory>
#include <utility>

#include "tests/unit/shortage.hpp"
#include "tests/unit/shortage_sweep.hpp"
#include "tests/unit/udapl/dapl_pair.hpp"

using namespace sluice::dapl::test;
using sluice::test::after;
using sluice::test::Sweep;
using sluice::test::until_failure;

namespace {

bool is_shortage(int status) {
    return (static_cast<DAT_RETURN>(status) & ~DAT_SUBTYPE_MASK) == coded(DAT_INSUFFICIENT_RESOURCES);
}

void sweep(const char* what, const std::function<DAT_RETURN()>& make, const std::function<DAT_RETURN()>& undo,
           int step = 1) {
    Sweep{.what = what,
          .make = [&] { return static_cast<int>(make()); },
          .undo = [&] { assert_int_equal(undo(), DAT_SUCCESS); },
          .is_shortage = is_shortage,
          .step = step}
        .run();
}

void sweep_of_connections(const char* what, const std::function<DAT_RETURN()>& make,
                          const std::function<void()>& undo) {
    Sweep{.what = what,
          .make = [&] { return static_cast<int>(make()); },
          .undo = undo,
          .is_shortage = is_shortage,
          .keeps_memory = true}
        .run();
}

// What CREATE makes; nothing was given before.
template<typename Destroy>
DAT_HANDLE made_in_the_end(const char* what, const std::function<DAT_RETURN(DAT_HANDLE*)>& create,
                           const Destroy& destroy, int step = 1) {
    DAT_HANDLE made = DAT_HANDLE_NULL;
    const auto make = [&] {
        made = DAT_HANDLE_NULL;
        const DAT_RETURN status = create(&made);
        assert_int_equal(status == DAT_SUCCESS, made != DAT_HANDLE_NULL);
        return status;
    };
    sweep(
        what, make, [&] { return destroy(made); }, step);
    assert_int_equal(make(), DAT_SUCCESS);
    return made;
}

// Of everything that is opened for the first time.
void warm_up() {
    const Pair pair;
    pair.connect();
}

// Each time takes a thousand requests and 50 ms.
TEST(adapter__no_memory__told_and_nothing_is_left) {
    warm_up();
    std::string name = own_device(2);
    { const Opened before(name); } // what is kept of a device
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
    const auto close = [](DAT_IA_HANDLE ia) { return dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG); };
    DAT_IA_HANDLE ia = made_in_the_end(
        "dat_ia_open",
        [&](DAT_HANDLE* made) {
            async_evd = DAT_HANDLE_NULL;
            return dat_ia_open(name.data(), 8, &async_evd, made);
        },
        close, sluice::test::stride(13));
    assert_int_equal(close(ia), DAT_SUCCESS);
}

TEST(events__no_memory__told_and_nothing_is_left) {
    warm_up();
    const Opened opened;
    const DAT_IA_HANDLE ia = opened.ia;
    const DAT_CNO_HANDLE cno = made_in_the_end(
        "dat_cno_create",
        [&](auto* made) {
            return dat_cno_create(ia, {nullptr, nullptr}, made);
        },
        dat_cno_free);
    const DAT_EVD_HANDLE transfers = made_in_the_end(
        "dat_evd_create", [&](auto* made) { return dat_evd_create(ia, 8, cno, DAT_EVD_DTO_FLAG, made); },
        dat_evd_free);
    const DAT_EVD_HANDLE requests = made_in_the_end(
        "dat_evd_create",
        [&](auto* made) { return dat_evd_create(ia, 8, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, made); },
        dat_evd_free);
    sweep(
        "dat_evd_resize", [&] { return dat_evd_resize(requests, 64); },
        [&] { return dat_evd_resize(requests, 8); });
    DAT_CONN_QUAL qualifier = 0;
    const DAT_PSP_HANDLE psp = made_in_the_end(
        "dat_psp_create_any",
        [&](auto* made) { return dat_psp_create_any(ia, &qualifier, requests, DAT_PSP_CONSUMER_FLAG, made); },
        dat_psp_free);
    const DAT_PSP_HANDLE chosen = made_in_the_end(
        "dat_psp_create",
        [&](auto* made) { return dat_psp_create(ia, qualifier + 2, requests, DAT_PSP_CONSUMER_FLAG, made); },
        dat_psp_free);
    for (const DAT_RETURN status : {dat_psp_free(psp), dat_psp_free(chosen), dat_evd_free(transfers),
                                    dat_evd_free(requests), dat_cno_free(cno)}) {
        assert_int_equal(status, DAT_SUCCESS);
    }
}

struct Parts {
    const Opened opened;
    DAT_PZ_HANDLE pz = opened.make_pz();
    DAT_EVD_HANDLE transfers = opened.make_evd(8, DAT_EVD_DTO_FLAG);
    DAT_EVD_HANDLE connections = opened.make_evd(8, DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG);
};

TEST(endpoints__no_memory__told_and_nothing_is_left) {
    warm_up();
    const Parts parts;
    const DAT_IA_HANDLE ia = parts.opened.ia;
    const DAT_PZ_HANDLE pz = made_in_the_end(
        "dat_pz_create", [&](auto* made) { return dat_pz_create(ia, made); }, dat_pz_free);
    const DAT_RMR_HANDLE rmr = made_in_the_end(
        "dat_rmr_create", [&](auto* made) { return dat_rmr_create(pz, made); }, dat_rmr_free);
    const DAT_EP_HANDLE ep = made_in_the_end(
        "dat_ep_create",
        [&](auto* made) {
            return dat_ep_create(ia, pz, parts.transfers, parts.transfers, parts.connections, nullptr, made);
        },
        dat_ep_free);
    DAT_EP_PARAM param{};
    assert_int_equal(dat_ep_query(ep, DAT_EP_FIELD_ALL, &param), DAT_SUCCESS);
    const auto set_depth = [&](DAT_COUNT depth) {
        param.ep_attr.max_request_dtos = depth;
        return dat_ep_modify(ep, DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS, &param);
    };
    sweep(
        "dat_ep_modify", [&] { return set_depth(64); }, [&] { return set_depth(8); });
    DAT_CONN_QUAL qualifier = 7175;
    const DAT_RSP_HANDLE rsp = made_in_the_end(
        "dat_rsp_create",
        [&](auto* made) { return dat_rsp_create(ia, ++qualifier, ep, parts.connections, made); },
        dat_rsp_free);
    for (const DAT_RETURN status : {dat_rsp_free(rsp), dat_ep_free(ep), dat_rmr_free(rmr), dat_pz_free(pz)}) {
        assert_int_equal(status, DAT_SUCCESS);
    }
}

TEST(shared_queue__no_memory__told_and_nothing_is_left) {
    warm_up();
    const Parts parts;
    const DAT_IA_HANDLE ia = parts.opened.ia;
    DAT_SRQ_ATTR attr{};
    attr.max_recv_dtos = 8;
    attr.max_recv_iov = 1;
    attr.low_watermark = DAT_SRQ_LW_DEFAULT;
    const DAT_SRQ_HANDLE srq = made_in_the_end(
        "dat_srq_create", [&](auto* made) { return dat_srq_create(ia, parts.pz, &attr, made); },
        dat_srq_free);
    DAT_SRQ_HANDLE resized = DAT_HANDLE_NULL; // it keeps the memory that it has got
    const auto make_small = [&] {
        assert_int_equal(dat_srq_create(ia, parts.pz, &attr, &resized), DAT_SUCCESS);
    };
    sweep(
        "dat_srq_resize",
        [&] {
            const DAT_RETURN status = after(make_small, [&] { return dat_srq_resize(resized, 32); });
            if (status != DAT_SUCCESS) {
                assert_int_equal(dat_srq_free(resized), DAT_SUCCESS);
            }
            return status;
        },
        [&] { return dat_srq_free(resized); });
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    assert_int_equal(
        dat_ep_create(ia, parts.pz, parts.transfers, parts.transfers, parts.connections, nullptr, &ep),
        DAT_SUCCESS);
    DAT_EP_PARAM param{};
    assert_int_equal(dat_ep_query(ep, DAT_EP_FIELD_ALL, &param), DAT_SUCCESS);
    const DAT_EP_HANDLE sharing = made_in_the_end(
        "dat_ep_create_with_srq",
        [&](auto* made) {
            return dat_ep_create_with_srq(ia, parts.pz, parts.transfers, parts.transfers, parts.connections,
                                          srq, &param.ep_attr, made);
        },
        dat_ep_free);
    for (const DAT_RETURN status : {dat_ep_free(ep), dat_ep_free(sharing), dat_srq_free(srq)}) {
        assert_int_equal(status, DAT_SUCCESS);
    }
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
    const DAT_LMR_HANDLE lmr = made_in_the_end(
        "dat_lmr_create",
        [&](auto* made) {
            return dat_lmr_create(opened.ia, DAT_MEM_TYPE_VIRTUAL, region, bytes.size(), pz,
                                  DAT_MEM_PRIV_ALL_FLAG, made, &context, &key, &size, &address);
        },
        dat_lmr_free);
    assert_int_equal(dat_pz_free(pz), coded(DAT_INVALID_STATE, DAT_INVALID_STATE_PZ_IN_USE));
    assert_int_equal(dat_lmr_free(lmr), DAT_SUCCESS);
    assert_int_equal(dat_pz_free(pz), DAT_SUCCESS); // nothing of what has failed holds it
}

// The endpoint is as before, and the peer hears of nobody.
TEST(connect__no_memory__told_and_unconnected) {
    std::unique_ptr<Pair> pair;
    DAT_IA_ADDRESS_PTR address = nullptr;
    const auto make_pair = [&] {
        pair = std::make_unique<Pair>();
        address = pair->address();
    };
    const auto connect = [&] {
        const DAT_RETURN status = pair->active.connect_to(address, pair->qualifier);
        const int failure = std::exchange(until_failure, -1);
        assert_int_equal(pair->active.state(), status == DAT_SUCCESS ? DAT_EP_STATE_ACTIVE_CONNECTION_PENDING
                                                                     : DAT_EP_STATE_UNCONNECTED);
        until_failure = failure;
        return status;
    };
    const auto reject = [&] {
        assert_int_equal(dat_cr_reject(pair->request()), DAT_SUCCESS);
        pair->active.must_hear(DAT_CONNECTION_EVENT_PEER_REJECTED);
        pair.reset();
    };
    sweep_of_connections(
        "dat_ep_connect", [&] { return after(make_pair, connect); }, reject);
}

// A pair for each round, and the request that one of both has made.
struct Asked {
    void ask() {
        pair = std::make_unique<Pair>();
        pair->ask();
        request = pair->request();
    }
    std::unique_ptr<Pair> pair;
    DAT_CR_HANDLE request = DAT_HANDLE_NULL;
};

TEST(accept__no_memory__told_and_possible_again) {
    Asked asked;
    const auto take = [&] {
        asked.pair->active.must_hear(DAT_CONNECTION_EVENT_ESTABLISHED);
        asked.pair->passive.must_hear(DAT_CONNECTION_EVENT_ESTABLISHED);
        asked.pair.reset();
    };
    sweep_of_connections(
        "dat_cr_accept",
        [&] {
            return after([&] { asked.ask(); },
                         [&] { return dat_cr_accept(asked.request, asked.pair->passive.ep, 0, nullptr); });
        },
        take);
}

TEST(further_connect__no_memory__told_and_unconnected) {
    const Pair pair;
    pair.connect();
    std::unique_ptr<Side> third;
    const auto make_third = [&] { third = std::make_unique<Side>(2); };
    const auto connect = [&] {
        return dat_ep_dup_connect(third->ep, pair.active.ep, DAT_TIMEOUT_INFINITE, 0, nullptr,
                                  DAT_QOS_BEST_EFFORT);
    };
    const auto reject = [&] {
        assert_int_equal(dat_cr_reject(pair.request()), DAT_SUCCESS);
        third->must_hear(DAT_CONNECTION_EVENT_PEER_REJECTED);
        third.reset();
    };
    sweep_of_connections(
        "dat_ep_dup_connect", [&] { return after(make_third, connect); }, reject);
}

// The request stays until it is handed on. A point that has no memory for it is one that has no room.
TEST(handoff__no_memory__told_or_refused) {
    Asked asked;
    const auto end = [&] {
        assert_int_equal(dat_cr_reject(asked.request), coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_CR));
        asked.pair.reset();
    };
    sweep_of_connections(
        "dat_cr_handoff",
        [&] {
            return after([&] { asked.ask(); },
                         [&] { return dat_cr_handoff(asked.request, asked.pair->qualifier); });
        },
        end);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
