/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What `sluice persist run` must bear, and programs do. The first argument says what, the second is FILE:
 *
 * - closes: closes every descriptor that it may have, as daemons do, and writes to files of its own;
 *
 * - handles: calls fsync() in a signal's handler, while it calls msync(), and
 *   cuts the third argument off in the first one;
 *
 * - cancels: cancels threads in msync(), each another number of calls behind its begin;
 *
 * - cuts: cuts FILE off as it opens it, by the call that _FORTIFY_SOURCE makes of open(), and makes it as
 *   long again.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

enum { kBytes = 65536, kOwnFiles = 8, kDescriptors = 256, kHandled = 20, kCancelled = 100 };

static int file;
static char* memory;
static const char* other;
static volatile sig_atomic_t handled;
static atomic_int rounds;

static void must(int is_right, const char* what) {
    if (!is_right) {
        perror(what);
        exit(1);
    }
}

static void make_durable(void) {
    must(msync(memory, kBytes, MS_SYNC) == 0, "msync");
}

static void close_all(const char* path) {
    make_durable();
    for (int i = 3; i < kDescriptors; ++i) {
        close(i);
    }
    for (int i = 0; i < kOwnFiles; ++i) {
        char* name = NULL;
        must(asprintf(&name, "%s.%d", path, i) > 0, "asprintf");
        const int own = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        must(own >= 0 && write(own, "precious", 8) == 8, name);
        free(name);
    }
    memory[64] = 'b';
    make_durable();
}

static void handle(int number) {
    (void)number;
    (void)fsync(file);
    if (++handled > 1) {
        return;
    }
    const int cut = open(other, O_WRONLY | O_TRUNC);
    (void)!ftruncate(cut, kBytes);
    close(cut);
}

static void handle_signals(void) {
    const struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    const struct itimerval often = {{0, 5000}, {0, 5000}};
    must(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0, "setitimer");
    while (handled < kHandled) {
        ++memory[0];
        make_durable();
    }
    const struct itimerval never = {{0, 0}, {0, 0}};
    must(setitimer(ITIMER_REAL, &never, NULL) == 0, "setitimer");
}

static void* write_for_ever(void* nothing) {
    for (;;) {
        ++memory[0];
        make_durable();
        ++rounds;
    }
    return nothing;
}

static void cancel_threads(void) {
    for (int i = 0; i < kCancelled; ++i) {
        pthread_t thread = 0;
        void* result = NULL;
        rounds = 0;
        must(pthread_create(&thread, NULL, write_for_ever, NULL) == 0, "pthread_create");
        while (rounds < i) {
            sched_yield();
        }
        pthread_cancel(thread);
        pthread_join(thread, &result);
        must(result == PTHREAD_CANCELED, "pthread_join");
    }
    make_durable();
}

// NOLINTNEXTLINE(readability-identifier-naming,bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
int __open_2(const char* path, int flags);

static void cut_off(const char* path) {
    const int cut = __open_2(path, O_RDWR | O_TRUNC);
    must(cut >= 0 && pwrite(cut, "", 1, kBytes - 1) == 1, "__open_2"); // another ftruncate() would look
}

int main(int argc, char** argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: %s closes|handles|cancels|cuts FILE [FILE]\n", argv[0]);
        return 2;
    }
    other = argv[argc - 1];
    file = open(argv[2], O_RDWR | O_CREAT, 0600);
    must(file >= 0 && ftruncate(file, kBytes) == 0, argv[2]);
    memory = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    must(memory != MAP_FAILED, "mmap");
    if (strcmp(argv[1], "closes") == 0) {
        close_all(argv[2]);
    } else if (strcmp(argv[1], "handles") == 0) {
        handle_signals();
    } else if (strcmp(argv[1], "cancels") == 0) {
        cancel_threads();
    } else {
        cut_off(argv[2]);
    }
    return 0;
}
