/* SPDX-License-Identifier: BSD-3-Clause */
/* A program for libsluice-sync: prints its version if a copy arrives. */
#include <sluice/sync.h>

#include <stdio.h>
#include <string.h>

int main(void) {
    static const char kText[] = "somebody else reads this";
    char text[sizeof kText] = "";
    struct sluice_sync_segment segment;
    if (sluice_sync_copy(text, kText, sizeof kText) != 0 || strcmp(text, kText) != 0) {
        return 1;
    }
    segment.address = text;
    segment.length = sizeof text;
    if (sluice_sync_clean_batch(&segment, 1) != 0 || sluice_sync_invalidate(text, sizeof text) != 0) {
        return 1;
    }
    puts(sluice_sync_version());
    return 0;
}
