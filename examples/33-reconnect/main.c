/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What Sluice's librpma adds: the server ends the connection in the middle of the client's work, and the
 * client connects again, with the same configuration and private data, and goes on. The first time it
 * connects without waiting in a call.
 */
#include <poll.h>
#include <sluice/rpma.h>
#include <stdio.h>
#include <string.h>

#include "../rpma-common/common.h"

enum { CONNECTIONS = 3, LINE = 64 };
static const size_t kSize = 4096;
static char name[] = "client 7"; /* the client's private data */

/* Accepts the client, waits for its message, and leaves. */
static void serve_once(struct rpma_ep* ep, struct rpma_mr_local* region, struct offer* offer, int number) {
    struct rpma_conn_req* request = NULL;
    must(rpma_ep_next_conn_req(ep, NULL, &request));
    struct rpma_conn_private_data data;
    must(rpma_conn_req_get_private_data(request, &data));
    require(data.len >= sizeof name && memcmp(data.ptr, name, sizeof name) == 0, "an unknown client");
    must(rpma_conn_req_recv(request, region, (size_t)number * LINE, LINE, region));
    struct rpma_conn* conn = accept_request(request, offer, sizeof *offer);
    await(conn, region);
    end(conn);
}

static void serve(struct rpma_peer* peer, const struct arguments* arguments) {
    char* memory = make_pages(kSize);
    struct rpma_mr_local* region = NULL;
    must(rpma_mr_reg(peer, memory, kSize, RPMA_MR_USAGE_RECV, &region));
    struct offer offer = make_offer(region, false);
    struct rpma_ep* ep = listen_at(peer, arguments);
    for (int i = 0; i < CONNECTIONS; ++i) {
        serve_once(ep, region, &offer, i);
        printf("message: %s\n", memory + (size_t)i * LINE);
    }
    require(strcmp(memory + 2 * LINE, "message 2") == 0, "another message has come");
    must(rpma_ep_shutdown(&ep));
    must(rpma_mr_dereg(&region));
}

static void await_event(struct rpma_conn* conn, enum rpma_conn_event wanted) {
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    must(rpma_conn_next_event(conn, &event));
    require(event == wanted, rpma_utils_conn_event_2str(event));
}

/* A new connection in the place of CONN, which the server has ended. */
static struct rpma_conn* connect_again(struct rpma_conn* conn) {
    struct rpma_conn* next = NULL;
    must(rpma_conn_reconnect(conn, &next));
    must(rpma_conn_delete(&conn));
    await_event(next, RPMA_CONN_ESTABLISHED);
    return next;
}

/* Waits in poll(), where a program may have other descriptors, too. */
static struct rpma_conn* connect_by_steps(struct rpma_peer* peer, const struct arguments* arguments) {
    struct rpma_conn_req* request = NULL;
    must(rpma_conn_req_new_async(peer, arguments->address, arguments->port, NULL, &request));
    enum rpma_conn_req_step step = RPMA_CONN_REQ_ADDRESS_FOUND;
    do {
        struct pollfd wanted = {-1, POLLIN, 0};
        must(rpma_conn_req_get_event_fd(request, &wanted.fd));
        require(poll(&wanted, 1, -1) == 1, "poll");
        must(rpma_conn_req_next_step(request, &step));
    } while (step != RPMA_CONN_REQ_PATH_FOUND);
    const struct rpma_conn_private_data data = {name, sizeof name};
    struct rpma_conn* conn = NULL;
    must(rpma_conn_req_connect(&request, &data, &conn));
    await_event(conn, RPMA_CONN_ESTABLISHED);
    return conn;
}

static void send_often(struct rpma_peer* peer, const struct arguments* arguments) {
    char* memory = make_pages(kSize);
    struct rpma_mr_local* region = NULL;
    must(rpma_mr_reg(peer, memory, kSize, RPMA_MR_USAGE_SEND, &region));
    struct rpma_conn* conn = connect_by_steps(peer, arguments);
    for (int i = 0; i < CONNECTIONS; ++i) {
        if (i > 0) {
            conn = connect_again(conn);
        }
        snprintf(memory, LINE, "message %d", i);
        must(rpma_send(conn, region, 0, LINE, RPMA_F_COMPLETION_ALWAYS, memory));
        await(conn, memory);
        await_event(conn, RPMA_CONN_CLOSED);
    }
    must(rpma_conn_disconnect(conn));
    must(rpma_conn_delete(&conn));
    must(rpma_mr_dereg(&region));
}

int main(int argc, char** argv) {
    const struct arguments arguments = parse(argc, argv);
    struct rpma_peer* peer = open_peer(&arguments);
    (arguments.is_server ? serve : send_often)(peer, &arguments);
    must(rpma_peer_delete(&peer));
    printf("done\n");
    return 0;
}
