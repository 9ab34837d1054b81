/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protocols of librpma for a peer's memory that lasts: each wrong in one way, with its corrected twin. The
 * command line is local.c's. The writer is two processes, at the address of TEST_ADDRESS: the server has the
 * memory, its child writes there.
 */
#include <sluice/rpma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"
#include "examples/rpma-common/common.h"

enum { kDepth = 4, kRequest = 27, kAnswer = 9, kItems = 3, kMessages = sizeof(struct memory) };

static const size_t kLocalSize = sizeof(struct memory) + 4096;

enum { kWrite, kFlush, kAsk, kAnswered, kRequests };

/* The side that writes: a copy of what it has written, and behind it room for messages. */
struct client {
    struct rpma_conn* conn;
    struct rpma_mr_local* region;
    struct rpma_mr_remote* remote;
    char* bytes;
    struct memory* copy;
    unsigned completed[kRequests]; /* that nobody has waited for yet */
};

typedef void client_fn(struct client* client, bool right);

static struct rpma_conn_cfg* make_config(void) {
    struct rpma_conn_cfg* config = NULL;
    must(rpma_conn_cfg_new(&config));
    must(rpma_conn_cfg_set_cq_size(config, 4 * kDepth));
    must(rpma_conn_cfg_set_sq_size(config, 2 * kDepth));
    must(rpma_conn_cfg_set_rq_size(config, kDepth));
    return config;
}

static struct arguments arguments_of(bool is_server) {
    const char* address = getenv("TEST_ADDRESS");
    require(address != NULL, "start this by own_loopback");
    const struct arguments arguments = {is_server, address, "7777", NULL};
    return arguments;
}

/* Answers requests until one is for nothing, which is each client's last. */
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

static void serve(struct memory* memory, int listening) {
    const struct arguments arguments = arguments_of(true);
    struct rpma_peer* peer = open_peer(&arguments);
    struct rpma_mr_local* region = NULL;
    must(rpma_mr_reg(peer, memory, sizeof *memory,
                     RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY |
                         RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT,
                     &region));
    struct rpma_responder* responder = NULL;
    must(rpma_responder_new(peer, region, kDepth, 0, &responder));
    struct rpma_ep* ep = listen_at(peer, &arguments);
    close(listening);
    struct rpma_conn_cfg* config = make_config();
    struct rpma_conn_req* request = NULL;
    must(rpma_ep_next_conn_req(ep, config, &request));
    must(rpma_responder_start(responder, request));
    struct offer offer = make_offer(region, true);
    struct rpma_conn* conn = accept_request(request, &offer, sizeof offer);
    respond(responder, conn);
    await_end(conn);
    must(rpma_responder_delete(&responder));
    must(rpma_conn_cfg_delete(&config));
    must(rpma_ep_shutdown(&ep));
    must(rpma_mr_dereg(&region));
    must(rpma_peer_delete(&peer));
}

/* A field of protobuf's type fixed64. */
static char* put_field(char* to, unsigned field, uint64_t value) {
    *to++ = (char)(field << 3 | 1);
    for (int i = 0; i < 8; ++i) {
        *to++ = (char)(value >> (8 * i));
    }
    return to;
}

