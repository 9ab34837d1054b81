// SPDX-License-Identifier: BSD-3-Clause
//
// Reserved service points of our provider, and requests that are handed on.
#include <cstring>

#include "tests/unit/udapl/dapl_pair.hpp"

using namespace sluice::dapl::test;

namespace {

constexpr DAT_RETURN bad(unsigned argument) {
    return coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1 + argument - 1);
}

// Over rdma_cm nobody can tell a refusal from a program's answer.
DAT_EVENT_NUMBER refused() {
    return is_own_device_named() ? DAT_CONNECTION_EVENT_PEER_REJECTED
                                 : DAT_CONNECTION_EVENT_NON_PEER_REJECTED;
}

// The passive side waits for one peer, on a port that was free a moment ago.
struct ReservedPair : Pair {
    explicit ReservedPair(bool reserves = true) {
        assert_int_equal(dat_psp_free(psp), DAT_SUCCESS);
        if (reserves) {
            reserve();
        }
    }
    void reserve() { assert_int_equal(try_reserve(&rsp), DAT_SUCCESS); }
    DAT_RETURN try_reserve(DAT_RSP_HANDLE* made) const {
        return dat_rsp_create(passive.opened.ia, qualifier, passive.ep, passive.connections, made);
    }
    DAT_EVENT asked() const {
        ask();
        return passive.must_hear(DAT_CONNECTION_REQUEST_EVENT);
    }
    DAT_CR_HANDLE asked_cr() const { return asked().event_data.cr_arrival_event_data.cr_handle; }

    DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
};

TEST(rsp_create__endpoint_unconnected__reserved_until_freed) {
    const ReservedPair pair;
    assert_int_equal(pair.passive.state(), DAT_EP_STATE_RESERVED);
    DAT_RSP_PARAM param{};
    assert_int_equal(dat_rsp_query(pair.rsp, DAT_RSP_FIELD_ALL, &param), DAT_SUCCESS);
    assert_ptr_equal(param.ia_handle, pair.passive.opened.ia);
    assert_int_equal(param.conn_qual, pair.qualifier);
    assert_ptr_equal(param.evd_handle, pair.passive.connections);
    assert_ptr_equal(param.ep_handle, pair.passive.ep);
    DAT_HANDLE_TYPE type{};
    assert_int_equal(dat_get_handle_type(pair.rsp, &type), DAT_SUCCESS);
    assert_int_equal(type, DAT_HANDLE_TYPE_RSP);
    const DAT_RETURN reserved = coded(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_RESERVED);
    assert_int_equal(dat_ep_free(pair.passive.ep), reserved);
    assert_int_equal(dat_ep_disconnect(pair.passive.ep, DAT_CLOSE_ABRUPT_FLAG), reserved);
    assert_int_equal(dat_ep_reset(pair.passive.ep), reserved);
    assert_int_equal(pair.passive.receive(0, 10), DAT_SUCCESS);
    assert_int_equal(dat_rsp_free(pair.rsp), DAT_SUCCESS);
    assert_int_equal(pair.passive.state(), DAT_EP_STATE_UNCONNECTED);
    assert_int_equal(dat_rsp_free(pair.rsp), coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_RSP));
    assert_int_equal(dat_ep_free(pair.passive.ep), DAT_SUCCESS);
}

TEST(rsp_create__wrong_arguments__each_its_code_and_not_reserved) {
    ReservedPair pair(false);
    DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
    const Side& side = pair.passive;
    const auto create = [&](DAT_CONN_QUAL qualifier, DAT_EP_HANDLE ep, DAT_EVD_HANDLE evd) {
        return dat_rsp_create(side.opened.ia, qualifier, ep, evd, &rsp);
    };
    assert_int_equal(dat_rsp_create(side.ep, pair.qualifier, side.ep, side.connections, &rsp),
                     coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA));
    assert_int_equal(create(0, side.ep, side.connections), bad(2));
    assert_int_equal(create(pair.qualifier, DAT_HANDLE_NULL, side.connections),
                     coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP));
    assert_int_equal(create(pair.qualifier, pair.active.ep, side.connections),
                     coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP));
    assert_int_equal(create(pair.qualifier, side.ep, side.transfers),
                     coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EVD_CR));
    assert_int_equal(pair.try_reserve(nullptr), bad(5));
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    assert_int_equal(
        dat_psp_create(side.opened.ia, pair.qualifier, side.connections, DAT_PSP_CONSUMER_FLAG, &psp),
        DAT_SUCCESS);
    assert_int_equal(DAT_GET_TYPE(pair.try_reserve(&rsp)), DAT_CONN_QUAL_IN_USE);
    assert_int_equal(side.state(), DAT_EP_STATE_UNCONNECTED);
    assert_int_equal(dat_psp_free(psp), DAT_SUCCESS);
    pair.reserve();
    assert_int_equal(pair.try_reserve(&rsp), coded(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_RESERVED));
    assert_null(rsp);
    DAT_RSP_PARAM param{};
    assert_int_equal(dat_rsp_query(pair.rsp, static_cast<DAT_RSP_PARAM_MASK>(0x10), &param), bad(2));
    assert_int_equal(dat_rsp_query(pair.rsp, DAT_RSP_FIELD_ALL, nullptr), bad(3));
}

