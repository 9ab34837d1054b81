// SPDX-License-Identifier: BSD-3-Clause
//
// Contexts that are closed with objects left: what worked in the device leaves it, and the handles stay
// safe to use, for nothing but being destroyed.
#include "provider/uroce/verbs/objects.hpp"
#include "tests/unit/uroce/opened.hpp"
#include "tests/unit/uroce/resident.hpp"

using namespace sluice::uroce::test;

namespace {

// One of each kind, which nobody destroys by accident.
struct Handles {
    explicit Handles(ibv_context* context) : ah_attr{} {
        pd = ibv_alloc_pd(context);
        ibv_td_init_attr td_attr{};
        td = ibv_alloc_td(context, &td_attr);
        ibv_parent_domain_init_attr parent_attr{};
        parent_attr.pd = pd;
        parent_attr.td = td;
        parent = ibv_alloc_parent_domain(context, &parent_attr);
        mr = ibv_reg_mr(pd, block, sizeof block, kAllAccess | IBV_ACCESS_MW_BIND);
        mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
        channel = *sluice::uroce::verbs::create_comp_channel(context);
        cq = ibv_create_cq(context, 64, nullptr, channel, 0);
        ibv_cq_init_attr_ex cq_attr{};
        cq_attr.cqe = 64;
        cq_ex = ibv_create_cq_ex(context, &cq_attr);
        ibv_srq_init_attr srq_attr{};
        srq_attr.attr = {16, 2, 0};
        srq = ibv_create_srq(pd, &srq_attr);
        ibv_qp_init_attr_ex init{};
        init.send_cq = cq;
        init.recv_cq = ibv_cq_ex_to_cq(cq_ex);
        init.srq = srq;
        init.cap = {16, 0, 2, 0, 64};
        init.qp_type = IBV_QPT_RC;
        init.pd = parent;
        init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        init.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE;
        qp = ibv_create_qp_ex(context, &init);
        ah_attr.is_global = 1;
        ah_attr.port_num = 1;
        assert_int_equal(ibv_query_gid(context, 1, 0, &ah_attr.grh.dgid), 0);
        ah = ibv_create_ah(pd, &ah_attr);
        assert_true(parent != nullptr && mr != nullptr && mw != nullptr && cq != nullptr &&
                    cq_ex != nullptr && srq != nullptr && qp != nullptr && ah != nullptr);
    }

    void destroy() const {
        assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
        assert_int_equal(ibv_destroy_cq(cq), EBUSY);
        assert_int_equal(ibv_destroy_ah(ah), 0);
        assert_int_equal(ibv_destroy_qp(qp), 0);
        assert_int_equal(ibv_destroy_srq(srq), 0);
        assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq_ex)), 0);
        assert_int_equal(ibv_destroy_cq(cq), 0);
        assert_int_equal(ibv_destroy_comp_channel(channel), 0);
        assert_int_equal(ibv_dealloc_mw(mw), 0);
        assert_int_equal(ibv_dereg_mr(mr), 0);
        assert_int_equal(ibv_dealloc_pd(parent), 0);
        assert_int_equal(ibv_dealloc_td(td), 0);
        assert_int_equal(ibv_dealloc_pd(pd), 0);
    }

    std::uint8_t block[64]{};
    ibv_ah_attr ah_attr;
    ibv_pd* pd = nullptr;
    ibv_td* td = nullptr;
    ibv_pd* parent = nullptr;
    ibv_mr* mr = nullptr;
    ibv_mw* mw = nullptr;
    ibv_comp_channel* channel = nullptr;
    ibv_cq* cq = nullptr;
    ibv_cq_ex* cq_ex = nullptr;
    ibv_srq* srq = nullptr;
    ibv_qp* qp = nullptr;
    ibv_ah* ah = nullptr;
};

