// SPDX-License-Identifier: BSD-3-Clause
//
// Every operation between two queue pairs, wherever they are, through libibverbs.
#include <endian.h>

#include <algorithm>
#include <thread>

#include "provider/wr_flush.hpp"
#include "tests/unit/uroce/opened.hpp"

using namespace sluice::uroce::test;

namespace {

constexpr std::size_t kMega = 1 << 20;
constexpr std::size_t kLengths[] = {0, 1, 255, 4096, 4097, kMega};

EndOptions with_room(ibv_qp_type type = IBV_QPT_RC) {
    EndOptions options;
    options.type = type;
    options.block_bytes = 2 * kMega;
    return options;
}

// For each place, of both kinds of connections.
template<typename Check>
void for_each_connection(Check&& check) {
    for (const Where where : kEverywhere) {
        for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
            Connected pair(where, with_room(type));
            check(pair);
        }
    }
}

// Nobody may find by chance what wasn't moved.
void clear(End& end) {
    std::fill(end.block.begin(), end.block.end(), std::uint8_t{0});
}

void expect_same(const End& from, std::size_t from_offset, const End& to, std::size_t to_offset,
                 std::size_t len) {
    assert_memory_equal(from.block.data() + from_offset, to.block.data() + to_offset, len);
}

// The bytes around what was moved are as they were.
void expect_only(const End& end, std::size_t offset, std::size_t len) {
    const auto is_zero = [](std::uint8_t byte) { return byte == 0; };
    const auto begin = end.block.begin();
    const auto at = static_cast<std::ptrdiff_t>(offset);
    assert_true(std::all_of(begin, begin + at, is_zero));
    assert_true(std::all_of(begin + at + static_cast<std::ptrdiff_t>(len), end.block.end(), is_zero));
}

void expect_sent(const End& end, ibv_wc_opcode opcode) {
    const ibv_wc wc = end.wait();
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, opcode);
    assert_int_equal(wc.wr_id, end.sent);
    assert_int_equal(wc.qp_num, end.qp->qp_num);
}

TEST(write__every_length_everywhere__arrives_whole_and_alone) {
    for_each_connection([](Connected& pair) {
        for (const std::size_t len : kLengths) {
            clear(pair.right);
            assert_int_equal(pair.left.send(IBV_WR_RDMA_WRITE, pair.left.sge(7, len), pair.right, 13), 0);
            expect_sent(pair.left, IBV_WC_RDMA_WRITE);
            expect_same(pair.left, 7, pair.right, 13, len);
            expect_only(pair.right, 13, len);
            assert_true(pair.right.idle());
        }
    });
}

TEST(read__every_length_everywhere__arrives_whole_and_alone) {
    for (const Where where : kEverywhere) {
        Connected pair(where, with_room());
        for (const std::size_t len : kLengths) {
            clear(pair.left);
            assert_int_equal(pair.left.send(IBV_WR_RDMA_READ, pair.left.sge(3, len), pair.right, 5), 0);
            expect_sent(pair.left, IBV_WC_RDMA_READ);
            expect_same(pair.right, 5, pair.left, 3, len);
            expect_only(pair.left, 3, len);
        }
    }
}

TEST(send__every_length_everywhere__receives_with_length_and_immediate) {
    for_each_connection([](Connected& pair) {
        for (const std::size_t len : kLengths) {
            for (const ibv_wr_opcode opcode : {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM}) {
                clear(pair.right);
                assert_int_equal(pair.right.receive(pair.right.sge(100, kMega), 77), 0);
                ibv_sge sge = pair.left.sge(0, len);
                ibv_send_wr wr{};
                wr.wr_id = ++pair.left.sent;
                wr.opcode = opcode;
                wr.send_flags = IBV_SEND_SIGNALED;
                wr.sg_list = &sge;
                wr.num_sge = 1;
                wr.imm_data = htobe32(0x01020304);
                assert_int_equal(pair.left.post(wr), 0);
                expect_sent(pair.left, IBV_WC_SEND);
                const ibv_wc wc = pair.right.wait();
                assert_int_equal(wc.status, IBV_WC_SUCCESS);
                assert_int_equal(wc.opcode, IBV_WC_RECV);
                assert_int_equal(wc.wr_id, 77);
                assert_int_equal(wc.byte_len, len);
                assert_int_equal(wc.qp_num, pair.right.qp->qp_num);
                const bool has_imm = opcode == IBV_WR_SEND_WITH_IMM;
                assert_int_equal(wc.wc_flags, has_imm ? IBV_WC_WITH_IMM : 0);
                if (has_imm) {
                    assert_int_equal(wc.imm_data, htobe32(0x01020304));
                }
                expect_same(pair.left, 0, pair.right, 100, len);
                expect_only(pair.right, 100, len);
            }
        }
    });
}

