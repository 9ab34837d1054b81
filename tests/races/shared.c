// SPDX-License-Identifier: BSD-3-Clause
#include "shared.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <sluice/sync.h>

void must(int error) {
    if (error != 0) {
        fprintf(stderr, "%s\n", strerror(error));
        exit(2);
    }
}

int own_host(void) {
    const char* host = getenv("SYNC_HOST");
    return host != NULL ? (int)strtol(host, NULL, 10) : 0;
}

struct ring* map_ring(int argc, char** argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: sluice sync run --hosts 2 -- %s FILE\n", argv[0]);
        exit(2);
    }
    const int file = open(argv[1], O_RDWR | O_CREAT, 0600);
    must(file < 0 || ftruncate(file, sizeof(struct ring)) != 0 ? errno : 0);
    struct ring* const ring = mmap(NULL, sizeof *ring, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    must(ring == MAP_FAILED ? errno : 0);
    close(file);
    return ring;
}

uint64_t observe(const uint64_t* flag) {
    uint64_t value = 0;
    must(sluice_sync_observe(flag, &value));
    return value;
}

static long long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

int await_flag(const uint64_t* flag, uint64_t value) {
    const char* text = getenv("RACES_PATIENCE_MS");
    const long long end_ms = now_ms() + (text != NULL ? strtol(text, NULL, 10) : 5000);
    while (observe(flag) < value) {
        if (now_ms() >= end_ms) {
            return 0;
        }
        sched_yield();
    }
    return 1;
}

int verdict_that(const char* symptom) {
    if (symptom != NULL) {
        printf("symptom: %s\n", symptom);
        return 1;
    }
    printf("all is right\n");
    return 0;
}

int verdict(unsigned wrong) {
    static char text[100];
    snprintf(text, sizeof text, "%u of %d records are stale", wrong, RECORDS);
    return verdict_that(wrong != 0 ? text : NULL);
}
