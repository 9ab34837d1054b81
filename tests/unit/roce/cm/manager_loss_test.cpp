// SPDX-License-Identifier: BSD-3-Clause
//
// Messages that are lost or late, and the times after which they are said again or given up.
#include "tests/unit/roce/cm/manager_bench.hpp"

using namespace sluice::roce;
using namespace sluice::roce::engine;
using namespace sluice::roce::cm;
using namespace sluice::roce::cm::test;

namespace {

TEST(reject__lost__request_again_rejected_again_without_asking) {
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

TEST(connect__no_answer__retries_then_unreachable) {
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

TEST(connect__no_answer_within_its_time__unreachable_then) {
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
TEST(connect__given_up_after_the_request_arrived__request_is_withdrawn) {
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

TEST(request__comes_again_while_the_program_thinks__mra_and_patience) {
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

TEST(mra__asks_for_hours__bounded) {
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

TEST(reply__comes_again_while_the_program_thinks__mra) {
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

// The left side is connected, and the right side doesn't know it. The left one's connection.
ConnectionId connect_without_rtu(Bench& bench) {
    const ConnectionId active = bench.connect();
    const ConnectionId passive = bench.wait(bench.right).id;
    assert_true(bench.net.right.manager.accept(passive, Bench::acceptance(), bench.net.now).ok());
    bench.wait(bench.left);
    bench.swallow = wire::CmRtu::kAttributeId;
    assert_true(bench.net.left.manager.ready(active).ok());
    bench.net.settle();
    return active;
}

// The peer was told to wait for a minute: it won't ask again for what is lost.
TEST(rtu__lost_behind_an_mra__comes_again_by_itself) {
    Bench bench;
    const ConnectionId active = bench.connect();
    const ConnectionId passive = bench.wait(bench.right).id;
    assert_true(bench.net.right.manager.accept(passive, Bench::acceptance(), bench.net.now).ok());
    bench.wait(bench.left);
    while (bench.count(bench.sent_left, wire::CmMra::kAttributeId) == 0) {
        assert_true(bench.net.step());
    }
    bench.net.run_until(bench.net.now + 400 * kMicrosecond);
    const Nanoseconds confirmed_at = bench.net.now;
    bench.swallow = wire::CmRtu::kAttributeId;
    assert_true(bench.net.left.manager.ready(active).ok());
    bench.net.settle();
    bench.swallow = 0;
    assert_true(bench.wait(bench.right).type == EventType::kEstablished);
    assert_true(bench.net.now - confirmed_at < 150'000 * kMicrosecond);
    assert_true(bench.net.run()); // and not for ever
    assert_int_equal(bench.count(bench.sent_left, wire::CmRtu::kAttributeId), 5);
    assert_true(bench.net.left.manager.qp_settings(active).ok()); // still connected
}

TEST(reject__lost_behind_an_mra__comes_again_by_itself) {
    Bench bench;
    bench.connect();
    const ConnectionId passive = bench.wait(bench.right).id;
    while (bench.count(bench.sent_right, wire::CmMra::kAttributeId) == 0) {
        assert_true(bench.net.step());
    }
    bench.net.run_until(bench.net.now + 400 * kMicrosecond);
    const Nanoseconds refused_at = bench.net.now;
    bench.swallow = wire::CmRej::kAttributeId;
    assert_true(bench.net.right.manager.reject(passive, reason::kConsumer, kHello, refused_at).ok());
    bench.net.settle();
    bench.swallow = 0;
    assert_true(bench.wait(bench.left).type == EventType::kRejected);
    assert_true(bench.net.now - refused_at < 150'000 * kMicrosecond);
    assert_int_equal(bench.right.size(), 1); // one request
}

TEST(rtu__lost__reply_again_rtu_again) {
    Bench bench;
    (void)connect_without_rtu(bench);
    bench.swallow = 0;
    assert_true(bench.wait(bench.right).type == EventType::kEstablished);
    assert_int_equal(bench.count(bench.sent_left, wire::CmRtu::kAttributeId), 2);
    assert_int_equal(bench.net.left.manager.counters().duplicates_in, 1);
}

TEST(rtu__lost_but_the_peer_ends_the_connection__established_and_then_disconnected) {
    Bench bench;
    const ConnectionId active = connect_without_rtu(bench);
    assert_true(bench.net.left.manager.disconnect(active, bench.net.now).ok());
    assert_true(bench.wait(bench.right).type == EventType::kDisconnected);
    assert_int_equal(bench.right.size(), 3);
    assert_true(bench.right[1].type == EventType::kEstablished);
    assert_int_equal(bench.net.right.manager.counters().established, 1);
    assert_int_equal(bench.net.right.manager.counters().ended, 1);
}

TEST(rtu__lost_but_data_came__established) {
    Bench bench;
    (void)connect_without_rtu(bench);
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

TEST(reply__never_confirmed__unreachable_and_the_peer_is_told) {
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

TEST(ack_timeout_code__delays__sum_of_both) {
    assert_int_equal(ack_timeout_code(15, 18), 19); // what the kernel gets
    assert_int_equal(ack_timeout_code(18, 18), 20);
    assert_int_equal(ack_timeout_code(19, 18), 20);
    assert_int_equal(ack_timeout_code(25, 18), 25);
    assert_int_equal(ack_timeout_code(20, 18), 21);
    assert_int_equal(ack_timeout_code(31, 31), 31);
    assert_int_equal(time_of(0), 4096);
    assert_int_equal(time_of(20), 4294967296);
}

// Both sides on this machine's loopback network, and requests of this attribute that get lost.
struct Loopback : Bench {
    explicit Loopback(std::uint16_t lost = wire::CmReq::kAttributeId, const ManagerConfig& config = {})
        : Bench({}, config) {
        net.left.where = sluice::roce::test::loopback(1);
        net.right.where = sluice::roce::test::loopback(2);
        swallow = lost;
    }
    ConnectParams patient() const {
        ConnectParams params = request();
        params.timing = {};
        return params;
    }
    // Until a connection is found to be silent.
    ConnectionManager::Silent wait_until_silent() {
        ConnectionManager::Silent silent;
        while (!net.left.manager.next_silent(silent)) {
            assert_true(net.step());
        }
        return silent;
    }
};

constexpr Nanoseconds kSecond = 1'000'000'000;

TEST(connect__nobody_on_loopback__asked_often_and_refused_when_the_caller_knows) {
    Loopback bench;
    const Nanoseconds start = bench.net.now;
    const ConnectionId id = *bench.net.left.manager.connect(bench.patient(), bench.net.now);
    const ConnectionManager::Silent silent = bench.wait_until_silent();
    assert_true(silent.id == id && silent.peer == bench.net.right.where);
    assert_int_equal(bench.net.now - start, 2 * kSecond);
    const std::size_t sent = bench.count(bench.sent_left, wire::CmReq::kAttributeId);
    assert_true(sent >= 40 && sent <= 42);
    assert_true(bench.left.empty());
    bench.net.left.manager.nobody_there(id);
    bench.net.left.manager.nobody_there(id); // known already
    bench.net.settle();
    assert_int_equal(bench.left.size(), 1);
    assert_true(bench.left[0].type == EventType::kRejected);
    assert_int_equal(bench.left[0].reason, reason::kInvalidServiceId);
    assert_true(bench.net.run());
    bench.net.left.manager.destroy(id, bench.net.now);
    assert_int_equal(bench.net.left.manager.live(), 0);
}

TEST(connect__silent_on_loopback_but_there__asked_as_others_are) {
    Loopback bench;
    ConnectParams params = bench.patient();
    params.timing.max_retries = 2;
    const Nanoseconds start = bench.net.now;
    const ConnectionId id = *bench.net.left.manager.connect(params, bench.net.now);
    assert_true(bench.wait(bench.left).type == EventType::kUnreachable);
    // Three answers' time after the 4.5 seconds: what was asked often is no retry.
    assert_int_equal(bench.net.now - start, kSecond * 9 / 2 + 3 * (time_of(20) + 2 * time_of(18)));
    bench.net.left.manager.nobody_there(id); // too late to matter
    assert_int_equal(bench.left.size(), 1);
}

TEST(connect__server_on_loopback_starts_later__connected_soon) {
    Loopback bench;
    bench.net.later(kSecond, [&] { bench.swallow = 0; });
    (void)*bench.net.left.manager.connect(bench.patient(), bench.net.now);
    const Nanoseconds start = bench.net.now;
    assert_true(bench.wait(bench.right).type == EventType::kConnectRequest);
    assert_true(bench.net.now - start < kSecond + kSecond / 10);
}

TEST(connect__program_on_loopback_takes_its_time__left_alone) {
    Loopback bench(0);
    (void)*bench.net.left.manager.connect(bench.patient(), bench.net.now);
    assert_true(bench.wait(bench.right).type == EventType::kConnectRequest);
    const Nanoseconds end = bench.net.now + 6 * kSecond;
    while (bench.net.next() < end) {
        assert_true(bench.net.step());
    }
    ConnectionManager::Silent silent;
    assert_false(bench.net.left.manager.next_silent(silent));
    // It is asked for 4.5 seconds, because its listener may close, and then as patiently as it asked for.
    assert_int_equal(bench.count(bench.sent_left, wire::CmReq::kAttributeId), 91);
    assert_int_equal(bench.right.size(), 1);
}

TEST(connect__listener_on_loopback_closes_before_the_program_looks__the_next_one_gets_it) {
    Loopback bench(0);
    ConnectionManager& server = bench.net.right.manager;
    ListenParams listen;
    listen.service_id = wire::cm_service_id(wire::kPortSpaceTcp, 80);
    const ListenerId first = *server.listen(listen);
    ConnectParams params = bench.patient();
    params.service_id = listen.service_id;
    (void)*bench.net.left.manager.connect(params, bench.net.now);
    const ConnectionId unseen = bench.wait(bench.right).id;
    while (bench.count(bench.sent_right, wire::CmMra::kAttributeId) == 0) {
        assert_true(bench.net.step());
    }
    server.unlisten(first, bench.net.now);
    server.drop_request(unseen, bench.net.now);
    assert_true(server.listen(listen).ok());
    const Nanoseconds start = bench.net.now;
    assert_true(bench.wait(bench.right).type == EventType::kConnectRequest);
    assert_true(bench.net.now - start < kSecond / 10);
    assert_true(bench.left.empty());
}

TEST(resolve__nobody_on_loopback__refused_when_the_caller_knows) {
    Loopback bench(wire::CmSidrReq::kAttributeId);
    ResolveParams params;
    params.local = bench.net.left.where;
    params.remote = bench.net.right.where;
    params.service_id = kDatagramService;
    const ConnectionId id = *bench.net.left.manager.resolve(params, bench.net.now);
    assert_true(bench.wait_until_silent().id == id);
    bench.net.left.manager.nobody_there(id);
    bench.net.settle();
    assert_true(bench.left.at(0).type == EventType::kRejected);
    assert_true(bench.left.at(0).datagram);
    assert_int_equal(bench.left.at(0).reason, kSidrNotSupported);
}

// perftest's server: it accepts, closes its listener, and listens again for the same client.
TEST(connect__listener_on_loopback_closed_a_moment_ago__waits_for_the_next_one) {
    for (const bool comes_back : {true, false}) {
        Loopback bench(0);
        ConnectionManager& server = bench.net.right.manager;
        ListenParams params;
        params.service_id = wire::cm_service_id(wire::kPortSpaceTcp, 80);
        server.unlisten(*server.listen(params), bench.net.now);
        if (comes_back) {
            bench.net.later(kSecond / 2, [&] { assert_true(server.listen(params).ok()); });
        }
        ConnectParams wanted = bench.patient();
        wanted.service_id = params.service_id;
        const Nanoseconds start = bench.net.now;
        (void)*bench.net.left.manager.connect(wanted, bench.net.now);
        if (comes_back) {
            assert_true(bench.wait(bench.right).type == EventType::kConnectRequest);
            assert_true(bench.net.now - start < kSecond * 6 / 10);
        } else {
            assert_true(bench.wait(bench.left).type == EventType::kRejected);
            assert_int_equal(bench.left[0].reason, reason::kInvalidServiceId);
            assert_true(bench.net.now - start < kSecond * 21 / 10);
        }
        assert_true(server.counters().dropped_backlog > 0);
    }
}

TEST(connect__listener_elsewhere_closed_a_moment_ago__refused_at_once) {
    Bench bench;
    ConnectionManager& server = bench.net.right.manager;
    const std::uint64_t service = wire::cm_service_id(wire::kPortSpaceTcp, 80);
    ListenParams listen;
    listen.service_id = service;
    server.unlisten(*server.listen(listen), bench.net.now);
    ConnectParams params = bench.request();
    params.service_id = service;
    (void)*bench.net.left.manager.connect(params, bench.net.now);
    assert_true(bench.wait(bench.left).type == EventType::kRejected);
    assert_int_equal(server.counters().dropped_backlog, 0);
}

TEST(connect__program_on_loopback_does_not_listen_yet__waits_a_moment) {
    for (const bool comes : {true, false}) {
        Loopback bench(0);
        ConnectionManager& server = bench.net.right.manager;
        ListenParams listen;
        listen.service_id = wire::cm_service_id(wire::kPortSpaceTcp, 80);
        if (comes) {
            bench.net.later(kSecond / 20, [&] { assert_true(server.listen(listen).ok()); });
        }
        ConnectParams params = bench.patient();
        params.service_id = listen.service_id;
        const Nanoseconds start = bench.net.now;
        (void)*bench.net.left.manager.connect(params, bench.net.now);
        if (comes) {
            assert_true(bench.wait(bench.right).type == EventType::kConnectRequest);
        } else {
            assert_true(bench.wait(bench.left).type == EventType::kRejected);
            assert_int_equal(bench.left[0].reason, reason::kInvalidServiceId);
        }
        assert_true(bench.net.now - start < kSecond / 5);
    }
}

// Processes that have begun, all of them, or one that runs already.
struct Processes final : PortClaims {
    bool claim(std::uint64_t /*service*/, const Address& /*local*/) noexcept override { return true; }
    bool is_claimed_everywhere(std::uint64_t /*service*/) const noexcept override { return false; }
    bool may_all_claim_soon() const noexcept override { return have_all_begun_now; }
    void release(std::uint64_t /*service*/, const Address& /*local*/) noexcept override {}
    bool have_all_begun_now = true;
};

// qperf's server says at which port it will listen before it does.
TEST(connect__all_processes_on_loopback_have_begun_now__waits_until_one_listens) {
    for (const Nanoseconds when : {kSecond, 3 * kSecond}) {
        Processes processes;
        Loopback bench(0, {.claims = &processes});
        ConnectionManager& server = bench.net.right.manager;
        const ListenParams listen{.service_id = wire::cm_service_id(wire::kPortSpaceTcp, 80), .local = {}};
        bench.net.later(when, [&] { assert_true(server.listen(listen).ok()); });
        ConnectParams params = bench.patient();
        params.service_id = listen.service_id;
        const Nanoseconds start = bench.net.now;
        (void)*bench.net.left.manager.connect(params, bench.net.now);
        if (when == kSecond) {
            assert_true(bench.wait(bench.right).type == EventType::kConnectRequest);
            assert_true(bench.net.now - start < when + kSecond / 10);
        } else {
            assert_true(bench.wait(bench.left).type == EventType::kRejected);
            assert_int_equal(bench.left[0].reason, reason::kInvalidServiceId);
            assert_true(bench.net.now - start < kSecond * 21 / 10);
        }
    }
}

// The device of the server's process is opened while the client asks, and nobody ever listens there.
TEST(connect__processes_on_loopback_begin_while_it_is_asked__refused_two_seconds_later) {
    for (const Nanoseconds when : {kSecond / 100, kSecond / 2, kSecond * 19 / 10}) {
        Processes processes;
        Loopback bench(wire::CmReq::kAttributeId, {.claims = &processes});
        bench.net.later(when, [&] { bench.swallow = 0; });
        ConnectParams params = bench.patient();
        params.service_id = wire::cm_service_id(wire::kPortSpaceTcp, 80);
        const Nanoseconds start = bench.net.now;
        (void)*bench.net.left.manager.connect(params, bench.net.now);
        assert_true(bench.wait(bench.left).type == EventType::kRejected);
        assert_in_range(bench.net.now - start, when + 2 * kSecond, when + kSecond * 22 / 10);
    }
}

TEST(connect__a_process_on_loopback_runs_already__refused_after_a_moment) {
    Processes processes;
    Loopback bench(0, {.claims = &processes});
    bench.net.later(kSecond, [&] { processes.have_all_begun_now = false; });
    ConnectParams params = bench.patient();
    params.service_id = wire::cm_service_id(wire::kPortSpaceTcp, 80);
    const Nanoseconds start = bench.net.now;
    (void)*bench.net.left.manager.connect(params, bench.net.now);
    assert_true(bench.wait(bench.left).type == EventType::kRejected);
    assert_in_range(bench.net.now - start, kSecond, kSecond * 11 / 10);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("roce.cm.manager_loss");
}
