// SPDX-License-Identifier: BSD-3-Clause
//
// Which events notify, what becomes of those for which there is no room, and watermarks.
#include "tests/unit/udapl/dapl_scene.hpp"

using namespace sluice::dapl::test;

namespace {

constexpr DAT_TIMEOUT kShort = 20'000;

DAT_EP_ATTR attributes(int receive, int request = DAT_COMPLETION_DEFAULT_FLAG) {
    DAT_EP_ATTR attr{};
    attr.service_type = DAT_SERVICE_TYPE_RC;
    attr.max_recv_dtos = attr.max_request_dtos = 16;
    attr.max_recv_iov = attr.max_request_iov = 1;
    attr.recv_completion_flags = static_cast<DAT_COMPLETION_FLAGS>(receive);
    attr.request_completion_flags = static_cast<DAT_COMPLETION_FLAGS>(request);
    attr.srq_soft_hw = DAT_HW_DEFAULT;
    return attr;
}

// An endpoint on SIDE's adapter with dispatchers of its own for both directions, in place of SIDE's.
struct Split {
    Split(Side& its_side, const DAT_EP_ATTR& attr)
        : side(its_side), receives(side.opened.make_evd(16, DAT_EVD_DTO_FLAG)),
          requests(side.opened.make_evd(16, DAT_EVD_DTO_FLAG)) {
        assert_int_equal(dat_ep_free(side.ep), DAT_SUCCESS);
        assert_int_equal(
            dat_ep_create(side.opened.ia, side.pz, receives, requests, side.connections, &attr, &side.ep),
            DAT_SUCCESS);
    }
    Side& side;
    DAT_EVD_HANDLE receives;
    DAT_EVD_HANDLE requests;
};

unsigned config(DAT_EVD_HANDLE evd) {
    DAT_EVD_PARAM param{};
    assert_int_equal(dat_evd_query(evd, DAT_EVD_FIELD_EVD_STATE, &param), DAT_SUCCESS);
    return param.evd_state & DAT_EVD_STATE_CONFIG_THRESHOLD;
}

DAT_RETURN wait(DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout, DAT_COUNT threshold, DAT_COUNT& left) {
    DAT_EVENT event{};
    return dat_evd_wait(evd, timeout, threshold, &event, &left);
}

DAT_COUNT dequeue_all(DAT_EVD_HANDLE evd) {
    DAT_EVENT event{};
    DAT_COUNT count = 0;
    while (dat_evd_dequeue(evd, &event) == DAT_SUCCESS) {
        ++count;
    }
    return count;
}

// Waits for the last of some sends at who sent them; RC: the peer has all of them then.
void await_requests(DAT_EVD_HANDLE evd, int count) {
    for (int i = 0; i < count; ++i) {
        assert_int_equal(next(evd).event_data.dto_completion_event_data.status, DAT_DTO_SUCCESS);
    }
}

TEST(solicited__others_come__only_the_solicited_wakes) {
    if (is_over_iwarp()) {
        skip(); // siw doesn't tell which it was
    }
    Pair pair;
    const Split passive(pair.passive, attributes(DAT_COMPLETION_SOLICITED_WAIT_FLAG));
    assert_int_equal(config(passive.receives), DAT_EVD_STATE_CONFIG_SOLICITED);
    assert_int_equal(config(passive.requests), DAT_EVD_STATE_CONFIG_THRESHOLD);
    for (std::uint64_t cookie = 1; cookie <= 3; ++cookie) {
        assert_int_equal(pair.passive.receive(0, 10, cookie), DAT_SUCCESS);
    }
    pair.connect();
    assert_int_equal(pair.active.send(0, 1), DAT_SUCCESS);
    assert_int_equal(pair.active.send(0, 1), DAT_SUCCESS);
    await_requests(pair.active.transfers, 2);
    DAT_COUNT left = -1;
    assert_int_equal(wait(passive.receives, kShort, 1, left), coded(DAT_TIMEOUT_EXPIRED));
    assert_int_equal(left, 2);
    assert_int_equal(pair.active.send(0, 1, 3, DAT_COMPLETION_SOLICITED_WAIT_FLAG), DAT_SUCCESS);
    assert_int_equal(wait(passive.receives, kLong, 1, left), DAT_SUCCESS);
    assert_int_equal(left, 2);
    assert_int_equal(dequeue_all(passive.receives), 2);
    assert_int_equal(wait(passive.receives, 0, 2, left),
                     coded(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_CONFIG_THRESHOLD));
}

TEST(solicited__came_before_the_wait__seen) {
    Pair pair;
    const Split passive(pair.passive, attributes(DAT_COMPLETION_SOLICITED_WAIT_FLAG));
    assert_int_equal(pair.passive.receive(0, 10), DAT_SUCCESS);
    pair.connect();
    assert_int_equal(pair.active.send(0, 1, 3, DAT_COMPLETION_SOLICITED_WAIT_FLAG), DAT_SUCCESS);
    await_requests(pair.active.transfers, 1);
    DAT_COUNT left = -1;
    assert_int_equal(wait(passive.receives, kLong, 1, left), DAT_SUCCESS);
}

TEST(solicited__device_that_does_not_tell__each_wakes) {
    if (!is_over_iwarp()) {
        skip();
    }
    Pair pair;
    const Split passive(pair.passive, attributes(DAT_COMPLETION_SOLICITED_WAIT_FLAG));
    assert_int_equal(config(passive.receives), DAT_EVD_STATE_CONFIG_SOLICITED);
    for (std::uint64_t cookie = 1; cookie <= 2; ++cookie) {
        assert_int_equal(pair.passive.receive(0, 10, cookie), DAT_SUCCESS);
    }
    pair.connect();
    DAT_COUNT left = -1;
    assert_int_equal(pair.active.send(0, 1), DAT_SUCCESS);
    assert_int_equal(wait(passive.receives, kLong, 1, left), DAT_SUCCESS);
    assert_int_equal(pair.active.send(0, 1, 3, DAT_COMPLETION_SOLICITED_WAIT_FLAG), DAT_SUCCESS);
    assert_int_equal(wait(passive.receives, kLong, 1, left), DAT_SUCCESS);
    assert_int_equal(left, 0);
}

TEST(unsignalled__posted_so__comes_without_waking) {
    Pair pair;
    const Split active(pair.active, attributes(DAT_COMPLETION_DEFAULT_FLAG, DAT_COMPLETION_UNSIGNALLED_FLAG));
    assert_int_equal(config(active.requests), DAT_EVD_STATE_CONFIG_NOTIFY);
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    assert_int_equal(dat_cno_create(pair.active.opened.ia, {nullptr, nullptr}, &cno), DAT_SUCCESS);
    for (int i = 0; i < 2; ++i) {
        assert_int_equal(pair.passive.receive(0, 10), DAT_SUCCESS);
    }
    pair.connect();
    assert_int_equal(pair.active.send(0, 1, 5, DAT_COMPLETION_UNSIGNALLED_FLAG), DAT_SUCCESS);
    next(pair.passive.transfers);
    DAT_COUNT left = -1;
    assert_int_equal(wait(active.requests, kShort, 1, left), coded(DAT_TIMEOUT_EXPIRED));
    assert_int_equal(left, 1);
    assert_int_equal(pair.active.send(0, 1, 6), DAT_SUCCESS);
    DAT_EVENT event{};
    assert_int_equal(dat_evd_wait(active.requests, kLong, 1, &event, &left), DAT_SUCCESS);
    assert_int_equal(event.event_data.dto_completion_event_data.user_cookie.as_64, 5);
    assert_int_equal(left, 1);
    assert_int_equal(pair.passive.send(0, 1, 5, DAT_COMPLETION_UNSIGNALLED_FLAG),
                     coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG5)); // not made for it
    DAT_LMR_TRIPLET part = pair.passive.block.part(0, 1);
    assert_int_equal(
        dat_ep_post_recv(pair.passive.ep, 1, &part, Side::cookie_of(1), DAT_COMPLETION_UNSIGNALLED_FLAG),
        coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG5));
}

