// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: two hosts have a counter each, and both are in one cache line.
//
// What happens: a cache writes lines back, not words. Each host's clean takes along what it believes of the
// other's counter, and one of the two loses what it has counted. Between two processes of one machine, where
// caches are coherent, that is slow and right.
//
// Remedy: what different hosts store has granules of its own (granule_bytes of sluice_sync_query()).
#include <sluice/sync.h>

#include "shared.h"

// Host 0's counter and host 1's, in what is a record for the other programs.
static uint64_t* counter_of(struct ring* ring, int host) {
#ifdef CORRECTED
    return host == 0 ? &ring->slots[0].number : &ring->slots[1].number;
#else
    return host == 0 ? &ring->slots[0].number : (uint64_t*)(void*)ring->slots[0].padding;
#endif
}

// Host 0 counts, and host 1 does before host 0 has cleaned.
static void count_first(struct ring* ring) {
    uint64_t* const own = counter_of(ring, 0);
    *own = 1;
    must(sluice_sync_publish(&ring->written, 1));
    must(await_flag(&ring->taken, 1) ? 0 : 1);
    must(sluice_sync_clean(own, sizeof *own));
    must(sluice_sync_publish(&ring->written, 2));
}

static int count_second(struct ring* ring) {
    uint64_t* const own = counter_of(ring, 1);
    const uint64_t* const other = counter_of(ring, 0);
    must(await_flag(&ring->written, 1) ? 0 : 1);
    *own = 1;
    must(sluice_sync_clean(own, sizeof *own));
    must(sluice_sync_publish(&ring->taken, 1));
    must(await_flag(&ring->written, 2) ? 0 : 1);
    must(sluice_sync_invalidate(own, sizeof *own));
    must(sluice_sync_invalidate(other, sizeof *other));
    return *own == 1 && *other == 1;
}

int main(int argc, char** argv) {
    struct ring* const ring = map_ring(argc, argv);
    if (own_host() == 0) {
        count_first(ring);
        return 0;
    }
    return verdict_that(count_second(ring) ? NULL : "a host's count is lost");
}
