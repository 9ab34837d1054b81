/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DAT 1.2 for user space (uDAPL): the one header that a program includes, with -ldat.
 *
 * Shared with the kernel's variant of the API is <dat/dat.h>; what exists in user space only stands
 * here. A word in capitals in these comments is a parameter. Every function returns a DAT_RETURN;
 * dat_error.h tells how to read it. Parameters that a call fills are written on success only.
 */
#ifndef _UDAT_H_ /* NOLINT: programs know this name */
#define _UDAT_H_ /* NOLINT */

#include <dat/dat_platform_specific.h>
#include <dat/udat_config.h>

/* How a memory region is described; see dat_lmr_create(). */
typedef enum dat_mem_type DAT_ENUM_BASE {
    DAT_MEM_TYPE_VIRTUAL = 0,        /* a range of this process's addresses */
    DAT_MEM_TYPE_LMR = 1,            /* the memory of another region */
    DAT_MEM_TYPE_SHARED_VIRTUAL = 2, /* memory that processes share and name with a cookie */
    DAT_MEM_TYPE_SO_VIRTUAL = 3      /* as VIRTUAL, and the device may not reorder its writes */
} DAT_MEM_TYPE;

typedef enum dat_handle_type DAT_ENUM_BASE {
    DAT_HANDLE_TYPE_CR = 0,
    DAT_HANDLE_TYPE_EP = 1,
    DAT_HANDLE_TYPE_EVD = 2,
    DAT_HANDLE_TYPE_IA = 3,
    DAT_HANDLE_TYPE_LMR = 4,
    DAT_HANDLE_TYPE_PSP = 5,
    DAT_HANDLE_TYPE_PZ = 6,
    DAT_HANDLE_TYPE_RMR = 7,
    DAT_HANDLE_TYPE_RSP = 8,
    DAT_HANDLE_TYPE_CNO = 9,
    DAT_HANDLE_TYPE_SRQ = 10
} DAT_HANDLE_TYPE;

/* Three conditions of an event dispatcher, one bit or pair of bits for each. */
typedef enum dat_evd_state DAT_ENUM_BASE {
    DAT_EVD_STATE_ENABLED = 0x01,
    DAT_EVD_STATE_DISABLED = 0x02,
    DAT_EVD_STATE_WAITABLE = 0x04,
    DAT_EVD_STATE_UNWAITABLE = 0x08,
    DAT_EVD_STATE_CONFIG_NOTIFY = 0x10,
    DAT_EVD_STATE_CONFIG_SOLICITED = 0x20,
    DAT_EVD_STATE_CONFIG_THRESHOLD = 0x30
} DAT_EVD_STATE;

typedef enum dat_evd_param_mask DAT_ENUM_BASE {
    DAT_EVD_FIELD_IA_HANDLE = 0x01,
    DAT_EVD_FIELD_EVD_QLEN = 0x02,
    DAT_EVD_FIELD_EVD_STATE = 0x04,
    DAT_EVD_FIELD_CNO = 0x08,
    DAT_EVD_FIELD_EVD_FLAGS = 0x10,
    DAT_EVD_FIELD_ALL = 0x1f
} DAT_EVD_PARAM_MASK;

/* Bits DAT_PROVIDER_FIELD_*, below. */
typedef DAT_UINT64 DAT_PROVIDER_ATTR_MASK;

#include <dat/dat.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef DAT_HANDLE DAT_CNO_HANDLE;

/*
 * The agent that a consumer notification object (CNO) calls when it is triggered: FUNC with
 * INSTANCE_DATA and the event dispatcher that triggered it.
 */
typedef void (*DAT_AGENT_FUNC)(DAT_PVOID instance_data, DAT_EVD_HANDLE evd_handle);

typedef struct dat_os_wait_proxy_agent {
    DAT_PVOID instance_data;
    DAT_AGENT_FUNC proxy_agent_func;
} DAT_OS_WAIT_PROXY_AGENT;

/* No agent. */
#ifdef __cplusplus
#define DAT_OS_WAIT_PROXY_AGENT_NULL (DAT_OS_WAIT_PROXY_AGENT())
#else
#define DAT_OS_WAIT_PROXY_AGENT_NULL ((DAT_OS_WAIT_PROXY_AGENT){NULL, NULL})
#endif

