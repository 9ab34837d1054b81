// SPDX-License-Identifier: BSD-3-Clause
//
// The states of endpoints: every transition that DAT knows and we have, and what each call answers in each
// state.
#include <chrono>
#include <functional>
#include <thread>

#include "tests/unit/udapl/dapl_scene.hpp"

using namespace sluice::dapl::test;

namespace {

constexpr DAT_EP_STATE kStates[] = {DAT_EP_STATE_UNCONNECTED,
                                    DAT_EP_STATE_RESERVED,
                                    DAT_EP_STATE_PASSIVE_CONNECTION_PENDING,
                                    DAT_EP_STATE_ACTIVE_CONNECTION_PENDING,
                                    DAT_EP_STATE_COMPLETION_PENDING,
                                    DAT_EP_STATE_CONNECTED,
                                    DAT_EP_STATE_DISCONNECT_PENDING,
                                    DAT_EP_STATE_DISCONNECTED};
constexpr std::size_t kStateCount = std::size(kStates);

// What a call that isn't allowed in a state answers.
constexpr DAT_RETURN kRefused[kStateCount] = {
    coded(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_UNCONNECTED),
    coded(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_RESERVED),
    coded(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_PASSCONNPENDING),
    coded(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_ACTCONNPENDING),
    coded(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_COMPLPENDING),
    coded(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_CONNECTED),
    coded(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_DISCPENDING),
    coded(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_DISCONNECTED),
};

DAT_RETURN modify(const Side& side, DAT_EP_PARAM_MASK mask) {
    DAT_EP_PARAM param{};
    assert_int_equal(dat_ep_query(side.ep, DAT_EP_FIELD_ALL, &param), DAT_SUCCESS);
    return dat_ep_modify(side.ep, mask, &param);
}

template<auto kPost>
DAT_RETURN transfer(Scene& scene) {
    const Side& side = *scene.subject;
    const DAT_RMR_TRIPLET remote{scene.pair.passive.block.key, 0, scene.pair.passive.block.address(), 1};
    DAT_LMR_TRIPLET part = side.block.part(0, 1);
    return kPost(side.ep, 1, &part, Side::cookie_of(9), &remote, DAT_COMPLETION_DEFAULT_FLAG);
}

struct Call {
    const char* name;
    std::function<DAT_RETURN(Scene&)> call;
    bool is_allowed[kStateCount];
    bool needs_windows = false;
};

// In the order of the states above.
const Call kCalls[] = {
    {"ep_connect",
     [](Scene& scene) { return scene.subject->connect_to(scene.pair.address(), 1); },
     {true, false, false, false, false, false, false, false}},
    {"ep_dup_connect",
     [](Scene& scene) {
         return dat_ep_dup_connect(scene.subject->ep, scene.connected, DAT_TIMEOUT_INFINITE, 0, nullptr,
                                   DAT_QOS_BEST_EFFORT);
     },
     {true, false, false, false, false, false, false, false}},
    {"ep_disconnect abrupt",
     [](Scene& scene) { return dat_ep_disconnect(scene.subject->ep, DAT_CLOSE_ABRUPT_FLAG); },
     {false, false, false, true, true, true, true, true}},
    {"ep_disconnect graceful",
     [](Scene& scene) { return dat_ep_disconnect(scene.subject->ep, DAT_CLOSE_GRACEFUL_FLAG); },
     {false, false, false, true, true, true, true, true}},
    {"ep_post_send",
     [](Scene& scene) { return scene.subject->send(0, 1); },
     {false, false, false, false, false, true, false, true}},
    {"ep_post_rdma_write",
     transfer<dat_ep_post_rdma_write>,
     {false, false, false, false, false, true, false, true}},
    {"ep_post_rdma_read",
     transfer<dat_ep_post_rdma_read>,
     {false, false, false, false, false, true, false, true}},
    {"rmr_bind",
     [](Scene& scene) {
         const Side& side = *scene.subject;
         const DAT_LMR_TRIPLET part = side.block.part(0, 1);
         DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
         DAT_RMR_CONTEXT key = 0;
         assert_int_equal(dat_rmr_create(side.pz, &rmr), DAT_SUCCESS);
         return dat_rmr_bind(rmr, &part, DAT_MEM_PRIV_REMOTE_READ_FLAG, side.ep, Side::cookie_of(9),
                             DAT_COMPLETION_DEFAULT_FLAG, &key);
     },
     {false, false, false, false, false, true, false, true},
     true},
    {"ep_post_recv",
     [](Scene& scene) { return scene.subject->receive(0, 1); },
     {true, true, true, true, true, true, true, true}},
    {"ep_reset",
     [](Scene& scene) { return dat_ep_reset(scene.subject->ep); },
     {true, false, false, false, false, false, false, true}},
    {"ep_free",
     [](Scene& scene) {
         const DAT_RETURN status = dat_ep_free(scene.subject->ep);
         if (status == DAT_SUCCESS) {
             assert_int_equal(dat_ep_free(scene.subject->ep),
                              coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP));
         }
         return status;
     },
     {true, false, false, true, true, true, true, true}},
    {"rsp_create",
     [](Scene& scene) {
         DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
         return dat_rsp_create(scene.subject->opened.ia, kReserved + 1, scene.subject->ep,
                               scene.subject->connections, &rsp);
     },
     {true, false, false, false, false, false, false, false}},
    {"ep_query",
     [](Scene& scene) {
         DAT_EP_PARAM param{};
         return dat_ep_query(scene.subject->ep, DAT_EP_FIELD_ALL, &param);
     },
     {true, true, true, true, true, true, true, true}},
};