TEST(request__comes__point_is_gone_and_the_endpoint_is_asked) {
    const ReservedPair pair;
    const DAT_EVENT asked = pair.asked();
    const DAT_CR_ARRIVAL_EVENT_DATA& arrival = asked.event_data.cr_arrival_event_data;
    assert_null(arrival.sp_handle.rsp_handle);
    assert_int_equal(arrival.conn_qual, pair.qualifier);
    assert_int_equal(pair.passive.state(), DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
    const DAT_RETURN pending = coded(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_PASSCONNPENDING);
    assert_int_equal(dat_ep_free(pair.passive.ep), pending);
    assert_int_equal(dat_ep_disconnect(pair.passive.ep, DAT_CLOSE_ABRUPT_FLAG), pending);
    DAT_CR_PARAM param{};
    assert_int_equal(dat_cr_query(arrival.cr_handle, DAT_CR_FIELD_ALL, &param), DAT_SUCCESS);
    assert_ptr_equal(param.local_ep_handle, pair.passive.ep);
    assert_string_equal(static_cast<const char*>(param.private_data), kHello);
    assert_int_equal(dat_cr_accept(arrival.cr_handle, DAT_HANDLE_NULL, 0, nullptr), DAT_SUCCESS);
    pair.active.must_hear(DAT_CONNECTION_EVENT_ESTABLISHED);
    pair.passive.must_hear(DAT_CONNECTION_EVENT_ESTABLISHED);
    assert_int_equal(pair.passive.state(), DAT_EP_STATE_CONNECTED);
    DAT_RSP_PARAM gone{};
    assert_int_equal(dat_rsp_query(pair.rsp, DAT_RSP_FIELD_ALL, &gone),
                     coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_RSP));
}

TEST(accept__its_endpoint_or_another__only_its_own) {
    const ReservedPair pair;
    const DAT_CR_HANDLE cr = pair.asked_cr();
    DAT_EP_HANDLE other = DAT_HANDLE_NULL;
    assert_int_equal(dat_ep_create(pair.passive.opened.ia, pair.passive.pz, pair.passive.transfers,
                                   pair.passive.transfers, pair.passive.connections, nullptr, &other),
                     DAT_SUCCESS);
    assert_int_equal(dat_cr_accept(cr, other, 0, nullptr), bad(2));
    assert_int_equal(dat_ep_free(other), DAT_SUCCESS);
    for (const DAT_EP_HANDLE wrong : {other, pair.active.ep, pair.passive.connections}) {
        assert_int_equal(dat_cr_accept(cr, wrong, 0, nullptr),
                         coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP));
    }
    assert_int_equal(dat_cr_accept(cr, pair.passive.ep, 0, nullptr), DAT_SUCCESS);
    pair.active.must_hear(DAT_CONNECTION_EVENT_ESTABLISHED);
}

TEST(reject__endpoint_is_free_for_another_point) {
    ReservedPair pair;
    assert_int_equal(dat_cr_reject(pair.asked_cr()), DAT_SUCCESS);
    pair.active.must_hear(DAT_CONNECTION_EVENT_PEER_REJECTED);
    assert_int_equal(pair.passive.state(), DAT_EP_STATE_UNCONNECTED);
    pair.reserve();
    assert_int_equal(pair.passive.state(), DAT_EP_STATE_RESERVED);
    assert_int_equal(dat_ep_reset(pair.active.ep), DAT_SUCCESS);
    assert_int_equal(dat_cr_accept(pair.asked_cr(), DAT_HANDLE_NULL, 0, nullptr), DAT_SUCCESS);
    pair.active.must_hear(DAT_CONNECTION_EVENT_ESTABLISHED);
}

