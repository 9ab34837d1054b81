// SPDX-License-Identifier: BSD-3-Clause
//
// The attributes that a program asks for when it makes an endpoint.
#include "tests/unit/udapl/dapl_pair.hpp"
#include "tests/unit/udapl/logged.hpp"

using namespace sluice::dapl::test;

namespace {

// What the provider gives without a wish.
DAT_EP_ATTR default_attributes(const Side& side) {
    DAT_EP_PARAM param{};
    assert_int_equal(dat_ep_query(side.ep, DAT_EP_FIELD_ALL, &param), DAT_SUCCESS);
    return param.ep_attr;
}

DAT_RETURN create(const Side& side, const DAT_EP_ATTR& attr, DAT_EP_HANDLE& ep) {
    return dat_ep_create(side.opened.ia, side.pz, side.transfers, side.transfers, side.connections, &attr,
                         &ep);
}

DAT_EP_ATTR with_suppressed_requests(const Side& side) {
    DAT_EP_ATTR attr = default_attributes(side);
    attr.request_completion_flags = DAT_COMPLETION_SUPPRESS_FLAG;
    return attr;
}

TEST(create__requests_suppressed__taken_as_default) {
    const Side side(0);
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    assert_int_equal(create(side, with_suppressed_requests(side), ep), DAT_SUCCESS);
    DAT_EP_PARAM param{};
    assert_int_equal(dat_ep_query(ep, DAT_EP_FIELD_ALL, &param), DAT_SUCCESS);
    assert_int_equal(param.ep_attr.request_completion_flags, DAT_COMPLETION_DEFAULT_FLAG);
}

TEST(create__receives_suppressed__argument_6) {
    const Side side(0);
    DAT_EP_ATTR attr = default_attributes(side);
    attr.recv_completion_flags = DAT_COMPLETION_SUPPRESS_FLAG;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    const Logged logged = logged_by([&] { return create(side, attr, ep); });
    assert_int_equal(logged.status, coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG6));
    assert_true(logged.text.find("recv_completion_flags 0x1") != std::string::npos);
}

// Each post says by itself whether its completion is suppressed.
TEST(send__requests_suppressed_by_the_endpoint__completes) {
    const Pair pair;
    const DAT_EP_ATTR attr = with_suppressed_requests(pair.active);
    const Side side(2, DAT_MEM_PRIV_ALL_FLAG, &attr);
    assert_int_equal(side.connect_to(pair.address(), pair.qualifier), DAT_SUCCESS);
    assert_int_equal(pair.passive.receive(0, 8), DAT_SUCCESS);
    assert_int_equal(dat_cr_accept(pair.request(), pair.passive.ep, 0, nullptr), DAT_SUCCESS);
    side.must_hear(DAT_CONNECTION_EVENT_ESTABLISHED);
    assert_int_equal(side.send(0, 8, 4), DAT_SUCCESS);
    side.must_complete(4, DAT_DTO_SUCCESS, 8);
}

TEST(create__as_many_transfers_as_told__all_are_taken) {
    const Side side(0);
    DAT_IA_ATTR limits{};
    assert_int_equal(dat_ia_query(side.opened.ia, nullptr, DAT_IA_FIELD_ALL, &limits, 0, nullptr),
                     DAT_SUCCESS);
    constexpr DAT_COUNT kMany = 32767;
    assert_true(is_own_device_named() || limits.max_dto_per_ep >= kMany);
    DAT_EP_ATTR attr = default_attributes(side);
    attr.max_recv_dtos = attr.max_request_dtos = std::min(limits.max_dto_per_ep, kMany);
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    assert_int_equal(create(side, attr, ep), DAT_SUCCESS);
    DAT_LMR_TRIPLET part = side.block.part(0, 1);
    for (DAT_COUNT i = 0; i < attr.max_recv_dtos; ++i) {
        assert_int_equal(dat_ep_post_recv(ep, 1, &part, {}, DAT_COMPLETION_DEFAULT_FLAG), DAT_SUCCESS);
    }
    assert_int_equal(DAT_GET_TYPE(dat_ep_post_recv(ep, 1, &part, {}, DAT_COMPLETION_DEFAULT_FLAG)),
                     DAT_INSUFFICIENT_RESOURCES);
}

