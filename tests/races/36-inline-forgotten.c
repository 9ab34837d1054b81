// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a message's memory ends behind the post, and the message isn't posted inline.
//
// What happens: with IBV_SEND_INLINE the post takes a copy, and the memory may be used again, freed, or never
// have been registered. Without it the device reads the memory later. Code that sets the flag for short
// messages only, or where the device grants enough inline data, has both cases, and is tested with one.
//
// Reported: readers of UCX found that it gives a message's memory to the next one before the completion,
// which is right as long as the device takes it inline (openucx/ucx 6040 and 11544).
//
// Remedy: IBV_SEND_INLINE for what doesn't live until its completion, with max_inline_data asked for when the
// queue pair is made; or memory that does.
#include <string.h>

#include "pair.h"

enum { BYTES = 32 };

// A message from the stack: its memory ends with this function.
static void greet(struct pair* pair) {
    const struct remote nowhere = {0, 0};
    char text[BYTES] = "hello";
    struct ibv_mr* const source = register_memory(pair, text, sizeof text, 0);
    unsigned flags = IBV_SEND_SIGNALED;
#ifdef CORRECTED
    flags |= IBV_SEND_INLINE;
#endif
    must(post(&pair->a, IBV_WR_SEND, source, text, sizeof text, nowhere, flags) == 0, "a message");
    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
}

int main(void) {
    static char to[BYTES];
    const struct options options = {.inline_bytes = BYTES};
    const char* symptom = NULL;
    struct pair pair;

    pair_open(&pair, &options);
    needs_retries(&pair);
    pair_connect(&pair);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, 0);

    greet(&pair);
    post_receive(&pair.b, target, to, sizeof to); // b was busy until now
    const struct ibv_wc sent = await_sent(&pair.a);
    if (sent.status != IBV_WC_SUCCESS) {
        symptom = with_status("the message fails", sent.status);
    } else if (await_received(&pair.b).status != IBV_WC_SUCCESS || strcmp(to, "hello") != 0) {
        symptom = "b receives something else";
    }

    end_flush(&pair.b);
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(symptom);
}
