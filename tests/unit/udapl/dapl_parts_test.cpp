// SPDX-License-Identifier: BSD-3-Clause
//
// What endpoints are made of: told by queries, and changed.
#include <cstring>

#include "tests/unit/udapl/dapl_pair.hpp"

using namespace sluice::dapl::test;

namespace {

DAT_EP_PARAM query(const Side& side) {
    DAT_EP_PARAM param;
    std::memset(&param, 0xa5, sizeof param); // what a query doesn't write, stays so
    assert_int_equal(dat_ep_query(side.ep, DAT_EP_FIELD_ALL, &param), DAT_SUCCESS);
    return param;
}

DAT_RETURN modify(const Side& side, DAT_EP_PARAM_MASK mask, const DAT_EP_PARAM& param) {
    return dat_ep_modify(side.ep, mask, &param);
}

std::uint32_t host(const DAT_SOCK_ADDR* address) {
    std::uint32_t host = 0;
    std::memcpy(&host, reinterpret_cast<const char*>(address) + 4, sizeof host);
    return host;
}

TEST(query__new_endpoint__every_field) {
    const Side side(0);
    const DAT_EP_PARAM param = query(side);
    DAT_IA_ATTR ia{};
    assert_int_equal(dat_ia_query(side.opened.ia, nullptr, DAT_IA_FIELD_ALL, &ia, 0, nullptr), DAT_SUCCESS);
    assert_ptr_equal(param.ia_handle, side.opened.ia);
    assert_int_equal(param.ep_state, DAT_EP_STATE_UNCONNECTED);
    assert_ptr_equal(param.local_ia_address_ptr, ia.ia_address_ptr);
    assert_int_equal(param.local_port_qual, 0);
    assert_null(param.remote_ia_address_ptr);
    assert_int_equal(param.remote_port_qual, 0);
    assert_ptr_equal(param.pz_handle, side.pz);
    assert_ptr_equal(param.recv_evd_handle, side.transfers);
    assert_ptr_equal(param.request_evd_handle, side.transfers);
    assert_ptr_equal(param.connect_evd_handle, side.connections);
    assert_null(param.srq_handle);
    const DAT_EP_ATTR& attr = param.ep_attr;
    assert_int_equal(attr.service_type, DAT_SERVICE_TYPE_RC);
    assert_int_equal(attr.max_message_size, ia.max_message_size);
    assert_int_equal(attr.max_rdma_size, ia.max_rdma_size);
    assert_int_equal(attr.qos, DAT_QOS_BEST_EFFORT);
    assert_int_equal(attr.recv_completion_flags, DAT_COMPLETION_DEFAULT_FLAG);
    assert_int_equal(attr.request_completion_flags, DAT_COMPLETION_DEFAULT_FLAG);
    assert_int_equal(attr.max_recv_dtos, 16);
    assert_int_equal(attr.max_request_dtos, 16);
    assert_int_equal(attr.max_recv_iov, 4);
    assert_int_equal(attr.max_request_iov, 4);
    assert_int_equal(attr.max_rdma_read_in, 4);
    assert_int_equal(attr.max_rdma_read_out, 4);
    assert_int_equal(attr.srq_soft_hw, DAT_HW_DEFAULT);
    assert_int_equal(attr.max_rdma_read_iov, is_over_iwarp() ? 1 : 4);
    assert_int_equal(attr.max_rdma_write_iov, 4);
    assert_int_equal(attr.ep_transport_specific_count, 0);
    assert_null(attr.ep_transport_specific);
    assert_int_equal(attr.ep_provider_specific_count, 0);
    assert_null(attr.ep_provider_specific);
}

TEST(query__connected__both_ends) {
    const Pair pair;
    pair.connect();
    const DAT_EP_PARAM active = query(pair.active);
    const DAT_EP_PARAM passive = query(pair.passive);
    assert_int_equal(active.ep_state, DAT_EP_STATE_CONNECTED);
    assert_int_equal(active.remote_port_qual, pair.qualifier);
    assert_int_equal(host(active.remote_ia_address_ptr), host(passive.local_ia_address_ptr));
    assert_int_equal(host(passive.remote_ia_address_ptr), host(active.local_ia_address_ptr));
    assert_int_equal(passive.local_port_qual, pair.qualifier);
    assert_int_equal(passive.remote_port_qual, active.local_port_qual);
    assert_int_not_equal(active.local_port_qual, 0);
}

TEST(query__wrong_arguments__the_code_of_each) {
    const Side side(0);
    DAT_EP_PARAM param{};
    assert_int_equal(dat_ep_query(side.ep, DAT_EP_PARAM_MASK{1} << 31, &param),
                     coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    assert_int_equal(dat_ep_query(side.ep, DAT_EP_FIELD_ALL, nullptr),
                     coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
}

TEST(modify__other_zone_and_dispatchers__used_and_held) {
    const Pair pair;
    const Side& side = pair.active;
    DAT_EP_PARAM param{};
    param.pz_handle = side.opened.make_pz();
    param.recv_evd_handle = side.opened.make_evd(8, DAT_EVD_DTO_FLAG);
    param.request_evd_handle = side.opened.make_evd(8, DAT_EVD_DTO_FLAG);
    param.connect_evd_handle = side.opened.make_evd(8, DAT_EVD_CONNECTION_FLAG);
    assert_int_equal(modify(side,
                            DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE |
                                DAT_EP_FIELD_REQUEST_EVD_HANDLE | DAT_EP_FIELD_CONNECT_EVD_HANDLE,
                            param),
                     DAT_SUCCESS);
    const DAT_EP_PARAM now = query(side);
    assert_ptr_equal(now.pz_handle, param.pz_handle);
    assert_ptr_equal(now.recv_evd_handle, param.recv_evd_handle);
    assert_ptr_equal(now.request_evd_handle, param.request_evd_handle);
    assert_ptr_equal(now.connect_evd_handle, param.connect_evd_handle);
    assert_int_equal(dat_evd_free(param.recv_evd_handle),
                     coded(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_IN_USE));
    assert_int_equal(dat_evd_free(side.transfers), DAT_SUCCESS);
    assert_int_equal(dat_pz_free(param.pz_handle), coded(DAT_INVALID_STATE, DAT_INVALID_STATE_PZ_IN_USE));
    // The region is of the former zone now.
    assert_int_equal(side.receive(0, 1), coded(DAT_PROTECTION_VIOLATION));
    const Block block(side.opened, param.pz_handle);
    DAT_LMR_TRIPLET part = block.part(0, 8);
    assert_int_equal(dat_ep_post_recv(side.ep, 1, &part, Side::cookie_of(4), DAT_COMPLETION_DEFAULT_FLAG),
                     DAT_SUCCESS);
    pair.ask();
    assert_int_equal(dat_cr_accept(pair.request(), pair.passive.ep, 0, nullptr), DAT_SUCCESS);
    assert_int_equal(next(param.connect_evd_handle).event_number, DAT_CONNECTION_EVENT_ESTABLISHED);
    pair.passive.must_hear(DAT_CONNECTION_EVENT_ESTABLISHED);
    assert_int_equal(pair.passive.send(0, 8), DAT_SUCCESS);
    const DAT_EVENT event = next(param.recv_evd_handle);
    assert_int_equal(event.event_data.dto_completion_event_data.user_cookie.as_64, 4);
    assert_int_equal(event.event_data.dto_completion_event_data.status, DAT_DTO_SUCCESS);
    assert_int_equal(dat_ep_free(side.ep), DAT_SUCCESS);
    assert_int_equal(dat_evd_free(param.recv_evd_handle), DAT_SUCCESS);
    assert_int_equal(dat_evd_free(param.request_evd_handle), DAT_SUCCESS);
}

TEST(modify__no_dispatcher__direction_unusable) {
    const Side side(0);
    const DAT_EP_PARAM none{};
    assert_int_equal(modify(side, DAT_EP_FIELD_RECV_EVD_HANDLE, none), DAT_SUCCESS);
    assert_null(query(side).recv_evd_handle);
    assert_int_equal(DAT_GET_TYPE(side.receive(0, 1)), DAT_INVALID_STATE);
}

TEST(modify__attributes__as_asked) {
    const Side side(0);
    DAT_EP_PARAM param = query(side);
    param.ep_attr.max_recv_dtos = 3;
    param.ep_attr.max_message_size = 100;
    param.ep_attr.max_recv_iov = 1;
    param.ep_attr.max_rdma_read_out = 2;
    param.ep_attr.max_request_dtos = 77; // not in the mask
    assert_int_equal(modify(side,
                            DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS | DAT_EP_FIELD_EP_ATTR_MAX_MESSAGE_SIZE |
                                DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV | DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_OUT,
                            param),
                     DAT_SUCCESS);
    const DAT_EP_ATTR now = query(side).ep_attr;
    assert_int_equal(now.max_recv_dtos, 3);
    assert_int_equal(now.max_message_size, 100);
    assert_int_equal(now.max_recv_iov, 1);
    assert_int_equal(now.max_rdma_read_out, 2);
    assert_int_equal(now.max_request_dtos, 16);
    for (int i = 0; i < 3; ++i) {
        assert_int_equal(side.receive(0, 1), DAT_SUCCESS);
    }
    assert_int_equal(DAT_GET_TYPE(side.receive(0, 1)), DAT_INSUFFICIENT_RESOURCES);
    DAT_LMR_TRIPLET parts[] = {side.block.part(0, 1), side.block.part(1, 1)};
    assert_int_equal(dat_ep_post_recv(side.ep, 2, parts, Side::cookie_of(1), DAT_COMPLETION_DEFAULT_FLAG),
                     coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
}

TEST(modify__one_field_wrong__nothing_changed) {
    const Side side(0);
    DAT_EP_PARAM param = query(side);
    param.ep_attr.max_recv_dtos = 5;
    param.ep_attr.max_request_dtos = -1;
    assert_int_equal(
        modify(side, DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS | DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS, param),
        coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
    param.recv_evd_handle = side.connections;
    assert_int_equal(modify(side, DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS | DAT_EP_FIELD_RECV_EVD_HANDLE, param),
                     coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EVD_RECV));
    param.ep_attr.max_request_dtos = 1 << 30; // more than any device has
    assert_int_equal(
        modify(side, DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS | DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS, param),
        coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
    param.ep_attr.qos = DAT_QOS_LOW_LATENCY;
    assert_int_equal(modify(side, DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS | DAT_EP_FIELD_EP_ATTR_QOS, param),
                     coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
    assert_int_equal(query(side).ep_attr.max_recv_dtos, 16);
}

TEST(modify__receives_posted__only_what_keeps_the_queue) {
    const Side side(0);
    assert_int_equal(side.receive(0, 1), DAT_SUCCESS);
    DAT_EP_PARAM param = query(side);
    param.ep_attr.max_recv_dtos = 5;
    param.ep_attr.max_message_size = 10;
    assert_int_equal(modify(side, DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS, param),
                     coded(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_NOTREADY));
    assert_int_equal(modify(side, DAT_EP_FIELD_EP_ATTR_MAX_MESSAGE_SIZE, param), DAT_SUCCESS);
    assert_int_equal(query(side).ep_attr.max_message_size, 10);
}

TEST(transfer__longer_than_the_endpoints_messages__length_error) {
    const Pair pair;
    DAT_EP_PARAM param = query(pair.active);
    param.ep_attr.max_message_size = 10;
    param.ep_attr.max_rdma_size = 20;
    assert_int_equal(modify(pair.active,
                            DAT_EP_FIELD_EP_ATTR_MAX_MESSAGE_SIZE | DAT_EP_FIELD_EP_ATTR_MAX_RDMA_SIZE,
                            param),
                     DAT_SUCCESS);
    pair.connect();
    assert_int_equal(pair.passive.receive(0, 10), DAT_SUCCESS);
    assert_int_equal(pair.active.send(0, 11), coded(DAT_LENGTH_ERROR));
    assert_int_equal(pair.active.send(0, 10), DAT_SUCCESS);
    DAT_RMR_TRIPLET remote{pair.passive.block.key, 0, pair.passive.block.address(), 21};
    DAT_LMR_TRIPLET part = pair.active.block.part(0, 21);
    const auto post = [&](auto function) {
        return function(pair.active.ep, 1, &part, Side::cookie_of(1), &remote, DAT_COMPLETION_DEFAULT_FLAG);
    };
    assert_int_equal(post(dat_ep_post_rdma_write), coded(DAT_LENGTH_ERROR));
    assert_int_equal(post(dat_ep_post_rdma_read), coded(DAT_LENGTH_ERROR));
    remote.segment_length = 20; // what a read moves
    assert_int_equal(post(dat_ep_post_rdma_read), DAT_SUCCESS);
}

TEST(create__attributes_out_of_range__argument_6) {
    const Side side(0);
    const DAT_EP_ATTR good = query(side).ep_attr;
    const auto create = [&](auto change) {
        DAT_EP_ATTR attr = good;
        change(attr);
        DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
        const DAT_RETURN status = dat_ep_create(side.opened.ia, side.pz, side.transfers, side.transfers,
                                                side.connections, &attr, &ep);
        assert_true((ep != DAT_HANDLE_NULL) == (status == DAT_SUCCESS));
        return status;
    };
    constexpr DAT_RETURN kWrong = coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG6);
    assert_int_equal(create([](DAT_EP_ATTR&) {}), DAT_SUCCESS);
    assert_int_equal(create([](DAT_EP_ATTR& a) { a.max_recv_dtos = 0; }), kWrong);
    assert_int_equal(create([](DAT_EP_ATTR& a) { a.max_request_dtos = 0x7fffffff; }), kWrong);
    assert_int_equal(create([](DAT_EP_ATTR& a) { a.max_recv_iov = 1000; }), kWrong);
    assert_int_equal(create([](DAT_EP_ATTR& a) { a.max_rdma_read_iov = -1; }), kWrong);
    assert_int_equal(create([](DAT_EP_ATTR& a) { a.max_rdma_write_iov = 1000; }), kWrong);
    assert_int_equal(create([](DAT_EP_ATTR& a) { a.max_rdma_read_in = 1000; }), kWrong);
    assert_int_equal(create([](DAT_EP_ATTR& a) { a.max_rdma_read_out = -1; }), kWrong);
    assert_int_equal(create([](DAT_EP_ATTR& a) { a.max_message_size = ~DAT_VLEN{0}; }), kWrong);
    assert_int_equal(create([](DAT_EP_ATTR& a) { a.srq_soft_hw = -2; }), kWrong);
    assert_int_equal(create([](DAT_EP_ATTR& a) { a.ep_transport_specific_count = 1; }), kWrong);
    assert_int_equal(
        create([](DAT_EP_ATTR& a) { a.request_completion_flags = DAT_COMPLETION_SOLICITED_WAIT_FLAG; }),
        kWrong);
    assert_int_equal(create([](DAT_EP_ATTR& a) { a.qos = DAT_QOS_PREMIUM; }), coded(DAT_MODEL_NOT_SUPPORTED));
}

// As Solaris wants it: no room where there is no dispatcher.
TEST(create__no_dispatcher_and_no_room__that_direction_is_unusable) {
    const Side side(0);
    DAT_EP_ATTR attr = query(side).ep_attr;
    const auto create = [&](DAT_EVD_HANDLE receives, DAT_EVD_HANDLE requests) {
        DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
        const DAT_RETURN status =
            dat_ep_create(side.opened.ia, side.pz, receives, requests, side.connections, &attr, &ep);
        return std::pair(status, ep);
    };
    attr.max_recv_dtos = attr.max_recv_iov = 0;
    const auto [sends, sender] = create(DAT_HANDLE_NULL, side.transfers);
    assert_int_equal(sends, DAT_SUCCESS);
    DAT_LMR_TRIPLET part = side.block.part(0, 8);
    assert_int_equal(dat_ep_post_recv(sender, 1, &part, {}, DAT_COMPLETION_DEFAULT_FLAG),
                     coded(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_NOTREADY));
    attr.max_recv_dtos = attr.max_recv_iov = 4;
    attr.max_request_dtos = attr.max_request_iov = 0;
    const auto [receives, receiver] = create(side.transfers, DAT_HANDLE_NULL);
    assert_int_equal(receives, DAT_SUCCESS);
    assert_int_equal(dat_ep_post_recv(receiver, 1, &part, {}, DAT_COMPLETION_DEFAULT_FLAG), DAT_SUCCESS);
    assert_int_equal(dat_ep_post_send(receiver, 1, &part, {}, DAT_COMPLETION_DEFAULT_FLAG),
                     coded(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_NOTREADY));
    assert_int_equal(create(side.transfers, side.transfers).first,
                     coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG6));
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
