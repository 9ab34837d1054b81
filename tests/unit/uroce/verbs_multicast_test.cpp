// SPDX-License-Identifier: BSD-3-Clause
//
// Multicast through the kernel's own: one device, two of them, and who hears what.
#include <algorithm>

#include "tests/unit/uroce/opened.hpp"

using namespace sluice::uroce::test;

namespace {

constexpr std::uint32_t kGroupQpn = 0xffffff;
constexpr std::size_t kGrhBytes = 40;

// A group of this test alone: 239 and the rest of an address that is this process's.
union ibv_gid own_group(std::uint8_t number = 0) {
    union ibv_gid gid {};
    in_addr own{};
    assert_int_equal(inet_pton(AF_INET, own_address(0).c_str(), &own), 1);
    gid.raw[10] = gid.raw[11] = 0xff;
    std::memcpy(gid.raw + 12, &own, sizeof own);
    gid.raw[12] = static_cast<std::uint8_t>(239 - number % 8);
    gid.raw[13] = static_cast<std::uint8_t>(gid.raw[13] ^ number >> 3);
    return gid;
}

EndOptions datagrams() {
    EndOptions options;
    options.type = IBV_QPT_UD;
    return options;
}

// To GID, as number QPN; waits until it has left.
void send_to(End& from, const union ibv_gid& gid, std::uint32_t qpn, std::size_t offset, std::size_t len) {
    ibv_ah_attr path{};
    path.is_global = 1;
    path.port_num = 1;
    path.grh.dgid = gid;
    ibv_ah* const ah = ibv_create_ah(from.pd, &path);
    assert_non_null(ah);
    ibv_sge sge = from.sge(offset, len);
    ibv_send_wr wr{};
    wr.wr_id = 7;
    wr.opcode = IBV_WR_SEND;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.ud = {.ah = ah, .remote_qpn = qpn, .remote_qkey = kQkey};
    assert_int_equal(from.post(wr), 0);
    assert_int_equal(ibv_destroy_ah(ah), 0);
}

// The next datagram, which came from SENDER.
void expect_from(End& receiver, const End& sender, std::size_t offset, std::size_t len) {
    const ibv_wc wc = receiver.wait();
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_RECV);
    assert_int_equal(wc.src_qp, sender.qp->qp_num);
    assert_int_equal(wc.byte_len, kGrhBytes + len);
    assert_memory_equal(receiver.block.data() + kGrhBytes, sender.block.data() + offset, len);
}

TEST(multicast__to_a_group__arrives_at_another_device_with_its_header) {
    Connected pair(Where::kTwoDevices, datagrams());
    const union ibv_gid group = own_group();
    assert_int_equal(ibv_attach_mcast(pair.right.qp, &group, 0), 0);
    for (const std::size_t len : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{4096}}) {
        assert_int_equal(pair.right.receive(pair.right.sge(0, 8192)), 0);
        send_to(pair.left, group, kGroupQpn, 10000, len);
        expect_from(pair.right, pair.left, 10000, len);
        // The IPv4 header, in the last half of what the global route header's place is.
        assert_memory_equal(pair.right.block.data() + kGrhBytes - 8, pair.left.gid.raw + 12, 4);
        assert_memory_equal(pair.right.block.data() + kGrhBytes - 4, group.raw + 12, 4);
    }
}

TEST(multicast__many_at_once__all_arrive) {
    Connected pair(Where::kTwoDevices, datagrams());
    const union ibv_gid group = own_group();
    assert_int_equal(ibv_attach_mcast(pair.right.qp, &group, 0), 0);
    for (std::size_t i = 0; i < 20; ++i) {
        assert_int_equal(pair.right.receive(pair.right.sge(0, 2048), i), 0);
    }
    for (std::size_t i = 0; i < 20; ++i) {
        send_to(pair.left, group, kGroupQpn, 100 * i, 100);
    }
    for (std::size_t i = 0; i < 20; ++i) {
        const ibv_wc wc = pair.right.wait();
        assert_int_equal(wc.wr_id, i);
        assert_int_equal(wc.byte_len, kGrhBytes + 100);
    }
}

