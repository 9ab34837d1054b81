/* SPDX-License-Identifier: BSD-3-Clause */
/* The header in plain C: everything that it declares is called once. */
#include <sluice/sync.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int failures;

static void expect(int holds, const char* what) {
    if (!holds) {
        printf("FAILED: %s\n", what);
        ++failures;
    }
}

/* CODE is 0, or on a CPU that can't the answer that says so. */
static void expect_done(int code, int cpu_can, const char* what) {
    expect(code == (cpu_can ? 0 : EOPNOTSUPP), what);
}

int main(void) {
    static char from[4096], to[4096];
    static uint64_t flag;
    struct sluice_sync_cpu cpu;
    struct sluice_sync_segment segments[2];
    uint64_t value = 1;
    const int can = sluice_sync_query(&cpu, sizeof cpu) == 0;

    segments[0].address = to;
    segments[0].length = 10;
    segments[1].address = to + 10;
    segments[1].length = 10;
    memset(from, 5, sizeof from);
    expect(strlen(sluice_sync_version()) > 0, "version");
    expect_done(sluice_sync_copy(to, from, sizeof to), can, "copy");
    expect(!can || memcmp(to, from, sizeof to) == 0, "what was copied");
    expect_done(sluice_sync_clean(to, 10), can, "clean");
    expect_done(sluice_sync_invalidate(to, 10), can, "invalidate");
    expect_done(sluice_sync_clean_invalidate(to, 10), can, "clean_invalidate");
    expect_done(sluice_sync_clean_batch(segments, 2), can, "clean_batch");
    expect_done(sluice_sync_invalidate_batch(segments, 2), can, "invalidate_batch");
    expect_done(sluice_sync_clean_invalidate_batch(segments, 2), can, "clean_invalidate_batch");
    expect(sluice_sync_persist(NULL, 1) == EINVAL, "persist");
    expect(sluice_sync_persist_batch(NULL, 1) == EINVAL, "persist_batch");
    expect_done(sluice_sync_publish(&flag, 3), can, "publish");
    expect_done(sluice_sync_observe(&flag, &value), can, "observe");
    expect(value == (can ? 3 : 1), "what was observed");
    expect(sluice_sync_check(to, sizeof to, SLUICE_SYNC_WRITE) == 0, "check");
    sluice_sync_set_checking(1);
    expect_done(sluice_sync_clean(to, 10), can, "clean, checked");
    sluice_sync_set_checking(0);
    return failures;
}