TEST(calls__in_each_state__allowed_or_refused_and_unchanged) {
    const Pair other;
    other.connect(); // before a gate holds everybody up
    for (const Call& each : kCalls) {
        if (each.needs_windows && is_over_iwarp()) {
            continue; // siw has none
        }
        for (std::size_t i = 0; i < kStateCount; ++i) {
            if (is_over_iwarp() && kStates[i] == DAT_EP_STATE_DISCONNECT_PENDING) {
                continue; // a send that doesn't wait for a receive keeps nobody there
            }
            Scene scene(kStates[i]);
            scene.connected = other.active.ep;
            const DAT_RETURN status = each.call(scene);
            const DAT_RETURN expected =
                each.is_allowed[i] ? static_cast<DAT_RETURN>(DAT_SUCCESS) : kRefused[i];
            if (status != expected) {
                fail_msg("%s in state %d: 0x%x and not 0x%x", each.name, kStates[i], status, expected);
            }
            if (!each.is_allowed[i]) {
                assert_int_equal(scene.subject->state(), kStates[i]);
            }
        }
    }
}

enum class Until { kNever, kConnecting, kReserved };

struct Field {
    DAT_EP_PARAM_MASK mask;
    Until changes;
};

constexpr Field kFields[] = {
    {DAT_EP_FIELD_IA_HANDLE, Until::kNever},
    {DAT_EP_FIELD_EP_STATE, Until::kNever},
    {DAT_EP_FIELD_LOCAL_IA_ADDRESS_PTR, Until::kNever},
    {DAT_EP_FIELD_LOCAL_PORT_QUAL, Until::kNever},
    {DAT_EP_FIELD_REMOTE_IA_ADDRESS_PTR, Until::kNever},
    {DAT_EP_FIELD_REMOTE_PORT_QUAL, Until::kNever},
    {DAT_EP_FIELD_SRQ_HANDLE, Until::kNever},
    {DAT_EP_PARAM_MASK{0x800}, Until::kNever},
    {DAT_EP_PARAM_MASK{1} << 40, Until::kNever},
    {DAT_EP_FIELD_PZ_HANDLE, Until::kReserved},
    {DAT_EP_FIELD_RECV_EVD_HANDLE, Until::kConnecting},
    {DAT_EP_FIELD_REQUEST_EVD_HANDLE, Until::kConnecting},
    {DAT_EP_FIELD_CONNECT_EVD_HANDLE, Until::kConnecting},
    {DAT_EP_FIELD_EP_ATTR_SERVICE_TYPE, Until::kConnecting},
    {DAT_EP_FIELD_EP_ATTR_MAX_MESSAGE_SIZE, Until::kConnecting},
    {DAT_EP_FIELD_EP_ATTR_MAX_RDMA_SIZE, Until::kConnecting},
    {DAT_EP_FIELD_EP_ATTR_QOS, Until::kConnecting},
    {DAT_EP_FIELD_EP_ATTR_RECV_COMPLETION_FLAGS, Until::kConnecting},
    {DAT_EP_FIELD_EP_ATTR_REQUEST_COMPLETION_FLAGS, Until::kConnecting},
    {DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS, Until::kConnecting},
    {DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS, Until::kConnecting},
    {DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV, Until::kConnecting},
    {DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_IOV, Until::kConnecting},
    {DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IN, Until::kConnecting},
    {DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_OUT, Until::kConnecting},
    {DAT_EP_FIELD_EP_ATTR_SRQ_SOFT_HW, Until::kConnecting},
    {DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IOV, Until::kConnecting},
    {DAT_EP_FIELD_EP_ATTR_MAX_RDMA_WRITE_IOV, Until::kConnecting},
    {DAT_EP_FIELD_EP_ATTR_NUM_TRANSPORT_ATTR, Until::kReserved},
    {DAT_EP_FIELD_EP_ATTR_TRANSPORT_SPECIFIC_ATTR, Until::kReserved},
    {DAT_EP_FIELD_EP_ATTR_NUM_PROVIDER_ATTR, Until::kReserved},
    {DAT_EP_FIELD_EP_ATTR_PROVIDER_SPECIFIC_ATTR, Until::kReserved},
    {DAT_EP_FIELD_EP_ATTR_ALL, Until::kReserved},
};