TEST(multicast__sender_that_hears_the_group__hears_itself_unless_it_blocks_that) {
    const OpenContext context(open_uroce());
    End open(context.get(), datagrams()), blocking(context.get(), datagrams());
    assert_int_equal(ibv_destroy_qp(blocking.qp), 0);
    ibv_qp_init_attr_ex init{};
    init.send_cq = init.recv_cq = blocking.cq;
    init.cap = {4, 4, 1, 1, 0};
    init.qp_type = IBV_QPT_UD;
    init.pd = blocking.pd;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    init.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
    blocking.qp = ibv_create_qp_ex(context.get(), &init);
    assert_non_null(blocking.qp);
    const union ibv_gid group = own_group();
    for (End* end : {&open, &blocking}) {
        bring_up_datagrams(end->qp);
        assert_int_equal(ibv_attach_mcast(end->qp, &group, 0), 0);
        assert_int_equal(end->receive(end->sge(0, 1024)), 0);
        assert_int_equal(end->receive(end->sge(0, 1024)), 0);
    }
    send_to(blocking, group, kGroupQpn, 4000, 100);
    expect_from(open, blocking, 4000, 100);
    send_to(open, group, kGroupQpn, 5000, 200);
    expect_from(open, open, 5000, 200);
    expect_from(blocking, open, 5000, 200); // and not its own before
}

TEST(multicast__with_another_qkey_or_without_attaching__not_heard) {
    const OpenContext context(open_uroce());
    End sender(context.get(), datagrams()), listener(context.get(), datagrams()),
        other(context.get(), datagrams());
    const union ibv_gid group = own_group();
    for (End* end : {&sender, &listener, &other}) {
        bring_up_datagrams(end->qp);
        assert_int_equal(end->receive(end->sge(0, 1024)), 0);
    }
    ibv_qp_attr attr{};
    attr.qkey = kQkey + 1;
    assert_int_equal(modify(other.qp, attr, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_QKEY), 0);
    for (End* end : {&listener, &other, &sender}) {
        assert_int_equal(ibv_attach_mcast(end->qp, &group, 0), 0);
    }
    assert_int_equal(ibv_attach_mcast(listener.qp, &group, 0), 0); // once is enough
    assert_int_equal(ibv_detach_mcast(sender.qp, &group, 0), 0);
    send_to(sender, group, kGroupQpn, 4000, 100);
    expect_from(listener, sender, 4000, 100); // and with it all that hear the group on this device
    assert_true(sender.idle() && other.idle() && listener.idle());
}

TEST(attach_mcast__each_mistake__has_its_errno) {
    const OpenContext context(open_uroce());
    End datagram(context.get(), datagrams()), connected(context.get());
    const union ibv_gid group = own_group();
    assert_int_equal(ibv_attach_mcast(connected.qp, &group, 0), EINVAL);
    assert_int_equal(ibv_attach_mcast(datagram.qp, &datagram.gid, 0), EINVAL); // of one host
    union ibv_gid of_ipv6 {};
    of_ipv6.raw[0] = 0xff;
    of_ipv6.raw[1] = 2;
    assert_int_equal(ibv_attach_mcast(datagram.qp, &of_ipv6, 0), EINVAL);
    assert_int_equal(ibv_detach_mcast(datagram.qp, &group, 0), EINVAL);
    assert_int_equal(ibv_attach_mcast(datagram.qp, &group, 0), 0);
    assert_int_equal(ibv_detach_mcast(datagram.qp, &group, 0), 0);
    assert_int_equal(ibv_detach_mcast(datagram.qp, &group, 0), EINVAL);
}

// Linux lets a socket join 20 groups; each group has a socket of its own here.
TEST(attach_mcast__as_many_as_the_device_says__and_again_when_the_queue_pair_is_gone) {
    const OpenContext context(open_uroce());
    ibv_device_attr device{};
    assert_int_equal(ibv_query_device(context.get(), &device), 0);
    assert_int_equal(device.max_mcast_grp, 64);
    for (int round = 0; round < 2; ++round) {
        End end(context.get(), datagrams());
        for (int number = 0; number < 64; ++number) {
            // Other groups in the second round: those of the first are left.
            const union ibv_gid group = own_group(static_cast<std::uint8_t>(64 * round + number));
            assert_int_equal(ibv_attach_mcast(end.qp, &group, 0), 0);
        }
        const union ibv_gid one_more = own_group(200);
        assert_int_equal(ibv_attach_mcast(end.qp, &one_more, 0), ENOMEM);
    }
}

TEST(create_qp_ex__block_multicast_to_itself__for_datagrams_only) {
    const OpenContext context(open_uroce());
    const End end(context.get());
    ibv_qp_init_attr_ex init{};
    init.send_cq = init.recv_cq = end.cq;
    init.cap = {4, 4, 1, 1, 0};
    init.pd = end.pd;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    init.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
    init.qp_type = IBV_QPT_RC;
    assert_null(ibv_create_qp_ex(context.get(), &init));
    assert_int_equal(errno, EOPNOTSUPP);
    init.qp_type = IBV_QPT_UD;
    init.create_flags = IBV_QP_CREATE_SCATTER_FCS;
    assert_null(ibv_create_qp_ex(context.get(), &init));
    assert_int_equal(errno, EOPNOTSUPP);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("uroce.verbs_multicast");
}
