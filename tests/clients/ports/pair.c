/* SPDX-License-Identifier: BSD-3-Clause */
#include "pair.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int rank_number = -1;

static void fail(const char* what) {
    fprintf(stderr, "rank %d: %s\n", rank_number, what);
    _Exit(1); /* closes the channel: the other one fails, too */
}

void require(int holds, const char* what) {
    if (!holds) {
        fail(what);
    }
}

void must(DAT_RETURN status, const char* what) {
    const char* major = "?";
    const char* minor = "?";
    if (status != DAT_SUCCESS) {
        require(dat_strerror(status, &major, &minor) == DAT_SUCCESS, "dat_strerror");
        fprintf(stderr, "rank %d: %s: %s %s\n", rank_number, what, major, minor);
        _Exit(1);
    }
}

/* Rank 1 has ended before rank 0, which may watch its memory for a message that will never come. */
static void on_child(int number) {
    siginfo_t how;
    (void)number;
    how.si_pid = 0;
    if (waitid(P_ALL, 0, &how, WEXITED | WNOHANG | WNOWAIT) == 0 && how.si_pid != 0 && how.si_status != 0) {
        _Exit(1);
    }
}

struct rank start_pair(void) {
    struct rank rank = {0, -1, -1};
    struct sigaction action = {0};
    int ends[2];
    action.sa_handler = on_child;
    action.sa_flags = SA_RESTART;
    require(sigaction(SIGCHLD, &action, NULL) == 0, "sigaction");
    require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    rank.child = (int)fork();
    require(rank.child >= 0, "fork");
    rank.number = rank.child == 0;
    /* The same the other way round. */
    require(rank.number == 0 || (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() != 1), "prctl");
    rank_number = rank.number;
    rank.channel = ends[rank.number];
    close(ends[1 - rank.number]);
    return rank;
}

int end_pair(const struct rank* rank) {
    int status = 0;
    meet(rank);
    if (rank->number == 1) {
        exit(0);
    }
    require(waitpid(rank->child, &status, 0) == rank->child, "waitpid");
    require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "rank 1 has failed");
    return 0;
}

void exchange(const struct rank* rank, const void* mine, void* theirs, size_t size) {
    require(send(rank->channel, mine, size, MSG_NOSIGNAL) == (ssize_t)size, "the other rank has gone");
    require(recv(rank->channel, theirs, size, MSG_WAITALL) == (ssize_t)size, "the other rank has gone");
}

void meet(const struct rank* rank) {
    char mine = 0;
    char theirs;
    exchange(rank, &mine, &theirs, 1);
}

void breathe(void) {
    sched_yield();
}

DAT_EVENT poll_event(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number) {
    DAT_EVENT event;
    DAT_RETURN status;
    while (DAT_GET_TYPE(status = dat_evd_dequeue(evd, &event)) == DAT_QUEUE_EMPTY) {
        breathe();
    }
    must(status, "dat_evd_dequeue");
    if (event.event_number != number) {
        fprintf(stderr, "rank %d: event 0x%x, not 0x%x\n", rank_number, (unsigned)event.event_number,
                (unsigned)number);
        _Exit(1);
    }
    return event;
}

DAT_UINT64 poll_transfer(DAT_EVD_HANDLE evd, DAT_VLEN size) {
    const DAT_EVENT event = poll_event(evd, DAT_DTO_COMPLETION_EVENT);
    const DAT_DTO_COMPLETION_EVENT_DATA* done = &event.event_data.dto_completion_event_data;
    require(done->status == DAT_DTO_SUCCESS, "a transfer has failed");
    require(done->transfered_length == size, "a transfer has another length");
    return done->user_cookie.as_64;
}

static char byte_of(size_t place, unsigned turn) {
    return (char)(place * 31 + (place >> 8) * 7 + turn * 101 + 1);
}

void fill(char* memory, size_t size, unsigned turn) {
    size_t i;
    for (i = 0; i < size; ++i) {
        memory[i] = byte_of(i, turn);
    }
}

void compare(const char* memory, size_t size, unsigned turn) {
    size_t i;
    for (i = 0; i < size; ++i) {
        if (memory[i] != byte_of(i, turn)) {
            fprintf(stderr, "rank %d: turn %u: byte %zu of %zu is wrong\n", rank_number, turn, i, size);
            _Exit(1);
        }
    }
}
