// SPDX-License-Identifier: BSD-3-Clause
//
// Remote memory regions of our provider: what a peer may do through a window, and until when.
#include <atomic>
#include <cstring>
#include <thread>

#include "tests/unit/udapl/dapl_pair.hpp"

using namespace sluice::dapl::test;

namespace {

constexpr DAT_RETURN bad(unsigned argument) {
    return coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1 + argument - 1);
}

constexpr unsigned kReadWrite = DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG;
constexpr unsigned kLocal = DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG;

// The passive side binds windows; its endpoint's requests complete where binds may, too. Its block can't be
// reached by itself.
struct WindowPair : Pair {
    WindowPair() : inner(passive.opened, passive.pz, kLocal) {
        requests = passive.opened.make_evd(16, DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG);
        assert_int_equal(dat_ep_free(passive.ep), DAT_SUCCESS);
        assert_int_equal(dat_ep_create(passive.opened.ia, passive.pz, passive.transfers, requests,
                                       passive.connections, nullptr, &passive.ep),
                         DAT_SUCCESS);
        assert_int_equal(dat_rmr_create(passive.pz, &rmr), DAT_SUCCESS);
    }
    DAT_RETURN bind(const DAT_LMR_TRIPLET& part, unsigned privileges, DAT_RMR_CONTEXT* its_key,
                    std::uint64_t cookie = 5,
                    DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_DEFAULT_FLAG) const {
        return dat_rmr_bind(rmr, &part, static_cast<DAT_MEM_PRIV_FLAGS>(privileges), passive.ep,
                            Side::cookie_of(cookie), flags, its_key);
    }
    void must_be_bound(std::uint64_t cookie = 5,
                       DAT_RMR_BIND_COMPLETION_STATUS status = DAT_RMR_BIND_SUCCESS) const {
        const DAT_EVENT event = next(requests);
        assert_int_equal(event.event_number, DAT_RMR_BIND_COMPLETION_EVENT);
        const DAT_RMR_BIND_COMPLETION_EVENT_DATA& data = event.event_data.rmr_completion_event_data;
        assert_ptr_equal(data.rmr_handle, rmr);
        assert_int_equal(data.user_cookie.as_64, cookie);
        assert_int_equal(data.status, status);
    }
    // What becomes of the peer's write of 16 bytes.
    DAT_DTO_COMPLETION_STATUS write(DAT_RMR_CONTEXT its_key, DAT_VADDR address, bool reads = false) const {
        const DAT_RMR_TRIPLET remote{its_key, 0, address, 16};
        DAT_LMR_TRIPLET part = active.block.part(0, 16);
        const auto post = reads ? dat_ep_post_rdma_read : dat_ep_post_rdma_write;
        assert_int_equal(post(active.ep, 1, &part, Side::cookie_of(9), &remote, DAT_COMPLETION_DEFAULT_FLAG),
                         DAT_SUCCESS);
        return next(active.transfers).event_data.dto_completion_event_data.status;
    }
    Block inner;
    DAT_EVD_HANDLE requests = DAT_HANDLE_NULL;
    DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
    DAT_RMR_CONTEXT key = 0;
};

void rmr_create__queried__unbound(void**) {
    const WindowPair pair;
    DAT_RMR_PARAM param{};
    std::memset(&param, 0x55, sizeof param);
    assert_int_equal(dat_rmr_query(pair.rmr, DAT_RMR_FIELD_ALL, &param), DAT_SUCCESS);
    assert_ptr_equal(param.ia_handle, pair.passive.opened.ia);
    assert_ptr_equal(param.pz_handle, pair.passive.pz);
    assert_int_equal(param.rmr_context, 0);
    assert_int_equal(param.lmr_triplet.segment_length, 0);
    DAT_HANDLE_TYPE type{};
    assert_int_equal(dat_get_handle_type(pair.rmr, &type), DAT_SUCCESS);
    assert_int_equal(type, DAT_HANDLE_TYPE_RMR);
    assert_int_equal(dat_rmr_query(pair.rmr, static_cast<DAT_RMR_PARAM_MASK>(0x20), &param), bad(2));
    assert_int_equal(dat_rmr_query(pair.rmr, DAT_RMR_FIELD_ALL, nullptr), bad(3));
    assert_int_equal(dat_rmr_free(pair.rmr), DAT_SUCCESS);
    assert_int_equal(dat_rmr_free(pair.rmr), coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_RMR));
    assert_int_equal(dat_rmr_create(pair.rmr, &param.pz_handle),
                     coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_PZ));
    assert_int_equal(dat_rmr_create(pair.passive.pz, nullptr), bad(2));
}

