// SPDX-License-Identifier: BSD-3-Clause
//
// Our provider for DAT 2.0: what libdat2 needs of it, and what 2.0 has otherwise than 1.2. What both have in
// common the tests for 1.2 look at.
#include <algorithm>

#include "tests/unit/udapl/dapl2.hpp"

using namespace sluice::dapl2::test;

namespace {

TEST(init__registers_a_table__no_function_is_missing) {
    const Line line("named", sluice::test::own_address(0));
    const DAT_PROVIDER* const provider = line.provider();
    assert_non_null(provider);
    assert_string_equal(provider->device_name, "named");
    const auto* const words = reinterpret_cast<void* const*>(provider);
    assert_int_equal(sizeof *provider, 81 * sizeof *words);
    assert_true(std::find(words, words + 81, nullptr) == words + 81);
}

TEST(fini__removes_the_table) {
    DAT_PROVIDER_INFO info{};
    {
        const Line line("passing", "");
        info = line.info;
        assert_non_null(test_dat2_provider(&info));
    }
    assert_null(test_dat2_provider(&info));
}

// libdat2 closes an adapter by what it asks for then.
TEST(ia_query__attributes_of_the_provider__as_registered) {
    for (const DAT_BOOLEAN is_thread_safe : {DAT_FALSE, DAT_TRUE}) {
        const Line line("safe", sluice::test::own_address(0), is_thread_safe);
        DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
        DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
        char name[] = "safe";
        assert_int_equal(line.provider()->ia_open_func(name, 8, &async_evd, &ia), DAT_SUCCESS);
        DAT_PROVIDER_ATTR attr{};
        assert_int_equal(table_of(ia).ia_query_func(ia, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL, &attr),
                         DAT_SUCCESS);
        assert_string_equal(table_of(ia).device_name, "safe");
        assert_int_equal(attr.dapl_version_major, 2);
        assert_int_equal(attr.dapl_version_minor, 0);
        assert_int_equal(attr.is_thread_safe, is_thread_safe);
        assert_int_equal(table_of(ia).ia_close_func(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    }
}

TEST(ia_open__no_such_device__provider_not_found) {
    const Line line("absent", "no_such_device 0");
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    char name[] = "absent";
    assert_int_equal(line.provider()->ia_open_func(name, 8, &async_evd, &ia),
                     coded(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED));
}

bool has_attribute(const DAT_PROVIDER_ATTR& attr, const char* name) {
    return std::any_of(attr.provider_specific_attr,
                       attr.provider_specific_attr + attr.num_provider_specific_attr,
                       [&](const DAT_NAMED_ATTR& each) { return std::strcmp(each.name, name) == 0; });
}

TEST(ia_query__extensions__those_that_are_there) {
    const Adapter adapter;
    DAT_IA_ATTR attr{};
    DAT_PROVIDER_ATTR provider_attr{};
    assert_int_equal(table_of(adapter.ia)
                         .ia_query_func(adapter.ia, nullptr, DAT_IA_FIELD_ALL, &attr, DAT_PROVIDER_FIELD_ALL,
                                        &provider_attr),
                     DAT_SUCCESS);
    assert_int_equal(attr.extension_supported, DAT_EXTENSION_IB);
    assert_int_equal(attr.zb_supported, DAT_FALSE);
    for (const char* const name :
         {"DAT_IB_TRANSPORT_MTU", "DAT_IB_IMMED_DATA", "DAT_IB_FETCH_AND_ADD", "DAT_IB_CMP_AND_SWAP"}) {
        assert_true(has_attribute(provider_attr, name));
    }
    assert_false(has_attribute(provider_attr, "DAT_COUNTERS"));
}

TEST(queries__adapters_handle__is_libdat2s_number) {
    const Pair pair;
    const Side& side = pair.active;
    DAT_EP_PARAM ep{};
    assert_int_equal(table_of(side.ep).ep_query_func(side.ep, DAT_EP_FIELD_ALL, &ep), DAT_SUCCESS);
    assert_ptr_equal(ep.ia_handle, side.adapter.number);
    DAT_EVD_PARAM evd{};
    assert_int_equal(table_of(side.transfers).evd_query_func(side.transfers, DAT_EVD_FIELD_ALL, &evd),
                     DAT_SUCCESS);
    assert_ptr_equal(evd.ia_handle, side.adapter.number);
    DAT_PZ_PARAM pz{};
    assert_int_equal(table_of(side.pz).pz_query_func(side.pz, DAT_PZ_FIELD_ALL, &pz), DAT_SUCCESS);
    assert_ptr_equal(pz.ia_handle, side.adapter.number);
    DAT_LMR_PARAM lmr{};
    assert_int_equal(table_of(side.block.lmr).lmr_query_func(side.block.lmr, DAT_LMR_FIELD_ALL, &lmr),
                     DAT_SUCCESS);
    assert_ptr_equal(lmr.ia_handle, side.adapter.number);
    assert_int_equal(lmr.mem_type, DAT_MEM_TYPE_VIRTUAL);
    assert_int_equal(lmr.mem_priv, kWithAtomics);
    DAT_PSP_PARAM psp{};
    assert_int_equal(table_of(pair.psp).psp_query_func(pair.psp, DAT_PSP_FIELD_ALL, &psp), DAT_SUCCESS);
    assert_ptr_equal(psp.ia_handle, pair.passive.adapter.number);
}

TEST(cno_query__every_mask_of_libdat2__answers) {
    const Adapter adapter;
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    assert_int_equal(table_of(adapter.ia).cno_create_func(adapter.ia, {}, &cno), DAT_SUCCESS);
    for (const DAT_CNO_PARAM_MASK mask : {DAT_CNO_FIELD_IA_HANDLE, DAT_CNO_FIELD_PROXY, DAT_CNO_FIELD_ALL}) {
        DAT_CNO_PARAM param{};
        assert_int_equal(table_of(cno).cno_query_func(cno, mask, &param), DAT_SUCCESS);
        assert_ptr_equal(param.ia_handle, adapter.number);
        assert_int_equal(param.proxy_type, DAT_PROXY_TYPE_NONE);
    }
}

// As Debian's dtest does.
TEST(send__region_without_local_read__arrives) {
    Pair pair;
    const Block written(pair.active.adapter, pair.active.pz, DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
    assert_int_equal(pair.passive.receive(0, 64, 1), DAT_SUCCESS);
    pair.connect();
    DAT_LMR_TRIPLET parts[] = {written.part(0, 16), written.part(16, 16)};
    const DAT_EP_HANDLE ep = pair.active.ep;
    assert_int_equal(table_of(ep).ep_post_send_func(ep, 2, parts, cookie_of(2), DAT_COMPLETION_DEFAULT_FLAG),
                     DAT_SUCCESS);
    assert_int_equal(pair.active.must_complete(DAT_DTO_SEND, 2).transfered_length, 32);
    assert_int_equal(pair.passive.must_complete(DAT_DTO_RECEIVE, 1).transfered_length, 32);
}

TEST(post__more_segments_than_any_request_has__argument_2) {
    const Pair pair;
    pair.connect();
    std::vector<DAT_LMR_TRIPLET> parts(100, pair.active.block.part(0, 1));
    const DAT_EP_HANDLE ep = pair.active.ep;
    assert_int_equal(
        table_of(ep).ep_post_send_func(ep, 100, parts.data(), cookie_of(2), DAT_COMPLETION_DEFAULT_FLAG),
        coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
}

TEST(rdma__write_and_read__events_name_them) {
    Pair pair;
    pair.connect();
    const DAT_EP_HANDLE ep = pair.active.ep;
    pair.active.block.bytes[0] = 0x5a;
    DAT_LMR_TRIPLET local = pair.active.block.part(0, 8);
    DAT_RMR_TRIPLET remote = pair.passive.block.remote(0, 8);
    assert_int_equal(table_of(ep).ep_post_rdma_write_func(ep, 1, &local, cookie_of(3), &remote,
                                                          DAT_COMPLETION_DEFAULT_FLAG),
                     DAT_SUCCESS);
    pair.active.must_complete(DAT_DTO_RDMA_WRITE, 3);
    local = pair.active.block.part(8, 8);
    assert_int_equal(table_of(ep).ep_post_rdma_read_func(ep, 1, &local, cookie_of(4), &remote,
                                                         DAT_COMPLETION_DEFAULT_FLAG),
                     DAT_SUCCESS);
    pair.active.must_complete(DAT_DTO_RDMA_READ, 4);
    assert_int_equal(pair.active.block.bytes[8], 0x5a);
}

TEST(write_with_immediate__posted_receive__both_hear) {
    Pair pair;
    assert_int_equal(pair.passive.receive(1024, 64, 1), DAT_SUCCESS);
    pair.connect();
    const DAT_LMR_TRIPLET local = pair.active.block.part(0, 256);
    const DAT_RMR_TRIPLET remote = pair.passive.block.remote(0, 256);
    assert_int_equal(extended(pair.active.ep, DAT_IB_RDMA_WRITE_IMMED_OP, 1, &local, cookie_of(5), &remote,
                              DAT_UINT32{0x7777}, DAT_COMPLETION_DEFAULT_FLAG),
                     DAT_SUCCESS);
    const auto sent = pair.active.must_complete_extended(DAT_IB_DTO_RDMA_WRITE_IMMED, 5);
    assert_int_equal(sent.type, DAT_IB_RDMA_WRITE_IMMED);
    const auto received = pair.passive.must_complete_extended(DAT_IB_DTO_RECV_IMMED, 1);
    assert_int_equal(received.type, DAT_IB_RDMA_WRITE_IMMED_DATA);
    assert_int_equal(received.immediate, 0x7777);
}

TEST(fetch_and_add__then_compare_and_swap__values_go_both_ways) {
    Pair pair;
    pair.connect();
    const DAT_LMR_TRIPLET local = pair.active.block.part(0, 8);
    const DAT_RMR_TRIPLET remote = pair.passive.block.remote(64, 256); // more than an atomic takes
    pair.passive.block.number_at(64) = 0x10;
    assert_int_equal(extended(pair.active.ep, DAT_IB_FETCH_AND_ADD_OP, DAT_UINT64{0x100}, &local,
                              cookie_of(6), &remote, DAT_COMPLETION_DEFAULT_FLAG),
                     DAT_SUCCESS);
    assert_int_equal(pair.active.must_complete_extended(DAT_IB_DTO_FETCH_ADD, 6).type, DAT_IB_FETCH_AND_ADD);
    assert_int_equal(pair.active.block.number_at(0), 0x10);
    assert_int_equal(pair.passive.block.number_at(64), 0x110);
    assert_int_equal(extended(pair.active.ep, DAT_IB_CMP_AND_SWAP_OP, DAT_UINT64{0x110}, DAT_UINT64{0x99},
                              &local, cookie_of(7), &remote, DAT_COMPLETION_DEFAULT_FLAG),
                     DAT_SUCCESS);
    assert_int_equal(pair.active.must_complete_extended(DAT_IB_DTO_CMP_SWAP, 7).type, DAT_IB_CMP_AND_SWAP);
    assert_int_equal(pair.active.block.number_at(0), 0x110);
    assert_int_equal(pair.passive.block.number_at(64), 0x99);
}

TEST(atomics__too_little_memory__length_error) {
    const Pair pair;
    pair.connect();
    const DAT_LMR_TRIPLET whole = pair.active.block.part(0, 8);
    const DAT_LMR_TRIPLET half = pair.active.block.part(0, 4);
    const DAT_RMR_TRIPLET remote_whole = pair.passive.block.remote(0, 8);
    const DAT_RMR_TRIPLET remote_half = pair.passive.block.remote(0, 4);
    const auto add = [&](const DAT_LMR_TRIPLET& local, const DAT_RMR_TRIPLET& remote) {
        return extended(pair.active.ep, DAT_IB_FETCH_AND_ADD_OP, DAT_UINT64{1}, &local, cookie_of(1), &remote,
                        DAT_COMPLETION_DEFAULT_FLAG);
    };
    assert_int_equal(add(half, remote_whole), coded(DAT_LENGTH_ERROR));
    assert_int_equal(add(whole, remote_half), coded(DAT_LENGTH_ERROR));
}

TEST(atomics__address_between_multiples_of_eight__remote_argument) {
    const Pair pair;
    pair.connect();
    const DAT_LMR_TRIPLET local = pair.active.block.part(0, 8);
    const DAT_RMR_TRIPLET remote = pair.passive.block.remote(4, 16);
    assert_int_equal(extended(pair.active.ep, DAT_IB_FETCH_AND_ADD_OP, DAT_UINT64{1}, &local, cookie_of(1),
                              &remote, DAT_COMPLETION_DEFAULT_FLAG),
                     coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1 + 5));
    assert_int_equal(extended(pair.active.ep, DAT_IB_CMP_AND_SWAP_OP, DAT_UINT64{1}, DAT_UINT64{2}, &local,
                              cookie_of(1), &remote, DAT_COMPLETION_DEFAULT_FLAG),
                     coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1 + 6));
}

TEST(extensions__segment_outside_its_region__that_argument) {
    const Pair pair;
    pair.connect();
    const DAT_LMR_TRIPLET outside = pair.active.block.part(pair.active.block.bytes.size() - 4, 8);
    const DAT_RMR_TRIPLET remote = pair.passive.block.remote(0, 64);
    assert_int_equal(extended(pair.active.ep, DAT_IB_RDMA_WRITE_IMMED_OP, DAT_COUNT{1}, &outside,
                              cookie_of(1), &remote, DAT_UINT32{7}, DAT_COMPLETION_DEFAULT_FLAG),
                     coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1 + 3));
    assert_int_equal(extended(pair.active.ep, DAT_IB_FETCH_AND_ADD_OP, DAT_UINT64{1}, &outside, cookie_of(1),
                              &remote, DAT_COMPLETION_DEFAULT_FLAG),
                     coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1 + 3));
}

TEST(extensions__of_others__not_implemented) {
    const Adapter adapter;
    for (const int operation : {3, 4, 5, 29, 0x1000}) {
        assert_int_equal(extended(adapter.ia, operation), coded(DAT_NOT_IMPLEMENTED));
    }
}

TEST(lmr_create__zero_based__not_implemented) {
    const Adapter adapter;
    const Block block(adapter, adapter.make_pz(), DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_ZB);
    assert_int_equal(block.status, coded(DAT_NOT_IMPLEMENTED));
}

TEST(reject__private_data__peer_hears_it) {
    const Pair pair;
    const DAT_CR_HANDLE request = pair.ask();
    char why[] = "too busy";
    assert_int_equal(table_of(request).cr_reject_func(request, sizeof why, why), DAT_SUCCESS);
    const DAT_EVENT event = pair.active.must_hear(DAT_CONNECTION_EVENT_PEER_REJECTED);
    const DAT_CONNECTION_EVENT_DATA& data = event.event_data.connect_event_data;
    assert_true(data.private_data_size >= static_cast<DAT_COUNT>(sizeof why));
    assert_string_equal(static_cast<const char*>(data.private_data), why);
}

TEST(rmr_bind__peer_writes_through_it__and_another_region_is_refused) {
    Pair pair;
    pair.connect();
    const Side& passive = pair.passive;
    const Block other(passive.adapter, passive.pz);
    DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
    assert_int_equal(table_of(passive.pz).rmr_create_func(passive.pz, &rmr), DAT_SUCCESS);
    const DAT_LMR_TRIPLET part = passive.block.part(0, 16);
    DAT_RMR_CONTEXT key = 0;
    const auto bind = [&](DAT_LMR_HANDLE lmr) {
        return table_of(rmr).rmr_bind_func(rmr, lmr, &part, DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, passive.ep,
                                           cookie_of(8), DAT_COMPLETION_DEFAULT_FLAG, &key);
    };
    assert_int_equal(bind(other.lmr), coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_LMR));
    assert_int_equal(bind(passive.block.lmr), DAT_SUCCESS);
    assert_int_equal(next(passive.transfers).event_number, DAT_RMR_BIND_COMPLETION_EVENT);
    pair.active.block.bytes[0] = 0x77;
    DAT_LMR_TRIPLET local = pair.active.block.part(0, 1);
    const DAT_RMR_TRIPLET remote{passive.block.address(3), 1, key};
    const DAT_EP_HANDLE ep = pair.active.ep;
    assert_int_equal(table_of(ep).ep_post_rdma_write_func(ep, 1, &local, cookie_of(9), &remote,
                                                          DAT_COMPLETION_DEFAULT_FLAG),
                     DAT_SUCCESS);
    pair.active.must_complete(DAT_DTO_RDMA_WRITE, 9);
    assert_int_equal(passive.block.bytes[3], 0x77);
}

