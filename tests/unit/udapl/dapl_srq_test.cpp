// SPDX-License-Identifier: BSD-3-Clause
//
// Shared receive queues of our provider, and endpoints that take from them.
#include <atomic>
#include <cstring>
#include <thread>

#include "tests/unit/udapl/dapl_pair.hpp"

using namespace sluice::dapl::test;

namespace {

constexpr DAT_RETURN bad(unsigned argument) {
    return coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1 + argument - 1);
}

// A queue of SIZE receives with a part each.
DAT_SRQ_HANDLE make_srq(const Opened& opened, DAT_PZ_HANDLE pz, DAT_COUNT size = 10) {
    DAT_SRQ_ATTR attr{size, 1, DAT_SRQ_LW_DEFAULT};
    DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
    assert_int_equal(dat_srq_create(opened.ia, pz, &attr, &srq), DAT_SUCCESS);
    assert_true(attr.max_recv_dtos >= size);
    return srq;
}

DAT_EP_ATTR shared_attr(DAT_EP_HANDLE of) {
    DAT_EP_PARAM param{};
    assert_int_equal(dat_ep_query(of, DAT_EP_FIELD_ALL, &param), DAT_SUCCESS);
    param.ep_attr.max_recv_dtos = DAT_HW_DEFAULT;
    param.ep_attr.srq_soft_hw = DAT_HW_DEFAULT;
    return param.ep_attr;
}

// The passive side receives from a shared queue.
struct SharedPair : Pair {
    explicit SharedPair(DAT_COUNT size = 10, DAT_COUNT soft = DAT_HW_DEFAULT, DAT_COUNT hard = DAT_HW_DEFAULT)
        : srq(make_srq(passive.opened, passive.pz, size)), attr(shared_attr(passive.ep)) {
        attr.srq_soft_hw = soft;
        attr.max_recv_dtos = hard;
        assert_int_equal(dat_ep_free(passive.ep), DAT_SUCCESS);
        passive.ep = make_endpoint();
    }
    DAT_EP_HANDLE make_endpoint() const {
        DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
        assert_int_equal(dat_ep_create_with_srq(passive.opened.ia, passive.pz, passive.transfers,
                                                passive.transfers, passive.connections, srq, &attr, &ep),
                         DAT_SUCCESS);
        return ep;
    }
    DAT_RETURN post(std::size_t offset, DAT_VLEN length, std::uint64_t cookie) const {
        DAT_LMR_TRIPLET part = passive.block.part(offset, length);
        return dat_srq_post_recv(srq, 1, &part, Side::cookie_of(cookie));
    }
    void post_many(int count) const {
        for (int i = 0; i < count; ++i) {
            assert_int_equal(post(0, 64, static_cast<std::uint64_t>(i)), DAT_SUCCESS);
        }
    }
    // One that the peer's program doesn't look at.
    void send_one() const {
        assert_int_equal(active.send(0, 8), DAT_SUCCESS);
        active.must_complete(2, DAT_DTO_SUCCESS, 8);
    }
    DAT_SRQ_PARAM query() const {
        DAT_SRQ_PARAM param{};
        assert_int_equal(dat_srq_query(srq, DAT_SRQ_FIELD_ALL, &param), DAT_SUCCESS);
        return param;
    }
    void must_count(DAT_COUNT available, DAT_COUNT outstanding) const {
        const DAT_SRQ_PARAM param = query();
        assert_int_equal(param.available_dto_count, available);
        assert_int_equal(param.outstanding_dto_count, outstanding);
    }
    void must_be_told(DAT_COUNT reason, DAT_HANDLE handle) const {
        const DAT_EVENT told = next(passive.opened.async_evd);
        assert_int_equal(told.event_data.asynch_error_event_data.reason, reason);
        assert_ptr_equal(told.event_data.asynch_error_event_data.dat_handle, handle);
    }
    void must_not_be_told() const {
        DAT_EVENT told{};
        assert_int_equal(DAT_GET_TYPE(dat_evd_dequeue(passive.opened.async_evd, &told)), DAT_QUEUE_EMPTY);
    }

