// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: the flag that says "data is ready" is published before the data is cleaned.
//
// What happens: the other host sees the flag and reads what memory held before, because the data is still in
// this host's cache. Here all records are to be cleaned by one call at the end, which is cheaper, and their
// flags are out by then. Between two processes of one machine, where caches are coherent, the program is
// always right.
//
// Reported: maru's header stayed in the cache of the host that wrote it, so that two hosts gave one CXL
// device two identities (xcena-dev/maru 67); famfs had to clean after mkfs, log entries and copies
// (cxl-micron-reskit/famfs 5).
//
// Remedy: store, clean, then publish. A batch of records may share one clean, if their flag comes behind it.
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
#ifdef CORRECTED
        must(sluice_sync_clean(slot, sizeof *slot));
#endif
        must(sluice_sync_publish(&ring->written, number));
    }
    must(sluice_sync_clean(ring->slots, sizeof ring->slots));
}

static unsigned read_records(struct ring* ring) {
    unsigned wrong = 0;
    for (uint64_t number = 1; number <= RECORDS; ++number) {
        const struct record* const slot = &ring->slots[number % SLOTS];
        while (observe(&ring->written) < number) {
            sched_yield();
        }
        must(sluice_sync_invalidate(slot, sizeof *slot));
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
