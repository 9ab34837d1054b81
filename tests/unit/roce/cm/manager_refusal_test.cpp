// SPDX-License-Identifier: BSD-3-Clause
//
// What a peer may not do: messages that make no sense, too many, or nobody's.
#include "tests/unit/roce/cm/manager_bench.hpp"

using namespace sluice::roce;
using namespace sluice::roce::engine;
using namespace sluice::roce::cm;
using namespace sluice::roce::cm::test;

namespace {

TEST(reply__to_nobody__refused) {
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

TEST(reply__after_giving_up__refused_and_the_peer_learns) {
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

TEST(request__senseless__refused_with_the_reason) {
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

TEST(request__flood__bounded_and_dropped) {
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

TEST(request__backlog_full__dropped_until_there_is_room) {
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

TEST(load_path__asked_for__not_supported_or_unknown) {
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

TEST(receive__not_a_message_of_ours__dropped_and_counted) {
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

TEST(receive__events_not_taken__messages_dropped_not_lost) {
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

} // namespace

int main() {
    return sluice::test::run_all_tests("roce.cm.manager_refusal");
}
