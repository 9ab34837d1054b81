// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a client doesn't look at which event it has got, and takes a rejection for a connection.
//
// What happens: the event behind rdma_connect() is ESTABLISHED, REJECTED, UNREACHABLE or CONNECT_ERROR. The
// queue pair of a client that was rejected is in error: its first message is flushed, and a program that
// takes this for a broken connection connects again at once, and again.
//
// Remedy: look at event->event, and at event->status for the reason.
#include <errno.h>

#include "pair.h"

static void make_qp(struct rdma_cm_id* id, struct ibv_pd* pd, struct ibv_cq* queue) {
    struct ibv_qp_init_attr init = {
        .send_cq = queue,
        .recv_cq = queue,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
    must(rdma_create_qp(id, pd, &init) == 0, "rdma_create_qp");
}

// Whether the client believes that it is connected.
static int await_connection(struct rdma_event_channel* events) {
    struct rdma_cm_event* const event = next_event(events);
    int connected = 1;
#ifdef CORRECTED
    connected = event->event == RDMA_CM_EVENT_ESTABLISHED;
#endif
    rdma_ack_cm_event(event);
    return connected;
}

static struct ibv_wc send_hello(struct rdma_cm_id* id, const struct ibv_mr* region) {
    struct ibv_sge piece = {
        .addr = (uintptr_t)region->addr, .length = (uint32_t)region->length, .lkey = region->lkey};
    struct ibv_send_wr request = {
        .sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr* bad = NULL;
    errno = ibv_post_send(id->qp, &request, &bad);
    must(errno == 0, "ibv_post_send");
    return await_completion(id->qp->send_cq);
}

int main(void) {
    static char hello[8] = "hello";
    struct rdma_event_channel* const events = rdma_create_event_channel();
    struct rdma_conn_param how = {.retry_count = 7, .rnr_retry_count = 7};
    const char* symptom = NULL;
    struct sockaddr_in address;

    must(events != NULL, "rdma_create_event_channel");
    struct rdma_cm_id* const listener = make_listener(events, &address);
    struct rdma_cm_id* const id = make_client(events, address);
    struct ibv_pd* const pd = ibv_alloc_pd(id->verbs);
    struct ibv_cq* const queue = ibv_create_cq(id->verbs, 8, NULL, NULL, 0);
    must(pd != NULL && queue != NULL, "a domain and a queue");
    make_qp(id, pd, queue);
    struct ibv_mr* const region = ibv_reg_mr(pd, hello, sizeof hello, 0);
    must(region != NULL, "ibv_reg_mr");
    must(rdma_connect(id, &how) == 0, "rdma_connect");
    struct rdma_cm_id* const request = expect(events, RDMA_CM_EVENT_CONNECT_REQUEST);
    must(rdma_reject(request, NULL, 0) == 0, "rdma_reject"); // the server has enough clients

    if (await_connection(events)) {
        symptom = with_status("the first message fails", send_hello(id, region).status);
    }

    rdma_destroy_qp(id);
    must(ibv_dereg_mr(region) == 0, "ibv_dereg_mr");
    must(ibv_destroy_cq(queue) == 0, "ibv_destroy_cq");
    must(ibv_dealloc_pd(pd) == 0, "ibv_dealloc_pd");
    must(rdma_destroy_id(request) == 0, "rdma_destroy_id");
    must(rdma_destroy_id(id) == 0, "rdma_destroy_id");
    must(rdma_destroy_id(listener) == 0, "rdma_destroy_id");
    rdma_destroy_event_channel(events);
    return verdict(symptom);
}
