// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a program posts as long as it has something to send, and doesn't count what is outstanding.
//
// What happens: when the peer is late, the send queue fills, and ibv_post_send() answers ENOMEM. The message
// isn't sent. A program that takes the answer for the end of the connection drops it; one that tries again
// at once spins until the peer goes on. As long as the peer keeps up, the program works.
//
// Reported: brpc (apache/brpc 3202); SPDK (spdk/spdk 3195); UCCL, whose queue was too short once nothing
// held the sender back (uccl-project/uccl 267).
//
// Remedy: count requests without a completion, and wait for one when they are as many as the queue pair was
// granted.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pair.h"

enum { QUEUE = 16, BYTES = 8, MORE = 4 };

// b takes a message, at last.
static void take_one(struct end* b, const struct ibv_mr* target, void* to) {
    post_receive(b, target, to, BYTES);
    must(await_received(b).status == IBV_WC_SUCCESS, "a receive");
}

int main(void) {
    static char from[BYTES] = "1234567", to[BYTES];
    const struct options options = {.send_requests = QUEUE};
    const struct remote nowhere = {0, 0};
    static char symptom[100];
    unsigned outstanding = 0;
    struct pair pair;
    int error = 0;

    pair_open(&pair, &options);
    needs_retries(&pair);
    pair_connect(&pair);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, 0);

    for (unsigned sent = 0; sent < pair.a.cap.max_send_wr + MORE && error == 0; ++sent) {
#ifdef CORRECTED
        if (outstanding == pair.a.cap.max_send_wr) {
            take_one(&pair.b, target, to);
            must(await_sent(&pair.a).status == IBV_WC_SUCCESS, "a message");
            --outstanding;
        }
#endif
        error = post(&pair.a, IBV_WR_SEND, source, from, BYTES, nowhere, IBV_SEND_SIGNALED);
        outstanding += error == 0;
        snprintf(symptom, sizeof symptom, "message %u is refused: %s", sent + 1, strerror(error));
    }
    for (; outstanding != 0; --outstanding) {
        take_one(&pair.b, target, to);
        must(await_sent(&pair.a).status == IBV_WC_SUCCESS, "a message");
    }

    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(error == 0 ? NULL : symptom);
}