// As dapltest's limits are tried.
TEST(ep_create__dispatcher_of_another_adapter__keeps_that_open) {
    const Adapter adapter;
    const DAT_PZ_HANDLE pz = adapter.make_pz();
    const DAT_EVD_HANDLE transfers = adapter.make_evd(16, DAT_EVD_DTO_FLAG);
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    const Line line("lender", sluice::test::own_address(0));
    char name[] = "lender";
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE lender = DAT_HANDLE_NULL;
    assert_int_equal(line.provider()->ia_open_func(name, 8, &async_evd, &lender), DAT_SUCCESS);
    DAT_EVD_HANDLE connections = DAT_HANDLE_NULL;
    assert_int_equal(
        table_of(lender).evd_create_func(lender, 8, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &connections),
        DAT_SUCCESS);
    assert_int_equal(
        table_of(adapter.ia).ep_create_func(adapter.ia, pz, transfers, transfers, connections, nullptr, &ep),
        DAT_SUCCESS);
    const auto close = [&] { return table_of(lender).ia_close_func(lender, DAT_CLOSE_ABRUPT_FLAG); };
    assert_int_equal(close(), coded(DAT_INVALID_STATE, DAT_INVALID_STATE_IA_IN_USE));
    assert_int_equal(table_of(ep).ep_free_func(ep), DAT_SUCCESS);
    assert_int_equal(close(), DAT_SUCCESS);
    assert_int_equal(close(), coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA));
}

