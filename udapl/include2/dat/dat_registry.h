/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What libdat2 and a provider ask of each other: a table of functions, found through the first word of
 * whatever a handle points to, and five functions that one exports for the other.
 */
#ifndef SLUICE_UDAPL_INCLUDE2_DAT_DAT_REGISTRY_H
#define SLUICE_UDAPL_INCLUDE2_DAT_DAT_REGISTRY_H

#include <dat/udat.h>
#include <stdarg.h>

/* DEVICE_NAME is the ia_name that the table is registered under. */
typedef struct dat_provider {
    const char* device_name;
    DAT_PVOID extension; /* the provider's own */

    DAT_RETURN (*ia_open_func)(DAT_NAME_PTR, DAT_COUNT, DAT_EVD_HANDLE*, DAT_IA_HANDLE*);
    DAT_RETURN(*ia_query_func)
    (DAT_IA_HANDLE, DAT_EVD_HANDLE*, DAT_IA_ATTR_MASK, DAT_IA_ATTR*, DAT_PROVIDER_ATTR_MASK,
     DAT_PROVIDER_ATTR*);
    DAT_RETURN (*ia_close_func)(DAT_IA_HANDLE, DAT_CLOSE_FLAGS);
    DAT_RETURN (*set_consumer_context_func)(DAT_HANDLE, DAT_CONTEXT);
    DAT_RETURN (*get_consumer_context_func)(DAT_HANDLE, DAT_CONTEXT*);
    DAT_RETURN (*get_handle_type_func)(DAT_HANDLE, DAT_HANDLE_TYPE*);
    DAT_RETURN (*cno_create_func)(DAT_IA_HANDLE, DAT_OS_WAIT_PROXY_AGENT, DAT_CNO_HANDLE*);
    DAT_RETURN (*cno_modify_agent_func)(DAT_CNO_HANDLE, DAT_OS_WAIT_PROXY_AGENT);
    DAT_RETURN (*cno_query_func)(DAT_CNO_HANDLE, DAT_CNO_PARAM_MASK, DAT_CNO_PARAM*);
    DAT_RETURN (*cno_free_func)(DAT_CNO_HANDLE);
    DAT_RETURN (*cno_wait_func)(DAT_CNO_HANDLE, DAT_TIMEOUT, DAT_EVD_HANDLE*);
    DAT_RETURN (*cr_query_func)(DAT_CR_HANDLE, DAT_CR_PARAM_MASK, DAT_CR_PARAM*);
    DAT_RETURN (*cr_accept_func)(DAT_CR_HANDLE, DAT_EP_HANDLE, DAT_COUNT, DAT_PVOID);
    DAT_RETURN (*cr_reject_func)(DAT_CR_HANDLE, DAT_COUNT, DAT_PVOID);
    DAT_RETURN (*cr_handoff_func)(DAT_CR_HANDLE, DAT_CONN_QUAL);
    DAT_RETURN (*evd_create_func)(DAT_IA_HANDLE, DAT_COUNT, DAT_CNO_HANDLE, DAT_EVD_FLAGS, DAT_EVD_HANDLE*);
    DAT_RETURN (*evd_query_func)(DAT_EVD_HANDLE, DAT_EVD_PARAM_MASK, DAT_EVD_PARAM*);
    DAT_RETURN (*evd_modify_cno_func)(DAT_EVD_HANDLE, DAT_CNO_HANDLE);
    DAT_RETURN (*evd_enable_func)(DAT_EVD_HANDLE);
    DAT_RETURN (*evd_disable_func)(DAT_EVD_HANDLE);
    DAT_RETURN (*evd_wait_func)(DAT_EVD_HANDLE, DAT_TIMEOUT, DAT_COUNT, DAT_EVENT*, DAT_COUNT*);
    DAT_RETURN (*evd_resize_func)(DAT_EVD_HANDLE, DAT_COUNT);
    DAT_RETURN (*evd_post_se_func)(DAT_EVD_HANDLE, const DAT_EVENT*);
    DAT_RETURN (*evd_dequeue_func)(DAT_EVD_HANDLE, DAT_EVENT*);
    DAT_RETURN (*evd_free_func)(DAT_EVD_HANDLE);
    DAT_RETURN(*ep_create_func)
    (DAT_IA_HANDLE, DAT_PZ_HANDLE, DAT_EVD_HANDLE, DAT_EVD_HANDLE, DAT_EVD_HANDLE, const DAT_EP_ATTR*,
     DAT_EP_HANDLE*);
    DAT_RETURN (*ep_query_func)(DAT_EP_HANDLE, DAT_EP_PARAM_MASK, DAT_EP_PARAM*);
    DAT_RETURN (*ep_modify_func)(DAT_EP_HANDLE, DAT_EP_PARAM_MASK, const DAT_EP_PARAM*);
    DAT_RETURN(*ep_connect_func)
    (DAT_EP_HANDLE, DAT_IA_ADDRESS_PTR, DAT_CONN_QUAL, DAT_TIMEOUT, DAT_COUNT, DAT_PVOID, DAT_QOS,
     DAT_CONNECT_FLAGS);
    DAT_RETURN(*ep_dup_connect_func)
    (DAT_EP_HANDLE, DAT_EP_HANDLE, DAT_TIMEOUT, DAT_COUNT, DAT_PVOID, DAT_QOS);
    DAT_RETURN (*ep_disconnect_func)(DAT_EP_HANDLE, DAT_CLOSE_FLAGS);
    DAT_RETURN(*ep_post_send_func)
    (DAT_EP_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET*, DAT_DTO_COOKIE, DAT_COMPLETION_FLAGS);
    DAT_RETURN(*ep_post_recv_func)
    (DAT_EP_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET*, DAT_DTO_COOKIE, DAT_COMPLETION_FLAGS);
    DAT_RETURN(*ep_post_rdma_read_func)
    (DAT_EP_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET*, DAT_DTO_COOKIE, const DAT_RMR_TRIPLET*,
     DAT_COMPLETION_FLAGS);
    DAT_RETURN(*ep_post_rdma_write_func)
    (DAT_EP_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET*, DAT_DTO_COOKIE, const DAT_RMR_TRIPLET*,
     DAT_COMPLETION_FLAGS);
    DAT_RETURN (*ep_get_status_func)(DAT_EP_HANDLE, DAT_EP_STATE*, DAT_BOOLEAN*, DAT_BOOLEAN*);
    DAT_RETURN (*ep_free_func)(DAT_EP_HANDLE);
    DAT_RETURN(*lmr_create_func)
    (DAT_IA_HANDLE, DAT_MEM_TYPE, DAT_REGION_DESCRIPTION, DAT_VLEN, DAT_PZ_HANDLE, DAT_MEM_PRIV_FLAGS,
     DAT_VA_TYPE, DAT_LMR_HANDLE*, DAT_LMR_CONTEXT*, DAT_RMR_CONTEXT*, DAT_VLEN*, DAT_VADDR*);
    DAT_RETURN (*lmr_query_func)(DAT_LMR_HANDLE, DAT_LMR_PARAM_MASK, DAT_LMR_PARAM*);
    DAT_RETURN (*lmr_free_func)(DAT_LMR_HANDLE);
    DAT_RETURN (*rmr_create_func)(DAT_PZ_HANDLE, DAT_RMR_HANDLE*);
    DAT_RETURN (*rmr_query_func)(DAT_RMR_HANDLE, DAT_RMR_PARAM_MASK, DAT_RMR_PARAM*);
    DAT_RETURN(*rmr_bind_func)
    (DAT_RMR_HANDLE, DAT_LMR_HANDLE, const DAT_LMR_TRIPLET*, DAT_MEM_PRIV_FLAGS, DAT_VA_TYPE, DAT_EP_HANDLE,
     DAT_RMR_COOKIE, DAT_COMPLETION_FLAGS, DAT_RMR_CONTEXT*);
    DAT_RETURN (*rmr_free_func)(DAT_RMR_HANDLE);
    DAT_RETURN(*psp_create_func)
    (DAT_IA_HANDLE, DAT_CONN_QUAL, DAT_EVD_HANDLE, DAT_PSP_FLAGS, DAT_PSP_HANDLE*);
    DAT_RETURN (*psp_query_func)(DAT_PSP_HANDLE, DAT_PSP_PARAM_MASK, DAT_PSP_PARAM*);
    DAT_RETURN (*psp_free_func)(DAT_PSP_HANDLE);
    DAT_RETURN(*rsp_create_func)
    (DAT_IA_HANDLE, DAT_CONN_QUAL, DAT_EP_HANDLE, DAT_EVD_HANDLE, DAT_RSP_HANDLE*);
    DAT_RETURN (*rsp_query_func)(DAT_RSP_HANDLE, DAT_RSP_PARAM_MASK, DAT_RSP_PARAM*);
    DAT_RETURN (*rsp_free_func)(DAT_RSP_HANDLE);
    DAT_RETURN (*pz_create_func)(DAT_IA_HANDLE, DAT_PZ_HANDLE*);
    DAT_RETURN (*pz_query_func)(DAT_PZ_HANDLE, DAT_PZ_PARAM_MASK, DAT_PZ_PARAM*);
    DAT_RETURN (*pz_free_func)(DAT_PZ_HANDLE);
    DAT_RETURN(*psp_create_any_func)
    (DAT_IA_HANDLE, DAT_CONN_QUAL*, DAT_EVD_HANDLE, DAT_PSP_FLAGS, DAT_PSP_HANDLE*);
    DAT_RETURN (*ep_reset_func)(DAT_EP_HANDLE);
    DAT_RETURN (*evd_set_unwaitable_func)(DAT_EVD_HANDLE);
    DAT_RETURN (*evd_clear_unwaitable_func)(DAT_EVD_HANDLE);
    DAT_RETURN (*lmr_sync_rdma_read_func)(DAT_IA_HANDLE, const DAT_LMR_TRIPLET*, DAT_VLEN);
    DAT_RETURN (*lmr_sync_rdma_write_func)(DAT_IA_HANDLE, const DAT_LMR_TRIPLET*, DAT_VLEN);
    DAT_RETURN(*ep_create_with_srq_func)
    (DAT_IA_HANDLE, DAT_PZ_HANDLE, DAT_EVD_HANDLE, DAT_EVD_HANDLE, DAT_EVD_HANDLE, DAT_SRQ_HANDLE,
     const DAT_EP_ATTR*, DAT_EP_HANDLE*);
    DAT_RETURN (*ep_recv_query_func)(DAT_EP_HANDLE, DAT_COUNT*, DAT_COUNT*);
    DAT_RETURN (*ep_set_watermark_func)(DAT_EP_HANDLE, DAT_COUNT, DAT_COUNT);
    DAT_RETURN (*srq_create_func)(DAT_IA_HANDLE, DAT_PZ_HANDLE, DAT_SRQ_ATTR*, DAT_SRQ_HANDLE*);
    DAT_RETURN (*srq_free_func)(DAT_SRQ_HANDLE);
    DAT_RETURN (*srq_post_recv_func)(DAT_SRQ_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET*, DAT_DTO_COOKIE);
    DAT_RETURN (*srq_query_func)(DAT_SRQ_HANDLE, DAT_SRQ_PARAM_MASK, DAT_SRQ_PARAM*);
    DAT_RETURN (*srq_resize_func)(DAT_SRQ_HANDLE, DAT_COUNT);
    DAT_RETURN (*srq_set_lw_func)(DAT_SRQ_HANDLE, DAT_COUNT);

    /* New in 2.0. libdat2 has no function that leads to any but the last. */
    DAT_RETURN(*csp_create_func)
    (DAT_IA_HANDLE, DAT_COMM*, DAT_IA_ADDRESS_PTR, DAT_EVD_HANDLE, DAT_CSP_HANDLE*);
    DAT_RETURN (*csp_query_func)(DAT_CSP_HANDLE, DAT_CSP_PARAM_MASK, DAT_CSP_PARAM*);
    DAT_RETURN (*csp_free_func)(DAT_CSP_HANDLE);
    DAT_RETURN(*ep_common_connect_func)
    (DAT_EP_HANDLE, DAT_IA_ADDRESS_PTR, DAT_TIMEOUT, DAT_COUNT, DAT_PVOID);
    DAT_RETURN (*rmr_create_for_ep_func)(DAT_PZ_HANDLE, DAT_RMR_HANDLE*);
    DAT_RETURN(*ep_post_send_with_invalidate_func)
    (DAT_EP_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET*, DAT_DTO_COOKIE, DAT_COMPLETION_FLAGS, DAT_BOOLEAN,
     DAT_RMR_CONTEXT);
    DAT_RETURN(*ep_post_rdma_read_to_rmr_func)
    (DAT_EP_HANDLE, const DAT_RMR_TRIPLET*, DAT_DTO_COOKIE, const DAT_RMR_TRIPLET*, DAT_COMPLETION_FLAGS);
    DAT_RETURN (*cno_fd_create_func)(DAT_IA_HANDLE, DAT_FD*, DAT_CNO_HANDLE*);
    DAT_RETURN (*cno_trigger_func)(DAT_CNO_HANDLE, DAT_EVD_HANDLE*);
    DAT_RETURN (*ia_ha_related_func)(DAT_IA_HANDLE, DAT_NAME_PTR, DAT_BOOLEAN*);
    DAT_RETURN (*handle_extendedop_func)(DAT_HANDLE, int operation, va_list);
} DAT_PROVIDER;

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* libdat2's. PROVIDER stays where it is; PROVIDER_INFO is copied. */
DAT_RETURN dat_registry_add_provider(const DAT_PROVIDER* provider, const DAT_PROVIDER_INFO* provider_info);
DAT_RETURN dat_registry_remove_provider(const DAT_PROVIDER* provider, const DAT_PROVIDER_INFO* provider_info);
/* Programs know an adapter by a small number. From the provider's handle to that, or back. */
DAT_RETURN dats_get_ia_handle(DAT_IA_HANDLE handle, DAT_IA_HANDLE* other);

/* The provider's. INSTANCE_DATA is the seventh field of a line of dat.conf. */
void dat_provider_init(const DAT_PROVIDER_INFO* provider_info, const char* instance_data);
void dat_provider_fini(const DAT_PROVIDER_INFO* provider_info);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
