// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a part of what was stored is cleaned: the record has grown by a field, and its clean hasn't.
//
// What happens: a cache works in lines. What shares a line with the cleaned bytes goes to memory with them,
// the rest of the record stays in this host's cache. The other host sees the new begin and the old end of a
// record. A record that fits in one line is always right, until it grows.
//
// Reported: a display got wrong data, where the length was shortened before the caches were cleaned
// (PaulStoffregen/SPI 61); libdragon and Circle left out the last line of a range that begins within one
// (DragonMinded/libdragon 116, rsta2/circle 630).
//
// Remedy: the address and the length of all that was stored. sluice_sync_clean() rounds to lines by itself.
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
        slot->same_number = number;
#ifdef CORRECTED
        must(sluice_sync_clean(slot, sizeof *slot));
#else
        must(sluice_sync_clean(&slot->number, sizeof slot->number));
#endif
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
        must(sluice_sync_invalidate(slot, sizeof *slot));
        wrong += slot->number != number || slot->same_number != number;
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