TEST(models__mixed_at_one_dispatcher__invalid_parameter) {
    const Opened opened(own_device());
    const DAT_PZ_HANDLE pz = opened.make_pz();
    const DAT_EVD_HANDLE evd = opened.make_evd(16, DAT_EVD_DTO_FLAG);
    const DAT_EVD_HANDLE merged = opened.make_evd(16, DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG);
    DAT_EP_HANDLE first = DAT_HANDLE_NULL;
    const auto create = [&](DAT_EVD_HANDLE receives, int flags, DAT_EP_HANDLE& ep) {
        const DAT_EP_ATTR attr = attributes(flags);
        return dat_ep_create(opened.ia, pz, receives, DAT_HANDLE_NULL, DAT_HANDLE_NULL, &attr, &ep);
    };
    DAT_EP_HANDLE other = DAT_HANDLE_NULL;
    assert_int_equal(create(evd, DAT_COMPLETION_SOLICITED_WAIT_FLAG, first), DAT_SUCCESS);
    assert_int_equal(DAT_GET_TYPE(create(evd, DAT_COMPLETION_UNSIGNALLED_FLAG, other)),
                     DAT_INVALID_PARAMETER);
    assert_int_equal(DAT_GET_TYPE(create(evd, DAT_COMPLETION_DEFAULT_FLAG, other)), DAT_INVALID_PARAMETER);
    assert_int_equal(DAT_GET_TYPE(create(merged, DAT_COMPLETION_SOLICITED_WAIT_FLAG, other)),
                     DAT_INVALID_PARAMETER);
    assert_null(other);
    DAT_EP_PARAM param{};
    param.ep_attr.recv_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
    assert_int_equal(create(evd, DAT_COMPLETION_SOLICITED_WAIT_FLAG, other), DAT_SUCCESS);
    assert_int_equal(dat_ep_modify(other, DAT_EP_FIELD_EP_ATTR_RECV_COMPLETION_FLAGS, &param),
                     coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
    assert_int_equal(dat_ep_free(first), DAT_SUCCESS);
    assert_int_equal(dat_ep_modify(other, DAT_EP_FIELD_EP_ATTR_RECV_COMPLETION_FLAGS, &param), DAT_SUCCESS);
    assert_int_equal(config(evd), DAT_EVD_STATE_CONFIG_NOTIFY);
    assert_int_equal(dat_ep_free(other), DAT_SUCCESS);
    assert_int_equal(config(evd), DAT_EVD_STATE_CONFIG_THRESHOLD);
    assert_int_equal(create(merged, DAT_COMPLETION_EVD_THRESHOLD_FLAG, other), DAT_SUCCESS);
}

TEST(threshold__completions__wakes_with_the_last) {
    Pair pair;
    for (int i = 0; i < 3; ++i) {
        assert_int_equal(pair.passive.receive(0, 10), DAT_SUCCESS);
    }
    pair.connect();
    DAT_COUNT left = -1;
    assert_int_equal(pair.active.send(0, 1), DAT_SUCCESS);
    assert_int_equal(pair.active.send(0, 1), DAT_SUCCESS);
    await_requests(pair.active.transfers, 2);
    assert_int_equal(wait(pair.passive.transfers, kShort, 3, left), coded(DAT_TIMEOUT_EXPIRED));
    assert_int_equal(left, 2);
    assert_int_equal(pair.active.send(0, 1), DAT_SUCCESS);
    assert_int_equal(wait(pair.passive.transfers, kLong, 3, left), DAT_SUCCESS);
    assert_int_equal(left, 2);
}

DAT_ASYNCH_ERROR_EVENT_DATA must_hear_async(const Side& side, DAT_EVENT_NUMBER number) {
    const DAT_EVENT event = next(side.opened.async_evd);
    assert_int_equal(event.event_number, number);
    return event.event_data.asynch_error_event_data;
}

TEST(overflow__connection_events__told) {
    const Pair pair;
    const DAT_EVD_HANDLE tiny = pair.active.opened.make_evd(1, DAT_EVD_CONNECTION_FLAG);
    DAT_EP_PARAM param{};
    param.connect_evd_handle = tiny;
    assert_int_equal(dat_ep_modify(pair.active.ep, DAT_EP_FIELD_CONNECT_EVD_HANDLE, &param), DAT_SUCCESS);
    pair.ask();
    assert_int_equal(dat_cr_accept(pair.request(), pair.passive.ep, 0, nullptr), DAT_SUCCESS);
    pair.passive.must_hear(DAT_CONNECTION_EVENT_ESTABLISHED);
    assert_int_equal(dat_ep_disconnect(pair.passive.ep, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    const DAT_ASYNCH_ERROR_EVENT_DATA data = must_hear_async(pair.active, DAT_ASYNC_ERROR_EVD_OVERFLOW);
    assert_ptr_equal(data.dat_handle, tiny);
    assert_int_equal(data.reason, DAT_EVD_OVERFLOW_ERROR);
    assert_int_equal(next(tiny).event_number, DAT_CONNECTION_EVENT_ESTABLISHED);
}

TEST(overflow__completions__told_and_broken) {
    Pair pair;
    const DAT_EVD_HANDLE tiny = pair.passive.opened.make_evd(1, DAT_EVD_DTO_FLAG);
    DAT_EP_PARAM param{};
    param.recv_evd_handle = tiny;
    assert_int_equal(dat_ep_modify(pair.passive.ep, DAT_EP_FIELD_RECV_EVD_HANDLE, &param), DAT_SUCCESS);
    for (std::uint64_t cookie = 1; cookie <= 4; ++cookie) {
        assert_int_equal(pair.passive.receive(0, 10, cookie), DAT_SUCCESS);
    }
    pair.connect();
    for (int i = 0; i < 4; ++i) {
        assert_int_equal(pair.active.send(0, 1), DAT_SUCCESS);
    }
    bool is_overflow_told = false;
    bool is_broken_told = false;
    while (!is_overflow_told || !is_broken_told) {
        const DAT_EVENT event = next(pair.passive.opened.async_evd);
        const DAT_ASYNCH_ERROR_EVENT_DATA& data = event.event_data.asynch_error_event_data;
        if (event.event_number == DAT_ASYNC_ERROR_EVD_OVERFLOW) {
            assert_ptr_equal(data.dat_handle, tiny);
            is_overflow_told = true;
        } else {
            assert_int_equal(event.event_number, DAT_ASYNC_ERROR_EP_BROKEN);
            assert_ptr_equal(data.dat_handle, pair.passive.ep);
            is_broken_told = true;
        }
    }
    pair.passive.must_hear(DAT_CONNECTION_EVENT_BROKEN);
    assert_int_equal(pair.passive.state(), DAT_EP_STATE_DISCONNECTED);
}

TEST(request__no_room_for_it__refused_by_nobodys_program) {
    const Pair pair;
    const DAT_EVD_HANDLE tiny = pair.passive.opened.make_evd(1, DAT_EVD_CR_FLAG);
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    DAT_CONN_QUAL qualifier = 0;
    assert_int_equal(
        dat_psp_create_any(pair.passive.opened.ia, &qualifier, tiny, DAT_PSP_CONSUMER_FLAG, &psp),
        DAT_SUCCESS);
    assert_int_equal(pair.active.connect_to(pair.address(), qualifier), DAT_SUCCESS);
    const Side second(2);
    const Side third(3);
    assert_int_equal(second.connect_to(pair.address(), qualifier), DAT_SUCCESS);
    assert_int_equal(third.connect_to(pair.address(), qualifier), DAT_SUCCESS);
    // One of the three has the room; the others are told that nobody was asked.
    int refused = 0;
    DAT_EVENT event{};
    for (const Side* each = &pair.active; refused < 2; each = each == &pair.active ? &second
                                                              : each == &second    ? &third
                                                                                   : &pair.active) {
        DAT_COUNT left = 0;
        if (dat_evd_wait(each->connections, kShort, 1, &event, &left) == DAT_SUCCESS) {
            // The kernel's manager has no word for it.
            if (!is_own_device_named() || event.event_number != DAT_CONNECTION_EVENT_PEER_REJECTED) {
                assert_int_equal(event.event_number, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
            }
            ++refused;
        }
    }
    assert_int_equal(dat_cr_reject(next(tiny).event_data.cr_arrival_event_data.cr_handle), DAT_SUCCESS);
    assert_int_equal(dat_evd_dequeue(tiny, &event), coded(DAT_QUEUE_EMPTY));
}

TEST(watermark__soft_and_hard__told_once_and_broken) {
    Pair pair;
    for (int i = 0; i < 4; ++i) {
        assert_int_equal(pair.passive.receive(0, 10), DAT_SUCCESS);
    }
    DAT_COUNT allocated = -1;
    DAT_COUNT span = -1;
    assert_int_equal(dat_ep_recv_query(pair.passive.ep, &allocated, &span), DAT_SUCCESS);
    assert_int_equal(allocated, 4);
    assert_true(span >= allocated);
    assert_int_equal(dat_ep_set_watermark(pair.passive.ep, 1, 3), DAT_SUCCESS);
    pair.connect();
    assert_int_equal(pair.active.send(0, 1), DAT_SUCCESS);
    assert_int_equal(pair.active.send(0, 1), DAT_SUCCESS);
    const DAT_ASYNCH_ERROR_EVENT_DATA data = must_hear_async(pair.passive, DAT_ASYNC_ERROR_EP_BROKEN);
    assert_ptr_equal(data.dat_handle, pair.passive.ep);
    assert_int_equal(data.reason, DAT_SRQ_SOFT_HIGH_WATERMARK_EVENT);
    assert_int_equal(pair.passive.state(), DAT_EP_STATE_CONNECTED);
    assert_int_equal(dat_ep_recv_query(pair.passive.ep, &allocated, nullptr), DAT_SUCCESS);
    assert_int_equal(allocated, 4); // two are the device's, two the program hasn't taken
    next(pair.passive.transfers);
    assert_int_equal(dat_ep_recv_query(pair.passive.ep, nullptr, &span), DAT_SUCCESS);
    assert_int_equal(span, 3);
    assert_int_equal(pair.active.send(0, 1), DAT_SUCCESS);
    assert_int_equal(pair.active.send(0, 1), DAT_SUCCESS);
    DAT_COUNT left = -1;
    assert_int_equal(wait(pair.passive.transfers, kLong, 3, left), DAT_SUCCESS); // more than the mark, again
    assert_int_equal(left, 2);
    assert_int_equal(dat_ep_set_watermark(pair.passive.ep, DAT_WATERMARK_INFINITE, 1), DAT_SUCCESS);
    pair.passive.must_hear(DAT_CONNECTION_EVENT_BROKEN);
    DAT_EVENT event{};
    assert_int_equal(dat_evd_dequeue(pair.passive.opened.async_evd, &event), coded(DAT_QUEUE_EMPTY));
    assert_int_equal(dat_ep_set_watermark(pair.passive.ep, -2, 2),
                     coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    assert_int_equal(dat_ep_set_watermark(pair.passive.ep, 2, -3),
                     coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
}

// COUNT messages of one byte come to the passive side, whose completions are looked at; nobody takes them.
void arrive(const Pair& pair, int count) {
    DAT_EVENT event{};
    for (int i = 0; i < count; ++i) {
        assert_int_equal(pair.active.send(0, 1), DAT_SUCCESS);
        while (dat_evd_dequeue(pair.active.transfers, &event) != DAT_SUCCESS) {
        }
    }
    assert_int_equal(dat_evd_enable(pair.passive.transfers), DAT_SUCCESS);
}

TEST(watermark__hard_one_passed_before_the_soft_one__both_are_told) {
    const Pair pair;
    for (int i = 0; i < 4; ++i) {
        assert_int_equal(pair.passive.receive(0, 10), DAT_SUCCESS);
    }
    assert_int_equal(dat_ep_set_watermark(pair.passive.ep, 2, 1), DAT_SUCCESS);
    pair.connect();
    Gate gate; // the endpoint hears of both at once
    arrive(pair, 2);
    arrive(pair, 2);
    gate.open();
    const DAT_ASYNCH_ERROR_EVENT_DATA data = must_hear_async(pair.passive, DAT_ASYNC_ERROR_EP_BROKEN);
    assert_int_equal(data.reason, DAT_SRQ_SOFT_HIGH_WATERMARK_EVENT);
    pair.passive.must_hear(DAT_CONNECTION_EVENT_BROKEN);
}

DAT_RETURN set_receive_dispatcher(const Side& side, DAT_EVD_HANDLE evd) {
    DAT_EP_PARAM param{};
    param.recv_evd_handle = evd;
    return dat_ep_modify(side.ep, DAT_EP_FIELD_RECV_EVD_HANDLE, &param);
}

TEST(watermark__no_dispatcher_for_receives__holds_with_a_later_one) {
    const Pair pair;
    const Side& passive = pair.passive;
    assert_int_equal(set_receive_dispatcher(passive, DAT_HANDLE_NULL), DAT_SUCCESS);
    assert_int_equal(dat_ep_set_watermark(passive.ep, DAT_WATERMARK_INFINITE, 1), DAT_SUCCESS);
    assert_int_equal(set_receive_dispatcher(passive, passive.transfers), DAT_SUCCESS);
    for (int i = 0; i < 2; ++i) {
        assert_int_equal(passive.receive(0, 10), DAT_SUCCESS);
    }
    pair.connect();
    arrive(pair, 2);
    passive.must_hear(DAT_CONNECTION_EVENT_BROKEN);
}

TEST(watermark__soft_one_of_the_attributes__told) {
    Pair pair;
    DAT_EP_ATTR attr = attributes(DAT_COMPLETION_DEFAULT_FLAG);
    attr.srq_soft_hw = 1;
    const Split passive(pair.passive, attr);
    for (int i = 0; i < 2; ++i) {
        assert_int_equal(pair.passive.receive(0, 10), DAT_SUCCESS);
    }
    pair.connect();
    arrive(pair, 2);
    const DAT_ASYNCH_ERROR_EVENT_DATA data = must_hear_async(pair.passive, DAT_ASYNC_ERROR_EP_BROKEN);
    assert_int_equal(data.reason, DAT_SRQ_SOFT_HIGH_WATERMARK_EVENT);
}

TEST(watermark__soft_one_told_and_endpoint_modified__not_told_again) {
    const Pair pair;
    const Side& passive = pair.passive;
    const auto connect_and_exceed = [&] {
        for (int i = 0; i < 2; ++i) {
            assert_int_equal(passive.receive(0, 10), DAT_SUCCESS);
        }
        pair.connect();
        arrive(pair, 2);
    };
    assert_int_equal(dat_ep_set_watermark(passive.ep, 1, DAT_WATERMARK_INFINITE), DAT_SUCCESS);
    connect_and_exceed();
    (void)must_hear_async(passive, DAT_ASYNC_ERROR_EP_BROKEN);
    assert_int_equal(dat_ep_disconnect(pair.active.ep, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    for (const Side* side : {&pair.active, &passive}) {
        side->must_hear(DAT_CONNECTION_EVENT_DISCONNECTED);
        assert_int_equal(dat_ep_reset(side->ep), DAT_SUCCESS);
    }
    assert_int_equal(dequeue_all(passive.transfers), 2);
    DAT_EP_PARAM param{};
    assert_int_equal(dat_ep_query(passive.ep, DAT_EP_FIELD_ALL, &param), DAT_SUCCESS);
    assert_int_equal(param.ep_attr.srq_soft_hw, 1);
    assert_int_equal(dat_ep_modify(passive.ep, DAT_EP_FIELD_EP_ATTR_MAX_MESSAGE_SIZE, &param), DAT_SUCCESS);
    connect_and_exceed();
    assert_int_equal(dat_ep_disconnect(pair.active.ep, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    passive.must_hear(DAT_CONNECTION_EVENT_DISCONNECTED); // the loop has seen to all before
    DAT_EVENT event{};
    assert_int_equal(dat_evd_dequeue(passive.opened.async_evd, &event), coded(DAT_QUEUE_EMPTY));
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
