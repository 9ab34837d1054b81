/* SPDX-License-Identifier: BSD-3-Clause */
/* A program for librpma, on the device that the environment's TEST_ADDRESS names. */
#include <librpma.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    struct ibv_context* context = NULL;
    struct rpma_peer* peer = NULL;
    int code = rpma_utils_get_ibv_context(getenv("TEST_ADDRESS"), RPMA_UTIL_IBV_CONTEXT_LOCAL, &context);
    if (code == 0) {
        code = rpma_peer_new(context, &peer);
    }
    printf("%s\n", rpma_err_2str(code));
    return rpma_peer_delete(&peer) == 0 ? 0 : 1;
}
