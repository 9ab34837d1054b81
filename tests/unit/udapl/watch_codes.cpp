// SPDX-License-Identifier: BSD-3-Clause
//
// Stands between a test and libdat (LD_PRELOAD), and notes in the file that DAT_CODES names which function
// has given which type of code in which test: for tests/unit/udapl/codes_are_provoked.
#include <dat/dat_registry.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "core/not_cancelled.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

namespace {

std::atomic<const char*> test_now{"main"};

// Nothing here allocates: tests let allocations fail.
void note(const char* function, DAT_RETURN status) {
    static const int file = [] {
        const char* const name = std::getenv("DAT_CODES"); // NOLINT(concurrency-mt-unsafe)
        return name != nullptr ? open(name, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644) : -1;
    }();
    const char* type = nullptr;
    const char* subtype = nullptr;
    static const auto name_of = reinterpret_cast<decltype(&dat_strerror)>(dlsym(RTLD_NEXT, "dat_strerror"));
    if (name_of(status, &type, &subtype) != DAT_SUCCESS) {
        type = "UNKNOWN";
    }
    std::array<char, 512> line;
    const int length = std::snprintf(line.data(), line.size(), "%s %s %s\n", function, type, test_now.load());
    if (write(file, line.data(), static_cast<std::size_t>(length)) != length) {
        abort();
    }
}

// Each type once in each test.
class Noted {
  public:
    DAT_RETURN operator()(const char* function, DAT_RETURN status) noexcept {
        const sluice::NotCancelled guard;
        const std::uint32_t bit = 1U << ((DAT_GET_TYPE(status) >> 16) % 32);
        const char* const test = test_now;
        if (test_.exchange(test) != test) {
            types_ = 0;
        }
        if ((types_.fetch_or(bit) & bit) == 0) {
            note(function, status);
        }
        return status;
    }

