// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: each connection has a completion queue and a channel of its own, and they aren't destroyed when it
// ends.
//
// What happens: after some hundred connections the process has no file descriptor left, or the device has no
// place for a further queue. The connection that fails is a new one, hours later, and its code is right.
// Often it is an error path that forgets: a connection that was refused leaves its objects, and refusals are
// rare.
//
// Reported: libfabric's verbs provider left the channels of its queues (ofiwg/libfabric 1046); Ceph a queue
// pair for each attempt to connect that failed (ceph/ceph 13435); Mooncake used up a device's queue pairs
// (kvcache-ai/Mooncake 1845).
//
// Remedy: destroy what was made, in the reverse order, on each way out: queue pair, completion queue,
// channel.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "pair.h"

enum { FILES = 256, TURNS = 300 };

// A server may have more, and reaches its limit later.
static void limit_files(void) {
    const struct rlimit limit = {.rlim_cur = FILES, .rlim_max = FILES};
    must(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
}

// A connection comes and goes. Returns 0 or what fails.
static int serve(struct ibv_context* verbs) {
    struct ibv_comp_channel* const channel = ibv_create_comp_channel(verbs);
    if (channel == NULL) {
        return errno;
    }
    struct ibv_cq* const queue = ibv_create_cq(verbs, 16, NULL, channel, 0);
    if (queue == NULL) {
        return errno;
    }
#ifdef CORRECTED
    must(ibv_destroy_cq(queue) == 0, "ibv_destroy_cq");
    must(ibv_destroy_comp_channel(channel) == 0, "ibv_destroy_comp_channel");
#endif
    return 0;
}

int main(void) {
    const struct options options = {0};
    static char symptom[100];
    struct pair pair;
    int error = 0;
    int turn = 0;

    pair_open(&pair, &options);
    limit_files();
    while (turn < TURNS && error == 0) {
        error = serve(pair.a.id->verbs);
        ++turn;
    }
    snprintf(symptom, sizeof symptom, "turn %d: %s", turn, strerror(error));
    pair_close(&pair);
    return verdict(error == 0 ? NULL : symptom);
}