/* The name that processes give to memory they share: 40 bytes, of which every one counts. */
#define DAT_LMR_COOKIE_SIZE 40
typedef char (*DAT_LMR_COOKIE)[DAT_LMR_COOKIE_SIZE];

typedef struct dat_shared_memory {
    DAT_PVOID virtual_address;
    DAT_LMR_COOKIE shared_memory_id;
} DAT_SHARED_MEMORY;

/* Which member holds is told by a DAT_MEM_TYPE. */
typedef union dat_region_description {
    DAT_PVOID for_va;
    DAT_LMR_HANDLE for_lmr_handle;
    DAT_SHARED_MEMORY for_shared_memory;
} DAT_REGION_DESCRIPTION;

typedef struct dat_lmr_param {
    DAT_IA_HANDLE ia_handle;
    DAT_MEM_TYPE mem_type;
    DAT_REGION_DESCRIPTION region_desc;
    DAT_VLEN length;
    DAT_PZ_HANDLE pz_handle;
    DAT_MEM_PRIV_FLAGS mem_priv;
    DAT_LMR_CONTEXT lmr_context;
    DAT_RMR_CONTEXT rmr_context;
    DAT_VLEN registered_size;
    DAT_VADDR registered_address;
} DAT_LMR_PARAM;

typedef struct dat_evd_param {
    DAT_IA_HANDLE ia_handle;
    DAT_COUNT evd_qlen;
    DAT_EVD_STATE evd_state;
    DAT_CNO_HANDLE cno_handle;
    DAT_EVD_FLAGS evd_flags;
} DAT_EVD_PARAM;

typedef enum dat_cno_param_mask DAT_ENUM_BASE {
    DAT_CNO_FIELD_IA_HANDLE = 0x1,
    DAT_CNO_FIELD_AGENT = 0x2,
    DAT_CNO_FIELD_ALL = 0x3
} DAT_CNO_PARAM_MASK;

typedef struct dat_cno_param {
    DAT_IA_HANDLE ia_handle;
    DAT_OS_WAIT_PROXY_AGENT agent;
} DAT_CNO_PARAM;

/*
 * What a provider can do. In the matrix, row and column are event streams: 0 software, 1 connection
 * request, 2 data transfer, 3 connection, 4 RMR bind, 5 asynchronous error; DAT_TRUE where one event
 * dispatcher may take both.
 */
typedef struct dat_provider_attr {
    char provider_name[DAT_NAME_MAX_LENGTH];
    DAT_UINT32 provider_version_major;
    DAT_UINT32 provider_version_minor;
    DAT_UINT32 dapl_version_major;
    DAT_UINT32 dapl_version_minor;
    DAT_MEM_TYPE lmr_mem_types_supported;
    DAT_IOV_OWNERSHIP iov_ownership_on_return;
    DAT_QOS dat_qos_supported;
    DAT_COMPLETION_FLAGS completion_flags_supported;
    DAT_BOOLEAN is_thread_safe;
    DAT_COUNT max_private_data_size;
    DAT_BOOLEAN supports_multipath;
    DAT_EP_CREATOR_FOR_PSP ep_creator;
    DAT_PZ_SUPPORT pz_support;
    DAT_UINT32 optimal_buffer_alignment;
#ifdef __cplusplus
    /* Without const, so that C++ may make such an object. */
    DAT_BOOLEAN evd_stream_merging_supported[6][6];
#else
    const DAT_BOOLEAN evd_stream_merging_supported[6][6];
#endif
    DAT_BOOLEAN srq_supported;
    DAT_COUNT srq_watermarks_supported; /* 0x001 low, 0x010 soft high, 0x100 hard high */
    DAT_BOOLEAN srq_ep_pz_difference_supported;
    DAT_COUNT srq_info_supported;     /* 0x01 available, 0x10 outstanding */
    DAT_COUNT ep_recv_info_supported; /* 0x01 buffers, 0x10 span */
    DAT_BOOLEAN lmr_sync_req;         /* the dat_lmr_sync_rdma_* calls must be made */
    DAT_BOOLEAN dto_async_return_guaranteed;
    DAT_BOOLEAN rdma_write_for_rdma_read_req;
    DAT_COUNT num_provider_specific_attr;
    DAT_NAMED_ATTR* provider_specific_attr;
} DAT_PROVIDER_ATTR;