TEST(write_with_immediate__every_length__takes_a_receive) {
    for_each_connection([](Connected& pair) {
        for (const std::size_t len : kLengths) {
            clear(pair.right);
            assert_int_equal(pair.right.receive(pair.right.sge(0, 0), 5), 0);
            assert_int_equal(pair.left.send(IBV_WR_RDMA_WRITE_WITH_IMM, pair.left.sge(1, len), pair.right, 2),
                             0);
            expect_sent(pair.left, IBV_WC_RDMA_WRITE);
            const ibv_wc wc = pair.right.wait();
            assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
            assert_int_equal(wc.byte_len, len);
            assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
            expect_same(pair.left, 1, pair.right, 2, len);
        }
    });
}

std::uint64_t word(const End& end, std::size_t offset) {
    std::uint64_t value = 0;
    std::memcpy(&value, end.block.data() + offset, sizeof value);
    return value;
}

void set_word(End& end, std::size_t offset, std::uint64_t value) {
    std::memcpy(end.block.data() + offset, &value, sizeof value);
}

TEST(atomics__everywhere__return_what_was_and_change_what_is) {
    for (const Where where : kEverywhere) {
        Connected pair(where);
        set_word(pair.right, 64, 40);
        ibv_sge sge = pair.left.sge(8, 8);
        ibv_send_wr wr{};
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.wr.atomic.remote_addr = pair.right.addr(64);
        wr.wr.atomic.rkey = pair.right.mr->rkey;
        wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
        wr.wr.atomic.compare_add = 2;
        wr.wr_id = ++pair.left.sent;
        assert_int_equal(pair.left.post(wr), 0);
        expect_sent(pair.left, IBV_WC_FETCH_ADD);
        assert_int_equal(word(pair.left, 8), 40);
        assert_int_equal(word(pair.right, 64), 42);
        wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
        for (const std::uint64_t compare : {std::uint64_t{41}, std::uint64_t{42}}) {
            wr.wr.atomic.compare_add = compare;
            wr.wr.atomic.swap = 7;
            wr.wr_id = ++pair.left.sent;
            assert_int_equal(pair.left.post(wr), 0);
            expect_sent(pair.left, IBV_WC_COMP_SWAP);
            assert_int_equal(word(pair.left, 8), 42);
            assert_int_equal(word(pair.right, 64), compare == 42 ? 7 : 42);
        }
        wr.wr.atomic.remote_addr = pair.right.addr(65);
        assert_int_equal(pair.left.post(wr), EINVAL);
    }
}

TEST(atomic_write__posted__eight_bytes_at_once) {
    Connected pair;
    set_word(pair.left, 0, 0x1122334455667788);
    assert_int_equal(pair.left.send(IBV_WR_ATOMIC_WRITE, pair.left.sge(0, 8), pair.right, 16), 0);
    expect_sent(pair.left, IBV_WC_ATOMIC_WRITE);
    assert_int_equal(word(pair.right, 16), 0x1122334455667788);
    assert_int_equal(pair.left.send(IBV_WR_ATOMIC_WRITE, pair.left.sge(0, 7), pair.right, 16), EINVAL);
    assert_int_equal(pair.left.send(IBV_WR_ATOMIC_WRITE, pair.left.sge(0, 8), pair.right, 17), EINVAL);
}

