/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client reads the server's memory, twice; between, the server changes it.
 *
 * Where the server's device doesn't see the CPU's caches, what the program has written may not be in memory
 * yet. So the server says what a peer is going to read: dat_lmr_sync_rdma_read(), after the program has
 * written and before the peer reads. It is the mirror of what 04-rdma-write shows.
 */
#include <stdio.h>
#include <string.h>

#include "../dat-common/common.h"

enum { SIZE = 4096 };

static const char* const kVersions[] = {"what the server's memory holds at first",
                                        "and what it holds after a change"};

/* Writes, and makes it what a peer will read. */
static void publish(const struct side* side, struct region* source, int version) {
    const DAT_LMR_TRIPLET changed = part_of(source, 0, SIZE);
    memset(source->memory, '.', SIZE);
    strcpy(source->memory, kVersions[version]);
    must(dat_lmr_sync_rdma_read(side->ia, &changed, 1));
}

static void serve(struct side* side, const struct arguments* arguments) {
    struct region source = make_region(side, SIZE, DAT_MEM_PRIV_REMOTE_READ_FLAG);
    struct region message = make_region(side, 8, DAT_MEM_PRIV_ALL_FLAG);
    struct offer offer = make_offer(&source);
    DAT_EP_HANDLE ep = make_endpoint(side);
    publish(side, &source, 0);
    post_receive(ep, &message, 0, 8, 0);
    DAT_PSP_HANDLE listener = listen_at(side, arguments->qualifier);
    accept_request(side, ep, &offer);
    await_transfer(side->receives, 0); /* the client has read the first version */
    publish(side, &source, 1);
    send_bytes(side, ep, &message, 0, 1);
    await_end(side, ep);
    must(dat_psp_free(listener));
    free_region(&message);
    free_region(&source);
}

static void read_version(const struct side* side, DAT_EP_HANDLE ep, const struct offer* offer,
                         const struct region* target, int version) {
    DAT_LMR_TRIPLET part = part_of(target, 0, SIZE);
    DAT_RMR_TRIPLET remote;
    remote.rmr_context = offer->key;
    remote.pad = 0;
    remote.target_address = offer->address;
    remote.segment_length = offer->size;
    must(dat_ep_post_rdma_read(ep, 1, &part, cookie_of(2), &remote, DAT_COMPLETION_DEFAULT_FLAG));
    require(await_transfer(side->requests, 2) == SIZE, "another length was read");
    printf("read: %.*s\n", SIZE, target->memory);
    require(strncmp(target->memory, kVersions[version], SIZE) == 0 && target->memory[SIZE - 1] == '.',
            "something else was read");
}

static void read_from(struct side* side, const struct arguments* arguments) {
    /* A read writes into local memory. */
    struct region target = make_region(side, SIZE, DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
    struct region message = make_region(side, 8, DAT_MEM_PRIV_ALL_FLAG);
    struct offer offer;
    DAT_EP_HANDLE ep = make_endpoint(side);
    connect_to(side, ep, arguments, &offer);
    require(offer.size == SIZE, "the server has another size");
    read_version(side, ep, &offer, &target, 0);
    post_receive(ep, &message, 0, 8, 0);
    send_bytes(side, ep, &message, 0, 1);
    await_transfer(side->receives, 0); /* the server has changed it */
    read_version(side, ep, &offer, &target, 1);
    end_connection(side, ep);
    free_region(&message);
    free_region(&target);
}

int main(int argc, char** argv) {
    const struct arguments arguments = parse(argc, argv);
    struct side side = open_side(arguments.adapter);
    (arguments.is_server ? serve : read_from)(&side, &arguments);
    close_side(&side);
    printf("done\n");
    return 0;
}
