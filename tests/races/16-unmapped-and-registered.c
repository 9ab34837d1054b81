// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: registered memory is unmapped, and its registration lives on.
//
// What happens: a device that has pinned the pages goes on with them, although the program has others, or
// none, at that address: what a peer writes is lost, without an error, and nobody sees what a peer reads. A
// cache of registrations does that unnoticed, when free() has given the memory back to the kernel. On uroce,
// which pins nothing, the peer's Write fails.
//
// Reported: Cray's libfabric, where a peer's data went into pages that were no longer the program's
// (ofi-cray/libfabric-cray 1000); libfabric's memory hooks (ofiwg/libfabric 6244); Open MPI (open-mpi/ompi
// 4576).
//
// Remedy: deregister before munmap() or free(), and tell the peer the new address and key.
#include <string.h>
#include <sys/mman.h>

#include "pair.h"

enum { BYTES = 65536 };

static char* map(void) {
    char* const memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(memory != MAP_FAILED, "mmap");
    return memory;
}

int main(void) {
    static char from[64] = "what a writes";
    const struct options options = {0};
    struct pair pair;

    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    char* const first = map();
    struct ibv_mr* target = register_memory(&pair, first, BYTES, 0);

    char* const second = map(); // b's data moves here
#ifdef CORRECTED
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    target = register_memory(&pair, second, BYTES, 0);
#endif
    must(munmap(first, BYTES) == 0, "munmap");
    const struct remote remote = {(uintptr_t)target->addr, target->rkey}; // b tells a
    must(post(&pair.a, IBV_WR_RDMA_WRITE, source, from, sizeof from, remote, IBV_SEND_SIGNALED) == 0,
         "a Write");
    const struct ibv_wc written = await_sent(&pair.a);
    const int right = memcmp(from, second, sizeof from) == 0;

    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    must(munmap(second, BYTES) == 0, "munmap");
    pair_close(&pair);
    return verdict(right ? NULL : with_status("b has nothing of what a has written", written.status));
}
