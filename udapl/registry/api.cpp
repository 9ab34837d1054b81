// SPDX-License-Identifier: BSD-3-Clause
//
// The façade of libdat: every function of DAT, in header order. Most check the handle they are about,
// find its provider and call that; what a provider does with the other parameters is its business.
#include <dat/dat_registry.h>
#include <pthread.h>
#include <sluice/dat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "core/facade.hpp"
#include "core/log.hpp"
#include "core/settings.hpp"
#include "core/sync.hpp"
#include "udapl/registry/codes.hpp"
#include "udapl/registry/names.hpp"
#include "udapl/registry/registry.hpp"

namespace {

using sluice::Error;
using sluice::ErrorKind;
using sluice::Result;
using namespace sluice::dat;

constexpr std::string_view kRelaxedOrderingPrefix = "RO_AWARE_";

constinit Redirection redirection;

// Never destroyed: a program may close its IAs as late as in its last destructor.
constinit std::atomic<Registry*> made = nullptr;
constinit sluice::Mutex making; // held across fork()

Registry& make_registry() {
    sluice::warn_about_unknown_settings();
    const sluice::LockGuard guard(making);
    if (made.load(std::memory_order_relaxed) == nullptr) {
        made.store(new Registry(redirection, sluice::FileTree(), secure_getenv("DAT_OVERRIDE")),
                   std::memory_order_release);
    }
    return *made.load(std::memory_order_relaxed);
}

Registry& registry() {
    Registry* const there = made.load(std::memory_order_acquire);
    return there != nullptr ? *there : make_registry();
}

void before_fork() SLUICE_TSA(no_thread_safety_analysis) {
    making.lock();
    if (Registry* const there = made.load(std::memory_order_relaxed)) {
        there->lock_for_fork();
    }
}

void after_fork_in_parent() SLUICE_TSA(no_thread_safety_analysis) {
    if (Registry* const there = made.load(std::memory_order_relaxed)) {
        there->unlock_in_parent();
    }
    making.unlock();
}

void after_fork_in_child() SLUICE_TSA(no_thread_safety_analysis) {
    if (Registry* const there = made.load(std::memory_order_relaxed)) {
        there->unlock_in_child();
    }
    making.unlock();
    Library::renew_turn();
}

[[gnu::constructor]] void look_after_forks() noexcept {
    Library::renew_turn(); // it is there from here on
    if (pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0) {
        SLUICE_LOG(kWarning, "dat", "no memory to look after fork(): a child must not open an IA");
    }
}

// Calls FUNCTION of PROVIDER, if it has one.
template<auto kFunction, typename... Arguments>
DAT_RETURN call(const DAT_PROVIDER& provider, Arguments... arguments) {
    const auto function = provider.*kFunction;
    return function != nullptr ? function(arguments...) : failure(DAT_NOT_IMPLEMENTED);
}

// For handles that aren't our only provider's. Apart, so that those that are need no stack frame.
template<auto kFunction, typename... Arguments>
[[gnu::noinline]] DAT_RETURN redirect_other(DAT_RETURN_SUBTYPE wrong_handle, DAT_HANDLE handle,
                                            Arguments... arguments) {
    const DAT_PROVIDER* const own = redirection.find_own(handle);
    const DAT_PROVIDER* const provider = own != nullptr ? own : redirection.find_foreign(handle);
    return provider != nullptr ? call<kFunction>(*provider, handle, arguments...)
                               : failure(DAT_INVALID_HANDLE, wrong_handle);
}

// Calls FUNCTION of the provider that made HANDLE; the error is WRONG_HANDLE where nobody did. Our own throws
// nothing; to say so here would cost a stack frame to make sure of it.
template<auto kFunction, typename... Arguments>
DAT_RETURN redirect(DAT_RETURN_SUBTYPE wrong_handle, DAT_HANDLE handle, Arguments... arguments) {
    if (const DAT_PROVIDER* const own = redirection.find_usual(handle)) [[likely]] {
        return call<kFunction>(*own, handle, arguments...);
    }
    return redirect_other<kFunction>(wrong_handle, handle, arguments...);
}

// For what is the registry's own: BODY gives a code, or throws when memory is short.
struct Dat : sluice::Facade<Dat> {
    using Code = DAT_RETURN;
    static Code fail(const Error& error, const sluice::Where& /*where*/) noexcept {
        return error.kind() == ErrorKind::kInsufficientResources
                   ? failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY)
                   : failure(DAT_INTERNAL_ERROR);
    }
};

