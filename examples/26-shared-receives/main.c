/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One queue of receives for several connections, so that a server with many clients needs no buffers for
 * each.
 */
#include <sluice/rpma.h>
#include <stdio.h>
#include <string.h>

#include "../rpma-common/common.h"

enum { CLIENTS = 3, MESSAGE = 64 };

static void await_message(struct rpma_cq* cq, struct ibv_wc* wc) {
    int code = rpma_cq_get_wc(cq, 1, wc, NULL);
    while (code == RPMA_E_NO_COMPLETION) {
        must(rpma_cq_wait(cq));
        code = rpma_cq_get_wc(cq, 1, wc, NULL);
    }
    must_succeed(code, "rpma_cq_get_wc");
    require(wc->status == IBV_WC_SUCCESS, ibv_wc_status_str(wc->status));
}

/* RPMA_E_AGAIN refuses more receives than the completion queue has places for, so that none is lost. */
static struct rpma_srq* make_queue(struct rpma_peer* peer) {
    struct rpma_srq_cfg* config = NULL;
    struct rpma_srq* srq = NULL;
    must(rpma_srq_cfg_new(&config));
    must(rpma_srq_cfg_set_rcq_credits(config, true));
    must(rpma_srq_new(peer, config, &srq));
    must(rpma_srq_cfg_delete(&config));
    return srq;
}

static void serve(struct rpma_peer* peer, const struct arguments* arguments) {
    char* memory = make_pages((size_t)CLIENTS * MESSAGE);
    struct rpma_mr_local* region = NULL;
    must(rpma_mr_reg(peer, memory, (size_t)CLIENTS * MESSAGE, RPMA_MR_USAGE_RECV, &region));
    struct rpma_srq* srq = make_queue(peer);
    for (size_t i = 0; i < CLIENTS; ++i) {
        must(rpma_srq_recv(srq, region, i * MESSAGE, MESSAGE, memory + i * MESSAGE));
    }
    struct rpma_conn_cfg* config = NULL;
    must(rpma_conn_cfg_new(&config));
    must(rpma_conn_cfg_set_srq(config, srq));
    struct rpma_ep* ep = listen_at(peer, arguments);
    struct rpma_conn* conns[CLIENTS];
    uint32_t numbers[CLIENTS];
    for (int i = 0; i < CLIENTS; ++i) {
        struct rpma_conn_req* request = NULL;
        must(rpma_ep_next_conn_req(ep, config, &request));
        conns[i] = accept_request(request, NULL, 0);
        must(rpma_conn_get_qp_num(conns[i], &numbers[i]));
    }
    struct rpma_cq* receives = NULL;
    must(rpma_srq_get_rcq(srq, &receives));
    for (int i = 0; i < CLIENTS; ++i) {
        struct ibv_wc wc;
        await_message(receives, &wc);
        int from = 0; /* the completion tells whose message it is */
        while (from < CLIENTS && numbers[from] != wc.qp_num) {
            ++from;
        }
        require(from < CLIENTS, "a message of nobody's");
        printf("connection %d says: %.*s\n", from, MESSAGE, (const char*)(uintptr_t)wc.wr_id);
    }
    for (int i = 0; i < CLIENTS; ++i) {
        await_end(conns[i]);
    }
    must(rpma_ep_shutdown(&ep));
    must(rpma_conn_cfg_delete(&config));
    must(rpma_srq_delete(&srq));
    must(rpma_mr_dereg(&region));
}

static void say(struct rpma_peer* peer, const struct arguments* arguments) {
    char* memory = make_pages((size_t)CLIENTS * MESSAGE);
    struct rpma_mr_local* region = NULL;
    must(rpma_mr_reg(peer, memory, (size_t)CLIENTS * MESSAGE, RPMA_MR_USAGE_SEND, &region));
    struct rpma_conn* conns[CLIENTS];
    for (int i = 0; i < CLIENTS; ++i) {
        conns[i] = connect_to(peer, arguments, NULL, 0);
    }
    for (size_t i = 0; i < CLIENTS; ++i) {
        char* message = memory + i * MESSAGE;
        snprintf(message, MESSAGE, "I am number %zu", i);
        must(rpma_send(conns[i], region, i * MESSAGE, MESSAGE, RPMA_F_COMPLETION_ALWAYS, message));
        await(conns[i], message);
    }
    for (int i = 0; i < CLIENTS; ++i) {
        end(conns[i]);
    }
    must(rpma_mr_dereg(&region));
}

int main(int argc, char** argv) {
    const struct arguments arguments = parse(argc, argv);
    struct rpma_peer* peer = open_peer(&arguments);
    (arguments.is_server ? serve : say)(peer, &arguments);
    must(rpma_peer_delete(&peer));
    printf("done\n");
    return 0;
}
