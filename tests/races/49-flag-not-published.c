// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: the flag that says "data is ready" is stored as any variable is, and not published.
//
// What happens: the store stays in this host's cache. The other host reads what memory holds, and waits,
// until the line is written back by chance: after hours, or when the writer's machine is busy with something
// else. `volatile` and C's atomics don't help: they order what one machine's CPUs see.
//
// Reported: on hosts that share a CXL device one didn't see what the other had stored in the header
// (xcena-dev/maru 67).
//
// Remedy: sluice_sync_publish() for each flag, which stores and cleans behind the data, and
// sluice_sync_observe() on the other side.
#include <sluice/sync.h>

#include "shared.h"

// As many as there are places: the writer waits for nobody.
static void write_records(struct ring* ring) {
    must(sluice_sync_clean_invalidate(ring,
                                      sizeof *ring)); // nothing of this host's is left over others' bytes
    for (uint64_t number = 1; number <= SLOTS; ++number) {
        struct record* const slot = &ring->slots[number % SLOTS];
        slot->number = number;
        must(sluice_sync_clean(slot, sizeof *slot));
#ifdef CORRECTED
        must(sluice_sync_publish(&ring->written, number));
#else
        ring->written = number;
#endif
    }
}

// What is wrong, or null.
static const char* read_records(struct ring* ring) {
    for (uint64_t number = 1; number <= SLOTS; ++number) {
        const struct record* const slot = &ring->slots[number % SLOTS];
        if (!await_flag(&ring->written, number)) {
            return "the flag never comes";
        }
        must(sluice_sync_invalidate(slot, sizeof *slot));
        if (slot->number != number) {
            return "a record is stale";
        }
    }
    return NULL;
}

int main(int argc, char** argv) {
    struct ring* const ring = map_ring(argc, argv);
    if (own_host() == 0) {
        write_records(ring);
        return 0;
    }
    return verdict_that(read_records(ring));
}
