// SPDX-License-Identifier: BSD-3-Clause
//
// loader [LIBRARY]...: takes the first of the libraries that can be loaded, as programs do that can run
// without RDMA, looks its functions up in it alone, and uses every device that it lists. It prints their
// names.
//
// A LIBRARY with a + before its name is loaded, too, and must not fail: a provider.
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>

static void* library;

// By version, as NCCL does, or without, as Python does.
static void* find(const char* name, const char* version) {
    void* found = version != NULL ? dlvsym(library, name, version) : dlsym(library, name);
    if (found == NULL) {
        fprintf(stderr, "%s: %s\n", name, dlerror());
        exit(1);
    }
    return found;
}

static void check(int fine, const char* what) {
    if (!fine) {
        perror(what);
        exit(1);
    }
}

static void use(struct ibv_context* context) {
    struct ibv_pd* (*alloc_pd)(struct ibv_context*) = find("ibv_alloc_pd", "IBVERBS_1.1");
    struct ibv_mr* (*reg_mr)(struct ibv_pd*, void*, size_t, uint64_t, unsigned) =
        find("ibv_reg_mr_iova2", "IBVERBS_1.8");
    int (*dereg_mr)(struct ibv_mr*) = find("ibv_dereg_mr", "IBVERBS_1.1");
    int (*dealloc_pd)(struct ibv_pd*) = find("ibv_dealloc_pd", NULL);
    struct ibv_comp_channel* (*create_channel)(struct ibv_context*) =
        find("ibv_create_comp_channel", "IBVERBS_1.0");
    int (*destroy_channel)(struct ibv_comp_channel*) = find("ibv_destroy_comp_channel", NULL);
    struct ibv_cq* (*create_cq)(struct ibv_context*, int, void*, struct ibv_comp_channel*, int) =
        find("ibv_create_cq", "IBVERBS_1.1");
    int (*destroy_cq)(struct ibv_cq*) = find("ibv_destroy_cq", "IBVERBS_1.1");
    int (*query_gid)(struct ibv_context*, uint8_t, int, union ibv_gid*) =
        find("ibv_query_gid", "IBVERBS_1.1");

    static char memory[4096];
    union ibv_gid gid;
    check(query_gid(context, 1, 0, &gid) == 0, "ibv_query_gid");
    struct ibv_pd* pd = alloc_pd(context);
    check(pd != NULL, "ibv_alloc_pd");
    struct ibv_mr* mr = reg_mr(pd, memory, sizeof memory, (uintptr_t)memory, IBV_ACCESS_LOCAL_WRITE);
    check(mr != NULL, "ibv_reg_mr_iova2");
    struct ibv_comp_channel* channel = create_channel(context);
    check(channel != NULL, "ibv_create_comp_channel");
    struct ibv_cq* cq = create_cq(context, 8, NULL, channel, 0);
    check(cq != NULL, "ibv_create_cq");
    check(destroy_cq(cq) == 0 && destroy_channel(channel) == 0 && dereg_mr(mr) == 0 && dealloc_pd(pd) == 0,
          "destroying");
}

int main(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
        if (argv[i][0] == '+') {
            if (dlopen(argv[i] + 1, RTLD_NOW | RTLD_LOCAL) == NULL) {
                fprintf(stderr, "%s\n", dlerror());
                return 1;
            }
        } else if (library == NULL) {
            library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        }
    }
    check(library != NULL, "no library");
    struct ibv_device** (*get_list)(int*) = find("ibv_get_device_list", "IBVERBS_1.1");
    void (*free_list)(struct ibv_device**) = find("ibv_free_device_list", "IBVERBS_1.1");
    const char* (*name_of)(struct ibv_device*) = find("ibv_get_device_name", NULL);
    struct ibv_context* (*open_device)(struct ibv_device*) = find("ibv_open_device", "IBVERBS_1.1");
    int (*close_device)(struct ibv_context*) = find("ibv_close_device", NULL);
    int count = 0;
    struct ibv_device** list = get_list(&count);
    check(list != NULL, "ibv_get_device_list");
    for (int i = 0; i < count; ++i) {
        struct ibv_context* context = open_device(list[i]);
        check(context != NULL, "ibv_open_device");
        use(context);
        printf("%s\n", name_of(list[i]));
        check(close_device(context) == 0, "ibv_close_device");
    }
    free_list(list);
    return 0;
}
