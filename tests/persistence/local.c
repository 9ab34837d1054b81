/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protocols of one process for memory that lasts: each wrong in one way, with its corrected twin.
 *
 *     local write NAME wrong|right FILE    as the program that stores
 *     local check NAME wrong|right FILE    what the next start of it would find: 0 if all is right
 *     local list                           their names
 *
 * What a program tells the world lies in FILE.told, which a loss of power doesn't touch: a user who was told
 * that something is stored remembers it.
 */
#include <sluice/sync.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#ifdef HAVE_LIBPMEM
#include <libpmem.h>
#endif

#ifdef HAVE_LIBPMEM2
#include <libpmem2.h>
#endif

#include "common.h"

enum { kItems = 3 };

/* By two ways, one item after the other. */
static void persist(const void* at, size_t length) {
#ifdef HAVE_LIBPMEM
    pmem_persist(at, length);
#else
    demand(sluice_sync_persist(at, length) == 0, "sluice_sync_persist");
#endif
}

static void persist_by_sync(const void* at, size_t length) {
    demand(sluice_sync_persist(at, length) == 0, "sluice_sync_persist");
}

/* A flag in another line than the data that it announces: flushed before the data. */
static void write_flag_before_data(struct memory* to, bool right) {
    store_item(to->items[0].words, 1);
    if (right) {
        persist(&to->items[0], sizeof to->items[0]);
    }
    store(&to->head[0], 1);
    persist(&to->head[0], sizeof to->head[0]);
    persist(&to->items[0], sizeof to->items[0]);
}

static const char* check_flag(const struct memory* found, bool right) {
    (void)right;
    return found->head[0] == 0 || is_item(found->items[0].words, 1) ? NULL
                                                                    : "the flag is there, the data isn't";
}

/* One flush for data and flag: nothing says which line goes first. */
static void write_one_flush(struct memory* to, bool right) {
    store_item(to->items[0].words, 1);
    if (right) {
        persist_by_sync(&to->items[0], sizeof to->items[0]);
    }
    store(&to->head[0], 1);
    persist_by_sync(to, sizeof *to);
}

/* An item has two lines, and only the first is flushed. */
static void write_wrong_range(struct memory* to, bool right) {
    store_item(to->items[0].words, 1);
    persist_by_sync(&to->items[0], right ? sizeof to->items[0] : sizeof to->items[0].words[0]);
    store(&to->head[0], 1);
    persist_by_sync(&to->head[0], sizeof to->head[0]);
}

/* A list's head points to an object that isn't durable yet. */
static void write_pointer_before_object(struct memory* to, bool right) {
    for (uint64_t i = 0; i < kItems; ++i) {
        store_item(to->items[i].words, i + 1);
        if (right) {
            persist(&to->items[i], sizeof to->items[i]);
        }
        store(&to->head[0], offsetof(struct memory, items) + i * sizeof to->items[0]);
        persist(&to->head[0], sizeof to->head[0]);
        if (!right) {
            persist(&to->items[i], sizeof to->items[i]);
        }
    }
}

static const char* check_pointer(const struct memory* found, bool right) {
    (void)right;
    if (found->head[0] == 0) {
        return NULL;
    }
    const uint64_t i = (found->head[0] - offsetof(struct memory, items)) / sizeof found->items[0];
    return i < kItems && is_item(found->items[i].words, i + 1) ? NULL : "the head points to half an object";
}

/* A record of two lines is taken for whole if its number is there: a torn one is, too. */
static void write_torn_record(struct memory* to, bool right) {
    for (uint64_t i = 0; i < kItems; ++i) {
        store_item(to->items[i].words, i + 1);
        if (right) {
            store(&to->items[i].checksum, checksum(to->items[i].words));
        }
        persist(&to->items[i], sizeof to->items[i]);
        tell(i + 1);
    }
}

static const char* check_records(const struct memory* found, bool right) {
    uint64_t whole = 0;
    while (whole < kItems && found->items[whole].words[0] != 0 &&
           (!right || found->items[whole].checksum == checksum(found->items[whole].words))) {
        if (!is_item(found->items[whole].words, whole + 1)) {
            return "half a record is taken for a whole one";
        }
        ++whole;
    }
    return whole >= told() ? NULL : "a record is missing that was told to be there";
}

/* Data and the word that says that it is there, in one line: a line isn't stored whole. */
static void write_one_line(struct memory* to, bool right) {
    store(&to->head[1], 4711);
    if (right) {
        persist(&to->head[1], sizeof to->head[1]);
    }
    store(&to->head[0], 1);
    persist(to->head, sizeof to->head);
}

static const char* check_one_line(const struct memory* found, bool right) {
    (void)right;
    return found->head[0] == 0 || found->head[1] == 4711 ? NULL : "valid, and without data";
}

