/* SPDX-License-Identifier: BSD-3-Clause
 *
 * bound [-w] [-r] ADDRESS...: binds an id of librdmacm's to each address and says which device that is:
 *
 *     127.0.0.5 uroce0 2
 *
 * The number is that of the address in the device's GID table. Fails where the device isn't in the list of
 * libibverbs' devices, by name and GUID, or its GID table hasn't the address. -r asks librpma for the device
 * instead. -w waits for the end of standard input before it ends.
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <librpma.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The list is made once: it looks through /proc for the holder of each device's port. */
static int is_listed(struct ibv_context* context, struct ibv_device** list, int count) {
    for (int i = 0; i < count; ++i) {
        if (strcmp(ibv_get_device_name(list[i]), ibv_get_device_name(context->device)) == 0 &&
            ibv_get_device_guid(list[i]) == ibv_get_device_guid(context->device)) {
            return 1;
        }
    }
    return 0;
}

static int gid_index(struct ibv_context* context, const struct in_addr* address) {
    struct ibv_port_attr port;
    if (ibv_query_port(context, 1, &port) != 0) {
        return -1;
    }
    for (int i = 0; i < port.gid_tbl_len; ++i) {
        union ibv_gid gid;
        if (ibv_query_gid(context, 1, i, &gid) == 0 && gid.raw[10] == 0xff &&
            memcmp(gid.raw + 12, address, sizeof *address) == 0) {
            return i;
        }
    }
    return -1;
}

static struct ibv_context* context_at(const char* text, int by_rpma) {
    struct sockaddr_in at = {.sin_family = AF_INET};
    struct rdma_cm_id* id = NULL;
    struct ibv_context* context = NULL;
    if (by_rpma) {
        return rpma_utils_get_ibv_context(text, RPMA_UTIL_IBV_CONTEXT_LOCAL, &context) == 0 ? context : NULL;
    }
    if (inet_pton(AF_INET, text, &at.sin_addr) != 1 || rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) != 0 ||
        rdma_bind_addr(id, (struct sockaddr*)&at) != 0) {
        perror(text);
        return NULL;
    }
    return id->verbs; /* the id stays bound */
}

static const char* say(const char* text, struct ibv_context* context, struct ibv_device** list, int count) {
    struct in_addr address = {0};
    inet_pton(AF_INET, text, &address);
    int index = context != NULL ? gid_index(context, &address) : -1;
    if (context == NULL) {
        return "no device";
    }
    if (index < 0) {
        return "not in the GID table";
    }
    if (!is_listed(context, list, count)) {
        return "not in the list of devices";
    }
    printf("%s %s %d\n", text, ibv_get_device_name(context->device), index);
    return NULL;
}

int main(int argc, char** argv) {
    enum { kMost = 64 };
    struct ibv_context* contexts[kMost];
    int option, waits = 0, by_rpma = 0, failed = 0, count = 0;
    while ((option = getopt(argc, argv, "rw")) != -1) {
        waits |= option == 'w';
        by_rpma |= option == 'r';
    }
    for (int i = optind; i < argc && i < kMost; ++i) {
        contexts[i] = context_at(argv[i], by_rpma);
    }
    struct ibv_device** list = ibv_get_device_list(&count);
    for (int i = optind; i < argc && i < kMost; ++i) {
        const char* wrong = say(argv[i], contexts[i], list, count);
        if (wrong != NULL) {
            fprintf(stderr, "%s: %s\n", argv[i], wrong);
            failed = 1;
        }
    }
    ibv_free_device_list(list);
    fflush(stdout);
    while (waits && getchar() != EOF) {
    }
    return failed;
}
