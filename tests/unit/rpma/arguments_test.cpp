// SPDX-License-Identifier: BSD-3-Clause
//
// What is wrong with arguments is found before anything is done: null pointers in every place of every
// function, and values that can't be right. And what deleting does with what isn't there.
#include "tests/unit/rpma/rpma.hpp"

using namespace sluice::rpma::test;

namespace {

// Everything that a function may be given, all of it alive.
struct World {
    World() : conn(left, right), remote(right.as_remote()) {
        must(rpma_peer_cfg_new(&peer_cfg));
        must(rpma_srq_cfg_new(&srq_cfg));
        must(rpma_srq_new(left.peer, srq_cfg, &srq));
        must(rpma_ep_listen(left.peer, left.address.c_str(), next_port().c_str(), &ep));
        must(rpma_conn_req_new(left.peer, right.address.c_str(), "4", nullptr, &request));
    }
    ~World() {
        assert_int_equal(rpma_conn_req_delete(&request), 0);
        assert_int_equal(rpma_ep_shutdown(&ep), 0);
        assert_int_equal(rpma_srq_delete(&srq), 0);
        assert_int_equal(rpma_srq_cfg_delete(&srq_cfg), 0);
        assert_int_equal(rpma_peer_cfg_delete(&peer_cfg), 0);
        assert_int_equal(rpma_mr_remote_delete(&remote), 0);
    }
    World(const World&) = delete;
    World& operator=(const World&) = delete;

