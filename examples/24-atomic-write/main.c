/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Publishing: the client writes a text, and then, as one, the place where it is. A process that looks at the
 * server's memory at any moment finds the old text or the new one, never a half.
 */
#include <stdio.h>
#include <string.h>

#include "../rpma-common/common.h"

enum { kTextSize = 64, kTexts = 2 };

/* What the server's memory holds. */
struct board {
    uint64_t current; /* which of the texts; aligned, as an atomic write needs it */
    char texts[kTexts][kTextSize];
};

static void serve(struct rpma_peer* peer, const struct arguments* arguments) {
    struct board* board = make_pages(sizeof *board);
    strcpy(board->texts[0], "the old text");
    struct rpma_mr_local* region = NULL;
    must(rpma_mr_reg(peer, board, sizeof *board,
                     RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY, &region));
    struct offer offer = make_offer(region, false);
    struct rpma_ep* ep = listen_at(peer, arguments);
    struct rpma_conn_req* request = NULL;
    must(rpma_ep_next_conn_req(ep, NULL, &request));
    struct rpma_conn* conn = accept_request(request, &offer, sizeof offer);
    /* Acquire: the text is at least as new as the number. */
    uint64_t current = __atomic_load_n(&board->current, __ATOMIC_ACQUIRE);
    while (current == 0) {
        require(strcmp(board->texts[0], "the old text") == 0, "the old text has changed");
        current = __atomic_load_n(&board->current, __ATOMIC_ACQUIRE);
    }
    printf("the board says: %s\n", board->texts[current]);
    require(current == 1 && strcmp(board->texts[1], "the new text") == 0, "half a text");
    await_end(conn);
    must(rpma_ep_shutdown(&ep));
    must(rpma_mr_dereg(&region));
}

static void publish(struct rpma_peer* peer, const struct arguments* arguments) {
    char* memory = make_pages(kTextSize);
    strcpy(memory, "the new text");
    struct rpma_mr_local* region = NULL;
    must(rpma_mr_reg(peer, memory, kTextSize, RPMA_MR_USAGE_WRITE_SRC, &region));
    struct rpma_conn* conn = connect_to(peer, arguments, NULL, 0);
    struct rpma_mr_remote* remote = take_offer(conn);
    const uint64_t current = 1;
    const size_t text_at = offsetof(struct board, texts) + current * kTextSize;
    must(rpma_write(conn, remote, text_at, region, 0, kTextSize, RPMA_F_COMPLETION_ON_ERROR, NULL));
    must(rpma_flush(conn, remote, text_at, kTextSize, RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ON_ERROR,
                    NULL));
    /* It waits for the flush by itself. The eight bytes are taken by the call. */
    must(rpma_atomic_write(conn, remote, offsetof(struct board, current), (const char*)&current,
                           RPMA_F_COMPLETION_ALWAYS, memory));
    await(conn, memory);
    must(rpma_mr_remote_delete(&remote));
    end(conn);
    must(rpma_mr_dereg(&region));
}

int main(int argc, char** argv) {
    const struct arguments arguments = parse(argc, argv);
    struct rpma_peer* peer = open_peer(&arguments);
    (arguments.is_server ? serve : publish)(peer, &arguments);
    must(rpma_peer_delete(&peer));
    printf("done\n");
    return 0;
}