    DAT_SRQ_HANDLE srq;
    DAT_EP_ATTR attr;
};

TEST(srq_create__queried__every_field) {
    const Opened opened;
    const DAT_PZ_HANDLE pz = opened.make_pz();
    DAT_SRQ_ATTR attr{10, 3, DAT_SRQ_LW_DEFAULT};
    DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
    assert_int_equal(dat_srq_create(opened.ia, pz, &attr, &srq), DAT_SUCCESS);
    DAT_SRQ_PARAM param{};
    std::memset(&param, 0x55, sizeof param);
    assert_int_equal(dat_srq_query(srq, DAT_SRQ_FIELD_ALL, &param), DAT_SUCCESS);
    assert_ptr_equal(param.ia_handle, opened.ia);
    assert_int_equal(param.srq_state, DAT_SRQ_STATE_OPERATIONAL);
    assert_ptr_equal(param.pz_handle, pz);
    assert_int_equal(param.max_recv_dtos, attr.max_recv_dtos);
    assert_int_equal(param.max_recv_iov, attr.max_recv_iov);
    assert_true(attr.max_recv_dtos >= 10 && attr.max_recv_iov >= 3);
    assert_int_equal(param.low_watermark, 0);
    assert_int_equal(param.available_dto_count, 0);
    assert_int_equal(param.outstanding_dto_count, 0);
    DAT_HANDLE_TYPE type{};
    assert_int_equal(dat_get_handle_type(srq, &type), DAT_SUCCESS);
    assert_int_equal(type, DAT_HANDLE_TYPE_SRQ);
    assert_int_equal(dat_pz_free(pz), coded(DAT_INVALID_STATE, DAT_INVALID_STATE_PZ_IN_USE));
    assert_int_equal(dat_srq_free(srq), DAT_SUCCESS);
    assert_int_equal(dat_srq_free(srq), coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_SRQ));
    assert_int_equal(dat_pz_free(pz), DAT_SUCCESS);
}

TEST(srq_create__wrong_arguments__each_its_code) {
    const Opened opened;
    const Opened other;
    const DAT_PZ_HANDLE pz = opened.make_pz();
    DAT_SRQ_ATTR good{10, 1, DAT_SRQ_LW_DEFAULT};
    DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
    assert_int_equal(dat_srq_create(pz, pz, &good, &srq), coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA));
    assert_int_equal(dat_srq_create(opened.ia, other.make_pz(), &good, &srq),
                     coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_PZ));
    assert_int_equal(dat_srq_create(opened.ia, pz, nullptr, &srq), bad(3));
    for (const DAT_SRQ_ATTR wrong :
         {DAT_SRQ_ATTR{0, 1, 0}, DAT_SRQ_ATTR{-1, 1, 0}, DAT_SRQ_ATTR{1, 0, 0}, DAT_SRQ_ATTR{10, 1, 1}}) {
        DAT_SRQ_ATTR attr = wrong;
        assert_int_equal(dat_srq_create(opened.ia, pz, &attr, &srq), bad(3));
    }
    assert_int_equal(dat_srq_create(opened.ia, pz, &good, nullptr), bad(4));
    DAT_SRQ_ATTR huge{1 << 30, 1, 0};
    assert_int_equal(dat_srq_create(opened.ia, pz, &huge, &srq),
                     coded(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_SRQ));
    assert_null(srq);
}