// A name that ends within its limit.
bool is_name(const char* name) noexcept {
    return name != nullptr && strnlen(name, DAT_NAME_MAX_LENGTH) < DAT_NAME_MAX_LENGTH;
}

bool is_boolean(DAT_BOOLEAN value) noexcept {
    return value == DAT_FALSE || value == DAT_TRUE;
}

bool is_provider(const DAT_PROVIDER* provider) noexcept {
    return provider != nullptr && provider->device_name != nullptr && provider->ia_open_func != nullptr &&
           provider->ia_close_func != nullptr;
}

bool is_info(const DAT_PROVIDER_INFO* info) noexcept {
    return info != nullptr && is_name(info->ia_name) && info->ia_name[0] != '\0' &&
           is_boolean(info->is_thread_safe);
}

sluice_dat_entry tell(const StaticEntry& read) noexcept {
    const ConfEntry& entry = read.entry;
    return {.ia_name = entry.ia_name.c_str(),
            .api_major = entry.api_major,
            .api_minor = entry.api_minor,
            .is_thread_safe = entry.is_thread_safe ? 1 : 0,
            .library = entry.library.c_str(),
            .provider_version = entry.provider_version.c_str(),
            .instance_data = entry.instance_data.c_str(),
            .platform = entry.platform.c_str(),
            .file = read.file.c_str(),
            .line = static_cast<unsigned>(read.line),
            .is_entry = read.is_entry ? 1 : 0,
            .problem = read.problem.c_str()};
}

} // namespace

