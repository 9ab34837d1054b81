// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <memory>
#include <thread>

#include "provider/rxe/context.hpp"
#include "provider/rxe/verbs.hpp"
#include "tests/unit/provider/opened_device.hpp"

using namespace sluice::provider;
using namespace sluice::provider::testing;
using sluice::abi::Slot;

namespace {

constexpr std::uint32_t kDepth = 7; // of each queue; eight slots, one of them always empty

// A device with a domain, a completion queue and a queue pair that is ready to send.
struct Rig {
    explicit Rig(ibv_qp_type type = IBV_QPT_RC, bool single_threaded = false) : device(rxe::open) {
        pd = device.call<ibv_pd*(ibv_context*)>(Slot::alloc_pd, device.context());
        if (single_threaded) {
            ibv_td_init_attr td_attr{};
            td = device.call<ibv_td*(ibv_context*, ibv_td_init_attr*)>(Slot::alloc_td, device.context(),
                                                                       &td_attr);
            ibv_parent_domain_init_attr attr{};
            attr.pd = pd;
            attr.td = td;
            parent = device.call<ibv_pd*(ibv_context*, ibv_parent_domain_init_attr*)>(
                Slot::alloc_parent_domain, device.context(), &attr);
            assert_non_null(parent);
        }
        cq = rxe::create_cq(device.context(), kDepth, nullptr, 0);
        assert_non_null(cq);
        qp = make_qp(type);
        assert_non_null(qp);
        go_to(IBV_QPS_RTS);
    }
    ~Rig() {
        assert_int_equal(rxe::destroy_qp(qp), 0);
        assert_int_equal(rxe::destroy_cq(cq), 0);
        if (parent != nullptr) {
            assert_int_equal(dealloc(pd), EBUSY);
            assert_int_equal(dealloc(parent), 0);
            assert_int_equal(device.call<int(ibv_td*)>(Slot::dealloc_td, td), 0);
        }
        assert_int_equal(dealloc(pd), 0);
    }
    Rig(const Rig&) = delete;
    Rig& operator=(const Rig&) = delete;

    int dealloc(ibv_pd* domain) { return device.call<int(ibv_pd*)>(Slot::dealloc_pd, domain); }

    ibv_qp* make_qp(ibv_qp_type type, std::uint64_t ops = 0) {
        ibv_qp_init_attr_ex attr{};
        attr.send_cq = cq;
        attr.recv_cq = cq;
        attr.cap = {.max_send_wr = kDepth,
                    .max_recv_wr = kDepth,
                    .max_send_sge = 2,
                    .max_recv_sge = 2,
                    .max_inline_data = 32};
        attr.qp_type = type;
        attr.comp_mask = IBV_QP_INIT_ATTR_PD | (ops != 0 ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0);
        attr.pd = parent != nullptr ? parent : pd;
        attr.send_ops_flags = ops;
        return rxe::create_qp_ex(device.context(), &attr);
    }
    void go_to(ibv_qp_state state) { move(qp, state); }
    static void move(ibv_qp* pair, ibv_qp_state state) {
        ibv_qp_attr attr{};
        attr.qp_state = state;
        assert_int_equal(rxe::modify_qp(pair, &attr, IBV_QP_STATE), 0);
    }

    FakeRing& cq_ring() { return device.kernel.ring(0); }
    FakeRing& recv_ring() { return device.kernel.ring(1); }
    FakeRing& send_ring() { return device.kernel.ring(2); }
    rxe_send_wqe& sent(std::uint32_t i) { return *reinterpret_cast<rxe_send_wqe*>(send_ring().element(i)); }
    std::uint8_t* sent_data(std::uint32_t i) { return send_ring().element(i) + 208; }

    int post(ibv_send_wr& wr, ibv_send_wr** bad = nullptr) {
        ibv_send_wr* ignored = nullptr;
        return rxe::post_send(qp, &wr, bad != nullptr ? bad : &ignored);
    }