/* Two counters that must be the same: between their flushes they aren't. Right: both are one word. */
static void write_two_flags(struct memory* to, bool right) {
    for (uint64_t i = 1; i <= kItems; ++i) {
        if (right) {
            store(&to->head[0], i << 32 | i);
            persist(&to->head[0], sizeof to->head[0]);
        } else {
            store(&to->head[0], i);
            persist(&to->head[0], sizeof to->head[0]);
            store(&to->items[0].words[0], i);
            persist(&to->items[0].words[0], sizeof to->items[0].words[0]);
        }
    }
}

static const char* check_two_flags(const struct memory* found, bool right) {
    const bool same =
        right ? found->head[0] >> 32 == (uint32_t)found->head[0] : found->head[0] == found->items[0].words[0];
    return same ? NULL : "the two counters differ";
}

/* The kernel is asked to write some time. */
static void write_asynchronous(struct memory* to, bool right) {
    store(&to->head[0], 1);
    demand(msync(to, sizeof *to, right ? MS_SYNC : MS_ASYNC) == 0, "msync");
    tell(1);
}

static const char* check_told(const struct memory* found, bool right) {
    (void)right;
    return found->head[0] >= told() ? NULL : "what was told to be stored isn't";
}

/* A clean is for devices. It makes nothing durable. */
static void write_cleaned(struct memory* to, bool right) {
    store(&to->head[0], 1);
    demand((right ? sluice_sync_persist : sluice_sync_clean)(&to->head[0], sizeof to->head[0]) == 0, "clean");
    tell(1);
}

/* The caller is told before the flush. */
static void write_told_early(struct memory* to, bool right) {
    for (uint64_t i = 1; i <= kItems; ++i) {
        store(&to->head[0], i);
        if (!right) {
            tell(i);
        }
        persist(&to->head[0], sizeof to->head[0]);
        tell(i);
    }
}

#ifdef HAVE_LIBPMEM
/* A flush is only begun. */
static void write_not_drained(struct memory* to, bool right) {
    store(&to->head[0], 1);
    pmem_flush(&to->head[0], sizeof to->head[0]);
    if (right) {
        pmem_drain();
    }
    tell(1);
}

/* What is stored behind the flush isn't flushed. */
static void write_changed_after_flush(struct memory* to, bool right) {
    store(&to->head[0], 1);
    pmem_flush(&to->head[0], sizeof to->head[0]);
    store(&to->head[0], 2);
    if (right) {
        pmem_flush(&to->head[0], sizeof to->head[0]);
    }
    pmem_drain();
    tell(2);
}

/* Copies that are drained once at the end, and a flag among them. */
static void write_copied_without_drain(struct memory* to, bool right) {
    const uint64_t one = 1;
    struct item item = {{0}, 0};
    store_item(item.words, 1);
    pmem_memcpy_nodrain(&to->items[0], &item, sizeof item);
    if (right) {
        pmem_drain();
    }
    pmem_memcpy_nodrain(&to->head[0], &one, sizeof one);
    pmem_drain();
}
#endif

#ifdef HAVE_LIBPMEM2
/* The same as not-drained, by libpmem2, whose functions belong to a mapping. */
static void write_not_drained_2(struct memory* to, bool right) {
    struct pmem2_source* source = NULL;
    struct pmem2_config* config = NULL;
    struct pmem2_map* map = NULL;
    demand(pmem2_source_from_fd(&source, open_memory()) == 0 && pmem2_config_new(&config) == 0 &&
               pmem2_config_set_required_store_granularity(config, PMEM2_GRANULARITY_CACHE_LINE) == 0 &&
               pmem2_map_new(&map, config, source) == 0,
           pmem2_errormsg());
    struct memory* mapped = pmem2_map_get_address(map);
    store(&mapped->head[0], 1);
    pmem2_get_flush_fn(map)(&mapped->head[0], sizeof mapped->head[0]);
    if (right) {
        pmem2_get_drain_fn(map)();
    }
    demand(to->head[0] == 1, "two mappings of one file differ");
    tell(1);
}
#endif

static const struct protocol kProtocols[] = {
    {"flag-before-data", write_flag_before_data, check_flag, NULL},
    {"one-flush", write_one_flush, check_flag, NULL},
    {"wrong-range", write_wrong_range, check_flag, NULL},
    {"pointer-before-object", write_pointer_before_object, check_pointer, NULL},
    {"torn-record", write_torn_record, check_records, NULL},
    {"one-line", write_one_line, check_one_line, NULL},
    {"two-flags", write_two_flags, check_two_flags, NULL},
    {"asynchronous", write_asynchronous, check_told, NULL},
    {"cleaned", write_cleaned, check_told, NULL},
    {"told-early", write_told_early, check_told, NULL},
#ifdef HAVE_LIBPMEM
    {"not-drained", write_not_drained, check_told, NULL},
    {"changed-after-flush", write_changed_after_flush, check_told, NULL},
    {"copied-without-drain", write_copied_without_drain, check_flag, NULL},
#endif
#ifdef HAVE_LIBPMEM2
    {"not-drained-2", write_not_drained_2, check_told, NULL},
#endif
    {NULL, NULL, NULL, NULL},
};

int main(int argc, char** argv) {
    return run_protocol(kProtocols, argc, argv);
}