TEST(inline_data__overwritten_after_post__arrives_as_it_was) {
    for (const Where where : kEverywhere) {
        Connected pair(where);
        for (const std::size_t len : {std::size_t{0}, std::size_t{1}, std::size_t{256}}) {
            ibv_sge sge = pair.left.sge(0, len);
            sge.lkey = 0xdead; // isn't looked at
            std::memset(pair.left.block.data(), 0x41, len);
            assert_int_equal(
                pair.left.send(IBV_WR_RDMA_WRITE, sge, pair.right, 0, IBV_SEND_SIGNALED | IBV_SEND_INLINE),
                0);
            std::memset(pair.left.block.data(), 0x42, len);
            expect_sent(pair.left, IBV_WC_RDMA_WRITE);
            assert_true(std::all_of(pair.right.block.begin(),
                                    pair.right.block.begin() + static_cast<std::ptrdiff_t>(len),
                                    [](std::uint8_t byte) { return byte == 0x41; }));
        }
        assert_int_equal(
            pair.left.send(IBV_WR_RDMA_WRITE, pair.left.sge(0, 257), pair.right, 0, IBV_SEND_INLINE), EINVAL);
        assert_int_equal(
            pair.left.send(IBV_WR_RDMA_READ, pair.left.sge(0, 8), pair.right, 0, IBV_SEND_INLINE), EINVAL);
    }
}

TEST(scattered__both_sides_in_pieces__joined) {
    for (const Where where : kEverywhere) {
        Connected pair(where);
        ibv_sge into[] = {pair.right.sge(0, 1000), pair.right.sge(2000, 0), pair.right.sge(3000, 4999),
                          pair.right.sge(9000, 1)};
        ibv_recv_wr receive{};
        ibv_recv_wr* bad_receive = nullptr;
        receive.sg_list = into;
        receive.num_sge = 4;
        assert_int_equal(ibv_post_recv(pair.right.qp, &receive, &bad_receive), 0);
        ibv_sge from[] = {pair.left.sge(10, 3), pair.left.sge(100, 5000), pair.left.sge(6000, 997)};
        ibv_send_wr send{};
        send.opcode = IBV_WR_SEND;
        send.sg_list = from;
        send.num_sge = 3;
        assert_int_equal(pair.left.post(send), 0);
        assert_int_equal(pair.right.wait().byte_len, 6000);
        std::vector<std::uint8_t> sent, got;
        for (const ibv_sge& sge : from) {
            const auto* at = reinterpret_cast<const std::uint8_t*>(sge.addr); // NOLINT
            sent.insert(sent.end(), at, at + sge.length);
        }
        for (const ibv_sge& sge : into) {
            const auto* at = reinterpret_cast<const std::uint8_t*>(sge.addr); // NOLINT
            got.insert(got.end(), at, at + sge.length);
        }
        assert_true(sent == got);
        assert_true(pair.left.idle()); // nobody asked for a signal
    }
}