/* For one completion of that kind; others may come before it. */
static void wait_for(struct client* client, int kind) {
    struct rpma_cq* cq = NULL;
    must(rpma_conn_get_cq(client->conn, &cq));
    while (client->completed[kind] == 0) {
        struct ibv_wc wc;
        must(rpma_cq_wait_wc(cq, 1, &wc, NULL));
        require(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
        ++*(unsigned*)(uintptr_t)wc.wr_id;
    }
    --client->completed[kind];
}

/* Asks the server to make LENGTH bytes at OFFSET persistent. Two completions come: kAsk and kAnswered. */
static void ask(struct client* client, uint64_t offset, uint64_t length) {
    char* to = client->bytes + kMessages;
    to = put_field(to, 1, offset);
    to = put_field(to, 2, length);
    put_field(to, 3, 1);
    must(rpma_recv(client->conn, client->region, kMessages + kRequest, kAnswer,
                   &client->completed[kAnswered]));
    must(rpma_send(client->conn, client->region, kMessages, kRequest, RPMA_F_COMPLETION_ALWAYS,
                   &client->completed[kAsk]));
}

static void put(struct client* client, size_t offset, size_t length, int flags) {
    must(rpma_write(client->conn, client->remote, offset, client->region, offset, length, flags,
                    &client->completed[kWrite]));
}

static void flush(struct client* client, size_t offset, size_t length, enum rpma_flush_type type) {
    must(rpma_flush(client->conn, client->remote, offset, length, type, RPMA_F_COMPLETION_ALWAYS,
                    &client->completed[kFlush]));
}

static size_t offset_of_item(uint64_t i) {
    return offsetof(struct memory, items) + i * sizeof(struct item);
}

static void put_item(struct client* client, uint64_t i, int flags) {
    store_item(client->copy->items[i].words, i + 1);
    put(client, offset_of_item(i), sizeof(struct item), flags);
}

static void write_to(client_fn* write, bool right) {
    const struct arguments arguments = arguments_of(false);
    struct rpma_peer* peer = open_peer(&arguments);
    char* bytes = make_pages(kLocalSize);
    struct client client = {NULL, NULL, NULL, bytes, (struct memory*)bytes, {0}};
    must(rpma_mr_reg(peer, bytes, kLocalSize,
                     RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_SEND |
                         RPMA_MR_USAGE_RECV,
                     &client.region));
    struct rpma_conn_cfg* config = make_config();
    client.conn = connect_with(peer, &arguments, config);
    client.remote = take_offer(client.conn);
    write(&client, right);
    ask(&client, 0, 0);
    wait_for(&client, kAsk);
    wait_for(&client, kAnswered);
    must(rpma_mr_remote_delete(&client.remote));
    must(rpma_conn_cfg_delete(&config));
    end(client.conn);
    must(rpma_mr_dereg(&client.region));
    must(rpma_peer_delete(&peer));
}

static void run_pair(struct memory* memory, bool right, client_fn* write) {
    int ends[2];
    demand(pipe(ends) == 0, "no pipe");
    const pid_t child = fork();
    demand(child >= 0, "no process");
    if (child == 0) {
        char nothing = 0;
        close(ends[1]);
        demand(read(ends[0], &nothing, 1) == 0,
               "the server doesn't listen"); /* until it has closed its end */
        write_to(write, right);
        exit(0);
    }
    close(ends[0]);
    serve(memory, ends[1]);
    int status = 0;
    demand(waitpid(child, &status, 0) == child && status == 0, "the client has failed");
}

static const char* check_told_items(const struct memory* found, bool right) {
    (void)right;
    for (uint64_t i = 0; i < told(); ++i) {
        if (!is_item(found->items[i].words, i + 1)) {
            return "an item is missing that was told to be there";
        }
    }
    return NULL;
}

static const char* check_flag(const struct memory* found, bool right) {
    (void)right;
    for (uint64_t i = 0; i < found->head[0]; ++i) {
        if (!is_item(found->items[i].words, i + 1)) {
            return "an item is missing that the head counts";
        }
    }
    return NULL;
}

/* A flush that makes others see, and nothing durable. */
static void put_visibly(struct client* client, bool right) {
    for (uint64_t i = 0; i < kItems; ++i) {
        put_item(client, i, RPMA_F_COMPLETION_ON_ERROR);
        flush(client, offset_of_item(i), sizeof(struct item),
              right ? RPMA_FLUSH_TYPE_PERSISTENT : RPMA_FLUSH_TYPE_VISIBILITY);
        wait_for(client, kFlush);
        tell(i + 1);
    }
}

/* A flush of the item before. */
static void put_beside(struct client* client, bool right) {
    for (uint64_t i = 1; i <= kItems; ++i) {
        put_item(client, i - 1, RPMA_F_COMPLETION_ON_ERROR);
        flush(client, offset_of_item(right ? i - 1 : i), sizeof(struct item), RPMA_FLUSH_TYPE_PERSISTENT);
        wait_for(client, kFlush);
        tell(i);
    }
}

/* The write's completion is taken for the flush's. */
static void put_hastily(struct client* client, bool right) {
    for (uint64_t i = 0; i < kItems; ++i) {
        put_item(client, i, RPMA_F_COMPLETION_ALWAYS);
        flush(client, offset_of_item(i), sizeof(struct item), RPMA_FLUSH_TYPE_PERSISTENT);
        wait_for(client, kWrite);
        if (!right) {
            tell(i + 1);
        }
        wait_for(client, kFlush);
        tell(i + 1);
    }
}

/* One flush for an item and for the word that counts it. */
static void put_counted(struct client* client, bool right) {
    for (uint64_t i = 0; i < kItems; ++i) {
        put_item(client, i, RPMA_F_COMPLETION_ON_ERROR);
        if (right) {
            flush(client, offset_of_item(i), sizeof(struct item), RPMA_FLUSH_TYPE_PERSISTENT);
            wait_for(client, kFlush);
        }
        const uint64_t count = i + 1;
        must(rpma_atomic_write(client->conn, client->remote, 0, (const char*)&count,
                               RPMA_F_COMPLETION_ON_ERROR, NULL));
        flush(client, 0, sizeof(struct memory), RPMA_FLUSH_TYPE_PERSISTENT);
        wait_for(client, kFlush);
    }
}

/* The server is asked to flush, and its answer isn't awaited. */
static void ask_hastily(struct client* client, bool right) {
    for (uint64_t i = 0; i < kItems; ++i) {
        put_item(client, i, RPMA_F_COMPLETION_ON_ERROR);
        ask(client, offset_of_item(i), sizeof(struct item));
        wait_for(client, kAsk);
        if (!right) {
            tell(i + 1);
        }
        wait_for(client, kAnswered);
        tell(i + 1);
    }
}

/* The server is asked to flush half of the item. */
static void ask_for_half(struct client* client, bool right) {
    for (uint64_t i = 0; i < kItems; ++i) {
        put_item(client, i, RPMA_F_COMPLETION_ON_ERROR);
        ask(client, offset_of_item(i), right ? sizeof(struct item) : sizeof(struct item) / 2);
        wait_for(client, kAsk);
        wait_for(client, kAnswered);
        tell(i + 1);
    }
}

/* Eight bytes, as librpma does where a device has no flush. */
static void read_behind(struct client* client, uint64_t i) {
    must(rpma_read(client->conn, client->region, kMessages, client->remote, offset_of_item(i),
                   sizeof(uint64_t), RPMA_F_COMPLETION_ALWAYS, &client->completed[kFlush]));
    wait_for(client, kFlush);
}

/* A Read for a flush, where the target's caches get what is written. */
static void put_and_read(struct client* client, bool right) {
    for (uint64_t i = 0; i < kItems; ++i) {
        put_item(client, i, RPMA_F_COMPLETION_ON_ERROR);
        read_behind(client, i);
        if (right) {
            flush(client, offset_of_item(i), sizeof(struct item), RPMA_FLUSH_TYPE_PERSISTENT);
            wait_for(client, kFlush);
        }
        tell(i + 1);
    }
}

/* No Read, where the caches get nothing. */
static void put_without_read(struct client* client, bool right) {
    for (uint64_t i = 0; i < kItems; ++i) {
        put_item(client, i, RPMA_F_COMPLETION_ALWAYS);
        wait_for(client, kWrite);
        if (right) {
            read_behind(client, i);
        }
        tell(i + 1);
    }
}

static void write_and_read(struct memory* to, bool right) {
    run_pair(to, right, put_and_read);
}
static void write_without_read(struct memory* to, bool right) {
    run_pair(to, right, put_without_read);
}
static void write_visibly(struct memory* to, bool right) {
    run_pair(to, right, put_visibly);
}
static void write_beside(struct memory* to, bool right) {
    run_pair(to, right, put_beside);
}
static void write_hastily(struct memory* to, bool right) {
    run_pair(to, right, put_hastily);
}
static void write_counted(struct memory* to, bool right) {
    run_pair(to, right, put_counted);
}
static void write_asked_hastily(struct memory* to, bool right) {
    run_pair(to, right, ask_hastily);
}
static void write_asked_for_half(struct memory* to, bool right) {
    run_pair(to, right, ask_for_half);
}

static const struct protocol kProtocols[] = {
    {"flush-for-visibility", write_visibly, check_told_items, NULL},
    {"flush-of-another-range", write_beside, check_told_items, NULL},
    {"completion-of-the-write", write_hastily, check_told_items, NULL},
    {"one-flush-for-two", write_counted, check_flag, NULL},
    {"answer-not-awaited", write_asked_hastily, check_told_items, NULL},
    {"asked-for-half", write_asked_for_half, check_told_items, NULL},
    {"read-for-flush", write_and_read, check_told_items, NULL},
    {"no-read", write_without_read, check_told_items, "--no-ddio"},
    {NULL, NULL, NULL, NULL},
};

int main(int argc, char** argv) {
    return run_protocol(kProtocols, argc, argv);
}
