// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: memory that a peer reads by RDMA Read is changed, without dat_lmr_sync_rdma_read() behind the
// change.
//
// What happens: on a device that doesn't see the CPU's caches, the peer gets what memory held before, or a
// part of the new data in an old frame, whatever the cache has written back by itself. On x86 and on most
// servers nothing happens at all, so that the program is delivered in this state.
//
// Reported: a kernel module mapped buffers for DMA before programs wrote them, which worked on x86 and lost
// data on ARM (enfiskutensykkel/ssd-gpu-dma 17); dapl, the reference for DAT, does nothing in this call on
// any machine, so that its absence never showed there.
//
// Remedy: call it after each change and before the peer may read, also where `lmr_sync_req` says that it
// isn't needed.
#include <string.h>

#include "dat_pair.h"

enum { BYTES = 4096 };

int main(void) {
    const DAT_DTO_COOKIE cookie = cookie_of(1);
    struct dat_pair pair;

    dat_pair_open(&pair, 0);
    struct region source = make_region(&pair.side, BYTES, DAT_MEM_PRIV_REMOTE_READ_FLAG);
    struct region copy = make_region(&pair.side, BYTES, DAT_MEM_PRIV_LOCAL_WRITE_FLAG);

    memset(source.memory, 'x', BYTES); // b's data changes
#ifdef CORRECTED
    const DAT_LMR_TRIPLET changed = part_of(&source, 0, BYTES);
    must(dat_lmr_sync_rdma_read(pair.side.ia, &changed, 1));
#endif
    DAT_LMR_TRIPLET to = part_of(&copy, 0, BYTES);
    DAT_RMR_TRIPLET from = remote_of(&source);
    must(dat_ep_post_rdma_read(pair.a, 1, &to, cookie, &from, DAT_COMPLETION_DEFAULT_FLAG));
    await_transfer(pair.side.requests, 1);
    const int right = memcmp(copy.memory, source.memory, BYTES) == 0;

    free_region(&copy);
    free_region(&source);
    dat_pair_close(&pair);
    return verdict(right ? NULL : "a has read what b's memory was before");
}
