/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Usage: reply_address DEVICE GID_INDEX
 *
 * libibverbs makes an address for the reply to a datagram with a header of RoCEv1, and for one with a header
 * of RoCEv2, and a line says of each whether it could. Both come from the port itself; its GID has to be an
 * address of IPv4.
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netinet/ip.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kPort = 1, kRoceV1 = 0x1b, kInIpv4 = 12 };

static struct ibv_context* open_named(const char* name) {
    struct ibv_device** devices = ibv_get_device_list(NULL);
    struct ibv_context* context = NULL;
    for (int i = 0; devices != NULL && devices[i] != NULL; ++i) {
        if (strcmp(ibv_get_device_name(devices[i]), name) == 0) {
            context = ibv_open_device(devices[i]);
        }
    }
    ibv_free_device_list(devices);
    return context;
}

static void reply_to(struct ibv_context* context, const char* kind, struct ibv_grh* header) {
    struct ibv_ah_attr attr;
    struct ibv_wc wc = {.wc_flags = IBV_WC_GRH};
    if (ibv_init_ah_from_wc(context, kPort, &wc, header, &attr) != 0) {
        printf("%s: no address\n", kind);
        return;
    }
    printf("%s: from GID index %d\n", kind, attr.grh.sgid_index);
}

/* What a receiver has in place of a GRH when IPv4 carried a datagram: the header is in its last 20 bytes. */
union header {
    struct ibv_grh grh;
    struct {
        uint8_t unused[20];
        struct iphdr ip;
    } v4;
};

/* Of a GID that is an address of IPv4, mapped. */
static uint32_t address_in(const union ibv_gid* gid) {
    const uint8_t* const bytes = gid->raw + kInIpv4;
    return htonl((uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3]);
}

int main(int argc, char** argv) {
    struct ibv_context* const context = argc == 3 ? open_named(argv[1]) : NULL;
    union ibv_gid gid;
    if (context == NULL || ibv_query_gid(context, kPort, (int)strtol(argv[2], NULL, 10), &gid) != 0) {
        perror("open the device, and query its GID");
        return 1;
    }
    union header v1 = {.grh = {.version_tclass_flow = htonl(0x60000000),
                               .next_hdr = kRoceV1,
                               .hop_limit = 1,
                               .sgid = gid,
                               .dgid = gid}};
    reply_to(context, "RoCEv1", &v1.grh);
    union header v2 = {.v4.ip = {.version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_UDP}};
    v2.v4.ip.saddr = address_in(&gid);
    v2.v4.ip.daddr = v2.v4.ip.saddr;
    reply_to(context, "RoCEv2", &v2.grh);
    ibv_close_device(context);
    return 0;
}
