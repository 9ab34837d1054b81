// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a DTO completion's status isn't looked at, and a flushed receive is taken for a message.
//
// What happens: when a connection ends, the receives that are still posted complete with
// DAT_DTO_ERR_FLUSHED. Cookie and endpoint are right, and the memory holds what the last message has left
// there. The program does once more what that one asked for.
//
// Remedy: look at the status first. After a failure only the cookie and the endpoint mean something.
#include <stdio.h>
#include <stdlib.h>

#include "dat_pair.h"

struct order {
    unsigned pieces;
};

static unsigned stock = 100;

static void take(DAT_DTO_COMPLETION_EVENT_DATA completion) {
#ifdef CORRECTED
    if (completion.status != DAT_DTO_SUCCESS) {
        return; // the memory is free again, and holds no message
    }
#endif
    const struct order* const order = (const struct order*)(uintptr_t)completion.user_cookie.as_64;
    stock -= order->pieces;
}

static void take_next(struct dat_pair* pair) {
    const DAT_EVENT event = await_event(pair->side.receives, DAT_DTO_COMPLETION_EVENT);
    take(event.event_data.dto_completion_event_data);
}

int main(void) {
    static char symptom[100];
    struct dat_pair pair;

    dat_pair_open(&pair, 0);
    struct region source = make_region(&pair.side, sizeof(struct order), DAT_MEM_PRIV_LOCAL_READ_FLAG);
    struct region target = make_region(&pair.side, sizeof(struct order),
                                       DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
    ((struct order*)source.memory)->pieces = 10;

    post_receive(pair.b, &target, 0, target.size, (uintptr_t)target.memory);
    send_bytes(&pair.side, pair.a, &source, 0, source.size);
    take_next(&pair);
    // For the next one, which doesn't come: the connection ends.
    post_receive(pair.b, &target, 0, target.size, (uintptr_t)target.memory);
    must(dat_ep_disconnect(pair.b, DAT_CLOSE_ABRUPT_FLAG));
    take_next(&pair);
    snprintf(symptom, sizeof symptom, "one order of 10 pieces, and %u of 100 are left", stock);

    dat_pair_abort(&pair);
    free(source.memory);
    free(target.memory);
    return verdict(stock == 90 ? NULL : symptom);
}
