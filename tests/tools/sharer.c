/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program for two hosts that share memory:
 *
 *     sharer DIRECTORY MEMORY SCENARIO FORGOTTEN
 *
 * Host 0 writes and host 1 reads; who comes first they tell each other through pipes, so that nobody polls.
 * MEMORY is how they get at it. The call with the number FORGOTTEN is left out; 0 is none. Ends with 1 if
 * what is read is wrong, and with 2 if something else is.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sluice/sync.h>

#include "sharer.h"

enum { FLAG_VALUE = 7 };

static int forgotten;

static void wrong(const char* what) {
    printf("wrong: %s\n", what);
    exit(1);
}

/* A call that can be forgotten. */
#define CALL(number, call)                                                                                   \
    do {                                                                                                     \
        if ((number) != forgotten) {                                                                         \
            errno = (call);                                                                                  \
            demand(errno == 0, #call);                                                                       \
        }                                                                                                    \
    } while (0)

static void compare(const unsigned char* data) {
    for (size_t i = 0; i < BYTES; ++i) {
        if (data[i] != byte_at(i)) {
            wrong("data");
        }
    }
}

static struct sluice_sync_segment* halves_of(const unsigned char* data) {
    static struct sluice_sync_segment halves[2];
    halves[0] = (struct sluice_sync_segment){data + BYTES / 2, BYTES - BYTES / 2};
    halves[1] = (struct sluice_sync_segment){data, BYTES / 2};
    return halves;
}

/* One batch as a call for a range, so that all fit into one table. */
#define AS_RANGE(name)                                                                                       \
    static int name##_as_range(const void* data, uint64_t length) {                                          \
        (void)length;                                                                                        \
        return sluice_sync_##name(halves_of(data), 2);                                                       \
    }
AS_RANGE(clean_batch)
AS_RANGE(invalidate_batch)
AS_RANGE(clean_invalidate_batch)
AS_RANGE(persist_batch)

static int copy_as_range(const void* data, uint64_t length) {
    static unsigned char source[BYTES];
    fill(source);
    return sluice_sync_copy((void*)(uintptr_t)data, source, length);
}

static const struct way {
    const char* name;
    int (*show)(const void* data, uint64_t length);
    int (*look)(const void* data, uint64_t length);
} ways[] = {
    {"range", sluice_sync_clean, sluice_sync_invalidate},
    {"both", sluice_sync_clean_invalidate, sluice_sync_clean_invalidate},
    {"persist", sluice_sync_persist, sluice_sync_invalidate},
    {"copy", copy_as_range, sluice_sync_invalidate},
    {"batch", clean_batch_as_range, invalidate_batch_as_range},
    {"both-batch", clean_invalidate_batch_as_range, clean_invalidate_batch_as_range},
    {"persist-batch", persist_batch_as_range, invalidate_batch_as_range},
};

static void publish(struct shared* shared) {
    if (forgotten == 2) {
        shared->flag = FLAG_VALUE;
    }
    CALL(2, sluice_sync_publish(&shared->flag, FLAG_VALUE));
}

static void observe(const struct shared* shared) {
    uint64_t value = shared->flag;
    CALL(3, sluice_sync_observe(&shared->flag, &value));
    if (value != FLAG_VALUE) {
        wrong("flag");
    }
}

static void pass_on(struct shared* shared, const struct way* way) {
    if (host == 0) {
        fill(shared->data);
        CALL(1, way->show(shared->data, BYTES));
        publish(shared);
        tell();
        return;
    }
    hear();
    observe(shared);
    CALL(4, way->look(shared->data, BYTES));
    compare(shared->data);
}

/* Processes of one host have one cache: what a child stores, its parent cleans. */
static void pass_on_from_child(struct shared* shared) {
    int status = 0;
    if (host == 0 && fork() == 0) {
        fill(shared->data);
        _exit(0);
    }
    if (host == 0) {
        demand(wait(&status) > 0 && status == 0, "wait");
        CALL(1, sluice_sync_clean(shared->data, BYTES));
        publish(shared);
        tell();
    } else {
        pass_on(shared, &ways[0]);
    }
}

/* What the reader has stored there first must be out of its cache. */
static void take_over(struct shared* shared) {
    if (host == 0) {
        hear();
        fill(shared->data);
        CALL(2, sluice_sync_clean(shared->data, BYTES));
        tell();
        return;
    }
    memset(shared->data, 0xff, BYTES);
    CALL(1, sluice_sync_clean_invalidate(shared->data, BYTES));
    tell();
    hear();
    CALL(3, sluice_sync_invalidate(shared->data, BYTES));
    compare(shared->data);
}

/* What a host has stored and left in its cache goes over what another writes there. */
static void leave_behind(struct shared* shared) {
    if (host == 1) {
        memset(shared->data, 0xff, BYTES);
        CALL(1, sluice_sync_clean_invalidate(shared->data, BYTES));
        tell();
        return;
    }
    hear();
    fill(shared->data);
    CALL(2, sluice_sync_clean(shared->data, BYTES));
    CALL(2, sluice_sync_invalidate(shared->data, BYTES));
    compare(shared->data);
}