void expect_posts_fail(const Handles& left) {
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(left.block), 8, left.mr->lkey};
    ibv_send_wr send{};
    send.sg_list = &sge;
    send.num_sge = 1;
    ibv_send_wr* bad_send = nullptr;
    assert_int_equal(ibv_post_send(left.qp, &send, &bad_send), EIO);
    assert_ptr_equal(bad_send, &send);
    ibv_recv_wr receive{};
    ibv_recv_wr* bad_receive = nullptr;
    assert_int_equal(ibv_post_srq_recv(left.srq, &receive, &bad_receive), EIO);
    assert_ptr_equal(bad_receive, &receive);
    ibv_qp_ex* qp = ibv_qp_to_qp_ex(left.qp);
    ibv_wr_start(qp);
    ibv_wr_send(qp);
    ibv_wr_set_sge(qp, left.mr->lkey, sge.addr, 8);
    assert_int_equal(ibv_wr_complete(qp), EIO);
    ibv_wr_start(qp);
    ibv_wr_abort(qp);
    ibv_mw_bind bind{};
    bind.bind_info = {left.mr, sge.addr, 8, IBV_ACCESS_REMOTE_READ};
    assert_int_equal(ibv_bind_mw(left.qp, left.mw, &bind), EIO);
}

void expect_queries_fail(const Handles& left) {
    ibv_wc wc{};
    assert_int_equal(ibv_poll_cq(left.cq, 1, &wc), -EIO);
    ibv_poll_cq_attr poll{};
    assert_int_equal(ibv_start_poll(left.cq_ex, &poll), EIO);
    assert_int_equal(ibv_req_notify_cq(left.cq, 0), EIO);
    assert_int_equal(ibv_resize_cq(left.cq, 128), EIO);
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    assert_int_equal(ibv_query_qp(left.qp, &attr, IBV_QP_STATE, &init), EIO);
    attr.qp_state = IBV_QPS_ERR;
    assert_int_equal(ibv_modify_qp(left.qp, &attr, IBV_QP_STATE), EIO);
    ibv_srq_attr srq_attr{};
    assert_int_equal(ibv_query_srq(left.srq, &srq_attr), EIO);
    assert_int_equal(ibv_modify_srq(left.srq, &srq_attr, IBV_SRQ_LIMIT), EIO);
}

template<typename T>
void expect_none(T* made) {
    assert_null(made);
    assert_int_equal(errno, EIO);
}

void expect_nothing_is_made(Handles& left) {
    expect_none(ibv_reg_mr(left.pd, left.block, 8, 0));
    assert_int_equal(ibv_rereg_mr(left.mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0),
                     IBV_REREG_MR_ERR_CMD);
    expect_none(ibv_alloc_mw(left.pd, IBV_MW_TYPE_2));
    expect_none(ibv_create_ah(left.pd, &left.ah_attr));
    ibv_srq_init_attr srq_attr{};
    srq_attr.attr = {16, 2, 0};
    expect_none(ibv_create_srq(left.pd, &srq_attr));
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = left.cq;
    init.qp_type = IBV_QPT_RC;
    expect_none(ibv_create_qp(left.pd, &init));
    ibv_parent_domain_init_attr parent_attr{};
    parent_attr.pd = left.pd;
    expect_none(ibv_alloc_parent_domain(left.pd->context, &parent_attr));
}

TEST(close__everything_left__calls_fail_and_destroying_works) {
    for (int i = 0; i < 2; ++i) { // the first context that is closed so has another end than the next
        ibv_context* leaving = open_uroce();
        Handles left(leaving);
        assert_int_equal(ibv_close_device(leaving), 0);
        expect_posts_fail(left);
        expect_queries_fail(left);
        expect_nothing_is_made(left);
        left.destroy();
    }
}

TEST(close__handles_of_two_contexts_left__each_destroyed_in_any_order) {
    ibv_context* first = open_uroce();
    ibv_context* second = open_uroce(own_address(1));
    const Handles of_first(first);
    const Handles of_second(second);
    assert_int_equal(ibv_close_device(first), 0);
    assert_int_equal(ibv_close_device(second), 0);
    of_second.destroy();
    of_first.destroy();
}

TEST(close__with_queue_pairs_left__others_go_on) {
    ibv_context* leaving = open_uroce();
    Connected pair;
    const Handles left(leaving);
    const ibv_qp_attr attr = usual_path(pair.left.qp->qp_num, pair.left.gid, {});
    assert_int_equal(modify(left.qp, attr, IBV_QPS_INIT, kToInit | IBV_QP_ACCESS_FLAGS), 0);
    assert_int_equal(ibv_close_device(leaving), 0);
    assert_int_equal(pair.left.send(IBV_WR_RDMA_WRITE, pair.left.sge(0, 8), pair.right), 0);
    assert_int_equal(pair.left.wait().status, IBV_WC_SUCCESS);
    left.destroy();
}

