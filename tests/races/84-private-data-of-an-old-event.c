// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a request's private data is used when its event has been acknowledged.
//
// What happens: private_data points into the event, which rdma_ack_cm_event() frees. The next event takes its
// place, and two clients that come together get one name.
//
// Remedy: copy the private data, then acknowledge.
#include <stdio.h>
#include <string.h>

#include "pair.h"

enum { CLIENTS = 2, BYTES = 32 };

static struct rdma_cm_id* ask(struct rdma_event_channel* events, struct sockaddr_in address,
                              const char* name) {
    struct rdma_cm_id* const id = make_client(events, address);
    struct rdma_conn_param how = {.private_data = name, .private_data_len = (uint8_t)(strlen(name) + 1)};
    struct ibv_qp_init_attr init = {
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
    must(rdma_create_qp(id, NULL, &init) == 0, "rdma_create_qp"); // domain and queues are librdmacm's
    must(rdma_connect(id, &how) == 0, "rdma_connect");
    return id;
}

// The next request; NAME is where its client's name is.
static struct rdma_cm_id* take_request(struct rdma_event_channel* events, char* copy, const char** name) {
    struct rdma_cm_event* const event = next_event(events);
    must(event->event == RDMA_CM_EVENT_CONNECT_REQUEST, "a request");
    struct rdma_cm_id* const id = event->id;
    *name = event->param.conn.private_data;
#ifdef CORRECTED
    snprintf(copy, BYTES, "%s", *name);
    *name = copy;
#else
    (void)copy;
#endif
    rdma_ack_cm_event(event);
    return id;
}

static void refuse(struct rdma_event_channel* events, struct rdma_cm_id* request) {
    must(rdma_reject(request, NULL, 0) == 0, "rdma_reject");
    expect(events, RDMA_CM_EVENT_REJECTED);
    must(rdma_destroy_id(request) == 0, "rdma_destroy_id");
}

int main(void) {
    struct rdma_event_channel* const events = rdma_create_event_channel();
    static const char* const sent[CLIENTS] = {"Ann", "Bert"};
    static char copies[CLIENTS][BYTES];
    struct rdma_cm_id* requests[CLIENTS];
    struct rdma_cm_id* clients[CLIENTS];
    const char* names[CLIENTS];
    struct sockaddr_in address;

    must(events != NULL, "rdma_create_event_channel");
    struct rdma_cm_id* const listener = make_listener(events, &address);
    for (int i = 0; i < CLIENTS; ++i) {
        clients[i] = ask(events, address, sent[i]);
        requests[i] = take_request(events, copies[i], &names[i]);
    }
    const int right = strcmp(names[0], sent[0]) == 0;

    for (int i = 0; i < CLIENTS; ++i) {
        refuse(events, requests[i]);
        rdma_destroy_qp(clients[i]);
        must(rdma_destroy_id(clients[i]) == 0, "rdma_destroy_id");
    }
    must(rdma_destroy_id(listener) == 0, "rdma_destroy_id");
    rdma_destroy_event_channel(events);
    return verdict(right ? NULL : "the first client has another name");
}