    OpenedDevice device;
    ibv_pd* pd = nullptr;
    ibv_pd* parent = nullptr;
    ibv_td* td = nullptr;
    ibv_cq* cq = nullptr;
    ibv_qp* qp = nullptr;
};

ibv_send_wr send_request(ibv_sge* list, int count, unsigned flags = IBV_SEND_SIGNALED) {
    ibv_send_wr wr{};
    wr.wr_id = 11;
    wr.sg_list = list;
    wr.num_sge = count;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = flags;
    return wr;
}

// --- sending ---

void post_send__rdma_write__fills_the_element(void**) {
    Rig rig;
    ibv_sge list[2] = {{.addr = 0x1000, .length = 10, .lkey = 5}, {.addr = 0x2000, .length = 20, .lkey = 6}};
    ibv_send_wr wr = send_request(list, 2);
    wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    wr.imm_data = 0x1234;
    wr.wr.rdma = {.remote_addr = 0xabc0, .rkey = 99};
    memset(rig.send_ring().element(0), 0xff, 64); // what the last user left
    assert_int_equal(rig.post(wr), 0);

    const rxe_send_wqe& wqe = rig.sent(0);
    assert_int_equal(wqe.wr.wr_id, 11);
    assert_int_equal(wqe.wr.opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
    assert_int_equal(wqe.wr.send_flags, IBV_SEND_SIGNALED);
    assert_int_equal(wqe.wr.ex.imm_data, 0x1234);
    assert_int_equal(wqe.wr.wr.rdma.remote_addr, 0xabc0);
    assert_int_equal(wqe.wr.wr.rdma.rkey, 99);
    assert_int_equal(wqe.state, 0);
    assert_int_equal(wqe.iova, 0xabc0);
    assert_int_equal(wqe.dma.length, 30);
    assert_int_equal(wqe.dma.resid, 30);
    assert_int_equal(wqe.dma.num_sge, 2);
    assert_memory_equal(rig.sent_data(0), list, sizeof list);
    assert_int_equal(rig.send_ring().header().producer_index, 1);
    assert_int_equal(rig.device.kernel.doorbells_by_write, 1);
}

void post_send__inline__copies_the_bytes(void**) {
    Rig rig;
    char first[] = "hello ";
    char second[] = "world";
    ibv_sge list[2] = {{.addr = reinterpret_cast<std::uintptr_t>(first), .length = 6, .lkey = 0},
                       {.addr = reinterpret_cast<std::uintptr_t>(second), .length = 5, .lkey = 0}};
    ibv_send_wr wr = send_request(list, 2, IBV_SEND_INLINE);
    assert_int_equal(rig.post(wr), 0);
    assert_memory_equal(rig.sent_data(0), "hello world", 11);
    assert_int_equal(rig.sent(0).dma.length, 11);
}

void post_send__chain__rings_once(void**) {
    Rig rig;
    ibv_send_wr wr[4];
    for (int i = 0; i < 4; ++i) {
        wr[i] = send_request(nullptr, 0);
        wr[i].next = i < 3 ? &wr[i + 1] : nullptr;
    }
    assert_int_equal(rig.post(wr[0]), 0);
    assert_int_equal(rig.send_ring().header().producer_index, 4);
    assert_int_equal(rig.device.kernel.doorbells_by_write, 1);
}

void post_send__queue_full__enomem_and_the_request(void**) {
    Rig rig;
    ibv_send_wr wr[kDepth + 2];
    for (std::uint32_t i = 0; i < kDepth + 2; ++i) {
        wr[i] = send_request(nullptr, 0);
        wr[i].next = i <= kDepth ? &wr[i + 1] : nullptr;
    }
    ibv_send_wr* bad = nullptr;
    assert_int_equal(rig.post(wr[0], &bad), ENOMEM);
    assert_ptr_equal(bad, &wr[kDepth]);
    assert_int_equal(rig.send_ring().header().producer_index, kDepth);
    // The kernel takes one, and there is room for one.
    rig.send_ring().header().consumer_index = 1;
    wr[0].next = nullptr;
    assert_int_equal(rig.post(wr[0]), 0);
    assert_int_equal(rig.post(wr[0], &bad), ENOMEM);
    assert_int_equal(rig.send_ring().header().producer_index, 0);
}

void expect_refused(Rig& rig, ibv_send_wr wr, int error) {
    const std::vector<std::uint8_t> before = rig.send_ring().memory;
    const int doorbells = rig.device.kernel.doorbells_by_write;
    ibv_send_wr* bad = nullptr;
    assert_int_equal(rxe::post_send(rig.qp, &wr, &bad), error);
    assert_ptr_equal(bad, &wr);
    assert_memory_equal(before.data(), rig.send_ring().memory.data(), before.size());
    assert_int_equal(rig.device.kernel.doorbells_by_write, doorbells);
}

void post_send__bad_request__einval_and_no_trace(void**) {
    Rig rig;
    std::array<char, 64> bytes{};
    ibv_sge list[3] = {
        {.addr = reinterpret_cast<std::uintptr_t>(bytes.data()), .length = 8, .lkey = 0}, {}, {}};

    ibv_send_wr wr = send_request(list, 1);
    wr.opcode = static_cast<ibv_wr_opcode>(12);
    expect_refused(rig, wr, EINVAL);
    constexpr std::uint32_t kNonsense = 200;
    memcpy(&wr.opcode, &kNonsense, sizeof kNonsense);
    expect_refused(rig, wr, EINVAL);
    wr = send_request(list, 1, 1U << 20);
    expect_refused(rig, wr, EINVAL);
    wr = send_request(list, 3); // more than fit
    expect_refused(rig, wr, EINVAL);
    wr = send_request(list, -1);
    expect_refused(rig, wr, EINVAL);

    list[0].length = 33; // one more than fits
    wr = send_request(list, 1, IBV_SEND_INLINE);
    expect_refused(rig, wr, EINVAL);
    list[0].length = 0xffff'fff0; // a sum that wraps in 32 bits, to 16
    list[1].length = 32;
    wr = send_request(list, 2, IBV_SEND_INLINE);
    expect_refused(rig, wr, EINVAL);
    wr = send_request(list, 2);
    expect_refused(rig, wr, EINVAL);

    list[0].length = 8;
    wr = send_request(list, 1, IBV_SEND_INLINE);
    wr.opcode = IBV_WR_RDMA_READ;
    expect_refused(rig, wr, EINVAL);
    wr = send_request(list, 1);
    wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    wr.wr.atomic.remote_addr = 4;
    expect_refused(rig, wr, EINVAL);
    wr.wr.atomic.remote_addr = 8;
    list[0].length = 7;
    expect_refused(rig, wr, EINVAL);
    wr.opcode = IBV_WR_BIND_MW;
    wr.bind_mw.mw = nullptr;
    expect_refused(rig, wr, EINVAL);
}

void post_send__atomic_write_on_a_kernel_without__einval(void**) {
    Rig rig;
    std::uint64_t value = 1;
    ibv_sge list = {.addr = reinterpret_cast<std::uintptr_t>(&value), .length = 8, .lkey = 0};
    ibv_send_wr wr = send_request(&list, 1);
    wr.opcode = static_cast<ibv_wr_opcode>(rxe::kWrAtomicWrite);
    expect_refused(rig, wr, EINVAL);
}

void post_send__before_ready_to_send__einval(void**) {
    Rig rig;
    ibv_send_wr wr = send_request(nullptr, 0);
    for (const ibv_qp_state state : {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR}) {
        rig.go_to(state);
        expect_refused(rig, wr, EINVAL);
    }
    rig.go_to(IBV_QPS_ERR);
    assert_int_equal(rig.post(wr), 0);
}

void post_send__datagram__needs_a_handle_of_this_device(void**) {
    Rig rig(IBV_QPT_UD);
    ibv_send_wr wr = send_request(nullptr, 0);
    expect_refused(rig, wr, EINVAL);
    ibv_ah foreign{};
    wr.wr.ud.ah = &foreign;
    expect_refused(rig, wr, EINVAL);
    wr.opcode = IBV_WR_RDMA_WRITE;
    expect_refused(rig, wr, EINVAL);

    ibv_ah_attr attr{};
    ibv_ah* ah = rxe::create_ah(rig.pd, &attr);
    assert_non_null(ah);
    wr.opcode = IBV_WR_SEND;
    wr.wr.ud = {.ah = ah, .remote_qpn = 7, .remote_qkey = 8};
    assert_int_equal(rig.post(wr), 0);
    assert_int_equal(rig.sent(0).wr.wr.ud.ah_num, 77);
    assert_int_equal(rig.sent(0).wr.wr.ud.remote_qpn, 7);
    assert_int_equal(rig.sent(0).wr.wr.ud.remote_qkey, 8);
    assert_int_equal(rxe::destroy_ah(ah), 0);
}

void create_ah__kernel_without_numbers__eopnotsupp_and_no_leak(void**) {
    Rig rig(IBV_QPT_UD);
    rig.device.kernel.ah_number = 0;
    ibv_ah_attr attr{};
    assert_null(rxe::create_ah(rig.pd, &attr));
    assert_int_equal(errno, EOPNOTSUPP);
}

void doorbell__write_refused__goes_by_ioctl_from_then_on(void**) {
    Rig rig;
    ibv_send_wr wr = send_request(nullptr, 0);
    assert_int_equal(rig.post(wr), 0);
    rig.device.kernel.write_error = EACCES;
    assert_int_equal(rig.post(wr), 0);
    rig.device.kernel.write_error = 0;
    assert_int_equal(rig.post(wr), 0);
    assert_int_equal(rig.device.kernel.doorbells_by_write, 1);
    assert_int_equal(rig.device.kernel.doorbells_by_ioctl, 2);
}

void post_send__thread_domain__takes_no_lock(void**) {
    const Rig rig(IBV_QPT_RC, true);
    assert_true(rxe::qp_of(rig.qp).send.lock.elided());
    assert_true(rxe::qp_of(rig.qp).recv.lock.elided());
}

void post_send__two_threads__lose_nothing(void**) {
    Rig rig;
    constexpr int kRounds = 200;
    std::atomic<int> posted{0};
    const auto worker = [&] {
        for (int i = 0; i < kRounds;) {
            ibv_send_wr wr = send_request(nullptr, 0);
            if (rig.post(wr) == 0) {
                ++i;
                ++posted;
            } else {
                std::this_thread::yield();
            }
        }
    };
    std::thread first(worker);
    std::thread second(worker);
    // The kernel: takes what it sees.
    std::uint32_t taken = 0;
    while (taken < 2 * kRounds) {
        rxe_queue_buf& header = rig.send_ring().header();
        const std::uint32_t produced = __atomic_load_n(&header.producer_index, __ATOMIC_ACQUIRE);
        taken += (produced - header.consumer_index) & rig.send_ring().mask;
        __atomic_store_n(&header.consumer_index, produced, __ATOMIC_RELEASE);
        std::this_thread::yield();
    }
    first.join();
    second.join();
    assert_int_equal(taken, 2 * kRounds);
}

// --- receiving ---

void post_recv__fills_the_element__and_takes_no_doorbell(void**) {
    Rig rig;
    ibv_sge list = {.addr = 0x1000, .length = 100, .lkey = 5};
    ibv_recv_wr wr{.wr_id = 3, .next = nullptr, .sg_list = &list, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    assert_int_equal(rxe::post_recv(rig.qp, &wr, &bad), 0);
    const auto& wqe = *reinterpret_cast<rxe_recv_wqe*>(rig.recv_ring().element(0));
    assert_int_equal(wqe.wr_id, 3);
    assert_int_equal(wqe.dma.length, 100);
    assert_int_equal(wqe.dma.num_sge, 1);
    assert_memory_equal(rig.recv_ring().element(0) + 40, &list, sizeof list);
    assert_int_equal(rig.recv_ring().header().producer_index, 1);
    assert_int_equal(rig.device.kernel.doorbells_by_write, 0);
}

void post_recv__bad_requests__are_refused(void**) {
    Rig rig;
    ibv_sge list[3]{};
    ibv_recv_wr* bad = nullptr;
    ibv_recv_wr wr{.wr_id = 3, .next = nullptr, .sg_list = list, .num_sge = 3};
    assert_int_equal(rxe::post_recv(rig.qp, &wr, &bad), EINVAL);
    assert_ptr_equal(bad, &wr);
    wr.num_sge = -1;
    assert_int_equal(rxe::post_recv(rig.qp, &wr, &bad), EINVAL);
    wr.num_sge = 2;
    list[0].length = list[1].length = 0x8000'0000;
    assert_int_equal(rxe::post_recv(rig.qp, &wr, &bad), EINVAL);
    wr.num_sge = 0;
    for (std::uint32_t i = 0; i < kDepth; ++i) {
        assert_int_equal(rxe::post_recv(rig.qp, &wr, &bad), 0);
    }
    assert_int_equal(rxe::post_recv(rig.qp, &wr, &bad), ENOMEM);
    rig.go_to(IBV_QPS_RESET);
    assert_int_equal(rxe::post_recv(rig.qp, &wr, &bad), EINVAL);
}

void srq__post_and_resize__keeps_working(void**) {
    Rig rig;
    ibv_srq_init_attr init{};
    init.attr = {.max_wr = 3, .max_sge = 2, .srq_limit = 0};
    ibv_srq* srq = rxe::create_srq(rig.pd, &init);
    assert_non_null(srq);
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    for (int i = 0; i < 3; ++i) {
        assert_int_equal(rxe::post_srq_recv(srq, &wr, &bad), 0);
    }
    assert_int_equal(rxe::post_srq_recv(srq, &wr, &bad), ENOMEM);
    ibv_srq_attr attr{.max_wr = 15, .max_sge = 2, .srq_limit = 0};
    assert_int_equal(rxe::modify_srq(srq, &attr, IBV_SRQ_MAX_WR), 0);
    assert_int_equal(rxe::post_srq_recv(srq, &wr, &bad), 0);
    attr.srq_limit = 2;
    assert_int_equal(rxe::modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
    assert_int_equal(rxe::destroy_srq(srq), 0);
}

// --- completions ---

ib_uverbs_wc completion(std::uint64_t wr_id) {
    ib_uverbs_wc wc{};
    wc.wr_id = wr_id;
    wc.byte_len = 5;
    wc.qp_num = 9;
    wc.wc_flags = IBV_WC_WITH_IMM;
    wc.ex.imm_data = 0x55;
    return wc;
}

void poll_cq__batch__takes_what_is_there(void**) {
    Rig rig;
    std::array<ibv_wc, 16> wc{};
    assert_int_equal(rxe::poll_cq(rig.cq, 16, wc.data()), 0);
    for (std::uint64_t i = 0; i < 5; ++i) {
        FakeKernel::complete(rig.cq_ring(), completion(i));
    }
    assert_int_equal(rxe::poll_cq(rig.cq, 3, wc.data()), 3);
    assert_int_equal(rig.cq_ring().header().consumer_index, 3);
    assert_int_equal(rxe::poll_cq(rig.cq, 16, wc.data() + 3), 2);
    for (std::uint64_t i = 0; i < 5; ++i) {
        assert_int_equal(wc[i].wr_id, i);
        assert_int_equal(wc[i].qp_num, 9);
    }
    assert_int_equal(rxe::poll_cq(rig.cq, 0, wc.data()), 0);
    FakeKernel::complete(rig.cq_ring(), completion(9));
    assert_int_equal(rxe::poll_cq(rig.cq, -1, wc.data()), -EINVAL);
    assert_int_equal(rxe::poll_cq(rig.cq, 1, wc.data()), 1);
}

void poll_cq__around_the_end__wraps(void**) {
    Rig rig;
    ibv_wc wc{};
    for (std::uint64_t i = 0; i < 100; ++i) {
        FakeKernel::complete(rig.cq_ring(), completion(i));
        assert_int_equal(rxe::poll_cq(rig.cq, 1, &wc), 1);
        assert_int_equal(wc.wr_id, i);
    }
}

ibv_cq_ex* make_cq_ex(Rig& rig, std::uint32_t flags, std::uint64_t wc_flags = IBV_WC_STANDARD_FLAGS) {
    ibv_cq_init_attr_ex attr{};
    attr.cqe = kDepth;
    attr.wc_flags = wc_flags;
    attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    attr.flags = flags;
    return rxe::create_cq_ex(rig.device.context(), &attr);
}

void start_poll__next_poll__end_poll__walk_the_ring(void**) {
    Rig rig;
    ibv_cq_ex* cq = make_cq_ex(rig, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
    assert_non_null(cq);
    assert_true(rxe::cq_of(cq).lock.elided());
    FakeRing& ring = rig.device.kernel.ring(3);
    ibv_poll_cq_attr attr{};
    for (int round = 0; round < 20; ++round) {
        assert_int_equal(cq->start_poll(cq, &attr), ENOENT);
        for (std::uint64_t i = 0; i < 3; ++i) {
            FakeKernel::complete(ring, completion(i));
        }
        assert_int_equal(cq->start_poll(cq, &attr), 0);
        assert_int_equal(cq->wr_id, 0);
        assert_int_equal(cq->next_poll(cq), 0);
        assert_int_equal(cq->wr_id, 1);
        assert_int_equal(cq->read_byte_len(cq), 5);
        assert_int_equal(cq->read_imm_data(cq), 0x55);
        assert_int_equal(cq->read_qp_num(cq), 9);
        assert_int_equal(cq->read_wc_flags(cq), IBV_WC_WITH_IMM);
        if (round % 2 == 0) {
            assert_int_equal(cq->next_poll(cq), 0);
            assert_int_equal(cq->next_poll(cq), ENOENT);
            assert_int_equal(cq->next_poll(cq), ENOENT);
            cq->end_poll(cq);
        } else {
            cq->end_poll(cq);
            assert_int_equal(cq->start_poll(cq, &attr), 0);
            assert_int_equal(cq->wr_id, 2);
            cq->end_poll(cq);
        }
        assert_int_equal(ring.header().consumer_index, ring.header().producer_index);
    }
    attr.comp_mask = 1;
    assert_int_equal(cq->start_poll(cq, &attr), EINVAL);
    assert_int_equal(rxe::destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

void create_cq_ex__what_rxe_can_not__eopnotsupp(void**) {
    Rig rig;
    assert_null(make_cq_ex(rig, 0, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_null(make_cq_ex(rig, 1U << 10));
    assert_int_equal(errno, EOPNOTSUPP);
}

void create_cq__ring_can_not_be_mapped__leaves_nothing(void**) {
    Rig rig;
    rig.device.kernel.mmap_error = ENOMEM;
    assert_null(rxe::create_cq(rig.device.context(), 3, nullptr, 0));
    assert_int_equal(errno, ENOMEM);
    assert_null(rig.make_qp(IBV_QPT_RC));
    assert_int_equal(errno, ENOMEM);
    rig.device.kernel.mmap_error = 0;
}

void resize_cq__moves_what_waits__and_the_old_ring_is_left(void**) {
    Rig rig;
    ibv_wc wc{};
    FakeKernel::complete(rig.cq_ring(), completion(1));
    FakeKernel::complete(rig.cq_ring(), completion(2));
    assert_int_equal(rxe::poll_cq(rig.cq, 1, &wc), 1);
    assert_int_equal(rxe::resize_cq(rig.cq, 31), 0);
    assert_int_equal(rig.cq->cqe, 31);
    FakeRing& ring = rig.device.kernel.ring(3);
    FakeKernel::complete(ring, completion(3));
    assert_int_equal(rxe::poll_cq(rig.cq, 1, &wc), 1);
    assert_int_equal(wc.wr_id, 2);
    assert_int_equal(rxe::poll_cq(rig.cq, 1, &wc), 1);
    assert_int_equal(wc.wr_id, 3);
}

// --- the ibv_wr_* interface ---

constexpr std::uint64_t kWrOps = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
                                 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV;

// An extended queue pair beside the rig's own; its rings are numbers 3 and 4.
struct ExtendedRig : Rig {
    ExtendedRig() : pair(make_qp(IBV_QPT_RC, kWrOps)) {
        assert_non_null(pair);
        move(pair, IBV_QPS_RTS);
        ex = reinterpret_cast<ibv_qp_ex*>(pair);
    }
    ~ExtendedRig() { assert_int_equal(rxe::destroy_qp(pair), 0); }
    ExtendedRig(const ExtendedRig&) = delete;
    ExtendedRig& operator=(const ExtendedRig&) = delete;

    FakeRing& ring() { return device.kernel.ring(4); }
    rxe_send_wqe& wqe(std::uint32_t i) { return *reinterpret_cast<rxe_send_wqe*>(ring().element(i)); }

    ibv_qp* pair;
    ibv_qp_ex* ex;
};

void wr_api__two_requests__are_published_together(void**) {
    ExtendedRig rig;
    rig.ex->wr_start(rig.ex);
    rig.ex->wr_id = 1;
    rig.ex->wr_flags = IBV_SEND_SIGNALED;
    rig.ex->wr_rdma_write(rig.ex, 55, 0x4000);
    const ibv_sge list[2] = {{.addr = 1, .length = 10, .lkey = 2}, {.addr = 3, .length = 30, .lkey = 4}};
    rig.ex->wr_set_sge_list(rig.ex, 2, list);
    rig.ex->wr_id = 2;
    rig.ex->wr_send(rig.ex);
    char one[] = "abc";
    char two[] = "defg";
    const ibv_data_buf buffers[2] = {{.addr = one, .length = 3}, {.addr = two, .length = 4}};
    rig.ex->wr_set_inline_data_list(rig.ex, 2, buffers);
    assert_int_equal(rig.ring().header().producer_index, 0);
    assert_int_equal(rig.ex->wr_complete(rig.ex), 0);
    assert_int_equal(rig.ring().header().producer_index, 2);
    assert_int_equal(rig.wqe(0).dma.length, 40);
    assert_int_equal(rig.wqe(0).dma.num_sge, 2);
    assert_int_equal(rig.wqe(1).dma.length, 7);
    assert_int_equal(rig.wqe(1).wr.send_flags, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
    assert_memory_equal(rig.ring().element(1) + 208, "abcdefg", 7);
    assert_int_equal(rig.device.kernel.doorbells_by_write, 1);
}

void wr_api__an_error__posts_nothing(void**) {
    ExtendedRig rig;
    char bytes[40] = {};
    rig.ex->wr_flags = 0;
    rig.ex->wr_start(rig.ex);
    rig.ex->wr_send(rig.ex);
    rig.ex->wr_send(rig.ex);
    rig.ex->wr_set_inline_data(rig.ex, bytes, 33);
    rig.ex->wr_set_sge(rig.ex, 1, 2, 3);
    rig.ex->wr_send(rig.ex);
    assert_int_equal(rig.ex->wr_complete(rig.ex), EINVAL);

    const ibv_data_buf huge[2] = {{.addr = bytes, .length = 16}, {.addr = bytes, .length = SIZE_MAX - 8}};
    rig.ex->wr_start(rig.ex);
    rig.ex->wr_send(rig.ex);
    rig.ex->wr_set_inline_data_list(rig.ex, 2, huge);
    assert_int_equal(rig.ex->wr_complete(rig.ex), EINVAL);

    rig.ex->wr_start(rig.ex);
    rig.ex->wr_atomic_fetch_add(rig.ex, 1, 4, 5);
    assert_int_equal(rig.ex->wr_complete(rig.ex), EINVAL);

    rig.ex->wr_start(rig.ex);
    for (std::uint32_t i = 0; i <= kDepth; ++i) {
        rig.ex->wr_send(rig.ex);
    }
    assert_int_equal(rig.ex->wr_complete(rig.ex), ENOMEM);

    rig.ex->wr_start(rig.ex);
    rig.ex->wr_send(rig.ex);
    rig.ex->wr_abort(rig.ex);
    rig.move(rig.pair, IBV_QPS_RESET);
    rig.ex->wr_start(rig.ex);
    rig.ex->wr_send(rig.ex);
    assert_int_equal(rig.ex->wr_complete(rig.ex), EINVAL);
    assert_int_equal(rig.ring().header().producer_index, 0);
    assert_int_equal(rig.device.kernel.doorbells_by_write, 0);
}

void create_qp_ex__operations_that_the_kernel_lacks__eopnotsupp(void**) {
    Rig rig;
    constexpr std::uint64_t kAtomicWrite = 1ULL << 12;
    constexpr std::uint64_t kFlush = 1ULL << 11;
    assert_null(rig.make_qp(IBV_QPT_RC, kAtomicWrite));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_null(rig.make_qp(IBV_QPT_RC, IBV_QP_EX_WITH_TSO));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_null(rig.make_qp(IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE));
    assert_int_equal(errno, EOPNOTSUPP);
    rig.device.kernel.device_flags = rxe::kDeviceAtomicWrite | rxe::kDeviceFlushGlobal;
    ibv_qp* qp = rig.make_qp(IBV_QPT_RC, kAtomicWrite | kFlush);
    assert_non_null(qp);
    Rig::move(qp, IBV_QPS_RTS);
    auto* ex = reinterpret_cast<ibv_qp_ex*>(qp);
    const auto slot = [qp](std::size_t offset) {
        void* function = nullptr;
        memcpy(&function, reinterpret_cast<const std::byte*>(qp) + offset, sizeof function);
        return function;
    };
    const auto flush = reinterpret_cast<void (*)(ibv_qp_ex*, std::uint32_t, std::uint64_t, std::size_t,
                                                 std::uint8_t, std::uint8_t)>(slot(352));
    const auto atomic_write =
        reinterpret_cast<void (*)(ibv_qp_ex*, std::uint32_t, std::uint64_t, const void*)>(slot(344));
    const std::uint64_t value = 0x0123'4567'89ab'cdef;
    ex->wr_start(ex);
    atomic_write(ex, 5, 0x1000, &value);
    flush(ex, 6, 0x2000, 64, 1, 0);
    assert_int_equal(ex->wr_complete(ex), 0);
    FakeRing& ring = rig.device.kernel.ring(4);
    assert_memory_equal(ring.element(0) + 208, &value, sizeof value);
    assert_int_equal(reinterpret_cast<rxe_send_wqe*>(ring.element(0))->dma.length, 8);
    assert_int_equal(reinterpret_cast<rxe_send_wqe*>(ring.element(1))->wr.opcode, rxe::kWrFlush);
    assert_int_equal(rxe::destroy_qp(qp), 0);
}

// --- a device that goes away ---

void device_gone__by_doorbell__requests_come_back_flushed(void**) {
    Rig rig;
    ibv_recv_wr recv{};
    recv.wr_id = 100;
    ibv_recv_wr* bad_recv = nullptr;
    assert_int_equal(rxe::post_recv(rig.qp, &recv, &bad_recv), 0);
    ibv_send_wr wr = send_request(nullptr, 0, 0);
    wr.wr_id = 1;
    assert_int_equal(rig.post(wr), 0);
    FakeKernel::complete(rig.cq_ring(), completion(1));
    rig.send_ring().header().consumer_index = 1;
    rig.device.kernel.write_error = EIO;
    rig.device.kernel.ioctl_error = EIO;
    wr.wr_id = 2;
    assert_int_equal(rig.post(wr), 0);
    wr.wr_id = 3;
    expect_refused(rig, wr, EIO);
    assert_int_equal(rxe::post_recv(rig.qp, &recv, &bad_recv), EIO);

    std::array<ibv_wc, 8> wc{};
    assert_int_equal(rxe::poll_cq(rig.cq, 8, wc.data()), 1);
    assert_int_equal(wc[0].wr_id, 1);
    assert_int_equal(rxe::poll_cq(rig.cq, 8, wc.data()), 2);
    for (int i = 0; i < 2; ++i) {
        assert_int_equal(wc[i].status, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(wc[i].qp_num, rig.qp->qp_num);
        assert_true(wc[i].wr_id == 2 || wc[i].wr_id == 100);
    }
    assert_int_equal(rxe::poll_cq(rig.cq, 8, wc.data()), 0);
    // Destroying succeeds, though the kernel has forgotten all of it.
    rig.device.kernel.live.clear();
}

void device_gone__by_polling_only__is_noticed(void**) {
    Rig rig;
    ibv_send_wr wr = send_request(nullptr, 0, 0);
    assert_int_equal(rig.post(wr), 0);
    rig.device.kernel.ioctl_error = EIO;
    ibv_wc wc{};
    int polls = 0;
    while (rxe::poll_cq(rig.cq, 1, &wc) == 0) {
        assert_true(++polls < 1 << 20);
    }
    assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
    rig.device.kernel.live.clear();
}

// --- rings as hostile memory ---

void each_word_of(FakeRing& ring, void (*act)(Rig&), Rig& rig) {
    constexpr std::uint32_t kValues[] = {0, 1,           6,           7,           8,
                                         9, 0x7fff'ffff, 0x8000'0000, 0xffff'fff8, 0xffff'ffff};
    for (std::size_t at = 0; at + 4 <= ring.memory.size(); at += 4) {
        const std::vector<std::uint8_t> before = ring.memory;
        for (const std::uint32_t value : kValues) {
            memcpy(ring.memory.data() + at, &value, sizeof value);
            act(rig);
        }
        memcpy(ring.memory.data(), before.data(), before.size());
    }
}

void completion_ring__any_word_wrong__stays_inside(void**) {
    Rig rig;
    for (std::uint64_t i = 0; i < kDepth; ++i) {
        FakeKernel::complete(rig.cq_ring(), completion(i));
    }
    each_word_of(
        rig.cq_ring(),
        [](Rig& r) {
            std::array<ibv_wc, 4> wc{};
            for (int i = 0; i < 3; ++i) {
                const int n = rxe::poll_cq(r.cq, 4, wc.data());
                assert_true(n >= 0 && n <= 4);
            }
        },
        rig);
}

void send_ring__any_word_wrong__stays_inside(void**) {
    Rig rig;
    each_word_of(
        rig.send_ring(),
        [](Rig& r) {
            std::array<char, 32> bytes{};
            ibv_sge list = {.addr = reinterpret_cast<std::uintptr_t>(bytes.data()), .length = 32, .lkey = 0};
            ibv_send_wr wr = send_request(&list, 1, IBV_SEND_INLINE);
            for (int i = 0; i < 3; ++i) {
                const int error = r.post(wr);
                assert_true(error == 0 || error == ENOMEM);
            }
        },
        rig);
}

void receive_ring__any_word_wrong__stays_inside(void**) {
    Rig rig;
    each_word_of(
        rig.recv_ring(),
        [](Rig& r) {
            ibv_sge list[2] = {};
            ibv_recv_wr wr{.wr_id = 3, .next = nullptr, .sg_list = list, .num_sge = 2};
            ibv_recv_wr* bad = nullptr;
            for (int i = 0; i < 3; ++i) {
                const int error = rxe::post_recv(r.qp, &wr, &bad);
                assert_true(error == 0 || error == ENOMEM);
            }
        },
        rig);
}

void flushing__rings_wrong__ends_and_stays_inside(void**) {
    Rig rig;
    context_of(rig.device.context()).gone = true;
    each_word_of(
        rig.send_ring(),
        [](Rig& r) {
            rxe::qp_of(r.qp).send.flushed = 0;
            std::array<ibv_wc, 64> wc{};
            const int n = rxe::poll_cq(r.cq, 64, wc.data());
            assert_true(n >= 0 && n < 64);
        },
        rig);
}

void create_cq__geometry_wrong__is_refused(void**) {
    Rig rig;
    FakeKernel& kernel = rig.device.kernel;
    constexpr void (*kSpoilers[])(FakeRing&) = {
        [](FakeRing& ring) { ring.header().log2_elem_size = 5; },
        [](FakeRing& ring) { ring.header().log2_elem_size = 7; },
        [](FakeRing& ring) { ring.header().log2_elem_size = 64; },
        [](FakeRing& ring) { ring.header().log2_elem_size = 0xffff'ffff; },
        [](FakeRing& ring) { ring.header().index_mask = 0; },
        [](FakeRing& ring) { ring.header().index_mask = 5; },
        [](FakeRing& ring) { ring.header().index_mask = 15; },
        [](FakeRing& ring) { ring.header().index_mask = 0xffff'ffff; },
        [](FakeRing& ring) { ring.memory.resize(383); },
    };
    for (const auto spoiler : kSpoilers) {
        kernel.spoil = spoiler;
        assert_null(rxe::create_cq(rig.device.context(), kDepth, nullptr, 0));
        assert_int_equal(errno, EINVAL);
    }
    kernel.spoil = nullptr;
}

void send_ring__elements_smaller_than_promised__is_refused(void**) {
    Rig rig;
    rig.device.kernel.spoil = [](FakeRing& ring) { ring.header().log2_elem_size = 6; };
    assert_null(rig.make_qp(IBV_QPT_RC));
    assert_int_equal(errno, EINVAL);
    rig.device.kernel.spoil = nullptr;
}

// --- control ---

void create_qp__wrong_arguments__fail_half_done_with_nothing(void**) {
    Rig rig;
    assert_null(rig.make_qp(IBV_QPT_RAW_PACKET));
    assert_int_equal(errno, EOPNOTSUPP);
    ibv_cq* cq = rig.cq;
    rig.cq = nullptr;
    assert_null(rig.make_qp(IBV_QPT_RC));
    assert_int_equal(errno, EINVAL);
    rig.cq = cq;
    rig.device.kernel.fail_command = IB_USER_VERBS_CMD_CREATE_QP;
    assert_null(rig.make_qp(IBV_QPT_RC));
    assert_int_equal(errno, EINVAL);
}

void query_device_ex__shorter_structure__is_filled_as_far(void**) {
    Rig rig;
    struct {
        ibv_device_attr attr;
        std::uint64_t guard;
    } room{};
    room.guard = 0x1111;
    const int error =
        rig.device
            .call<int(ibv_context*, const ibv_query_device_ex_input*, ibv_device_attr_ex*, std::size_t)>(
                Slot::query_device_ex, rig.device.context(),
                static_cast<const ibv_query_device_ex_input*>(nullptr),
                reinterpret_cast<ibv_device_attr_ex*>(&room.attr), sizeof room.attr);
    assert_int_equal(error, 0);
    assert_int_equal(room.attr.max_qp, 12);
    assert_string_equal(room.attr.fw_ver, "1.2.3");
    assert_int_equal(room.guard, 0x1111);
}

void bind_mw__type_1__gives_a_new_key(void**) {
    Rig rig;
    ibv_mw* mw = rig.device.call<ibv_mw*(ibv_pd*, ibv_mw_type)>(Slot::alloc_mw, rig.pd, IBV_MW_TYPE_1);
    ibv_mr* mr = rig.device.call<ibv_mr*(ibv_pd*, void*, std::size_t, std::uint64_t, int)>(
        Slot::reg_mr, rig.pd, static_cast<void*>(&rig), std::size_t{64}, std::uint64_t{0}, 0);
    assert_non_null(mw);
    assert_non_null(mr);
    const std::uint32_t before = mw->rkey;
    ibv_mw_bind bind{};
    bind.bind_info = {.mr = mr, .addr = 0x100, .length = 32, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
    assert_int_equal(rxe::bind_mw(rig.qp, mw, &bind), 0);
    assert_int_equal(mw->rkey, before + 1);
    assert_int_equal(rig.sent(0).wr.wr.mw.mw_rkey, before);
    assert_int_equal(rig.sent(0).wr.wr.mw.rkey, before + 1);
    bind.bind_info.mr = nullptr;
    assert_int_equal(rxe::bind_mw(rig.qp, mw, &bind), EINVAL);
    bind.bind_info = {.mr = mr, .addr = 0, .length = 1, .mw_access_flags = IBV_ACCESS_ZERO_BASED};
    assert_int_equal(rxe::bind_mw(rig.qp, mw, &bind), EINVAL);
    mw->type = IBV_MW_TYPE_2;
    assert_int_equal(rxe::bind_mw(rig.qp, mw, &bind), EINVAL);
    assert_int_equal(rig.device.call<int(ibv_mw*)>(Slot::dealloc_mw, mw), 0);
    assert_int_equal(rig.device.call<int(sluice::abi::VerbsMr*)>(Slot::dereg_mr,
                                                                 reinterpret_cast<sluice::abi::VerbsMr*>(mr)),
                     0);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(post_send__rdma_write__fills_the_element),
        cmocka_unit_test(post_send__inline__copies_the_bytes),
        cmocka_unit_test(post_send__chain__rings_once),
        cmocka_unit_test(post_send__queue_full__enomem_and_the_request),
        cmocka_unit_test(post_send__bad_request__einval_and_no_trace),
        cmocka_unit_test(post_send__atomic_write_on_a_kernel_without__einval),
        cmocka_unit_test(post_send__before_ready_to_send__einval),
        cmocka_unit_test(post_send__datagram__needs_a_handle_of_this_device),
        cmocka_unit_test(create_ah__kernel_without_numbers__eopnotsupp_and_no_leak),
        cmocka_unit_test(doorbell__write_refused__goes_by_ioctl_from_then_on),
        cmocka_unit_test(post_send__thread_domain__takes_no_lock),
        cmocka_unit_test(post_send__two_threads__lose_nothing),
        cmocka_unit_test(post_recv__fills_the_element__and_takes_no_doorbell),
        cmocka_unit_test(post_recv__bad_requests__are_refused),
        cmocka_unit_test(srq__post_and_resize__keeps_working),
        cmocka_unit_test(poll_cq__batch__takes_what_is_there),
        cmocka_unit_test(poll_cq__around_the_end__wraps),
        cmocka_unit_test(start_poll__next_poll__end_poll__walk_the_ring),
        cmocka_unit_test(create_cq_ex__what_rxe_can_not__eopnotsupp),
        cmocka_unit_test(create_cq__ring_can_not_be_mapped__leaves_nothing),
        cmocka_unit_test(resize_cq__moves_what_waits__and_the_old_ring_is_left),
        cmocka_unit_test(wr_api__two_requests__are_published_together),
        cmocka_unit_test(wr_api__an_error__posts_nothing),
        cmocka_unit_test(create_qp_ex__operations_that_the_kernel_lacks__eopnotsupp),
        cmocka_unit_test(device_gone__by_doorbell__requests_come_back_flushed),
        cmocka_unit_test(device_gone__by_polling_only__is_noticed),
        cmocka_unit_test(completion_ring__any_word_wrong__stays_inside),
        cmocka_unit_test(send_ring__any_word_wrong__stays_inside),
        cmocka_unit_test(receive_ring__any_word_wrong__stays_inside),
        cmocka_unit_test(flushing__rings_wrong__ends_and_stays_inside),
        cmocka_unit_test(create_cq__geometry_wrong__is_refused),
        cmocka_unit_test(send_ring__elements_smaller_than_promised__is_refused),
        cmocka_unit_test(create_qp__wrong_arguments__fail_half_done_with_nothing),
        cmocka_unit_test(query_device_ex__shorter_structure__is_filled_as_far),
        cmocka_unit_test(bind_mw__type_1__gives_a_new_key),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
