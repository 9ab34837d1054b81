/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char* the_file;

void demand(bool holds, const char* what) {
    if (!holds) {
        fprintf(stderr, "FAILED: %s\n", what);
        exit(2);
    }
}

void store(uint64_t* to, uint64_t value) {
    __atomic_store_n(to, value, __ATOMIC_RELEASE);
}

void store_item(uint64_t* to, uint64_t number) {
    for (uint64_t i = 0; i < kWordsOfItem; ++i) {
        store(to + i, number * 1000 + i);
    }
}

bool is_item(const uint64_t* words, uint64_t number) {
    for (uint64_t i = 0; i < kWordsOfItem; ++i) {
        if (words[i] != number * 1000 + i) {
            return false;
        }
    }
    return true;
}

uint64_t checksum(const uint64_t* words) {
    uint64_t sum = UINT64_C(14695981039346656037);
    for (uint64_t i = 0; i < kWordsOfItem; ++i) {
        sum = (sum ^ words[i]) * UINT64_C(1099511628211);
    }
    return sum;
}

static int open_told(int flags) {
    char path[4096];
    snprintf(path, sizeof path, "%s.told", the_file);
    const int file = open(path, flags, 0600);
    demand(file >= 0, "the file of what was told can't be opened");
    return file;
}

/* By one system call: whoever is killed has told it or not. */
void tell(uint64_t count) {
    const int file = open_told(O_WRONLY | O_CREAT);
    demand(pwrite(file, &count, sizeof count, 0) == (ssize_t)sizeof count, "it can't be told");
    close(file);
}

uint64_t told(void) {
    uint64_t count = 0;
    const int file = open_told(O_RDONLY | O_CREAT);
    demand(read(file, &count, sizeof count) >= 0, "what was told can't be read");
    close(file);
    return count;
}

int open_memory(void) {
    return open(the_file, O_RDWR | O_CREAT, 0600);
}

struct memory* map_memory(const char* file) {
    the_file = file;
    const int fd = open_memory();
    demand(fd >= 0 && ftruncate(fd, sizeof(struct memory)) == 0, "the file can't be made");
    void* mapped = mmap(NULL, sizeof(struct memory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    demand(mapped != MAP_FAILED, "the file can't be mapped");
    close(fd);
    return mapped;
}

static int list(const struct protocol* protocols) {
    for (; protocols->name != NULL; ++protocols) {
        printf("%s %s\n", protocols->name, protocols->option != NULL ? protocols->option : "");
    }
    return 0;
}

int run_protocol(const struct protocol* protocols, int argc, char** argv) {
    if (argc == 2 && strcmp(argv[1], "list") == 0) {
        return list(protocols);
    }
    demand(argc == 5, "usage: write|check NAME wrong|right FILE, or list");
    const bool writes = strcmp(argv[1], "write") == 0;
    const bool right = strcmp(argv[3], "right") == 0;
    for (; protocols->name != NULL && strcmp(protocols->name, argv[2]) != 0; ++protocols) {
    }
    demand(protocols->name != NULL, "no such protocol");
    struct memory* memory = map_memory(argv[4]);
    if (writes) {
        tell(0); /* of this run */
        protocols->write(memory, right);
        return 0;
    }
    const char* wrong = protocols->check(memory, right);
    if (wrong != NULL) {
        printf("wrong: %s\n", wrong);
    }
    return wrong == NULL ? 0 : 1;
}
