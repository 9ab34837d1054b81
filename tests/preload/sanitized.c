// SPDX-License-Identifier: BSD-3-Clause
//
// Usage: sanitized [overflow|heap]
//
// Built with gcc's AddressSanitizer: registers memory with the first device and gives it back. "overflow":
// and writes behind it, which ends the program. "heap": takes memory and gives it back, without a device.
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 4096

static int use(struct ibv_context* context, char* memory) {
    struct ibv_pd* pd = ibv_alloc_pd(context);
    struct ibv_mr* mr = pd != NULL ? ibv_reg_mr(pd, memory, SIZE, IBV_ACCESS_LOCAL_WRITE) : NULL;
    return mr != NULL && ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(pd) == 0;
}

static int use_first_device(char* memory) {
    int devices = 0;
    struct ibv_device** list = ibv_get_device_list(&devices);
    struct ibv_context* context = list != NULL && devices > 0 ? ibv_open_device(list[0]) : NULL;
    const int worked = context != NULL && use(context, memory);
    if (worked) {
        printf("registered with %s\n", ibv_get_device_name(list[0]));
        ibv_close_device(context);
        ibv_free_device_list(list);
    }
    return worked;
}

int main(int argc, char** argv) {
    const char* mode = argc > 1 ? argv[1] : "";
    const volatile size_t end = SIZE;
    char* memory = malloc(SIZE);
    const int worked = memory != NULL && (strcmp(mode, "heap") == 0 || use_first_device(memory));
    if (worked && strcmp(mode, "overflow") == 0) {
        memory[end] = 1;
    }
    free(memory);
    return worked ? 0 : 1;
}
