/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table holds for C programs: a wrong line doesn't compile.
 */
#include <dat/dat_registry.h>
#include <stddef.h>

/* C99 has no static assertion; an array of -1 bytes is as good, declared again and again. */
#define CHECK(condition) extern char all_holds[(condition) ? 1 : -1];
#define SIZE(type, bytes) CHECK(sizeof(type) == (bytes))
#define MEMBER(type, member, offset) CHECK(offsetof(type, member) == (offset))
#define VALUE(name, value) CHECK((name) == (value))
#include "tests/unit/udapl/layout_table.h"

/* Names of tags, which programs use too. */
SIZE(struct dat_lmr_triplet, 24)
SIZE(struct dat_provider_attr, 504)
SIZE(union dat_event_data, 32)
SIZE(struct dat_os_wait_proxy_agent, 16)
SIZE(enum dat_mem_type, 4)
SIZE(enum ia_async_error_reason, 4)
SIZE(enum ep_async_error_reason, 4)
SIZE(enum ep_evd_error_reason, 4)
SIZE(enum ep_srq_error_reason, 4)
SIZE(enum lmr_async_error_reason, 4)
SIZE(enum rmr_async_error_reason, 4)
SIZE(enum pz_async_error_reason, 4)

/* What programs write that isn't a number. */
DAT_RETURN written_as_on_solaris(IN DAT_IA_HANDLE ia, OUT DAT_CNO_HANDLE* cno, INOUT DAT_EVENT* event);

DAT_RETURN written_as_on_solaris(IN DAT_IA_HANDLE ia, OUT DAT_CNO_HANDLE* cno, INOUT DAT_EVENT* event) {
    static char cookie[DAT_LMR_COOKIE_SIZE];
    DAT_OS_WAIT_PROXY_AGENT agent = DAT_OS_WAIT_PROXY_AGENT_NULL;
    DAT_MEM_TYPE x = DAT_MEM_TYPE_SO_VIRTUAL;
    DAT_LMR_TRIPLET lmr;
    DAT_RMR_TRIPLET rmr;
    DAT_REGION_DESCRIPTION region;
    DAT_NAME_PTR name = NULL;
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    DAT_RETURN status = dat_ia_open(name, 8, &evd, &ia);

    lmr.pad = 0;
    rmr.pad = 0;
    region.for_shared_memory.shared_memory_id = &cookie;
    event->event_data.dto_completion_event_data.transfered_length = lmr.pad + rmr.pad;
    if (DAT_GET_TYPE(status) == DAT_INSUFFICIENT_RESOURCES || DAT_IS_WARNING(status) ||
        evd == DAT_EVD_OUT_OF_SCOPE) {
        return DAT_GET_SUBTYPE(status);
    }
    status = dat_lmr_create(ia, x, region, 40, DAT_HANDLE_NULL,
                            DAT_MEM_PRIV_READ_FLAG | DAT_MEM_PRIV_WRITE_FLAG, NULL, NULL, NULL, NULL, NULL);
    return status == DAT_SUCCESS ? DAT_CNO_MODIFY_AGENT(*cno, agent) : dat_cno_create(ia, agent, cno);
}
