// SPDX-License-Identifier: BSD-3-Clause
//
// The codes that calls about events and endpoints answer to arguments that are wrong.
#include <netinet/in.h>

#include <array>

#include "tests/unit/udapl/dapl_pair.hpp"

using namespace sluice::dapl::test;

namespace {

constexpr DAT_RETURN argument(int number) {
    return coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1 + static_cast<unsigned>(number) - 1);
}

// What is no value of an enumeration all the same comes from programs in C.
template<typename T>
T wild(unsigned value) {
    return static_cast<T>(value);
}

constexpr DAT_OS_WAIT_PROXY_AGENT kNoAgent{nullptr, nullptr};

TEST(evd__wrong_arguments__the_code_of_each) {
    const Opened opened;
    const DAT_EVD_HANDLE evd = opened.make_evd();
    DAT_EVD_PARAM param{};
    DAT_EVENT event{};
    DAT_COUNT left = 0;
    assert_int_equal(dat_evd_create(opened.ia, 4, DAT_HANDLE_NULL, DAT_EVD_SOFTWARE_FLAG, nullptr),
                     argument(5));
    assert_int_equal(dat_evd_query(evd, wild<DAT_EVD_PARAM_MASK>(0x20), &param), argument(2));
    assert_int_equal(dat_evd_query(evd, DAT_EVD_FIELD_ALL, nullptr), argument(3));
    assert_int_equal(dat_evd_wait(evd, 0, 1, nullptr, &left), argument(4));
    assert_int_equal(dat_evd_wait(evd, 0, 1, &event, nullptr), argument(5));
    assert_int_equal(dat_evd_dequeue(evd, nullptr), argument(2));
    assert_int_equal(dat_evd_post_se(evd, nullptr), argument(2));
    assert_int_equal(dat_evd_resize(evd, -1), argument(2));
    assert_int_equal(dat_evd_resize(evd, 0x7fffffff), coded(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEVD));
}

TEST(cno__wrong_arguments__the_code_of_each) {
    const Opened opened;
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    assert_int_equal(dat_cno_create(opened.ia, kNoAgent, nullptr), argument(3));
    assert_int_equal(dat_cno_create(opened.ia, kNoAgent, &cno), DAT_SUCCESS);
    DAT_CNO_PARAM param{};
    assert_int_equal(dat_cno_query(cno, wild<DAT_CNO_PARAM_MASK>(4), &param), argument(2));
    assert_int_equal(dat_cno_query(cno, DAT_CNO_FIELD_ALL, nullptr), argument(3));
    assert_int_equal(dat_cno_wait(cno, 0, nullptr), argument(3));
}

DAT_RETURN connect(const Side& side, const sockaddr* address, DAT_COUNT size = 0, const char* data = nullptr,
                   DAT_QOS qos = DAT_QOS_BEST_EFFORT, DAT_CONNECT_FLAGS flags = DAT_CONNECT_DEFAULT_FLAG) {
    auto* const writable = const_cast<sockaddr*>(address); // NOLINT: DAT's pointer
    return dat_ep_connect(side.ep, writable, 1, DAT_TIMEOUT_INFINITE, size, mutable_data(data), qos, flags);
}

