/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Usage: inline_bytes DEVICE BYTES
 *
 * Makes a queue pair of one request with one segment and BYTES in itself. "refused", and 1, if that isn't to
 * be had.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ibv_context* open_device(const char* name) {
    int count = 0;
    struct ibv_context* context = NULL;
    struct ibv_device** devices = ibv_get_device_list(&count);
    for (int i = 0; i < count && context == NULL; ++i) {
        if (strcmp(ibv_get_device_name(devices[i]), name) == 0) {
            context = ibv_open_device(devices[i]);
        }
    }
    ibv_free_device_list(devices);
    return context;
}

int main(int argc, char** argv) {
    struct ibv_context* context = argc == 3 ? open_device(argv[1]) : NULL;
    struct ibv_pd* domain = context != NULL ? ibv_alloc_pd(context) : NULL;
    struct ibv_cq* queue = context != NULL ? ibv_create_cq(context, 1, NULL, NULL, 0) : NULL;
    if (domain == NULL || queue == NULL) {
        fprintf(stderr, "usage: %s DEVICE BYTES, or the device can't be used\n", argv[0]);
        return 2;
    }
    const unsigned bytes = (unsigned)strtoul(argv[2], NULL, 10);
    struct ibv_qp_init_attr wanted = {
        .send_cq = queue, .recv_cq = queue, .qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, bytes}};
    struct ibv_qp* made = ibv_create_qp(domain, &wanted);
    if (made == NULL || wanted.cap.max_inline_data < bytes) {
        puts("refused");
        return 1;
    }
    ibv_destroy_qp(made);
    ibv_destroy_cq(queue);
    ibv_dealloc_pd(domain);
    ibv_close_device(context);
    return 0;
}