TEST(create__number_that_cannot_be_had__named_in_the_log_with_its_limit) {
    const Side side(0);
    DAT_IA_ATTR limits{};
    assert_int_equal(dat_ia_query(side.opened.ia, nullptr, DAT_IA_FIELD_ALL, &limits, 0, nullptr),
                     DAT_SUCCESS);
    const auto must_tell = [&](auto change, const std::string& expected) {
        DAT_EP_ATTR attr = default_attributes(side);
        change(attr);
        DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
        const Logged logged = logged_by([&] { return create(side, attr, ep); });
        assert_int_not_equal(logged.status, DAT_SUCCESS);
        if (logged.text.find(expected) == std::string::npos) {
            fail_msg("'%s' isn't in '%s'", expected.c_str(), logged.text.c_str());
        }
    };
    const DAT_COUNT most = limits.max_dto_per_ep;
    const std::string more = std::to_string(most + 1) + ", at most " + std::to_string(most);
    must_tell([&](DAT_EP_ATTR& a) { a.max_recv_dtos = most + 1; }, "max_recv_dtos " + more);
    must_tell([&](DAT_EP_ATTR& a) { a.max_request_dtos = most + 1; }, "max_request_dtos " + more);
    must_tell([](DAT_EP_ATTR& a) { a.max_recv_dtos = 0; }, "max_recv_dtos 0, at least 1");
    const std::string segments = ", at most " + std::to_string(limits.max_iov_segments_per_dto);
    must_tell([](DAT_EP_ATTR& a) { a.max_recv_iov = 1000; }, "max_recv_iov 1000" + segments);
    must_tell([](DAT_EP_ATTR& a) { a.max_request_iov = 1000; }, "max_request_iov 1000" + segments);
    must_tell([](DAT_EP_ATTR& a) { a.max_rdma_read_iov = 1000; }, "max_rdma_read_iov 1000, at most ");
    must_tell([](DAT_EP_ATTR& a) { a.max_rdma_write_iov = -1; }, "max_rdma_write_iov -1, at least 0");
    must_tell([](DAT_EP_ATTR& a) { a.max_rdma_read_in = 1000; },
              "max_rdma_read_in 1000, at most " + std::to_string(limits.max_rdma_read_per_ep_in));
    must_tell([](DAT_EP_ATTR& a) { a.max_rdma_read_out = 1000; },
              "max_rdma_read_out 1000, at most " + std::to_string(limits.max_rdma_read_per_ep_out));
    must_tell([](DAT_EP_ATTR& a) { a.max_message_size = 1U << 31; },
              "max_message_size 2147483648, at most 1073741824");
    must_tell([](DAT_EP_ATTR& a) { a.max_rdma_size = ~DAT_VLEN{0}; },
              "max_rdma_size 18446744073709551615, at most 1073741824");
    must_tell([](DAT_EP_ATTR& a) { a.srq_soft_hw = -2; }, "srq_soft_hw -2, at least -1");
    must_tell([](DAT_EP_ATTR& a) { a.ep_transport_specific_count = 1; },
              "ep_transport_specific_count 1, at most 0");
    must_tell([](DAT_EP_ATTR& a) { a.ep_provider_specific_count = 1; },
              "ep_provider_specific_count 1, at most 0");
    must_tell([](DAT_EP_ATTR& a) { a.request_completion_flags = DAT_COMPLETION_SOLICITED_WAIT_FLAG; },
              "request_completion_flags 0x2");
    must_tell([](DAT_EP_ATTR& a) { a.qos = DAT_QOS_PREMIUM; }, "qos 8");
}

TEST(srq_create__number_that_cannot_be_had__named_in_the_log_with_its_limit) {
    const Side side(0);
    const auto must_tell = [&](DAT_SRQ_ATTR attr, const char* expected) {
        DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
        const Logged logged = logged_by([&] { return dat_srq_create(side.opened.ia, side.pz, &attr, &srq); });
        assert_int_not_equal(logged.status, DAT_SUCCESS);
        assert_true(logged.text.find(expected) != std::string::npos);
    };
    must_tell({0x7fffffff, 1, DAT_SRQ_LW_DEFAULT}, "max_recv_dtos 2147483647, at most ");
    must_tell({1, 1000, DAT_SRQ_LW_DEFAULT}, "max_recv_iov 1000, at most ");
    must_tell({1, 0, DAT_SRQ_LW_DEFAULT}, "max_recv_iov 0, at least 1");
    must_tell({1, 1, 1}, "low_watermark 1, at most 0");
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