TEST(connect__wrong_arguments__the_code_of_each_and_unconnected) {
    const Pair pair;
    const Side& side = pair.active;
    const sockaddr* const address = pair.address();
    const std::array<char, 4096> data{};
    sockaddr_in6 other{};
    other.sin6_family = AF_INET6;
    other.sin6_addr = in6addr_loopback;
    sockaddr_in none{};
    none.sin_family = AF_UNIX;
    assert_int_equal(connect(side, nullptr), argument(2));
    assert_int_equal(connect(side, reinterpret_cast<const sockaddr*>(&none)),
                     coded(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED));
    assert_int_equal(connect(side, reinterpret_cast<const sockaddr*>(&other)),
                     coded(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED));
    assert_int_equal(connect(side, address, -1, data.data()), argument(5));
    assert_int_equal(connect(side, address, 1, nullptr), argument(6));
    assert_int_equal(connect(side, address, data.size(), data.data()), argument(5));
    assert_int_equal(connect(side, address, 0x7fffffff, data.data()), argument(5));
    assert_int_equal(connect(side, address, 0, nullptr, DAT_QOS_LOW_LATENCY), coded(DAT_MODEL_NOT_SUPPORTED));
    assert_int_equal(connect(side, address, 0, nullptr, wild<DAT_QOS>(16)), argument(7));
    assert_int_equal(connect(side, address, 0, nullptr, DAT_QOS_BEST_EFFORT, wild<DAT_CONNECT_FLAGS>(2)),
                     argument(8));
    assert_int_equal(connect(side, address, 0, nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_MULTIPATH_FLAG),
                     coded(DAT_MODEL_NOT_SUPPORTED));
    assert_int_equal(side.state(), DAT_EP_STATE_UNCONNECTED);
}

TEST(connect__no_time__its_argument_and_unconnected) {
    const Pair pair;
    assert_int_equal(pair.try_ask(0), argument(4));
    assert_int_equal(pair.active.state(), DAT_EP_STATE_UNCONNECTED);
    pair.connect();
    const Side third(2);
    assert_int_equal(dat_ep_dup_connect(third.ep, pair.active.ep, 0, 0, nullptr, DAT_QOS_BEST_EFFORT),
                     argument(3));
    assert_int_equal(third.state(), DAT_EP_STATE_UNCONNECTED);
}

TEST(connect__as_much_private_data_as_announced__taken) {
    const Pair pair;
    DAT_PROVIDER_ATTR attr{};
    assert_int_equal(dat_ia_query(pair.active.opened.ia, nullptr, 0, nullptr,
                                  DAT_PROVIDER_FIELD_MAX_PRIVATE_DATA_SIZE, &attr),
                     DAT_SUCCESS);
    const std::vector<char> data(static_cast<std::size_t>(attr.max_private_data_size) + 1, 'x');
    assert_int_equal(connect(pair.active, pair.address(), attr.max_private_data_size + 1, data.data()),
                     argument(5));
    assert_int_equal(connect(pair.active, pair.address(), attr.max_private_data_size, data.data()),
                     DAT_SUCCESS);
    pair.active.must_hear(DAT_CONNECTION_EVENT_NON_PEER_REJECTED); // nobody listens at qualifier 1
}

TEST(dup_connect__wrong_arguments__the_code_of_each) {
    const Pair pair;
    pair.connect();
    const Side third(2);
    const std::array<char, 4096> data{};
    const auto dup = [&](DAT_COUNT size, const char* bytes, DAT_QOS qos) {
        return dat_ep_dup_connect(third.ep, pair.active.ep, 1, size, mutable_data(bytes), qos);
    };
    assert_int_equal(dup(-1, data.data(), DAT_QOS_BEST_EFFORT), argument(4));
    assert_int_equal(dup(1, nullptr, DAT_QOS_BEST_EFFORT), argument(5));
    assert_int_equal(dup(data.size(), data.data(), DAT_QOS_BEST_EFFORT), argument(4));
    assert_int_equal(dup(0, nullptr, DAT_QOS_PREMIUM), coded(DAT_MODEL_NOT_SUPPORTED));
    assert_int_equal(dup(0, nullptr, wild<DAT_QOS>(32)), argument(6));
    assert_int_equal(third.state(), DAT_EP_STATE_UNCONNECTED);
}

TEST(disconnect__wild_flag__argument_2) {
    const Side side(0);
    assert_int_equal(dat_ep_disconnect(side.ep, wild<DAT_CLOSE_FLAGS>(2)), argument(2));
}

