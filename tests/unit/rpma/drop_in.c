/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Usage: drop_in LIBRARY
 *
 * A C program as it was written for the first librpma, which the numbers are from: it needs these values at
 * compile time, and at run time all 84 functions in the node that its linker has noted.
 */
#include <dlfcn.h>
#include <librpma.h>
#include <stdio.h>

#define must_be(what, value) _Static_assert((long)(what) == (value), #what)

must_be(RPMA_W_WAIT_FOR_COMPLETION, 1);
must_be(RPMA_E_UNKNOWN, -100000);
must_be(RPMA_E_NOSUPP, -100001);
must_be(RPMA_E_PROVIDER, -100002);
must_be(RPMA_E_NOMEM, -100003);
must_be(RPMA_E_INVAL, -100004);
must_be(RPMA_E_NO_COMPLETION, -100005);
must_be(RPMA_E_NO_EVENT, -100006);
must_be(RPMA_E_AGAIN, -100007);
must_be(RPMA_E_SHARED_CHANNEL, -100008);
must_be(RPMA_E_NOT_SHARED_CHNL, -100009);
must_be(RPMA_DEFAULT_TIMEOUT_MS, 1000);
must_be(RPMA_UTIL_IBV_CONTEXT_LOCAL, 0);
must_be(RPMA_UTIL_IBV_CONTEXT_REMOTE, 1);
must_be(RPMA_MR_USAGE_READ_SRC, 1);
must_be(RPMA_MR_USAGE_READ_DST, 2);
must_be(RPMA_MR_USAGE_WRITE_SRC, 4);
must_be(RPMA_MR_USAGE_WRITE_DST, 8);
must_be(RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY, 16);
must_be(RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT, 32);
must_be(RPMA_MR_USAGE_SEND, 64);
must_be(RPMA_MR_USAGE_RECV, 128);
must_be(RPMA_CONN_UNDEFINED, -1);
must_be(RPMA_CONN_ESTABLISHED, 0);
must_be(RPMA_CONN_CLOSED, 1);
must_be(RPMA_CONN_LOST, 2);
must_be(RPMA_CONN_REJECTED, 3);
must_be(RPMA_CONN_UNREACHABLE, 4);
must_be(RPMA_F_COMPLETION_ON_ERROR, 1);
must_be(RPMA_F_COMPLETION_ALWAYS, 3);
must_be(RPMA_ATOMIC_WRITE_ALIGNMENT, 8);
must_be(RPMA_FLUSH_TYPE_PERSISTENT, 0);
must_be(RPMA_FLUSH_TYPE_VISIBILITY, 1);
must_be(RPMA_LOG_DISABLED, -1);
must_be(RPMA_LOG_LEVEL_FATAL, 0);
must_be(RPMA_LOG_LEVEL_ERROR, 1);
must_be(RPMA_LOG_LEVEL_WARNING, 2);
must_be(RPMA_LOG_LEVEL_NOTICE, 3);
must_be(RPMA_LOG_LEVEL_INFO, 4);
must_be(RPMA_LOG_LEVEL_DEBUG, 5);
must_be(RPMA_LOG_THRESHOLD, 0);
must_be(RPMA_LOG_THRESHOLD_AUX, 1);
must_be(RPMA_LOG_THRESHOLD_MAX, 2);
must_be(sizeof(struct rpma_conn_private_data), 16);
must_be(offsetof(struct rpma_conn_private_data, ptr), 0);
must_be(offsetof(struct rpma_conn_private_data, len), 8);