extern "C" {

// <dat/dat.h>

DAT_RETURN dat_ia_openv(DAT_NAME_PTR name, DAT_COUNT async_evd_min_qlen, DAT_EVD_HANDLE* async_evd_handle,
                        DAT_IA_HANDLE* ia_handle, DAT_UINT32 dapl_major, DAT_UINT32 dapl_minor,
                        DAT_BOOLEAN thread_safety) {
    if (!is_name(name)) {
        return wrong_argument(1);
    }
    if (async_evd_handle == nullptr) {
        return wrong_argument(3);
    }
    if (ia_handle == nullptr) {
        return wrong_argument(4);
    }
    if (!is_boolean(thread_safety)) {
        return wrong_argument(7);
    }
    return Dat::answer([&] {
        std::string_view ia_name = name;
        const bool ro_aware = ia_name.starts_with(kRelaxedOrderingPrefix);
        ia_name.remove_prefix(ro_aware ? kRelaxedOrderingPrefix.size() : 0);
        return registry().open({std::string(ia_name), dapl_major, dapl_minor, thread_safety != DAT_FALSE},
                               ro_aware, async_evd_min_qlen, async_evd_handle, ia_handle);
    });
}

DAT_RETURN dat_ia_close(DAT_IA_HANDLE ia_handle, DAT_CLOSE_FLAGS close_flags) {
    return Dat::answer([&] { return registry().close(ia_handle, close_flags); });
}

DAT_RETURN dat_set_consumer_context(DAT_HANDLE dat_handle, DAT_CONTEXT context) {
    return redirect<&DAT_PROVIDER::set_consumer_context_func>(DAT_INVALID_HANDLE1, dat_handle, context);
}

DAT_RETURN dat_get_consumer_context(DAT_HANDLE dat_handle, DAT_CONTEXT* context) {
    return redirect<&DAT_PROVIDER::get_consumer_context_func>(DAT_INVALID_HANDLE1, dat_handle, context);
}

DAT_RETURN dat_get_handle_type(DAT_HANDLE dat_handle, DAT_HANDLE_TYPE* handle_type) {
    return redirect<&DAT_PROVIDER::get_handle_type_func>(DAT_INVALID_HANDLE1, dat_handle, handle_type);
}

DAT_RETURN dat_registry_list_providers(DAT_COUNT max_to_return, DAT_COUNT* number_entries,
                                       DAT_PROVIDER_INFO*(dat_provider_list[])) {
    if (number_entries == nullptr) {
        return wrong_argument(2);
    }
    return Dat::answer([&] {
        const std::vector<Offer> offers = registry().list();
        *number_entries = static_cast<DAT_COUNT>(offers.size());
        if (max_to_return <= 0) {
            return wrong_argument(1);
        }
        const std::size_t count = std::min(offers.size(), static_cast<std::size_t>(max_to_return));
        if (dat_provider_list == nullptr ||
            std::any_of(dat_provider_list, dat_provider_list + count, std::logical_not<>())) {
            return wrong_argument(3);
        }
        if (count < offers.size()) {
            return wrong_argument(1);
        }
        for (std::size_t i = 0; i < count; ++i) {
            *dat_provider_list[i] = offers[i].info();
        }
        return DAT_RETURN{DAT_SUCCESS};
    });
}

DAT_RETURN dat_cr_query(DAT_CR_HANDLE cr_handle, DAT_CR_PARAM_MASK cr_param_mask, DAT_CR_PARAM* cr_param) {
    return redirect<&DAT_PROVIDER::cr_query_func>(DAT_INVALID_HANDLE_CR, cr_handle, cr_param_mask, cr_param);
}

DAT_RETURN dat_cr_accept(DAT_CR_HANDLE cr_handle, DAT_EP_HANDLE ep_handle, DAT_COUNT private_data_size,
                         DAT_PVOID private_data) {
    return redirect<&DAT_PROVIDER::cr_accept_func>(DAT_INVALID_HANDLE_CR, cr_handle, ep_handle,
                                                   private_data_size, private_data);
}

DAT_RETURN dat_cr_reject(DAT_CR_HANDLE cr_handle) {
    return redirect<&DAT_PROVIDER::cr_reject_func>(DAT_INVALID_HANDLE_CR, cr_handle);
}

DAT_RETURN dat_cr_handoff(DAT_CR_HANDLE cr_handle, DAT_CONN_QUAL handoff) {
    return redirect<&DAT_PROVIDER::cr_handoff_func>(DAT_INVALID_HANDLE_CR, cr_handle, handoff);
}

DAT_RETURN dat_evd_resize(DAT_EVD_HANDLE evd_handle, DAT_COUNT evd_min_qlen) {
    return redirect<&DAT_PROVIDER::evd_resize_func>(DAT_INVALID_HANDLE1, evd_handle, evd_min_qlen);
}

DAT_RETURN dat_evd_post_se(DAT_EVD_HANDLE evd_handle, const DAT_EVENT* event) {
    return redirect<&DAT_PROVIDER::evd_post_se_func>(DAT_INVALID_HANDLE1, evd_handle, event);
}

DAT_RETURN dat_evd_dequeue(DAT_EVD_HANDLE evd_handle, DAT_EVENT* event) {
    return redirect<&DAT_PROVIDER::evd_dequeue_func>(DAT_INVALID_HANDLE1, evd_handle, event);
}

DAT_RETURN dat_evd_free(DAT_EVD_HANDLE evd_handle) {
    return redirect<&DAT_PROVIDER::evd_free_func>(DAT_INVALID_HANDLE1, evd_handle);
}

DAT_RETURN dat_ep_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle, DAT_EVD_HANDLE recv_evd_handle,
                         DAT_EVD_HANDLE request_evd_handle, DAT_EVD_HANDLE connect_evd_handle,
                         const DAT_EP_ATTR* ep_attributes, DAT_EP_HANDLE* ep_handle) {
    return redirect<&DAT_PROVIDER::ep_create_func>(DAT_INVALID_HANDLE_IA, ia_handle, pz_handle,
                                                   recv_evd_handle, request_evd_handle, connect_evd_handle,
                                                   ep_attributes, ep_handle);
}

DAT_RETURN dat_ep_create_with_srq(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle,
                                  DAT_EVD_HANDLE recv_evd_handle, DAT_EVD_HANDLE request_evd_handle,
                                  DAT_EVD_HANDLE connect_evd_handle, DAT_SRQ_HANDLE srq_handle,
                                  const DAT_EP_ATTR* ep_attributes, DAT_EP_HANDLE* ep_handle) {
    return redirect<&DAT_PROVIDER::ep_create_with_srq_func>(
        DAT_INVALID_HANDLE_IA, ia_handle, pz_handle, recv_evd_handle, request_evd_handle, connect_evd_handle,
        srq_handle, ep_attributes, ep_handle);
}

DAT_RETURN dat_ep_query(DAT_EP_HANDLE ep_handle, DAT_EP_PARAM_MASK ep_param_mask, DAT_EP_PARAM* ep_param) {
    return redirect<&DAT_PROVIDER::ep_query_func>(DAT_INVALID_HANDLE_EP, ep_handle, ep_param_mask, ep_param);
}