// As dtestsrq waits for.
TEST(disconnect__shared_receive_queue__async_event_for_the_endpoint) {
    const Pair pair;
    const Side& active = pair.active;
    DAT_SRQ_ATTR srq_attr{4, 1, DAT_SRQ_LW_DEFAULT};
    DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
    const DAT_IA_HANDLE ia = active.adapter.ia;
    assert_int_equal(table_of(ia).srq_create_func(ia, active.pz, &srq_attr, &srq), DAT_SUCCESS);
    DAT_EP_ATTR attr{};
    attr.max_recv_dtos = attr.max_request_dtos = 4;
    attr.max_recv_iov = attr.max_request_iov = 1;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    assert_int_equal(table_of(ia).ep_create_with_srq_func(ia, active.pz, active.transfers, active.transfers,
                                                          active.connections, srq, &attr, &ep),
                     DAT_SUCCESS);
    const DAT_CR_HANDLE request = pair.ask(ep);
    assert_int_equal(table_of(request).cr_accept_func(request, pair.passive.ep, 0, nullptr), DAT_SUCCESS);
    active.must_hear(DAT_CONNECTION_EVENT_ESTABLISHED);
    assert_int_equal(table_of(ep).ep_disconnect_func(ep, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    active.must_hear(DAT_CONNECTION_EVENT_DISCONNECTED);
    const DAT_EVENT event = next(active.adapter.async_evd);
    assert_int_equal(event.event_number, DAT_ASYNC_ERROR_EP_BROKEN);
    assert_ptr_equal(event.event_data.asynch_error_event_data.dat_handle, ep);
    assert_int_equal(event.event_data.asynch_error_event_data.reason, DAT_EP_OTHER_ERROR);
}

TEST(sync__many_segments__the_last_wrong_one_is_found) {
    const Adapter adapter;
    const Block block(adapter, adapter.make_pz());
    std::vector<DAT_LMR_TRIPLET> parts(200, block.part(0, 64));
    const auto sync = [&] {
        return table_of(adapter.ia).lmr_sync_rdma_read_func(adapter.ia, parts.data(), parts.size());
    };
    assert_int_equal(sync(), DAT_SUCCESS);
    parts.back().segment_length = 8192;
    assert_int_equal(sync(), coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