TEST(request__second_peer__nobody_listens) {
    ReservedPair pair;
    (void)pair.asked_cr();
    const Side third(2);
    assert_int_equal(third.connect_to(pair.address(), pair.qualifier), DAT_SUCCESS);
    third.must_hear(DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
}

TEST(request__dispatcher_full__refused_and_the_point_stays) {
    const ReservedPair pair(false);
    const DAT_EVD_HANDLE small = pair.passive.opened.make_evd(1, DAT_EVD_CR_FLAG | DAT_EVD_SOFTWARE_FLAG);
    DAT_EVENT noise{};
    noise.event_number = DAT_SOFTWARE_EVENT;
    assert_int_equal(dat_evd_post_se(small, &noise), DAT_SUCCESS);
    DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
    assert_int_equal(dat_rsp_create(pair.passive.opened.ia, pair.qualifier, pair.passive.ep, small, &rsp),
                     DAT_SUCCESS);
    pair.ask();
    pair.active.must_hear(refused());
    assert_int_equal(pair.passive.state(), DAT_EP_STATE_RESERVED);
    assert_int_equal(dat_evd_dequeue(small, &noise), DAT_SUCCESS);
    assert_int_equal(dat_ep_reset(pair.active.ep), DAT_SUCCESS);
    pair.ask();
    assert_int_equal(next(small).event_number, DAT_CONNECTION_REQUEST_EVENT);
}

// A second listener of the passive side's, with a dispatcher of its own.
struct Elsewhere {
    explicit Elsewhere(const Side& side) : evd(side.opened.make_evd(4, DAT_EVD_CR_FLAG)) {
        assert_int_equal(dat_psp_create_any(side.opened.ia, &qualifier, evd, DAT_PSP_CONSUMER_FLAG, &psp),
                         DAT_SUCCESS);
    }
    DAT_EVD_HANDLE evd;
    DAT_CONN_QUAL qualifier = 0;
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
};

TEST(handoff__to_another_point__heard_there_with_all_its_data) {
    const Pair pair;
    const Elsewhere elsewhere(pair.passive);
    pair.ask();
    const DAT_CR_HANDLE cr = pair.request();
    assert_int_equal(dat_cr_handoff(cr, elsewhere.qualifier), DAT_SUCCESS);
    assert_int_equal(dat_cr_reject(cr), coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_CR));
    const DAT_EVENT event = next(elsewhere.evd);
    const DAT_CR_ARRIVAL_EVENT_DATA& arrival = event.event_data.cr_arrival_event_data;
    assert_ptr_equal(arrival.sp_handle.psp_handle, elsewhere.psp);
    assert_int_equal(arrival.conn_qual, elsewhere.qualifier);
    DAT_CR_PARAM param{};
    assert_int_equal(dat_cr_query(arrival.cr_handle, DAT_CR_FIELD_ALL, &param), DAT_SUCCESS);
    assert_string_equal(static_cast<const char*>(param.private_data), kHello);
    assert_int_equal(dat_cr_accept(arrival.cr_handle, pair.passive.ep, 0, nullptr), DAT_SUCCESS);
    pair.active.must_hear(DAT_CONNECTION_EVENT_ESTABLISHED);
    pair.passive.must_hear(DAT_CONNECTION_EVENT_ESTABLISHED);
}

TEST(handoff__to_a_reserved_point_and_on__endpoint_is_free_again) {
    const ReservedPair pair;
    const Elsewhere elsewhere(pair.passive);
    assert_int_equal(pair.active.connect_to(pair.address(), elsewhere.qualifier), DAT_SUCCESS);
    const DAT_EVENT first = next(elsewhere.evd);
    assert_int_equal(dat_cr_handoff(first.event_data.cr_arrival_event_data.cr_handle, pair.qualifier),
                     DAT_SUCCESS);
    const DAT_CR_HANDLE cr = pair.request();
    assert_int_equal(pair.passive.state(), DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
    assert_int_equal(dat_cr_handoff(cr, elsewhere.qualifier), DAT_SUCCESS);
    assert_int_equal(pair.passive.state(), DAT_EP_STATE_UNCONNECTED);
    const DAT_EVENT last = next(elsewhere.evd);
    assert_int_equal(
        dat_cr_accept(last.event_data.cr_arrival_event_data.cr_handle, pair.passive.ep, 0, nullptr),
        DAT_SUCCESS);
    pair.active.must_hear(DAT_CONNECTION_EVENT_ESTABLISHED);
}

TEST(handoff__nobody_there__peer_is_rejected) {
    const Pair pair;
    pair.ask();
    assert_int_equal(dat_cr_handoff(pair.request(), pair.qualifier + 1), DAT_SUCCESS);
    pair.active.must_hear(refused());
}

TEST(handoff__wrong_arguments__each_its_code) {
    const Pair pair;
    pair.ask();
    const DAT_CR_HANDLE cr = pair.request();
    assert_int_equal(dat_cr_handoff(pair.psp, 1), coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_CR));
    assert_int_equal(dat_cr_handoff(cr, 0), bad(2));
    assert_int_equal(dat_cr_reject(cr), DAT_SUCCESS);
}

TEST(ia_close__abrupt_with_points_and_requests__all_goes) {
    const ReservedPair waiting;
    const ReservedPair asked;
    (void)asked.asked_cr();
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
