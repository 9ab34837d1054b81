/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client writes into the server's memory and sends a message that it has; the server looks.
 *
 * Where the server's device doesn't see the CPU's caches, the CPU may still hold what the memory was before.
 * So the server says what it is going to read: dat_lmr_sync_rdma_write(), after the peer has written and
 * before the program looks. Elsewhere it costs nanoseconds; a program that always calls it is right
 * everywhere. SLUICE_COHERENCE=simulated shows on any machine what becomes of one that doesn't.
 */
#include <stdio.h>
#include <string.h>

#include "../dat-common/common.h"

enum { SIZE = 64 * 1024, ROUNDS = 4 };

/* Bytes that differ from place to place and from round to round. */
static char byte_at(int i, int round) {
    return (char)(i * 31 + (i >> 8) + round * 7);
}

static void serve(struct side* side, const struct arguments* arguments) {
    struct region target = make_region(side, SIZE,
                                       DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG |
                                           DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
    struct region message = make_region(side, 8, DAT_MEM_PRIV_ALL_FLAG);
    struct offer offer = make_offer(&target);
    DAT_EP_HANDLE ep = make_endpoint(side);
    post_receive(ep, &message, 0, 8, 0);
    DAT_PSP_HANDLE listener = listen_at(side, arguments->qualifier);
    accept_request(side, ep, &offer);
    for (int round = 0; round < ROUNDS; ++round) {
        const DAT_LMR_TRIPLET written = part_of(&target, 0, SIZE);
        int right = 0;
        await_transfer(side->receives,
                       0); /* what was written before the message is there when the message is */
        must(dat_lmr_sync_rdma_write(side->ia, &written, 1));
        for (int i = 0; i < SIZE; ++i) {
            right += target.memory[i] == byte_at(i, round);
        }
        printf("round %d: %d of %d bytes are right\n", round, right, SIZE);
        require(right == SIZE, "the server sees something else than was written");
        if (round + 1 < ROUNDS) {
            post_receive(ep, &message, 0, 8, 0);
        }
        send_bytes(side, ep, &message, 0, 1); /* the next one may come */
    }
    await_end(side, ep);
    must(dat_psp_free(listener));
    free_region(&message);
    free_region(&target);
}

static void write_to(struct side* side, const struct arguments* arguments) {
    struct region source = make_region(side, SIZE, DAT_MEM_PRIV_LOCAL_READ_FLAG);
    struct region message = make_region(side, 8, DAT_MEM_PRIV_ALL_FLAG);
    struct offer offer;
    DAT_EP_HANDLE ep = make_endpoint(side);
    connect_to(side, ep, arguments, &offer);
    require(offer.size == SIZE, "the server has another size");
    for (int round = 0; round < ROUNDS; ++round) {
        /* The local side of a transfer needs no sync call: that is the provider's to know. */
        DAT_LMR_TRIPLET part = part_of(&source, 0, SIZE);
        DAT_RMR_TRIPLET remote;
        for (int i = 0; i < SIZE; ++i) {
            source.memory[i] = byte_at(i, round);
        }
        remote.rmr_context = offer.key;
        remote.pad = 0;
        remote.target_address = offer.address;
        remote.segment_length = offer.size;
        post_receive(ep, &message, 0, 8, 0);
        /* Without a completion if all goes well: that of the message comes after it. */
        must(dat_ep_post_rdma_write(ep, 1, &part, cookie_of(1), &remote, DAT_COMPLETION_SUPPRESS_FLAG));
        send_bytes(side, ep, &message, 0, 1);
        await_transfer(side->receives, 0);
        printf("round %d: the server has seen it\n", round);
    }
    end_connection(side, ep);
    free_region(&message);
    free_region(&source);
}

int main(int argc, char** argv) {
    const struct arguments arguments = parse(argc, argv);
    struct side side = open_side(arguments.adapter);
    (arguments.is_server ? serve : write_to)(&side, &arguments);
    close_side(&side);
    printf("done\n");
    return 0;
}
