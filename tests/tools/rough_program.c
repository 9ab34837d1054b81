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
 *   long again;
 *
 * - empties: the same by open() for reading alone;
 *
 * - streams: the same by fopen();
 *
 * - appends: appends to FILE by fopen(), from its end, and makes another file by open() for reading alone;
 *
 * - shares: the same as cuts by shm_open(), for a FILE in /dev/shm;
 *
 * - exchanges: FILE and the third argument have each other's names;
 *
 * - lacks: has as many descriptors as it may while it calls msync(), and none less behind it;
 *
 * - writes: calls msync() for ever;
 *
 * - writes_past: writes with O_DIRECT, and calls fsync(). Exit status 77: that can't be had;
 *
 * - locks: locks FILE, calls msync(), and has it locked still.
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
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>

enum { kBytes = 65536, kOwnFiles = 8, kDescriptors = 256, kHandled = 20, kCancelled = 100, kBlock = 4096 };

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

static void handle_signals(const char* path) {
    (void)path;
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

static void cancel_threads(const char* path) {
    (void)path;
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

static void make_as_long(int cut) {
    must(cut >= 0 && pwrite(cut, "", 1, kBytes - 1) == 1, "open"); // another ftruncate() would look
}

static void cut_off(const char* path) {
    make_as_long(__open_2(path, O_RDWR | O_TRUNC));
}

static void empty(const char* path) {
    const int cut = open(path, O_RDONLY | O_TRUNC);
    must(cut >= 0 && pwrite(file, "", 1, kBytes - 1) == 1, "open");
}

static void stream(const char* path) {
    FILE* const cut = fopen(path, "w");
    must(cut != NULL && pwrite(file, "", 1, kBytes - 1) == 1, "fopen");
    must(fputs("b", cut) > 0 && fclose(cut) == 0, "fclose");
}

static void append(const char* path) {
    char* made = NULL;
    FILE* const end = fopen(path, "a");
    must(end != NULL && ftell(end) == kBytes && fclose(end) == 0, "fopen");
    must(asprintf(&made, "%s.made", path) > 0 && open(made, O_RDONLY | O_CREAT | O_TRUNC, 0400) >= 0, "open");
    free(made);
    FILE* const wide = fopen(path, "w,ccs=UTF-16LE");
    must(wide != NULL && fputws(L"ab", wide) > 0 && fclose(wide) == 0, "fputws");
    must(lseek(file, 0, SEEK_END) == 4, "lseek");
}

static void write_only(const char* path) {
    (void)path;
    write_for_ever(NULL);
}

static const char kText[] = "direct";

static void write_past(const char* path) {
    const int past = open(path, O_RDWR | O_DIRECT);
    void* bytes = NULL;
    if (past < 0) {
        exit(77);
    }
    must(posix_memalign(&bytes, kBlock, kBlock) == 0, "posix_memalign");
    for (size_t i = 0; i < sizeof kText; ++i) {
        ((char*)bytes)[i] = kText[i];
    }
    must(pwrite(past, bytes, kBlock, 0) == kBlock && fsync(past) == 0, "pwrite");
    free(bytes);
}

static void share(const char* path) {
    make_as_long(shm_open(strrchr(path, '/'), O_RDWR | O_CREAT | O_TRUNC, 0600));
}

static void exchange(const char* path) {
    must(renameat2(AT_FDCWD, path, AT_FDCWD, other, RENAME_EXCHANGE) == 0, "renameat2");
}

static void lack_descriptors(const char* path) {
    (void)path;
    struct rlimit few = {0, 0};
    must(getrlimit(RLIMIT_NOFILE, &few) == 0, "getrlimit");
    few.rlim_cur = few.rlim_max < kDescriptors ? few.rlim_max : kDescriptors;
    must(setrlimit(RLIMIT_NOFILE, &few) == 0, "setrlimit");
    int last = -1;
    for (int own = dup(file); own >= 0; own = dup(file)) {
        last = own;
    }
    memory[64] = 'b';
    make_durable();
    must(close(last) == 0 && dup(file) == last, "dup");
}

static void lock(const char* path) {
    struct flock wanted = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    must(fcntl(file, F_SETLK, &wanted) == 0, path);
    memory[64] = 'b';
    make_durable();
    const pid_t child = fork();
    if (child == 0) {
        struct flock found = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        _exit(fcntl(file, F_GETLK, &found) == 0 && found.l_type == F_WRLCK ? 0 : 1);
    }
    int status = -1;
    must(waitpid(child, &status, 0) == child, "waitpid");
    must(status == 0, "it isn't locked any more");
}

static const struct {
    const char* name;
    void (*work)(const char* path);
} kSubjects[] = {
    {"closes", close_all}, {"handles", handle_signals}, {"cancels", cancel_threads},
    {"cuts", cut_off},     {"empties", empty},          {"streams", stream},
    {"appends", append},   {"writes", write_only},      {"writes_past", write_past},
    {"shares", share},     {"exchanges", exchange},     {"lacks", lack_descriptors},
    {"locks", lock},
};

int main(int argc, char** argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: %s SUBJECT FILE [FILE]\n", argv[0]);
        return 2;
    }
    other = argv[argc - 1];
    file = open(argv[2], O_RDWR | O_CREAT, 0600);
    must(file >= 0 && ftruncate(file, kBytes) == 0, argv[2]);
    memory = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    must(memory != MAP_FAILED, "mmap");
    for (size_t i = 0; i < sizeof kSubjects / sizeof *kSubjects; ++i) {
        if (strcmp(argv[1], kSubjects[i].name) == 0) {
            kSubjects[i].work(argv[2]);
            return 0;
        }
    }
    fprintf(stderr, "%s: %s is no subject\n", argv[0], argv[1]);
    return 2;
}