DAT_RETURN dat_ep_modify(DAT_EP_HANDLE ep_handle, DAT_EP_PARAM_MASK ep_param_mask,
                         const DAT_EP_PARAM* ep_param) {
    return redirect<&DAT_PROVIDER::ep_modify_func>(DAT_INVALID_HANDLE_EP, ep_handle, ep_param_mask, ep_param);
}

DAT_RETURN dat_ep_connect(DAT_EP_HANDLE ep_handle, DAT_IA_ADDRESS_PTR remote_ia_address,
                          DAT_CONN_QUAL remote_conn_qual, DAT_TIMEOUT timeout, DAT_COUNT private_data_size,
                          DAT_PVOID private_data, DAT_QOS quality_of_service,
                          DAT_CONNECT_FLAGS connect_flags) {
    return redirect<&DAT_PROVIDER::ep_connect_func>(DAT_INVALID_HANDLE_EP, ep_handle, remote_ia_address,
                                                    remote_conn_qual, timeout, private_data_size,
                                                    private_data, quality_of_service, connect_flags);
}

DAT_RETURN dat_ep_dup_connect(DAT_EP_HANDLE ep_handle, DAT_EP_HANDLE ep_dup_handle, DAT_TIMEOUT timeout,
                              DAT_COUNT private_data_size, DAT_PVOID private_data,
                              DAT_QOS quality_of_service) {
    return redirect<&DAT_PROVIDER::ep_dup_connect_func>(DAT_INVALID_HANDLE_EP, ep_handle, ep_dup_handle,
                                                        timeout, private_data_size, private_data,
                                                        quality_of_service);
}

DAT_RETURN dat_ep_disconnect(DAT_EP_HANDLE ep_handle, DAT_CLOSE_FLAGS close_flags) {
    return redirect<&DAT_PROVIDER::ep_disconnect_func>(DAT_INVALID_HANDLE_EP, ep_handle, close_flags);
}

DAT_RETURN dat_ep_post_send(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, DAT_LMR_TRIPLET* local_iov,
                            DAT_DTO_COOKIE user_cookie, DAT_COMPLETION_FLAGS completion_flags) {
    return redirect<&DAT_PROVIDER::ep_post_send_func>(DAT_INVALID_HANDLE_EP, ep_handle, num_segments,
                                                      local_iov, user_cookie, completion_flags);
}

DAT_RETURN dat_ep_post_recv(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, DAT_LMR_TRIPLET* local_iov,
                            DAT_DTO_COOKIE user_cookie, DAT_COMPLETION_FLAGS completion_flags) {
    return redirect<&DAT_PROVIDER::ep_post_recv_func>(DAT_INVALID_HANDLE_EP, ep_handle, num_segments,
                                                      local_iov, user_cookie, completion_flags);
}

DAT_RETURN dat_ep_post_rdma_read(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, DAT_LMR_TRIPLET* local_iov,
                                 DAT_DTO_COOKIE user_cookie, const DAT_RMR_TRIPLET* remote_buffer,
                                 DAT_COMPLETION_FLAGS completion_flags) {
    return redirect<&DAT_PROVIDER::ep_post_rdma_read_func>(DAT_INVALID_HANDLE_EP, ep_handle, num_segments,
                                                           local_iov, user_cookie, remote_buffer,
                                                           completion_flags);
}

DAT_RETURN dat_ep_post_rdma_write(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, DAT_LMR_TRIPLET* local_iov,
                                  DAT_DTO_COOKIE user_cookie, const DAT_RMR_TRIPLET* remote_buffer,
                                  DAT_COMPLETION_FLAGS completion_flags) {
    return redirect<&DAT_PROVIDER::ep_post_rdma_write_func>(DAT_INVALID_HANDLE_EP, ep_handle, num_segments,
                                                            local_iov, user_cookie, remote_buffer,
                                                            completion_flags);
}

DAT_RETURN dat_ep_get_status(DAT_EP_HANDLE ep_handle, DAT_EP_STATE* ep_state, DAT_BOOLEAN* recv_idle,
                             DAT_BOOLEAN* request_idle) {
    return redirect<&DAT_PROVIDER::ep_get_status_func>(DAT_INVALID_HANDLE_EP, ep_handle, ep_state, recv_idle,
                                                       request_idle);
}