TEST(post_recv__wrong_segments__each_its_code) {
    const SharedPair pair;
    DAT_LMR_TRIPLET part = pair.passive.block.part(0, 10);
    const DAT_DTO_COOKIE cookie = Side::cookie_of(1);
    assert_int_equal(dat_srq_post_recv(pair.srq, -1, &part, cookie), bad(2));
    assert_int_equal(dat_srq_post_recv(pair.srq, 33, &part, cookie), bad(2));
    assert_int_equal(dat_srq_post_recv(pair.srq, 1, nullptr, cookie), bad(3));
    assert_int_equal(pair.post(4090, 10, 1), bad(3));
    part.lmr_context ^= 0x5a5a;
    assert_int_equal(dat_srq_post_recv(pair.srq, 1, &part, cookie),
                     coded(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_WRITE));
    const Block other(pair.passive.opened, pair.passive.opened.make_pz());
    part = other.part(0, 10);
    assert_int_equal(dat_srq_post_recv(pair.srq, 1, &part, cookie), coded(DAT_PROTECTION_VIOLATION));
    const Block unwritable(pair.passive.opened, pair.passive.pz, DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
    part = unwritable.part(0, 10);
    assert_int_equal(dat_srq_post_recv(pair.srq, 1, &part, cookie),
                     coded(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_WRITE));
    pair.must_count(0, 0);
    assert_int_equal(dat_ep_post_recv(pair.passive.ep, 1, &part, cookie, DAT_COMPLETION_DEFAULT_FLAG),
                     bad(1));
}

TEST(post_recv__more_bytes_than_a_message_has__length_error) {
    if (is_own_device_named()) {
        skip(); // devices have fewer segments
    }
    constexpr std::size_t kCount = 32;
    constexpr std::size_t kLargest = (std::size_t{1} << 30) / kCount;
    const Opened opened;
    const DAT_PZ_HANDLE pz = opened.make_pz();
    const Block block(opened, pz, DAT_MEM_PRIV_ALL_FLAG, kLargest + 1);
    DAT_SRQ_ATTR attr{1, kCount, DAT_SRQ_LW_DEFAULT};
    DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
    assert_int_equal(dat_srq_create(opened.ia, pz, &attr, &srq), DAT_SUCCESS);
    std::vector<DAT_LMR_TRIPLET> parts(kCount, block.part(0, kLargest));
    parts.back() = block.part(0, kLargest + 1);
    assert_int_equal(dat_srq_post_recv(srq, kCount, parts.data(), {}), coded(DAT_LENGTH_ERROR));
    parts.back() = block.part(0, kLargest);
    assert_int_equal(dat_srq_post_recv(srq, kCount, parts.data(), {}), DAT_SUCCESS);
}

TEST(post_recv__as_many_as_fit__then_insufficient_resources) {
    const SharedPair pair(4);
    const DAT_COUNT size = pair.query().max_recv_dtos;
    pair.post_many(size);
    assert_int_equal(pair.post(0, 1, 1), coded(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_SRQ));
    pair.must_count(size, size);
}

// As the page of dat_srq_query says.
TEST(post_recv__completion_not_taken__its_entry_is_occupied) {
    const SharedPair pair(4);
    pair.connect();
    const DAT_COUNT size = pair.query().max_recv_dtos;
    pair.post_many(size);
    pair.send_one();
    pair.must_count(size - 1, size);
    assert_int_equal(pair.post(0, 64, 9), coded(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_SRQ));
    pair.passive.must_complete(0, DAT_DTO_SUCCESS, 8);
    assert_int_equal(pair.post(0, 64, 9), DAT_SUCCESS);
    pair.must_count(size, size);
}

// The example of the standard.
TEST(counts__three_posted_one_taken_and_reaped__as_the_page_says) {
    const SharedPair pair;
    pair.connect();
    pair.post_many(3);
    pair.must_count(3, 3);
    pair.send_one();
    pair.must_count(2, 3);
    pair.passive.must_complete(0, DAT_DTO_SUCCESS, 8);
    pair.must_count(2, 2);
    pair.send_one();
    DAT_EVENT event{};
    assert_int_equal(dat_evd_dequeue(pair.passive.transfers, &event), DAT_SUCCESS);
    pair.must_count(1, 1);
}

TEST(recv_query__message_that_nobody_has_looked_at__counted) {
    const SharedPair pair;
    pair.connect();
    pair.post_many(3);
    pair.send_one();
    DAT_COUNT allocated = -1;
    assert_int_equal(dat_ep_recv_query(pair.passive.ep, &allocated, nullptr), DAT_SUCCESS);
    assert_int_equal(allocated, 1);
    pair.passive.must_complete(0, DAT_DTO_SUCCESS, 8);
    assert_int_equal(dat_ep_recv_query(pair.passive.ep, &allocated, nullptr), DAT_SUCCESS);
    assert_int_equal(allocated, 0);
}

TEST(receive__two_endpoints__buffers_in_order_and_the_right_endpoint) {
    SharedPair pair;
    pair.connect();
    const DAT_EP_HANDLE first = pair.passive.ep;
    // A second connection, between two more endpoints.
    const DAT_EP_HANDLE asking = pair.active.ep;
    assert_int_equal(dat_ep_create(pair.active.opened.ia, pair.active.pz, pair.active.transfers,
                                   pair.active.transfers, pair.active.connections, nullptr, &pair.active.ep),
                     DAT_SUCCESS);
    pair.passive.ep = pair.make_endpoint();
    const DAT_EP_HANDLE second = pair.passive.ep;
    pair.connect();
    for (std::uint64_t i = 0; i < 4; ++i) {
        assert_int_equal(pair.post(100 * i, 50, i), DAT_SUCCESS);
    }
    for (std::uint64_t i = 0; i < 4; ++i) {
        pair.active.ep = i % 2 == 0 ? asking : pair.active.ep;
        pair.passive.ep = i % 2 == 0 ? first : second;
        DAT_LMR_TRIPLET part = pair.active.block.part(0, 20 + i);
        std::memset(pair.active.block.bytes.data(), static_cast<int>(i + 1), 20 + i);
        const DAT_EP_HANDLE sender = pair.active.ep;
        assert_int_equal(dat_ep_post_send(sender, 1, &part, Side::cookie_of(9), DAT_COMPLETION_DEFAULT_FLAG),
                         DAT_SUCCESS);
        pair.active.must_complete(9, DAT_DTO_SUCCESS, 20 + i);
        const DAT_EVENT event = next(pair.passive.transfers);
        const DAT_DTO_COMPLETION_EVENT_DATA& data = event.event_data.dto_completion_event_data;
        assert_ptr_equal(data.ep_handle, sender == asking ? first : second);
        assert_int_equal(data.user_cookie.as_64, i);
        assert_int_equal(data.transfered_length, 20 + i);
        assert_memory_equal(pair.passive.block.bytes.data() + 100 * i, pair.active.block.bytes.data(),
                            20 + i);
    }
    assert_int_equal(dat_srq_free(pair.srq), coded(DAT_INVALID_STATE, DAT_INVALID_STATE_SRQ_IN_USE));
    assert_int_equal(dat_ep_free(first), DAT_SUCCESS);
    assert_int_equal(dat_ep_free(second), DAT_SUCCESS);
    assert_int_equal(dat_srq_free(pair.srq), DAT_SUCCESS);
}

TEST(disconnect__buffers_posted__they_stay_for_others) {
    const SharedPair pair;
    pair.connect();
    pair.post_many(3);
    assert_int_equal(dat_ep_disconnect(pair.active.ep, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    pair.passive.must_hear(DAT_CONNECTION_EVENT_DISCONNECTED);
    pair.must_count(3, 3);
    // Reset, the endpoint takes from there again.
    assert_int_equal(dat_ep_reset(pair.passive.ep), DAT_SUCCESS);
    pair.active.must_hear(DAT_CONNECTION_EVENT_DISCONNECTED);
    assert_int_equal(dat_ep_reset(pair.active.ep), DAT_SUCCESS);
    pair.connect();
    pair.send_one();
    pair.passive.must_complete(0, DAT_DTO_SUCCESS, 8);
    pair.must_count(2, 2);
}

TEST(ep_free__its_message_not_reaped__not_outstanding_any_more) {
    const SharedPair pair;
    pair.connect();
    pair.post_many(3);
    pair.send_one();
    assert_int_equal(dat_ep_free(pair.passive.ep), DAT_SUCCESS);
    DAT_EVENT event{};
    while (dat_evd_dequeue(pair.passive.transfers, &event) == DAT_SUCCESS) {
    }
    pair.must_count(2, 2);
}

// Reset, its buffers are free, and as many fit as before.
TEST(ep_reset__its_message_not_reaped__not_outstanding_any_more) {
    const SharedPair pair;
    pair.connect();
    pair.post_many(3);
    pair.send_one();
    assert_int_equal(dat_ep_disconnect(pair.active.ep, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    pair.passive.must_hear(DAT_CONNECTION_EVENT_DISCONNECTED);
    assert_int_equal(dat_ep_reset(pair.passive.ep), DAT_SUCCESS);
    pair.must_count(2, 2);
}

TEST(evd_free__completion_not_taken__not_outstanding_any_more) {
    const SharedPair pair;
    pair.connect();
    pair.post_many(3);
    pair.send_one();
    pair.must_count(2, 3);
    assert_int_equal(dat_ep_free(pair.passive.ep), DAT_SUCCESS);
    pair.must_count(2, 3);
    assert_int_equal(dat_evd_free(pair.passive.transfers), DAT_SUCCESS);
    pair.must_count(2, 2);
}

TEST(set_lw__few_left_and_nobody_looks__told_once_per_call) {
    const SharedPair pair;
    pair.connect();
    pair.post_many(4);
    assert_int_equal(dat_srq_set_lw(pair.srq, 3), DAT_SUCCESS);
    assert_int_equal(pair.query().low_watermark, 3);
    pair.send_one();
    pair.must_count(3, 4);
    pair.must_not_be_told();
    pair.send_one(); // the program doesn't look, but the device does
    pair.must_be_told(DAT_SRQ_LOW_WATERMARK_EVENT, pair.srq);
    pair.send_one();
    pair.must_count(1, 4);
    pair.must_not_be_told();
    assert_int_equal(dat_srq_set_lw(pair.srq, 2), DAT_SUCCESS); // below it already
    pair.must_be_told(DAT_SRQ_LOW_WATERMARK_EVENT, pair.srq);
    assert_int_equal(dat_srq_set_lw(pair.srq, DAT_SRQ_LW_DEFAULT), DAT_SUCCESS);
    pair.send_one();
    pair.must_count(0, 4);
    pair.must_not_be_told();
}

TEST(set_lw__more_than_fit_or_negative__argument_2) {
    const SharedPair pair;
    assert_int_equal(dat_srq_set_lw(pair.srq, pair.query().max_recv_dtos + 1), bad(2));
    assert_int_equal(dat_srq_set_lw(pair.srq, -1), bad(2));
    assert_int_equal(dat_srq_set_lw(pair.passive.ep, 1), coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_SRQ));
}

TEST(resize__with_buffers__kept_and_more_fit) {
    const SharedPair pair(4);
    pair.connect();
    pair.post_many(4);
    const DAT_RETURN resized = dat_srq_resize(pair.srq, 100);
    if (is_own_device_named() && resized == coded(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_SRQ)) {
        assert_int_equal(pair.query().max_recv_dtos, 4);
        return; // siw's queues stay as they are
    }
    assert_int_equal(resized, DAT_SUCCESS);
    assert_int_equal(pair.query().max_recv_dtos, 100);
    for (std::uint64_t i = 4; i < 100; ++i) {
        assert_int_equal(pair.post(0, 64, i), DAT_SUCCESS);
    }
    assert_int_equal(DAT_GET_TYPE(pair.post(0, 64, 0)), DAT_INSUFFICIENT_RESOURCES);
    for (std::uint64_t i = 0; i < 100; ++i) {
        pair.send_one();
        pair.passive.must_complete(i, DAT_DTO_SUCCESS, 8);
    }
    pair.must_count(0, 0);
}

TEST(resize__below_what_is_held_or_marked__invalid_state) {
    const SharedPair pair(10);
    pair.post_many(6);
    assert_int_equal(dat_srq_resize(pair.srq, 5), coded(DAT_INVALID_STATE, DAT_INVALID_STATE_SRQ_IN_USE));
    assert_int_equal(dat_srq_set_lw(pair.srq, 8), DAT_SUCCESS);
    assert_int_equal(DAT_GET_TYPE(dat_srq_resize(pair.srq, 7)), DAT_INVALID_STATE);
    assert_int_equal(dat_srq_resize(pair.srq, 8), DAT_SUCCESS);
    assert_int_equal(pair.query().max_recv_dtos, 8);
    assert_int_equal(dat_srq_resize(pair.srq, 0), bad(2));
    assert_int_equal(dat_srq_resize(pair.srq, 1 << 30), coded(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_SRQ));
    pair.post_many(2);
    assert_int_equal(DAT_GET_TYPE(pair.post(0, 64, 0)), DAT_INSUFFICIENT_RESOURCES);
}

TEST(receive__no_dispatcher_for_receives__buffers_come_back) {
    SharedPair pair(10);
    const Side& side = pair.passive;
    assert_int_equal(dat_ep_free(side.ep), DAT_SUCCESS);
    assert_int_equal(dat_ep_create_with_srq(side.opened.ia, side.pz, DAT_HANDLE_NULL, side.transfers,
                                            side.connections, pair.srq, &pair.attr, &pair.passive.ep),
                     DAT_SUCCESS);
    pair.connect();
    pair.post_many(10);
    for (int i = 0; i < 9; ++i) {
        pair.send_one();
    }
    pair.must_count(1, 1);
    assert_int_equal(side.state(), DAT_EP_STATE_CONNECTED);
    pair.must_not_be_told();
    pair.send_one();
    assert_int_equal(dat_ep_free(side.ep), DAT_SUCCESS); // the last one is nobody's, too
    pair.must_count(0, 0);
}

TEST(watermarks__soft_passed__told_and_hard_passed__broken) {
    const SharedPair pair(10, 1, 2);
    pair.connect();
    pair.post_many(5);
    pair.send_one();
    pair.send_one();
    pair.must_be_told(DAT_SRQ_SOFT_HIGH_WATERMARK_EVENT, pair.passive.ep);
    assert_int_equal(pair.passive.state(), DAT_EP_STATE_CONNECTED);
    pair.send_one();
    pair.passive.must_hear(DAT_CONNECTION_EVENT_BROKEN);
}

DAT_EP_PARAM query(DAT_EP_HANDLE ep) {
    DAT_EP_PARAM param{};
    assert_int_equal(dat_ep_query(ep, DAT_EP_FIELD_ALL, &param), DAT_SUCCESS);
    return param;
}

TEST(watermarks__set__are_attributes_that_modify_keeps) {
    const SharedPair pair;
    const DAT_EP_HANDLE ep = pair.passive.ep;
    assert_int_equal(query(ep).ep_attr.max_recv_iov, pair.query().max_recv_iov);
    assert_int_equal(dat_ep_set_watermark(ep, 3, 5), DAT_SUCCESS);
    assert_int_equal(query(ep).ep_attr.srq_soft_hw, 3);
    assert_int_equal(query(ep).ep_attr.max_recv_dtos, 5);
    assert_int_equal(dat_ep_set_watermark(ep, 0, 0), DAT_SUCCESS);
    DAT_EP_PARAM param = query(ep);
    assert_int_equal(param.ep_attr.srq_soft_hw, 0);
    assert_int_equal(param.ep_attr.max_recv_dtos, 0);
    param.ep_attr.max_message_size = 100;
    assert_int_equal(dat_ep_modify(ep, DAT_EP_FIELD_EP_ATTR_MAX_MESSAGE_SIZE, &param), DAT_SUCCESS);
    assert_int_equal(query(ep).ep_attr.max_message_size, 100);
    assert_int_equal(query(ep).ep_attr.srq_soft_hw, 0);
    assert_int_equal(query(ep).ep_attr.max_recv_dtos, 0);
    assert_int_equal(dat_ep_set_watermark(ep, DAT_WATERMARK_INFINITE, DAT_WATERMARK_INFINITE), DAT_SUCCESS);
    assert_int_equal(query(ep).ep_attr.max_recv_dtos, DAT_HW_DEFAULT);
}

TEST(watermarks__hard_one_modified__broken_when_it_is_passed) {
    const SharedPair pair;
    DAT_EP_PARAM param{};
    param.ep_attr.max_recv_dtos = 1;
    assert_int_equal(dat_ep_modify(pair.passive.ep, DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS, &param), DAT_SUCCESS);
    pair.connect();
    pair.post_many(3);
    pair.send_one();
    assert_int_equal(pair.passive.state(), DAT_EP_STATE_CONNECTED);
    pair.send_one();
    pair.passive.must_hear(DAT_CONNECTION_EVENT_BROKEN);
}

TEST(ep_create_with_srq__wrong_arguments__each_its_code) {
    const SharedPair pair;
    const Side& side = pair.passive;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    const auto create = [&](DAT_PZ_HANDLE pz, DAT_SRQ_HANDLE srq, const DAT_EP_ATTR* attr,
                            DAT_EP_HANDLE* made) {
        return dat_ep_create_with_srq(side.opened.ia, pz, side.transfers, side.transfers, side.connections,
                                      srq, attr, made);
    };
    assert_int_equal(create(side.pz, DAT_HANDLE_NULL, &pair.attr, &ep),
                     coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_SRQ));
    const DAT_SRQ_HANDLE elsewhere = make_srq(pair.active.opened, pair.active.pz);
    assert_int_equal(create(side.pz, elsewhere, &pair.attr, &ep),
                     coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_SRQ));
    assert_int_equal(create(side.opened.make_pz(), pair.srq, &pair.attr, &ep), bad(2));
    assert_int_equal(create(side.pz, pair.srq, nullptr, &ep), bad(7));
    DAT_EP_ATTR wrong = pair.attr;
    wrong.max_request_dtos = 0;
    assert_int_equal(create(side.pz, pair.srq, &wrong, &ep), bad(7));
    wrong = pair.attr;
    wrong.max_recv_dtos = 0;
    assert_int_equal(create(side.pz, pair.srq, &wrong, &ep), bad(7));
    assert_int_equal(create(side.pz, pair.srq, &pair.attr, nullptr), bad(8));
    assert_null(ep);
    DAT_EP_PARAM param{};
    assert_int_equal(dat_ep_query(side.ep, DAT_EP_FIELD_ALL, &param), DAT_SUCCESS);
    assert_ptr_equal(param.srq_handle, pair.srq);
    assert_int_equal(param.ep_attr.max_recv_dtos, DAT_HW_DEFAULT);
}

// Whoever asks for the counts takes completions for who waits.
TEST(traffic__others_ask_meanwhile__nothing_lost) {
    const SharedPair pair(8);
    pair.connect();
    pair.post_many(8);
    std::atomic<bool> is_over{false};
    std::thread asker([&] {
        while (!is_over) {
            (void)pair.query();
        }
    });
    for (int i = 0; i < 500; ++i) {
        pair.send_one();
        assert_int_equal(next(pair.passive.transfers).event_data.dto_completion_event_data.status,
                         DAT_DTO_SUCCESS);
        assert_int_equal(pair.post(0, 64, 1), DAT_SUCCESS);
    }
    is_over = true;
    asker.join();
    pair.must_count(8, 8);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
