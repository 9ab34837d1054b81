/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages: the client asks, the server answers, ten times. A message needs a receive that is posted before
 * it comes.
 */
#include <stdio.h>
#include <string.h>

#include "../rpma-common/common.h"

enum { kRounds = 10, kMessage = 64 };

/* One half of the memory is for what comes, the other for what goes. */
static struct rpma_mr_local* register_both(struct rpma_peer* peer, char** memory) {
    *memory = make_pages((size_t)2 * kMessage);
    struct rpma_mr_local* region = NULL;
    must(rpma_mr_reg(peer, *memory, (size_t)2 * kMessage, RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV, &region));
    return region;
}

static void serve(struct rpma_peer* peer, const struct arguments* arguments) {
    char* memory = NULL;
    struct rpma_mr_local* region = register_both(peer, &memory);
    struct rpma_ep* ep = listen_at(peer, arguments);
    struct rpma_conn_req* request = NULL;
    must(rpma_ep_next_conn_req(ep, NULL, &request));
    must(rpma_conn_req_recv(request, region, 0, kMessage, memory));
    struct rpma_conn* conn = accept_request(request, NULL, 0);
    for (int round = 0; round < kRounds; ++round) {
        await(conn, memory);
        int number = 0;
        memcpy(&number, memory, sizeof number);
        snprintf(memory + kMessage, kMessage, "%d times %d is %d", number, number, number * number);
        if (round + 1 < kRounds) { /* before the answer, which the client answers */
            must(rpma_recv(conn, region, 0, kMessage, memory));
        }
        must(rpma_send(conn, region, kMessage, kMessage, RPMA_F_COMPLETION_ON_ERROR, NULL));
    }
    await_end(conn);
    must(rpma_ep_shutdown(&ep));
    must(rpma_mr_dereg(&region));
}

static void ask(struct rpma_peer* peer, const struct arguments* arguments) {
    char* memory = NULL;
    struct rpma_mr_local* region = register_both(peer, &memory);
    struct rpma_conn* conn = connect_to(peer, arguments, NULL, 0);
    for (int round = 0; round < kRounds; ++round) {
        memcpy(memory + kMessage, &round, sizeof round);
        must(rpma_recv(conn, region, 0, kMessage, memory));
        must(rpma_send(conn, region, kMessage, kMessage, RPMA_F_COMPLETION_ON_ERROR, NULL));
        await(conn, memory);
        printf("%.*s\n", kMessage, memory);
        char expected[kMessage];
        snprintf(expected, sizeof expected, "%d times %d is %d", round, round, round * round);
        require(strncmp(memory, expected, kMessage) == 0, "another answer");
    }
    end(conn);
    must(rpma_mr_dereg(&region));
}

int main(int argc, char** argv) {
    const struct arguments arguments = parse(argc, argv);
    struct rpma_peer* peer = open_peer(&arguments);
    (arguments.is_server ? serve : ask)(peer, &arguments);
    must(rpma_peer_delete(&peer));
    printf("done\n");
    return 0;
}