TEST(post__wrong_arguments__the_code_of_each) {
    const Pair pair;
    pair.connect();
    const Side& side = pair.active;
    std::array<DAT_LMR_TRIPLET, 5> parts{};
    const DAT_RMR_TRIPLET remote{};
    const auto receive = [&](DAT_COUNT count, DAT_LMR_TRIPLET* iov, unsigned flags) {
        return dat_ep_post_recv(side.ep, count, iov, {}, wild<DAT_COMPLETION_FLAGS>(flags));
    };
    const auto send = [&](DAT_COUNT count, DAT_LMR_TRIPLET* iov, unsigned flags) {
        return dat_ep_post_send(side.ep, count, iov, {}, wild<DAT_COMPLETION_FLAGS>(flags));
    };
    const auto write = [&](DAT_COUNT count, const DAT_RMR_TRIPLET* to, unsigned flags) {
        return dat_ep_post_rdma_write(side.ep, count, parts.data(), {}, to,
                                      wild<DAT_COMPLETION_FLAGS>(flags));
    };
    for (const DAT_COUNT count : {-1, 5, 0x7fffffff}) {
        assert_int_equal(receive(count, parts.data(), 0), argument(2));
        assert_int_equal(send(count, parts.data(), 0), argument(2));
        assert_int_equal(write(count, &remote, 0), argument(2));
    }
    assert_int_equal(receive(1, nullptr, 0), argument(3));
    assert_int_equal(send(1, nullptr, 0), argument(3));
    for (const unsigned flag : {DAT_COMPLETION_SUPPRESS_FLAG, DAT_COMPLETION_BARRIER_FENCE_FLAG,
                                DAT_COMPLETION_SOLICITED_WAIT_FLAG, DAT_COMPLETION_EVD_THRESHOLD_FLAG}) {
        assert_int_equal(receive(0, nullptr, flag), argument(5));
    }
    assert_int_equal(send(0, nullptr, 0x80), argument(5));
    assert_int_equal(write(0, &remote, DAT_COMPLETION_SOLICITED_WAIT_FLAG), argument(6));
    assert_int_equal(write(0, nullptr, 0), argument(5));
    assert_int_equal(dat_ep_post_rdma_read(side.ep, 0, nullptr, {}, nullptr, DAT_COMPLETION_DEFAULT_FLAG),
                     argument(5));
    // Nothing was posted; and nothing is a message, too.
    assert_int_equal(pair.passive.receive(0, 0, 3), DAT_SUCCESS);
    assert_int_equal(send(0, nullptr, 0), DAT_SUCCESS);
    side.must_complete(0, DAT_DTO_SUCCESS, 0);
    pair.passive.must_complete(3, DAT_DTO_SUCCESS, 0);
}

DAT_RETURN send_part(const Side& side, DAT_LMR_TRIPLET part) {
    return dat_ep_post_send(side.ep, 1, &part, {}, DAT_COMPLETION_DEFAULT_FLAG);
}

DAT_RETURN receive_part(const Side& side, DAT_LMR_TRIPLET part) {
    return dat_ep_post_recv(side.ep, 1, &part, {}, DAT_COMPLETION_DEFAULT_FLAG);
}

TEST(post__segment_outside_of_its_region__argument_3) {
    const Pair pair;
    pair.connect();
    const Block& block = pair.active.block;
    const DAT_LMR_TRIPLET wild_parts[] = {
        {block.context, 0, block.address(), 4097},  {block.context, 0, block.address() + 4096, 1},
        {block.context, 0, block.address() - 1, 1}, {block.context, 0, block.address() + 1, ~DAT_VLEN{0}},
        {block.context, 0, ~DAT_VADDR{0}, 2},
    };
    for (const DAT_LMR_TRIPLET& part : wild_parts) {
        assert_int_equal(send_part(pair.active, part), argument(3));
        assert_int_equal(receive_part(pair.active, part), argument(3));
    }
}

TEST(post__region_of_nobody__privileges_violation) {
    const Pair pair;
    pair.connect();
    const Block& block = pair.active.block;
    // The next number may be the other side's, where both are on one device.
    const DAT_LMR_CONTEXT of_another_life = block.context ^ 0x8000'0000;
    for (const DAT_LMR_CONTEXT context : {of_another_life, ~DAT_LMR_CONTEXT{0}, DAT_LMR_CONTEXT{0}}) {
        const DAT_LMR_TRIPLET part{context, 0, block.address(), 1};
        assert_int_equal(send_part(pair.active, part), coded(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_READ));
        assert_int_equal(receive_part(pair.active, part),
                         coded(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_WRITE));
    }
}

