// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: an event dispatcher has room for fewer events than DTOs with a completion may be outstanding.
//
// What happens: when the program is late to dequeue, completions are lost. DAT_ASYNC_ERROR_EVD_OVERFLOW comes
// to the asynchronous dispatcher, which few programs read, and the endpoints that complete there break.
//
// Remedy: as many events as all endpoints may have outstanding on the dispatcher, or dat_evd_resize() before
// an endpoint is added.
#include <stdio.h>
#include <stdlib.h>

#include "dat_pair.h"

enum { REQUESTS = 16, BYTES = 64 };

static int count_completions(DAT_EVD_HANDLE dispatcher) {
    DAT_EVENT event;
    DAT_COUNT more = 0;
    int count = 0;
    while (count < REQUESTS && dat_evd_wait(dispatcher, patience_us(), 1, &event, &more) == DAT_SUCCESS) {
        count += event.event_data.dto_completion_event_data.status == DAT_DTO_SUCCESS;
    }
    return count;
}

int main(void) {
    DAT_COUNT room = REQUESTS / 4;
    static char symptom[100];
    struct dat_pair pair;

#ifdef CORRECTED
    room = REQUESTS;
#endif
    dat_pair_open(&pair, room);
    struct region source = make_region(&pair.side, BYTES, DAT_MEM_PRIV_LOCAL_READ_FLAG);
    struct region target = make_region(&pair.side, BYTES, DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
    DAT_LMR_TRIPLET from = part_of(&source, 0, BYTES);
    DAT_RMR_TRIPLET to = remote_of(&target);

    int posted = 0;
    while (posted < REQUESTS && dat_ep_post_rdma_write(pair.a, 1, &from, cookie_of(1), &to,
                                                       DAT_COMPLETION_DEFAULT_FLAG) == DAT_SUCCESS) {
        ++posted;
    }
    const int count = count_completions(pair.side.requests);
    snprintf(symptom, sizeof symptom, "%d requests are accepted, and %d completions come", posted, count);

    dat_pair_abort(&pair); // the connection may be broken
    free(source.memory);
    free(target.memory);
    return verdict(count == REQUESTS ? NULL : symptom);
}
