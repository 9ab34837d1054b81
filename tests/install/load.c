/* SPDX-License-Identifier: BSD-3-Clause */
/* A plain C program, linked to no C++ runtime, loads the library at run time and unloads it. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char** argv) {
    int round;

    if (argc != 2) {
        fprintf(stderr, "usage: %s LIBRARY\n", argv[0]);
        return 2;
    }
    for (round = 0; round < 3; ++round) {
        const char* (*version)(void);
        void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        if (library == NULL) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        *(void**)&version = dlsym(library, "sluice_version");
        if (version == NULL || version()[0] == '\0') {
            fputs("no sluice_version\n", stderr);
            return 1;
        }
        if (dlclose(library) != 0) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
    }
    return 0;
}
