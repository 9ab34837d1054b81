/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What Sluice's librpma adds: the client writes a record that lies in pieces in its memory, and that is one
 * at the server.
 */
#include <sluice/rpma.h>
#include <stdio.h>
#include <string.h>

#include "../rpma-common/common.h"

static const size_t kSize = 4096;
static const char kRecord[] = "header body end";

static void serve(struct rpma_peer* peer, const struct arguments* arguments) {
    char* memory = make_pages(kSize);
    struct rpma_mr_local* region = NULL;
    must(rpma_mr_reg(peer, memory, kSize, RPMA_MR_USAGE_WRITE_DST, &region));
    struct offer offer = make_offer(region, false);
    struct rpma_ep* ep = listen_at(peer, arguments);
    struct rpma_conn_req* request = NULL;
    must(rpma_ep_next_conn_req(ep, NULL, &request));
    struct rpma_conn* conn = accept_request(request, &offer, sizeof offer);
    await_end(conn);
    printf("written: %s\n", memory);
    require(strcmp(memory, kRecord) == 0, "something else was written");
    must(rpma_ep_shutdown(&ep));
    must(rpma_mr_dereg(&region));
}

/* A connection whose requests may have three pieces. */
static struct rpma_conn* connect_for_pieces(struct rpma_peer* peer, const struct arguments* arguments) {
    struct rpma_conn_cfg* config = NULL;
    must(rpma_conn_cfg_new(&config));
    must(rpma_conn_cfg_set_max_pieces(config, 3));
    struct rpma_conn* conn = connect_with(peer, arguments, config);
    must(rpma_conn_cfg_delete(&config));
    return conn;
}

/* Writes WRITES times, and sleeps only where nothing has completed. Notifications are acknowledged at the
 * end. */
static void write_often(struct rpma_conn* conn, struct rpma_mr_remote* to, const struct rpma_piece* piece,
                        int writes) {
    struct rpma_cq* cq = NULL;
    must(rpma_conn_get_cq(conn, &cq));
    unsigned events = 0;
    for (int i = 0; i < writes; ++i) {
        must(rpma_write_pieces(conn, to, 2048, piece, 1, RPMA_F_COMPLETION_ALWAYS, NULL));
        struct ibv_wc wc;
        int code = rpma_cq_get_wc(cq, 1, &wc, NULL);
        while (code == RPMA_E_NO_COMPLETION) {
            must(rpma_cq_arm(cq));
            code = rpma_cq_get_wc(cq, 1, &wc, NULL); /* what came before it was armed tells nobody */
            if (code == RPMA_E_NO_COMPLETION) {
                must(rpma_cq_next_event(cq));
                ++events;
            }
        }
        must_succeed(code, "rpma_cq_get_wc");
    }
    if (events != 0) {
        must(rpma_cq_ack_events(cq, events));
    }
}

/* The same bytes twice with one doorbell; the last alone tells that both are done. */
static void write_twice(struct rpma_conn* conn, const struct rpma_mr_remote* to,
                        const struct rpma_mr_local* from) {
    const struct rpma_write_args writes[] = {
        {to, 3000, from, 0, 7, RPMA_F_COMPLETION_ON_ERROR, NULL},
        {to, 3007, from, 0, 7, RPMA_F_COMPLETION_ALWAYS, to},
    };
    must(rpma_write_many(conn, writes, 2, NULL));
    await(conn, to);
}

/* Takes the next completion, which is awaited in the same call. */
static void await_one(const struct rpma_conn* conn, const void* op_context) {
    struct rpma_cq* cq = NULL;
    must(rpma_conn_get_cq(conn, &cq));
    struct ibv_wc wc;
    must(rpma_cq_wait_wc(cq, 1, &wc, NULL));
    require(wc.status == IBV_WC_SUCCESS && wc.wr_id == (uintptr_t)op_context, "the write has failed");
}

static void write_to(struct rpma_peer* peer, const struct arguments* arguments) {
    char* memory = make_pages(kSize);
    memcpy(memory, "header ", 7);
    memcpy(memory + 1000, "body ", 5);
    memcpy(memory + 2000, "end", sizeof "end");
    struct rpma_mr_local* region = NULL;
    must(rpma_mr_reg(peer, memory, kSize, RPMA_MR_USAGE_WRITE_SRC, &region));
    struct rpma_conn* conn = connect_for_pieces(peer, arguments);
    struct rpma_mr_remote* remote = take_offer(conn);
    const struct rpma_piece pieces[] = {{region, 0, 7}, {region, 1000, 5}, {region, 2000, sizeof "end"}};
    must(rpma_write_pieces(conn, remote, 0, pieces, 3, RPMA_F_COMPLETION_ALWAYS, memory));
    await_one(conn, memory);
    write_often(conn, remote, pieces, 100);
    write_twice(conn, remote, region);
    must(rpma_mr_remote_delete(&remote));
    end(conn);
    must(rpma_mr_dereg(&region));
}

int main(int argc, char** argv) {
    const struct arguments arguments = parse(argc, argv);
    struct rpma_peer* peer = open_peer(&arguments);
    (arguments.is_server ? serve : write_to)(peer, &arguments);
    must(rpma_peer_delete(&peer));
    printf("done\n");
    return 0;
}
