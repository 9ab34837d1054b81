// SPDX-License-Identifier: BSD-3-Clause
//
// Endpoints of our provider: connecting, transfers, and how both end.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <span>
#include <thread>

#include "tests/unit/udapl/dapl_pair.hpp"

using namespace sluice::dapl::test;

namespace {

TEST(connect__accepted__both_hear_and_private_data_arrives) {
    const Pair pair;
    assert_int_equal(pair.active.state(), DAT_EP_STATE_UNCONNECTED);
    pair.ask();
    const DAT_EVENT asked = pair.passive.must_hear(DAT_CONNECTION_REQUEST_EVENT);
    const DAT_CR_ARRIVAL_EVENT_DATA& arrival = asked.event_data.cr_arrival_event_data;
    assert_ptr_equal(arrival.sp_handle.psp_handle, pair.psp);
    assert_int_equal(arrival.conn_qual, pair.qualifier);
    DAT_CR_PARAM param{};
    assert_int_equal(dat_cr_query(arrival.cr_handle, DAT_CR_FIELD_ALL, &param), DAT_SUCCESS);
    assert_true(param.private_data_size >= static_cast<DAT_COUNT>(sizeof kHello));
    assert_string_equal(static_cast<const char*>(param.private_data), kHello);
    assert_int_equal(
        dat_cr_accept(arrival.cr_handle, pair.passive.ep, sizeof kWelcome, mutable_data(kWelcome)),
        DAT_SUCCESS);
    const DAT_EVENT heard = pair.active.must_hear(DAT_CONNECTION_EVENT_ESTABLISHED);
    assert_ptr_equal(heard.event_data.connect_event_data.ep_handle, pair.active.ep);
    assert_string_equal(static_cast<const char*>(heard.event_data.connect_event_data.private_data), kWelcome);
    const DAT_EVENT other = pair.passive.must_hear(DAT_CONNECTION_EVENT_ESTABLISHED);
    assert_int_equal(other.event_data.connect_event_data.private_data_size, 0);
    assert_int_equal(pair.active.state(), DAT_EP_STATE_CONNECTED);
    assert_int_equal(pair.passive.state(), DAT_EP_STATE_CONNECTED);
    assert_int_equal(dat_cr_reject(arrival.cr_handle), coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_CR));
}

TEST(connect__rejected__peer_rejected) {
    const Pair pair;
    pair.ask();
    assert_int_equal(dat_cr_reject(pair.request()), DAT_SUCCESS);
    pair.active.must_hear(DAT_CONNECTION_EVENT_PEER_REJECTED);
    assert_int_equal(pair.active.state(), DAT_EP_STATE_DISCONNECTED);
    assert_int_equal(pair.passive.state(), DAT_EP_STATE_UNCONNECTED);
}

