/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What Sluice's librpma adds: the client writes records and asks the server to make each of them persistent.
 * The server's CPU does so, and a responder has all the code for that. It works where a device's writes may
 * stay in the server's caches, which is the rule.
 */
#include <sluice/rpma.h>
#include <stdio.h>
#include <string.h>

#include "../rpma-common/common.h"
#include "../rpma-common/mapping.h"

enum { RECORDS = 10, RECORD = 64, DEPTH = 4, REQUEST = 27, ANSWER = 9 };
static const size_t kSize = 4096;

static struct rpma_conn_cfg* make_config(void) {
    struct rpma_conn_cfg* config = NULL;
    must(rpma_conn_cfg_new(&config));
    must(rpma_conn_cfg_set_cq_size(config, 2 * DEPTH)); /* requests, and answers */
    must(rpma_conn_cfg_set_sq_size(config, DEPTH));
    must(rpma_conn_cfg_set_rq_size(config, DEPTH));
    return config;
}

/* Until the client has asked for nothing, which is the last message. */
static void respond(struct rpma_responder* responder, struct rpma_conn* conn) {
    struct rpma_cq* cq = NULL;
    must(rpma_conn_get_cq(conn, &cq));
    struct rpma_responder_request request = {false, 0, 0, 0};
    while (!request.answered || request.len != 0) {
        struct ibv_wc wc;
        must(rpma_cq_wait_wc(cq, 1, &wc, NULL));
        must(rpma_responder_handle_wc(responder, conn, &wc, &request));
    }
}

static void serve(struct rpma_peer* peer, const struct arguments* arguments) {
    struct mapping mapping = map_file(arguments->file, kSize);
    struct rpma_mr_local* region = NULL;
    must(rpma_mr_reg(peer, mapping.memory, mapping.size, RPMA_MR_USAGE_WRITE_DST, &region));
    struct rpma_responder* responder = NULL;
    const int flags = mapping.is_persistent ? 0 : RPMA_RESPONDER_ANY_MEMORY;
    must(rpma_responder_new(peer, region, DEPTH, flags, &responder));
    struct rpma_ep* ep = listen_at(peer, arguments);
    struct rpma_conn_cfg* config = make_config();
    struct rpma_conn_req* request = NULL;
    must(rpma_ep_next_conn_req(ep, config, &request));
    must(rpma_responder_start(responder, request));
    struct offer offer = make_offer(region, false);
    struct rpma_conn* conn = accept_request(request, &offer, sizeof offer);
    respond(responder, conn);
    await_end(conn);
    for (int i = 0; i < RECORDS; ++i) {
        printf("%s\n", mapping.memory + (size_t)i * RECORD);
    }
    printf("%s\n", mapping.is_persistent ? "they survive a loss of power" : "they are visible");
    must(rpma_responder_delete(&responder));
    must(rpma_conn_cfg_delete(&config));
    must(rpma_ep_shutdown(&ep));
    must(rpma_mr_dereg(&region));
}

/* A field of protobuf's type fixed64. */
static char* put_field(char* to, unsigned field, uint64_t value) {
    *to++ = (char)(field << 3 | 1);
    for (int i = 0; i < 8; ++i) {
        *to++ = (char)(value >> (8 * i));
    }
    return to;
}

/* The client's side of a connection: where records, requests and answers lie in its memory. */
struct client {
    struct rpma_conn* conn;
    struct rpma_mr_local* region;
    char* memory;
};
enum { REQUEST_AT = 1024, ANSWER_AT = 2048 };

/* Asks the server to make LEN bytes at OFFSET persistent, and waits for the answer. */
static void make_persistent(const struct client* client, uint64_t offset, uint64_t len, uint64_t op_context) {
    char* to = client->memory + REQUEST_AT;
    to = put_field(to, 1, offset);
    to = put_field(to, 2, len);
    put_field(to, 3, op_context);
    must(rpma_recv(client->conn, client->region, ANSWER_AT, ANSWER, client));
    must(rpma_send(client->conn, client->region, REQUEST_AT, REQUEST, RPMA_F_COMPLETION_ON_ERROR, NULL));
    await(client->conn, client);
    char expected[ANSWER];
    put_field(expected, 1, op_context);
    require(memcmp(client->memory + ANSWER_AT, expected, ANSWER) == 0, "another answer");
}

static void write_records(const struct client* client, struct rpma_mr_remote* to) {
    for (int i = 0; i < RECORDS; ++i) {
        snprintf(client->memory, RECORD, "record %d", i);
        const size_t offset = (size_t)i * RECORD;
        must(rpma_write(client->conn, to, offset, client->region, 0, RECORD, RPMA_F_COMPLETION_ON_ERROR,
                        NULL));
        make_persistent(client, offset, RECORD, (uint64_t)i);
    }
    make_persistent(client, 0, 0, RECORDS);
}

static void write_to(struct rpma_peer* peer, const struct arguments* arguments) {
    struct client client = {NULL, NULL, make_pages(kSize)};
    must(rpma_mr_reg(peer, client.memory, kSize,
                     RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV, &client.region));
    struct rpma_conn_cfg* config = make_config();
    client.conn = connect_with(peer, arguments, config);
    struct rpma_mr_remote* remote = take_offer(client.conn);
    write_records(&client, remote);
    must(rpma_mr_remote_delete(&remote));
    must(rpma_conn_cfg_delete(&config));
    end(client.conn);
    must(rpma_mr_dereg(&client.region));
}

int main(int argc, char** argv) {
    const struct arguments arguments = parse(argc, argv);
    struct rpma_peer* peer = open_peer(&arguments);
    (arguments.is_server ? serve : write_to)(peer, &arguments);
    must(rpma_peer_delete(&peer));
    printf("done\n");
    return 0;
}
