// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: dat_lmr_sync_rdma_read() is called before the program reads what a peer has written.
//
// What happens: the names say what the peer does, not what the program does. sync_rdma_read makes the
// program's stores visible to a peer's Read; it drops nothing of what this CPU's cache holds, and the program
// sees what its memory was before.
//
// Remedy: dat_lmr_sync_rdma_write() behind a peer's Write, dat_lmr_sync_rdma_read() before a peer's Read.
#include <string.h>

#include "dat_pair.h"

enum { BYTES = 4096 };

int main(void) {
    const DAT_DTO_COOKIE cookie = cookie_of(1);
    struct dat_pair pair;

    dat_pair_open(&pair, 0);
    struct region source = make_region(&pair.side, BYTES, DAT_MEM_PRIV_LOCAL_READ_FLAG);
    struct region target = make_region(&pair.side, BYTES,
                                       DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_REMOTE_READ_FLAG |
                                           DAT_MEM_PRIV_REMOTE_WRITE_FLAG);

    memset(source.memory, 'x', BYTES); // a's own memory, which the provider cleans when it is posted
    DAT_LMR_TRIPLET from = part_of(&source, 0, BYTES);
    DAT_RMR_TRIPLET to = remote_of(&target);
    must(dat_ep_post_rdma_write(pair.a, 1, &from, cookie, &to, DAT_COMPLETION_DEFAULT_FLAG));
    await_transfer(pair.side.requests, 1); // a tells b
    const DAT_LMR_TRIPLET written = part_of(&target, 0, BYTES);
#ifdef CORRECTED
    must(dat_lmr_sync_rdma_write(pair.side.ia, &written, 1));
#else
    must(dat_lmr_sync_rdma_read(pair.side.ia, &written, 1));
#endif
    const int right = memcmp(target.memory, source.memory, BYTES) == 0;

    free_region(&target);
    free_region(&source);
    dat_pair_close(&pair);
    return verdict(right ? NULL : "b sees what its memory was before a's Write");
}