TEST(connect__nobody_listens__non_peer_rejected) {
    const Pair pair;
    assert_int_equal(dat_psp_free(pair.psp), DAT_SUCCESS);
    pair.ask();
    pair.active.must_hear(DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
}

TEST(send__receive_posted_before_connecting__arrives) {
    Pair pair;
    assert_int_equal(pair.passive.receive(0, 100, 77), DAT_SUCCESS);
    pair.connect();
    std::memset(pair.active.block.bytes.data(), 0x5a, 60);
    assert_int_equal(pair.active.send(0, 60, 88), DAT_SUCCESS);
    pair.active.must_complete(88, DAT_DTO_SUCCESS, 60);
    pair.passive.must_complete(77, DAT_DTO_SUCCESS, 60);
    assert_memory_equal(pair.passive.block.bytes.data(), pair.active.block.bytes.data(), 60);
    assert_int_equal(pair.passive.block.bytes[60], 0);
}

// Soon: over iWARP the sender may be done while its message is still on the way.
bool becomes_idle(const Side& side) {
    DAT_BOOLEAN receives{};
    DAT_BOOLEAN requests{};
    for (int i = 0; i < 1'000'000 && (receives == DAT_FALSE || requests == DAT_FALSE); ++i) {
        assert_int_equal(dat_ep_get_status(side.ep, nullptr, &receives, &requests), DAT_SUCCESS);
        std::this_thread::yield();
    }
    return receives == DAT_TRUE && requests == DAT_TRUE;
}

TEST(status__transfers_complete_and_nobody_takes_them__idle) {
    const Pair pair;
    assert_int_equal(pair.passive.receive(0, 10, 1), DAT_SUCCESS);
    pair.connect();
    assert_int_equal(pair.active.send(0, 10, 2), DAT_SUCCESS);
    assert_true(becomes_idle(pair.active));
    assert_true(becomes_idle(pair.passive));
    pair.active.must_complete(2, DAT_DTO_SUCCESS, 10);
    pair.passive.must_complete(1, DAT_DTO_SUCCESS, 10);
}

TEST(rdma__write_and_read__peers_memory) {
    Pair pair;
    pair.connect();
    const DAT_RMR_TRIPLET remote{pair.passive.block.key, 0, pair.passive.block.address(100), 50};
    std::memset(pair.active.block.bytes.data(), 0x77, 50);
    DAT_LMR_TRIPLET from = pair.active.block.part(0, 50);
    assert_int_equal(dat_ep_post_rdma_write(pair.active.ep, 1, &from, Side::cookie_of(5), &remote,
                                            DAT_COMPLETION_DEFAULT_FLAG),
                     DAT_SUCCESS);
    pair.active.must_complete(5, DAT_DTO_SUCCESS, 50);
    const DAT_LMR_TRIPLET written = pair.passive.block.part(100, 50);
    assert_int_equal(dat_lmr_sync_rdma_write(pair.passive.opened.ia, &written, 1), DAT_SUCCESS);
    assert_memory_equal(pair.passive.block.bytes.data() + 100, pair.active.block.bytes.data(), 50);
    DAT_LMR_TRIPLET into = pair.active.block.part(200, 50);
    assert_int_equal(dat_ep_post_rdma_read(pair.active.ep, 1, &into, Side::cookie_of(6), &remote,
                                           DAT_COMPLETION_DEFAULT_FLAG),
                     DAT_SUCCESS);
    pair.active.must_complete(6, DAT_DTO_SUCCESS, 50);
    assert_memory_equal(pair.active.block.bytes.data() + 200, pair.active.block.bytes.data(), 50);
}

TEST(rdma_write__more_than_the_peers_segment__length_error) {
    const Pair pair;
    pair.connect();
    const DAT_RMR_TRIPLET remote{pair.passive.block.key, 0, pair.passive.block.address(), 49};
    DAT_LMR_TRIPLET part = pair.active.block.part(0, 50);
    assert_int_equal(dat_ep_post_rdma_write(pair.active.ep, 1, &part, Side::cookie_of(5), &remote,
                                            DAT_COMPLETION_DEFAULT_FLAG),
                     coded(DAT_LENGTH_ERROR));
}

// Reads LENGTH bytes at the beginning of the peer's block, which is full of 0x42, into PARTS.
DAT_RETURN read_into(const Pair& pair, std::span<DAT_LMR_TRIPLET> parts, DAT_VLEN length) {
    const DAT_RMR_TRIPLET remote{pair.passive.block.key, 0, pair.passive.block.address(), length};
    return dat_ep_post_rdma_read(pair.active.ep, static_cast<DAT_COUNT>(parts.size()), parts.data(),
                                 Side::cookie_of(6), &remote, DAT_COMPLETION_DEFAULT_FLAG);
}

TEST(rdma_write__less_than_the_peers_segment__all_local_data) {
    Pair pair;
    pair.connect();
    std::memset(pair.active.block.bytes.data(), 0x31, 60);
    const DAT_RMR_TRIPLET remote{pair.passive.block.key, 0, pair.passive.block.address(), 50};
    DAT_LMR_TRIPLET part = pair.active.block.part(0, 40);
    assert_int_equal(dat_ep_post_rdma_write(pair.active.ep, 1, &part, Side::cookie_of(5), &remote,
                                            DAT_COMPLETION_DEFAULT_FLAG),
                     DAT_SUCCESS);
    pair.active.must_complete(5, DAT_DTO_SUCCESS, 40);
    // Over iWARP a Write is done when it has left. A Read comes behind it.
    std::array back{pair.active.block.part(100, 50)};
    assert_int_equal(read_into(pair, back, 50), DAT_SUCCESS);
    pair.active.must_complete(6, DAT_DTO_SUCCESS, 50);
    assert_int_equal(pair.active.block.bytes[139], 0x31);
    assert_int_equal(pair.active.block.bytes[140], 0);
}

void fill_and_connect(Pair& pair) {
    std::ranges::fill(pair.passive.block.bytes, 0x42);
    const DAT_LMR_TRIPLET filled = pair.passive.block.part(0, pair.passive.block.bytes.size());
    assert_int_equal(dat_lmr_sync_rdma_read(pair.passive.opened.ia, &filled, 1), DAT_SUCCESS);
    pair.connect();
}

TEST(rdma_read__local_buffer_too_small_for_the_peers_segment__length_error) {
    Pair pair;
    fill_and_connect(pair);
    std::array parts{pair.active.block.part(0, 20), pair.active.block.part(100, 29)};
    const std::span usable(parts.data(), is_over_iwarp() ? 1 : 2);
    assert_int_equal(read_into(pair, usable, 50), coded(DAT_LENGTH_ERROR));
    assert_int_equal(read_into(pair, usable.first(1), 50), coded(DAT_LENGTH_ERROR));
    assert_int_equal(read_into(pair, usable.first(0), 1), coded(DAT_LENGTH_ERROR));
    assert_int_equal(read_into(pair, usable, ~DAT_VLEN{0}), coded(DAT_LENGTH_ERROR));
    assert_int_equal(pair.active.state(), DAT_EP_STATE_CONNECTED);
}

// Its Read would fill the first segment alone.
TEST(rdma_read__more_segments_than_the_device_reads_into__refused) {
    Pair pair;
    fill_and_connect(pair);
    DAT_IA_ATTR attr{};
    assert_int_equal(dat_ia_query(pair.active.opened.ia, nullptr, DAT_IA_FIELD_ALL, &attr, 0, nullptr),
                     DAT_SUCCESS);
    const auto most = static_cast<std::size_t>(std::min(attr.max_iov_segments_per_rdma_read, 4));
    std::vector<DAT_LMR_TRIPLET> parts(most + 1, pair.active.block.part(0, 1));
    assert_int_equal(DAT_GET_TYPE(read_into(pair, parts, 1)), DAT_INVALID_PARAMETER);
    parts.pop_back();
    assert_int_equal(read_into(pair, parts, 1), DAT_SUCCESS);
    pair.active.must_complete(6, DAT_DTO_SUCCESS, 1);
}

TEST(rdma_read__larger_local_buffer__filled_as_far_as_the_data_go) {
    if (is_over_iwarp()) {
        return; // one segment, as in the next test
    }
    for (const DAT_VLEN length : {DAT_VLEN{0}, DAT_VLEN{10}, DAT_VLEN{30}, DAT_VLEN{45}}) {
        Pair pair;
        fill_and_connect(pair);
        auto& bytes = pair.active.block.bytes;
        std::array parts{pair.active.block.part(0, 30), pair.active.block.part(100, 30),
                         pair.active.block.part(200, 30)};
        assert_int_equal(read_into(pair, parts, length), DAT_SUCCESS);
        pair.active.must_complete(6, DAT_DTO_SUCCESS, length);
        assert_int_equal(std::ranges::count(bytes, 0x42), length);
        const auto first = static_cast<std::ptrdiff_t>(std::min(length, DAT_VLEN{30}));
        assert_int_equal(std::count(bytes.begin(), bytes.begin() + first, 0x42), first);
        assert_int_equal(std::count(bytes.begin() + 100, bytes.begin() + 130, 0x42), length - first);
    }
}

TEST(rdma_read__one_larger_segment__filled_as_far_as_the_data_go) {
    Pair pair;
    fill_and_connect(pair);
    std::array parts{pair.active.block.part(0, 4096)};
    assert_int_equal(read_into(pair, parts, 17), DAT_SUCCESS);
    pair.active.must_complete(6, DAT_DTO_SUCCESS, 17);
    assert_int_equal(std::ranges::count(pair.active.block.bytes, 0x42), 17);
}

// What the data don't reach must be memory of the program's all the same.
TEST(rdma_read__segment_behind_the_data_wrong__refused) {
    Pair pair;
    fill_and_connect(pair);
    if (!is_over_iwarp()) {
        std::array parts{pair.active.block.part(0, 30), pair.active.block.part(4096, 1)};
        assert_int_equal(read_into(pair, parts, 10), coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
    }
    std::array longer{pair.active.block.part(0, 4097)};
    assert_int_equal(read_into(pair, longer, 10), coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
}

TEST(rdma__key_of_nobody__remote_access_and_broken) {
    const Pair pair;
    pair.connect();
    const DAT_RMR_TRIPLET remote{pair.passive.block.key ^ 0x5a5a5a, 0, pair.passive.block.address(), 50};
    DAT_LMR_TRIPLET part = pair.active.block.part(0, 50);
    assert_int_equal(dat_ep_post_rdma_write(pair.active.ep, 1, &part, Side::cookie_of(5), &remote,
                                            DAT_COMPLETION_DEFAULT_FLAG),
                     DAT_SUCCESS);
    if (is_over_iwarp()) {
        pair.active.must_complete(5, DAT_DTO_SUCCESS, 50);
        pair.active.must_hear(DAT_CONNECTION_EVENT_DISCONNECTED);
    } else {
        pair.active.must_complete(5, DAT_DTO_ERR_REMOTE_ACCESS);
        pair.active.must_hear(DAT_CONNECTION_EVENT_BROKEN);
    }
    assert_int_equal(pair.active.state(), DAT_EP_STATE_DISCONNECTED);
}

TEST(send__not_connected__invalid_state) {
    const Side side(0);
    assert_int_equal(side.send(0, 10), coded(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_UNCONNECTED));
}

TEST(send__outside_the_region_or_other_zone__the_code_of_each) {
    const Pair pair;
    pair.connect();
    assert_int_equal(pair.active.send(4096, 1), coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
    const Block other(pair.active.opened, pair.active.opened.make_pz());
    DAT_LMR_TRIPLET part = other.part(0, 1);
    assert_int_equal(
        dat_ep_post_send(pair.active.ep, 1, &part, Side::cookie_of(1), DAT_COMPLETION_DEFAULT_FLAG),
        coded(DAT_PROTECTION_VIOLATION));
}

TEST(receive__remote_write_only_region__privileges_violation) {
    const Side side(0, DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
    assert_int_equal(side.receive(0, 10), coded(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_WRITE));
}

TEST(receive__more_than_the_endpoint_takes__insufficient_resources) {
    const Side side(0);
    for (int i = 0; i < 16; ++i) {
        assert_int_equal(side.receive(0, 10), DAT_SUCCESS);
    }
    assert_int_equal(DAT_GET_TYPE(side.receive(0, 10)), DAT_INSUFFICIENT_RESOURCES);
}

// Nothing asks for their completions but the posts themselves.
TEST(write__more_silent_ones_than_fit_at_a_time__room_comes_free) {
    const Pair pair;
    pair.connect();
    DAT_LMR_TRIPLET part = pair.active.block.part(0, 8);
    const DAT_RMR_TRIPLET remote{pair.passive.block.key, 0, pair.passive.block.address(), 8};
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    for (int i = 0; i < 100; ++i) {
        DAT_RETURN status{};
        do {
            status =
                dat_ep_post_rdma_write(pair.active.ep, 1, &part, {}, &remote, DAT_COMPLETION_SUPPRESS_FLAG);
        } while (status == coded(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY) &&
                 std::chrono::steady_clock::now() < end);
        assert_int_equal(status, DAT_SUCCESS);
    }
}

TEST(disconnect__receives_posted__flushed_and_both_hear) {
    const Pair pair;
    pair.connect();
    assert_int_equal(pair.passive.receive(0, 10, 3), DAT_SUCCESS);
    assert_int_equal(dat_ep_disconnect(pair.active.ep, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    pair.active.must_hear(DAT_CONNECTION_EVENT_DISCONNECTED);
    pair.passive.must_hear(DAT_CONNECTION_EVENT_DISCONNECTED);
    pair.passive.must_complete(3, DAT_DTO_ERR_FLUSHED);
    assert_int_equal(pair.passive.state(), DAT_EP_STATE_DISCONNECTED);
    assert_int_equal(dat_ep_disconnect(pair.active.ep, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    assert_int_equal(pair.active.send(0, 1, 4), DAT_SUCCESS);
    pair.active.must_complete(4, DAT_DTO_ERR_FLUSHED);
}

// The peer answers the read when it has received what was sent before; over iWARP a send is complete earlier.
TEST(wait__completions_there__taken_in_order_and_the_rest_counted) {
    const Pair pair;
    pair.connect();
    for (int i = 0; i < 3; ++i) {
        assert_int_equal(pair.passive.receive(0, 8, 11 + i), DAT_SUCCESS);
        assert_int_equal(pair.active.send(0, 8), DAT_SUCCESS);
    }
    for (int i = 0; i < 3; ++i) {
        pair.active.must_complete(2, DAT_DTO_SUCCESS, 8);
    }
    const DAT_RMR_TRIPLET remote{pair.passive.block.key, 0, pair.passive.block.address(), 8};
    DAT_LMR_TRIPLET into = pair.active.block.part(200, 8);
    assert_int_equal(dat_ep_post_rdma_read(pair.active.ep, 1, &into, Side::cookie_of(6), &remote,
                                           DAT_COMPLETION_DEFAULT_FLAG),
                     DAT_SUCCESS);
    pair.active.must_complete(6, DAT_DTO_SUCCESS, 8);
    for (int i = 0; i < 3; ++i) {
        DAT_EVENT event{};
        DAT_COUNT left = -1;
        assert_int_equal(dat_evd_wait(pair.passive.transfers, kLong, 1, &event, &left), DAT_SUCCESS);
        assert_int_equal(event.event_data.dto_completion_event_data.user_cookie.as_64, 11 + i);
        assert_int_equal(left, 2 - i);
    }
}

// Who sleeps has the channel for himself, and leaves it to the CNO again.
TEST(cno__completion_after_a_wait_that_slept__triggered) {
    const Pair pair;
    pair.connect();
    const DAT_EVD_HANDLE evd = pair.passive.transfers;
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    assert_int_equal(dat_cno_create(pair.passive.opened.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno), DAT_SUCCESS);
    assert_int_equal(dat_evd_modify_cno(evd, cno), DAT_SUCCESS);
    DAT_EVENT event{};
    DAT_COUNT left = 0;
    constexpr DAT_TIMEOUT kShort = 1000;
    assert_int_equal(dat_evd_wait(evd, kShort, 1, &event, &left), coded(DAT_TIMEOUT_EXPIRED));
    assert_int_equal(pair.passive.receive(0, 8), DAT_SUCCESS);
    assert_int_equal(pair.active.send(0, 8), DAT_SUCCESS);
    DAT_EVD_HANDLE triggered = DAT_HANDLE_NULL;
    assert_int_equal(dat_cno_wait(cno, kLong, &triggered), DAT_SUCCESS);
    assert_ptr_equal(triggered, evd);
    pair.passive.must_complete(1, DAT_DTO_SUCCESS, 8);
    assert_int_equal(dat_evd_modify_cno(evd, DAT_HANDLE_NULL), DAT_SUCCESS);
    assert_int_equal(dat_cno_free(cno), DAT_SUCCESS);
}

TEST(disconnect__unconnected__invalid_state) {
    const Side side(0);
    assert_int_equal(dat_ep_disconnect(side.ep, DAT_CLOSE_ABRUPT_FLAG),
                     coded(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_UNCONNECTED));
}

TEST(free__things_in_use__in_use_until_the_endpoint_goes) {
    const Side side(0);
    assert_int_equal(side.receive(0, 10), DAT_SUCCESS);
    assert_int_equal(dat_evd_free(side.transfers), coded(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_IN_USE));
    assert_int_equal(dat_ep_free(side.ep), DAT_SUCCESS);
    assert_int_equal(dat_ep_free(side.ep), coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP));
    assert_int_equal(dat_evd_free(side.transfers), DAT_SUCCESS);
    assert_int_equal(dat_lmr_free(side.block.lmr), DAT_SUCCESS);
    assert_int_equal(dat_pz_free(side.pz), DAT_SUCCESS);
}

TEST(psp_create__qualifier_taken__in_use) {
    const Pair pair;
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    assert_int_equal(DAT_GET_TYPE(dat_psp_create(pair.passive.opened.ia, pair.qualifier,
                                                 pair.passive.connections, DAT_PSP_CONSUMER_FLAG, &psp)),
                     DAT_CONN_QUAL_IN_USE);
    assert_null(psp);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
