// SPDX-License-Identifier: BSD-3-Clause
//
// What every call answers to handles that are none: null, freed, of another kind, of another adapter, and
// addresses of the program's own.
#include <algorithm>
#include <array>
#include <functional>

#include "tests/unit/udapl/dapl_pair.hpp"

using namespace sluice::dapl::test;

namespace {

constexpr std::string_view kFunctions[] = {
#define FUNCTION(name) #name,
#include "tests/unit/udapl/functions.h"
#undef FUNCTION
};

// A call with one handle that may be wrong; all else is right.
struct Call {
    const char* name;
    std::function<DAT_RETURN(DAT_HANDLE)> call;
    DAT_HANDLE_TYPE kind;
    bool may_be_null = false;   // there null means none
    bool is_about_kind = true;  // any kind of handle will do where not
    bool belongs_to_ia = false; // a second handle names the adapter, and both must agree
};

struct World {
    World() {
        assert_int_equal(dat_cno_create(opened.ia, {nullptr, nullptr}, &cno), DAT_SUCCESS);
        assert_int_equal(
            dat_psp_create_any(opened.ia, &qualifier, side.connections, DAT_PSP_CONSUMER_FLAG, &psp),
            DAT_SUCCESS);
        assert_int_equal(dat_srq_create(opened.ia, side.pz, &srq_attr, &srq), DAT_SUCCESS);
        assert_int_equal(dat_rmr_create(side.pz, &rmr), DAT_SUCCESS);
    }
    Side side{0};
    const Opened& opened = side.opened;
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    DAT_SRQ_ATTR srq_attr{4, 1, DAT_SRQ_LW_DEFAULT};
    DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
    DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
    DAT_RMR_CONTEXT key = 0;
    DAT_CONN_QUAL qualifier = 0;
    DAT_HANDLE made = DAT_HANDLE_NULL;
    DAT_EVENT event{};
    DAT_COUNT count = 0;
    DAT_CONTEXT context{};
    DAT_HANDLE_TYPE type{};
    DAT_EP_PARAM ep_param{};
    DAT_LMR_TRIPLET part = side.block.part(0, 1);
    DAT_RMR_TRIPLET remote{side.block.key, 0, side.block.address(), 1};
    DAT_DTO_COOKIE cookie{};
    sockaddr_in address{};
};

DAT_RETURN create_lmr(World& w, DAT_HANDLE ia, DAT_HANDLE pz, DAT_MEM_TYPE type = DAT_MEM_TYPE_VIRTUAL,
                      DAT_HANDLE source = DAT_HANDLE_NULL) {
    DAT_REGION_DESCRIPTION region{};
    region.for_va = type == DAT_MEM_TYPE_VIRTUAL ? &w.made : source;
    return dat_lmr_create(ia, type, region, sizeof w.made, pz, DAT_MEM_PRIV_ALL_FLAG, &w.made, nullptr,
                          nullptr, nullptr, nullptr);
}

DAT_RETURN create_ep(World& w, DAT_HANDLE ia, DAT_HANDLE pz, DAT_HANDLE receive, DAT_HANDLE request,
                     DAT_HANDLE connect) {
    return dat_ep_create(ia, pz, receive, request, connect, nullptr, &w.made);
}

std::vector<Call> calls_of_adapters(World& w) {
    return {
        {"ia_openv",
         [&](DAT_HANDLE h) {
             std::string name = own_device();
             DAT_EVD_HANDLE evd = h;
             return dat_ia_open(name.data(), 1, &evd, &w.made);
         },
         DAT_HANDLE_TYPE_EVD, true},
        {"lmr_create", [&](DAT_HANDLE h) { return create_lmr(w, h, w.side.pz); }, DAT_HANDLE_TYPE_IA, false,
         true, true},
        {"lmr_create, PZ", [&](DAT_HANDLE h) { return create_lmr(w, w.opened.ia, h); }, DAT_HANDLE_TYPE_PZ,
         false, true, true},
        {"lmr_create, LMR",
         [&](DAT_HANDLE h) { return create_lmr(w, w.opened.ia, w.side.pz, DAT_MEM_TYPE_LMR, h); },
         DAT_HANDLE_TYPE_LMR},
        {"ia_query", [](DAT_HANDLE h) { return dat_ia_query(h, nullptr, 0, nullptr, 0, nullptr); },
         DAT_HANDLE_TYPE_IA},
        {"ia_close", [](DAT_HANDLE h) { return dat_ia_close(h, DAT_CLOSE_GRACEFUL_FLAG); },
         DAT_HANDLE_TYPE_IA},
        {"pz_create", [&](DAT_HANDLE h) { return dat_pz_create(h, &w.made); }, DAT_HANDLE_TYPE_IA},
        {"pz_query",
         [](DAT_HANDLE h) {
             DAT_PZ_PARAM param{};
             return dat_pz_query(h, DAT_PZ_FIELD_ALL, &param);
         },
         DAT_HANDLE_TYPE_PZ},
        {"pz_free", [](DAT_HANDLE h) { return dat_pz_free(h); }, DAT_HANDLE_TYPE_PZ},
        {"lmr_query",
         [](DAT_HANDLE h) {
             DAT_LMR_PARAM param{};
             return dat_lmr_query(h, DAT_LMR_FIELD_ALL, &param);
         },
         DAT_HANDLE_TYPE_LMR},
        {"lmr_free", [](DAT_HANDLE h) { return dat_lmr_free(h); }, DAT_HANDLE_TYPE_LMR},
        {"lmr_sync_rdma_read", [&](DAT_HANDLE h) { return dat_lmr_sync_rdma_read(h, &w.part, 1); },
         DAT_HANDLE_TYPE_IA},
        {"lmr_sync_rdma_write", [&](DAT_HANDLE h) { return dat_lmr_sync_rdma_write(h, &w.part, 1); },
         DAT_HANDLE_TYPE_IA},
        {"set_consumer_context", [&](DAT_HANDLE h) { return dat_set_consumer_context(h, w.context); },
         DAT_HANDLE_TYPE_IA, false, false},
        {"get_consumer_context", [&](DAT_HANDLE h) { return dat_get_consumer_context(h, &w.context); },
         DAT_HANDLE_TYPE_IA, false, false},
        {"get_handle_type", [&](DAT_HANDLE h) { return dat_get_handle_type(h, &w.type); }, DAT_HANDLE_TYPE_IA,
         false, false},
    };
}

std::vector<Call> calls_of_events(World& w) {
    return {
        {"evd_create",
         [&](DAT_HANDLE h) { return dat_evd_create(h, 1, nullptr, DAT_EVD_SOFTWARE_FLAG, &w.made); },
         DAT_HANDLE_TYPE_IA},
        {"evd_create, CNO",
         [&](DAT_HANDLE h) { return dat_evd_create(w.opened.ia, 1, h, DAT_EVD_SOFTWARE_FLAG, &w.made); },
         DAT_HANDLE_TYPE_CNO, true, true, true},
        {"evd_modify_cno", [&](DAT_HANDLE h) { return dat_evd_modify_cno(h, w.cno); }, DAT_HANDLE_TYPE_EVD},
        {"evd_modify_cno, CNO", [&](DAT_HANDLE h) { return dat_evd_modify_cno(w.side.transfers, h); },
         DAT_HANDLE_TYPE_CNO, true, true, true},
        {"evd_query",
         [](DAT_HANDLE h) {
             DAT_EVD_PARAM param{};
             return dat_evd_query(h, DAT_EVD_FIELD_ALL, &param);
         },
         DAT_HANDLE_TYPE_EVD},
        {"evd_enable", [](DAT_HANDLE h) { return dat_evd_enable(h); }, DAT_HANDLE_TYPE_EVD},
        {"evd_disable", [](DAT_HANDLE h) { return dat_evd_disable(h); }, DAT_HANDLE_TYPE_EVD},
        {"evd_set_unwaitable", [](DAT_HANDLE h) { return dat_evd_set_unwaitable(h); }, DAT_HANDLE_TYPE_EVD},
        {"evd_clear_unwaitable", [](DAT_HANDLE h) { return dat_evd_clear_unwaitable(h); },
         DAT_HANDLE_TYPE_EVD},
        {"evd_wait", [&](DAT_HANDLE h) { return dat_evd_wait(h, 0, 1, &w.event, &w.count); },
         DAT_HANDLE_TYPE_EVD},
        {"evd_dequeue", [&](DAT_HANDLE h) { return dat_evd_dequeue(h, &w.event); }, DAT_HANDLE_TYPE_EVD},
        {"evd_post_se", [](DAT_HANDLE h) { return post(h, 1); }, DAT_HANDLE_TYPE_EVD},
        {"evd_resize", [](DAT_HANDLE h) { return dat_evd_resize(h, 8); }, DAT_HANDLE_TYPE_EVD},
        {"evd_free", [](DAT_HANDLE h) { return dat_evd_free(h); }, DAT_HANDLE_TYPE_EVD},
        {"cno_create",
         [&](DAT_HANDLE h) {
             return dat_cno_create(h, {nullptr, nullptr}, &w.made);
         },
         DAT_HANDLE_TYPE_IA},
        {"cno_modify_agent",
         [](DAT_HANDLE h) {
             return dat_cno_modify_agent(h, {nullptr, nullptr});
         },
         DAT_HANDLE_TYPE_CNO},
        {"cno_query",
         [](DAT_HANDLE h) {
             DAT_CNO_PARAM param{};
             return dat_cno_query(h, DAT_CNO_FIELD_ALL, &param);
         },
         DAT_HANDLE_TYPE_CNO},
        {"cno_wait", [&](DAT_HANDLE h) { return dat_cno_wait(h, 0, &w.made); }, DAT_HANDLE_TYPE_CNO},
        {"cno_free", [](DAT_HANDLE h) { return dat_cno_free(h); }, DAT_HANDLE_TYPE_CNO},
    };
}

std::vector<Call> calls_of_endpoints(World& w) {
    Side& s = w.side;
    const DAT_HANDLE evd = s.transfers;
    return {
        {"ep_create", [&, evd](DAT_HANDLE h) { return create_ep(w, h, s.pz, evd, evd, s.connections); },
         DAT_HANDLE_TYPE_IA, false, true, true},
        {"ep_create, PZ",
         [&, evd](DAT_HANDLE h) { return create_ep(w, w.opened.ia, h, evd, evd, s.connections); },
         DAT_HANDLE_TYPE_PZ, false, true, true},
        {"ep_create, receive",
         [&, evd](DAT_HANDLE h) { return create_ep(w, w.opened.ia, s.pz, h, evd, s.connections); },
         DAT_HANDLE_TYPE_EVD, true, true, true},
        {"ep_create, request",
         [&, evd](DAT_HANDLE h) { return create_ep(w, w.opened.ia, s.pz, evd, h, s.connections); },
         DAT_HANDLE_TYPE_EVD, true, true, true},
        {"ep_create, connect",
         [&, evd](DAT_HANDLE h) { return create_ep(w, w.opened.ia, s.pz, evd, evd, h); }, DAT_HANDLE_TYPE_EVD,
         true, true, true},
        {"ep_query", [&](DAT_HANDLE h) { return dat_ep_query(h, DAT_EP_FIELD_ALL, &w.ep_param); },
         DAT_HANDLE_TYPE_EP},
        {"ep_modify", [&](DAT_HANDLE h) { return dat_ep_modify(h, 0, &w.ep_param); }, DAT_HANDLE_TYPE_EP},
        {"ep_modify, PZ",
         [&](DAT_HANDLE h) {
             DAT_EP_PARAM param{};
             param.pz_handle = h;
             return dat_ep_modify(s.ep, DAT_EP_FIELD_PZ_HANDLE, &param);
         },
         DAT_HANDLE_TYPE_PZ, false, true, true},
        {"ep_connect",
         [&](DAT_HANDLE h) {
             return dat_ep_connect(h, reinterpret_cast<DAT_IA_ADDRESS_PTR>(&w.address), 1, 1, 0, nullptr,
                                   DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
         },
         DAT_HANDLE_TYPE_EP},
        {"ep_dup_connect",
         [&](DAT_HANDLE h) { return dat_ep_dup_connect(h, s.ep, 1, 0, nullptr, DAT_QOS_BEST_EFFORT); },
         DAT_HANDLE_TYPE_EP},
        {"ep_dup_connect, other",
         [&](DAT_HANDLE h) { return dat_ep_dup_connect(s.ep, h, 1, 0, nullptr, DAT_QOS_BEST_EFFORT); },
         DAT_HANDLE_TYPE_EP},
        {"ep_disconnect", [](DAT_HANDLE h) { return dat_ep_disconnect(h, DAT_CLOSE_ABRUPT_FLAG); },
         DAT_HANDLE_TYPE_EP},
        {"ep_post_send",
         [&](DAT_HANDLE h) { return dat_ep_post_send(h, 1, &w.part, w.cookie, DAT_COMPLETION_DEFAULT_FLAG); },
         DAT_HANDLE_TYPE_EP},
        {"ep_post_recv",
         [&](DAT_HANDLE h) { return dat_ep_post_recv(h, 1, &w.part, w.cookie, DAT_COMPLETION_DEFAULT_FLAG); },
         DAT_HANDLE_TYPE_EP},
        {"ep_post_rdma_read",
         [&](DAT_HANDLE h) {
             return dat_ep_post_rdma_read(h, 1, &w.part, w.cookie, &w.remote, DAT_COMPLETION_DEFAULT_FLAG);
         },
         DAT_HANDLE_TYPE_EP},
        {"ep_post_rdma_write",
         [&](DAT_HANDLE h) {
             return dat_ep_post_rdma_write(h, 1, &w.part, w.cookie, &w.remote, DAT_COMPLETION_DEFAULT_FLAG);
         },
         DAT_HANDLE_TYPE_EP},
        {"ep_get_status", [](DAT_HANDLE h) { return dat_ep_get_status(h, nullptr, nullptr, nullptr); },
         DAT_HANDLE_TYPE_EP},
        {"ep_reset", [](DAT_HANDLE h) { return dat_ep_reset(h); }, DAT_HANDLE_TYPE_EP},
        {"ep_recv_query", [&](DAT_HANDLE h) { return dat_ep_recv_query(h, &w.count, &w.count); },
         DAT_HANDLE_TYPE_EP},
        {"ep_set_watermark", [](DAT_HANDLE h) { return dat_ep_set_watermark(h, 1, 1); }, DAT_HANDLE_TYPE_EP},
        {"ep_free", [](DAT_HANDLE h) { return dat_ep_free(h); }, DAT_HANDLE_TYPE_EP},
    };
}

std::vector<Call> calls_of_service_points(World& w) {
    return {
        {"psp_create",
         [&](DAT_HANDLE h) {
             return dat_psp_create(h, 1, w.side.connections, DAT_PSP_CONSUMER_FLAG, &w.made);
         },
         DAT_HANDLE_TYPE_IA, false, true, true},
        {"psp_create, EVD",
         [&](DAT_HANDLE h) { return dat_psp_create(w.opened.ia, 1, h, DAT_PSP_CONSUMER_FLAG, &w.made); },
         DAT_HANDLE_TYPE_EVD, false, true, true},
        {"psp_create_any",
         [&](DAT_HANDLE h) {
             return dat_psp_create_any(h, &w.qualifier, w.side.connections, DAT_PSP_CONSUMER_FLAG, &w.made);
         },
         DAT_HANDLE_TYPE_IA, false, true, true},
        {"psp_query",
         [](DAT_HANDLE h) {
             DAT_PSP_PARAM param{};
             return dat_psp_query(h, DAT_PSP_FIELD_ALL, &param);
         },
         DAT_HANDLE_TYPE_PSP},
        {"psp_free", [](DAT_HANDLE h) { return dat_psp_free(h); }, DAT_HANDLE_TYPE_PSP},
        {"cr_query",
         [](DAT_HANDLE h) {
             DAT_CR_PARAM param{};
             return dat_cr_query(h, DAT_CR_FIELD_ALL, &param);
         },
         DAT_HANDLE_TYPE_CR},
        {"cr_accept", [&](DAT_HANDLE h) { return dat_cr_accept(h, w.side.ep, 0, nullptr); },
         DAT_HANDLE_TYPE_CR},
        {"cr_reject", [](DAT_HANDLE h) { return dat_cr_reject(h); }, DAT_HANDLE_TYPE_CR},
        {"cr_handoff", [](DAT_HANDLE h) { return dat_cr_handoff(h, 1); }, DAT_HANDLE_TYPE_CR},
        {"rsp_create",
         [&](DAT_HANDLE h) { return dat_rsp_create(h, 1, w.side.ep, w.side.connections, &w.made); },
         DAT_HANDLE_TYPE_IA, false, true, true},
        {"rsp_create, EP",
         [&](DAT_HANDLE h) { return dat_rsp_create(w.opened.ia, 1, h, w.side.connections, &w.made); },
         DAT_HANDLE_TYPE_EP, false, true, true},
        {"rsp_create, EVD",
         [&](DAT_HANDLE h) { return dat_rsp_create(w.opened.ia, 1, w.side.ep, h, &w.made); },
         DAT_HANDLE_TYPE_EVD, false, true, true},
        {"rsp_query",
         [](DAT_HANDLE h) {
             DAT_RSP_PARAM param{};
             return dat_rsp_query(h, DAT_RSP_FIELD_ALL, &param);
         },
         DAT_HANDLE_TYPE_RSP},
        {"rsp_free", [](DAT_HANDLE h) { return dat_rsp_free(h); }, DAT_HANDLE_TYPE_RSP},
    };
}

std::vector<Call> calls_of_shared_queues(World& w) {
    const auto create_ep_with = [&](DAT_HANDLE ia, DAT_HANDLE pz, DAT_HANDLE srq) {
        const DAT_HANDLE evd = w.side.transfers;
        return dat_ep_create_with_srq(ia, pz, evd, evd, w.side.connections, srq, &w.ep_param.ep_attr,
                                      &w.made);
    };
    return {
        {"srq_create", [&](DAT_HANDLE h) { return dat_srq_create(h, w.side.pz, &w.srq_attr, &w.made); },
         DAT_HANDLE_TYPE_IA, false, true, true},
        {"srq_create, PZ", [&](DAT_HANDLE h) { return dat_srq_create(w.opened.ia, h, &w.srq_attr, &w.made); },
         DAT_HANDLE_TYPE_PZ, false, true, true},
        {"srq_post_recv", [&](DAT_HANDLE h) { return dat_srq_post_recv(h, 1, &w.part, w.cookie); },
         DAT_HANDLE_TYPE_SRQ},
        {"srq_query",
         [](DAT_HANDLE h) {
             DAT_SRQ_PARAM param{};
             return dat_srq_query(h, DAT_SRQ_FIELD_ALL, &param);
         },
         DAT_HANDLE_TYPE_SRQ},
        {"srq_resize", [](DAT_HANDLE h) { return dat_srq_resize(h, 8); }, DAT_HANDLE_TYPE_SRQ},
        {"srq_set_lw", [](DAT_HANDLE h) { return dat_srq_set_lw(h, 1); }, DAT_HANDLE_TYPE_SRQ},
        {"srq_free", [](DAT_HANDLE h) { return dat_srq_free(h); }, DAT_HANDLE_TYPE_SRQ},
        {"ep_create_with_srq",
         [&w, create_ep_with](DAT_HANDLE h) { return create_ep_with(h, w.side.pz, w.srq); },
         DAT_HANDLE_TYPE_IA, false, true, true},
        {"ep_create_with_srq, PZ",
         [&w, create_ep_with](DAT_HANDLE h) { return create_ep_with(w.opened.ia, h, w.srq); },
         DAT_HANDLE_TYPE_PZ, false, true, true},
        {"ep_create_with_srq, SRQ",
         [&w, create_ep_with](DAT_HANDLE h) { return create_ep_with(w.opened.ia, w.side.pz, h); },
         DAT_HANDLE_TYPE_SRQ, false, true, true},
    };
}

std::vector<Call> calls_of_windows(World& w) {
    const auto bind = [&](DAT_HANDLE rmr, DAT_HANDLE ep) {
        return dat_rmr_bind(rmr, &w.part, DAT_MEM_PRIV_ALL_FLAG, ep, w.cookie, DAT_COMPLETION_DEFAULT_FLAG,
                            &w.key);
    };
    return {
        {"rmr_create", [&](DAT_HANDLE h) { return dat_rmr_create(h, &w.made); }, DAT_HANDLE_TYPE_PZ},
        {"rmr_query",
         [](DAT_HANDLE h) {
             DAT_RMR_PARAM param{};
             return dat_rmr_query(h, DAT_RMR_FIELD_ALL, &param);
         },
         DAT_HANDLE_TYPE_RMR},
        {"rmr_bind", [&w, bind](DAT_HANDLE h) { return bind(h, w.side.ep); }, DAT_HANDLE_TYPE_RMR},
        {"rmr_bind, EP", [&w, bind](DAT_HANDLE h) { return bind(w.rmr, h); }, DAT_HANDLE_TYPE_EP},
        {"rmr_free", [](DAT_HANDLE h) { return dat_rmr_free(h); }, DAT_HANDLE_TYPE_RMR},
    };
}

void must_refuse(const Call& call, DAT_HANDLE handle, const char* what) {
    const DAT_RETURN status = call.call(handle);
    if (DAT_GET_TYPE(status) != DAT_INVALID_HANDLE || (status & DAT_CLASS_ERROR) == 0) {
        fail_msg("%s: 0x%x for a handle that is %s", call.name, status, what);
    }
}

// One handle of each kind that lives, with its kind.
std::vector<std::pair<DAT_HANDLE, DAT_HANDLE_TYPE>> live_handles(const World& w) {
    return {{w.opened.ia, DAT_HANDLE_TYPE_IA},
            {w.side.pz, DAT_HANDLE_TYPE_PZ},
            {w.side.transfers, DAT_HANDLE_TYPE_EVD},
            {w.side.ep, DAT_HANDLE_TYPE_EP},
            {w.side.block.lmr, DAT_HANDLE_TYPE_LMR},
            {w.cno, DAT_HANDLE_TYPE_CNO},
            {w.psp, DAT_HANDLE_TYPE_PSP},
            {w.srq, DAT_HANDLE_TYPE_SRQ},
            {w.rmr, DAT_HANDLE_TYPE_RMR}};
}

// Handles of objects that were freed, of each kind that can be had without a peer.
std::vector<std::pair<DAT_HANDLE, DAT_HANDLE_TYPE>> freed_handles() {
    World w;
    return live_handles(w); // closing the adapter has freed all of them
}

std::vector<Call> every_call(World& w) {
    std::vector<Call> calls;
    for (const auto& some : {calls_of_adapters(w), calls_of_events(w), calls_of_endpoints(w),
                             calls_of_service_points(w), calls_of_shared_queues(w), calls_of_windows(w)}) {
        calls.insert(calls.end(), some.begin(), some.end());
    }
    return calls;
}

// Each function is among them, but for those that have no handle.
TEST(calls__all_functions__are_tried) {
    World w;
    const std::vector<Call> calls = every_call(w);
    const std::string_view without_handles[] = {"dat_registry_add_provider", "dat_registry_list_providers",
                                                "dat_registry_remove_provider", "dat_strerror"};
    for (const std::string_view name : kFunctions) {
        const bool is_tried = std::ranges::any_of(calls, [name](const Call& call) {
            const std::string_view tried = call.name;
            return tried.substr(0, tried.find(',')) == name.substr(std::string_view("dat_").size());
        });
        if (!is_tried && std::ranges::find(without_handles, name) == std::end(without_handles)) {
            fail_msg("%s isn't tried", name.data());
        }
    }
}

TEST(calls__null_or_not_a_handle__invalid_handle) {
    World w;
    alignas(64) std::array<std::uint64_t, 16> own{};
    for (const Call& call : every_call(w)) {
        if (!call.may_be_null) {
            must_refuse(call, DAT_HANDLE_NULL, "null");
        }
        must_refuse(call, own.data(), "the program's memory");
        must_refuse(call, reinterpret_cast<char*>(own.data()) + 1, "misaligned");
        must_refuse(call, static_cast<char*>(w.opened.ia) + 1, "beside the adapter's");
        must_refuse(call, static_cast<char*>(w.opened.ia) + 40, "inside the table");
    }
}

TEST(calls__other_kind__invalid_handle) {
    World w;
    for (const Call& call : every_call(w)) {
        for (const auto& [handle, kind] : live_handles(w)) {
            if (call.is_about_kind && kind != call.kind) {
                must_refuse(call, handle, "of another kind");
            }
        }
    }
}

TEST(calls__freed__invalid_handle) {
    const auto freed = freed_handles();
    World w;
    for (const Call& call : every_call(w)) {
        for (const auto& [handle, kind] : freed) {
            must_refuse(call, handle, "freed");
        }
    }
}

TEST(calls__of_another_adapter__invalid_handle) {
    World w;
    const Side other(1);
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    assert_int_equal(dat_cno_create(other.opened.ia, {nullptr, nullptr}, &cno), DAT_SUCCESS);
    const std::pair<DAT_HANDLE, DAT_HANDLE_TYPE> others[] = {{other.opened.ia, DAT_HANDLE_TYPE_IA},
                                                             {other.pz, DAT_HANDLE_TYPE_PZ},
                                                             {other.transfers, DAT_HANDLE_TYPE_EVD},
                                                             {cno, DAT_HANDLE_TYPE_CNO}};
    for (const Call& call : every_call(w)) {
        for (const auto& [handle, kind] : others) {
            if (call.belongs_to_ia && kind == call.kind) {
                must_refuse(call, handle, "of another adapter");
            }
        }
    }
}

TEST(contexts__every_kind__kept_and_replaced) {
    World w;
    for (const auto& [handle, kind] : live_handles(w)) {
        DAT_HANDLE_TYPE type{};
        assert_int_equal(dat_get_handle_type(handle, &type), DAT_SUCCESS);
        assert_int_equal(type, kind);
        DAT_CONTEXT context{};
        context.as_64 = 99;
        assert_int_equal(dat_get_consumer_context(handle, &context), DAT_SUCCESS);
        assert_null(context.as_ptr);
        for (const std::uint64_t value : {std::uint64_t{1} << 63, std::uint64_t{0}}) {
            context.as_64 = value;
            assert_int_equal(dat_set_consumer_context(handle, context), DAT_SUCCESS);
            context.as_64 = 99;
            assert_int_equal(dat_get_consumer_context(handle, &context), DAT_SUCCESS);
            assert_int_equal(context.as_64, value);
        }
        assert_int_equal(dat_get_consumer_context(handle, nullptr),
                         coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
        assert_int_equal(dat_get_handle_type(handle, nullptr),
                         coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    }
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
