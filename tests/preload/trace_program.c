// SPDX-License-Identifier: BSD-3-Clause
//
// trace_program CASE COUNT: COUNT Writes behind `sluice trace`, one after the other, and what else CASE has.
// `trace` says what is recorded of each. The program ends with 0, unless a signal ends it.
#include <pthread.h>
#include <signal.h>
#include <sluice/sync.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check_ends.h"

static const struct options usual = {0};

static void write_between(struct end* end, const struct buffer* from, const struct buffer* to, int count) {
    for (int i = 0; i < count; ++i) {
        post_write(end, (uint64_t)i, from, to);
        await(end->sent, (uint64_t)i);
    }
}

static void write_often(int count) {
    struct ends ends = open_ends(usual);
    struct buffer from = make_buffer(&ends);
    struct buffer to = make_buffer(&ends);
    write_between(&ends.a, &from, &to, count);
    free_buffer(&from);
    free_buffer(&to);
    close_ends(&ends);
}

// With one request that is outstanding.
static void end_by_signal(int count) {
    struct ends ends = open_ends(usual);
    struct buffer from = make_buffer(&ends);
    struct buffer to = make_buffer(&ends);
    write_between(&ends.a, &from, &to, count);
    post_write(&ends.a, (uint64_t)count, &from, &to);
    raise(SIGKILL);
}

// Which the device refuses.
static void post_lists_that_are_not_there(int count) {
    struct ends ends = open_ends(usual);
    struct ibv_send_wr send = {.num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr* bad_send = NULL;
    struct ibv_recv_wr receive = {.num_sge = 1};
    struct ibv_recv_wr* bad_receive = NULL;
    for (int i = 0; i < count; ++i) {
        must(ibv_post_send(ends.a.qp, &send, &bad_send) != 0, "a send without its list is taken");
        must(ibv_post_recv(ends.a.qp, &receive, &bad_receive) != 0, "a receive without its list is taken");
    }
    close_ends(&ends);
}

static void clean_often(int count) {
    const char memory[4096] = {0};
    const struct sluice_sync_segment segments[2] = {{.address = memory, .length = 64},
                                                    {.address = memory + 128, .length = 100}};
    for (int i = 0; i < count; ++i) {
        must(sluice_sync_clean(memory, sizeof memory) == 0, "sluice_sync_clean");
        must(sluice_sync_clean_batch(segments, 2) == 0, "sluice_sync_clean_batch");
    }
}

// The child cleans memory. What the parent has done before isn't the child's.
static void fork_once(int count) {
    write_often(count);
    const pid_t child = fork();
    if (child == 0) {
        clean_often(count / 2);
        exit(0);
    }
    int status = 0;
    must(waitpid(child, &status, 0) == child && status == 0, "the child");
    write_often(count);
}

static void* write_on(void* argument) {
    write_often(*(const int*)argument);
    return NULL;
}

static void in_threads(int count) {
    pthread_t threads[4];
    for (int i = 0; i < 4; ++i) {
        must(pthread_create(&threads[i], NULL, write_on, &count) == 0, "pthread_create");
    }
    for (int i = 0; i < 4; ++i) {
        must(pthread_join(threads[i], NULL) == 0, "pthread_join");
    }
}

int main(int argc, char** argv) {
    must(argc == 3, "the arguments");
    const int count = (int)strtol(argv[2], NULL, 10);
    if (strcmp(argv[1], "killed") == 0) {
        end_by_signal(count);
    } else if (strcmp(argv[1], "fork") == 0) {
        fork_once(count);
    } else if (strcmp(argv[1], "cleans") == 0) {
        clean_often(count);
    } else if (strcmp(argv[1], "no_lists") == 0) {
        post_lists_that_are_not_there(count);
    } else if (strcmp(argv[1], "threads") == 0) {
        in_threads(count);
    } else {
        must(strcmp(argv[1], "writes") == 0, "the case");
        write_often(count);
    }
    return 0;
}