TEST(datagrams__everywhere__behind_a_header_that_leads_back) {
    EndOptions options;
    options.type = IBV_QPT_UD;
    for (const Where where : kEverywhere) {
        Connected pair(where, options);
        ibv_ah_attr path{};
        path.is_global = 1;
        path.port_num = 1;
        path.grh.dgid = pair.right.gid;
        ibv_ah* ah = ibv_create_ah(pair.left.pd, &path);
        assert_non_null(ah);
        for (const std::size_t len : {0, 1, 255, 4096}) {
            assert_int_equal(pair.right.receive(pair.right.sge(0, 8192)), 0);
            ibv_sge sge = pair.left.sge(0, len);
            ibv_send_wr wr{};
            wr.wr_id = ++pair.left.sent;
            wr.opcode = IBV_WR_SEND_WITH_IMM;
            wr.send_flags = IBV_SEND_SIGNALED;
            wr.sg_list = &sge;
            wr.num_sge = 1;
            wr.imm_data = htobe32(9);
            wr.wr.ud.ah = ah;
            wr.wr.ud.remote_qpn = pair.right.qp->qp_num;
            wr.wr.ud.remote_qkey = kQkey;
            assert_int_equal(pair.left.post(wr), 0);
            expect_sent(pair.left, IBV_WC_SEND);
            ibv_wc wc = pair.right.wait();
            assert_int_equal(wc.status, IBV_WC_SUCCESS);
            assert_int_equal(wc.byte_len, len + 40);
            assert_int_equal(wc.src_qp, pair.left.qp->qp_num);
            assert_int_equal(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
            assert_int_equal(wc.imm_data, htobe32(9));
            assert_int_equal(wc.sl, 2); // the header is one of IPv4
            expect_same(pair.left, 0, pair.right, 40, len);

            // The receiver can answer with what it has.
            auto* grh = reinterpret_cast<ibv_grh*>(pair.right.block.data());
            ibv_ah* back = ibv_create_ah_from_wc(pair.right.pd, &wc, grh, 1);
            assert_non_null(back);
            assert_int_equal(pair.left.receive(pair.left.sge(8192, 8192)), 0);
            wr.wr.ud.ah = back;
            wr.wr.ud.remote_qpn = wc.src_qp;
            wr.sg_list = nullptr;
            wr.num_sge = 0;
            assert_int_equal(pair.right.post(wr), 0);
            assert_int_equal(pair.right.wait().opcode, IBV_WC_SEND);
            assert_int_equal(pair.left.wait().src_qp, pair.right.qp->qp_num);
            assert_int_equal(ibv_destroy_ah(back), 0);
        }
        assert_int_equal(ibv_destroy_ah(ah), 0);
    }
}

TEST(datagram__over_ipv6__completion_says_which_header_it_has) {
    EndOptions options;
    options.type = IBV_QPT_UD;
    const sluice::Result<ibv_context*> opened = sluice::uroce::verbs::open_context("::1");
    if (!opened && opened.error().to_errno() == EADDRINUSE) {
        skip(); // there is one such address, and another test run has it
    }
    assert_true(opened.ok());
    const OpenContext context(*opened);
    End left(context.get(), options), right(context.get(), options);
    bring_up_datagrams(left.qp);
    bring_up_datagrams(right.qp);
    ibv_ah_attr path{};
    path.is_global = 1;
    path.port_num = 1;
    path.grh.dgid = right.gid;
    ibv_ah* ah = ibv_create_ah(left.pd, &path);
    assert_non_null(ah);
    assert_int_equal(right.receive(right.sge(0, 64)), 0);
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = right.qp->qp_num;
    wr.wr.ud.remote_qkey = kQkey;
    assert_int_equal(left.post(wr), 0);
    assert_int_equal(right.wait().sl, 1);
    assert_int_equal(ibv_destroy_ah(ah), 0);
}

TEST(datagram__longer_than_the_port_takes__fails_and_recovers) {
    EndOptions options;
    options.type = IBV_QPT_UD;
    Connected pair(Where::kOneContext, options);
    ibv_ah_attr path{};
    path.is_global = 1;
    path.port_num = 1;
    path.grh.dgid = pair.right.gid;
    ibv_ah* ah = ibv_create_ah(pair.left.pd, &path);
    ibv_sge sge = pair.left.sge(0, 4097);
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = pair.right.qp->qp_num;
    assert_int_equal(pair.left.post(wr), 0);
    assert_int_equal(pair.left.wait().status, IBV_WC_LOC_LEN_ERR);
    assert_int_equal(pair.left.state(), IBV_QPS_SQE);
    assert_int_equal(modify(pair.left.qp, {}, IBV_QPS_RTS, IBV_QP_STATE), 0);
    wr.wr.ud.ah = nullptr;
    assert_int_equal(pair.left.post(wr), EINVAL);
    wr.opcode = IBV_WR_RDMA_WRITE;
    assert_int_equal(pair.left.post(wr), EINVAL);
    assert_int_equal(ibv_destroy_ah(ah), 0);
}

// One packet, from a place of one process to another place that overlaps with it.
TEST(write__onto_overlapping_memory__as_memmove) {
    Connected pair;
    ibv_mr* const whole =
        ibv_reg_mr(pair.right.pd, pair.left.block.data(), pair.left.block.size(), kAllAccess);
    assert_non_null(whole);
    for (const auto& [from, to] : {std::pair{0, 16}, std::pair{16, 0}}) {
        std::vector<std::uint8_t> wanted = pair.left.block;
        std::memmove(wanted.data() + to, wanted.data() + from, 1000);
        ibv_send_wr wr{};
        ibv_sge list = pair.left.sge(static_cast<std::size_t>(from), 1000);
        wr.opcode = IBV_WR_RDMA_WRITE;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.sg_list = &list;
        wr.num_sge = 1;
        wr.wr.rdma.remote_addr = pair.left.addr(static_cast<std::size_t>(to));
        wr.wr.rdma.rkey = whole->rkey;
        assert_int_equal(pair.left.post(wr), 0);
        assert_int_equal(pair.left.wait().status, IBV_WC_SUCCESS);
        assert_memory_equal(pair.left.block.data(), wanted.data(), wanted.size());
    }
    assert_int_equal(ibv_dereg_mr(whole), 0);
}

TEST(receive_not_ready__posted_later__message_is_repeated) {
    for (const Where where : kEverywhere) {
        Connected pair(where);
        assert_int_equal(pair.left.send(IBV_WR_SEND, pair.left.sge(0, 64), pair.right), 0);
        assert_true(pair.left.idle());
        assert_int_equal(pair.right.receive(pair.right.sge(0, 64)), 0);
        assert_int_equal(pair.left.wait().status, IBV_WC_SUCCESS);
        assert_int_equal(pair.right.wait().byte_len, 64);
    }
}

TEST(receive_not_ready__no_retries__fails_by_deadline_without_polling) {
    Connected pair(Where::kTwoDevices, {}, {.rnr_retries = 1});
    assert_int_equal(pair.left.send(IBV_WR_SEND, pair.left.sge(0, 64), pair.right), 0);
    // Only the device's own thread can repeat it: query_qp makes no progress.
    while (pair.left.state() != IBV_QPS_ERR) {
        std::this_thread::yield();
    }
    assert_int_equal(pair.left.wait().status, IBV_WC_RNR_RETRY_EXC_ERR);
}

TEST(peer_gone__timeouts__retry_exceeded) {
    Connected pair(Where::kTwoDevices, {}, {.timeout = 4, .retries = 2}); // 65 us
    assert_int_equal(ibv_destroy_qp(pair.right.qp), 0);
    pair.right.qp = nullptr;
    assert_int_equal(pair.left.send(IBV_WR_RDMA_WRITE, pair.left.sge(0, 64), pair.right), 0);
    assert_int_equal(pair.left.wait().status, IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(pair.left.state(), IBV_QPS_ERR);
}

TEST(remote_errors__wrong_key_or_range__both_sides_fail) {
    struct Case {
        std::uint32_t key_change;
        std::size_t offset;
        ibv_wc_status status;
    };
    for (const Case& one : {Case{0x100, 0, IBV_WC_REM_ACCESS_ERR}, Case{0, 65535, IBV_WC_REM_ACCESS_ERR}}) {
        for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
            Connected pair(Where::kTwoDevices);
            const std::vector<std::uint8_t> before = pair.right.block;
            ibv_sge sge = pair.left.sge(0, 2);
            ibv_send_wr wr{};
            wr.opcode = opcode;
            wr.sg_list = &sge;
            wr.num_sge = 1;
            wr.wr.rdma.remote_addr = pair.right.addr(one.offset);
            wr.wr.rdma.rkey = pair.right.mr->rkey ^ one.key_change;
            assert_int_equal(pair.left.post(wr), 0);
            assert_int_equal(pair.left.wait().status, one.status);
            assert_int_equal(pair.right.state(), IBV_QPS_ERR);
            assert_true(before == pair.right.block);
        }
    }
}

TEST(local_error__key_of_another_domain__completes_with_protection_error) {
    Connected pair;
    ibv_sge sge = pair.left.sge(0, 8);
    sge.lkey = pair.right.mr->lkey;
    assert_int_equal(pair.left.send(IBV_WR_RDMA_WRITE, sge, pair.right), 0);
    assert_int_equal(pair.left.send(IBV_WR_RDMA_WRITE, pair.left.sge(0, 8), pair.right, 0, 0), 0);
    assert_int_equal(pair.left.wait().status, IBV_WC_LOC_PROT_ERR);
    const ibv_wc flushed = pair.left.wait();
    assert_int_equal(flushed.status, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(flushed.wr_id, 2);
    // What is posted in error comes back at once.
    assert_int_equal(pair.left.send(IBV_WR_RDMA_WRITE, pair.left.sge(0, 8), pair.right), 0);
    assert_int_equal(pair.left.wait().status, IBV_WC_WR_FLUSH_ERR);
}

TEST(itself__connected_to_its_own_number__works) {
    const OpenContext context(open_uroce());
    End end(context.get());
    bring_up(end.qp, end.qp->qp_num, end.gid);
    std::memset(end.block.data() + 4096, 0, 4096);
    assert_int_equal(end.send(IBV_WR_RDMA_WRITE, end.sge(0, 4096), end, 4096), 0);
    assert_int_equal(end.wait().status, IBV_WC_SUCCESS);
    assert_memory_equal(end.block.data(), end.block.data() + 4096, 4096);
    assert_int_equal(end.send(IBV_WR_RDMA_WRITE, end.sge(0, 4096), end, 0), 0); // onto itself
    assert_int_equal(end.wait().status, IBV_WC_SUCCESS);
}

TEST(post_send__chain_with_a_bad_request__what_is_before_it_is_sent) {
    Connected pair;
    ibv_sge sge = pair.left.sge(0, 8);
    ibv_send_wr wr[3]{};
    for (int i = 0; i < 3; ++i) {
        wr[i].wr_id = static_cast<std::uint64_t>(i) + 1;
        wr[i].next = i < 2 ? &wr[i + 1] : nullptr;
        wr[i].opcode = IBV_WR_RDMA_WRITE;
        wr[i].send_flags = IBV_SEND_SIGNALED;
        wr[i].sg_list = &sge;
        wr[i].num_sge = 1;
        wr[i].wr.rdma.remote_addr = pair.right.addr();
        wr[i].wr.rdma.rkey = pair.right.mr->rkey;
    }
    const auto expect_one_sent = [&] {
        ibv_send_wr* bad = nullptr;
        assert_int_equal(ibv_post_send(pair.left.qp, wr, &bad), EINVAL);
        assert_ptr_equal(bad, &wr[1]);
        assert_int_equal(pair.left.wait().wr_id, 1);
        assert_true(pair.left.idle());
    };
    wr[1].send_flags = IBV_SEND_IP_CSUM;
    expect_one_sent();
    wr[1].send_flags = 1U << 20;
    expect_one_sent();
    wr[1].send_flags = 0;
    for (const std::uint32_t opcode : {8U, 11U, 14U, 31U, 32U, 0x80000000U}) {
        std::memcpy(&wr[1].opcode, &opcode, sizeof opcode);
        expect_one_sent();
    }
    wr[1].opcode = IBV_WR_RDMA_WRITE;
    for (const int count : {5, 33, -1}) {
        wr[1].num_sge = count;
        ibv_sge many[33] = {};
        wr[1].sg_list = many;
        expect_one_sent();
    }
    // A length that is beyond 32 bits when it is added up.
    ibv_sge huge[2] = {sge, sge};
    huge[0].length = huge[1].length = 0x80000004;
    wr[1].sg_list = huge;
    wr[1].num_sge = 2;
    expect_one_sent();
}

TEST(post_send__more_than_the_queue_holds__enomem) {
    EndOptions options;
    options.depth = 4;
    Connected pair(Where::kOneContext, options, {.min_rnr_timer = 31}); // half a second
    for (int i = 0; i < 4; ++i) {
        assert_int_equal(pair.left.send(IBV_WR_SEND, pair.left.sge(0, 8), pair.right), 0);
    }
    assert_int_equal(pair.left.send(IBV_WR_SEND, pair.left.sge(0, 8), pair.right), ENOMEM);
    for (int i = 0; i < 4; ++i) {
        assert_int_equal(pair.right.receive(pair.right.sge(0, 8)), 0);
    }
    assert_int_equal(pair.right.receive(pair.right.sge(0, 8)), ENOMEM);
}

TEST(srq__shared_by_two__limit_and_order) {
    EndOptions options;
    options.with_srq = true;
    Connected pair(Where::kTwoDevices, options);
    for (std::uint64_t i = 0; i < 3; ++i) {
        assert_int_equal(pair.right.receive(pair.right.sge(64 * i, 64), i), 0);
    }
    for (std::uint64_t i = 0; i < 3; ++i) {
        assert_int_equal(pair.left.send(IBV_WR_SEND, pair.left.sge(0, 16), pair.right), 0);
        assert_int_equal(pair.left.wait().status, IBV_WC_SUCCESS);
        assert_int_equal(pair.right.wait().wr_id, i);
    }
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    assert_int_equal(ibv_post_recv(pair.right.qp, &wr, &bad), EINVAL);
    ibv_srq_attr attr{};
    attr.srq_limit = 2;
    assert_int_equal(ibv_modify_srq(pair.right.srq, &attr, IBV_SRQ_LIMIT), 0);
    attr = {};
    assert_int_equal(ibv_query_srq(pair.right.srq, &attr), 0);
    assert_int_equal(attr.max_wr, 64);
    assert_int_equal(attr.max_sge, 4);
    assert_int_equal(attr.srq_limit, 2);
    attr.srq_limit = 65;
    assert_int_equal(ibv_modify_srq(pair.right.srq, &attr, IBV_SRQ_LIMIT), EINVAL);
    assert_int_equal(ibv_destroy_srq(pair.right.srq), EBUSY);
}

TEST(srq__resized_with_requests__kept_in_order) {
    EndOptions options;
    options.with_srq = true;
    Connected pair(Where::kTwoDevices, options);
    // One is taken before, so that those that wait don't begin at the ring's first place.
    for (std::uint64_t i = 0; i < 4; ++i) {
        assert_int_equal(pair.right.receive(pair.right.sge(64 * i, 64), i), 0);
    }
    const auto send_one = [&](std::uint64_t expected) {
        std::memset(pair.left.block.data(), static_cast<int>(expected + 1), 16);
        assert_int_equal(pair.left.send(IBV_WR_SEND, pair.left.sge(0, 16), pair.right), 0);
        assert_int_equal(pair.left.wait().status, IBV_WC_SUCCESS);
        assert_int_equal(pair.right.wait().wr_id, expected);
        assert_memory_equal(pair.right.block.data() + 64 * expected, pair.left.block.data(), 16);
    };
    send_one(0);
    ibv_srq_attr attr{};
    attr.max_wr = 2; // three wait
    assert_int_equal(ibv_modify_srq(pair.right.srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
    attr.max_wr = 3;
    assert_int_equal(ibv_modify_srq(pair.right.srq, &attr, IBV_SRQ_MAX_WR), 0);
    assert_int_equal(pair.right.receive(pair.right.sge(0, 64), 9), ENOMEM);
    send_one(1);
    attr.max_wr = 200;
    assert_int_equal(ibv_modify_srq(pair.right.srq, &attr, IBV_SRQ_MAX_WR), 0);
    assert_int_equal(pair.right.receive(pair.right.sge(256, 64), 4), 0);
    for (std::uint64_t i = 2; i < 5; ++i) {
        send_one(i);
    }
    assert_int_equal(ibv_query_srq(pair.right.srq, &attr), 0);
    assert_int_equal(attr.max_wr, 200);
    attr.max_wr = 0;
    assert_int_equal(ibv_modify_srq(pair.right.srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
}

// This machine's libibverbs may be too old to have a place for the function.
TEST(flush__by_our_own_function__completes_as_one) {
    constexpr std::uint64_t kWithFlush = 1ULL << 11;
    constexpr int kFlushGlobal = 1 << 8;
    constexpr int kFlushPersistent = 1 << 9;
    EndOptions options;
    options.wr_ops = IBV_QP_EX_WITH_RDMA_WRITE | kWithFlush;
    Connected pair(Where::kTwoDevices, options);
    pair.right.renew_region(kAllAccess | kFlushGlobal | kFlushPersistent);
    ibv_qp_ex* ex = ibv_qp_to_qp_ex(pair.left.qp);
    assert_non_null(ex);
    for (const std::uint8_t type : {1, 2}) { // visible, persistent
        ibv_wr_start(ex);
        ex->wr_id = type;
        ex->wr_flags = IBV_SEND_SIGNALED;
        assert_int_equal(sluice::provider::wr_flush(ex, {.rkey = pair.right.mr->rkey,
                                                         .remote_addr = pair.right.addr(),
                                                         .len_bytes = 64,
                                                         .type = type,
                                                         .level = 0}),
                         0);
        assert_int_equal(ibv_wr_complete(ex), 0);
        const ibv_wc wc = pair.left.wait();
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.wr_id, type);
    }
}

// A region says which flushes it takes.
TEST(flush__not_allowed_by_the_region__remote_access_error) {
    EndOptions options;
    options.wr_ops = 1ULL << 11;
    Connected pair(Where::kTwoDevices, options);
    pair.right.renew_region(kAllAccess | 1 << 8);
    ibv_qp_ex* ex = ibv_qp_to_qp_ex(pair.left.qp);
    ibv_wr_start(ex);
    ex->wr_flags = IBV_SEND_SIGNALED;
    assert_int_equal(sluice::provider::wr_flush(ex, {.rkey = pair.right.mr->rkey,
                                                     .remote_addr = pair.right.addr(),
                                                     .len_bytes = 64,
                                                     .type = 2,
                                                     .level = 0}),
                     0);
    assert_int_equal(ibv_wr_complete(ex), 0);
    assert_int_equal(pair.left.wait().status, IBV_WC_REM_ACCESS_ERR);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("uroce.verbs_data");
}
