/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens an adapter and prints what it and its provider can do.
 *
 *     open_and_query ADAPTER
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../dat-common/common.h"

/*
 * Everything that can be opened: the entries of dat.conf, and the devices that are there. A list that is too
 * short is refused, and the number of entries written all the same: so ask, then make room, and ask again, as
 * long as there are more than there is room for.
 */
static void list_adapters(void) {
    DAT_PROVIDER_INFO* infos = NULL;
    DAT_PROVIDER_INFO** list = NULL;
    DAT_COUNT room = 0;
    DAT_COUNT count = 0;
    DAT_RETURN status = dat_registry_list_providers(0, &count, NULL);
    while (count > room) {
        room = count;
        infos = realloc(infos, (size_t)room * sizeof *infos);
        list = realloc(list, (size_t)room * sizeof *list);
        require(infos != NULL && list != NULL, "there is no memory");
        for (DAT_COUNT i = 0; i < room; ++i) {
            list[i] = &infos[i];
        }
        status = dat_registry_list_providers(room, &count, list);
    }
    if (room > 0) {
        must(status);
    }
    for (DAT_COUNT i = 0; i < count; ++i) {
        printf("can be opened: %s, for DAT %u.%u\n", infos[i].ia_name, infos[i].dapl_version_major,
               infos[i].dapl_version_minor);
    }
    free(list);
    free(infos);
}

static void print_address(const struct sockaddr* address) {
    char text[INET6_ADDRSTRLEN] = "?";
    if (address->sa_family == AF_INET) {
        inet_ntop(AF_INET, &((const struct sockaddr_in*)address)->sin_addr, text, sizeof text);
    } else {
        inet_ntop(AF_INET6, &((const struct sockaddr_in6*)address)->sin6_addr, text, sizeof text);
    }
    printf("its address: %s\n", text);
}

static void print_attributes(DAT_IA_HANDLE ia) {
    DAT_IA_ATTR adapter;
    DAT_PROVIDER_ATTR provider;
    must(dat_ia_query(ia, NULL, DAT_IA_FIELD_ALL, &adapter, DAT_PROVIDER_FIELD_ALL, &provider));
    printf("adapter: %s of %s\n", adapter.adapter_name, adapter.vendor_name);
    print_address(adapter.ia_address_ptr);
    printf("up to %d endpoints with %d transfers each, of %d segments\n", adapter.max_eps,
           adapter.max_dto_per_ep, adapter.max_iov_segments_per_dto);
    printf("provider: %s, %s\n", provider.provider_name,
           provider.is_thread_safe ? "thread-safe" : "for one thread");
    printf("private data: up to %d bytes\n", provider.max_private_data_size);
    printf("buffers are best aligned to %u bytes\n", provider.optimal_buffer_alignment);
    printf("dat_lmr_sync_rdma_read and _write: %s here\n",
           provider.lmr_sync_req ? "must be called" : "not needed");
    require(adapter.max_eps > 0 && provider.dapl_version_major == DAT_VERSION_MAJOR,
            "the attributes are wrong");
}

int main(int argc, char** argv) {
    DAT_EVD_HANDLE errors = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    char nobody[] = "no such adapter";
    if (argc != 2) {
        fprintf(stderr, "usage: %s ADAPTER\n", argv[0]);
        return 2;
    }
    list_adapters();
    /* dat_strerror() gives names to codes; the type tells what went wrong, the subtype more of it. */
    must_fail(dat_ia_open(nobody, 8, &errors, &ia), DAT_PROVIDER_NOT_FOUND);
    must(dat_ia_open(argv[1], 8, &errors, &ia));
    print_attributes(ia);
    must(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
    /* A handle that was freed is noticed. */
    must_fail(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG), DAT_INVALID_HANDLE);
    printf("done\n");
    return 0;
}