/* What was there before is in each host's cache, and what comes later isn't. */
static void stay(struct shared* shared) {
    if (host == 0) {
        compare(shared->data);
        memset(shared->data, 0, BYTES);
        CALL(1, sluice_sync_clean(shared->data, BYTES));
        tell();
        return;
    }
    hear();
    compare(shared->data);
}

/* Nobody cleans the flag. */
static void keep_back(struct shared* shared) {
    uint64_t value = 0;
    if (host == 0) {
        shared->flag = FLAG_VALUE;
        for (int i = 0; i < 20; ++i) {
            CALL(1, sluice_sync_clean(shared->data, 1));
        }
        tell();
        return;
    }
    hear();
    CALL(1, sluice_sync_observe(&shared->flag, &value));
    if (value != 0) {
        wrong("a flag that wasn't cleaned");
    }
}

/* Two writers in a line can't be right, whatever they call. */
static void share_a_line(struct shared* shared) {
    shared->data[host] = 0x55;
    tell();
    hear();
    CALL(1, sluice_sync_clean(shared->data, 2));
    tell();
    hear();
    CALL(1, sluice_sync_invalidate(shared->data, 2));
    if (shared->data[0] != 0x55 || shared->data[1] != 0x55) {
        wrong("a byte beside another's");
    }
}

/* Who loads the library by its name gets the same one, and may give it back. */
static void pass_on_after_dlclose(struct shared* shared) {
    void* const library = dlopen("libsluice-sync.so.1", RTLD_NOW);
    demand(library != NULL, "dlopen");
    demand(dlsym(library, "sluice_sync_clean") == (void*)(uintptr_t)&sluice_sync_clean, "dlsym");
    demand(dlclose(library) == 0, "dlclose");
    pass_on(shared, &ways[0]);
}

/* Lines whose file has ended before them stay where they are; the others move. */
static void shorten(struct shared* shared) {
    const int file = open(path_of("memory"), O_RDWR);
    uint64_t flag = 0;
    fill(shared->data);
    tell();
    hear();
    demand(ftruncate(file, PAGE) == 0, "ftruncate");
    CALL(1, sluice_sync_clean(shared->data, BYTES));
    CALL(1, sluice_sync_clean_invalidate(shared->data, BYTES));
    CALL(1, sluice_sync_publish(&shared->flag, FLAG_VALUE));
    demand(pread(file, &flag, sizeof flag, 0) == sizeof flag && flag == FLAG_VALUE, "the flag is in memory");
    close(file);
}

static void demand_error(int error, int expected, const char* what) {
    errno = error;
    demand(error == expected, what);
}

static void refuse(struct shared* shared) {
    char* const pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sluice_sync_segment segments[2] = {{shared->data, 64}, {pages + PAGE, 64}};
    uint64_t value = 3;
    munmap(pages + PAGE, PAGE);
    fill(shared->data);
    demand_error(sluice_sync_clean(shared->data, UINT64_MAX), EINVAL, "a range that wraps around");
    demand_error(sluice_sync_clean(pages, 2 * PAGE), EFAULT, "a page that isn't mapped");
    demand_error(sluice_sync_clean_batch(segments, 2), EFAULT, "a segment that isn't mapped");
    demand_error(sluice_sync_copy(pages + PAGE, shared->data, 64), EFAULT, "a copy to nowhere");
    mprotect(shared, PAGE, PROT_READ);
    demand_error(sluice_sync_publish(&shared->flag, value), EACCES, "a flag that may only be read");
    demand_error(sluice_sync_observe(&shared->flag, (uint64_t*)(void*)(pages + PAGE)), EFAULT,
                 "a value nowhere");
    demand_error(sluice_sync_clean(shared, PAGE), 0, "a page that may only be read");
    /* Memory, which reading the file shows, has none of it. */
    unsigned char byte = 1;
    const int file = open(path_of("memory"), O_RDONLY);
    demand(pread(file, &byte, 1, PAGE) == 1 && byte == 0, "nothing was cleaned");
    close(file);
}

static int run(struct shared* shared, const char* scenario) {
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; ++i) {
        if (strcmp(scenario, ways[i].name) == 0) {
            pass_on(shared, &ways[i]);
            return 0;
        }
    }
    if (strcmp(scenario, "fork") == 0) {
        pass_on_from_child(shared);
    } else if (strcmp(scenario, "dlclose") == 0) {
        pass_on_after_dlclose(shared);
    } else if (strcmp(scenario, "shorter") == 0) {
        shorten(shared);
    } else if (strcmp(scenario, "take-over") == 0) {
        take_over(shared);
    } else if (strcmp(scenario, "leave-behind") == 0) {
        leave_behind(shared);
    } else if (strcmp(scenario, "stay") == 0) {
        stay(shared);
    } else if (strcmp(scenario, "keep-back") == 0) {
        keep_back(shared);
    } else if (strcmp(scenario, "one-line") == 0) {
        share_a_line(shared);
    } else if (strcmp(scenario, "bad") == 0) {
        refuse(shared);
    } else {
        return 2;
    }
    return 0;
}

int main(int argc, char** argv) {
    if (argc != 5) {
        return 2;
    }
    host = atoi(getenv("SYNC_HOST"));
    forgotten = atoi(argv[4]);
    open_pipes(argv[1]);
    return run(map_as(argv[2]), argv[3]);
}