TEST(modify__each_field_in_each_state__allowed_or_refused_and_unchanged) {
    for (std::size_t i = 0; i < kStateCount; ++i) {
        if (is_over_iwarp() && kStates[i] == DAT_EP_STATE_DISCONNECT_PENDING) {
            continue;
        }
        const Scene scene(kStates[i]);
        const bool is_reserved =
            kStates[i] == DAT_EP_STATE_RESERVED || kStates[i] == DAT_EP_STATE_PASSIVE_CONNECTION_PENDING;
        for (const Field& field : kFields) {
            const bool is_allowed = kStates[i] == DAT_EP_STATE_UNCONNECTED ||
                                    (is_reserved && field.changes == Until::kConnecting);
            const DAT_RETURN expected = field.changes == Until::kNever
                                            ? coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2)
                                            : (is_allowed ? DAT_RETURN{DAT_SUCCESS} : kRefused[i]);
            const DAT_RETURN status = modify(*scene.subject, field.mask);
            if (status != expected) {
                fail_msg("field 0x%llx in state %d: 0x%x and not 0x%x",
                         static_cast<unsigned long long>(field.mask), kStates[i], status, expected);
            }
            assert_int_equal(scene.subject->state(), kStates[i]);
        }
    }
}

TEST(accept__endpoint_that_isnt_unconnected__refused_and_request_stays) {
    for (const DAT_EP_STATE state : {DAT_EP_STATE_CONNECTED, DAT_EP_STATE_DISCONNECTED}) {
        Scene scene(state);
        const Side third(2);
        assert_int_equal(third.connect_to(scene.pair.address(), scene.pair.qualifier), DAT_SUCCESS);
        const DAT_CR_HANDLE request = [&] {
            DAT_EVENT event = next(scene.pair.passive.connections);
            while (event.event_number != DAT_CONNECTION_REQUEST_EVENT) {
                event = next(scene.pair.passive.connections);
            }
            return event.event_data.cr_arrival_event_data.cr_handle;
        }();
        assert_int_equal(DAT_GET_TYPE(dat_cr_accept(request, scene.pair.passive.ep, 0, nullptr)),
                         DAT_INVALID_STATE);
        assert_int_equal(dat_cr_reject(request), DAT_SUCCESS);
        third.must_hear(DAT_CONNECTION_EVENT_PEER_REJECTED);
    }
}

