/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client writes, and wants to know that the data has arrived: for everybody to see, or to stay.
 *
 * Persistence takes three: memory that is persistent (give the server a file on a file system with DAX, or a
 * DAX device); a way there past the CPU's caches, or caches that are written back, which the server declares;
 * and the flush.
 */
#include <stdio.h>
#include <string.h>

#include "../rpma-common/common.h"
#include "../rpma-common/mapping.h"

static const size_t kSize = 4096;
static const char kText[] = "what shall not be lost";

static void serve(struct rpma_peer* peer, const struct arguments* arguments) {
    const struct mapping mapping = map_file(arguments->file, kSize);
    const int usage = RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY |
                      (mapping.is_persistent ? RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT : 0);
    struct rpma_mr_local* region = NULL;
    must(rpma_mr_reg(peer, mapping.memory, kSize, usage, &region));
    struct offer offer = make_offer(region, mapping.is_persistent);
    struct rpma_ep* ep = listen_at(peer, arguments);
    struct rpma_conn_req* request = NULL;
    must(rpma_ep_next_conn_req(ep, NULL, &request));
    await_end(accept_request(request, &offer, sizeof offer));
    printf("written: %s\n", mapping.memory);
    require(strcmp(mapping.memory, kText) == 0, "something else was written");
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
    int types = 0;
    must(rpma_mr_remote_get_flush_type(remote, &types));
    const bool can_persist = (types & RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT) != 0;
    must(rpma_write(conn, remote, 0, region, 0, sizeof kText, RPMA_F_COMPLETION_ON_ERROR, NULL));
    must(rpma_flush(conn, remote, 0, sizeof kText,
                    can_persist ? RPMA_FLUSH_TYPE_PERSISTENT : RPMA_FLUSH_TYPE_VISIBILITY,
                    RPMA_F_COMPLETION_ALWAYS, memory));
    await(conn, memory);
    printf("it has arrived%s\n", can_persist ? " to stay" : "");
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
