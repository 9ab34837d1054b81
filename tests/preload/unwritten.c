// SPDX-License-Identifier: BSD-3-Clause
//
// Usage: unwritten [goes-by-it]
//
// Registers memory that it hasn't written to with the first device, to be read and to be written, and memory
// with a hole in it, which is refused. "goes-by-it": and jumps by a byte of it, which valgrind has to say.
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int registers(struct ibv_pd* pd, char* memory, size_t bytes, int access) {
    struct ibv_mr* const mr = ibv_reg_mr(pd, memory, bytes, access);
    return mr != NULL && ibv_dereg_mr(mr) == 0;
}

static int registers_unwritten(struct ibv_pd* pd, size_t bytes, int goes_by_it) {
    char* const memory = malloc(bytes);
    const int worked = memory != NULL && registers(pd, memory, bytes, 0) &&
                       registers(pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE);
    if (worked && goes_by_it && memory[bytes / 2] == 'x') {
        puts("x");
    }
    free(memory);
    return worked;
}

static int refuses_a_hole(struct ibv_pd* pd, size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char* const memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || munmap(memory + bytes - 2 * page, page) != 0) {
        return 0;
    }
    const int first = registers(pd, memory, bytes, 0) ? 0 : errno;
    const int second = registers(pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE) ? 0 : errno;
    return first == EFAULT && second == EFAULT;
}

int main(int argc, char** argv) {
    const int goes_by_it = argc > 1 && strcmp(argv[1], "goes-by-it") == 0;
    const size_t sizes[] = {32768,
                            (size_t)40 << 20}; // of one piece, and of several, in which it is looked at
    struct ibv_device** const list = ibv_get_device_list(NULL);
    struct ibv_context* const context = list != NULL && list[0] != NULL ? ibv_open_device(list[0]) : NULL;
    struct ibv_pd* const pd = context != NULL ? ibv_alloc_pd(context) : NULL;
    int worked = pd != NULL;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        worked = worked && registers_unwritten(pd, sizes[i], goes_by_it) && refuses_a_hole(pd, sizes[i]);
    }
    if (worked) {
        printf("registered with %s\n", ibv_get_device_name(list[0]));
        ibv_dealloc_pd(pd);
        ibv_close_device(context);
    }
    ibv_free_device_list(list);
    return worked ? 0 : 1;
}
