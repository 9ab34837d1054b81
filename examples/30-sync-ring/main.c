/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ring from a producer to a consumer, in memory that both see and whose caches know nothing of each other:
 * two hosts at one CXL device or behind a bridge, or simply two processes. 31-sync-ring-python/ring.py speaks
 * the same.
 *
 *     sync_ring init FILE            once, before the others
 *     sync_ring produce FILE COUNT
 *     sync_ring consume FILE COUNT
 *
 * FILE is the shared memory: a device that can be mapped, or any file (in /dev/shm, say).
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sluice/sync.h>

/* As large as the granule of any CPU, so that two hosts of different kinds agree. */
enum { GRANULE = 2048, SLOTS = 64 };

struct record {
    uint64_t number;
    char text[GRANULE - sizeof(uint64_t)];
};

/* What one side alone writes has granules of its own. */
struct ring {
    uint64_t produced; /* the producer's: how many records it has written */
    char unused_1[GRANULE - sizeof(uint64_t)];
    uint64_t consumed; /* the consumer's: how many records it has taken */
    char unused_2[GRANULE - sizeof(uint64_t)];
    struct record slots[SLOTS];
};

static void must(int error, const char* what) {
    if (error != 0) {
        fprintf(stderr, "%s: %s\n", what, strerror(error));
        exit(1);
    }
}

static struct ring* map(const char* path, int create) {
    struct stat status;
    const int file = open(path, O_RDWR | (create ? O_CREAT : 0), 0600);
    must(file < 0 ? errno : 0, path);
    must(fstat(file, &status) != 0 ? errno : 0, path);
    if (create && S_ISREG(status.st_mode)) {
        must(ftruncate(file, sizeof(struct ring)) != 0 ? errno : 0, path);
    } else if (S_ISREG(status.st_mode) && (size_t)status.st_size < sizeof(struct ring)) {
        must(EINVAL, "the file holds no ring: init comes first");
    }
    void* memory = mmap(NULL, sizeof(struct ring), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    must(memory == MAP_FAILED ? errno : 0, path);
    close(file);
    return memory;
}

/* Zeroes in memory, and nothing in this host's cache that could be written back over what others write. */
static void init(struct ring* ring) {
    memset(ring, 0, sizeof *ring);
    must(sluice_sync_clean_invalidate(ring, sizeof *ring), "clean_invalidate");
}

static uint64_t observe(const uint64_t* flag) {
    uint64_t value = 0;
    must(sluice_sync_observe(flag, &value), "observe");
    return value;
}

static void produce(struct ring* ring, uint64_t count) {
    const uint64_t first = observe(&ring->produced);
    for (uint64_t number = first; number < first + count; ++number) {
        struct record record = {number, ""};
        snprintf(record.text, sizeof record.text, "record %" PRIu64, number);
        while (number - observe(&ring->consumed) >= SLOTS) { /* the consumer hasn't taken what is there */
            sched_yield();
        }
        must(sluice_sync_copy(&ring->slots[number % SLOTS], &record, sizeof record), "copy");
        must(sluice_sync_publish(&ring->produced, number + 1), "publish");
    }
}

static void consume(struct ring* ring, uint64_t count) {
    const uint64_t first = observe(&ring->consumed);
    for (uint64_t number = first; number < first + count; ++number) {
        const struct record* slot = &ring->slots[number % SLOTS];
        char wanted[64];
        while (observe(&ring->produced) <= number) {
            sched_yield();
        }
        must(sluice_sync_invalidate(slot, sizeof *slot), "invalidate");
        snprintf(wanted, sizeof wanted, "record %" PRIu64, number);
        if (slot->number != number || strcmp(slot->text, wanted) != 0) {
            fprintf(stderr, "instead of %s there is %" PRIu64 ", \"%.40s\"\n", wanted, slot->number,
                    slot->text);
            exit(1);
        }
        must(sluice_sync_publish(&ring->consumed, number + 1), "publish");
    }
}

int main(int argc, char** argv) {
    const char* what = argc > 1 ? argv[1] : "";
    const int is_init = argc == 3 && strcmp(what, "init") == 0;
    const int is_produce = argc == 4 && strcmp(what, "produce") == 0;
    const int is_consume = argc == 4 && strcmp(what, "consume") == 0;
    if (!is_init && !is_produce && !is_consume) {
        fprintf(stderr, "usage: %s init FILE | produce FILE COUNT | consume FILE COUNT\n", argv[0]);
        return 2;
    }
    struct ring* ring = map(argv[2], is_init);
    if (is_init) {
        init(ring);
    } else if (is_produce) {
        produce(ring, strtoull(argv[3], NULL, 10));
    } else {
        consume(ring, strtoull(argv[3], NULL, 10));
    }
    printf("done\n");
    return 0;
}
