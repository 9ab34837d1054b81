// SPDX-License-Identifier: BSD-3-Clause
//
// XRC by libibverbs' calls: domains, shared receive queues, both kinds of queue pairs and further handles of
// the receiving one.
#include "tests/unit/uroce/xrc_ends.hpp"

using namespace sluice::uroce::test;

namespace {

constexpr std::uint64_t kOps = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_LOCAL_INV;

TEST(send__to_each_of_two_queues__completes_there) {
    for (const Where where : kEverywhere) {
        Joined pair(where);
        Receiver& receiver = pair.receiver;
        ibv_srq* const one = receiver.add_srq();
        ibv_srq* const two = receiver.add_srq();
        assert_int_not_equal(number_of(one), number_of(two));
        receiver.post(one, 0, 5000, 1);
        receiver.post(two, 8192, 5000, 2);
        assert_int_equal(pair.request(IBV_WR_SEND, number_of(two), 100, 4500), IBV_WC_SUCCESS);
        assert_int_equal(pair.request(IBV_WR_SEND, number_of(one), 200, 10), IBV_WC_SUCCESS);
        for (const std::uint64_t id : {2, 1}) {
            const ibv_wc wc = receiver.end.wait();
            assert_true(wc.wr_id == id && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV);
            assert_int_equal(wc.qp_num, receiver.qp->qp_num);
            assert_int_equal(wc.src_qp, pair.sender.qp->qp_num);
            assert_int_equal(wc.byte_len, id == 2 ? 4500 : 10);
        }
        assert_memory_equal(receiver.end.block.data() + 8192, pair.sender.block.data() + 100, 4500);
        assert_int_equal(pair.request(IBV_WR_RDMA_WRITE, number_of(one), 20000, 9000), IBV_WC_SUCCESS);
        assert_memory_equal(receiver.end.block.data() + 20000, pair.sender.block.data() + 20000, 9000);
        receiver.end.block[30000] ^= 1;
        assert_int_equal(pair.request(IBV_WR_RDMA_READ, number_of(one), 30000, 700), IBV_WC_SUCCESS);
        assert_memory_equal(receiver.end.block.data() + 30000, pair.sender.block.data() + 30000, 700);
    }
}

TEST(send__to_no_queue__error_at_both_ends) {
    Joined pair;
    ibv_srq* const srq = pair.receiver.add_srq();
    const std::uint32_t number = number_of(srq);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    pair.receiver.srqs.clear();
    assert_int_equal(pair.request(IBV_WR_SEND, number, 0, 8), IBV_WC_REM_INV_REQ_ERR);
    ibv_async_event event{};
    assert_int_equal(ibv_get_async_event(pair.receiver.context, &event), 0);
    assert_true(event.event_type == IBV_EVENT_QP_ACCESS_ERR && event.element.qp == pair.receiver.qp);
    ibv_ack_async_event(&event);
    assert_true(pair.receiver.end.idle());
}

TEST(wr_api__over_xrc__needs_the_queues_number) {
    Joined pair(Where::kOneContext, kOps);
    ibv_srq* const srq = pair.receiver.add_srq();
    ibv_qp_ex* const qp = ibv_qp_to_qp_ex(pair.sender.qp);
    assert_non_null(qp);
    const auto send = [&](std::int64_t number) {
        ibv_wr_start(qp);
        qp->wr_id = 5;
        qp->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_send(qp);
        if (number >= 0) {
            ibv_wr_set_xrc_srqn(qp, static_cast<std::uint32_t>(number));
        }
        ibv_wr_set_sge(qp, pair.sender.mr->lkey, pair.sender.addr(), 8);
        return ibv_wr_complete(qp);
    };
    pair.receiver.post(srq, 0, 8, 9);
    assert_int_equal(send(-1), EINVAL);
    assert_int_equal(send(1 << 24), EINVAL);
    assert_int_equal(send(number_of(srq)), 0);
    assert_int_equal(pair.sender.wait().status, IBV_WC_SUCCESS);
    assert_int_equal(pair.receiver.end.wait().wr_id, 9);
}

TEST(limit__of_a_queue__reported_for_that_one) {
    Joined pair;
    (void)pair.receiver.add_srq();
    ibv_srq* const srq = pair.receiver.add_srq();
    pair.receiver.post(srq, 0, 8, 9);
    ibv_srq_attr attr{};
    attr.srq_limit = 1;
    assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
    assert_int_equal(pair.request(IBV_WR_SEND, number_of(srq), 0, 8), IBV_WC_SUCCESS);
    ibv_async_event event{};
    assert_int_equal(ibv_get_async_event(pair.receiver.context, &event), 0);
    assert_true(event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == srq);
    ibv_ack_async_event(&event);
}

// Its file is the domain: two contexts that open it see each other's queue pairs and queues.
TEST(domain__of_a_file__is_common_to_contexts) {
    const TemporaryFile file;
    const OpenContext context(open_uroce());
    const OpenContext other(open_uroce());
    errno = 0;
    assert_null(open_domain(context.get(), file.fd, 0));
    assert_int_equal(errno, EAGAIN);
    Receiver owner(context.get(), file.fd);
    assert_null(open_domain(other.get(), file.fd, O_CREAT | O_EXCL));
    assert_int_equal(errno, EINVAL);
    Receiver user(other.get(), file.fd);
    End sender(context.get(), sender_options());
    bring_up_xrc(sender.qp, owner.qp->qp_num, owner.end.gid);
    bring_up_xrc(owner.qp, sender.qp->qp_num, sender.gid);
    ibv_srq* const srq = user.add_srq();
    user.post(srq, 0, 100, 7);
    ibv_send_wr wr{};
    ibv_sge list = sender.sge(0, 100);
    wr.opcode = IBV_WR_SEND;
    wr.sg_list = &list;
    wr.num_sge = 1;
    wr.qp_type.xrc.remote_srqn = number_of(srq);
    assert_int_equal(sender.post(wr), 0);
    const ibv_wc wc = user.end.wait();
    assert_true(wc.wr_id == 7 && wc.status == IBV_WC_SUCCESS && wc.qp_num == owner.qp->qp_num);
}

TEST(open_qp__of_the_same_domain__lives_as_long_as_one_handle) {
    const TemporaryFile file;
    Joined pair;
    const OpenContext other(open_uroce());
    auto owner = std::make_unique<Receiver>(pair.receiver.context, file.fd);
    Receiver user(other.get(), file.fd);
    bring_up_xrc(owner->qp, pair.sender.qp->qp_num, pair.sender.gid);
    ibv_qp_open_attr attr{};
    attr.comp_mask =
        IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE | IBV_QP_OPEN_ATTR_CONTEXT;
    attr.qp_num = owner->qp->qp_num;
    attr.qp_context = &attr;
    attr.qp_type = IBV_QPT_XRC_RECV;
    attr.xrcd = user.xrcd;
    ibv_qp* const opened = ibv_open_qp(other.get(), &attr);
    assert_non_null(opened);
    assert_true(opened->qp_num == attr.qp_num && opened->qp_context == &attr &&
                opened->context == other.get());
    owner.reset();
    ibv_qp_attr now{};
    ibv_qp_init_attr init{};
    assert_int_equal(ibv_query_qp(opened, &now, IBV_QP_STATE | IBV_QP_DEST_QPN, &init), 0);
    assert_true(now.qp_state == IBV_QPS_RTS && now.dest_qp_num == pair.sender.qp->qp_num);
    assert_int_equal(ibv_close_xrcd(user.xrcd), EBUSY);
    assert_int_equal(ibv_destroy_qp(opened), 0);
    errno = 0;
    assert_null(ibv_open_qp(other.get(), &attr)); // that was the last one
    assert_int_equal(errno, EINVAL);
}

TEST(open_qp__each_mistake__refused) {
    Joined pair;
    Receiver& receiver = pair.receiver;
    ibv_xrcd* const other = open_domain(receiver.context);
    const auto refused = [&](auto change) {
        ibv_qp_open_attr attr{};
        attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
        attr.qp_num = receiver.qp->qp_num;
        attr.qp_type = IBV_QPT_XRC_RECV;
        attr.xrcd = receiver.xrcd;
        change(attr);
        errno = 0;
        return ibv_open_qp(receiver.context, &attr) == nullptr && errno == EINVAL;
    };
    assert_true(refused([&](ibv_qp_open_attr& attr) { attr.xrcd = other; }));
    assert_true(refused([&](ibv_qp_open_attr& attr) { attr.xrcd = nullptr; }));
    assert_true(refused([&](ibv_qp_open_attr& attr) { attr.qp_num = pair.sender.qp->qp_num; }));
    assert_true(refused([&](ibv_qp_open_attr& attr) { attr.qp_num = 1; }));
    assert_true(refused([&](ibv_qp_open_attr& attr) { attr.qp_type = IBV_QPT_XRC_SEND; }));
    assert_true(refused([&](ibv_qp_open_attr& attr) { attr.comp_mask = IBV_QP_OPEN_ATTR_NUM; }));
    assert_int_equal(ibv_close_xrcd(other), 0);
}

// Of a queue pair that two contexts have open, each hears.
TEST(error__of_a_queue_pair__reported_to_all_handles) {
    Joined pair;
    Receiver& receiver = pair.receiver;
    ibv_qp_open_attr attr{};
    attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    attr.qp_num = receiver.qp->qp_num;
    attr.qp_type = IBV_QPT_XRC_RECV;
    attr.xrcd = receiver.xrcd;
    ibv_qp* const opened = ibv_open_qp(receiver.context, &attr);
    assert_non_null(opened);
    assert_int_equal(pair.request(IBV_WR_SEND, 1, 0, 8), IBV_WC_REM_INV_REQ_ERR);
    bool seen[2] = {};
    for (int i = 0; i < 2; ++i) {
        ibv_async_event event{};
        assert_int_equal(ibv_get_async_event(receiver.context, &event), 0);
        assert_int_equal(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
        seen[event.element.qp == opened ? 1 : 0] = true;
        ibv_ack_async_event(&event);
    }
    assert_true(seen[0] && seen[1]);
    assert_int_equal(ibv_destroy_qp(opened), 0);
}

TEST(domain__in_use__stays) {
    const OpenContext context(open_uroce());
    Receiver receiver(context.get());
    assert_int_equal(ibv_close_xrcd(receiver.xrcd), EBUSY);
    assert_int_equal(ibv_destroy_qp(std::exchange(receiver.qp, nullptr)), 0);
    (void)receiver.add_srq();
    assert_int_equal(ibv_close_xrcd(receiver.xrcd), EBUSY);
    assert_int_equal(ibv_destroy_cq(receiver.end.cq), EBUSY);
}

TEST(creation__each_mistake__refused) {
    const OpenContext context(open_uroce());
    const OpenContext other(open_uroce());
    Receiver receiver(context.get());
    const auto srq_refused = [&](int error, auto change) {
        ibv_srq_init_attr_ex attr = receiver.srq_attr();
        change(attr);
        errno = 0;
        return ibv_create_srq_ex(context.get(), &attr) == nullptr && errno == error;
    };
    assert_true(srq_refused(EINVAL, [](auto& attr) { attr.comp_mask &= ~IBV_SRQ_INIT_ATTR_CQ; }));
    assert_true(srq_refused(EINVAL, [](auto& attr) { attr.comp_mask &= ~IBV_SRQ_INIT_ATTR_XRCD; }));
    assert_true(srq_refused(EINVAL, [](auto& attr) { attr.cq = nullptr; }));
    assert_true(srq_refused(EOPNOTSUPP, [](auto& attr) { attr.srq_type = IBV_SRQT_BASIC; }));
    assert_true(srq_refused(EOPNOTSUPP, [](auto& attr) { attr.srq_type = IBV_SRQT_TM; }));
    assert_true(srq_refused(EINVAL, [](auto& attr) { attr.attr.max_wr = 0; }));
    ibv_xrcd* const foreign = open_domain(other.get());
    assert_true(srq_refused(EINVAL, [&](auto& attr) { attr.xrcd = foreign; }));
    ibv_qp_init_attr_ex init{};
    init.qp_type = IBV_QPT_XRC_RECV;
    const auto qp_refused = [&] {
        errno = 0;
        return ibv_create_qp_ex(context.get(), &init) == nullptr && errno == EINVAL;
    };
    init.pd = receiver.end.pd;
    init.comp_mask = IBV_QP_INIT_ATTR_PD;
    assert_true(qp_refused());
    init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    assert_true(qp_refused());
    init.xrcd = foreign;
    assert_true(qp_refused());
    assert_int_equal(ibv_close_xrcd(foreign), 0);
    ibv_xrcd_init_attr domain{};
    domain.comp_mask = IBV_XRCD_INIT_ATTR_FD;
    assert_null(ibv_open_xrcd(context.get(), &domain));
    assert_int_equal(errno, EINVAL);
    assert_null(open_domain(context.get(), 1 << 20));
    assert_int_equal(errno, EBADF);
}

TEST(ends__of_a_connection__ask_or_answer) {
    Joined pair;
    assert_int_equal(pair.sender.receive(pair.sender.sge(0, 8)), EINVAL);
    ibv_send_wr wr{};
    ibv_send_wr* bad = nullptr;
    wr.opcode = IBV_WR_SEND;
    assert_int_equal(ibv_post_send(pair.receiver.qp, &wr, &bad), EINVAL);
    wr.qp_type.xrc.remote_srqn = 1 << 24;
    assert_int_equal(ibv_post_send(pair.sender.qp, &wr, &bad), EINVAL);
}

TEST(query_device__says_that_there_is_xrc) {
    const OpenContext context(open_uroce());
    ibv_device_attr_ex attr{};
    assert_int_equal(ibv_query_device_ex(context.get(), nullptr, &attr), 0);
    assert_true((attr.orig_attr.device_cap_flags & IBV_DEVICE_XRC) != 0);
    assert_true((attr.xrc_odp_caps & IBV_ODP_SUPPORT_SRQ_RECV) != 0);
}

// A handle of each kind is left: what worked leaves the device, and the handles can be destroyed.
TEST(close_device__with_everything_left__handles_stay) {
    const TemporaryFile file;
    const OpenContext other(open_uroce());
    Receiver stays(other.get(), file.fd);
    ibv_context* const context = open_uroce();
    auto receiver = std::make_unique<Receiver>(context, file.fd);
    const std::uint32_t number = number_of(receiver->add_srq());
    ibv_qp_open_attr attr{};
    attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    attr.qp_num = stays.qp->qp_num;
    attr.qp_type = IBV_QPT_XRC_RECV;
    attr.xrcd = receiver->xrcd;
    ibv_qp* const opened = ibv_open_qp(context, &attr);
    assert_non_null(opened);
    assert_int_equal(ibv_close_device(context), 0);
    ibv_qp_attr state{};
    ibv_qp_init_attr init{};
    assert_int_equal(ibv_query_qp(opened, &state, IBV_QP_STATE, &init), EIO);
    End sender(other.get(), sender_options());
    bring_up_xrc(sender.qp, stays.qp->qp_num, stays.end.gid);
    bring_up_xrc(stays.qp, sender.qp->qp_num, sender.gid);
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.qp_type.xrc.remote_srqn = number;
    assert_int_equal(sender.post(wr), 0);
    assert_int_equal(sender.wait().status, IBV_WC_REM_INV_REQ_ERR);
    assert_int_equal(ibv_destroy_qp(opened), 0);
    receiver.reset();
}

} // namespace

int main() {
    return sluice::test::run_all_tests("uroce.verbs_xrc");
}