DAT_RETURN dat_ep_free(DAT_EP_HANDLE ep_handle) {
    return redirect<&DAT_PROVIDER::ep_free_func>(DAT_INVALID_HANDLE_EP, ep_handle);
}

DAT_RETURN dat_ep_reset(DAT_EP_HANDLE ep_handle) {
    return redirect<&DAT_PROVIDER::ep_reset_func>(DAT_INVALID_HANDLE_EP, ep_handle);
}

DAT_RETURN dat_ep_recv_query(DAT_EP_HANDLE ep_handle, DAT_COUNT* nbufs_allocated,
                             DAT_COUNT* bufs_alloc_span) {
    return redirect<&DAT_PROVIDER::ep_recv_query_func>(DAT_INVALID_HANDLE_EP, ep_handle, nbufs_allocated,
                                                       bufs_alloc_span);
}

DAT_RETURN dat_ep_set_watermark(DAT_EP_HANDLE ep_handle, DAT_COUNT soft_high_watermark,
                                DAT_COUNT hard_high_watermark) {
    return redirect<&DAT_PROVIDER::ep_set_watermark_func>(DAT_INVALID_HANDLE_EP, ep_handle,
                                                          soft_high_watermark, hard_high_watermark);
}

DAT_RETURN dat_lmr_free(DAT_LMR_HANDLE lmr_handle) {
    return redirect<&DAT_PROVIDER::lmr_free_func>(DAT_INVALID_HANDLE_LMR, lmr_handle);
}

DAT_RETURN dat_lmr_sync_rdma_read(DAT_IA_HANDLE ia_handle, const DAT_LMR_TRIPLET* local_segments,
                                  DAT_VLEN num_segments) {
    return redirect<&DAT_PROVIDER::lmr_sync_rdma_read_func>(DAT_INVALID_HANDLE_IA, ia_handle, local_segments,
                                                            num_segments);
}

DAT_RETURN dat_lmr_sync_rdma_write(DAT_IA_HANDLE ia_handle, const DAT_LMR_TRIPLET* local_segments,
                                   DAT_VLEN num_segments) {
    return redirect<&DAT_PROVIDER::lmr_sync_rdma_write_func>(DAT_INVALID_HANDLE_IA, ia_handle, local_segments,
                                                             num_segments);
}

DAT_RETURN dat_rmr_create(DAT_PZ_HANDLE pz_handle, DAT_RMR_HANDLE* rmr_handle) {
    return redirect<&DAT_PROVIDER::rmr_create_func>(DAT_INVALID_HANDLE_PZ, pz_handle, rmr_handle);
}

DAT_RETURN dat_rmr_query(DAT_RMR_HANDLE rmr_handle, DAT_RMR_PARAM_MASK rmr_param_mask,
                         DAT_RMR_PARAM* rmr_param) {
    return redirect<&DAT_PROVIDER::rmr_query_func>(DAT_INVALID_HANDLE_RMR, rmr_handle, rmr_param_mask,
                                                   rmr_param);
}

DAT_RETURN dat_rmr_bind(DAT_RMR_HANDLE rmr_handle, const DAT_LMR_TRIPLET* lmr_triplet,
                        DAT_MEM_PRIV_FLAGS mem_priv, DAT_EP_HANDLE ep_handle, DAT_RMR_COOKIE user_cookie,
                        DAT_COMPLETION_FLAGS completion_flags, DAT_RMR_CONTEXT* rmr_context) {
    return redirect<&DAT_PROVIDER::rmr_bind_func>(DAT_INVALID_HANDLE_RMR, rmr_handle, lmr_triplet, mem_priv,
                                                  ep_handle, user_cookie, completion_flags, rmr_context);
}

DAT_RETURN dat_rmr_free(DAT_RMR_HANDLE rmr_handle) {
    return redirect<&DAT_PROVIDER::rmr_free_func>(DAT_INVALID_HANDLE_RMR, rmr_handle);
}

DAT_RETURN dat_psp_create(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL conn_qual, DAT_EVD_HANDLE evd_handle,
                          DAT_PSP_FLAGS psp_flags, DAT_PSP_HANDLE* psp_handle) {
    return redirect<&DAT_PROVIDER::psp_create_func>(DAT_INVALID_HANDLE_IA, ia_handle, conn_qual, evd_handle,
                                                    psp_flags, psp_handle);
}

