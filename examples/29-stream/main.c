/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What Sluice's librpma adds: the client writes as fast as its completion queue allows. It counts nothing
 * itself: the library refuses a write that the queue may have no room for, and the client then takes
 * completions.
 */
#include <sluice/rpma.h>
#include <stdio.h>
#include <string.h>

#include "../rpma-common/common.h"

enum {
    ENTRIES = 16, /* of the completion queue: less than there are writes */
    BLOCK = 64,
    BLOCKS = 1024,
    GROUP = 4 /* one write of so many asks for a completion */
};
static const size_t kSize = (size_t)BLOCK * BLOCKS;

static void fill(char* memory) {
    for (size_t i = 0; i < kSize; ++i) {
        memory[i] = (char)(i / BLOCK + i);
    }
}

static void serve(struct rpma_peer* peer, const struct arguments* arguments) {
    char* memory = make_pages(kSize);
    char* expected = make_pages(kSize);
    fill(expected);
    struct rpma_mr_local* region = NULL;
    must(rpma_mr_reg(peer, memory, kSize, RPMA_MR_USAGE_WRITE_DST, &region));
    struct offer offer = make_offer(region, false);
    struct rpma_ep* ep = listen_at(peer, arguments);
    struct rpma_conn_req* request = NULL;
    must(rpma_ep_next_conn_req(ep, NULL, &request));
    struct rpma_conn* conn = accept_request(request, &offer, sizeof offer);
    await_end(conn);
    require(memcmp(memory, expected, kSize) == 0, "something else was written");
    must(rpma_ep_shutdown(&ep));
    must(rpma_mr_dereg(&region));
}

/* A connection that counts completions. */
static struct rpma_conn* connect_counting(struct rpma_peer* peer, const struct arguments* arguments) {
    struct rpma_conn_cfg* config = NULL;
    must(rpma_conn_cfg_new(&config));
    must(rpma_conn_cfg_set_cq_size(config, ENTRIES));
    must(rpma_conn_cfg_set_sq_size(config, 2 * ENTRIES));
    must(rpma_conn_cfg_set_cq_credits(config, true));
    struct rpma_conn* conn = connect_with(peer, arguments, config);
    must(rpma_conn_cfg_delete(&config));
    return conn;
}

/* Waits for completions; the number of those that have come. */
static int take_some(struct rpma_cq* cq) {
    struct ibv_wc wc[ENTRIES];
    int taken = 0;
    must(rpma_cq_wait_wc(cq, ENTRIES, wc, &taken));
    for (int i = 0; i < taken; ++i) {
        require(wc[i].status == IBV_WC_SUCCESS, ibv_wc_status_str(wc[i].status));
    }
    return taken;
}

static void stream(struct rpma_conn* conn, struct rpma_mr_remote* to, const struct rpma_mr_local* from) {
    struct rpma_cq* cq = NULL;
    must(rpma_conn_get_cq(conn, &cq));
    int refused = 0;
    int taken = 0;
    for (size_t i = 0; i < BLOCKS;) {
        const int flags = (i + 1) % GROUP == 0 ? RPMA_F_COMPLETION_ALWAYS : RPMA_F_COMPLETION_ON_ERROR;
        const int code = rpma_write(conn, to, i * BLOCK, from, i * BLOCK, BLOCK, flags, NULL);
        if (code == RPMA_E_AGAIN) { /* the queue may become full: nothing was posted */
            ++refused;
            taken += take_some(cq);
            continue;
        }
        must_succeed(code, "rpma_write");
        ++i;
    }
    while (taken < BLOCKS / GROUP) {
        taken += take_some(cq);
    }
    printf("%d writes, %d completions\n", BLOCKS, taken);
    require(refused > 0, "nothing was refused, though there were more writes than entries");
}

static void write_to(struct rpma_peer* peer, const struct arguments* arguments) {
    char* memory = make_pages(kSize);
    fill(memory);
    struct rpma_mr_local* region = NULL;
    must(rpma_mr_reg(peer, memory, kSize, RPMA_MR_USAGE_WRITE_SRC, &region));
    struct rpma_conn* conn = connect_counting(peer, arguments);
    struct rpma_mr_remote* remote = take_offer(conn);
    stream(conn, remote, region);
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
