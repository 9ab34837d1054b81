// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a host reads what another one has written, without dropping what its own cache holds of that
// memory.
//
// What happens: it sees the flag, and then the record that was in this place when its cache last read it:
// the one of the round before, or zeros. The first round may be right by luck. Between two processes of one
// machine, where caches are coherent, the program is always right.
//
// Reported: famfs has to drop lines before it plays a log that another host has written
// (cxl-micron-reskit/famfs 5); maru saw the header of before, when another host had written a new one
// (xcena-dev/maru 67); AMD's driver for NPUs dropped lines without a fence, and read stale values now and
// then (amd/xdna-driver 1506).
//
// Remedy: observe the flag, then invalidate the data, then read it.
#include <sched.h>

#include <sluice/sync.h>

#include "shared.h"

static void write_records(struct ring* ring) {
    must(sluice_sync_clean_invalidate(ring,
                                      sizeof *ring)); // nothing of this host's is left over others' bytes
    for (uint64_t number = 1; number <= RECORDS; ++number) {
        struct record* const slot = &ring->slots[number % SLOTS];
        while (number > observe(&ring->taken) + SLOTS) {
            sched_yield();
        }
        slot->number = number;
        must(sluice_sync_clean(slot, sizeof *slot));
        must(sluice_sync_publish(&ring->written, number));
    }
}

static unsigned read_records(struct ring* ring) {
    unsigned wrong = 0;
    for (uint64_t number = 1; number <= RECORDS; ++number) {
        const struct record* const slot = &ring->slots[number % SLOTS];
        while (observe(&ring->written) < number) {
            sched_yield();
        }
#ifdef CORRECTED
        must(sluice_sync_invalidate(slot, sizeof *slot));
#endif
        wrong += slot->number != number;
        must(sluice_sync_publish(&ring->taken, number));
    }
    return wrong;
}

int main(int argc, char** argv) {
    struct ring* const ring = map_ring(argc, argv);
    if (own_host() == 0) {
        write_records(ring);
        return 0;
    }
    return verdict(read_records(ring));
}
