// SPDX-License-Identifier: BSD-3-Clause
//
// The states of endpoints: each transition that DAT's state machine has, with its event. Those of endpoints
// that a provider makes (TENTATIVE) and of endpoints without attributes (UNCONFIGURED) aren't to be had: this
// provider makes no such endpoints.
#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

#include "tests/unit/udapl/dapl_scene.hpp"
#include "tests/unit/udapl/timeouts.hpp"

using namespace sluice::dapl::test;

namespace {

constexpr DAT_EVENT_NUMBER kNothing{};

struct Transition {
    const char* name;
    DAT_EP_STATE from;
    void (*trigger)(Scene& scene);
    DAT_EVENT_NUMBER heard; // by the subject
    DAT_EP_STATE to;
    bool is_for_iwarp = true;
};

void must(DAT_RETURN status) {
    assert_int_equal(status, DAT_SUCCESS);
}

void disconnect(const Side& side, DAT_CLOSE_FLAGS flags) {
    must(dat_ep_disconnect(side.ep, flags));
}

// An address where nobody is: of this process, without a device; in the lab, of no machine.
sockaddr_in nowhere(const Scene& scene) {
    sockaddr_in address{};
    std::memcpy(&address, scene.pair.address(), sizeof address);
    if (is_own_device_named()) {
        address.sin_addr.s_addr = (address.sin_addr.s_addr & ~htonl(0xff)) | htonl(77);
    } else {
        assert_int_equal(inet_pton(AF_INET, own_device(3).c_str(), &address.sin_addr), 1);
    }
    return address;
}

void connect_to_nowhere(Scene& scene) {
    sockaddr_in address = nowhere(scene);
    connect_timeout_ms = 50;
    must(scene.subject->connect_to(reinterpret_cast<DAT_IA_ADDRESS_PTR>(&address), 1));
    connect_timeout_ms = 0;
}

void ask_reserved(Scene& scene) {
    const Side& side = scene.pair.passive;
    must(scene.pair.active.connect_to(scene.pair.address(), kReserved));
    const DAT_EVENT asked = side.must_hear(DAT_CONNECTION_REQUEST_EVENT);
    assert_null(asked.event_data.cr_arrival_event_data.sp_handle.rsp_handle);
    scene.request = asked.event_data.cr_arrival_event_data.cr_handle;
}

const Transition kTransitions[] = {
    {"made", DAT_EP_STATE_UNCONNECTED, [](Scene&) {}, kNothing, DAT_EP_STATE_UNCONNECTED},
    {"made with a shared queue", DAT_EP_STATE_UNCONNECTED,
     [](Scene& scene) {
         Side& side = *scene.subject;
         DAT_SRQ_ATTR attr{4, 1, DAT_SRQ_LW_DEFAULT};
         DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
         DAT_EP_PARAM param{};
         must(dat_srq_create(side.opened.ia, side.pz, &attr, &srq));
         must(dat_ep_query(side.ep, DAT_EP_FIELD_ALL, &param));
         must(dat_ep_create_with_srq(side.opened.ia, side.pz, side.transfers, side.transfers,
                                     side.connections, srq, &param.ep_attr, &side.ep));
     },
     kNothing, DAT_EP_STATE_UNCONNECTED},
    {"connect", DAT_EP_STATE_UNCONNECTED, [](Scene& scene) { scene.pair.ask(); }, kNothing,
     DAT_EP_STATE_ACTIVE_CONNECTION_PENDING},
    {"dup_connect", DAT_EP_STATE_UNCONNECTED,
     [](Scene& scene) {
         const Side third(2);
         Pair& pair = scene.pair;
         must(third.connect_to(pair.address(), pair.qualifier));
         must(dat_cr_accept(pair.request(), pair.passive.ep, 0, nullptr));
         third.must_hear(DAT_CONNECTION_EVENT_ESTABLISHED);
         must(dat_ep_dup_connect(scene.subject->ep, third.ep, DAT_TIMEOUT_INFINITE, 0, nullptr,
                                 DAT_QOS_BEST_EFFORT));
     },
     kNothing, DAT_EP_STATE_ACTIVE_CONNECTION_PENDING},
    {"peer accepts", DAT_EP_STATE_ACTIVE_CONNECTION_PENDING,
     [](Scene& scene) { must(dat_cr_accept(scene.pair.request(), scene.pair.passive.ep, 0, nullptr)); },
     DAT_CONNECTION_EVENT_ESTABLISHED, DAT_EP_STATE_CONNECTED},
    {"peer rejects", DAT_EP_STATE_ACTIVE_CONNECTION_PENDING,
     [](Scene& scene) { must(dat_cr_reject(scene.pair.request())); }, DAT_CONNECTION_EVENT_PEER_REJECTED,
     DAT_EP_STATE_DISCONNECTED},
    {"nobody listens", DAT_EP_STATE_UNCONNECTED,
     [](Scene& scene) { must(scene.subject->connect_to(scene.pair.address(), 1)); },
     DAT_CONNECTION_EVENT_NON_PEER_REJECTED, DAT_EP_STATE_DISCONNECTED},
    {"time is over", DAT_EP_STATE_UNCONNECTED, [](Scene& scene) { must(scene.pair.try_ask(1000)); },
     DAT_CONNECTION_EVENT_TIMED_OUT, DAT_EP_STATE_DISCONNECTED},
    {"nobody is there", DAT_EP_STATE_UNCONNECTED, connect_to_nowhere, DAT_CONNECTION_EVENT_UNREACHABLE,
     DAT_EP_STATE_DISCONNECTED},
    {"disconnect while connecting", DAT_EP_STATE_ACTIVE_CONNECTION_PENDING,
     [](Scene& scene) { disconnect(*scene.subject, DAT_CLOSE_ABRUPT_FLAG); },
     DAT_CONNECTION_EVENT_DISCONNECTED, DAT_EP_STATE_DISCONNECTED},
    {"rsp_create", DAT_EP_STATE_UNCONNECTED, [](Scene& scene) { scene.reserve(); }, kNothing,
     DAT_EP_STATE_RESERVED},
    {"rsp_free", DAT_EP_STATE_RESERVED, [](Scene& scene) { must(dat_rsp_free(scene.rsp)); }, kNothing,
     DAT_EP_STATE_UNCONNECTED},
    {"a request for a reserved point", DAT_EP_STATE_RESERVED, ask_reserved, kNothing,
     DAT_EP_STATE_PASSIVE_CONNECTION_PENDING},
    {"accept it", DAT_EP_STATE_PASSIVE_CONNECTION_PENDING,
     [](Scene& scene) {
         scene.gate = std::make_unique<Gate>();
         must(dat_cr_accept(scene.request, DAT_HANDLE_NULL, 0, nullptr));
     },
     kNothing, DAT_EP_STATE_COMPLETION_PENDING},
    {"reject it", DAT_EP_STATE_PASSIVE_CONNECTION_PENDING,
     [](Scene& scene) { must(dat_cr_reject(scene.request)); }, kNothing, DAT_EP_STATE_UNCONNECTED},
    {"accept", DAT_EP_STATE_UNCONNECTED,
     [](Scene& scene) {
         scene.pair.ask();
         scene.accept_behind_the_gate();
     },
     kNothing, DAT_EP_STATE_COMPLETION_PENDING},
    {"the handshake completes", DAT_EP_STATE_COMPLETION_PENDING, [](Scene& scene) { scene.gate->open(); },
     DAT_CONNECTION_EVENT_ESTABLISHED, DAT_EP_STATE_CONNECTED},
    {"the handshake fails", DAT_EP_STATE_COMPLETION_PENDING,
     [](Scene& scene) {
         disconnect(scene.pair.active, DAT_CLOSE_ABRUPT_FLAG);
         scene.gate->open();
     },
     DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR, DAT_EP_STATE_DISCONNECTED, false},
    {"disconnect while accepting", DAT_EP_STATE_COMPLETION_PENDING,
     [](Scene& scene) {
         disconnect(*scene.subject, DAT_CLOSE_ABRUPT_FLAG);
         scene.gate->open();
     },
     DAT_CONNECTION_EVENT_DISCONNECTED, DAT_EP_STATE_DISCONNECTED},
    {"graceful, with requests", DAT_EP_STATE_CONNECTED,
     [](Scene& scene) {
         must(scene.subject->send(0, 1));
         disconnect(*scene.subject, DAT_CLOSE_GRACEFUL_FLAG);
     },
     kNothing, DAT_EP_STATE_DISCONNECT_PENDING, false},
    {"requests are done", DAT_EP_STATE_DISCONNECT_PENDING,
     [](Scene& scene) { must(scene.pair.passive.receive(0, 1)); }, DAT_CONNECTION_EVENT_DISCONNECTED,
     DAT_EP_STATE_DISCONNECTED, false},
    {"graceful, then abrupt", DAT_EP_STATE_DISCONNECT_PENDING,
     [](Scene& scene) { disconnect(*scene.subject, DAT_CLOSE_ABRUPT_FLAG); },
     DAT_CONNECTION_EVENT_DISCONNECTED, DAT_EP_STATE_DISCONNECTED, false},
    {"abrupt", DAT_EP_STATE_CONNECTED,
     [](Scene& scene) { disconnect(*scene.subject, DAT_CLOSE_ABRUPT_FLAG); },
     DAT_CONNECTION_EVENT_DISCONNECTED, DAT_EP_STATE_DISCONNECTED},
    {"the peer disconnects", DAT_EP_STATE_CONNECTED,
     [](Scene& scene) { disconnect(scene.pair.passive, DAT_CLOSE_ABRUPT_FLAG); },
     DAT_CONNECTION_EVENT_DISCONNECTED, DAT_EP_STATE_DISCONNECTED},
    {"a transfer fails", DAT_EP_STATE_CONNECTED,
     [](Scene& scene) {
         const DAT_RMR_TRIPLET nobodys{scene.pair.passive.block.key ^ 0x5a5a5a, 0,
                                       scene.pair.passive.block.address(), 1};
         DAT_LMR_TRIPLET part = scene.subject->block.part(0, 1);
         must(dat_ep_post_rdma_read(scene.subject->ep, 1, &part, {}, &nobodys, DAT_COMPLETION_DEFAULT_FLAG));
     },
     DAT_CONNECTION_EVENT_BROKEN, DAT_EP_STATE_DISCONNECTED, false},
    {"the hard watermark is passed", DAT_EP_STATE_CONNECTED,
     [](Scene& scene) {
         must(dat_ep_set_watermark(scene.subject->ep, DAT_WATERMARK_INFINITE, 1));
         for (int i = 0; i < 2; ++i) {
             must(scene.subject->receive(0, 1));
             must(scene.pair.passive.send(0, 1));
         }
     },
     DAT_CONNECTION_EVENT_BROKEN, DAT_EP_STATE_DISCONNECTED, false},
    {"reset", DAT_EP_STATE_DISCONNECTED, [](Scene& scene) { must(dat_ep_reset(scene.subject->ep)); },
     kNothing, DAT_EP_STATE_UNCONNECTED},
};

TEST(transitions__each_of_them__the_event_and_the_state) {
    for (const Transition& each : kTransitions) {
        if (is_over_iwarp() && !each.is_for_iwarp) {
            continue; // docs/dat-conformance.md
        }
        print_message("%s\n", each.name);
        Scene scene(each.from);
        each.trigger(scene);
        if (each.heard != kNothing) {
            const DAT_EVENT event = scene.subject->must_hear(each.heard);
            assert_ptr_equal(event.event_data.connect_event_data.ep_handle, scene.subject->ep);
        }
        assert_int_equal(scene.subject->state(), each.to);
    }
}

TEST(connect__nobody_is_there_and_a_time__timed_out) {
    Scene scene(DAT_EP_STATE_UNCONNECTED);
    sockaddr_in address = nowhere(scene);
    must(scene.subject->receive(0, 1, 5));
    must(dat_ep_connect(scene.subject->ep, reinterpret_cast<DAT_IA_ADDRESS_PTR>(&address), 1, 2000, 0,
                        nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
    scene.subject->must_hear(DAT_CONNECTION_EVENT_TIMED_OUT);
    scene.subject->must_complete(5, DAT_DTO_ERR_FLUSHED);
}

} // namespace

int main() {
    const Opened first(own_device(0)); // as in dapl_states_test.cpp
    const Opened second(own_device(1));
    const Opened third(own_device(2));
    return sluice::test::run_all_tests();
}
