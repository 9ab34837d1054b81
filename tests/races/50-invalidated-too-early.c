// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a host drops what its cache holds of a record before it has seen that the record is written.
//
// What happens: an invalidate is about this moment. A load, or the CPU's own prefetching, brings the line
// back before the other host has written it, and the record that was in this place before is read behind the
// flag. The program is right when the writer is quicker than the reader.
//
// Reported: an SD card's driver in NuttX, where sectors of before were read now and then (apache/nuttx
// 19506); a camera's frames in OpenMV (openmv/openmv 1610).
//
// Remedy: observe the flag, then invalidate the data, then read it. An invalidate before the other side
// writes may be needed, too, but isn't enough.
#include <sched.h>

#include <sluice/sync.h>

#include "shared.h"

// Each when the reader has asked for it.
static void write_records(struct ring* ring) {
    must(sluice_sync_clean_invalidate(ring,
                                      sizeof *ring)); // nothing of this host's is left over others' bytes
    for (uint64_t number = 1; number <= RECORDS; ++number) {
        struct record* const slot = &ring->slots[number % SLOTS];
        while (observe(&ring->taken) < number) {
            sched_yield();
        }
        slot->number = number;
        must(sluice_sync_clean(slot, sizeof *slot));
        must(sluice_sync_publish(&ring->written, number));
    }
}

static void ask_and_wait(struct ring* ring, uint64_t number) {
    must(sluice_sync_publish(&ring->taken, number));
    while (observe(&ring->written) < number) {
        sched_yield();
    }
}

static unsigned read_records(struct ring* ring) {
    unsigned wrong = 0;
    for (uint64_t number = 1; number <= RECORDS; ++number) {
        const struct record* const slot = &ring->slots[number % SLOTS];
#ifdef CORRECTED
        ask_and_wait(ring, number);
        must(sluice_sync_invalidate(slot, sizeof *slot));
#else
        must(sluice_sync_invalidate(slot, sizeof *slot));
        ask_and_wait(ring, number);
#endif
        wrong += slot->number != number;
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
