/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program of somebody else's: sees the installed headers and libraries only. Prints the
 * version, proves that its log sink is called, and exits with 0 when all is as promised.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <sluice/sluice.h>

static void sink(void* context, int level, const char* area, const char* message) {
    (void)level;
    (void)area;
    (void)message;
    ++*(int*)context;
}

int main(void) {
    int messages = 0;

    if (sluice_set_log_levels("info,cm=debug") != 0 || sluice_set_log_levels("loud") != EINVAL ||
        sluice_set_log_levels(NULL) != EINVAL) {
        fputs("sluice_set_log_levels: wrong result\n", stderr);
        return 1;
    }
    sluice_set_log_sink(sink, &messages);
    sluice_set_log_sink(NULL, NULL);
    if (messages != 0) {
        fputs("the sink was called for nothing\n", stderr);
        return 1;
    }
    printf("%s\n", sluice_version());
    return 0;
}
