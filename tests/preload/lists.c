// SPDX-License-Identifier: BSD-3-Clause
//
// lists NAME: lists the devices for each line that it reads, and says whether NAME is among them, "yes" or
// "no". Each device of a list is opened and closed. At the end it says how many files are open and how many
// bytes in use beyond those after the first ten lists, "files 0 bytes 0".
#include <dirent.h>
#include <infiniband/verbs.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct resources {
    long files;
    long bytes;
};

static struct resources in_use(void) {
    struct resources found = {.files = 0, .bytes = (long)mallinfo2().uordblks};
    DIR* const directory = opendir("/proc/self/fd");
    if (directory == NULL) {
        perror("/proc/self/fd");
        exit(1);
    }
    while (readdir(directory) != NULL) {
        ++found.files;
    }
    closedir(directory);
    return found;
}

// A device that goes meanwhile can't be opened any more.
static void open_and_close(struct ibv_device* device) {
    struct ibv_context* const context = ibv_open_device(device);
    if (context != NULL && ibv_close_device(context) != 0) {
        perror("ibv_close_device");
        exit(1);
    }
}

static bool lists(const char* name) {
    int count = 0;
    bool found = false;
    struct ibv_device** const list = ibv_get_device_list(&count);
    if (list == NULL) {
        perror("ibv_get_device_list");
        exit(1);
    }
    for (int i = 0; i < count; ++i) {
        found = found || strcmp(ibv_get_device_name(list[i]), name) == 0;
        open_and_close(list[i]);
    }
    ibv_free_device_list(list);
    return found;
}

int main(int argc, char** argv) {
    char line[64];
    struct resources first = {0, 0};
    if (argc != 2) {
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int number = 1; fgets(line, sizeof line, stdin) != NULL; ++number) {
        puts(lists(argv[1]) ? "yes" : "no");
        if (number == 10) {
            first = in_use();
        }
    }
    const struct resources last = in_use();
    printf("files %ld bytes %ld\n", last.files - first.files, last.bytes - first.bytes);
    return 0;
}
