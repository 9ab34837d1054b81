// SPDX-License-Identifier: BSD-3-Clause
//
// How a connection ends, and what is known of it afterwards: queue pairs and ids that come again.
#include <set>
#include <span>

#include "tests/unit/roce/cm/manager_bench.hpp"

using namespace sluice::roce;
using namespace sluice::roce::engine;
using namespace sluice::roce::cm;
using namespace sluice::roce::cm::test;
using sluice::ErrorKind;

namespace {

constexpr std::uint32_t kMostSlots = std::uint32_t{1} << 16;

TEST(disconnect__answered__one_event_each_then_time_wait_ends) {
    Bench bench;
    const auto [active, passive] = bench.establish();
    for (const ConnectionManager* manager : {&bench.net.left.manager, &bench.net.right.manager}) {
        assert_int_equal(manager->counters().established, 1);
        assert_int_equal(manager->counters().ended, 0);
    }
    assert_true(bench.net.left.manager.disconnect(active, bench.net.now).ok());
    assert_true(bench.wait(bench.right).type == EventType::kDisconnected);
    assert_int_equal(message_of<wire::CmDreq>(bench.sent_left.back()).remote_qpn, kRightQpn);
    assert_true(bench.wait(bench.left).type == EventType::kDisconnected);
    // Once more, at either side, is no error and nothing happens, in time-wait and after it.
    const std::size_t sent = bench.sent_left.size() + bench.sent_right.size();
    assert_true(bench.net.left.manager.disconnect(active, bench.net.now).ok());
    assert_true(bench.net.right.manager.disconnect(passive, bench.net.now).ok());
    assert_true(bench.net.run());
    assert_int_equal(bench.sent_left.size() + bench.sent_right.size(), sent);
    assert_true(bench.net.left.manager.disconnect(active, bench.net.now).ok());
    assert_true(bench.net.run());
    assert_true(bench.left.back().type == EventType::kTimewaitExit);
    assert_true(bench.right.back().type == EventType::kTimewaitExit);
    for (const ConnectionManager* manager : {&bench.net.left.manager, &bench.net.right.manager}) {
        assert_int_equal(manager->counters().established, 1);
        assert_int_equal(manager->counters().ended, 1);
    }
    bench.net.left.manager.destroy(active, bench.net.now);
    bench.net.right.manager.destroy(passive, bench.net.now);
    assert_int_equal(bench.net.left.manager.live() + bench.net.right.manager.live(), 0);
}

// More than are told of at once; an event for each.
TEST(process_ended__with_many_connections__each_is_told_of_once) {
    constexpr std::uint32_t kMany = 100;
    Bench bench;
    for (std::uint32_t i = 0; i < kMany; ++i) {
        ConnectParams params = bench.request();
        params.qpn = kLeftQpn + i;
        (void)*bench.net.left.manager.connect(params, bench.net.now);
        assert_true(bench.wait(bench.right).type == EventType::kConnectRequest);
    }
    ConnectionManager& right = bench.net.right.manager;
    const Address& where = bench.net.left.where;
    assert_true(right.has_connections(where, Share()));
    assert_false(right.has_connections(bench.net.right.where, Share()));
    std::set<std::uint32_t> peers;
    Event event;
    for (bool more = true; more;) {
        const ConnectionManager::Ended ended = right.process_ended(where, Share(), bench.net.now);
        assert_in_range(ended.count, 1, ended.ends.size());
        for (const Ends& ends : std::span(ended.ends).first(ended.count)) {
            assert_true(ends.remote == where && peers.insert(ends.peer_qpn).second);
            assert_true(right.next_event(event) && event.type == EventType::kDisconnected);
        }
        more = ended.are_more;
    }
    assert_int_equal(peers.size(), kMany);
    assert_false(right.has_connections(where, Share()));
}

std::uint64_t entered(const ConnectionManager& manager, State state) {
    return manager.counters().entered[static_cast<std::size_t>(state)];
}

TEST(disconnect__answered__each_state_was_entered_once) {
    Bench bench;
    const auto [active, passive] = bench.establish();
    assert_true(bench.net.left.manager.disconnect(active, bench.net.now).ok());
    assert_true(bench.net.run());
    const ConnectionManager& left = bench.net.left.manager;
    const ConnectionManager& right = bench.net.right.manager;
    for (const State state : {State::kReqSent, State::kRepReceived, State::kEstablished, State::kDreqSent,
                              State::kTimeWait, State::kClosed}) {
        assert_int_equal(entered(left, state), 1);
    }
    for (const State state :
         {State::kReqReceived, State::kRepSent, State::kEstablished, State::kTimeWait, State::kClosed}) {
        assert_int_equal(entered(right, state), 1);
    }
    for (const State state : {State::kReqReceived, State::kRepSent, State::kSidrSent}) {
        assert_int_equal(entered(left, state), 0);
    }
}

TEST(disconnect__both_at_once__one_event_each) {
    Bench bench;
    const auto [active, passive] = bench.establish();
    const std::size_t before = bench.left.size() + bench.right.size();
    assert_true(bench.net.left.manager.disconnect(active, bench.net.now).ok());
    assert_true(bench.net.right.manager.disconnect(passive, bench.net.now).ok());
    assert_true(bench.net.run());
    assert_int_equal(bench.left.size() + bench.right.size(), before + 4); // and two exits
}

TEST(disconnect__never_answered__disconnected_with_timeout) {
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

TEST(disconnect__confirmation_lost__request_again_confirmed_again) {
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

TEST(disconnect__before_the_answer__disconnected_and_the_peer_is_told) {
    Bench bench;
    const ConnectionId active = bench.connect();
    bench.wait(bench.right);
    assert_true(bench.net.left.manager.disconnect(active, bench.net.now).ok());
    bench.net.settle();
    assert_true(bench.left.back().type == EventType::kDisconnected);
    assert_int_equal(bench.wait(bench.right).reason, reason::kTimeout);
}

TEST(disconnect__of_what_is_unknown__confirmed) {
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
TEST(disconnect__forged__connection_stays) {
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

// What a stranger can send who forges the peer's address and has guessed its queue pair.
wire::CmReq forged_req(Bench& bench) {
    wire::CmReq req = kept_req(bench);
    req.local_comm_id ^= 0x5555;
    return req;
}

TEST(request__from_a_queue_pair_that_is_connected__the_peer_is_asked_and_stays) {
    Bench bench;
    const auto [active, passive] = bench.establish();
    const wire::CmReq req = forged_req(bench);
    bench.give_right(to_mad(9, req));
    const auto rej = message_of<wire::CmRej>(bench.last(bench.sent_right, wire::CmRej::kAttributeId));
    assert_int_equal(rej.reason, reason::kStaleConnection);
    assert_int_equal(rej.remote_comm_id, req.local_comm_id);
    assert_int_equal(bench.net.right.manager.counters().stale_in, 1);
    assert_true(bench.net.run()); // until nothing is left to be waited for
    assert_int_equal(bench.count(bench.sent_right, wire::CmRep::kAttributeId), 2);
    assert_int_equal(bench.count(bench.sent_left, wire::CmRtu::kAttributeId), 2);
    assert_int_equal(bench.count(bench.sent_right, wire::CmDreq::kAttributeId), 0);
    assert_int_equal(bench.right.size(), 2); // request, established
    assert_true(bench.net.left.manager.disconnect(active, bench.net.now).ok());
    assert_true(bench.wait(bench.right).type == EventType::kDisconnected && bench.right.back().id == passive);
}

// The peer's machine has been started again, and is silent about what it doesn't know.
TEST(request__from_a_queue_pair_whose_peer_is_silent__disconnected_at_the_end) {
    Bench bench;
    const auto [active, passive] = bench.establish();
    (void)active;
    bench.swallow = wire::CmRtu::kAttributeId;
    const Nanoseconds begin = bench.net.now;
    bench.give_right(to_mad(9, forged_req(bench)));
    assert_true(bench.wait(bench.right).type == EventType::kDisconnected);
    assert_true(bench.right.back().id == passive);
    assert_int_equal(bench.count(bench.sent_right, wire::CmRep::kAttributeId), 2 + kFastTiming.max_retries);
    assert_true(bench.net.now - begin >= kFastTiming.max_retries * time_of(kFastTiming.response_timeout));
}

TEST(request__from_a_queue_pair_whose_peer_has_forgotten__disconnected_at_once) {
    Bench bench;
    const auto [active, passive] = bench.establish();
    (void)passive;
    bench.swallow = wire::CmDreq::kAttributeId;
    assert_true(bench.net.left.manager.disconnect(active, bench.net.now).ok());
    assert_true(bench.wait(bench.left).type == EventType::kDisconnected); // with a timeout
    bench.net.left.manager.destroy(active, bench.net.now);
    while (bench.net.left.manager.live() != 0) {
        assert_true(bench.net.step());
    }
    assert_int_equal(bench.right.size(), 2); // and the right one knows nothing
    bench.give_right(to_mad(9, forged_req(bench)));
    assert_true(bench.wait(bench.right).type == EventType::kDisconnected);
    assert_int_equal(bench.count(bench.sent_right, wire::CmRep::kAttributeId), 2);
}

// All 2^24 queue pairs in turn, from a million messages a second: one of them is the peer's, again and again.
TEST(requests__forged_by_the_hundred_thousand__one_question_a_second) {
    constexpr int kForged = 100'000;
    constexpr Nanoseconds kApart = 20 * kMicrosecond; // 2 s in all
    Bench bench;
    const auto [active, passive] = bench.establish();
    (void)passive;
    wire::CmReq req = forged_req(bench);
    for (int i = 0; i < kForged; ++i) {
        req.local_comm_id += 1;
        req.local_qpn = i % 10 == 0 ? kLeftQpn : static_cast<std::uint32_t>(2 + i);
        req.service_id =
            i % 10 == 0 ? kService : 1; // what names nobody's queue pair finds no listener either
        bench.net.right.manager.receive(bench.net.left.where, bench.net.right.where, to_mad(9, req),
                                        bench.net.now);
        bench.net.run_until(bench.net.now + kApart);
        bench.sent_right.erase(
            std::remove_if(bench.sent_right.begin(), bench.sent_right.end(),
                           [](const Mad& mad) { return attribute_of(mad) == wire::CmRej::kAttributeId; }),
            bench.sent_right.end());
    }
    assert_int_equal(bench.net.right.manager.counters().stale_in, kForged / 10);
    assert_in_range(bench.count(bench.sent_right, wire::CmRep::kAttributeId), 1 + 2, 1 + 3);
    assert_int_equal(bench.right.size(), 2);
    assert_true(bench.net.left.manager.disconnect(active, bench.net.now).ok());
    assert_true(bench.wait(bench.right).type == EventType::kDisconnected);
}

TEST(request__names_the_active_sides_peer__connection_stays) {
    Bench bench;
    const auto [active, passive] = bench.establish();
    assert_true(bench.net.left.manager.listen({.service_id = kService, .local = {}, .cookie = 79}).ok());
    wire::CmReq req = forged_req(bench);
    req.local_qpn = kRightQpn;
    auto path =
        wire::decode<wire::CmPath>(std::span<const std::uint8_t, wire::CmPath::kBytes>(req.primary_path));
    std::swap(path.local_gid, path.remote_gid);
    wire::encode(path, std::span<std::uint8_t, wire::CmPath::kBytes>(req.primary_path));
    auto header =
        wire::decode<wire::CmIpHeader>(std::span(req.private_data).first<wire::CmIpHeader::kBytes>());
    std::swap(header.source, header.destination);
    wire::encode(header, std::span(req.private_data).first<wire::CmIpHeader::kBytes>());
    const std::size_t events = bench.left.size();
    bench.give_left(to_mad(9, req));
    assert_int_equal(bench.net.left.manager.counters().stale_in, 1);
    assert_true(bench.net.run());
    assert_int_equal(bench.left.size(), events);
    assert_true(bench.net.right.manager.disconnect(passive, bench.net.now).ok());
    assert_true(bench.wait(bench.left).type == EventType::kDisconnected && bench.left.back().id == active);
}

TEST(reply__with_a_queue_pair_that_is_connected__stale) {
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

TEST(connect__queue_pair_in_use_or_in_time_wait__busy) {
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

TEST(request__copy_after_the_end__stale_and_no_event) {
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
TEST(request__id_of_a_connection_that_is_over__a_new_one) {
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

TEST(request__id_of_a_connection_that_was_turned_down__a_new_one) {
    Bench bench;
    bench.connect();
    const ConnectionId passive = bench.wait(bench.right).id;
    assert_true(bench.net.right.manager.reject(passive, reason::kConsumer, {}, bench.net.now).ok());
    bench.wait(bench.left);
    bench.give_right(to_mad(12, kept_req(bench)));
    assert_true(bench.right.back().type == EventType::kConnectRequest && bench.right.back().id != passive);
    assert_int_equal(bench.count(bench.sent_right, wire::CmRej::kAttributeId), 1);
}

TEST(request__id_of_a_connection_that_is_up__refused_and_the_peer_is_asked) {
    Bench bench;
    const auto [active, passive] = bench.establish();
    (void)active;
    (void)passive;
    wire::CmReq req = kept_req(bench);
    req.local_qpn += 1;
    bench.give_right(to_mad(12, req));
    const auto rej = message_of<wire::CmRej>(bench.last(bench.sent_right, wire::CmRej::kAttributeId));
    assert_int_equal(rej.reason, reason::kStaleConnection);
    assert_true(bench.net.run());
    assert_int_equal(bench.count(bench.sent_right, wire::CmRep::kAttributeId), 2);
    assert_int_equal(bench.right.size(), 2);
}

TEST(datagram_request__id_of_one_that_was_answered__a_new_one) {
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
TEST(connect__every_slot_again_and_again__no_id_comes_twice) {
    ManagerConfig config;
    config.max_connections = kMostSlots;
    ConnectionManager manager(config);
    std::vector<std::uint32_t> ids;
    ResolveParams params;
    params.local = ipv4(1);
    params.remote = ipv4(2);
    for (std::size_t i = 0; i < std::size_t{4} * kMostSlots; ++i) {
        const auto id = manager.resolve(params, 1);
        assert_true(id.ok());
        ids.push_back(static_cast<std::uint32_t>(*id));
        assert_int_not_equal(ids.back(), 0); // is no id
        manager.destroy(*id, 1);
        OutMad out;
        while (manager.transmit(out)) {
        }
    }
    std::ranges::sort(ids);
    assert_true(std::ranges::adjacent_find(ids) == ids.end());
}

} // namespace

int main() {
    return sluice::test::run_all_tests("roce.cm.manager_end");
}