    Host left{0};
    Host right{1};
    Connected conn;
    Config config;
    rpma_mr_remote* remote;
    rpma_peer_cfg* peer_cfg = nullptr;
    rpma_srq_cfg* srq_cfg = nullptr;
    rpma_srq* srq = nullptr;
    rpma_ep* ep = nullptr;
    rpma_conn_req* request = nullptr;
};

#define refuses(call) assert_int_equal(call, RPMA_E_INVAL) // NOLINT: CMocka tells the line only of a macro

TEST(devices__null_or_unknown__invalid) {
    const Host host;
    ibv_context* context = nullptr;
    refuses(rpma_utils_get_ibv_context(nullptr, RPMA_UTIL_IBV_CONTEXT_LOCAL, &context));
    refuses(rpma_utils_get_ibv_context("127.0.0.1", RPMA_UTIL_IBV_CONTEXT_LOCAL, nullptr));
    refuses(rpma_utils_get_ibv_context("127.0.0.1", static_cast<rpma_util_ibv_context_type>(2), &context));
    assert_null(context);
    int is_capable = -1;
    refuses(rpma_utils_ibv_context_is_odp_capable(nullptr, &is_capable));
    refuses(rpma_utils_ibv_context_is_odp_capable(host.context, nullptr));
    assert_int_equal(is_capable, -1);
    bool is_pmem = true;
    refuses(rpma_utils_is_pmem(nullptr, 1, &is_pmem));
    refuses(rpma_utils_is_pmem(&host, 0, &is_pmem));
    refuses(rpma_utils_is_pmem(&host, 1, nullptr));
    refuses(rpma_utils_is_pmem(&host, SIZE_MAX, &is_pmem));
    assert_true(is_pmem);
    rpma_peer* peer = nullptr;
    refuses(rpma_peer_new(nullptr, &peer));
    refuses(rpma_peer_new(host.context, nullptr));
    refuses(rpma_peer_delete(nullptr));
    assert_null(peer);
}

TEST(peer_cfg__null__invalid) {
    const World world;
    bool flag = false;
    std::size_t size = 0;
    char byte = 1;
    rpma_peer_cfg* cfg = nullptr;
    refuses(rpma_peer_cfg_new(nullptr));
    refuses(rpma_peer_cfg_delete(nullptr));
    refuses(rpma_peer_cfg_set_direct_write_to_pmem(nullptr, true));
    refuses(rpma_peer_cfg_get_direct_write_to_pmem(nullptr, &flag));
    refuses(rpma_peer_cfg_get_direct_write_to_pmem(world.peer_cfg, nullptr));
    refuses(rpma_peer_cfg_get_descriptor(nullptr, &byte));
    refuses(rpma_peer_cfg_get_descriptor(world.peer_cfg, nullptr));
    refuses(rpma_peer_cfg_get_descriptor_size(nullptr, &size));
    refuses(rpma_peer_cfg_get_descriptor_size(world.peer_cfg, nullptr));
    refuses(rpma_peer_cfg_from_descriptor(nullptr, 1, &cfg));
    refuses(rpma_peer_cfg_from_descriptor(&byte, 0, &cfg));
    refuses(rpma_peer_cfg_from_descriptor(&byte, 1, nullptr));
    assert_null(cfg);
}

TEST(regions__null_or_wrong__invalid) {
    const World world;
    Host host(2);
    rpma_mr_local* mr = nullptr;
    void* const block = host.block.data();
    refuses(rpma_mr_reg(nullptr, block, 64, 1, &mr));
    refuses(rpma_mr_reg(host.peer, nullptr, 64, 1, &mr));
    refuses(rpma_mr_reg(host.peer, block, 0, 1, &mr));
    refuses(rpma_mr_reg(host.peer, block, 64, 0, &mr));
    refuses(rpma_mr_reg(host.peer, block, 64, 0x100, &mr));
    refuses(rpma_mr_reg(host.peer, block, 64, -1, &mr));
    refuses(rpma_mr_reg(host.peer, block, ~std::size_t{0}, 1, &mr));
    refuses(rpma_mr_reg(host.peer, block, 64, 1, nullptr));
    refuses(rpma_mr_dereg(nullptr));
    assert_null(mr);
    std::array<char, 21> descriptor{};
    std::size_t size = 0;
    void* ptr = nullptr;
    int type = -1;
    rpma_mr_remote* remote = nullptr;
    refuses(rpma_mr_get_descriptor(nullptr, descriptor.data()));
    refuses(rpma_mr_get_descriptor(host.mr, nullptr));
    refuses(rpma_mr_get_descriptor_size(nullptr, &size));
    refuses(rpma_mr_get_descriptor_size(host.mr, nullptr));
    refuses(rpma_mr_get_ptr(nullptr, &ptr));
    refuses(rpma_mr_get_ptr(host.mr, nullptr));
    refuses(rpma_mr_get_size(nullptr, &size));
    refuses(rpma_mr_get_size(host.mr, nullptr));
    refuses(rpma_mr_remote_get_size(nullptr, &size));
    refuses(rpma_mr_remote_get_size(world.remote, nullptr));
    refuses(rpma_mr_remote_get_flush_type(nullptr, &type));
    refuses(rpma_mr_remote_get_flush_type(world.remote, nullptr));
    refuses(rpma_mr_remote_from_descriptor(nullptr, 21, &remote));
    refuses(rpma_mr_remote_from_descriptor(descriptor.data(), 21, nullptr));
    refuses(rpma_mr_remote_delete(nullptr));
    refuses(rpma_mr_advise(nullptr, 0, 1, 0, 0));
    refuses(rpma_mr_advise(host.mr, host.block.size(), 1, 0, 0));
    refuses(rpma_mr_advise(host.mr, 0, std::size_t{1} << 32, 0, 0));
}

template<typename Value, typename Handle>
void refuses_nulls(int (*set)(Handle*, Value), int (*get)(const Handle*, Value*), Handle* cfg) {
    Value value{};
    refuses(set(nullptr, value));
    refuses(get(nullptr, &value));
    refuses(get(cfg, nullptr));
}

TEST(configurations__null_or_wrong__invalid) {
    const World world;
    rpma_conn_cfg* const cfg = world.config.cfg;
    refuses(rpma_conn_cfg_new(nullptr));
    refuses(rpma_conn_cfg_delete(nullptr));
    refuses(rpma_conn_cfg_set_timeout(cfg, -1));
    refuses_nulls(rpma_conn_cfg_set_timeout, rpma_conn_cfg_get_timeout, cfg);
    refuses_nulls(rpma_conn_cfg_set_cq_size, rpma_conn_cfg_get_cq_size, cfg);
    refuses_nulls(rpma_conn_cfg_set_rcq_size, rpma_conn_cfg_get_rcq_size, cfg);
    refuses_nulls(rpma_conn_cfg_set_sq_size, rpma_conn_cfg_get_sq_size, cfg);
    refuses_nulls(rpma_conn_cfg_set_rq_size, rpma_conn_cfg_get_rq_size, cfg);
    refuses_nulls(rpma_conn_cfg_set_compl_channel, rpma_conn_cfg_get_compl_channel, cfg);
    rpma_srq* srq = nullptr;
    refuses(rpma_conn_cfg_set_srq(nullptr, world.srq));
    refuses(rpma_conn_cfg_set_srq(cfg, nullptr));
    refuses(rpma_conn_cfg_get_srq(nullptr, &srq));
    refuses(rpma_conn_cfg_get_srq(cfg, nullptr));
    refuses(rpma_srq_cfg_new(nullptr));
    refuses(rpma_srq_cfg_delete(nullptr));
    refuses_nulls(rpma_srq_cfg_set_rq_size, rpma_srq_cfg_get_rq_size, world.srq_cfg);
    refuses_nulls(rpma_srq_cfg_set_rcq_size, rpma_srq_cfg_get_rcq_size, world.srq_cfg);
}

TEST(connections__null__invalid) {
    const World world;
    rpma_conn* const conn = world.conn.client;
    int fd = -1;
    rpma_conn_event event = RPMA_CONN_UNDEFINED;
    rpma_conn_private_data data{};
    std::uint32_t number = 0;
    rpma_cq* cq = nullptr;
    refuses(rpma_conn_get_event_fd(nullptr, &fd));
    refuses(rpma_conn_get_event_fd(conn, nullptr));
    refuses(rpma_conn_next_event(nullptr, &event));
    refuses(rpma_conn_next_event(conn, nullptr));
    refuses(rpma_conn_get_private_data(nullptr, &data));
    refuses(rpma_conn_get_private_data(conn, nullptr));
    refuses(rpma_conn_apply_remote_peer_cfg(nullptr, world.peer_cfg));
    refuses(rpma_conn_apply_remote_peer_cfg(conn, nullptr));
    refuses(rpma_conn_get_qp_num(nullptr, &number));
    refuses(rpma_conn_get_qp_num(conn, nullptr));
    refuses(rpma_conn_get_cq(nullptr, &cq));
    refuses(rpma_conn_get_cq(conn, nullptr));
    refuses(rpma_conn_get_rcq(nullptr, &cq));
    refuses(rpma_conn_get_rcq(conn, nullptr));
    refuses(rpma_conn_disconnect(nullptr));
    refuses(rpma_conn_delete(nullptr));
    refuses(rpma_conn_get_compl_fd(nullptr, &fd));
    refuses(rpma_conn_get_compl_fd(conn, nullptr));
    refuses(rpma_conn_wait(nullptr, 0, &cq, nullptr));
    refuses(rpma_conn_wait(conn, 0, nullptr, nullptr));
    assert_int_equal(fd, -1);
    assert_null(cq);
}

TEST(requests__null_or_wrong__invalid) {
    World world;
    const char* const address = world.right.address.c_str();
    rpma_conn_req* request = nullptr;
    rpma_conn* conn = nullptr;
    rpma_conn_private_data data{};
    int fd = -1;
    rpma_ep* ep = nullptr;
    refuses(rpma_conn_req_new(nullptr, address, "4", nullptr, &request));
    refuses(rpma_conn_req_new(world.left.peer, nullptr, "4", nullptr, &request));
    refuses(rpma_conn_req_new(world.left.peer, address, nullptr, nullptr, &request));
    refuses(rpma_conn_req_new(world.left.peer, address, "4", nullptr, nullptr));
    refuses(rpma_conn_req_delete(nullptr));
    refuses(rpma_conn_req_connect(nullptr, nullptr, &conn));
    refuses(rpma_conn_req_connect(&request, nullptr, &conn)); // *req_ptr
    refuses(rpma_conn_req_connect(&world.request, nullptr, nullptr));
    assert_non_null(world.request); // still there
    refuses(rpma_conn_req_get_private_data(nullptr, &data));
    refuses(rpma_conn_req_get_private_data(world.request, nullptr));
    refuses(rpma_conn_req_recv(nullptr, world.left.mr, 0, 1, nullptr));
    refuses(rpma_ep_listen(nullptr, address, "4", &ep));
    refuses(rpma_ep_listen(world.left.peer, nullptr, "4", &ep));
    refuses(rpma_ep_listen(world.left.peer, address, nullptr, &ep));
    refuses(rpma_ep_listen(world.left.peer, address, "4", nullptr));
    refuses(rpma_ep_shutdown(nullptr));
    refuses(rpma_ep_get_fd(nullptr, &fd));
    refuses(rpma_ep_get_fd(world.ep, nullptr));
    refuses(rpma_ep_next_conn_req(nullptr, nullptr, &request));
    refuses(rpma_ep_next_conn_req(world.ep, nullptr, nullptr));
    assert_null(request);
    assert_null(conn);
}

// The request is used up, as in all cases but that of a null pointer.
TEST(req_connect__private_data_without_bytes__invalid_and_used_up) {
    const Host host;
    char byte = 'x';
    for (rpma_conn_private_data data :
         {rpma_conn_private_data{nullptr, 1}, rpma_conn_private_data{&byte, 0}}) {
        rpma_conn_req* request = nullptr;
        rpma_conn* conn = nullptr;
        must(rpma_conn_req_new(host.peer, host.address.c_str(), "4", nullptr, &request));
        refuses(rpma_conn_req_connect(&request, &data, &conn));
        assert_null(request);
        assert_null(conn);
    }
}

TEST(queues__null_or_wrong__invalid) {
    const World world;
    rpma_srq* srq = nullptr;
    rpma_cq* cq = nullptr;
    int fd = -1;
    ibv_wc wc{};
    int got = 0;
    refuses(rpma_srq_new(nullptr, world.srq_cfg, &srq));
    refuses(rpma_srq_new(world.left.peer, world.srq_cfg, nullptr));
    refuses(rpma_srq_delete(nullptr));
    refuses(rpma_srq_recv(nullptr, world.left.mr, 0, 1, nullptr));
    refuses(rpma_srq_get_rcq(nullptr, &cq));
    refuses(rpma_srq_get_rcq(world.srq, nullptr));
    refuses(rpma_cq_get_fd(nullptr, &fd));
    refuses(rpma_cq_get_fd(cq_of(world.conn.client), nullptr));
    refuses(rpma_cq_wait(nullptr));
    refuses(rpma_cq_get_wc(nullptr, 1, &wc, &got));
    refuses(rpma_cq_get_wc(cq_of(world.conn.client), 0, &wc, &got));
    refuses(rpma_cq_get_wc(cq_of(world.conn.client), -1, &wc, &got));
    refuses(rpma_cq_get_wc(cq_of(world.conn.client), 1, nullptr, &got));
    refuses(rpma_cq_get_wc(cq_of(world.conn.client), 2, &wc, nullptr));
}

TEST(operations__null__invalid) {
    const World world;
    rpma_conn* const conn = world.conn.client;
    rpma_mr_local* const mr = world.left.mr;
    const char value[8] = {};
    refuses(rpma_read(nullptr, mr, 0, world.remote, 0, 1, kAlways, nullptr));
    refuses(rpma_write(nullptr, world.remote, 0, mr, 0, 1, kAlways, nullptr));
    refuses(rpma_write_with_imm(nullptr, world.remote, 0, mr, 0, 1, kAlways, 1, nullptr));
    refuses(rpma_atomic_write(nullptr, world.remote, 0, value, kAlways, nullptr));
    refuses(rpma_atomic_write(conn, nullptr, 0, value, kAlways, nullptr));
    refuses(rpma_atomic_write(conn, world.remote, 0, nullptr, kAlways, nullptr));
    refuses(rpma_flush(nullptr, world.remote, 0, 1, RPMA_FLUSH_TYPE_VISIBILITY, kAlways, nullptr));
    refuses(rpma_flush(conn, nullptr, 0, 1, RPMA_FLUSH_TYPE_VISIBILITY, kAlways, nullptr));
    refuses(rpma_send(nullptr, mr, 0, 1, kAlways, nullptr));
    refuses(rpma_send_with_imm(nullptr, mr, 0, 1, kAlways, 1, nullptr));
    refuses(rpma_recv(nullptr, mr, 0, 1, nullptr));
}

TEST(deleting__nothing_there__succeeds) {
    rpma_peer_cfg* peer_cfg = nullptr;
    rpma_peer* peer = nullptr;
    rpma_mr_local* mr = nullptr;
    rpma_mr_remote* remote = nullptr;
    rpma_conn_cfg* cfg = nullptr;
    rpma_conn* conn = nullptr;
    rpma_conn_req* request = nullptr;
    rpma_ep* ep = nullptr;
    rpma_srq_cfg* srq_cfg = nullptr;
    rpma_srq* srq = nullptr;
    assert_int_equal(rpma_peer_cfg_delete(&peer_cfg), 0);
    assert_int_equal(rpma_peer_delete(&peer), 0);
    assert_int_equal(rpma_mr_dereg(&mr), 0);
    assert_int_equal(rpma_mr_remote_delete(&remote), 0);
    assert_int_equal(rpma_conn_cfg_delete(&cfg), 0);
    assert_int_equal(rpma_conn_delete(&conn), 0);
    assert_int_equal(rpma_conn_req_delete(&request), 0);
    assert_int_equal(rpma_ep_shutdown(&ep), 0);
    assert_int_equal(rpma_srq_cfg_delete(&srq_cfg), 0);
    assert_int_equal(rpma_srq_delete(&srq), 0);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
