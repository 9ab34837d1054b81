// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: dat_lmr_sync_rdma_write() is called for the first part of what a peer has written.
//
// What happens: on a device that doesn't see the CPU's caches, the program gets the new begin and the old end
// of a record. Often the length is that of a header, or of the record as it was before it grew.
//
// Remedy: the triplet of all that the peer has written.
#include <string.h>

#include "dat_pair.h"

enum { BYTES = 8192, HEADER = 64 };

int main(void) {
    const DAT_DTO_COOKIE cookie = cookie_of(1);
    struct dat_pair pair;

    dat_pair_open(&pair, 0);
    struct region source = make_region(&pair.side, BYTES, DAT_MEM_PRIV_LOCAL_READ_FLAG);
    struct region target =
        make_region(&pair.side, BYTES, DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG);

    memset(source.memory, 'x', BYTES); // a's own memory, which the provider cleans when it is posted
    DAT_LMR_TRIPLET from = part_of(&source, 0, BYTES);
    DAT_RMR_TRIPLET to = remote_of(&target);
    must(dat_ep_post_rdma_write(pair.a, 1, &from, cookie, &to, DAT_COMPLETION_DEFAULT_FLAG));
    await_transfer(pair.side.requests, 1); // a tells b
    DAT_VLEN length = HEADER;
#ifdef CORRECTED
    length = BYTES;
#endif
    const DAT_LMR_TRIPLET written = part_of(&target, 0, length);
    must(dat_lmr_sync_rdma_write(pair.side.ia, &written, 1));
    const int right = memcmp(target.memory, source.memory, BYTES) == 0;

    free_region(&target);
    free_region(&source);
    dat_pair_close(&pair);
    return verdict(right ? NULL : "b sees the begin of a's Write, and what was there before behind it");
}
