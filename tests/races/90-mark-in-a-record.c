// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: the host that reads a record stores a mark of its own into it, and invalidates it the next time.
//
// What happens: the line with the mark stays dirty in the reader's cache. When the writer has put a new
// record there, the reader's invalidate, or an eviction at any time before, writes the old line back over it;
// on other CPUs the mark is lost. The reader sees the old record once more.
//
// Remedy: one writer for each granule. The reader's marks have a place of their own.
#include <sched.h>

#include <sluice/sync.h>

#include "shared.h"

static void write_records(struct ring* ring) {
    must(sluice_sync_clean_invalidate(ring,
                                      sizeof *ring)); // nothing of this host's is left over others' bytes
    for (uint64_t number = 1; number <= RECORDS; ++number) {
        struct record* const slot = &ring->slots[number % SLOTS];
        while (number > observe(&ring->taken) + 1) {
            sched_yield();
        }
        slot->number = number;
        must(sluice_sync_clean(slot, sizeof *slot));
        must(sluice_sync_publish(&ring->written, number));
    }
}

// That the reader has taken it.
static void mark(struct ring* ring, uint64_t number) {
#ifdef CORRECTED
    ring->padding_2[number % SLOTS] = (char)number; // beside the reader's own flag
#else
    ring->slots[number % SLOTS].padding[0] = (char)number;
#endif
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
        mark(ring, number);
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