/* The functions as the first librpma's programs call them. */
static const char* const kFunctions[] = {
    "rpma_atomic_write",
    "rpma_conn_apply_remote_peer_cfg",
    "rpma_conn_cfg_delete",
    "rpma_conn_cfg_get_compl_channel",
    "rpma_conn_cfg_get_cq_size",
    "rpma_conn_cfg_get_rcq_size",
    "rpma_conn_cfg_get_rq_size",
    "rpma_conn_cfg_get_sq_size",
    "rpma_conn_cfg_get_srq",
    "rpma_conn_cfg_get_timeout",
    "rpma_conn_cfg_new",
    "rpma_conn_cfg_set_compl_channel",
    "rpma_conn_cfg_set_cq_size",
    "rpma_conn_cfg_set_rcq_size",
    "rpma_conn_cfg_set_rq_size",
    "rpma_conn_cfg_set_sq_size",
    "rpma_conn_cfg_set_srq",
    "rpma_conn_cfg_set_timeout",
    "rpma_conn_delete",
    "rpma_conn_disconnect",
    "rpma_conn_get_compl_fd",
    "rpma_conn_get_cq",
    "rpma_conn_get_event_fd",
    "rpma_conn_get_private_data",
    "rpma_conn_get_qp_num",
    "rpma_conn_get_rcq",
    "rpma_conn_next_event",
    "rpma_conn_req_connect",
    "rpma_conn_req_delete",
    "rpma_conn_req_get_private_data",
    "rpma_conn_req_new",
    "rpma_conn_req_recv",
    "rpma_conn_wait",
    "rpma_cq_get_fd",
    "rpma_cq_get_wc",
    "rpma_cq_wait",
    "rpma_ep_get_fd",
    "rpma_ep_listen",
    "rpma_ep_next_conn_req",
    "rpma_ep_shutdown",
    "rpma_err_2str",
    "rpma_flush",
    "rpma_log_get_threshold",
    "rpma_log_set_function",
    "rpma_log_set_threshold",
    "rpma_mr_advise",
    "rpma_mr_dereg",
    "rpma_mr_get_descriptor",
    "rpma_mr_get_descriptor_size",
    "rpma_mr_get_ptr",
    "rpma_mr_get_size",
    "rpma_mr_reg",
    "rpma_mr_remote_delete",
    "rpma_mr_remote_from_descriptor",
    "rpma_mr_remote_get_flush_type",
    "rpma_mr_remote_get_size",
    "rpma_peer_cfg_delete",
    "rpma_peer_cfg_from_descriptor",
    "rpma_peer_cfg_get_descriptor",
    "rpma_peer_cfg_get_descriptor_size",
    "rpma_peer_cfg_get_direct_write_to_pmem",
    "rpma_peer_cfg_new",
    "rpma_peer_cfg_set_direct_write_to_pmem",
    "rpma_peer_delete",
    "rpma_peer_new",
    "rpma_read",
    "rpma_recv",
    "rpma_send",
    "rpma_send_with_imm",
    "rpma_srq_cfg_delete",
    "rpma_srq_cfg_get_rcq_size",
    "rpma_srq_cfg_get_rq_size",
    "rpma_srq_cfg_new",
    "rpma_srq_cfg_set_rcq_size",
    "rpma_srq_cfg_set_rq_size",
    "rpma_srq_delete",
    "rpma_srq_get_rcq",
    "rpma_srq_new",
    "rpma_srq_recv",
    "rpma_utils_conn_event_2str",
    "rpma_utils_get_ibv_context",
    "rpma_utils_ibv_context_is_odp_capable",
    "rpma_write",
    "rpma_write_with_imm",
};

int main(int argc, char** argv) {
    void* library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library == NULL) {
        fprintf(stderr, "FAILED: %s\n", argc == 2 ? dlerror() : "which library?");
        return 1;
    }
    int missing = 0;
    const size_t count = sizeof kFunctions / sizeof kFunctions[0];
    for (size_t i = 0; i < count; ++i) {
        if (dlvsym(library, kFunctions[i], "LIBRPMA_1.0") == NULL) {
            fprintf(stderr, "FAILED: %s\n", dlerror());
            ++missing;
        }
    }
    if (count != 84) {
        fprintf(stderr, "FAILED: %zu functions instead of 84\n", count);
        return 1;
    }
    return missing == 0 ? 0 : 1;
}