DAT_RETURN dat_psp_create_any(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL* conn_qual, DAT_EVD_HANDLE evd_handle,
                              DAT_PSP_FLAGS psp_flags, DAT_PSP_HANDLE* psp_handle) {
    return redirect<&DAT_PROVIDER::psp_create_any_func>(DAT_INVALID_HANDLE_IA, ia_handle, conn_qual,
                                                        evd_handle, psp_flags, psp_handle);
}

DAT_RETURN dat_psp_query(DAT_PSP_HANDLE psp_handle, DAT_PSP_PARAM_MASK psp_param_mask,
                         DAT_PSP_PARAM* psp_param) {
    return redirect<&DAT_PROVIDER::psp_query_func>(DAT_INVALID_HANDLE_PSP, psp_handle, psp_param_mask,
                                                   psp_param);
}

DAT_RETURN dat_psp_free(DAT_PSP_HANDLE psp_handle) {
    return redirect<&DAT_PROVIDER::psp_free_func>(DAT_INVALID_HANDLE_PSP, psp_handle);
}

DAT_RETURN dat_rsp_create(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL conn_qual, DAT_EP_HANDLE ep_handle,
                          DAT_EVD_HANDLE evd_handle, DAT_RSP_HANDLE* rsp_handle) {
    return redirect<&DAT_PROVIDER::rsp_create_func>(DAT_INVALID_HANDLE_IA, ia_handle, conn_qual, ep_handle,
                                                    evd_handle, rsp_handle);
}

DAT_RETURN dat_rsp_query(DAT_RSP_HANDLE rsp_handle, DAT_RSP_PARAM_MASK rsp_param_mask,
                         DAT_RSP_PARAM* rsp_param) {
    return redirect<&DAT_PROVIDER::rsp_query_func>(DAT_INVALID_HANDLE_RSP, rsp_handle, rsp_param_mask,
                                                   rsp_param);
}

DAT_RETURN dat_rsp_free(DAT_RSP_HANDLE rsp_handle) {
    return redirect<&DAT_PROVIDER::rsp_free_func>(DAT_INVALID_HANDLE_RSP, rsp_handle);
}

DAT_RETURN dat_pz_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE* pz_handle) {
    return redirect<&DAT_PROVIDER::pz_create_func>(DAT_INVALID_HANDLE_IA, ia_handle, pz_handle);
}

DAT_RETURN dat_pz_query(DAT_PZ_HANDLE pz_handle, DAT_PZ_PARAM_MASK pz_param_mask, DAT_PZ_PARAM* pz_param) {
    return redirect<&DAT_PROVIDER::pz_query_func>(DAT_INVALID_HANDLE_PZ, pz_handle, pz_param_mask, pz_param);
}

DAT_RETURN dat_pz_free(DAT_PZ_HANDLE pz_handle) {
    return redirect<&DAT_PROVIDER::pz_free_func>(DAT_INVALID_HANDLE_PZ, pz_handle);
}

DAT_RETURN dat_srq_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle, DAT_SRQ_ATTR* srq_attr,
                          DAT_SRQ_HANDLE* srq_handle) {
    return redirect<&DAT_PROVIDER::srq_create_func>(DAT_INVALID_HANDLE_IA, ia_handle, pz_handle, srq_attr,
                                                    srq_handle);
}

DAT_RETURN dat_srq_free(DAT_SRQ_HANDLE srq_handle) {
    return redirect<&DAT_PROVIDER::srq_free_func>(DAT_INVALID_HANDLE_SRQ, srq_handle);
}

DAT_RETURN dat_srq_post_recv(DAT_SRQ_HANDLE srq_handle, DAT_COUNT num_segments, DAT_LMR_TRIPLET* local_iov,
                             DAT_DTO_COOKIE user_cookie) {
    return redirect<&DAT_PROVIDER::srq_post_recv_func>(DAT_INVALID_HANDLE_SRQ, srq_handle, num_segments,
                                                       local_iov, user_cookie);
}

DAT_RETURN dat_srq_query(DAT_SRQ_HANDLE srq_handle, DAT_SRQ_PARAM_MASK srq_param_mask,
                         DAT_SRQ_PARAM* srq_param) {
    return redirect<&DAT_PROVIDER::srq_query_func>(DAT_INVALID_HANDLE_SRQ, srq_handle, srq_param_mask,
                                                   srq_param);
}

