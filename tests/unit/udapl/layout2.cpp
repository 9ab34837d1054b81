// SPDX-License-Identifier: BSD-3-Clause
//
// What DAT 2.0 lays down on a 64-bit machine, as libdat2's headers give it: a wrong line doesn't compile.
#include <dat/dat_ib_extensions.h>
#include <dat/dat_registry.h>

#include <cstddef>

// NOLINTBEGIN(cppcoreguidelines-macro-usage)
#define SIZE(type, bytes) static_assert(sizeof(type) == (bytes), #type);
#define MEMBER(type, member, offset) static_assert(offsetof(type, member) == (offset), #type "::" #member);
#define VALUE(name, value) static_assert((name) == (value), #name);
// NOLINTEND(cppcoreguidelines-macro-usage)

SIZE(DAT_LMR_TRIPLET, 16)
MEMBER(DAT_LMR_TRIPLET, virtual_address, 0)
MEMBER(DAT_LMR_TRIPLET, segment_length, 8)
MEMBER(DAT_LMR_TRIPLET, lmr_context, 12)
SIZE(DAT_RMR_TRIPLET, 16)
MEMBER(DAT_RMR_TRIPLET, virtual_address, 0)
MEMBER(DAT_RMR_TRIPLET, segment_length, 8)
MEMBER(DAT_RMR_TRIPLET, rmr_context, 12)

SIZE(DAT_IA_ATTR, 688)
MEMBER(DAT_IA_ATTR, ia_address_ptr, 528)
MEMBER(DAT_IA_ATTR, max_lmrs, 564)
MEMBER(DAT_IA_ATTR, zb_supported, 644)
MEMBER(DAT_IA_ATTR, extension_supported, 648)
MEMBER(DAT_IA_ATTR, extension_version, 652)
MEMBER(DAT_IA_ATTR, num_vendor_attr, 672)
MEMBER(DAT_IA_ATTR, vendor_attr, 680)

SIZE(DAT_PROVIDER_ATTR, 520)
MEMBER(DAT_PROVIDER_ATTR, is_thread_safe, 288)
MEMBER(DAT_PROVIDER_ATTR, evd_stream_merging_supported, 312)
MEMBER(DAT_PROVIDER_ATTR, srq_supported, 456)
MEMBER(DAT_PROVIDER_ATTR, rdma_read_lmr_rmr_context_exposure, 488)
MEMBER(DAT_PROVIDER_ATTR, num_provider_specific_attr, 508)
MEMBER(DAT_PROVIDER_ATTR, provider_specific_attr, 512)
SIZE(DAT_PROVIDER_INFO, 268)

SIZE(DAT_EP_ATTR, 88)
SIZE(DAT_EP_PARAM, 184)
MEMBER(DAT_EP_PARAM, comm, 12)
MEMBER(DAT_EP_PARAM, ep_attr, 96)
SIZE(DAT_LMR_PARAM, 80)
MEMBER(DAT_LMR_PARAM, va_type, 52)
MEMBER(DAT_LMR_PARAM, rmr_context, 60)
SIZE(DAT_RMR_PARAM, 48)
SIZE(DAT_CNO_PARAM, 32)
SIZE(DAT_CR_PARAM, 40)
SIZE(DAT_PSP_PARAM, 32)
SIZE(DAT_RSP_PARAM, 32)
SIZE(DAT_EVD_PARAM, 32)
SIZE(DAT_SRQ_PARAM, 48)
SIZE(DAT_SRQ_ATTR, 12)

SIZE(DAT_EVENT, 120)
SIZE(DAT_EVENT_DATA, 40)
MEMBER(DAT_EVENT, event_extension_data, 56)
SIZE(DAT_DTO_COMPLETION_EVENT_DATA, 32)
MEMBER(DAT_DTO_COMPLETION_EVENT_DATA, transfered_length, 20)
MEMBER(DAT_DTO_COMPLETION_EVENT_DATA, operation, 24)
MEMBER(DAT_DTO_COMPLETION_EVENT_DATA, rmr_context, 28)
SIZE(DAT_CR_ARRIVAL_EVENT_DATA, 40)
SIZE(DAT_CONNECTION_EVENT_DATA, 24)
SIZE(DAT_ASYNCH_ERROR_EVENT_DATA, 16)
MEMBER(DAT_IB_EXTENSION_EVENT_DATA, immediate, 8)

SIZE(DAT_PROVIDER, 648)
MEMBER(DAT_PROVIDER, lmr_create_func, 312)
MEMBER(DAT_PROVIDER, srq_set_lw_func, 552)
MEMBER(DAT_PROVIDER, csp_create_func, 560)
MEMBER(DAT_PROVIDER, handle_extendedop_func, 640)

VALUE(DAT_INVALID_HANDLE_CSP, 26)
VALUE(DAT_INVALID_HANDLE1, 27)
VALUE(DAT_INVALID_ARG1, 37)
VALUE(DAT_INVALID_STATE_EP_UNCONNECTED, 47)
VALUE(DAT_INVALID_STATE_EP_EVD_CONNECT, 62)
VALUE(DAT_INVALID_STATE_CNO_IN_USE, 67)
VALUE(DAT_INVALID_STATE_EVD_IN_USE, 74)
VALUE(DAT_INVALID_STATE_EVD_ASYNC, 79)
VALUE(DAT_INVALID_STATE_IA_IN_USE, 80)
VALUE(DAT_INVALID_STATE_SRQ_IN_USE, 87)
VALUE(DAT_PRIVILEGES_READ, 89)
VALUE(DAT_INVALID_ADDRESS_UNSUPPORTED, 97)
VALUE(DAT_NAME_NOT_REGISTERED, 100)