TEST(psp__wrong_arguments__the_code_of_each) {
    const Side side(0);
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    DAT_CONN_QUAL qualifier = 0;
    const auto create = [&](DAT_CONN_QUAL at, unsigned flags) {
        return dat_psp_create(side.opened.ia, at, side.connections, wild<DAT_PSP_FLAGS>(flags), &psp);
    };
    assert_int_equal(create(0, DAT_PSP_CONSUMER_FLAG), argument(2));
    assert_int_equal(create(9, DAT_PSP_PROVIDER_FLAG), coded(DAT_MODEL_NOT_SUPPORTED));
    assert_int_equal(create(9, 2), argument(4));
    assert_int_equal(dat_psp_create(side.opened.ia, 9, side.connections, DAT_PSP_CONSUMER_FLAG, nullptr),
                     argument(5));
    assert_int_equal(
        dat_psp_create_any(side.opened.ia, nullptr, side.connections, DAT_PSP_CONSUMER_FLAG, &psp),
        argument(2));
    assert_null(psp);
    assert_int_equal(
        dat_psp_create_any(side.opened.ia, &qualifier, side.connections, DAT_PSP_CONSUMER_FLAG, &psp),
        DAT_SUCCESS);
    assert_int_not_equal(qualifier, 0);
    DAT_PSP_PARAM param{};
    assert_int_equal(dat_psp_query(psp, wild<DAT_PSP_PARAM_MASK>(0x10), &param), argument(2));
    assert_int_equal(dat_psp_query(psp, DAT_PSP_FIELD_ALL, nullptr), argument(3));
    assert_int_equal(dat_psp_query(psp, DAT_PSP_FIELD_ALL, &param), DAT_SUCCESS);
    assert_ptr_equal(param.ia_handle, side.opened.ia);
    assert_int_equal(param.conn_qual, qualifier);
    assert_ptr_equal(param.evd_handle, side.connections);
    assert_int_equal(param.psp_flags, DAT_PSP_CONSUMER_FLAG);
    assert_int_equal(dat_evd_free(side.connections), coded(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_IN_USE));
}

TEST(psp_free__request_delivered__stays_valid) {
    const Pair pair;
    pair.ask();
    const DAT_CR_HANDLE request = pair.request();
    assert_int_equal(dat_psp_free(pair.psp), DAT_SUCCESS);
    assert_int_equal(dat_cr_accept(request, pair.passive.ep, 0, nullptr), DAT_SUCCESS);
    pair.active.must_hear(DAT_CONNECTION_EVENT_ESTABLISHED);
}

TEST(cr__wrong_arguments__the_code_of_each_and_it_stays) {
    const Pair pair;
    pair.ask();
    const DAT_CR_HANDLE request = pair.request();
    const std::array<char, 4096> data{};
    DAT_CR_PARAM param{};
    const auto accept = [&](DAT_EP_HANDLE ep, DAT_COUNT size, const char* bytes) {
        return dat_cr_accept(request, ep, size, mutable_data(bytes));
    };
    assert_int_equal(dat_cr_query(request, wild<DAT_CR_PARAM_MASK>(0x20), &param), argument(2));
    assert_int_equal(dat_cr_query(request, DAT_CR_FIELD_ALL, nullptr), argument(3));
    assert_int_equal(accept(DAT_HANDLE_NULL, 0, nullptr), argument(2));
    assert_int_equal(DAT_GET_TYPE(accept(pair.active.ep, 0, nullptr)),
                     DAT_INVALID_HANDLE); // another adapter's
    assert_int_equal(accept(pair.passive.ep, -1, data.data()), argument(3));
    assert_int_equal(accept(pair.passive.ep, 1, nullptr), argument(4));
    assert_int_equal(accept(pair.passive.ep, data.size(), data.data()), argument(3));
    assert_int_equal(pair.passive.state(), DAT_EP_STATE_UNCONNECTED);
    assert_int_equal(accept(pair.passive.ep, 0, nullptr), DAT_SUCCESS);
    pair.active.must_hear(DAT_CONNECTION_EVENT_ESTABLISHED);
}