/* Bit n is the n-th member of DAT_PROVIDER_ATTR. */
#define DAT_PROVIDER_FIELD_PROVIDER_NAME UINT64_C(0x0000001)
#define DAT_PROVIDER_FIELD_PROVIDER_VERSION_MAJOR UINT64_C(0x0000002)
#define DAT_PROVIDER_FIELD_PROVIDER_VERSION_MINOR UINT64_C(0x0000004)
#define DAT_PROVIDER_FIELD_DAPL_VERSION_MAJOR UINT64_C(0x0000008)
#define DAT_PROVIDER_FIELD_DAPL_VERSION_MINOR UINT64_C(0x0000010)
#define DAT_PROVIDER_FIELD_LMR_MEM_TYPE_SUPPORTED UINT64_C(0x0000020)
#define DAT_PROVIDER_FIELD_IOV_OWNERSHIP UINT64_C(0x0000040)
#define DAT_PROVIDER_FIELD_DAT_QOS_SUPPORTED UINT64_C(0x0000080)
#define DAT_PROVIDER_FIELD_COMPLETION_FLAGS_SUPPORTED UINT64_C(0x0000100)
#define DAT_PROVIDER_FIELD_IS_THREAD_SAFE UINT64_C(0x0000200)
#define DAT_PROVIDER_FIELD_MAX_PRIVATE_DATA_SIZE UINT64_C(0x0000400)
#define DAT_PROVIDER_FIELD_SUPPORTS_MULTIPATH UINT64_C(0x0000800)
#define DAT_PROVIDER_FIELD_EP_CREATOR UINT64_C(0x0001000)
#define DAT_PROVIDER_FIELD_PZ_SUPPORT UINT64_C(0x0002000)
#define DAT_PROVIDER_FIELD_OPTIMAL_BUFFER_ALIGNMENT UINT64_C(0x0004000)
#define DAT_PROVIDER_FIELD_EVD_STREAM_MERGING_SUPPORTED UINT64_C(0x0008000)
#define DAT_PROVIDER_FIELD_SRQ_SUPPORTED UINT64_C(0x0010000)
#define DAT_PROVIDER_FIELD_SRQ_WATERMARKS_SUPPORTED UINT64_C(0x0020000)
#define DAT_PROVIDER_FIELD_SRQ_EP_PZ_DIFFERENCE_SUPPORTED UINT64_C(0x0040000)
#define DAT_PROVIDER_FIELD_SRQ_INFO_SUPPORTED UINT64_C(0x0080000)
#define DAT_PROVIDER_FIELD_EP_RECV_INFO_SUPPORTED UINT64_C(0x0100000)
#define DAT_PROVIDER_FIELD_LMR_SYNC_REQ UINT64_C(0x0200000)
#define DAT_PROVIDER_FIELD_DTO_ASYNC_RETURN_GUARANTEED UINT64_C(0x0400000)
#define DAT_PROVIDER_FIELD_RDMA_WRITE_FOR_RDMA_READ_REQ UINT64_C(0x0800000)
#define DAT_PROVIDER_FIELD_NUM_PROVIDER_SPECIFIC_ATTR UINT64_C(0x1000000)
#define DAT_PROVIDER_FIELD_PROVIDER_SPECIFIC_ATTR UINT64_C(0x2000000)
#define DAT_PROVIDER_FIELD_ALL UINT64_C(0x3ffffff)
#define DAT_PROVIDER_FIELD_NONE UINT64_C(0x0)

/* For *ASYNC_EVD_HANDLE of dat_ia_open(): the IA shall have no such dispatcher. */
#define DAT_EVD_ASYNC_EXISTS ((DAT_EVD_HANDLE)0x1)
/* What dat_ia_open() and dat_ia_query() answer then. */
#define DAT_EVD_OUT_OF_SCOPE ((DAT_EVD_HANDLE)0x2)

#include <dat/udat_vendor_specific.h>

/*
 * Fills what the masks name; a structure may be NULL when its mask is 0. *ASYNC_EVD_HANDLE becomes
 * the dispatcher of asynchronous errors, or DAT_EVD_OUT_OF_SCOPE; ASYNC_EVD_HANDLE may be NULL.
 */