TEST(close__peer_writes_to_what_was_left__gets_no_answer_and_memory_stays) {
    const OpenContext staying(open_uroce());
    ibv_context* leaving = open_uroce();
    auto peer = std::make_unique<End>(leaving);
    End end(staying.get());
    connect(end, *peer, {.timeout = 1, .retries = 1});
    assert_int_equal(end.send(IBV_WR_RDMA_WRITE, end.sge(0, 64), *peer), 0);
    assert_int_equal(end.wait().status, IBV_WC_SUCCESS);
    const std::vector<std::uint8_t> before = peer->block;
    assert_int_equal(ibv_close_device(leaving), 0);
    assert_int_equal(end.send(IBV_WR_RDMA_WRITE, end.sge(64, 64), *peer), 0);
    assert_int_equal(end.wait().status, IBV_WC_RETRY_EXC_ERR);
    assert_true(peer->block == before);
}

// More of them than the device has room for, while another context keeps it.
TEST(close__regions_and_windows_left__their_slots_come_back) {
    constexpr std::uint32_t kEach = 256;
    constexpr std::uint32_t kRounds = 2 * sluice::uroce::device::Device::kMaxRegions / (2 * kEach);
    const OpenContext staying(open_uroce());
    const End end(staying.get());
    std::uint8_t byte = 0;
    std::vector<ibv_mr*> regions;
    std::vector<ibv_mw*> windows;
    std::vector<ibv_pd*> domains;
    for (std::uint32_t round = 0; round < kRounds; ++round) {
        ibv_context* leaving = open_uroce();
        domains.push_back(ibv_alloc_pd(leaving));
        for (std::uint32_t i = 0; i < kEach; ++i) {
            regions.push_back(ibv_reg_mr(domains.back(), &byte, 1, 0));
            windows.push_back(ibv_alloc_mw(domains.back(), IBV_MW_TYPE_2));
            assert_true(regions.back() != nullptr && windows.back() != nullptr);
        }
        assert_int_equal(ibv_close_device(leaving), 0);
    }
    for (ibv_mr* region : regions) {
        assert_int_equal(ibv_dereg_mr(region), 0);
    }
    for (ibv_mw* window : windows) {
        assert_int_equal(ibv_dealloc_mw(window), 0);
    }
    for (ibv_pd* domain : domains) {
        assert_int_equal(ibv_dealloc_pd(domain), 0);
    }
    // Destroying the handles took nobody else's slot with it, and gave none back twice.
    regions.clear();
    while (ibv_mr* region = ibv_reg_mr(end.pd, &byte, 1, 0)) {
        regions.push_back(region);
    }
    assert_int_equal(regions.size(), sluice::uroce::device::Device::kMaxRegions - 1); // END has one
    for (ibv_mr* region : regions) {
        assert_int_equal(ibv_dereg_mr(region), 0);
    }
}

TEST(close__many_times_with_everything_left__memory_stays) {
    constexpr int kRounds = 3000;
    const OpenContext staying(open_uroce());
    std::size_t before_kib = 0;
    for (int round = 0; round < kRounds; ++round) {
        ibv_context* leaving = open_uroce();
        const Handles left(leaving);
        assert_int_equal(ibv_close_device(leaving), 0);
        left.destroy();
        if (round == kRounds / 10) {
            before_kib = resident_kib();
        }
    }
    assert_in_range(resident_kib(), 0, before_kib + 256); // 97 bytes a round
}

// Of a domain and a region that nobody ever destroys there remains what the program has of them.
TEST(close__many_times_and_nothing_destroyed__only_the_handles_remain) {
    constexpr int kRounds = 8000;
    constexpr std::size_t kBytesEach = 240; // 216 by count, and pages of the heap
    static std::vector<ibv_mr*> left;       // so that they are no leak
    left.reserve(kRounds);
    const OpenContext staying(open_uroce());
    std::size_t before_kib = 0;
    std::uint8_t byte = 0;
    for (int round = 0; round < kRounds; ++round) {
        ibv_context* leaving = open_uroce();
        left.push_back(ibv_reg_mr(ibv_alloc_pd(leaving), &byte, 1, 0));
        assert_non_null(left.back());
        assert_int_equal(ibv_close_device(leaving), 0);
        if (round == kRounds / 10) {
            before_kib = resident_kib();
        }
    }
    assert_in_range(resident_kib(), 0, before_kib + kRounds * kBytesEach / 1024);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("uroce.verbs_close");
}