TEST(status__nothing_wanted_or_posted__answered) {
    const Side side(0);
    DAT_BOOLEAN receive_idle{};
    DAT_BOOLEAN request_idle{};
    assert_int_equal(dat_ep_get_status(side.ep, nullptr, nullptr, nullptr), DAT_SUCCESS);
    assert_int_equal(dat_ep_get_status(side.ep, nullptr, &receive_idle, &request_idle), DAT_SUCCESS);
    assert_int_equal(receive_idle, DAT_TRUE);
    assert_int_equal(request_idle, DAT_TRUE);
    assert_int_equal(side.receive(0, 1), DAT_SUCCESS);
    assert_int_equal(dat_ep_get_status(side.ep, nullptr, &receive_idle, &request_idle), DAT_SUCCESS);
    assert_int_equal(receive_idle, DAT_FALSE);
    assert_int_equal(request_idle, DAT_TRUE);
}

// Requests that wait for a receive, as many as the endpoint takes.
void fill_with_requests(const Side& side) {
    for (int i = 0; i < 16; ++i) {
        assert_int_equal(side.send(0, 1), DAT_SUCCESS);
    }
}

TEST(rdma__regions_ranges_and_lengths__the_code_of_each) {
    const Pair pair;
    pair.connect();
    const Side& side = pair.active;
    const Block only_read(side.opened, side.pz, DAT_MEM_PRIV_LOCAL_READ_FLAG);
    const Block only_written(side.opened, side.pz, DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
    const Block elsewhere(side.opened, side.opened.make_pz());
    const DAT_RMR_TRIPLET remote{pair.passive.block.key, 0, pair.passive.block.address(), 8};
    const auto post = [&](auto function, DAT_LMR_TRIPLET part) {
        return function(side.ep, 1, &part, DAT_DTO_COOKIE{}, &remote, DAT_COMPLETION_DEFAULT_FLAG);
    };
    const auto send = [&](DAT_LMR_TRIPLET part) {
        return dat_ep_post_send(side.ep, 1, &part, {}, DAT_COMPLETION_DEFAULT_FLAG);
    };
    assert_int_equal(post(dat_ep_post_rdma_read, only_read.part(0, 8)),
                     coded(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_WRITE));
    assert_int_equal(post(dat_ep_post_rdma_write, only_written.part(0, 8)),
                     coded(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_READ));
    assert_int_equal(send(only_written.part(0, 8)), coded(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_READ));
    for (const auto function : {dat_ep_post_rdma_read, dat_ep_post_rdma_write}) {
        const DAT_VLEN wrong_length = function == dat_ep_post_rdma_read ? 7 : 9;
        assert_int_equal(post(function, side.block.part(0, wrong_length)), coded(DAT_LENGTH_ERROR));
        assert_int_equal(post(function, side.block.part(4090, 7)), argument(3));
        assert_int_equal(post(function, side.block.part(1, ~DAT_VLEN{0})), argument(3));
        assert_int_equal(post(function, elsewhere.part(0, 8)), coded(DAT_PROTECTION_VIOLATION));
    }
    if (is_over_iwarp()) {
        return; // a send doesn't wait for a receive
    }
    fill_with_requests(side);
    for (const auto function : {dat_ep_post_rdma_read, dat_ep_post_rdma_write}) {
        assert_int_equal(DAT_GET_TYPE(post(function, side.block.part(0, 8))), DAT_INSUFFICIENT_RESOURCES);
    }
    assert_int_equal(DAT_GET_TYPE(send(side.block.part(0, 8))), DAT_INSUFFICIENT_RESOURCES);
}

TEST(memory__wrong_arguments__the_code_of_each) {
    const Opened opened;
    const DAT_PZ_HANDLE pz = opened.make_pz();
    const Block block(opened, pz);
    DAT_LMR_PARAM lmr_param{};
    assert_int_equal(dat_pz_create(opened.ia, nullptr), argument(2));
    assert_int_equal(dat_lmr_query(block.lmr, wild<DAT_LMR_PARAM_MASK>(0x400), &lmr_param), argument(2));
    assert_int_equal(dat_lmr_query(block.lmr, DAT_LMR_FIELD_ALL, nullptr), argument(3));
    DAT_SRQ_ATTR attr{4, 1, DAT_SRQ_LW_DEFAULT};
    DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
    assert_int_equal(dat_srq_create(opened.ia, pz, &attr, &srq), DAT_SUCCESS);
    DAT_SRQ_PARAM srq_param{};
    assert_int_equal(dat_srq_query(srq, wild<DAT_SRQ_PARAM_MASK>(0x100), &srq_param), argument(2));
    assert_int_equal(dat_srq_query(srq, DAT_SRQ_FIELD_ALL, nullptr), argument(3));
}

TEST(ia_close__wild_flag__argument_2_and_open) {
    const Opened opened;
    assert_int_equal(dat_ia_close(opened.ia, wild<DAT_CLOSE_FLAGS>(2)), argument(2));
    (void)opened.make_pz();
}

TEST(ep_create_with_srq__quality_of_service__model_not_supported) {
    const Side side(0);
    DAT_SRQ_ATTR attr{4, 1, DAT_SRQ_LW_DEFAULT};
    DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
    assert_int_equal(dat_srq_create(side.opened.ia, side.pz, &attr, &srq), DAT_SUCCESS);
    DAT_EP_PARAM param{};
    assert_int_equal(dat_ep_query(side.ep, DAT_EP_FIELD_ALL, &param), DAT_SUCCESS);
    param.ep_attr.qos = DAT_QOS_PREMIUM;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    assert_int_equal(dat_ep_create_with_srq(side.opened.ia, side.pz, side.transfers, side.transfers,
                                            side.connections, srq, &param.ep_attr, &ep),
                     coded(DAT_MODEL_NOT_SUPPORTED));
    assert_null(ep);
}

// uroce has room for fewer listeners than there are ports. In the lab the guest has a few ports only.
TEST(psp_create_any__as_many_as_there_are__the_code_until_one_is_free) {
    const DAT_RETURN none_left = is_own_device_named()
                                     ? coded(DAT_CONN_QUAL_UNAVAILABLE)
                                     : coded(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
    const Side side(0);
    std::vector<DAT_PSP_HANDLE> points;
    const auto create = [&](DAT_CONN_QUAL& qualifier) {
        DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
        const DAT_RETURN status =
            dat_psp_create_any(side.opened.ia, &qualifier, side.connections, DAT_PSP_CONSUMER_FLAG, &psp);
        assert_int_equal(status == DAT_SUCCESS, psp != DAT_HANDLE_NULL);
        if (status == DAT_SUCCESS) {
            points.push_back(psp);
        }
        return status;
    };
    DAT_CONN_QUAL qualifier = 0;
    DAT_RETURN status = DAT_SUCCESS;
    while (status == DAT_SUCCESS && points.size() < 0x10000) {
        status = create(qualifier);
    }
    const DAT_CONN_QUAL last = qualifier;
    assert_int_equal(status, none_left);
    assert_int_equal(create(qualifier), none_left);
    assert_int_equal(qualifier, last);
    for (int i = 0; i < 2; ++i) { // the kernel doesn't give the last one again at once
        assert_int_equal(dat_psp_free(points.back()), DAT_SUCCESS);
        points.pop_back();
    }
    assert_int_equal(create(qualifier), DAT_SUCCESS);
    assert_int_equal(dat_psp_create_any(side.opened.ia, &qualifier, side.connections, DAT_PSP_PROVIDER_FLAG,
                                        &points.back()),
                     coded(DAT_MODEL_NOT_SUPPORTED));
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
