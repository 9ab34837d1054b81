// SPDX-License-Identifier: BSD-3-Clause
//
// Each transition of a connection by itself, byte by byte where a peer sees it.
#include <cstdio>

#include "tests/unit/uroce/cm/network.hpp"

#include "tests/cmocka.hpp"

using namespace sluice::uroce;
using namespace sluice::uroce::cm;
using namespace sluice::uroce::cm::test;
using sluice::ErrorKind;

namespace {

constexpr std::uint64_t kService = wire::cm_service_id(wire::kPortSpaceTcp, 7174);
constexpr std::uint64_t kDatagramService = wire::cm_service_id(wire::kPortSpaceUdp, 7174);
constexpr std::uint32_t kMostSlots = std::uint32_t{1} << 16;
constexpr std::uint32_t kLeftQpn = 0x111111, kRightQpn = 0x222222;
const std::array<std::uint8_t, 5> kHello = {'h', 'e', 'l', 'l', 'o'};

// A network whose events and messages are kept.
struct Bench {
    explicit Bench(const CmFaults& faults = {}, const ManagerConfig& config = {}) : net(7, faults, config) {
        net.on_event = [this](Node& node, const Event& event) {
            (&node == &net.left ? left : right).push_back(event);
        };
        net.tap = [this](Node& from, const Mad& mad) {
            (&from == &net.left ? sent_left : sent_right).push_back(mad);
            return swallow != attribute_of(mad);
        };
        assert_true(net.right.manager.listen({.service_id = kService, .local = {}, .cookie = 77}).ok());
        assert_true(
            net.right.manager.listen({.service_id = kDatagramService, .local = {}, .cookie = 78}).ok());
    }

    ConnectParams request() const {
        return {.local = net.left.where,
                .remote = net.right.where,
                .service_id = kService,
                .local_port = 4321,
                .qpn = kLeftQpn,
                .responder_resources = 3,
                .initiator_depth = 5,
                .timing = kFastTiming,
                .private_data = kHello,
                .cookie = 5};
    }
    static AcceptParams acceptance() {
        return {.qpn = kRightQpn, .responder_resources = 255, .initiator_depth = 255, .private_data = kHello};
    }
    ConnectionId connect() { return *net.left.manager.connect(request(), net.now); }
    // Until the next event at that side.
    const Event& wait(std::vector<Event>& at) {
        const std::size_t seen = at.size();
        while (at.size() == seen) {
            assert_true(net.step());
        }
        return at.back();
    }
    // Both ends of a connection that is up.
    std::pair<ConnectionId, ConnectionId> establish() {
        const ConnectionId active = connect();
        const ConnectionId passive = wait(right).id;
        assert_true(net.right.manager.accept(passive, acceptance(), net.now).ok());
        assert_true(wait(left).type == EventType::kConnectResponse);
        assert_true(net.left.manager.ready(active).ok());
        assert_true(wait(right).type == EventType::kEstablished);
        return {active, passive};
    }
    // Hands MAD to the right side as if it came from SOURCE.
    void give_right(const Mad& mad, const Address& source) {
        net.right.manager.receive(source, net.right.where, mad, net.now);
        net.settle();
    }
    void give_left(const Mad& mad, const Address& source) {
        net.left.manager.receive(source, net.left.where, mad, net.now);
        net.settle();
    }
    void give_right(const Mad& mad) { give_right(mad, net.left.where); }
    void give_left(const Mad& mad) { give_left(mad, net.right.where); }
    std::size_t count(const std::vector<Mad>& sent, std::uint16_t attribute) const {
        return static_cast<std::size_t>(
            std::ranges::count_if(sent, [&](const Mad& mad) { return attribute_of(mad) == attribute; }));
    }
    const Mad& last(const std::vector<Mad>& sent, std::uint16_t attribute) const {
        for (std::size_t i = sent.size(); i-- > 0;) {
            if (attribute_of(sent[i]) == attribute) {
                return sent[i];
            }
        }
        fail();
        std::abort();
    }