DAT_RETURN dat_ia_query(DAT_IA_HANDLE ia_handle, DAT_EVD_HANDLE* async_evd_handle,
                        DAT_IA_ATTR_MASK ia_attr_mask, DAT_IA_ATTR* ia_attr,
                        DAT_PROVIDER_ATTR_MASK provider_attr_mask, DAT_PROVIDER_ATTR* provider_attr);

/*
 * Registers memory, so that the device may use it. What REGION_DESCRIPTION holds is told by
 * MEM_TYPE; for DAT_MEM_TYPE_LMR, LENGTH is not looked at. *RMR_CONTEXT is 0 unless PRIVILEGES let a
 * peer in. Each of the last five parameters may be NULL.
 */
DAT_RETURN dat_lmr_create(DAT_IA_HANDLE ia_handle, DAT_MEM_TYPE mem_type,
                          DAT_REGION_DESCRIPTION region_description, DAT_VLEN length, DAT_PZ_HANDLE pz_handle,
                          DAT_MEM_PRIV_FLAGS privileges, DAT_LMR_HANDLE* lmr_handle,
                          DAT_LMR_CONTEXT* lmr_context, DAT_RMR_CONTEXT* rmr_context,
                          DAT_VLEN* registered_size, DAT_VADDR* registered_address);

DAT_RETURN dat_lmr_query(DAT_LMR_HANDLE lmr_handle, DAT_LMR_PARAM_MASK lmr_param_mask,
                         DAT_LMR_PARAM* lmr_param);

/*
 * Event dispatchers (EVD). EVD_FLAGS are the streams of events that the dispatcher takes; CNO_HANDLE
 * may be DAT_HANDLE_NULL. It is enabled and waitable at first.
 */
DAT_RETURN dat_evd_create(DAT_IA_HANDLE ia_handle, DAT_COUNT evd_min_qlen, DAT_CNO_HANDLE cno_handle,
                          DAT_EVD_FLAGS evd_flags, DAT_EVD_HANDLE* evd_handle);
DAT_RETURN dat_evd_query(DAT_EVD_HANDLE evd_handle, DAT_EVD_PARAM_MASK evd_param_mask,
                         DAT_EVD_PARAM* evd_param);
DAT_RETURN dat_evd_modify_cno(DAT_EVD_HANDLE evd_handle, DAT_CNO_HANDLE cno_handle);

/* While a dispatcher is disabled it doesn't trigger its CNO; waiters see no difference. */
DAT_RETURN dat_evd_enable(DAT_EVD_HANDLE evd_handle);
DAT_RETURN dat_evd_disable(DAT_EVD_HANDLE evd_handle);

/*
 * Waits until THRESHOLD events are there, or TIMEOUT microseconds are over, and takes one. *NMORE is
 * how many are left. One thread at a time.
 */
DAT_RETURN dat_evd_wait(DAT_EVD_HANDLE evd_handle, DAT_TIMEOUT timeout, DAT_COUNT threshold, DAT_EVENT* event,
                        DAT_COUNT* nmore);

/* An unwaitable dispatcher answers every waiter with DAT_INVALID_STATE. */
DAT_RETURN dat_evd_set_unwaitable(DAT_EVD_HANDLE evd_handle);
DAT_RETURN dat_evd_clear_unwaitable(DAT_EVD_HANDLE evd_handle);

/* Consumer notification objects (CNO): one wait, or one agent, for many dispatchers. */
DAT_RETURN dat_cno_create(DAT_IA_HANDLE ia_handle, DAT_OS_WAIT_PROXY_AGENT agent, DAT_CNO_HANDLE* cno_handle);
DAT_RETURN dat_cno_modify_agent(DAT_CNO_HANDLE cno_handle, DAT_OS_WAIT_PROXY_AGENT agent);
DAT_RETURN dat_cno_query(DAT_CNO_HANDLE cno_handle, DAT_CNO_PARAM_MASK cno_param_mask,
                         DAT_CNO_PARAM* cno_param);
DAT_RETURN dat_cno_free(DAT_CNO_HANDLE cno_handle);
/* DAT_QUEUE_EMPTY when TIMEOUT is over. *EVD_HANDLE is a hint: it may be drained already. */
DAT_RETURN dat_cno_wait(DAT_CNO_HANDLE cno_handle, DAT_TIMEOUT timeout, DAT_EVD_HANDLE* evd_handle);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