// Each that it has made went with the adapter.
void rmr_create__while_the_adapter_closes__none_is_left(void**) {
    constexpr int kTimes = 300;
    const Opened kept; // opening the device anew takes longer than all else
    for (int i = 0; i < kTimes; ++i) {
        Opened opened;
        const DAT_PZ_HANDLE pz = opened.make_pz();
        std::atomic<bool> is_begun{false};
        DAT_RMR_HANDLE last = DAT_HANDLE_NULL;
        std::thread creator([&] {
            DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
            while (dat_rmr_create(pz, &rmr) == DAT_SUCCESS) {
                last = rmr;
                is_begun = true;
                is_begun.notify_one();
            }
            is_begun = true; // if none was to be had, the test fails below
            is_begun.notify_one();
        });
        is_begun.wait(false);
        assert_int_equal(dat_ia_close(opened.ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
        opened.is_closed = true;
        creator.join();
        assert_non_null(last);
        DAT_RMR_PARAM param{};
        assert_int_equal(dat_rmr_query(last, DAT_RMR_FIELD_ALL, &param),
                         coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_RMR));
    }
}

void bind__part_of_a_region__peer_reaches_that_and_it_is_queried(void**) {
    WindowPair pair;
    pair.connect();
    const DAT_LMR_TRIPLET part = pair.inner.part(128, 256);
    assert_int_equal(pair.bind(part, kReadWrite, &pair.key), DAT_SUCCESS);
    assert_int_not_equal(pair.key, 0);
    pair.must_be_bound();
    std::memset(pair.active.block.bytes.data(), 0x42, 16);
    assert_int_equal(pair.write(pair.key, pair.inner.address(128)), DAT_DTO_SUCCESS);
    assert_int_equal(pair.write(pair.key, pair.inner.address(128 + 240)), DAT_DTO_SUCCESS);
    const DAT_LMR_TRIPLET written = pair.inner.part(0, 4096);
    assert_int_equal(dat_lmr_sync_rdma_write(pair.passive.opened.ia, &written, 1), DAT_SUCCESS);
    assert_int_equal(pair.inner.bytes[127], 0);
    assert_int_equal(pair.inner.bytes[128], 0x42);
    assert_int_equal(pair.inner.bytes[383], 0x42);
    DAT_RMR_PARAM param{};
    assert_int_equal(dat_rmr_query(pair.rmr, DAT_RMR_FIELD_ALL, &param), DAT_SUCCESS);
    assert_int_equal(param.rmr_context, pair.key);
    assert_int_equal(param.mem_priv, kReadWrite);
    assert_memory_equal(&param.lmr_triplet, &part, sizeof part);
    // Linux 6.1's rxe looks at the region's range, and not at the window's.
    if (!is_own_device_named()) {
        assert_int_equal(pair.write(pair.key, pair.inner.address(128 + 241)), DAT_DTO_ERR_REMOTE_ACCESS);
    }
}

void bind__read_only__peer_may_not_write(void**) {
    WindowPair pair;
    pair.connect();
    assert_int_equal(pair.bind(pair.inner.part(0, 64), DAT_MEM_PRIV_REMOTE_READ_FLAG, &pair.key),
                     DAT_SUCCESS);
    pair.must_be_bound();
    assert_int_equal(pair.write(pair.key, pair.inner.address(), true), DAT_DTO_SUCCESS);
    assert_int_equal(pair.write(pair.key, pair.inner.address()), DAT_DTO_ERR_REMOTE_ACCESS);
}

void bind__again__new_key_and_the_former_is_dead(void**) {
    WindowPair pair;
    pair.connect();
    DAT_RMR_CONTEXT former = 0;
    assert_int_equal(pair.bind(pair.inner.part(0, 64), kReadWrite, &former), DAT_SUCCESS);
    pair.must_be_bound();
    assert_int_equal(pair.bind(pair.inner.part(64, 64), kReadWrite, &pair.key), DAT_SUCCESS);
    pair.must_be_bound();
    assert_int_not_equal(pair.key, former);
    assert_int_equal(pair.write(pair.key, pair.inner.address(64)), DAT_DTO_SUCCESS);
    assert_int_equal(pair.write(former, pair.inner.address()), DAT_DTO_ERR_REMOTE_ACCESS);
}

void bind__no_bytes__unbound_and_the_region_is_free(void**) {
    WindowPair pair;
    pair.connect();
    assert_int_equal(pair.bind(pair.inner.part(0, 64), kReadWrite, &pair.key), DAT_SUCCESS);
    pair.must_be_bound();
    assert_int_equal(dat_lmr_free(pair.inner.lmr), coded(DAT_INVALID_STATE, DAT_INVALID_STATE_LMR_IN_USE));
    assert_int_equal(pair.bind({0xdead, 0, 77, 0}, 0, nullptr, 6), DAT_SUCCESS);
    pair.must_be_bound(6);
    assert_int_equal(dat_lmr_free(pair.inner.lmr), DAT_SUCCESS);
    DAT_RMR_PARAM param{};
    assert_int_equal(dat_rmr_query(pair.rmr, DAT_RMR_FIELD_ALL, &param), DAT_SUCCESS);
    assert_int_equal(param.rmr_context, 0);
    assert_int_equal(pair.write(pair.key, pair.inner.address()), DAT_DTO_ERR_REMOTE_ACCESS);
}

void bind__to_another_region__the_former_is_free_once_it_completes(void**) {
    WindowPair pair;
    pair.connect();
    const Block other(pair.passive.opened, pair.passive.pz);
    assert_int_equal(pair.bind(pair.inner.part(0, 64), kReadWrite, &pair.key), DAT_SUCCESS);
    assert_int_equal(pair.bind(other.part(0, 64), kReadWrite, &pair.key, 6), DAT_SUCCESS);
    assert_int_equal(DAT_GET_TYPE(dat_lmr_free(pair.inner.lmr)), DAT_INVALID_STATE);
    pair.must_be_bound(5);
    pair.must_be_bound(6);
    assert_int_equal(dat_lmr_free(pair.inner.lmr), DAT_SUCCESS);
    assert_int_equal(dat_lmr_free(other.lmr), coded(DAT_INVALID_STATE, DAT_INVALID_STATE_LMR_IN_USE));
    assert_int_equal(dat_rmr_free(pair.rmr), DAT_SUCCESS); // which unbinds
    assert_int_equal(dat_lmr_free(other.lmr), DAT_SUCCESS);
    assert_int_equal(pair.write(pair.key, other.address()), DAT_DTO_ERR_REMOTE_ACCESS);
}

void bind__suppressed__no_event_and_still_counts(void**) {
    WindowPair pair;
    pair.connect();
    assert_int_equal(
        pair.bind(pair.inner.part(0, 64), kReadWrite, &pair.key, 1, DAT_COMPLETION_SUPPRESS_FLAG),
        DAT_SUCCESS);
    assert_int_equal(pair.bind(pair.inner.part(0, 64), kReadWrite, &pair.key, 2), DAT_SUCCESS);
    pair.must_be_bound(2);
    assert_int_equal(pair.write(pair.key, pair.inner.address()), DAT_DTO_SUCCESS);
}

void bind__suppressed_to_another_region__the_former_is_free_when_a_later_one_completes(void**) {
    WindowPair pair;
    pair.connect();
    const Block other(pair.passive.opened, pair.passive.pz);
    const DAT_RMR_HANDLE silent = pair.rmr;
    const Block* const blocks[] = {&pair.inner, &other};
    for (const Block* block : blocks) {
        assert_int_equal(
            pair.bind(block->part(0, 64), kReadWrite, &pair.key, 1, DAT_COMPLETION_SUPPRESS_FLAG),
            DAT_SUCCESS);
    }
    assert_int_equal(dat_rmr_create(pair.passive.pz, &pair.rmr), DAT_SUCCESS);
    assert_int_equal(pair.bind(other.part(0, 64), kReadWrite, &pair.key), DAT_SUCCESS);
    pair.must_be_bound();
    assert_int_equal(dat_lmr_free(pair.inner.lmr), DAT_SUCCESS);
    assert_int_equal(dat_rmr_free(silent), DAT_SUCCESS);
}

void bind__what_the_region_may_not__its_code_and_nothing_posted(void**) {
    WindowPair pair;
    pair.connect();
    const Block unreadable(pair.passive.opened, pair.passive.pz, DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
    const Block unwritable(pair.passive.opened, pair.passive.pz, DAT_MEM_PRIV_LOCAL_READ_FLAG);
    const Block elsewhere(pair.passive.opened, pair.passive.opened.make_pz());
    DAT_RMR_CONTEXT key = 7;
    assert_int_equal(pair.bind(unreadable.part(0, 1), kReadWrite, &key),
                     coded(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_READ));
    assert_int_equal(pair.bind(unwritable.part(0, 1), kReadWrite, &key),
                     coded(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_WRITE));
    assert_int_equal(pair.bind(elsewhere.part(0, 1), kReadWrite, &key), coded(DAT_PROTECTION_VIOLATION));
    assert_int_equal(pair.bind(pair.inner.part(4000, 97), kReadWrite, &key),
                     coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    assert_int_equal(pair.bind({0x12345, 0, 0, 1}, kReadWrite, &key),
                     coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    assert_int_equal(key, 7);
    // A window of another zone than the endpoint's.
    const DAT_PZ_HANDLE zone = pair.passive.opened.make_pz();
    const Block there(pair.passive.opened, zone);
    DAT_RMR_HANDLE own = pair.rmr;
    assert_int_equal(dat_rmr_create(zone, &pair.rmr), DAT_SUCCESS);
    assert_int_equal(pair.bind(there.part(0, 1), kReadWrite, &key), coded(DAT_PROTECTION_VIOLATION));
    pair.rmr = own;
    assert_int_equal(dat_lmr_free(pair.inner.lmr), DAT_SUCCESS); // nothing holds it
    DAT_EVENT event{};
    assert_int_equal(DAT_GET_TYPE(dat_evd_dequeue(pair.requests, &event)), DAT_QUEUE_EMPTY);
}

void bind__wrong_arguments_or_state__each_its_code(void**) {
    WindowPair pair;
    const DAT_LMR_TRIPLET part = pair.inner.part(0, 64);
    const auto bind = [&](DAT_RMR_HANDLE rmr, const DAT_LMR_TRIPLET* triplet, unsigned privileges,
                          DAT_EP_HANDLE ep, int flags, DAT_RMR_CONTEXT* key) {
        return dat_rmr_bind(rmr, triplet, static_cast<DAT_MEM_PRIV_FLAGS>(privileges), ep, Side::cookie_of(1),
                            static_cast<DAT_COMPLETION_FLAGS>(flags), key);
    };
    const DAT_EP_HANDLE ep = pair.passive.ep;
    assert_int_equal(bind(pair.rmr, &part, kReadWrite, ep, 0, &pair.key),
                     coded(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_UNCONNECTED));
    pair.connect();
    assert_int_equal(bind(ep, &part, kReadWrite, ep, 0, &pair.key),
                     coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_RMR));
    assert_int_equal(bind(pair.rmr, nullptr, kReadWrite, ep, 0, &pair.key), bad(2));
    assert_int_equal(bind(pair.rmr, &part, 0x100, ep, 0, &pair.key), bad(3));
    assert_int_equal(bind(pair.rmr, &part, kReadWrite, pair.rmr, 0, &pair.key),
                     coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP));
    assert_int_equal(bind(pair.rmr, &part, kReadWrite, ep, DAT_COMPLETION_SOLICITED_WAIT_FLAG, &pair.key),
                     bad(6));
    assert_int_equal(bind(pair.rmr, &part, kReadWrite, ep, 0, nullptr), bad(7));
    assert_int_equal(dat_ep_disconnect(ep, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    assert_int_equal(dat_ep_reset(ep), DAT_SUCCESS);
    DAT_EP_PARAM param{};
    param.request_evd_handle = pair.passive.opened.make_evd(16, DAT_EVD_DTO_FLAG);
    assert_int_equal(dat_ep_modify(ep, DAT_EP_FIELD_REQUEST_EVD_HANDLE, &param), DAT_SUCCESS);
    assert_int_equal(dat_ep_disconnect(pair.active.ep, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    assert_int_equal(dat_ep_reset(pair.active.ep), DAT_SUCCESS);
    pair.active.must_hear(DAT_CONNECTION_EVENT_DISCONNECTED);
    pair.passive.must_hear(DAT_CONNECTION_EVENT_DISCONNECTED);
    pair.connect();
    assert_int_equal(bind(pair.rmr, &part, kReadWrite, ep, 0, &pair.key),
                     coded(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_EVD_REQUEST));
}

// A flushed bind didn't happen; the window can be bound again all the same.
void bind__disconnected__flushed_and_later_binds_work(void**) {
    WindowPair pair;
    pair.connect();
    assert_int_equal(dat_ep_disconnect(pair.passive.ep, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    pair.passive.must_hear(DAT_CONNECTION_EVENT_DISCONNECTED);
    pair.active.must_hear(DAT_CONNECTION_EVENT_DISCONNECTED);
    assert_int_equal(pair.bind(pair.inner.part(0, 64), kReadWrite, &pair.key), DAT_SUCCESS);
    pair.must_be_bound(5, DAT_RMR_BIND_FAILURE);
    assert_int_equal(dat_ep_reset(pair.passive.ep), DAT_SUCCESS);
    assert_int_equal(dat_ep_reset(pair.active.ep), DAT_SUCCESS);
    pair.connect();
    assert_int_equal(pair.bind(pair.inner.part(0, 64), kReadWrite, &pair.key), DAT_SUCCESS);
    pair.must_be_bound();
    assert_int_equal(pair.write(pair.key, pair.inner.address()), DAT_DTO_SUCCESS);
}

void pz_free__used_by_a_window__in_use(void**) {
    const Opened opened;
    const DAT_PZ_HANDLE pz = opened.make_pz();
    DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
    assert_int_equal(dat_rmr_create(pz, &rmr), DAT_SUCCESS);
    assert_int_equal(dat_pz_free(pz), coded(DAT_INVALID_STATE, DAT_INVALID_STATE_PZ_IN_USE));
    assert_int_equal(dat_rmr_free(rmr), DAT_SUCCESS);
    assert_int_equal(dat_pz_free(pz), DAT_SUCCESS);
}

void ia_close__abrupt_with_a_bound_window__all_goes(void**) {
    WindowPair pair;
    pair.connect();
    assert_int_equal(pair.bind(pair.inner.part(0, 64), kReadWrite, &pair.key), DAT_SUCCESS);
}

void rmr_create__device_without_windows__model_not_supported(void**) {
    const Opened opened;
    DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
    assert_int_equal(dat_rmr_create(opened.make_pz(), &rmr), coded(DAT_MODEL_NOT_SUPPORTED));
    assert_null(rmr);
}

bool has_windows() {
    const Opened opened;
    DAT_IA_ATTR attr{};
    assert_int_equal(dat_ia_query(opened.ia, nullptr, DAT_IA_FIELD_IA_MAX_RMRS, &attr, 0, nullptr),
                     DAT_SUCCESS);
    return attr.max_rmrs != 0;
}

void bind__as_many_requests_as_the_endpoint_takes__insufficient_resources(void**) {
    const WindowPair pair;
    pair.connect();
    for (int i = 0; i < 16; ++i) { // which wait for a receive
        assert_int_equal(pair.passive.send(0, 1), DAT_SUCCESS);
    }
    DAT_RMR_CONTEXT key = 7;
    assert_int_equal(DAT_GET_TYPE(pair.bind(pair.inner.part(0, 64), kReadWrite, &key)),
                     DAT_INSUFFICIENT_RESOURCES);
    assert_int_equal(key, 7);
}

} // namespace

int main() {
    if (is_own_device_named() && !has_windows()) { // as siw
        const CMUnitTest only[] = {cmocka_unit_test(rmr_create__device_without_windows__model_not_supported)};
        return cmocka_run_group_tests(only, nullptr, nullptr);
    }
    const CMUnitTest tests[] = {
        cmocka_unit_test(rmr_create__queried__unbound),
        cmocka_unit_test(rmr_create__while_the_adapter_closes__none_is_left),
        cmocka_unit_test(bind__part_of_a_region__peer_reaches_that_and_it_is_queried),
        cmocka_unit_test(bind__read_only__peer_may_not_write),
        cmocka_unit_test(bind__again__new_key_and_the_former_is_dead),
        cmocka_unit_test(bind__no_bytes__unbound_and_the_region_is_free),
        cmocka_unit_test(bind__to_another_region__the_former_is_free_once_it_completes),
        cmocka_unit_test(bind__suppressed__no_event_and_still_counts),
        cmocka_unit_test(bind__suppressed_to_another_region__the_former_is_free_when_a_later_one_completes),
        cmocka_unit_test(bind__what_the_region_may_not__its_code_and_nothing_posted),
        cmocka_unit_test(bind__wrong_arguments_or_state__each_its_code),
        cmocka_unit_test(bind__disconnected__flushed_and_later_binds_work),
        cmocka_unit_test(pz_free__used_by_a_window__in_use),
        cmocka_unit_test(ia_close__abrupt_with_a_bound_window__all_goes),
        cmocka_unit_test(bind__as_many_requests_as_the_endpoint_takes__insufficient_resources),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
