/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client writes to the server's memory, tells it so with the last bytes, and the server looks.
 */
#include <stdio.h>
#include <string.h>

#include "../rpma-common/common.h"

static const size_t kSize = 4096;
static const char kText[] = "what the client has written";
static const uint32_t kNews = 7;

static void serve(struct rpma_peer* peer, const struct arguments* arguments) {
    char* memory = make_pages(kSize);
    struct rpma_mr_local* region = NULL;
    must(rpma_mr_reg(peer, memory, kSize, RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_RECV, &region));
    struct offer offer = make_offer(region, false);
    struct rpma_ep* ep = listen_at(peer, arguments);
    struct rpma_conn_req* request = NULL;
    must(rpma_ep_next_conn_req(ep, NULL, &request));
    /* A write with a number takes a receive, which is told the number; its memory isn't used. */
    must(rpma_conn_req_recv(request, region, 0, 0, memory));
    struct rpma_conn* conn = accept_request(request, &offer, sizeof offer);
    await(conn, memory);
    printf("written: %s\n", memory);
    require(strcmp(memory, kText) == 0, "something else was written");
    await_end(conn);
    must(rpma_ep_shutdown(&ep));
    must(rpma_mr_dereg(&region));
}

static void write_to(struct rpma_peer* peer, const struct arguments* arguments) {
    char* memory = make_pages(kSize);
    memcpy(memory, kText, sizeof kText);
    struct rpma_mr_local* region = NULL;
    must(rpma_mr_reg(peer, memory, kSize, RPMA_MR_USAGE_WRITE_SRC, &region));
    struct rpma_conn* conn = connect_to(peer, arguments, NULL, 0);
    struct rpma_mr_remote* remote = take_offer(conn);
    /* Nobody waits for the first half: what comes later on a connection arrives later. */
    must(rpma_write(conn, remote, 0, region, 0, 10, RPMA_F_COMPLETION_ON_ERROR, NULL));
    must(rpma_write_with_imm(conn, remote, 10, region, 10, sizeof kText - 10, RPMA_F_COMPLETION_ALWAYS, kNews,
                             memory));
    await(conn, memory);
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