    Network net;
    std::vector<Event> left, right;
    std::vector<Mad> sent_left, sent_right;
    std::uint16_t swallow = 0; // messages with this attribute are lost
};

wire::CmReq kept_req(Bench& bench) {
    return message_of<wire::CmReq>(bench.last(bench.sent_left, wire::CmReq::kAttributeId));
}

void connect__request_arrives__fields_and_private_data(void**) {
    Bench bench;
    bench.connect();
    const Event& event = bench.wait(bench.right);
    assert_true(event.type == EventType::kConnectRequest);
    assert_int_equal(event.cookie, 77);
    assert_true(event.peer == bench.net.left.where && event.local == bench.net.right.where);
    assert_int_equal(event.peer_port, 4321);
    assert_int_equal(event.local_port, 7174);
    assert_int_equal(event.qpn, kLeftQpn);
    assert_int_equal(event.responder_resources, 5); // seen from the other side
    assert_int_equal(event.initiator_depth, 3);
    assert_int_equal(event.private_bytes, kIpRequestData);
    assert_memory_equal(event.private_data.data(), kHello.data(), kHello.size());
    const wire::CmReq req = kept_req(bench);
    assert_int_equal(req.remote_cm_response_timeout, kFastTiming.response_timeout);
    assert_int_equal(req.local_cm_response_timeout, kFastTiming.response_timeout);
    assert_int_equal(req.max_cm_retries, kFastTiming.max_retries);
    assert_int_equal(req.private_data[1], 0x40); // IPv4
    assert_int_equal(req.private_data[16], 10);  // and not ::ffff:10...
    assert_int_equal(req.private_data[14], 0);
}

void connect__defaults__rdma_cm_timers(void**) {
    Bench bench;
    ConnectParams params = bench.request();
    params.timing = {};
    assert_true(bench.net.left.manager.connect(params, bench.net.now).ok());
    // 4.096 us << 20, and twice << 18.
    assert_int_equal(bench.net.left.manager.next_deadline() - bench.net.now, 4294967296 + 2 * 1073741824ULL);
    bench.wait(bench.right);
    const wire::CmReq req = kept_req(bench);
    assert_int_equal(req.local_cm_response_timeout, 20);
    assert_int_equal(req.max_cm_retries, 15);
    const auto path =
        wire::decode<wire::CmPath>(std::span<const std::uint8_t, wire::CmPath::kBytes>(req.primary_path));
    assert_int_equal(path.local_ack_timeout, 19); // what rdma_cm over rxe says
    assert_int_equal(path.hop_limit, 64);
}

void accept__response_and_rtu__both_know_all(void**) {
    Bench bench;
    const auto [active, passive] = bench.establish();
    const QpSettings a = *bench.net.left.manager.qp_settings(active);
    const QpSettings b = *bench.net.right.manager.qp_settings(passive);
    assert_int_equal(a.dest_qpn, kRightQpn);
    assert_int_equal(b.dest_qpn, kLeftQpn);
    assert_int_equal(a.send_psn, b.recv_psn);
    assert_int_equal(b.send_psn, a.recv_psn);
    assert_int_equal(a.recv_psn, kept_req(bench).starting_psn); // what I tell is what I receive
    assert_int_equal(a.max_rd_atomic, 5);
    assert_int_equal(a.max_dest_rd_atomic, 3);
    assert_int_equal(b.max_rd_atomic, 3);
    assert_int_equal(b.max_dest_rd_atomic, 5);
    assert_int_equal(a.min_rnr_timer, 0);
    assert_int_equal(a.retry_count, 7);
    assert_int_equal(b.rnr_retry, 7);
    const Event& response = bench.left.front();
    assert_int_equal(response.private_bytes, kReplyData);
    assert_memory_equal(response.private_data.data(), kHello.data(), kHello.size());
    assert_int_equal(response.cookie, 5);
}

void accept__asks_for_more_than_offered__cut_down(void**) {
    Bench bench;
    bench.connect();
    const ConnectionId passive = bench.wait(bench.right).id;
    AcceptParams params = Bench::acceptance();
    params.initiator_depth = 2;
    assert_true(bench.net.right.manager.accept(passive, params, bench.net.now).ok());
    const Event& response = bench.wait(bench.left);
    assert_int_equal(response.initiator_depth, 5);
    assert_int_equal(response.responder_resources, 2);
}

void reply__promises_more_than_asked__own_request_holds(void**) {
    Bench bench;
    bench.connect();
    const ConnectionId passive = bench.wait(bench.right).id;
    bench.swallow = wire::CmRep::kAttributeId;
    assert_true(bench.net.right.manager.accept(passive, Bench::acceptance(), bench.net.now).ok());
    bench.net.settle();
    auto rep = message_of<wire::CmRep>(bench.last(bench.sent_right, wire::CmRep::kAttributeId));
    rep.responder_resources = rep.initiator_depth = 200;
    rep.target_ack_delay = 31;
    bench.give_left(to_mad(1, rep));
    const QpSettings settings = *bench.net.left.manager.qp_settings(bench.left.back().id);
    assert_int_equal(settings.max_rd_atomic, 5);
    assert_int_equal(settings.max_dest_rd_atomic, 3);
    assert_in_range(settings.timeout, 1, 22); // not the two hours that code 31 is
}

void reject__with_data__peer_gets_reason_and_data(void**) {
    Bench bench;
    bench.connect();
    const ConnectionId passive = bench.wait(bench.right).id;
    assert_true(bench.net.right.manager.reject(passive, reason::kConsumer, kHello, bench.net.now).ok());
    const Event& event = bench.wait(bench.left);
    assert_true(event.type == EventType::kRejected);
    assert_int_equal(event.reason, reason::kConsumer);
    assert_int_equal(event.private_bytes, kRejectData);
    assert_memory_equal(event.private_data.data(), kHello.data(), kHello.size());
    assert_true(bench.net.right.manager.accept(passive, Bench::acceptance(), bench.net.now).error().kind() ==
                ErrorKind::kInvalidState);
}

void reject__lost__request_again_rejected_again_without_asking(void**) {
    Bench bench;
    bench.connect();
    const ConnectionId passive = bench.wait(bench.right).id;
    bench.swallow = wire::CmRej::kAttributeId;
    assert_true(bench.net.right.manager.reject(passive, reason::kConsumer, kHello, bench.net.now).ok());
    bench.net.settle();
    bench.swallow = 0;
    const Event& event = bench.wait(bench.left);
    assert_true(event.type == EventType::kRejected);
    assert_memory_equal(event.private_data.data(), kHello.data(), kHello.size());
    assert_int_equal(bench.right.size(), 1); // one request
    assert_int_equal(bench.count(bench.sent_left, wire::CmReq::kAttributeId), 2);
}

void connect__nobody_listens__invalid_service_id(void**) {
    Bench bench;
    ConnectParams params = bench.request();
    params.service_id = wire::cm_service_id(wire::kPortSpaceTcp, 9);
    assert_true(bench.net.left.manager.connect(params, bench.net.now).ok());
    assert_int_equal(bench.wait(bench.left).reason, reason::kInvalidServiceId);
    assert_int_equal(bench.net.right.manager.live(), 0);
    assert_int_equal(bench.net.right.manager.counters().rejects_out, 1);
}

void connect__both_at_once_nobody_listens__both_refused(void**) {
    Bench bench;
    ConnectParams there = bench.request();
    there.service_id = wire::cm_service_id(wire::kPortSpaceTcp, 9);
    ConnectParams back = there;
    std::swap(back.local, back.remote);
    back.qpn = kRightQpn;
    assert_true(bench.net.left.manager.connect(there, bench.net.now).ok());
    assert_true(bench.net.right.manager.connect(back, bench.net.now).ok());
    assert_true(bench.net.run());
    assert_int_equal(bench.left.back().reason, reason::kInvalidServiceId);
    assert_int_equal(bench.right.back().reason, reason::kInvalidServiceId);
    assert_int_equal(bench.left.size() + bench.right.size(), 2);
}

void connect__no_answer__retries_then_unreachable(void**) {
    Bench bench;
    bench.swallow = wire::CmReq::kAttributeId;
    bench.connect();
    const Nanoseconds began = bench.net.now;
    const Event& event = bench.wait(bench.left);
    assert_true(event.type == EventType::kUnreachable);
    assert_int_equal(event.reason, reason::kTimeout);
    assert_int_equal(bench.count(bench.sent_left, wire::CmReq::kAttributeId), 1 + kFastTiming.max_retries);
    const Nanoseconds each = time_of(kFastTiming.response_timeout) + 2 * time_of(kFastTiming.packet_lifetime);
    assert_int_equal(bench.net.now - began, (1 + kFastTiming.max_retries) * each);
}

void connect__no_answer_within_its_time__unreachable_then(void**) {
    Bench bench;
    bench.swallow = wire::CmReq::kAttributeId;
    ConnectParams params = bench.request();
    params.timing.give_up_after = 2500 * kMicrosecond;
    const Nanoseconds began = bench.net.now;
    assert_true(bench.net.left.manager.connect(params, began).ok());
    assert_true(bench.wait(bench.left).type == EventType::kUnreachable);
    assert_int_equal(bench.net.now - began, 2500 * kMicrosecond);
}

// Who gives up doesn't know the other's id: its REJ names its own, and the device.
void connect__given_up_after_the_request_arrived__request_is_withdrawn(void**) {
    Bench bench;
    ConnectParams params = bench.request();
    params.timing.max_retries = 0;
    assert_true(bench.net.left.manager.connect(params, bench.net.now).ok());
    bench.wait(bench.right);
    assert_true(bench.wait(bench.left).type == EventType::kUnreachable);
    const Event& event = bench.wait(bench.right);
    assert_true(event.type == EventType::kRejected);
    assert_int_equal(event.reason, reason::kTimeout);
    const auto rej = message_of<wire::CmRej>(bench.sent_left.back());
    assert_int_equal(rej.remote_comm_id, 0);
    assert_int_equal(rej.info_bytes, 8);
    assert_int_equal(rej.info[7], 0x11);
}

void request__comes_again_while_the_program_thinks__mra_and_patience(void**) {
    Bench bench;
    const ConnectionId active = bench.connect();
    const ConnectionId passive = bench.wait(bench.right).id;
    while (bench.count(bench.sent_right, wire::CmMra::kAttributeId) == 0) {
        assert_true(bench.net.step());
    }
    const auto mra = message_of<wire::CmMra>(bench.sent_right.back());
    assert_int_equal(mra.message, 0);
    assert_int_equal(mra.service_timeout, 24); // as rdma_cm: 68 s
    bench.net.run_until(bench.net.now + 400 * kMicrosecond);
    // The active side now waits a minute longer.
    assert_true(bench.net.left.manager.next_deadline() > bench.net.now + time_of(24));
    assert_true(bench.net.right.manager.accept(passive, Bench::acceptance(), bench.net.now).ok());
    assert_true(bench.wait(bench.left).id == active);
    assert_int_equal(bench.right.size(), 1);
}

void mra__asks_for_hours__bounded(void**) {
    Bench bench;
    bench.connect();
    bench.wait(bench.right);
    const wire::CmReq req = kept_req(bench);
    wire::CmMra mra;
    mra.local_comm_id = 99;
    mra.remote_comm_id = req.local_comm_id;
    mra.service_timeout = 31;
    bench.give_left(to_mad(1, mra));
    assert_true(bench.net.left.manager.next_deadline() < bench.net.now + 2 * time_of(24));
    assert_true(bench.net.left.manager.next_deadline() > bench.net.now + time_of(24));
}

void reply__comes_again_while_the_program_thinks__mra(void**) {
    Bench bench;
    bench.connect();
    const ConnectionId passive = bench.wait(bench.right).id;
    assert_true(bench.net.right.manager.accept(passive, Bench::acceptance(), bench.net.now).ok());
    bench.wait(bench.left);
    while (bench.count(bench.sent_left, wire::CmMra::kAttributeId) == 0) {
        assert_true(bench.net.step());
    }
    assert_int_equal(message_of<wire::CmMra>(bench.sent_left.back()).message, 1);
    bench.net.run_until(bench.net.now + 400 * kMicrosecond);
    assert_true(bench.net.right.manager.next_deadline() > bench.net.now + time_of(24));
    assert_int_equal(bench.left.size(), 1); // one answer
}

void rtu__lost__reply_again_rtu_again(void**) {
    Bench bench;
    const ConnectionId active = bench.connect();
    const ConnectionId passive = bench.wait(bench.right).id;
    assert_true(bench.net.right.manager.accept(passive, Bench::acceptance(), bench.net.now).ok());
    bench.wait(bench.left);
    bench.swallow = wire::CmRtu::kAttributeId;
    assert_true(bench.net.left.manager.ready(active).ok());
    bench.net.settle();
    bench.swallow = 0;
    assert_true(bench.wait(bench.right).type == EventType::kEstablished);
    assert_int_equal(bench.count(bench.sent_left, wire::CmRtu::kAttributeId), 2);
    assert_int_equal(bench.net.left.manager.counters().duplicates_in, 1);
}

void rtu__lost_but_data_came__established(void**) {
    Bench bench;
    const ConnectionId active = bench.connect();
    const ConnectionId passive = bench.wait(bench.right).id;
    assert_true(bench.net.right.manager.accept(passive, Bench::acceptance(), bench.net.now).ok());
    bench.wait(bench.left);
    bench.swallow = wire::CmRtu::kAttributeId;
    assert_true(bench.net.left.manager.ready(active).ok());
    bench.net.settle();
    bench.net.right.manager.communication_established(kRightQpn + 1);
    bench.net.settle();
    assert_int_equal(bench.right.size(), 1);
    bench.net.right.manager.communication_established(kRightQpn);
    bench.net.right.manager.communication_established(kRightQpn);
    bench.net.settle();
    assert_int_equal(bench.right.size(), 2);
    assert_true(bench.right.back().type == EventType::kEstablished);
    assert_true(bench.net.run());
    assert_int_equal(bench.right.size(), 2);
}

void reply__never_confirmed__unreachable_and_the_peer_is_told(void**) {
    Bench bench;
    const ConnectionId active = bench.connect();
    const ConnectionId passive = bench.wait(bench.right).id;
    assert_true(bench.net.right.manager.accept(passive, Bench::acceptance(), bench.net.now).ok());
    bench.wait(bench.left);
    bench.swallow = wire::CmRtu::kAttributeId;
    assert_true(bench.net.left.manager.ready(active).ok());
    assert_true(bench.wait(bench.right).type == EventType::kUnreachable);
    const Event& event = bench.wait(bench.left);
    assert_true(event.type == EventType::kDisconnected); // it was up for that side
    assert_int_equal(event.reason, reason::kTimeout);
}

void disconnect__answered__one_event_each_then_time_wait_ends(void**) {
    Bench bench;
    const auto [active, passive] = bench.establish();
    assert_true(bench.net.left.manager.disconnect(active, bench.net.now).ok());
    assert_true(bench.wait(bench.right).type == EventType::kDisconnected);
    assert_int_equal(message_of<wire::CmDreq>(bench.sent_left.back()).remote_qpn, kRightQpn);
    assert_true(bench.wait(bench.left).type == EventType::kDisconnected);
    assert_true(bench.net.left.manager.disconnect(active, bench.net.now).error().kind() ==
                ErrorKind::kInvalidState);
    assert_true(bench.net.run());
    assert_true(bench.left.back().type == EventType::kTimewaitExit);
    assert_true(bench.right.back().type == EventType::kTimewaitExit);
    bench.net.left.manager.destroy(active, bench.net.now);
    bench.net.right.manager.destroy(passive, bench.net.now);
    assert_int_equal(bench.net.left.manager.live() + bench.net.right.manager.live(), 0);
}

void disconnect__both_at_once__one_event_each(void**) {
    Bench bench;
    const auto [active, passive] = bench.establish();
    const std::size_t before = bench.left.size() + bench.right.size();
    assert_true(bench.net.left.manager.disconnect(active, bench.net.now).ok());
    assert_true(bench.net.right.manager.disconnect(passive, bench.net.now).ok());
    assert_true(bench.net.run());
    assert_int_equal(bench.left.size() + bench.right.size(), before + 4); // and two exits
}

void disconnect__never_answered__disconnected_with_timeout(void**) {
    Bench bench;
    const auto [active, passive] = bench.establish();
    (void)passive;
    bench.swallow = wire::CmDreq::kAttributeId;
    assert_true(bench.net.left.manager.disconnect(active, bench.net.now).ok());
    const Event& event = bench.wait(bench.left);
    assert_true(event.type == EventType::kDisconnected);
    assert_int_equal(event.reason, reason::kTimeout);
    assert_int_equal(bench.count(bench.sent_left, wire::CmDreq::kAttributeId), 1 + kFastTiming.max_retries);
}

void disconnect__confirmation_lost__request_again_confirmed_again(void**) {
    Bench bench;
    const auto [active, passive] = bench.establish();
    (void)passive;
    bench.swallow = wire::CmDrep::kAttributeId;
    assert_true(bench.net.left.manager.disconnect(active, bench.net.now).ok());
    bench.wait(bench.right);
    bench.net.settle();
    bench.swallow = 0;
    assert_true(bench.wait(bench.left).type == EventType::kDisconnected);
    assert_int_equal(bench.count(bench.sent_right, wire::CmDrep::kAttributeId), 2);
    assert_true(bench.net.run());
    assert_int_equal(bench.right.size(), 4); // request, established, disconnected, exit
}

void disconnect__before_the_answer__disconnected_and_the_peer_is_told(void**) {
    Bench bench;
    const ConnectionId active = bench.connect();
    bench.wait(bench.right);
    assert_true(bench.net.left.manager.disconnect(active, bench.net.now).ok());
    bench.net.settle();
    assert_true(bench.left.back().type == EventType::kDisconnected);
    assert_int_equal(bench.wait(bench.right).reason, reason::kTimeout);
}

void disconnect__of_what_is_unknown__confirmed(void**) {
    Bench bench;
    wire::CmDreq dreq;
    dreq.local_comm_id = 11;
    dreq.remote_comm_id = 22;
    dreq.remote_qpn = 33;
    bench.give_right(to_mad(44, dreq));
    const auto drep = message_of<wire::CmDrep>(bench.last(bench.sent_right, wire::CmDrep::kAttributeId));
    assert_int_equal(drep.local_comm_id, 22);
    assert_int_equal(drep.remote_comm_id, 11);
}

// Whoever isn't the peer, or doesn't know both ids and the queue pair, changes nothing.
void disconnect__forged__connection_stays(void**) {
    Bench bench;
    const auto [active, passive] = bench.establish();
    const auto rtu = message_of<wire::CmRtu>(bench.last(bench.sent_left, wire::CmRtu::kAttributeId));
    wire::CmDreq dreq;
    dreq.local_comm_id = rtu.local_comm_id;
    dreq.remote_comm_id = rtu.remote_comm_id;
    dreq.remote_qpn = kRightQpn;
    bench.give_right(to_mad(1, dreq), ipv4(66)); // another address
    dreq.remote_qpn = kRightQpn + 1;
    bench.give_right(to_mad(1, dreq));
    dreq.remote_qpn = kRightQpn;
    dreq.local_comm_id ^= 1;
    bench.give_right(to_mad(1, dreq));
    wire::CmRej rej;
    rej.local_comm_id = rtu.local_comm_id ^ 1;
    rej.remote_comm_id = rtu.remote_comm_id;
    rej.reason = reason::kConsumer;
    bench.give_right(to_mad(1, rej));
    assert_int_equal(bench.right.size(), 2);
    assert_true(bench.net.left.manager.disconnect(active, bench.net.now).ok());
    assert_true(bench.wait(bench.right).id == passive);
}

void request__from_a_queue_pair_that_is_connected__stale_both_ways(void**) {
    Bench bench;
    const auto [active, passive] = bench.establish();
    (void)active;
    // The peer has been started again and knows nothing: same queue pair number, new id.
    wire::CmReq req = kept_req(bench);
    req.local_comm_id ^= 0x5555;
    bench.give_right(to_mad(9, req));
    const auto rej = message_of<wire::CmRej>(bench.last(bench.sent_right, wire::CmRej::kAttributeId));
    assert_int_equal(rej.reason, reason::kStaleConnection);
    assert_int_equal(rej.remote_comm_id, req.local_comm_id);
    assert_int_equal(bench.count(bench.sent_right, wire::CmDreq::kAttributeId), 1);
    assert_true(bench.wait(bench.right).type == EventType::kDisconnected);
    assert_true(bench.right.back().id == passive);
    assert_int_equal(bench.net.right.manager.counters().stale_in, 1);
}

void reply__with_a_queue_pair_that_is_connected__stale(void**) {
    Bench bench;
    const auto [first, passive] = bench.establish();
    (void)first;
    (void)passive;
    ConnectParams params = bench.request();
    params.qpn = kLeftQpn + 1;
    const auto second = bench.net.left.manager.connect(params, bench.net.now);
    const ConnectionId its_passive = bench.wait(bench.right).id;
    bench.swallow = wire::CmRep::kAttributeId;
    AcceptParams acceptance = Bench::acceptance();
    acceptance.qpn = kRightQpn + 1;
    assert_true(bench.net.right.manager.accept(its_passive, acceptance, bench.net.now).ok());
    bench.net.settle();
    auto rep = message_of<wire::CmRep>(bench.last(bench.sent_right, wire::CmRep::kAttributeId));
    rep.local_qpn = kRightQpn;
    bench.give_left(to_mad(1, rep));
    assert_true(bench.left.back().type == EventType::kRejected && bench.left.back().id == *second);
    assert_int_equal(bench.left.back().reason, reason::kStaleConnection);
    const auto rej = message_of<wire::CmRej>(bench.last(bench.sent_left, wire::CmRej::kAttributeId));
    assert_int_equal(rej.message, 1);
}

void connect__queue_pair_in_use_or_in_time_wait__busy(void**) {
    Bench bench;
    const auto [active, passive] = bench.establish();
    (void)passive;
    const auto again = [&] {
        const auto result = bench.net.left.manager.connect(bench.request(), bench.net.now);
        return result ? ErrorKind::kInternal : result.error().kind();
    };
    assert_true(again() == ErrorKind::kBusy);
    assert_true(bench.net.left.manager.disconnect(active, bench.net.now).ok());
    bench.wait(bench.left);
    assert_true(again() == ErrorKind::kBusy);
    bench.net.left.manager.destroy(active, bench.net.now); // doesn't shorten it
    assert_true(again() == ErrorKind::kBusy);
    assert_true(bench.net.run());
    assert_true(again() == ErrorKind::kInternal);
}

void request__copy_after_the_end__stale_and_no_event(void**) {
    Bench bench;
    const auto [active, passive] = bench.establish();
    (void)passive;
    assert_true(bench.net.left.manager.disconnect(active, bench.net.now).ok());
    bench.wait(bench.left);
    const std::size_t events = bench.right.size();
    bench.give_right(bench.last(bench.sent_left, wire::CmReq::kAttributeId));
    assert_int_equal(bench.right.size(), events);
    const auto rej = message_of<wire::CmRej>(bench.last(bench.sent_right, wire::CmRej::kAttributeId));
    assert_int_equal(rej.reason, reason::kStaleConnection);
}

// Ids are few enough to come again while the last one is remembered.
void request__id_of_a_connection_that_is_over__a_new_one(void**) {
    Bench bench;
    const auto [active, passive] = bench.establish();
    assert_true(bench.net.left.manager.disconnect(active, bench.net.now).ok());
    bench.wait(bench.left);
    wire::CmReq req = kept_req(bench);
    req.local_qpn += 1;
    bench.give_right(to_mad(12, req));
    assert_true(bench.right.back().type == EventType::kConnectRequest);
    assert_true(bench.right.back().id != passive);
    const std::size_t events = bench.right.size();
    bench.give_right(to_mad(12, req)); // and its copy is a copy
    assert_int_equal(bench.right.size(), events);
    assert_int_equal(bench.count(bench.sent_right, wire::CmMra::kAttributeId), 1);
}

void request__id_of_a_connection_that_was_turned_down__a_new_one(void**) {
    Bench bench;
    bench.connect();
    const ConnectionId passive = bench.wait(bench.right).id;
    assert_true(bench.net.right.manager.reject(passive, reason::kConsumer, {}, bench.net.now).ok());
    bench.wait(bench.left);
    bench.give_right(to_mad(12, kept_req(bench)));
    assert_true(bench.right.back().type == EventType::kConnectRequest && bench.right.back().id != passive);
    assert_int_equal(bench.count(bench.sent_right, wire::CmRej::kAttributeId), 1);
}

void request__id_of_a_connection_that_is_up__stale_both_ways(void**) {
    Bench bench;
    const auto [active, passive] = bench.establish();
    (void)active;
    wire::CmReq req = kept_req(bench);
    req.local_qpn += 1;
    bench.give_right(to_mad(12, req));
    const auto rej = message_of<wire::CmRej>(bench.last(bench.sent_right, wire::CmRej::kAttributeId));
    assert_int_equal(rej.reason, reason::kStaleConnection);
    assert_true(bench.wait(bench.right).type == EventType::kDisconnected);
    assert_true(bench.right.back().id == passive);
}

void datagram_request__id_of_one_that_was_answered__a_new_one(void**) {
    Bench bench;
    ResolveParams params;
    params.local = bench.net.left.where;
    params.remote = bench.net.right.where;
    params.service_id = kDatagramService;
    params.timing = kFastTiming;
    assert_true(bench.net.left.manager.resolve(params, bench.net.now).ok());
    const ConnectionId passive = bench.wait(bench.right).id;
    assert_true(bench.net.right.manager.accept(passive, Bench::acceptance(), bench.net.now).ok());
    bench.wait(bench.left);
    bench.give_right(
        to_mad(12, message_of<wire::CmSidrReq>(bench.last(bench.sent_left, wire::CmSidrReq::kAttributeId))));
    assert_true(bench.right.back().type == EventType::kConnectRequest && bench.right.back().id != passive);
}

// What a peer still remembers must not be met again, or it takes a new connection for an old one.
void connect__a_slot_again_and_again__no_id_comes_twice(void**) {
    ManagerConfig config;
    config.max_connections = kMostSlots;
    ConnectionManager manager(config);
    std::vector<bool> seen(std::size_t{1} << 16);
    ResolveParams params;
    params.local = ipv4(1);
    params.remote = ipv4(2);
    for (std::size_t i = 0; i + 1 < seen.size(); ++i) { // 0 is no id
        const auto id = manager.resolve(params, 1);
        assert_true(id.ok());
        const auto life = static_cast<std::uint32_t>(*id) >> 16;
        assert_false(seen[life]);
        seen[life] = true;
        manager.destroy(*id, 1); // its slot is the next one's
        OutMad out;
        while (manager.transmit(out)) {
        }
    }
}

void reply__to_nobody__refused(void**) {
    Bench bench;
    wire::CmRep rep;
    rep.local_comm_id = 4;
    rep.remote_comm_id = 5;
    rep.local_qpn = 6;
    bench.give_left(to_mad(1, rep));
    const auto rej = message_of<wire::CmRej>(bench.last(bench.sent_left, wire::CmRej::kAttributeId));
    assert_int_equal(rej.reason, reason::kInvalidCommId);
    assert_int_equal(rej.message, 1);
    assert_int_equal(rej.remote_comm_id, 4);
}

void reply__after_giving_up__refused_and_the_peer_learns(void**) {
    Bench bench;
    const ConnectionId active = bench.connect();
    const ConnectionId passive = bench.wait(bench.right).id;
    bench.swallow = wire::CmRej::kAttributeId; // the news that it was given up
    assert_true(bench.net.left.manager.disconnect(active, bench.net.now).ok());
    bench.net.settle();
    bench.swallow = 0;
    assert_true(bench.net.right.manager.accept(passive, Bench::acceptance(), bench.net.now).ok());
    const Event& event = bench.wait(bench.right);
    assert_true(event.type == EventType::kRejected);
    assert_int_equal(event.reason, reason::kTimeout);
}

void request__senseless__refused_with_the_reason(void**) {
    Bench bench;
    bench.swallow = wire::CmReq::kAttributeId;
    bench.connect();
    bench.net.settle();
    const wire::CmReq good = kept_req(bench);
    const auto answer = [&](const wire::CmReq& req) {
        const std::size_t before = bench.sent_right.size();
        bench.give_right(to_mad(3, req));
        assert_int_equal(bench.sent_right.size(), before + 1);
        return message_of<wire::CmRej>(bench.sent_right.back());
    };
    wire::CmReq bad = good;
    bad.transport_type = 1;
    assert_int_equal(answer(bad).reason, reason::kInvalidTransport);
    bad = good;
    bad.primary_path[4 + 15] ^= 1; // whom data would go to
    assert_int_equal(answer(bad).reason, reason::kInvalidGid);
    bad = good;
    bad.path_mtu = 6;
    assert_int_equal(answer(bad).reason, reason::kInvalidMtu);
    bad = good;
    bad.local_qpn = 1;
    assert_int_equal(answer(bad).reason, reason::kUnsupported);
    bad = good;
    bad.private_data[0] = 1; // another version of rdma_cm's header
    assert_int_equal(answer(bad).reason, reason::kUnsupported);
    bad = good;
    bad.private_data[19] ^= 1; // it says another source than the packet
    assert_int_equal(answer(bad).reason, reason::kUnsupported);
    assert_int_equal(bench.right.size(), 0);
    assert_int_equal(bench.net.right.manager.live(), 0);
}

void connect__peer_carries_less__asks_again_with_that(void**) {
    Bench bench({}, {.max_path_mtu = 5});
    ConnectParams params = bench.request();
    params.path_mtu = 5;
    const ConnectionId active = *bench.net.left.manager.connect(params, bench.net.now);
    bench.swallow = wire::CmReq::kAttributeId;
    bench.net.settle();
    bench.swallow = 0;
    wire::CmRej rej;
    rej.remote_comm_id = static_cast<std::uint32_t>(active);
    rej.reason = reason::kInvalidMtu;
    rej.info_bytes = 1;
    rej.info[0] = 3;
    bench.give_left(to_mad(1, rej));
    assert_int_equal(bench.left.size(), 0);
    const ConnectionId passive = bench.wait(bench.right).id;
    assert_int_equal((*bench.net.right.manager.qp_settings(passive)).path_mtu, 3);
    assert_int_equal(kept_req(bench).path_mtu, 3);
    rej.info[0] = 3; // no smaller than what we ask for now
    bench.give_left(to_mad(1, rej));
    assert_int_equal(bench.left.back().reason, reason::kInvalidMtu);
}

void request__flood__bounded_and_dropped(void**) {
    Bench bench({}, {.max_connections = 64});
    assert_true(
        bench.net.right.manager.listen({.service_id = kService + 1, .local = {}, .backlog = 1000}).ok());
    bench.swallow = wire::CmReq::kAttributeId;
    bench.connect();
    bench.net.settle();
    wire::CmReq req = kept_req(bench);
    for (std::uint32_t i = 0; i < 1000; ++i) {
        req.local_comm_id = 1000 + i;
        req.local_qpn = 1000 + i;
        bench.give_right(to_mad(i, req));
    }
    assert_int_equal(bench.net.right.manager.live(), 64);
    assert_int_equal(bench.right.size(), 64);
    assert_int_equal(message_of<wire::CmRej>(bench.sent_right.back()).reason, reason::kNoResources);
    // What the program rejects makes room at once when it is needed.
    bench.net.right.manager.destroy(bench.right.front().id, bench.net.now);
    bench.net.settle();
    req.local_comm_id = req.local_qpn = 5000;
    bench.give_right(to_mad(1, req));
    assert_int_equal(bench.right.size(), 65);
    assert_int_equal(bench.net.right.manager.counters().time_wait_cut_short, 1);
}

void request__backlog_full__dropped_until_there_is_room(void**) {
    Bench bench;
    const auto listener =
        bench.net.right.manager.listen({.service_id = kService + 1, .local = {}, .backlog = 1});
    ConnectParams params = bench.request();
    params.service_id = kService + 1;
    assert_true(bench.net.left.manager.connect(params, bench.net.now).ok());
    params.qpn++;
    assert_true(bench.net.left.manager.connect(params, bench.net.now).ok());
    const ConnectionId first = bench.wait(bench.right).id;
    bench.net.run_until(bench.net.now + 200 * kMicrosecond);
    assert_int_equal(bench.right.size(), 1);
    assert_int_equal(bench.net.right.manager.counters().dropped_backlog, 1);
    assert_true(bench.net.right.manager.reject(first, reason::kConsumer, {}, bench.net.now).ok());
    assert_true(bench.wait(bench.right).listener == *listener); // the second, asking again
}

void listen__taken__exists(void**) {
    Bench bench;
    ConnectionManager& manager = bench.net.right.manager;
    assert_true(manager.listen({.service_id = kService, .local = bench.net.right.where}).error().kind() ==
                ErrorKind::kExists);
    const auto port = manager.free_port(wire::kPortSpaceTcp);
    const std::uint64_t service = wire::cm_service_id(wire::kPortSpaceTcp, *port);
    const auto one = manager.listen({.service_id = service, .local = ipv4(2)});
    assert_true(one.ok());
    assert_true(manager.listen({.service_id = service, .local = ipv4(3)}).ok()); // another address
    assert_true(manager.listen({.service_id = service, .local = ipv4(2)}).error().kind() ==
                ErrorKind::kExists);
    manager.unlisten(*one);
    assert_true(manager.listen({.service_id = service, .local = ipv4(2)}).ok());
}

void resolve__datagram_service__queue_pair_and_key(void**) {
    Bench bench;
    const auto id = bench.net.left.manager.resolve({.local = bench.net.left.where,
                                                    .remote = bench.net.right.where,
                                                    .service_id = kDatagramService,
                                                    .local_port = 99,
                                                    .timing = kFastTiming,
                                                    .private_data = kHello,
                                                    .cookie = 6},
                                                   bench.net.now);
    const Event request = bench.wait(bench.right);
    assert_true(request.datagram && request.type == EventType::kConnectRequest);
    assert_int_equal(request.private_bytes, kSidrRequestData);
    assert_memory_equal(request.private_data.data(), kHello.data(), kHello.size());
    assert_int_equal(request.peer_port, 99);
    bench.swallow = wire::CmSidrRep::kAttributeId; // and lose the first answer
    assert_true(
        bench.net.right.manager
            .accept(request.id, {.qpn = kRightQpn, .qkey = 0x01234567, .private_data = kHello}, bench.net.now)
            .ok());
    bench.net.settle();
    bench.swallow = 0;
    const Event& answer = bench.wait(bench.left);
    assert_true(answer.type == EventType::kResolved && answer.id == *id);
    assert_int_equal(answer.qpn, kRightQpn);
    assert_int_equal(answer.qkey, 0x01234567);
    assert_int_equal(answer.private_bytes, kSidrReplyData);
    assert_int_equal(bench.right.size(), 1);
}

void resolve__rejected_or_nobody__status(void**) {
    Bench bench;
    ResolveParams params = {.local = bench.net.left.where,
                            .remote = bench.net.right.where,
                            .service_id = kDatagramService,
                            .timing = kFastTiming,
                            .private_data = {}};
    assert_true(bench.net.left.manager.resolve(params, bench.net.now).ok());
    assert_true(bench.net.right.manager.reject(bench.wait(bench.right).id, 0, kHello, bench.net.now).ok());
    assert_int_equal(bench.wait(bench.left).reason, kSidrRejected);
    assert_true(bench.left.back().type == EventType::kRejected);
    params.service_id++;
    assert_true(bench.net.left.manager.resolve(params, bench.net.now).ok());
    assert_int_equal(bench.wait(bench.left).reason, kSidrNotSupported);
    bench.swallow = wire::CmSidrReq::kAttributeId;
    assert_true(bench.net.left.manager.resolve(params, bench.net.now).ok());
    assert_true(bench.wait(bench.left).type == EventType::kUnreachable);
}

void load_path__asked_for__not_supported_or_unknown(void**) {
    Bench bench;
    bench.establish();
    const auto rtu = message_of<wire::CmRtu>(bench.last(bench.sent_left, wire::CmRtu::kAttributeId));
    wire::CmLap lap;
    lap.local_comm_id = rtu.local_comm_id;
    lap.remote_comm_id = rtu.remote_comm_id;
    bench.give_right(to_mad(1, lap));
    const auto apr = message_of<wire::CmApr>(bench.sent_right.back());
    assert_int_equal(apr.status, 2);
    assert_int_equal(apr.remote_comm_id, rtu.local_comm_id);
    lap.local_comm_id ^= 1;
    bench.give_right(to_mad(1, lap));
    assert_int_equal(message_of<wire::CmApr>(bench.sent_right.back()).status, 1);
}

void receive__not_a_message_of_ours__dropped_and_counted(void**) {
    Bench bench;
    const Mad good = to_mad(1, wire::CmReq{});
    for (const std::size_t at : {0, 1, 2, 3, 5, 16}) {
        Mad bad = good;
        bad[at] ^= 0x40;
        bench.give_right(bad);
    }
    bench.net.right.manager.receive(bench.net.left.where, bench.net.right.where, std::span(good).first(255),
                                    bench.net.now);
    assert_int_equal(bench.net.right.manager.counters().dropped_malformed, 7);
    bench.net.settle();
    assert_int_equal(bench.sent_right.size(), 0);
}

void receive__events_not_taken__messages_dropped_not_lost(void**) {
    Network net(3);
    ConnectionManager& manager = net.right.manager;
    assert_true(manager.listen({.service_id = kService, .local = {}, .backlog = 1000}).ok());
    net.on_event = nullptr;
    const auto id = net.left.manager.connect({.local = net.left.where,
                                              .remote = net.right.where,
                                              .service_id = kService,
                                              .qpn = kLeftQpn,
                                              .timing = kFastTiming,
                                              .private_data = {}},
                                             net.now);
    assert_true(id.ok());
    OutMad out;
    assert_true(net.left.manager.transmit(out));
    auto req = message_of<wire::CmReq>(out.bytes);
    for (std::uint32_t i = 2; i < 102; ++i) {
        req.local_comm_id = req.local_qpn = i;
        manager.receive(net.left.where, net.right.where, to_mad(i, req), net.now);
    }
    assert_in_range(manager.live(), 60, 64);
    assert_int_equal(manager.counters().dropped_busy, 100 - manager.live());
    Event event;
    std::uint32_t told = 0;
    while (manager.next_event(event)) {
        ++told;
    }
    assert_int_equal(told, manager.live());
}

void connect__bad_arguments__named(void**) {
    Bench bench;
    ConnectionManager& manager = bench.net.left.manager;
    const std::array<std::uint8_t, 57> too_long{};
    const auto kind = [&](auto&& change) {
        ConnectParams params = bench.request();
        change(params);
        const auto result = manager.connect(params, bench.net.now);
        return result ? ErrorKind::kInternal : result.error().kind();
    };
    assert_true(kind([&](ConnectParams& p) { p.private_data = too_long; }) == ErrorKind::kInvalidArgument);
    assert_true(kind([](ConnectParams& p) { p.qpn = 1; }) == ErrorKind::kInvalidArgument);
    assert_true(kind([](ConnectParams& p) { p.qpn = 1 << 24; }) == ErrorKind::kInvalidArgument);
    assert_true(kind([](ConnectParams& p) { p.path_mtu = 0; }) == ErrorKind::kInvalidArgument);
    assert_true(kind([](ConnectParams& p) { p.retry_count = 8; }) == ErrorKind::kInvalidArgument);
    assert_true(kind([](ConnectParams& p) { p.timing.max_retries = 16; }) == ErrorKind::kInvalidArgument);
    assert_int_equal(manager.live(), 0);
    assert_true(kind([&](ConnectParams& p) {
                    p.service_id = 0x1000; // not rdma_cm's: no header, so more room
                    p.private_data = too_long;
                }) == ErrorKind::kInternal);
}

void connect__to_itself__established(void**) {
    Bench bench;
    ConnectParams params = bench.request();
    params.local = params.remote = bench.net.right.where;
    ConnectionManager& manager = bench.net.right.manager;
    const ConnectionId active = *manager.connect(params, bench.net.now);
    const ConnectionId passive = bench.wait(bench.right).id;
    assert_true(manager.accept(passive, Bench::acceptance(), bench.net.now).ok());
    assert_true(bench.wait(bench.right).id == active);
    assert_true(manager.ready(active).ok());
    assert_true(bench.wait(bench.right).id == passive);
    assert_true(manager.disconnect(passive, bench.net.now).ok());
    assert_true(bench.net.run());
    manager.destroy(active, bench.net.now);
    manager.destroy(passive, bench.net.now);
    assert_int_equal(manager.live(), 0);
}

void ack_timeout_code__delays__sum_of_both(void**) {
    assert_int_equal(ack_timeout_code(15, 18), 19); // what the kernel gets
    assert_int_equal(ack_timeout_code(18, 18), 20);
    assert_int_equal(ack_timeout_code(19, 18), 20);
    assert_int_equal(ack_timeout_code(25, 18), 25);
    assert_int_equal(ack_timeout_code(20, 18), 21);
    assert_int_equal(ack_timeout_code(31, 31), 31);
    assert_int_equal(time_of(0), 4096);
    assert_int_equal(time_of(20), 4294967296);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(connect__request_arrives__fields_and_private_data),
        cmocka_unit_test(connect__defaults__rdma_cm_timers),
        cmocka_unit_test(accept__response_and_rtu__both_know_all),
        cmocka_unit_test(accept__asks_for_more_than_offered__cut_down),
        cmocka_unit_test(reply__promises_more_than_asked__own_request_holds),
        cmocka_unit_test(reject__with_data__peer_gets_reason_and_data),
        cmocka_unit_test(reject__lost__request_again_rejected_again_without_asking),
        cmocka_unit_test(connect__nobody_listens__invalid_service_id),
        cmocka_unit_test(connect__both_at_once_nobody_listens__both_refused),
        cmocka_unit_test(connect__no_answer__retries_then_unreachable),
        cmocka_unit_test(connect__no_answer_within_its_time__unreachable_then),
        cmocka_unit_test(connect__given_up_after_the_request_arrived__request_is_withdrawn),
        cmocka_unit_test(request__comes_again_while_the_program_thinks__mra_and_patience),
        cmocka_unit_test(mra__asks_for_hours__bounded),
        cmocka_unit_test(reply__comes_again_while_the_program_thinks__mra),
        cmocka_unit_test(rtu__lost__reply_again_rtu_again),
        cmocka_unit_test(rtu__lost_but_data_came__established),
        cmocka_unit_test(reply__never_confirmed__unreachable_and_the_peer_is_told),
        cmocka_unit_test(disconnect__answered__one_event_each_then_time_wait_ends),
        cmocka_unit_test(disconnect__both_at_once__one_event_each),
        cmocka_unit_test(disconnect__never_answered__disconnected_with_timeout),
        cmocka_unit_test(disconnect__confirmation_lost__request_again_confirmed_again),
        cmocka_unit_test(disconnect__before_the_answer__disconnected_and_the_peer_is_told),
        cmocka_unit_test(disconnect__of_what_is_unknown__confirmed),
        cmocka_unit_test(disconnect__forged__connection_stays),
        cmocka_unit_test(request__from_a_queue_pair_that_is_connected__stale_both_ways),
        cmocka_unit_test(reply__with_a_queue_pair_that_is_connected__stale),
        cmocka_unit_test(connect__queue_pair_in_use_or_in_time_wait__busy),
        cmocka_unit_test(request__copy_after_the_end__stale_and_no_event),
        cmocka_unit_test(request__id_of_a_connection_that_is_over__a_new_one),
        cmocka_unit_test(request__id_of_a_connection_that_was_turned_down__a_new_one),
        cmocka_unit_test(request__id_of_a_connection_that_is_up__stale_both_ways),
        cmocka_unit_test(datagram_request__id_of_one_that_was_answered__a_new_one),
        cmocka_unit_test(connect__a_slot_again_and_again__no_id_comes_twice),
        cmocka_unit_test(reply__to_nobody__refused),
        cmocka_unit_test(reply__after_giving_up__refused_and_the_peer_learns),
        cmocka_unit_test(request__senseless__refused_with_the_reason),
        cmocka_unit_test(connect__peer_carries_less__asks_again_with_that),
        cmocka_unit_test(request__flood__bounded_and_dropped),
        cmocka_unit_test(request__backlog_full__dropped_until_there_is_room),
        cmocka_unit_test(listen__taken__exists),
        cmocka_unit_test(resolve__datagram_service__queue_pair_and_key),
        cmocka_unit_test(resolve__rejected_or_nobody__status),
        cmocka_unit_test(load_path__asked_for__not_supported_or_unknown),
        cmocka_unit_test(receive__not_a_message_of_ours__dropped_and_counted),
        cmocka_unit_test(receive__events_not_taken__messages_dropped_not_lost),
        cmocka_unit_test(connect__bad_arguments__named),
        cmocka_unit_test(connect__to_itself__established),
        cmocka_unit_test(ack_timeout_code__delays__sum_of_both),
    };
    return cmocka_run_group_tests_name("uroce.cm.manager", tests, nullptr, nullptr);
}