DAT_RETURN dat_srq_resize(DAT_SRQ_HANDLE srq_handle, DAT_COUNT srq_max_recv_dto) {
    return redirect<&DAT_PROVIDER::srq_resize_func>(DAT_INVALID_HANDLE_SRQ, srq_handle, srq_max_recv_dto);
}

DAT_RETURN dat_srq_set_lw(DAT_SRQ_HANDLE srq_handle, DAT_COUNT low_watermark) {
    return redirect<&DAT_PROVIDER::srq_set_lw_func>(DAT_INVALID_HANDLE_SRQ, srq_handle, low_watermark);
}

// <dat/udat.h>

DAT_RETURN dat_ia_query(DAT_IA_HANDLE ia_handle, DAT_EVD_HANDLE* async_evd_handle,
                        DAT_IA_ATTR_MASK ia_attr_mask, DAT_IA_ATTR* ia_attr,
                        DAT_PROVIDER_ATTR_MASK provider_attr_mask, DAT_PROVIDER_ATTR* provider_attr) {
    return redirect<&DAT_PROVIDER::ia_query_func>(DAT_INVALID_HANDLE_IA, ia_handle, async_evd_handle,
                                                  ia_attr_mask, ia_attr, provider_attr_mask, provider_attr);
}

DAT_RETURN dat_lmr_create(DAT_IA_HANDLE ia_handle, DAT_MEM_TYPE mem_type,
                          DAT_REGION_DESCRIPTION region_description, DAT_VLEN length, DAT_PZ_HANDLE pz_handle,
                          DAT_MEM_PRIV_FLAGS privileges, DAT_LMR_HANDLE* lmr_handle,
                          DAT_LMR_CONTEXT* lmr_context, DAT_RMR_CONTEXT* rmr_context,
                          DAT_VLEN* registered_size, DAT_VADDR* registered_address) {
    return redirect<&DAT_PROVIDER::lmr_create_func>(
        DAT_INVALID_HANDLE_IA, ia_handle, mem_type, region_description, length, pz_handle, privileges,
        lmr_handle, lmr_context, rmr_context, registered_size, registered_address);
}

DAT_RETURN dat_lmr_query(DAT_LMR_HANDLE lmr_handle, DAT_LMR_PARAM_MASK lmr_param_mask,
                         DAT_LMR_PARAM* lmr_param) {
    return redirect<&DAT_PROVIDER::lmr_query_func>(DAT_INVALID_HANDLE_LMR, lmr_handle, lmr_param_mask,
                                                   lmr_param);
}

DAT_RETURN dat_evd_create(DAT_IA_HANDLE ia_handle, DAT_COUNT evd_min_qlen, DAT_CNO_HANDLE cno_handle,
                          DAT_EVD_FLAGS evd_flags, DAT_EVD_HANDLE* evd_handle) {
    return redirect<&DAT_PROVIDER::evd_create_func>(DAT_INVALID_HANDLE_IA, ia_handle, evd_min_qlen,
                                                    cno_handle, evd_flags, evd_handle);
}

DAT_RETURN dat_evd_query(DAT_EVD_HANDLE evd_handle, DAT_EVD_PARAM_MASK evd_param_mask,
                         DAT_EVD_PARAM* evd_param) {
    return redirect<&DAT_PROVIDER::evd_query_func>(DAT_INVALID_HANDLE1, evd_handle, evd_param_mask,
                                                   evd_param);
}

DAT_RETURN dat_evd_modify_cno(DAT_EVD_HANDLE evd_handle, DAT_CNO_HANDLE cno_handle) {
    return redirect<&DAT_PROVIDER::evd_modify_cno_func>(DAT_INVALID_HANDLE1, evd_handle, cno_handle);
}

DAT_RETURN dat_evd_enable(DAT_EVD_HANDLE evd_handle) {
    return redirect<&DAT_PROVIDER::evd_enable_func>(DAT_INVALID_HANDLE1, evd_handle);
}

DAT_RETURN dat_evd_disable(DAT_EVD_HANDLE evd_handle) {
    return redirect<&DAT_PROVIDER::evd_disable_func>(DAT_INVALID_HANDLE1, evd_handle);
}

DAT_RETURN dat_evd_wait(DAT_EVD_HANDLE evd_handle, DAT_TIMEOUT timeout, DAT_COUNT threshold, DAT_EVENT* event,
                        DAT_COUNT* nmore) {
    return redirect<&DAT_PROVIDER::evd_wait_func>(DAT_INVALID_HANDLE1, evd_handle, timeout, threshold, event,
                                                  nmore);
}

