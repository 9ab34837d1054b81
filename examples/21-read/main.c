/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client reads from the server's memory. The server does nothing for it but to have registered that.
 */
#include <stdio.h>
#include <string.h>

#include "../rpma-common/common.h"

static const size_t kSize = 4096;

static void serve(struct rpma_peer* peer, const struct arguments* arguments) {
    char* memory = make_pages(kSize);
    strcpy(memory, "what the server's memory holds");
    struct rpma_mr_local* region = NULL;
    must(rpma_mr_reg(peer, memory, kSize, RPMA_MR_USAGE_READ_SRC, &region));
    struct offer offer = make_offer(region, false);
    struct rpma_ep* ep = listen_at(peer, arguments);
    struct rpma_conn_req* request = NULL;
    must(rpma_ep_next_conn_req(ep, NULL, &request));
    await_end(accept_request(request, &offer, sizeof offer));
    must(rpma_ep_shutdown(&ep));
    must(rpma_mr_dereg(&region));
}

static void read_from(struct rpma_peer* peer, const struct arguments* arguments) {
    char* memory = make_pages(kSize);
    struct rpma_mr_local* region = NULL;
    must(rpma_mr_reg(peer, memory, kSize, RPMA_MR_USAGE_READ_DST, &region));
    struct rpma_conn* conn = connect_to(peer, arguments, NULL, 0);
    struct rpma_mr_remote* remote = take_offer(conn);
    size_t size = 0;
    must(rpma_mr_remote_get_size(remote, &size));
    require(size == kSize, "the server has another size");
    must(rpma_read(conn, region, 0, remote, 0, size, RPMA_F_COMPLETION_ALWAYS, memory));
    await(conn, memory);
    printf("read: %s\n", memory);
    require(strcmp(memory, "what the server's memory holds") == 0, "something else was read");
    must(rpma_mr_remote_delete(&remote));
    end(conn);
    must(rpma_mr_dereg(&region));
}

int main(int argc, char** argv) {
    const struct arguments arguments = parse(argc, argv);
    struct rpma_peer* peer = open_peer(&arguments);
    (arguments.is_server ? serve : read_from)(peer, &arguments);
    must(rpma_peer_delete(&peer));
    printf("done\n");
    return 0;
}
