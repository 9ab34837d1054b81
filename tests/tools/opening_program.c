/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens the device of ADDRESS, and says what rights it has and what is loaded: "privileged yes", "preloaded
 * no".
 */
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

#include <infiniband/verbs.h>
#include <sluice/sluice.h>

static int is_loaded(const char* library) {
    FILE* const maps = fopen("/proc/self/maps", "re");
    char line[4096];
    int found = 0;

    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        found = found || strstr(line, library) != NULL;
    }
    if (maps != NULL) {
        fclose(maps);
    }
    return found;
}

int main(int argc, char** argv) {
    struct ibv_context* const context = sluice_open_uroce(argc == 2 ? argv[1] : NULL);

    printf("privileged %s\n", getauxval(AT_SECURE) != 0 ? "yes" : "no");
    printf("preloaded %s\n", is_loaded("libsluice-preload") ? "yes" : "no");
    return context != NULL && ibv_close_device(context) == 0 ? 0 : 1;
}
