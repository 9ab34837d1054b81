// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: dat_evd_wait() waits for two events, where one completion is suppressed.
//
// What happens: with a threshold the call returns when as many events are there, or when the time is over. A
// DTO that was posted with DAT_COMPLETION_SUPPRESS_FLAG makes none where it succeeds. The completion of the
// last one lies in the dispatcher, and the program sleeps until its timeout, or without end.
//
// Remedy: count the DTOs that make an event; or wait with a threshold of 1, and take what there is.
#include "dat_pair.h"

enum { REQUESTS = 2, BYTES = 64 };

int main(void) {
    const DAT_COMPLETION_FLAGS flags[REQUESTS] = {DAT_COMPLETION_SUPPRESS_FLAG, DAT_COMPLETION_DEFAULT_FLAG};
    struct dat_pair pair;
    DAT_EVENT event;
    DAT_COUNT more = 0;
    DAT_COUNT threshold = REQUESTS;

#ifdef CORRECTED
    threshold = 1;
#endif
    dat_pair_open(&pair, 0);
    struct region source = make_region(&pair.side, BYTES, DAT_MEM_PRIV_LOCAL_READ_FLAG);
    struct region target = make_region(&pair.side, BYTES, DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
    DAT_LMR_TRIPLET from = part_of(&source, 0, BYTES);
    DAT_RMR_TRIPLET to = remote_of(&target);
    for (int i = 0; i < REQUESTS; ++i) {
        must(dat_ep_post_rdma_write(pair.a, 1, &from, cookie_of((DAT_UINT64)i), &to, flags[i]));
    }
    const DAT_RETURN waited = dat_evd_wait(pair.side.requests, patience_us(), threshold, &event, &more);
    const int right = waited == DAT_SUCCESS &&
                      event.event_data.dto_completion_event_data.status == DAT_DTO_SUCCESS &&
                      event.event_data.dto_completion_event_data.user_cookie.as_64 == REQUESTS - 1;
    if (waited != DAT_SUCCESS) {
        must(dat_evd_dequeue(pair.side.requests, &event));
    }

    free_region(&target);
    free_region(&source);
    dat_pair_close(&pair);
    return verdict(right ? NULL : "the wait ends by its time, and the completion lies in the dispatcher");
}
