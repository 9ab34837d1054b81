// SPDX-License-Identifier: BSD-3-Clause
//
// Connecting and disconnecting as programs do it, and what the service does with their queue pairs meanwhile.
#include <array>

#include "tests/unit/uroce/connect/service_bench.hpp"

using namespace sluice::roce;
using namespace sluice::roce::engine;
using namespace sluice::roce::cm;
using namespace sluice::uroce::connect;
using namespace sluice::uroce::connect::test;

namespace {

TEST(connect__accepted_with_queue_pairs__both_led_to_rts) {
    Bench bench;
    assert_false(readable(*bench.right_channel));
    assert_true(bench.connect(Bench::params(&bench.left_qp)).ok());
    assert_int_equal(bench.left_qp.state, IBV_QPS_INIT);
    assert_true(readable(*bench.right_channel));
    assert_int_equal(bench.next_right(), SLUICE_CM_CONNECT_REQUEST);
    assert_false(readable(*bench.right_channel));
    assert_ptr_equal(bench.last.listen_id, bench.listener);
    assert_ptr_equal(bench.last.id_context, &bench.listener_context);
    assert_int_equal(bench.last.private_data_len, 56);
    assert_memory_equal(bench.data.data(), "hello", 6);
    assert_int_equal(bench.last.qp_num, 0x100);
    assert_int_equal(bench.last.responder_resources, 16); // 255 is as many as the device has
    const auto& peer = reinterpret_cast<const sockaddr_in&>(bench.last.peer);
    assert_int_equal(ntohl(peer.sin_addr.s_addr), 0x0a000001);
    assert_int_equal(ntohs(peer.sin_port), bench.left.local_port(*bench.active));
    assert_true(bench.right.accept(*bench.passive, Bench::params(&bench.right_qp)).ok());
    assert_int_equal(bench.right_qp.state, IBV_QPS_RTS);
    assert_int_equal(bench.left_qp.state, IBV_QPS_INIT); // until its program asks for the event
    assert_int_equal(bench.next_left(), SLUICE_CM_ESTABLISHED);
    assert_ptr_equal(bench.last.id_context, &bench.active_context);
    assert_int_equal(bench.last.private_data_len, 196);
    assert_int_equal(bench.left_qp.state, IBV_QPS_RTS);
    assert_int_equal(bench.next_right(), SLUICE_CM_ESTABLISHED);
    const ibv_qp_attr& left_rtr = bench.left_qp.steps[1];
    const ibv_qp_attr& right_rtr = bench.right_qp.steps[1];
    assert_int_equal(left_rtr.dest_qp_num, 0x200);
    assert_int_equal(right_rtr.dest_qp_num, 0x100);
    assert_memory_equal(left_rtr.ah_attr.grh.dgid.raw, ipv4(2).gid.data(), 16);
    assert_int_equal(left_rtr.rq_psn, bench.right_qp.steps[2].sq_psn);
    assert_int_equal(right_rtr.rq_psn, bench.left_qp.steps[2].sq_psn);
    assert_int_equal(left_rtr.path_mtu, IBV_MTU_4096);
    assert_int_equal(bench.left_qp.steps[2].timeout, 19);
    assert_int_equal(bench.next_left() + bench.next_right(), 0);
}

TEST(disconnect__connected__both_in_error_and_time_wait_ends) {
    Bench bench;
    bench.establish();
    assert_true(bench.left.disconnect(*bench.active).ok());
    assert_int_equal(bench.left_qp.state, IBV_QPS_ERR);
    assert_int_equal(bench.next_right(), SLUICE_CM_DISCONNECTED);
    assert_int_equal(bench.right_qp.state, IBV_QPS_ERR);
    assert_int_equal(bench.next_left(), SLUICE_CM_DISCONNECTED);
    assert_int_equal(bench.last.status, 0);
    // An answer to what is over already, as programs give it.
    assert_true(bench.right.disconnect(*bench.passive).ok());
    assert_true(bench.left.disconnect(*bench.active).ok());
    assert_int_equal(bench.next_left() + bench.next_right(), 0);
    Id* again = *bench.left.create_id(*bench.left_channel, SLUICE_CM_TCP, nullptr);
    assert_int_equal(
        bench.left.connect(*again, plain(at(2, kPort)), Bench::params(&bench.left_qp)).error().to_errno(),
        EBUSY);
    bench.pass_time();
    assert_int_equal(bench.next_left(), SLUICE_CM_TIMEWAIT_EXIT);
    assert_int_equal(bench.next_right(), SLUICE_CM_TIMEWAIT_EXIT);
    assert_true(bench.left.connect(*again, plain(at(2, kPort)), Bench::params(&bench.left_qp)).ok());
    bench.left.destroy_id(*again);
}

TEST(connect__caller_leads__response_attributes_establish) {
    Bench bench;
    sluice_cm_params with = Bench::params(nullptr);
    with.qp_num = 0x100;
    with.qp_timeout = 14;
    assert_true(bench.connect(with).ok());
    assert_int_equal(bench.next_right(), SLUICE_CM_CONNECT_REQUEST);
    with.qp_num = 0x200;
    assert_true(bench.right.accept(*bench.passive, with).ok());
    assert_int_equal(bench.next_left(), SLUICE_CM_CONNECT_RESPONSE);
    assert_int_equal(bench.last.qp_num, 0x200);
    ibv_qp_attr attr{};
    int mask = 0;
    attr.qp_state = IBV_QPS_INIT;
    assert_true(bench.left.qp_attributes(*bench.active, attr, mask).ok());
    assert_int_equal(mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    attr.qp_state = IBV_QPS_RTR;
    assert_true(bench.left.qp_attributes(*bench.active, attr, mask).ok());
    assert_int_equal(attr.dest_qp_num, 0x200);
    attr.qp_state = IBV_QPS_RTS;
    assert_true(bench.left.qp_attributes(*bench.active, attr, mask).ok());
    assert_int_equal(attr.timeout, 14);
    assert_true((mask & IBV_QP_SQ_PSN) != 0);
    attr.qp_state = IBV_QPS_SQD;
    assert_int_equal(bench.left.qp_attributes(*bench.active, attr, mask).error().to_errno(), EINVAL);
    assert_int_equal(bench.next_right(), 0);
    assert_true(bench.left.establish(*bench.active).ok());
    assert_int_equal(bench.next_right(), SLUICE_CM_ESTABLISHED);
    assert_int_equal(bench.left.establish(*bench.active).error().to_errno(), EINVAL);
}

TEST(reject__with_data__reason_and_data) {
    Bench bench;
    assert_true(bench.connect(Bench::params(&bench.left_qp)).ok());
    assert_int_equal(bench.next_right(), SLUICE_CM_CONNECT_REQUEST);
    const std::array<std::uint8_t, 3> why = {'n', 'a', 'y'};
    assert_true(bench.right.reject(*bench.passive, reason::kConsumer, why).ok());
    assert_int_equal(bench.next_left(), SLUICE_CM_REJECTED);
    assert_int_equal(bench.last.status, SLUICE_CM_STATUS_CONSUMER);
    assert_int_equal(bench.last.private_data_len, 148);
    assert_memory_equal(bench.data.data(), why.data(), why.size());
    assert_int_equal(bench.left_qp.state, IBV_QPS_INIT); // good for another try
}

TEST(connect__nobody_listens__refused) {
    Bench bench;
    assert_true(bench.connect(Bench::params(&bench.left_qp), kPort + 1).ok());
    assert_int_equal(bench.next_left(), SLUICE_CM_REJECTED);
    assert_int_equal(bench.last.status, SLUICE_CM_STATUS_REFUSED);
}

TEST(connect__no_answer_in_time__unreachable) {
    Bench bench;
    bench.left_port.lose = [](const OutMad&) { return true; };
    sluice_cm_params with = Bench::params(&bench.left_qp);
    with.timeout_ms = 300;
    const Nanoseconds began = bench.clock;
    assert_true(bench.connect(with).ok());
    bench.pass_time();
    assert_int_equal(bench.next_left(), SLUICE_CM_UNREACHABLE);
    assert_int_equal(bench.last.status, ETIMEDOUT);
    assert_int_equal(bench.clock - began, 300'000'000);
}

TEST(connect__queue_pair_refuses__error_here_and_rejected_there) {
    Bench bench;
    bench.left_qp.refuses = IBV_QPS_RTR;
    assert_true(bench.connect(Bench::params(&bench.left_qp)).ok());
    assert_int_equal(bench.next_right(), SLUICE_CM_CONNECT_REQUEST);
    assert_true(bench.right.accept(*bench.passive, Bench::params(&bench.right_qp)).ok());
    assert_int_equal(bench.next_left(), SLUICE_CM_CONNECT_ERROR);
    assert_int_equal(bench.last.status, ENOMEM);
    assert_int_equal(bench.next_right(), SLUICE_CM_REJECTED);
    assert_int_equal(bench.right_qp.state, IBV_QPS_ERR);
}

TEST(accept__queue_pair_refuses__errno_and_still_unanswered) {
    Bench bench;
    bench.right_qp.refuses = IBV_QPS_RTR;
    assert_true(bench.connect(Bench::params(&bench.left_qp)).ok());
    assert_int_equal(bench.next_right(), SLUICE_CM_CONNECT_REQUEST);
    assert_int_equal(bench.right.accept(*bench.passive, Bench::params(&bench.right_qp)).error().to_errno(),
                     ENOMEM);
    bench.right_qp.refuses = IBV_QPS_UNKNOWN;
    assert_true(bench.right.accept(*bench.passive, Bench::params(&bench.right_qp)).ok());
    assert_int_equal(bench.next_left(), SLUICE_CM_ESTABLISHED);
}

TEST(accept__too_much_data__nothing_done) {
    Bench bench;
    assert_true(bench.connect(Bench::params(&bench.left_qp)).ok());
    assert_int_equal(bench.next_right(), SLUICE_CM_CONNECT_REQUEST);
    const std::array<char, 197> much{};
    sluice_cm_params with = Bench::params(&bench.right_qp);
    with.private_data = much.data();
    with.private_data_len = much.size();
    assert_int_equal(bench.right.accept(*bench.passive, with).error().to_errno(), EINVAL);
    assert_int_equal(bench.right_qp.steps.size(), 0);
}

TEST(accept__fewer_reads_than_offered__led_with_fewer) {
    Bench bench;
    assert_true(bench.connect(Bench::params(&bench.left_qp)).ok());
    assert_int_equal(bench.next_right(), SLUICE_CM_CONNECT_REQUEST);
    sluice_cm_params with = Bench::params(&bench.right_qp);
    with.responder_resources = 3;
    with.initiator_depth = 2;
    assert_true(bench.right.accept(*bench.passive, with).ok());
    assert_int_equal(bench.right_qp.steps[1].max_dest_rd_atomic, 3);
    assert_int_equal(bench.right_qp.steps[2].max_rd_atomic, 2);
    assert_int_equal(bench.next_left(), SLUICE_CM_ESTABLISHED);
    assert_int_equal(bench.left_qp.steps[1].max_dest_rd_atomic, 2);
    assert_int_equal(bench.left_qp.steps[2].max_rd_atomic, 3);
}

TEST(disconnect__before_the_answer__one_event) {
    Bench bench;
    assert_true(bench.connect(Bench::params(&bench.left_qp)).ok());
    assert_true(bench.left.disconnect(*bench.active).ok());
    assert_int_equal(bench.next_left(), SLUICE_CM_DISCONNECTED);
    assert_int_equal(bench.next_left(), 0);
    assert_int_equal(bench.left_qp.state, IBV_QPS_ERR);
    assert_int_equal(bench.next_right(), SLUICE_CM_CONNECT_REQUEST);
    assert_int_equal(bench.right.accept(*bench.passive, Bench::params(&bench.right_qp)).error().to_errno(),
                     EINVAL);
    assert_int_equal(bench.right_qp.steps.size(), 0);
    assert_int_equal(bench.next_right(), SLUICE_CM_REJECTED);
    assert_int_equal(bench.last.status, SLUICE_CM_STATUS_TIMEOUT);
}

// The answer is there, but the program disconnects before it has asked for it.
TEST(disconnect__answer_not_taken__answer_dropped) {
    Bench bench;
    assert_true(bench.connect(Bench::params(&bench.left_qp)).ok());
    assert_int_equal(bench.next_right(), SLUICE_CM_CONNECT_REQUEST);
    assert_true(bench.right.accept(*bench.passive, Bench::params(&bench.right_qp)).ok());
    assert_true(bench.left.disconnect(*bench.active).ok());
    assert_int_equal(bench.next_left(), SLUICE_CM_DISCONNECTED);
    assert_int_equal(bench.next_left(), 0);
    assert_int_equal(bench.next_right(), SLUICE_CM_REJECTED);
}

TEST(rtu__lost_and_notified__established) {
    Bench bench;
    assert_true(bench.connect(Bench::params(&bench.left_qp)).ok());
    assert_int_equal(bench.next_right(), SLUICE_CM_CONNECT_REQUEST);
    assert_true(bench.right.accept(*bench.passive, Bench::params(&bench.right_qp)).ok());
    bench.left_port.lose = [](const OutMad&) { return true; };
    assert_int_equal(bench.next_left(), SLUICE_CM_ESTABLISHED);
    assert_int_equal(bench.next_right(), 0);
    assert_true(bench.right.notify(*bench.passive).ok());
    assert_int_equal(bench.next_right(), SLUICE_CM_ESTABLISHED);
    assert_true(bench.right.notify(*bench.passive).ok());
    assert_int_equal(bench.next_right(), 0);
    bench.left_port.lose = nullptr;
}

TEST(datagram_service__asked__queue_pair_and_key) {
    Bench bench;
    Id* service = *bench.right.create_id(*bench.right_channel, SLUICE_CM_UDP, nullptr);
    assert_true(bench.right.listen(*service, plain(wildcard(0)), 5).ok());
    const std::uint16_t port = bench.right.local_port(*service);
    assert_in_range(port, 32768, 60999);
    bench.active = *bench.left.create_id(*bench.left_channel, SLUICE_CM_UDP, nullptr);
    assert_true(bench.left.connect(*bench.active, plain(at(2, port)), Bench::params(nullptr)).ok());
    assert_int_equal(bench.next_right(), SLUICE_CM_CONNECT_REQUEST);
    assert_int_equal(bench.last.private_data_len, 180);
    sluice_cm_params with = Bench::params(nullptr);
    with.qp_num = 0x300;
    with.qkey = 0x1234567;
    assert_true(bench.right.accept(*bench.passive, with).ok());
    assert_int_equal(bench.next_left(), SLUICE_CM_ESTABLISHED);
    assert_int_equal(bench.last.qp_num, 0x300);
    assert_int_equal(bench.last.qkey, 0x1234567);
    bench.right.destroy_id(*service);
}

TEST(datagram_service__refused__status_as_for_connections) {
    Bench bench;
    Id* service = *bench.right.create_id(*bench.right_channel, SLUICE_CM_UDP, nullptr);
    assert_true(bench.right.listen(*service, plain(at(2, kPort)), 5).ok());
    bench.active = *bench.left.create_id(*bench.left_channel, SLUICE_CM_UDP, nullptr);
    assert_true(bench.left.connect(*bench.active, plain(at(2, kPort)), Bench::params(nullptr)).ok());
    assert_int_equal(bench.next_right(), SLUICE_CM_CONNECT_REQUEST);
    assert_true(bench.right.reject(*bench.passive, reason::kConsumer, {}).ok());
    assert_int_equal(bench.next_left(), SLUICE_CM_REJECTED);
    assert_int_equal(bench.last.status, SLUICE_CM_STATUS_CONSUMER);
    bench.left.destroy_id(*bench.active);
    bench.right.destroy_id(*service);
    bench.active = *bench.left.create_id(*bench.left_channel, SLUICE_CM_UDP, nullptr);
    assert_true(bench.left.connect(*bench.active, plain(at(2, kPort)), Bench::params(nullptr)).ok());
    assert_int_equal(bench.next_left(), SLUICE_CM_REJECTED);
    assert_int_equal(bench.last.status, SLUICE_CM_STATUS_REFUSED);
}

TEST(calls__that_make_no_sense__errno) {
    Bench bench;
    assert_int_equal(bench.left.create_id(*bench.left_channel, 3, nullptr).error().to_errno(), EINVAL);
    Id* id = *bench.right.create_id(*bench.right_channel, SLUICE_CM_TCP, nullptr);
    const auto listen = [&](const sockaddr_storage& address) {
        const auto result = bench.right.listen(*id, plain(address), 0);
        return result ? 0 : result.error().to_errno();
    };
    assert_int_equal(listen(at(2, kPort)), EADDRINUSE);
    assert_int_equal(listen(at(9, kPort + 1)), EADDRNOTAVAIL);
    sockaddr_storage unix_socket{};
    unix_socket.ss_family = AF_UNIX;
    assert_int_equal(listen(unix_socket), EAFNOSUPPORT);
    assert_int_equal(listen(wildcard(kPort + 1)), 0);
    assert_int_equal(listen(wildcard(kPort + 2)), EINVAL); // once is enough
    assert_int_equal(bench.right.disconnect(*id).error().to_errno(), EINVAL);
    assert_int_equal(bench.right.accept(*id, Bench::params(nullptr)).error().to_errno(), EINVAL);
    assert_int_equal(bench.right.reject(*id, reason::kConsumer, {}).error().to_errno(), EINVAL);
    sockaddr_storage ipv6{};
    ipv6.ss_family = AF_INET6;
    Id* fresh = *bench.right.create_id(*bench.right_channel, SLUICE_CM_TCP, nullptr);
    assert_int_equal(
        bench.right.connect(*fresh, plain(ipv6), Bench::params(&bench.right_qp)).error().to_errno(),
        EAFNOSUPPORT);
    assert_int_equal(bench.right.connect(*fresh, plain(at(1, 1)), Bench::params(nullptr)).error().to_errno(),
                     EINVAL); // no queue pair
    bench.right.destroy_id(*fresh);
    bench.right.destroy_id(*id);
}

// The peer's port says whether somebody is there: nobody refuses as the kernel would, who is silent may yet
// answer.
TEST(connect__nobody_at_a_loopback_address__refused) {
    for (const bool is_there : {false, true}) {
        Bench bench;
        bench.left_port.lose = [](const OutMad&) { return true; };
        bench.left_port.is_peer_there = is_there;
        sluice_cm_params params = Bench::params(&bench.left_qp);
        params.max_retries = 0;
        bench.active = *bench.left.create_id(*bench.left_channel, SLUICE_CM_TCP, nullptr);
        const sockaddr_storage nobody = to_sockaddr(sluice::roce::test::loopback(9), kPort);
        assert_true(bench.left.connect(*bench.active, plain(nobody), params).ok());
        bench.pass_time();
        assert_int_equal(bench.next_left(), is_there ? SLUICE_CM_UNREACHABLE : SLUICE_CM_REJECTED);
        assert_int_equal(bench.last.status, is_there ? ETIMEDOUT : int{SLUICE_CM_STATUS_REFUSED});
    }
}

} // namespace

int main() {
    return sluice::test::run_all_tests("uroce.connect.service_connect");
}