  private:
    std::atomic<const char*> test_{nullptr};
    std::atomic<std::uint32_t> types_{0};
};

int remember_name(void** state) {
    test_now = static_cast<const char*>(*state);
    return 0;
}

template<typename Function>
Function* next(const char* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

} // namespace

extern "C" {

// Of CMocka, for the names of the tests. DAT's have no state of their own.
[[gnu::visibility("default")]] int _cmocka_run_group_tests(const char* group,
                                                           const CMUnitTest* const tests, // NOLINT
                                                           const size_t count, CMFixtureFunction setup,
                                                           CMFixtureFunction teardown) {
    std::vector<CMUnitTest> named(tests, tests + count);
    for (CMUnitTest& test : named) {
        if (test.setup_func != nullptr || test.initial_state != nullptr) {
            abort();
        }
        test.setup_func = remember_name;
        test.initial_state = const_cast<char*>(test.name); // NOLINT: CMocka's state is anything
    }
    return next<decltype(_cmocka_run_group_tests)>("_cmocka_run_group_tests")(group, named.data(), count,
                                                                              setup, teardown);
}

#define WATCHED(name, parameters, arguments)                                                                 \
    [[gnu::visibility("default")]] DAT_RETURN name parameters {                                              \
        static const auto libdats = next<decltype(name)>(#name);                                             \
        static Noted noted;                                                                                  \
        return noted(#name, libdats arguments);                                                              \
    }

WATCHED(dat_ia_openv,
        (DAT_NAME_PTR a, DAT_COUNT b, DAT_EVD_HANDLE* c, DAT_IA_HANDLE* d, DAT_UINT32 e, DAT_UINT32 f,
         DAT_BOOLEAN g),
        (a, b, c, d, e, f, g))
WATCHED(dat_ia_close, (DAT_IA_HANDLE a, DAT_CLOSE_FLAGS b), (a, b))
WATCHED(dat_set_consumer_context, (DAT_HANDLE a, DAT_CONTEXT b), (a, b))
WATCHED(dat_get_consumer_context, (DAT_HANDLE a, DAT_CONTEXT* b), (a, b))
WATCHED(dat_get_handle_type, (DAT_HANDLE a, DAT_HANDLE_TYPE* b), (a, b))
WATCHED(dat_registry_list_providers, (DAT_COUNT a, DAT_COUNT* b, DAT_PROVIDER_INFO** c), (a, b, c))
WATCHED(dat_cr_query, (DAT_CR_HANDLE a, DAT_CR_PARAM_MASK b, DAT_CR_PARAM* c), (a, b, c))
WATCHED(dat_cr_accept, (DAT_CR_HANDLE a, DAT_EP_HANDLE b, DAT_COUNT c, DAT_PVOID d), (a, b, c, d))
WATCHED(dat_cr_reject, (DAT_CR_HANDLE a), (a))
WATCHED(dat_cr_handoff, (DAT_CR_HANDLE a, DAT_CONN_QUAL b), (a, b))
WATCHED(dat_evd_resize, (DAT_EVD_HANDLE a, DAT_COUNT b), (a, b))
WATCHED(dat_evd_post_se, (DAT_EVD_HANDLE a, const DAT_EVENT* b), (a, b))
WATCHED(dat_evd_dequeue, (DAT_EVD_HANDLE a, DAT_EVENT* b), (a, b))
WATCHED(dat_evd_free, (DAT_EVD_HANDLE a), (a))
WATCHED(dat_ep_create,
        (DAT_IA_HANDLE a, DAT_PZ_HANDLE b, DAT_EVD_HANDLE c, DAT_EVD_HANDLE d, DAT_EVD_HANDLE e,
         const DAT_EP_ATTR* f, DAT_EP_HANDLE* g),
        (a, b, c, d, e, f, g))
WATCHED(dat_ep_create_with_srq,
        (DAT_IA_HANDLE a, DAT_PZ_HANDLE b, DAT_EVD_HANDLE c, DAT_EVD_HANDLE d, DAT_EVD_HANDLE e,
         DAT_SRQ_HANDLE f, const DAT_EP_ATTR* g, DAT_EP_HANDLE* h),
        (a, b, c, d, e, f, g, h))
WATCHED(dat_ep_query, (DAT_EP_HANDLE a, DAT_EP_PARAM_MASK b, DAT_EP_PARAM* c), (a, b, c))
WATCHED(dat_ep_modify, (DAT_EP_HANDLE a, DAT_EP_PARAM_MASK b, const DAT_EP_PARAM* c), (a, b, c))
WATCHED(dat_ep_connect,
        (DAT_EP_HANDLE a, DAT_IA_ADDRESS_PTR b, DAT_CONN_QUAL c, DAT_TIMEOUT d, DAT_COUNT e, DAT_PVOID f,
         DAT_QOS g, DAT_CONNECT_FLAGS h),
        (a, b, c, d, e, f, g, h))
WATCHED(dat_ep_dup_connect,
        (DAT_EP_HANDLE a, DAT_EP_HANDLE b, DAT_TIMEOUT c, DAT_COUNT d, DAT_PVOID e, DAT_QOS f),
        (a, b, c, d, e, f))
WATCHED(dat_ep_disconnect, (DAT_EP_HANDLE a, DAT_CLOSE_FLAGS b), (a, b))
WATCHED(dat_ep_post_send,
        (DAT_EP_HANDLE a, DAT_COUNT b, DAT_LMR_TRIPLET* c, DAT_DTO_COOKIE d, DAT_COMPLETION_FLAGS e),
        (a, b, c, d, e))
WATCHED(dat_ep_post_recv,
        (DAT_EP_HANDLE a, DAT_COUNT b, DAT_LMR_TRIPLET* c, DAT_DTO_COOKIE d, DAT_COMPLETION_FLAGS e),
        (a, b, c, d, e))
WATCHED(dat_ep_post_rdma_read,
        (DAT_EP_HANDLE a, DAT_COUNT b, DAT_LMR_TRIPLET* c, DAT_DTO_COOKIE d, const DAT_RMR_TRIPLET* e,
         DAT_COMPLETION_FLAGS f),
        (a, b, c, d, e, f))
WATCHED(dat_ep_post_rdma_write,
        (DAT_EP_HANDLE a, DAT_COUNT b, DAT_LMR_TRIPLET* c, DAT_DTO_COOKIE d, const DAT_RMR_TRIPLET* e,
         DAT_COMPLETION_FLAGS f),
        (a, b, c, d, e, f))
WATCHED(dat_ep_get_status, (DAT_EP_HANDLE a, DAT_EP_STATE* b, DAT_BOOLEAN* c, DAT_BOOLEAN* d), (a, b, c, d))
WATCHED(dat_ep_free, (DAT_EP_HANDLE a), (a))
WATCHED(dat_ep_reset, (DAT_EP_HANDLE a), (a))
WATCHED(dat_ep_recv_query, (DAT_EP_HANDLE a, DAT_COUNT* b, DAT_COUNT* c), (a, b, c))
WATCHED(dat_ep_set_watermark, (DAT_EP_HANDLE a, DAT_COUNT b, DAT_COUNT c), (a, b, c))
WATCHED(dat_lmr_free, (DAT_LMR_HANDLE a), (a))
WATCHED(dat_lmr_sync_rdma_read, (DAT_IA_HANDLE a, const DAT_LMR_TRIPLET* b, DAT_VLEN c), (a, b, c))
WATCHED(dat_lmr_sync_rdma_write, (DAT_IA_HANDLE a, const DAT_LMR_TRIPLET* b, DAT_VLEN c), (a, b, c))
WATCHED(dat_rmr_create, (DAT_PZ_HANDLE a, DAT_RMR_HANDLE* b), (a, b))
WATCHED(dat_rmr_query, (DAT_RMR_HANDLE a, DAT_RMR_PARAM_MASK b, DAT_RMR_PARAM* c), (a, b, c))
WATCHED(dat_rmr_bind,
        (DAT_RMR_HANDLE a, const DAT_LMR_TRIPLET* b, DAT_MEM_PRIV_FLAGS c, DAT_EP_HANDLE d, DAT_RMR_COOKIE e,
         DAT_COMPLETION_FLAGS f, DAT_RMR_CONTEXT* g),
        (a, b, c, d, e, f, g))
WATCHED(dat_rmr_free, (DAT_RMR_HANDLE a), (a))
WATCHED(dat_psp_create,
        (DAT_IA_HANDLE a, DAT_CONN_QUAL b, DAT_EVD_HANDLE c, DAT_PSP_FLAGS d, DAT_PSP_HANDLE* e),
        (a, b, c, d, e))
WATCHED(dat_psp_create_any,
        (DAT_IA_HANDLE a, DAT_CONN_QUAL* b, DAT_EVD_HANDLE c, DAT_PSP_FLAGS d, DAT_PSP_HANDLE* e),
        (a, b, c, d, e))
WATCHED(dat_psp_query, (DAT_PSP_HANDLE a, DAT_PSP_PARAM_MASK b, DAT_PSP_PARAM* c), (a, b, c))
WATCHED(dat_psp_free, (DAT_PSP_HANDLE a), (a))
WATCHED(dat_rsp_create,
        (DAT_IA_HANDLE a, DAT_CONN_QUAL b, DAT_EP_HANDLE c, DAT_EVD_HANDLE d, DAT_RSP_HANDLE* e),
        (a, b, c, d, e))
WATCHED(dat_rsp_query, (DAT_RSP_HANDLE a, DAT_RSP_PARAM_MASK b, DAT_RSP_PARAM* c), (a, b, c))
WATCHED(dat_rsp_free, (DAT_RSP_HANDLE a), (a))
WATCHED(dat_pz_create, (DAT_IA_HANDLE a, DAT_PZ_HANDLE* b), (a, b))
WATCHED(dat_pz_query, (DAT_PZ_HANDLE a, DAT_PZ_PARAM_MASK b, DAT_PZ_PARAM* c), (a, b, c))
WATCHED(dat_pz_free, (DAT_PZ_HANDLE a), (a))
WATCHED(dat_srq_create, (DAT_IA_HANDLE a, DAT_PZ_HANDLE b, DAT_SRQ_ATTR* c, DAT_SRQ_HANDLE* d), (a, b, c, d))
WATCHED(dat_srq_free, (DAT_SRQ_HANDLE a), (a))
WATCHED(dat_srq_post_recv, (DAT_SRQ_HANDLE a, DAT_COUNT b, DAT_LMR_TRIPLET* c, DAT_DTO_COOKIE d),
        (a, b, c, d))
WATCHED(dat_srq_query, (DAT_SRQ_HANDLE a, DAT_SRQ_PARAM_MASK b, DAT_SRQ_PARAM* c), (a, b, c))
WATCHED(dat_srq_resize, (DAT_SRQ_HANDLE a, DAT_COUNT b), (a, b))
WATCHED(dat_srq_set_lw, (DAT_SRQ_HANDLE a, DAT_COUNT b), (a, b))
WATCHED(dat_ia_query,
        (DAT_IA_HANDLE a, DAT_EVD_HANDLE* b, DAT_IA_ATTR_MASK c, DAT_IA_ATTR* d, DAT_PROVIDER_ATTR_MASK e,
         DAT_PROVIDER_ATTR* f),
        (a, b, c, d, e, f))
WATCHED(dat_lmr_create,
        (DAT_IA_HANDLE a, DAT_MEM_TYPE b, DAT_REGION_DESCRIPTION c, DAT_VLEN d, DAT_PZ_HANDLE e,
         DAT_MEM_PRIV_FLAGS f, DAT_LMR_HANDLE* g, DAT_LMR_CONTEXT* h, DAT_RMR_CONTEXT* i, DAT_VLEN* j,
         DAT_VADDR* k),
        (a, b, c, d, e, f, g, h, i, j, k))
WATCHED(dat_lmr_query, (DAT_LMR_HANDLE a, DAT_LMR_PARAM_MASK b, DAT_LMR_PARAM* c), (a, b, c))
WATCHED(dat_evd_create, (DAT_IA_HANDLE a, DAT_COUNT b, DAT_CNO_HANDLE c, DAT_EVD_FLAGS d, DAT_EVD_HANDLE* e),
        (a, b, c, d, e))
WATCHED(dat_evd_query, (DAT_EVD_HANDLE a, DAT_EVD_PARAM_MASK b, DAT_EVD_PARAM* c), (a, b, c))
WATCHED(dat_evd_modify_cno, (DAT_EVD_HANDLE a, DAT_CNO_HANDLE b), (a, b))
WATCHED(dat_evd_enable, (DAT_EVD_HANDLE a), (a))
WATCHED(dat_evd_disable, (DAT_EVD_HANDLE a), (a))
WATCHED(dat_evd_wait, (DAT_EVD_HANDLE a, DAT_TIMEOUT b, DAT_COUNT c, DAT_EVENT* d, DAT_COUNT* e),
        (a, b, c, d, e))
WATCHED(dat_evd_set_unwaitable, (DAT_EVD_HANDLE a), (a))
WATCHED(dat_evd_clear_unwaitable, (DAT_EVD_HANDLE a), (a))
WATCHED(dat_cno_create, (DAT_IA_HANDLE a, DAT_OS_WAIT_PROXY_AGENT b, DAT_CNO_HANDLE* c), (a, b, c))
WATCHED(dat_cno_modify_agent, (DAT_CNO_HANDLE a, DAT_OS_WAIT_PROXY_AGENT b), (a, b))
WATCHED(dat_cno_query, (DAT_CNO_HANDLE a, DAT_CNO_PARAM_MASK b, DAT_CNO_PARAM* c), (a, b, c))
WATCHED(dat_cno_free, (DAT_CNO_HANDLE a), (a))
WATCHED(dat_cno_wait, (DAT_CNO_HANDLE a, DAT_TIMEOUT b, DAT_EVD_HANDLE* c), (a, b, c))
WATCHED(dat_registry_add_provider, (const DAT_PROVIDER* a, const DAT_PROVIDER_INFO* b), (a, b))
WATCHED(dat_registry_remove_provider, (const DAT_PROVIDER* a, const DAT_PROVIDER_INFO* b), (a, b))
WATCHED(dat_strerror, (DAT_RETURN a, const char** b, const char** c), (a, b, c))

} // extern "C"
