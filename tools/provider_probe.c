/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tells which provider libibverbs chooses in a program that knows nothing of Sluice. The `sluice`
 * command links libsluice, and that alone changes the choice; so it runs this and reads.
 *
 * Prints one line for each device that libibverbs lists: its name, a tab, and the file whose code
 * drives it, or '!' and the errno with which opening failed.
 *
 * With the path of a plugin as its argument it loads that beside libibverbs, as libibverbs would,
 * and prints what the plugin logs, or '!' and why it can't be loaded.
 */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char* file_of(const void* function) {
    Dl_info info;

    return function != NULL && dladdr(function, &info) != 0 ? info.dli_fname : NULL;
}

/* Libibverbs puts functions of its own where a provider has none; they tell nothing. */
static const char* provider_of(const struct ibv_context* context) {
    const void* functions[] = {(const void*)context->ops.poll_cq, (const void*)context->ops.post_send};
    const char* library = file_of((const void*)ibv_get_device_list);
    size_t i = 0;

    for (i = 0; i < sizeof functions / sizeof functions[0]; ++i) {
        const char* file = file_of(functions[i]);
        if (file != NULL && (library == NULL || strcmp(file, library) != 0)) {
            return file;
        }
    }
    return "!0";
}

/* What an ELF file begins with is the same for 32 and 64 bits up to its machine, which -1 stands for where
 * there is none. */
static int machine_of(const char* file) {
    Elf64_Half start[offsetof(Elf64_Ehdr, e_version) / sizeof(Elf64_Half)];
    const int fd = open(file, O_RDONLY | O_CLOEXEC);
    const ssize_t got = fd < 0 ? -1 : read(fd, start, sizeof start);

    if (fd >= 0) {
        close(fd);
    }
    return got == (ssize_t)sizeof start && memcmp(start, ELFMAG, SELFMAG) == 0
               ? start[offsetof(Elf64_Ehdr, e_machine) / sizeof(Elf64_Half)]
               : -1;
}

static int load(const char* plugin) {
    int machine = -1;

    if (setenv("SLUICE_LOG", "warning,provider=info", 1) != 0 || dup2(STDOUT_FILENO, STDERR_FILENO) < 0) {
        return 1;
    }
    if (dlopen(plugin, RTLD_NOW) != NULL) {
        return 0;
    }
    /* Of such a file the dynamic linker says that it isn't there. */
    machine = machine_of(plugin);
    if (machine != -1 && machine != machine_of("/proc/self/exe")) {
        printf("!%s is built for another architecture\n", plugin);
    } else {
        printf("!%s\n", dlerror());
    }
    return 0;
}

static int list(void) {
    int count = 0;
    int i = 0;
    struct ibv_device** devices = ibv_get_device_list(&count);

    for (i = 0; devices != NULL && i < count; ++i) {
        struct ibv_context* context = ibv_open_device(devices[i]);
        if (context == NULL) {
            printf("%s\t!%d\n", devices[i]->name, errno);
            continue;
        }
        printf("%s\t%s\n", devices[i]->name, provider_of(context));
        ibv_close_device(context);
    }
    if (devices != NULL) {
        ibv_free_device_list(devices);
    }
    return 0;
}

/* What is opened here is nobody's use, and would push what programs have counted out of `sluice stat`. */
int main(int argc, char** argv) {
    if (setenv("SLUICE_UROCE_COUNTERS", "no", 1) != 0) {
        return 1;
    }
    return argc > 1 ? load(argv[1]) : list();
}
