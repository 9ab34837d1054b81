// SPDX-License-Identifier: BSD-3-Clause
//
// Handles of nobody and of another context, and the last of the limits: refused with the right errno, and
// nothing is half-done.
#include <sys/mman.h>

#include "tests/unit/uroce/opened.hpp"

using namespace sluice::uroce::test;

namespace {

template<typename T>
void expect_null(const T* made, int error) {
    assert_null(made);
    assert_int_equal(errno, error);
}

// Two contexts, each with everything. What the first refuses to do with what is the second's shows in the
// end: destroying fails with EBUSY where a count of users is too high.
struct TwoContexts {
    explicit TwoContexts(const char* other_address)
        : first(open_uroce()), second(open_uroce(other_address)), own(first.get(), options()),
          foreign(second.get(), options()) {}
    static EndOptions options() {
        EndOptions made;
        made.with_srq = true;
        return made;
    }

    OpenContext first;
    OpenContext second;
    End own;
    End foreign;
};

void refuse_foreign_handles(const char* other_address) {
    TwoContexts two(other_address);
    ibv_context* const context = two.first.get();
    const auto refused = [&](auto&& change) {
        ibv_qp_init_attr_ex attr{};
        attr.send_cq = attr.recv_cq = two.own.cq;
        attr.cap = {4, 4, 1, 1, 0};
        attr.qp_type = IBV_QPT_RC;
        attr.pd = two.own.pd;
        attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS; // so that libibverbs asks us
        change(attr);
        expect_null(ibv_create_qp_ex(context, &attr), EINVAL);
    };
    refused([](ibv_qp_init_attr_ex& attr) { attr.send_cq = nullptr; });
    refused([](ibv_qp_init_attr_ex& attr) { attr.recv_cq = nullptr; });
    refused([](ibv_qp_init_attr_ex& attr) { attr.pd = nullptr; });
    refused([&](ibv_qp_init_attr_ex& attr) { attr.send_cq = two.foreign.cq; });
    refused([&](ibv_qp_init_attr_ex& attr) { attr.recv_cq = two.foreign.cq; });
    refused([&](ibv_qp_init_attr_ex& attr) { attr.srq = two.foreign.srq; });
    refused([&](ibv_qp_init_attr_ex& attr) { attr.pd = two.foreign.pd; });

    ibv_srq_init_attr_ex srq{};
    srq.attr = {4, 1, 0};
    srq.comp_mask = IBV_SRQ_INIT_ATTR_PD;
    for (ibv_pd* const pd : {static_cast<ibv_pd*>(nullptr), two.foreign.pd}) {
        srq.pd = pd;
        verbs_context* const operations = verbs_get_ctx_op(context, create_srq_ex);
        assert_non_null(operations);
        expect_null(operations->create_srq_ex(context, &srq), EINVAL);
        ibv_parent_domain_init_attr parent{};
        parent.pd = pd;
        expect_null(ibv_alloc_parent_domain(context, &parent), EINVAL);
        const std::uint32_t key = two.own.mr->lkey;
        assert_int_equal(ibv_rereg_mr(two.own.mr, IBV_REREG_MR_CHANGE_PD, pd, nullptr, 0, 0),
                         IBV_REREG_MR_ERR_CMD);
        assert_int_equal(two.own.mr->lkey, key);
        assert_ptr_equal(two.own.mr->pd, two.own.pd);
    }

    ibv_comp_channel* channel = *sluice::uroce::verbs::create_comp_channel(two.second.get());
    expect_null(ibv_create_cq(context, 4, nullptr, channel, 0), EINVAL);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
    ibv_parent_domain_init_attr parent_attr{};
    parent_attr.pd = two.foreign.pd;
    ibv_pd* parent = ibv_alloc_parent_domain(two.second.get(), &parent_attr);
    for (ibv_pd* const domain : {two.own.pd, parent}) { // not a parent domain, and not ours
        ibv_cq_init_attr_ex cq{};
        cq.cqe = 4;
        cq.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
        cq.parent_domain = domain;
        expect_null(ibv_create_cq_ex(context, &cq), EINVAL);
    }
    assert_int_equal(ibv_dealloc_pd(parent), 0);

    ibv_mw* window = ibv_alloc_mw(two.foreign.pd, IBV_MW_TYPE_1);
    ibv_mw_bind bind{};
    bind.bind_info = {two.own.mr, two.own.addr(), 8, IBV_ACCESS_REMOTE_READ};
    assert_int_equal(ibv_bind_mw(two.own.qp, window, &bind), EPERM);
    assert_int_equal(ibv_bind_mw(two.foreign.qp, window, &bind), EPERM);
    assert_int_equal(ibv_dealloc_mw(window), 0);
}

TEST(handles__of_nobody_or_another_context__refused) {
    refuse_foreign_handles(own_address(0).c_str());
}

// Whose domains have the same numbers.
TEST(handles__of_another_device__refused) {
    refuse_foreign_handles(own_address(1).c_str());
}

TEST(datagrams__handle_of_nobody_or_another_context__refused) {
    EndOptions options;
    options.type = IBV_QPT_UD;
    const Connected pair(Where::kTwoContexts, options);
    ibv_ah_attr path{};
    path.is_global = 1;
    path.port_num = 1;
    path.grh.dgid = pair.right.gid;
    ibv_ah* foreign = ibv_create_ah(pair.right.pd, &path);
    assert_non_null(foreign);
    for (ibv_ah* const ah : {static_cast<ibv_ah*>(nullptr), foreign}) {
        ibv_send_wr wr{};
        ibv_send_wr* bad = nullptr;
        wr.opcode = IBV_WR_SEND;
        wr.wr.ud.ah = ah;
        assert_int_equal(ibv_post_send(pair.left.qp, &wr, &bad), EINVAL);
        assert_ptr_equal(bad, &wr);
    }
    assert_int_equal(ibv_destroy_ah(foreign), 0);
}

TEST(changes__one_more_or_unknown__refused_with_nothing_changed) {
    const OpenContext context(open_uroce());
    EndOptions options;
    options.with_srq = true;
    const End end(context.get(), options);
    ibv_device_attr device{};
    assert_int_equal(ibv_query_device(context.get(), &device), 0);
    for (const int cqe : {-1, 0, device.max_cqe + 1}) {
        assert_int_equal(ibv_resize_cq(end.cq, cqe), EINVAL);
    }
    assert_int_equal(end.cq->cqe, options.cqe);
    ibv_srq_attr before{};
    assert_int_equal(ibv_query_srq(end.srq, &before), 0);
    for (const std::uint32_t wr : {0U, static_cast<std::uint32_t>(device.max_srq_wr) + 1}) {
        ibv_srq_attr attr{wr, 0, 0};
        assert_int_equal(ibv_modify_srq(end.srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
    }
    ibv_srq_attr attr{before.max_wr * 2, 0, before.max_wr * 2 + 1}; // a limit beyond what it holds
    assert_int_equal(ibv_modify_srq(end.srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), EINVAL);
    attr.srq_limit = 1;
    assert_int_equal(ibv_modify_srq(end.srq, &attr, 1 << 7 | IBV_SRQ_LIMIT), EINVAL);
    ibv_srq_attr after{};
    assert_int_equal(ibv_query_srq(end.srq, &after), 0);
    assert_memory_equal(&after, &before, sizeof after);
    assert_int_equal(ibv_rereg_mr(end.mr, 1 << 7, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
    ibv_wc wc{};
    assert_int_equal(ibv_poll_cq(end.cq, -1, &wc), -EINVAL);
    expect_null(ibv_alloc_mw(end.pd, static_cast<ibv_mw_type>(0)), EINVAL);
}

TEST(modify_qp__access_of_a_region__taken_for_what_it_means_here) {
    const OpenContext context(open_uroce());
    const End end(context.get());
    ibv_qp_attr attr{};
    attr.port_num = 1;
    attr.qp_access_flags =
        kAllAccess | IBV_ACCESS_ON_DEMAND | IBV_ACCESS_RELAXED_ORDERING | IBV_ACCESS_HUGETLB;
    assert_int_equal(modify(end.qp, attr, IBV_QPS_INIT, kToInit | IBV_QP_ACCESS_FLAGS), 0);
    attr.qp_access_flags = 1 << 15;
    assert_int_equal(modify(end.qp, attr, IBV_QPS_INIT, kToInit | IBV_QP_ACCESS_FLAGS), EINVAL);
}

TEST(post_recv__bad_requests__refused_with_the_request) {
    Connected pair;
    ibv_sge list[33]{};
    for (const int count : {5, 33, -1}) {
        ibv_recv_wr wr{};
        ibv_recv_wr* bad = nullptr;
        wr.sg_list = list;
        wr.num_sge = count;
        assert_int_equal(ibv_post_recv(pair.right.qp, &wr, &bad), EINVAL);
        assert_ptr_equal(bad, &wr);
    }
}

// A list that is announced and isn't there.
TEST(post__count_without_a_list__refused_with_the_request) {
    Connected pair;
    for (const unsigned flags : {unsigned{IBV_SEND_SIGNALED}, unsigned{IBV_SEND_INLINE}}) {
        ibv_send_wr wr{};
        ibv_send_wr* bad = nullptr;
        wr.opcode = IBV_WR_SEND;
        wr.send_flags = flags;
        wr.num_sge = 1;
        assert_int_equal(ibv_post_send(pair.left.qp, &wr, &bad), EINVAL);
        assert_ptr_equal(bad, &wr);
    }
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    wr.num_sge = 1;
    assert_int_equal(ibv_post_recv(pair.right.qp, &wr, &bad), EINVAL);
    assert_ptr_equal(bad, &wr);
    Connected shared(Where::kOneContext, {.with_srq = true});
    assert_int_equal(ibv_post_srq_recv(shared.right.srq, &wr, &bad), EINVAL);
    assert_ptr_equal(bad, &wr);
}

TEST(wr_api__count_without_a_list_or_beyond_any__whole_chain_refused) {
    Connected pair(Where::kOneContext, {.wr_ops = IBV_QP_EX_WITH_SEND});
    ibv_qp_ex* const qp = ibv_qp_to_qp_ex(pair.left.qp);
    const ibv_sge one = pair.left.sge(0, 1);
    for (int i = 0; i < 4; ++i) {
        ibv_wr_start(qp);
        ibv_wr_send(qp);
        i == 0   ? ibv_wr_set_sge_list(qp, 1, nullptr)
        : i == 1 ? ibv_wr_set_inline_data_list(qp, 1, nullptr)
        : i == 2 ? ibv_wr_set_inline_data(qp, nullptr, 8)
                 : ibv_wr_set_sge_list(qp, std::size_t{1} << 40, &one);
        assert_int_equal(ibv_wr_complete(qp), EINVAL);
    }
    assert_true(pair.left.idle());
}

constexpr std::size_t kPage = 4096;
constexpr int kOnDemand = kAllAccess | IBV_ACCESS_ON_DEMAND;

// Writes 8 bytes of the left block to ADDRESS, by a region with this key.
ibv_wc_status write_to(Connected& pair, std::uint64_t address, std::uint32_t rkey) {
    ibv_sge sge = pair.left.sge(0, 8);
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.rdma.remote_addr = address;
    wr.wr.rdma.rkey = rkey;
    assert_int_equal(pair.left.post(wr), 0);
    return pair.left.wait().status;
}

TEST(reg_mr__paged_on_demand__memory_may_come_later) {
    Connected pair;
    auto* const place =
        static_cast<std::uint8_t*>(mmap(nullptr, 3 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ibv_mr* const region = ibv_reg_mr(pair.right.pd, place, 3 * kPage, kOnDemand);
    assert_non_null(region);
    const auto address = reinterpret_cast<std::uintptr_t>(place);
    assert_int_equal(mprotect(place + kPage, kPage, PROT_READ | PROT_WRITE), 0);
    assert_int_equal(write_to(pair, address + kPage, region->rkey), IBV_WC_SUCCESS);
    assert_memory_equal(place + kPage, pair.left.block.data(), 8);
    // What may not be written to shows now: it wasn't looked at before.
    assert_int_equal(mprotect(place, kPage, PROT_READ), 0);
    assert_int_equal(write_to(pair, address, region->rkey), IBV_WC_REM_OP_ERR);
    assert_int_equal(ibv_dereg_mr(region), 0);
    munmap(place, 3 * kPage);
}

TEST(reg_mr__implicit__opens_all_addresses) {
    Connected pair;
    ibv_mr* const all = ibv_reg_mr(pair.right.pd, nullptr, SIZE_MAX, kOnDemand);
    assert_non_null(all);
    assert_int_equal(write_to(pair, pair.right.addr(100), all->rkey), IBV_WC_SUCCESS);
    assert_memory_equal(pair.right.block.data() + 100, pair.left.block.data(), 8);
    assert_int_equal(write_to(pair, 8, all->rkey), IBV_WC_REM_OP_ERR); // nothing is there
    assert_int_equal(ibv_dereg_mr(all), 0);
    expect_null(ibv_reg_mr(pair.right.pd, nullptr, SIZE_MAX, kAllAccess), EFAULT); // who would pin that?
}

TEST(advise_mr__each_mistake__has_its_errno) {
    const OpenContext context(open_uroce());
    const End end(context.get());
    ibv_pd* const pd = end.pd;
    auto* const memory = static_cast<std::uint8_t*>(
        mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ibv_mr* const region = ibv_reg_mr(pd, memory, 4 * kPage, kOnDemand);
    ibv_mr* const readable = ibv_reg_mr(pd, memory, 4 * kPage, int{IBV_ACCESS_ON_DEMAND});
    assert_true(region != nullptr && readable != nullptr);
    const auto advise = [&](const ibv_mr& mr, int advice, std::size_t offset, std::uint32_t len,
                            std::uint32_t flags, std::uint32_t count = 1) {
        ibv_sge sge = {reinterpret_cast<std::uintptr_t>(memory) + offset, len, mr.lkey};
        return ibv_advise_mr(pd, static_cast<ibv_advise_mr_advice>(advice), flags, &sge, count);
    };
    const auto is_resident = [&](std::size_t page) {
        unsigned char there = 0;
        assert_int_equal(mincore(memory + page * kPage, kPage, &there), 0);
        return (there & 1) != 0;
    };
    constexpr std::uint32_t kFlush = IBV_ADVISE_MR_FLAG_FLUSH;
    assert_false(is_resident(1));
    assert_int_equal(advise(*region, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, kPage, 8, kFlush), 0);
    assert_false(is_resident(1));
    assert_int_equal(advise(*region, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, kPage + 4, 8, kFlush), 0);
    assert_true(is_resident(1) && !is_resident(0) && !is_resident(2));
    assert_int_equal(advise(*region, IBV_ADVISE_MR_ADVICE_PREFETCH, 3 * kPage, 0, kFlush), 0);
    assert_int_equal(advise(*readable, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, 8, kFlush), EPERM);
    ibv_mr unknown = *region;
    unknown.lkey ^= 1;
    assert_int_equal(advise(unknown, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, 8, kFlush), EINVAL);
    assert_int_equal(advise(*region, IBV_ADVISE_MR_ADVICE_PREFETCH, 4 * kPage - 4, 8, kFlush), EFAULT);
    assert_int_equal(advise(*region, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, 8, kFlush | 2), EOPNOTSUPP);
    assert_int_equal(advise(*region, 77, 0, 8, kFlush), EOPNOTSUPP);
    assert_int_equal(advise(*region, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, 8, kFlush, 0), EINVAL);
    munmap(memory + 2 * kPage, kPage);
    assert_int_equal(advise(*region, IBV_ADVISE_MR_ADVICE_PREFETCH, 2 * kPage, 8, kFlush), EFAULT);
    assert_int_equal(advise(*region, IBV_ADVISE_MR_ADVICE_PREFETCH, 2 * kPage, 8, 0), 0);
    assert_int_equal(ibv_dereg_mr(region), 0);
    assert_int_equal(ibv_dereg_mr(readable), 0);
    munmap(memory, 4 * kPage);
}

// Such a region is paged like any other here: fio's servers ask so for persistent memory.
TEST(advise_mr__region_without_paging_on_demand__faults_in) {
    const OpenContext context(open_uroce());
    const End end(context.get());
    auto* const memory = static_cast<std::uint8_t*>(
        mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ibv_mr* const region = ibv_reg_mr(end.pd, memory, 2 * kPage, int{IBV_ACCESS_LOCAL_WRITE});
    assert_non_null(region);
    assert_int_equal(madvise(memory, 2 * kPage, MADV_DONTNEED), 0);
    ibv_sge sge = {reinterpret_cast<std::uintptr_t>(memory), 8, region->lkey};
    assert_int_equal(
        ibv_advise_mr(end.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1), 0);
    std::array<unsigned char, 2> there{};
    assert_int_equal(mincore(memory, 2 * kPage, there.data()), 0);
    assert_true((there[0] & 1) != 0 && (there[1] & 1) == 0);
    assert_int_equal(ibv_dereg_mr(region), 0);
    munmap(memory, 2 * kPage);
}

TEST(query_device__atomics_towards_the_host__of_eight_bytes) {
    const OpenContext context(open_uroce());
    ibv_device_attr_ex device{};
    assert_int_equal(ibv_query_device_ex(context.get(), nullptr, &device), 0);
    assert_int_equal(device.pci_atomic_caps.fetch_add, IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP);
    assert_int_equal(device.pci_atomic_caps.compare_swap, IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP);
    assert_int_equal(device.pci_atomic_caps.swap, 0);
}

TEST(query_device__paging_on_demand__for_every_transport) {
    const OpenContext context(open_uroce());
    ibv_device_attr_ex device{};
    assert_int_equal(ibv_query_device_ex(context.get(), nullptr, &device), 0);
    assert_int_equal(device.odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
    assert_int_equal(device.odp_caps.per_transport_caps.rc_odp_caps, 0x3f);
    assert_int_equal(device.odp_caps.per_transport_caps.uc_odp_caps,
                     IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE |
                         IBV_ODP_SUPPORT_SRQ_RECV);
    assert_int_equal(device.odp_caps.per_transport_caps.ud_odp_caps,
                     IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV);
}

ibv_dm* alloc_dm(ibv_context* context, std::size_t len, std::uint32_t log_align = 0,
                 std::uint32_t comp_mask = 0) {
    ibv_alloc_dm_attr attr{.length = len, .log_align_req = log_align, .comp_mask = comp_mask};
    return ibv_alloc_dm(context, &attr);
}

TEST(device_memory__by_copies_and_by_peers__is_one_memory) {
    Connected pair;
    ibv_device_attr_ex device{};
    assert_int_equal(ibv_query_device_ex(pair.first.get(), nullptr, &device), 0);
    assert_int_equal(device.max_dm_size, 64 << 20);
    ibv_dm* const dm = alloc_dm(pair.first.get(), 100, 6);
    assert_non_null(dm);
    std::array<std::uint8_t, 100> bytes{};
    bytes.fill(9);
    assert_int_equal(ibv_memcpy_from_dm(bytes.data(), dm, 0, 100), 0);
    assert_true(std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t byte) { return byte == 0; }));
    assert_int_equal(ibv_memcpy_to_dm(dm, 48, pair.left.block.data() + 200, 52), 0);
    constexpr unsigned kAccess = unsigned{kAllAccess} | IBV_ACCESS_ZERO_BASED;
    ibv_mr* const region = ibv_reg_dm_mr(pair.right.pd, dm, 40, 60, kAccess);
    assert_non_null(region);
    assert_null(region->addr);
    assert_int_equal(region->length, 60);
    assert_int_equal(write_to(pair, 0, region->rkey), IBV_WC_SUCCESS);
    assert_int_equal(ibv_memcpy_from_dm(bytes.data(), dm, 40, 60), 0);
    assert_memory_equal(bytes.data(), pair.left.block.data(), 8);
    assert_memory_equal(bytes.data() + 8, pair.left.block.data() + 200, 52);
    assert_int_equal(ibv_free_dm(dm), EBUSY);
    assert_int_equal(ibv_rereg_mr(region, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kAllAccess),
                     IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(write_to(pair, 56, region->rkey), IBV_WC_REM_ACCESS_ERR); // four bytes too many
    assert_int_equal(ibv_dereg_mr(region), 0);
    assert_int_equal(ibv_free_dm(dm), 0);
}

TEST(device_memory__each_mistake__has_its_errno) {
    const OpenContext context(open_uroce());
    const OpenContext other(open_uroce());
    expect_null(alloc_dm(context.get(), 0), EINVAL);
    expect_null(alloc_dm(context.get(), (std::size_t{64} << 20) + 1), EINVAL);
    expect_null(alloc_dm(context.get(), 8, 40), EINVAL);
    expect_null(alloc_dm(context.get(), 8, 0, 1), EOPNOTSUPP);
    ibv_pd* const pd = ibv_alloc_pd(context.get());
    ibv_pd* const foreign = ibv_alloc_pd(other.get());
    ibv_dm* const dm = alloc_dm(context.get(), 4096, 12);
    std::array<std::uint8_t, 8> bytes{};
    assert_int_equal(ibv_memcpy_to_dm(dm, 4092, bytes.data(), 8), EFAULT);
    assert_int_equal(ibv_memcpy_from_dm(bytes.data(), dm, ~std::uint64_t{3}, 8), EFAULT);
    assert_int_equal(ibv_memcpy_to_dm(dm, 2, bytes.data(), 4), EINVAL);
    assert_int_equal(ibv_memcpy_from_dm(bytes.data(), dm, 0, 7), EINVAL);
    expect_null(ibv_reg_dm_mr(pd, dm, 0, 8, int{IBV_ACCESS_LOCAL_WRITE}), EINVAL); // not zero based
    expect_null(ibv_reg_dm_mr(pd, dm, 4089, 8, int{IBV_ACCESS_ZERO_BASED}), EINVAL);
    expect_null(ibv_reg_dm_mr(foreign, dm, 0, 8, int{IBV_ACCESS_ZERO_BASED}), EINVAL);
    assert_int_equal(ibv_free_dm(dm), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(ibv_dealloc_pd(foreign), 0);
}

// Adapters pin the pages, and learn then that they may not be written to.
TEST(reg_mr__page_that_may_not_be_written__refused_for_writing_only) {
    const OpenContext context(open_uroce());
    ibv_pd* const pd = ibv_alloc_pd(context.get());
    for (const std::size_t pages : {std::size_t{3}, std::size_t{1024}}) { // asked for, and looked up
        auto* const memory = static_cast<std::uint8_t*>(
            mmap(nullptr, pages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        assert_int_equal(mprotect(memory + kPage, kPage, PROT_READ), 0);
        for (const int access :
             {int{IBV_ACCESS_LOCAL_WRITE}, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
              IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC}) {
            expect_null(ibv_reg_mr(pd, memory, pages * kPage, access), EFAULT);
        }
        ibv_mr* const readable = ibv_reg_mr(pd, memory, pages * kPage, int{IBV_ACCESS_REMOTE_READ});
        assert_non_null(readable);
        assert_int_equal(ibv_rereg_mr(readable, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kAllAccess),
                         IBV_REREG_MR_ERR_CMD);
        assert_int_equal(ibv_dereg_mr(readable), 0);
        ibv_mr* const beside = ibv_reg_mr(pd, memory + 2 * kPage, (pages - 2) * kPage, kAllAccess);
        assert_non_null(beside);
        assert_int_equal(ibv_dereg_mr(beside), 0);
        munmap(memory, pages * kPage);
    }
    assert_int_equal(ibv_dealloc_pd(pd), 0);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("uroce.verbs_refusals");
}