DAT_RETURN dat_evd_set_unwaitable(DAT_EVD_HANDLE evd_handle) {
    return redirect<&DAT_PROVIDER::evd_set_unwaitable_func>(DAT_INVALID_HANDLE1, evd_handle);
}

DAT_RETURN dat_evd_clear_unwaitable(DAT_EVD_HANDLE evd_handle) {
    return redirect<&DAT_PROVIDER::evd_clear_unwaitable_func>(DAT_INVALID_HANDLE1, evd_handle);
}

DAT_RETURN dat_cno_create(DAT_IA_HANDLE ia_handle, DAT_OS_WAIT_PROXY_AGENT agent,
                          DAT_CNO_HANDLE* cno_handle) {
    return redirect<&DAT_PROVIDER::cno_create_func>(DAT_INVALID_HANDLE_IA, ia_handle, agent, cno_handle);
}

DAT_RETURN dat_cno_modify_agent(DAT_CNO_HANDLE cno_handle, DAT_OS_WAIT_PROXY_AGENT agent) {
    return redirect<&DAT_PROVIDER::cno_modify_agent_func>(DAT_INVALID_HANDLE_CNO, cno_handle, agent);
}

DAT_RETURN dat_cno_query(DAT_CNO_HANDLE cno_handle, DAT_CNO_PARAM_MASK cno_param_mask,
                         DAT_CNO_PARAM* cno_param) {
    return redirect<&DAT_PROVIDER::cno_query_func>(DAT_INVALID_HANDLE_CNO, cno_handle, cno_param_mask,
                                                   cno_param);
}

DAT_RETURN dat_cno_free(DAT_CNO_HANDLE cno_handle) {
    return redirect<&DAT_PROVIDER::cno_free_func>(DAT_INVALID_HANDLE_CNO, cno_handle);
}

DAT_RETURN dat_cno_wait(DAT_CNO_HANDLE cno_handle, DAT_TIMEOUT timeout, DAT_EVD_HANDLE* evd_handle) {
    return redirect<&DAT_PROVIDER::cno_wait_func>(DAT_INVALID_HANDLE_CNO, cno_handle, timeout, evd_handle);
}

// <dat/dat_error.h>

DAT_RETURN dat_strerror(DAT_RETURN value, const char** major_message, const char** minor_message) {
    const char* const type = type_name(value);
    const char* const subtype = subtype_name(value);
    if (type == nullptr || subtype == nullptr) {
        return wrong_argument(1);
    }
    if (major_message == nullptr) {
        return wrong_argument(2);
    }
    if (minor_message == nullptr) {
        return wrong_argument(3);
    }
    *major_message = type;
    *minor_message = subtype;
    return DAT_SUCCESS;
}

// <dat/dat_registry.h>

DAT_RETURN dat_registry_add_provider(const DAT_PROVIDER* provider, const DAT_PROVIDER_INFO* provider_info) {
    if (!is_provider(provider)) {
        return wrong_argument(1);
    }
    if (!is_info(provider_info)) {
        return wrong_argument(2);
    }
    return Dat::answer([&] { return registry().add(provider, Offer::of(*provider_info)); });
}

DAT_RETURN dat_registry_remove_provider(const DAT_PROVIDER* provider,
                                        const DAT_PROVIDER_INFO* provider_info) {
    if (provider == nullptr) {
        return wrong_argument(1);
    }
    if (!is_info(provider_info)) {
        return wrong_argument(2);
    }
    return Dat::answer([&] { return registry().remove(provider, Offer::of(*provider_info)); });
}

// <sluice/dat.h>

int sluice_dat_list_entries(const char* root, sluice_dat_found found, void* context) {
    if (found == nullptr) {
        return EINVAL;
    }
    return sluice::Errno::answer([&]() -> Result<void> {
        const char* const override_path = root == nullptr ? secure_getenv("DAT_OVERRIDE") : nullptr;
        const StaticRegistry all =
            read_static_registry(sluice::FileTree(root == nullptr ? "" : root), override_path);
        for (const StaticEntry& entry : all.all) {
            const sluice_dat_entry told = tell(entry);
            found(context, &told);
        }
        return {};
    });
}

} // extern "C"