DAT_EP_PARAM query(const Side& side) {
    DAT_EP_PARAM param{};
    assert_int_equal(dat_ep_query(side.ep, DAT_EP_FIELD_ALL, &param), DAT_SUCCESS);
    return param;
}

TEST(query__not_connected_yet__both_ports_are_told) {
    const Scene active(DAT_EP_STATE_ACTIVE_CONNECTION_PENDING);
    const DAT_CR_HANDLE request = active.pair.request();
    DAT_CR_PARAM asked{};
    assert_int_equal(dat_cr_query(request, DAT_CR_FIELD_ALL, &asked), DAT_SUCCESS);
    assert_int_not_equal(asked.remote_port_qual, 0);
    assert_int_equal(query(active.pair.active).local_port_qual, asked.remote_port_qual);
    assert_int_equal(query(active.pair.active).remote_port_qual, active.pair.qualifier);
    const Scene passive(DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
    assert_int_equal(query(passive.pair.passive).local_port_qual, kReserved);
    assert_int_equal(query(passive.pair.passive).remote_port_qual,
                     query(passive.pair.active).local_port_qual);
    const Scene accepting(DAT_EP_STATE_COMPLETION_PENDING);
    assert_int_equal(query(accepting.pair.passive).local_port_qual, accepting.pair.qualifier);
}

TEST(query__connecting_again__not_the_former_port) {
    const Pair pair;
    pair.connect();
    assert_int_equal(dat_ep_disconnect(pair.active.ep, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    pair.active.must_hear(DAT_CONNECTION_EVENT_DISCONNECTED);
    pair.passive.must_hear(DAT_CONNECTION_EVENT_DISCONNECTED);
    assert_int_equal(dat_ep_reset(pair.active.ep), DAT_SUCCESS);
    pair.ask();
    DAT_CR_PARAM asked{};
    assert_int_equal(dat_cr_query(pair.request(), DAT_CR_FIELD_ALL, &asked), DAT_SUCCESS);
    assert_int_equal(query(pair.active).local_port_qual, asked.remote_port_qual);
}

TEST(active_pending__disconnected_by_the_program__disconnected) {
    Scene scene(DAT_EP_STATE_ACTIVE_CONNECTION_PENDING);
    assert_int_equal(scene.pair.active.receive(0, 1, 5), DAT_SUCCESS);
    assert_int_equal(dat_ep_disconnect(scene.pair.active.ep, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    scene.pair.active.must_hear(DAT_CONNECTION_EVENT_DISCONNECTED);
    scene.pair.active.must_complete(5, DAT_DTO_ERR_FLUSHED);
    assert_int_equal(scene.pair.active.state(), DAT_EP_STATE_DISCONNECTED);
    // Accepting what is gone doesn't connect anybody; the kernel's manager needs minutes to find out.
    if (is_own_device_named()) {
        return;
    }
    assert_int_equal(dat_cr_accept(scene.pair.request(), scene.pair.passive.ep, 0, nullptr), DAT_SUCCESS);
    scene.pair.passive.must_hear(DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
    assert_int_equal(scene.pair.passive.state(), DAT_EP_STATE_DISCONNECTED);
}

TEST(active_pending__time_is_over__timed_out) {
    const Pair pair;
    assert_int_equal(pair.active.receive(0, 1, 5), DAT_SUCCESS);
    assert_int_equal(pair.try_ask(1000), DAT_SUCCESS);
    pair.active.must_hear(DAT_CONNECTION_EVENT_TIMED_OUT);
    assert_int_equal(pair.active.state(), DAT_EP_STATE_DISCONNECTED);
    pair.active.must_complete(5, DAT_DTO_ERR_FLUSHED);
}

TEST(active_pending__connected_in_time__time_is_forgotten) {
    const Pair pair;
    assert_int_equal(pair.try_ask(1'000'000), DAT_SUCCESS);
    assert_int_equal(dat_cr_accept(pair.request(), pair.passive.ep, 0, nullptr), DAT_SUCCESS);
    pair.active.must_hear(DAT_CONNECTION_EVENT_ESTABLISHED);
    assert_int_equal(dat_ep_disconnect(pair.active.ep, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    pair.active.must_hear(DAT_CONNECTION_EVENT_DISCONNECTED);
    // Whoever asks with a time that is over sooner hears of that first: no other time is left.
    assert_int_equal(dat_ep_reset(pair.active.ep), DAT_SUCCESS);
    assert_int_equal(pair.try_ask(2000), DAT_SUCCESS);
    pair.active.must_hear(DAT_CONNECTION_EVENT_TIMED_OUT);
}

TEST(completion_pending__handshake_completes__connected) {
    Scene scene(DAT_EP_STATE_COMPLETION_PENDING);
    scene.gate->open();
    scene.pair.active.must_hear(DAT_CONNECTION_EVENT_ESTABLISHED);
    scene.pair.passive.must_hear(DAT_CONNECTION_EVENT_ESTABLISHED);
    assert_int_equal(scene.pair.passive.state(), DAT_EP_STATE_CONNECTED);
}

// A peer's data can be seen in memory before the handshake has ended here, and a program that watches memory
// posts then.
TEST(completion_pending__post_while_the_handshake_ends__taken) {
    if (is_over_iwarp()) {
        skip(); // it is connected by then
    }
    Scene scene(DAT_EP_STATE_COMPLETION_PENDING);
    assert_int_equal(scene.pair.active.receive(0, 1, 7), DAT_SUCCESS);
    std::thread opener([&] { scene.gate->open(); });
    const DAT_RETURN status = scene.pair.passive.send(0, 1, 8);
    opener.join();
    assert_int_equal(status, DAT_SUCCESS);
    scene.pair.passive.must_hear(DAT_CONNECTION_EVENT_ESTABLISHED);
    scene.pair.active.must_complete(7, DAT_DTO_SUCCESS, 1);
}

// The handshake needs the thread that the agent has: waiting would be for nothing.
TEST(completion_pending__post_in_an_agent__refused_at_once) {
    if (is_over_iwarp()) {
        skip(); // it is connected by then
    }
    Scene scene(DAT_EP_STATE_COMPLETION_PENDING);
    DAT_RETURN status = DAT_SUCCESS;
    std::chrono::steady_clock::duration took{};
    scene.gate->open([&] {
        const auto began = std::chrono::steady_clock::now();
        status = scene.pair.passive.send(0, 1);
        took = std::chrono::steady_clock::now() - began;
    });
    scene.gate.reset(); // when the agent has returned
    assert_int_equal(status, coded(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_COMPLPENDING));
    assert_true(took < std::chrono::milliseconds(200)); // what a wait for nothing takes
    scene.pair.passive.must_hear(DAT_CONNECTION_EVENT_ESTABLISHED);
}

TEST(completion_pending__peer_gives_up__accept_error_and_flushed) {
    if (is_over_iwarp()) {
        skip(); // it is connected by then
    }
    Scene scene(DAT_EP_STATE_COMPLETION_PENDING);
    assert_int_equal(scene.pair.passive.receive(0, 1, 6), DAT_SUCCESS);
    assert_int_equal(dat_ep_disconnect(scene.pair.active.ep, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    scene.gate->open();
    scene.pair.passive.must_hear(DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
    scene.pair.passive.must_complete(6, DAT_DTO_ERR_FLUSHED);
    assert_int_equal(scene.pair.passive.state(), DAT_EP_STATE_DISCONNECTED);
}

TEST(completion_pending__disconnected_by_the_program__both_disconnected) {
    Scene scene(DAT_EP_STATE_COMPLETION_PENDING);
    assert_int_equal(dat_ep_disconnect(scene.pair.passive.ep, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    scene.gate->open();
    scene.pair.passive.must_hear(DAT_CONNECTION_EVENT_DISCONNECTED);
    assert_int_equal(scene.pair.passive.state(), DAT_EP_STATE_DISCONNECTED);
    // Whether the peer was connected for a moment depends on which message it sees first.
    while (next(scene.pair.active.connections).event_number == DAT_CONNECTION_EVENT_ESTABLISHED) {
    }
    assert_int_equal(scene.pair.active.state(), DAT_EP_STATE_DISCONNECTED);
}

TEST(disconnect__graceful_with_requests__done_first) {
    if (is_over_iwarp()) {
        skip(); // a send doesn't wait for a receive
    }
    for (const DAT_COMPLETION_FLAGS flags : {DAT_COMPLETION_DEFAULT_FLAG, DAT_COMPLETION_SUPPRESS_FLAG}) {
        Scene scene(DAT_EP_STATE_CONNECTED);
        const Side& active = scene.pair.active;
        const Side& passive = scene.pair.passive;
        assert_int_equal(active.send(0, 10, 1), DAT_SUCCESS);
        assert_int_equal(active.send(0, 20, 2, flags), DAT_SUCCESS); // whose end nobody would tell
        assert_int_equal(dat_ep_disconnect(active.ep, DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS);
        assert_int_equal(active.state(), DAT_EP_STATE_DISCONNECT_PENDING);
        assert_int_equal(passive.receive(0, 100, 3), DAT_SUCCESS);
        assert_int_equal(passive.receive(100, 100, 4), DAT_SUCCESS);
        passive.must_complete(3, DAT_DTO_SUCCESS, 10);
        passive.must_complete(4, DAT_DTO_SUCCESS, 20);
        active.must_hear(DAT_CONNECTION_EVENT_DISCONNECTED);
        passive.must_hear(DAT_CONNECTION_EVENT_DISCONNECTED);
        active.must_complete(1, DAT_DTO_SUCCESS, 10);
        if (flags == DAT_COMPLETION_DEFAULT_FLAG) {
            active.must_complete(2, DAT_DTO_SUCCESS, 20);
        }
        DAT_EVENT event{};
        assert_int_equal(dat_evd_dequeue(active.transfers, &event), coded(DAT_QUEUE_EMPTY));
    }
}

TEST(disconnect__graceful_with_nothing_posted__at_once) {
    Scene scene(DAT_EP_STATE_CONNECTED);
    assert_int_equal(dat_ep_disconnect(scene.pair.active.ep, DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS);
    scene.pair.active.must_hear(DAT_CONNECTION_EVENT_DISCONNECTED);
    scene.pair.passive.must_hear(DAT_CONNECTION_EVENT_DISCONNECTED);
}

TEST(disconnect_pending__abrupt__flushed) {
    if (is_over_iwarp()) {
        skip(); // a send doesn't wait for a receive
    }
    Scene scene(DAT_EP_STATE_DISCONNECT_PENDING);
    assert_int_equal(dat_ep_disconnect(scene.pair.active.ep, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    scene.pair.active.must_hear(DAT_CONNECTION_EVENT_DISCONNECTED);
    scene.pair.active.must_complete(2, DAT_DTO_ERR_FLUSHED);
}

TEST(disconnect_pending__peer_disconnects__disconnected_once) {
    if (is_over_iwarp()) {
        skip(); // a send doesn't wait for a receive
    }
    Scene scene(DAT_EP_STATE_DISCONNECT_PENDING);
    assert_int_equal(dat_ep_disconnect(scene.pair.passive.ep, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    scene.pair.active.must_hear(DAT_CONNECTION_EVENT_DISCONNECTED);
    scene.pair.active.must_complete(2, DAT_DTO_ERR_FLUSHED);
    DAT_EVENT event{};
    assert_int_equal(dat_evd_dequeue(scene.pair.active.connections, &event), coded(DAT_QUEUE_EMPTY));
}

TEST(failed_transfer__nobody_dequeues__broken_all_the_same) {
    Scene scene(DAT_EP_STATE_CONNECTED);
    const DAT_RMR_TRIPLET nobodys{scene.pair.passive.block.key ^ 0x5a5a5a, 0,
                                  scene.pair.passive.block.address(), 1};
    DAT_LMR_TRIPLET part = scene.pair.active.block.part(0, 1);
    assert_int_equal(dat_ep_post_rdma_write(scene.pair.active.ep, 1, &part, Side::cookie_of(9), &nobodys,
                                            DAT_COMPLETION_DEFAULT_FLAG),
                     DAT_SUCCESS);
    scene.pair.active.must_hear(is_over_iwarp() ? DAT_CONNECTION_EVENT_DISCONNECTED
                                                : DAT_CONNECTION_EVENT_BROKEN);
    assert_int_equal(scene.pair.active.state(), DAT_EP_STATE_DISCONNECTED);
    scene.pair.active.must_complete(9, is_over_iwarp() ? DAT_DTO_SUCCESS : DAT_DTO_ERR_REMOTE_ACCESS, 1);
    // The peer's device has refused it, and broken its end.
    const DAT_EVENT heard = next(scene.pair.passive.connections);
    assert_true(heard.event_number == DAT_CONNECTION_EVENT_BROKEN ||
                heard.event_number == DAT_CONNECTION_EVENT_DISCONNECTED);
}

TEST(receive__too_small_and_nobody_dequeues__broken) {
    Scene scene(DAT_EP_STATE_CONNECTED);
    assert_int_equal(scene.pair.passive.receive(0, 10, 3), DAT_SUCCESS);
    assert_int_equal(scene.pair.active.send(0, 11), DAT_SUCCESS);
    const DAT_EVENT_NUMBER heard = next(scene.pair.passive.connections).event_number;
    // The kernel's devices don't tell of failures, and the peer, whose send failed, may hang up first.
    assert_true(heard == DAT_CONNECTION_EVENT_BROKEN ||
                (is_own_device_named() && heard == DAT_CONNECTION_EVENT_DISCONNECTED));
    // rxe has no word for it.
    const bool is_rxe = is_own_device_named() && !is_over_iwarp();
    scene.pair.passive.must_complete(3, is_rxe ? DAT_DTO_ERR_LOCAL_EP : DAT_DTO_ERR_LOCAL_LENGTH);
    assert_int_equal(scene.pair.passive.state(), DAT_EP_STATE_DISCONNECTED);
}

TEST(reset__disconnected__connects_again_at_once) {
    Scene scene(DAT_EP_STATE_CONNECTED);
    for (int round = 0; round < 3; ++round) { // the connection manager keeps the former numbers
        assert_int_equal(dat_ep_disconnect(scene.pair.active.ep, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
        scene.pair.active.must_hear(DAT_CONNECTION_EVENT_DISCONNECTED);
        scene.pair.passive.must_hear(DAT_CONNECTION_EVENT_DISCONNECTED);
        assert_int_equal(dat_ep_reset(scene.pair.active.ep), DAT_SUCCESS);
        assert_int_equal(dat_ep_reset(scene.pair.passive.ep), DAT_SUCCESS);
        assert_int_equal(scene.pair.passive.receive(0, 10, 1), DAT_SUCCESS);
        scene.pair.connect();
        assert_int_equal(scene.pair.active.send(0, 10, 2), DAT_SUCCESS);
        scene.pair.active.must_complete(2, DAT_DTO_SUCCESS, 10);
        scene.pair.passive.must_complete(1, DAT_DTO_SUCCESS, 10);
    }
}

TEST(dup_connect__other_is_connected__to_the_same_peer) {
    Scene scene(DAT_EP_STATE_CONNECTED);
    const Side third(2);
    const auto dup = [&](DAT_EP_HANDLE other) {
        return dat_ep_dup_connect(third.ep, other, DAT_TIMEOUT_INFINITE, 0, nullptr, DAT_QOS_BEST_EFFORT);
    };
    assert_int_equal(dup(third.ep), coded(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_UNCONNECTED));
    assert_int_equal(DAT_GET_TYPE(dup(third.pz)), DAT_INVALID_HANDLE);
    assert_int_equal(dup(scene.pair.active.ep), DAT_SUCCESS);
    assert_int_equal(dat_cr_reject(scene.pair.request()), DAT_SUCCESS);
    third.must_hear(DAT_CONNECTION_EVENT_PEER_REJECTED);
    assert_int_equal(dup(scene.pair.active.ep), coded(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_DISCONNECTED));
}

} // namespace

int main() {
    // Devices stay open meanwhile: finding out about one takes longer than all else.
    const Opened first(own_device(0));
    const Opened second(own_device(1));
    const Opened third(own_device(2));
    return sluice::test::run_all_tests();
}
