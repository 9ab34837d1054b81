/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection: how it comes about, what the sides tell each other with it, and how it ends.
 */
#include <stdio.h>

#include "../rpma-common/common.h"

static void show_peers_data(const struct rpma_conn* conn) {
    struct rpma_conn_private_data data;
    must(rpma_conn_get_private_data(conn, &data));
    /* The length is the message's, not the text's; and the peer may be anybody. */
    printf("the peer says: %.*s\n", (int)data.len, (const char*)data.ptr);
}

int main(int argc, char** argv) {
    const struct arguments arguments = parse(argc, argv);
    struct rpma_peer* peer = open_peer(&arguments);
    if (arguments.is_server) {
        struct rpma_ep* ep = listen_at(peer, &arguments);
        struct rpma_conn_req* request = NULL;
        must(rpma_ep_next_conn_req(ep, NULL, &request));
        char hello[] = "hello from the server";
        struct rpma_conn* conn = accept_request(request, hello, sizeof hello);
        show_peers_data(conn);
        await_end(conn);
        must(rpma_ep_shutdown(&ep));
    } else {
        char hello[] = "hello from the client";
        struct rpma_conn* conn = connect_to(peer, &arguments, hello, sizeof hello);
        show_peers_data(conn);
        end(conn);
    }
    must(rpma_peer_delete(&peer));
    printf("done\n");
    return 0;
}
