// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a window is invalidated while the peer still writes by its key.
//
// What happens: behind IBV_WR_LOCAL_INV the key is void. The peer's Write that comes later fails with a
// remote access error, and the connection is gone. A peer that was a little faster had no trouble all the
// years.
//
// Remedy: the peer says when it has done its last Write, best by IBV_WR_SEND_WITH_INV, which closes the
// window with the same message.
#include <errno.h>
#include <string.h>

#include "pair.h"

static void carry_out(struct end* end, struct ibv_send_wr request) {
    struct ibv_send_wr* bad = NULL;
    request.send_flags = IBV_SEND_SIGNALED;
    errno = ibv_post_send(end->id->qp, &request, &bad);
    must(errno == 0, "ibv_post_send");
    must(await_sent(end).status == IBV_WC_SUCCESS, "a request about the window");
}

// A window of type 2, which is bound and closed by requests of their own.
static struct ibv_mw* open_window(struct pair* pair, struct ibv_mr* region) {
    struct ibv_mw* const window = make_window(pair, IBV_MW_TYPE_2);
    const struct ibv_send_wr request = {
        .opcode = IBV_WR_BIND_MW,
        .bind_mw = {.mw = window,
                    .rkey = ibv_inc_rkey(window->rkey),
                    .bind_info = {.mr = region,
                                  .addr = (uintptr_t)region->addr,
                                  .length = region->length,
                                  .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}}};
    carry_out(&pair->b, request);
    window->rkey = request.bind_mw.rkey;
    return window;
}

static void close_window(struct pair* pair, const struct ibv_mw* window) {
    const struct ibv_send_wr request = {.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = window->rkey};
    carry_out(&pair->b, request);
}

int main(void) {
    static char from[64] = "what a writes", to[64];
    const struct options options = {0};
    const char* symptom = NULL;
    struct pair pair;

    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, IBV_ACCESS_MW_BIND);
    struct ibv_mw* const window = open_window(&pair, target);
    const struct remote remote = {(uintptr_t)to, window->rkey}; // b has told a

#ifndef CORRECTED
    close_window(&pair, window);
#endif
    must(post(&pair.a, IBV_WR_RDMA_WRITE, source, from, sizeof from, remote, IBV_SEND_SIGNALED) == 0,
         "a Write");
    const struct ibv_wc written = await_sent(&pair.a);
#ifdef CORRECTED
    close_window(&pair, window); // a has said that it has done its last Write
#endif
    if (written.status != IBV_WC_SUCCESS) {
        symptom = with_status("the Write fails", written.status);
    } else if (memcmp(from, to, sizeof to) != 0) {
        symptom = "the Write succeeds, and its bytes aren't there";
    }

    must(ibv_dealloc_mw(window) == 0, "ibv_dealloc_mw");
    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(symptom);
}
