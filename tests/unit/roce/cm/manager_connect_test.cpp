// SPDX-License-Identifier: BSD-3-Clause
//
// Connections that are asked for, accepted and refused, byte by byte where a peer sees it.
#include "tests/unit/roce/cm/manager_bench.hpp"

using namespace sluice::roce;
using namespace sluice::roce::engine;
using namespace sluice::roce::cm;
using namespace sluice::roce::cm::test;
using sluice::ErrorKind;

namespace {

TEST(connect__request_arrives__fields_and_private_data) {
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

TEST(connect__defaults__rdma_cm_timers) {
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

TEST(accept__response_and_rtu__both_know_all) {
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

TEST(accept__asks_for_more_than_offered__cut_down) {
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

TEST(reply__promises_more_than_asked__own_request_holds) {
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

TEST(reject__with_data__peer_gets_reason_and_data) {
    Bench bench;
    bench.connect();
    const ConnectionId passive = bench.wait(bench.right).id;
    assert_true(bench.net.right.manager.reject(passive, reason::kConsumer, kHello, bench.net.now).ok());
    const Event& event = bench.wait(bench.left);
    assert_true(event.type == EventType::kRejected);
    assert_int_equal(bench.net.left.manager.counters().rejects_in, 1);
    assert_int_equal(bench.net.right.manager.counters().rejects_out, 1);
    assert_int_equal(bench.net.left.manager.counters().established, 0);
    assert_int_equal(event.reason, reason::kConsumer);
    assert_int_equal(event.private_bytes, kRejectData);
    assert_memory_equal(event.private_data.data(), kHello.data(), kHello.size());
    assert_true(bench.net.right.manager.accept(passive, Bench::acceptance(), bench.net.now).error().kind() ==
                ErrorKind::kInvalidState);
}

TEST(connect__nobody_listens__invalid_service_id) {
    Bench bench;
    ConnectParams params = bench.request();
    params.service_id = wire::cm_service_id(wire::kPortSpaceTcp, 9);
    assert_true(bench.net.left.manager.connect(params, bench.net.now).ok());
    assert_int_equal(bench.wait(bench.left).reason, reason::kInvalidServiceId);
    assert_int_equal(bench.net.right.manager.live(), 0);
    assert_int_equal(bench.net.right.manager.counters().rejects_out, 1);
}

TEST(connect__both_at_once_nobody_listens__both_refused) {
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

TEST(connect__peer_carries_less__asks_again_with_that) {
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

TEST(listen__taken__exists) {
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
    manager.unlisten(*one, bench.net.now);
    assert_true(manager.listen({.service_id = service, .local = ipv4(2)}).ok());
}

// The port that another process at the address has, and what was claimed and released.
struct OtherProcess final : PortClaims {
    using Claim = std::pair<std::uint64_t, sluice::roce::engine::Address>;
    bool claim(std::uint64_t service, const sluice::roce::engine::Address& local) noexcept override {
        claims.emplace_back(service, local);
        return service != taken;
    }
    bool is_claimed_everywhere(std::uint64_t /*service*/) const noexcept override { return false; }
    bool may_all_claim_soon() const noexcept override { return false; }
    void release(std::uint64_t service, const sluice::roce::engine::Address& local) noexcept override {
        releases.emplace_back(service, local);
    }
    std::uint64_t taken = 0;
    std::vector<Claim> claims;
    std::vector<Claim> releases;
};

TEST(listen__another_process_has_the_port__exists) {
    OtherProcess other;
    other.taken = kService;
    ConnectionManager manager({.claims = &other});
    assert_true(manager.listen({.service_id = kService, .local = {}}).error().kind() == ErrorKind::kExists);
    // A claim for each address, given back once.
    const auto one = manager.listen({.service_id = kService + 1, .local = ipv4(2)});
    const auto two = manager.listen({.service_id = kService + 1, .local = ipv4(3)});
    assert_true(one.ok() && two.ok());
    assert_true(other.claims == (std::vector<OtherProcess::Claim>{
                                    {kService, {}}, {kService + 1, ipv4(2)}, {kService + 1, ipv4(3)}}));
    manager.unlisten(*one, 0);
    manager.unlisten(*two, 0);
    manager.unlisten(*two, 0);
    assert_true(other.releases ==
                (std::vector<OtherProcess::Claim>{{kService + 1, ipv4(2)}, {kService + 1, ipv4(3)}}));
}

TEST(listen__both_wildcards__each_hears_its_family) {
    constexpr sluice::roce::engine::Address kIpv6{{0xfd, 1}};
    OtherProcess other;
    Listeners listeners(8, &other);
    const auto four = listeners.add({.service_id = kService, .local = kAnyIpv4, .cookie = 4});
    assert_true(listeners.find(kService, kIpv6) == nullptr);
    const auto both = listeners.add({.service_id = kService, .local = {}, .cookie = 6});
    assert_true(four.ok() && both.ok());
    for (const auto& taken : {sluice::roce::engine::Address{}, kAnyIpv4, ipv4(2), kIpv6}) {
        assert_true(listeners.add({.service_id = kService, .local = taken}).error().kind() ==
                    ErrorKind::kExists);
    }
    assert_int_equal(listeners.find(kService, ipv4(2))->params.cookie, 4);
    assert_int_equal(listeners.find(kService, kIpv6)->params.cookie, 6);
    // To other processes they are one claim, which the last one gives back.
    listeners.remove(*four, 0);
    assert_true(other.releases.empty());
    assert_int_equal(listeners.find(kService, ipv4(2))->params.cookie, 6);
    listeners.remove(*both, 0);
    assert_int_equal(other.releases.size(), 1);
}

TEST(resolve__datagram_service__queue_pair_and_key) {
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

TEST(resolve__rejected_or_nobody__status) {
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

TEST(connect__bad_arguments__named) {
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
    assert_true(kind([](ConnectParams& p) { p.timing.max_retries = 16; }) == ErrorKind::kInvalidArgument);
    assert_int_equal(manager.live(), 0);
    assert_true(kind([&](ConnectParams& p) {
                    p.service_id = 0x1000; // not rdma_cm's: no header, so more room
                    p.private_data = too_long;
                }) == ErrorKind::kInternal);
}

// As rdma_cm: the fields hold three bits.
TEST(connect_and_accept__retry_counts_above_seven__seven) {
    Bench bench;
    ConnectParams params = bench.request();
    params.retry_count = params.rnr_retry_count = 255;
    const ConnectionId active = *bench.net.left.manager.connect(params, bench.net.now);
    const Event& request = bench.wait(bench.right);
    assert_int_equal(request.retry_count, 7);
    assert_int_equal(request.rnr_retry_count, 7);
    const ConnectionId passive = request.id;
    AcceptParams answer = Bench::acceptance();
    answer.rnr_retry_count = 8;
    assert_true(bench.net.right.manager.accept(passive, answer, bench.net.now).ok());
    assert_true(bench.wait(bench.left).type == EventType::kConnectResponse);
    const QpSettings settings = *bench.net.left.manager.qp_settings(active);
    assert_int_equal(settings.retry_count, 7);
    assert_int_equal(settings.rnr_retry, 7);
}

TEST(connect__to_itself__established) {
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

} // namespace

int main() {
    return sluice::test::run_all_tests("roce.cm.manager_connect");
}
