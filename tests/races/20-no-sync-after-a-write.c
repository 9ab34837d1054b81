// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: memory that a peer has written by RDMA Write is read, without dat_lmr_sync_rdma_write() before.
//
// What happens: on a device that doesn't see the CPU's caches, the program gets what its cache held before
// the peer wrote, for some lines or for all. A memory that is read for the first time is right by luck, and
// wrong in the second round.
//
// Reported: AROS's call for that did nothing on arm64, and a device seemed to answer zeros
// (aros-development-team/AROS 888); readers of decoded video frames on Raspberry Pi saw old ones
// (raspberrypi/linux 6995); dapl, the reference for DAT, does nothing in this call on any machine.
//
// Remedy: call it after the message that says that the Write is done, before the first look.
#include <string.h>

#include "dat_pair.h"

enum { BYTES = 4096 };

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
#ifdef CORRECTED
    const DAT_LMR_TRIPLET written = part_of(&target, 0, BYTES);
    must(dat_lmr_sync_rdma_write(pair.side.ia, &written, 1));
#endif
    const int right = memcmp(target.memory, source.memory, BYTES) == 0;

    free_region(&target);
    free_region(&source);
    dat_pair_close(&pair);
    return verdict(right ? NULL : "b sees what its memory was before a's Write");
}
