// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a child of fork() posts to a queue pair of its parent's.
//
// What happens: the child has a copy of what the library knows, and the device has one queue pair. Libraries
// keep their queues out of the child, where ibv_fork_init() or the kernel does that: it crashes at the first
// touch. Others let both post to the same place, and requests are lost. uroce answers EIO.
//
// Reported: DAOS's interception library forked, and libfabric crashed in the child (ofiwg/libfabric 9792);
// UCX allows fork() as long as the child uses nothing of it (openucx/ucx 4325).
//
// Remedy: the process that has opened a device uses it. A child asks its parent, or opens the device itself.
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"

// What became of the child, or null.
static const char* symptom_of(int status) {
    static char text[100];
    if (WIFSIGNALED(status)) {
        snprintf(text, sizeof text, "the child dies of signal %d", WTERMSIG(status));
    } else if (WEXITSTATUS(status) != 0) {
        snprintf(text, sizeof text, "the child's message is refused: %s", strerror(WEXITSTATUS(status)));
    }
    return text[0] != '\0' ? text : NULL;
}

int main(void) {
    static char from[8] = "hello", to[8];
    const struct options options = {0};
    const struct remote nowhere = {0, 0};
    struct ibv_wc received;
    struct pair pair;
    int orders[2];
    int status = 0;
    char order = 0;

    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, 0);
    post_receive(&pair.b, target, to, sizeof to);
    must(pipe(orders) == 0, "pipe");

    const pid_t child = fork();
    must(child >= 0, "fork");
    if (child == 0) {
#ifdef CORRECTED
        _exit(write(orders[1], "!", 1) == 1 ? 0 : 1);
#else
        _exit(post(&pair.a, IBV_WR_SEND, source, from, sizeof from, nowhere, IBV_SEND_SIGNALED));
#endif
    }
    close(orders[1]);
    must(waitpid(child, &status, 0) == child, "waitpid");
    if (read(orders[0], &order, 1) == 1) { // an order of the child's
        must(post(&pair.a, IBV_WR_SEND, source, from, sizeof from, nowhere, IBV_SEND_SIGNALED) == 0,
             "a message");
    }
    close(orders[0]);
    const char* symptom = symptom_of(status);
    if (symptom == NULL && !poll_for(pair.b.received, patience_ms(), &received)) {
        symptom = "the child's message is accepted, and isn't there";
    } else if (symptom == NULL) {
        --pair.b.receives;
    }
    const int right = symptom != NULL || memcmp(from, to, sizeof to) == 0;

    end_flush(&pair.b);
    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(right ? symptom : "b receives something else");
}
