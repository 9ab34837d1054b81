/* SPDX-License-Identifier: BSD-3-Clause */
/* A program for librpma: on a device that every machine has. */
#include <librpma.h>
#include <stdio.h>

int main(void) {
    struct ibv_context* context = NULL;
    struct rpma_peer* peer = NULL;
    int code = rpma_utils_get_ibv_context("127.83.76.1", RPMA_UTIL_IBV_CONTEXT_LOCAL, &context);
    if (code == 0) {
        code = rpma_peer_new(context, &peer);
    }
    printf("%s\n", rpma_err_2str(code));
    return rpma_peer_delete(&peer) == 0 ? 0 : 1;
}
