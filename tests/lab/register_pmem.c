/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Usage: register_pmem DAX_NODE DEVICE
 *
 * Maps device DAX with MAP_SYNC, registers it for remote writes and writes to it.
 * Exit status 0 only if all of that worked. */
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MAP_SHARED_VALIDATE
#define MAP_SHARED_VALIDATE 0x03
#endif
#ifndef MAP_SYNC
#define MAP_SYNC 0x80000
#endif

enum { kLengthBytes = 4 << 20 };

static struct ibv_context* open_device(const char* name) {
    int count = 0;
    struct ibv_device** list = ibv_get_device_list(&count);
    for (int i = 0; list && i < count; i++)
        if (strcmp(ibv_get_device_name(list[i]), name) == 0)
            return ibv_open_device(list[i]);
    return NULL;
}

int main(int argc, char** argv) {
    if (argc != 3)
        return 2;
    int fd = open(argv[1], O_RDWR);
    void* memory =
        fd < 0 ? MAP_FAILED
               : mmap(NULL, kLengthBytes, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | MAP_SYNC, fd, 0);
    if (memory == MAP_FAILED) {
        perror(argv[1]);
        return 1;
    }
    struct ibv_context* context = open_device(argv[2]);
    struct ibv_pd* domain = context ? ibv_alloc_pd(context) : NULL;
    if (!domain) {
        fprintf(stderr, "%s: no such RDMA device, or it can't be used\n", argv[2]);
        return 1;
    }
    struct ibv_mr* region =
        ibv_reg_mr(domain, memory, kLengthBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (!region) {
        perror("ibv_reg_mr");
        return 1;
    }
    memset(memory, 0x5a, kLengthBytes);
    printf("%s: %d bytes registered, rkey %#x\n", argv[1], (int)kLengthBytes, region->rkey);
    return ibv_dereg_mr(region);
}
