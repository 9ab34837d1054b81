// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: an LMR is freed while a receive that names it is posted.
//
// What happens: dat_lmr_free() succeeds, as DAT lets it. The next message has nowhere to go: the receive
// fails with DAT_DTO_ERR_LOCAL_PROTECTION, and the connection breaks. Where the provider is late to forget
// the LMR, the device writes into memory that belongs to somebody else by then.
//
// Remedy: await the completion of each DTO that names an LMR, then free it. dat_ep_disconnect() brings back
// the receives that no message has taken.
#include <stdlib.h>
#include <string.h>

#include "dat_pair.h"

enum { BYTES = 4096 };

// a sends. Returns how the message has come to b.
static DAT_DTO_COMPLETION_STATUS talk(struct dat_pair* pair, const struct region* source) {
    DAT_LMR_TRIPLET from = part_of(source, 0, BYTES);
    must(dat_ep_post_send(pair->a, 1, &from, cookie_of(1), DAT_COMPLETION_DEFAULT_FLAG));
    await_event(pair->side.requests, DAT_DTO_COMPLETION_EVENT);
    const DAT_EVENT event = await_event(pair->side.receives, DAT_DTO_COMPLETION_EVENT);
    return event.event_data.dto_completion_event_data.status;
}

int main(void) {
    const char* symptom = NULL;
    struct dat_pair pair;

    dat_pair_open(&pair, 0);
    struct region source = make_region(&pair.side, BYTES, DAT_MEM_PRIV_LOCAL_READ_FLAG);
    struct region target =
        make_region(&pair.side, BYTES, DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
    memset(source.memory, 'x', BYTES);
    post_receive(pair.b, &target, 0, BYTES, 2);

#ifdef CORRECTED
    const DAT_DTO_COMPLETION_STATUS received = talk(&pair, &source);
    must(dat_lmr_free(target.lmr));
#else
    must(dat_lmr_free(target.lmr));
    const DAT_DTO_COMPLETION_STATUS received = talk(&pair, &source);
#endif
    if (received == DAT_DTO_ERR_LOCAL_PROTECTION) {
        symptom = "the receive fails: local protection error";
    } else if (received != DAT_DTO_SUCCESS) {
        symptom = "the receive fails";
    } else if (memcmp(source.memory, target.memory, BYTES) != 0) {
        symptom = "the receive succeeds, and the message isn't there";
    }

    dat_pair_abort(&pair); // the connection may be broken
    free(source.memory);
    free(target.memory);
    return verdict(symptom);
}
