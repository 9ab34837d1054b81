// SPDX-License-Identifier: BSD-3-Clause
#include "connecting.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "outcome.h"

enum { FAILED = 2, CONNECT_MS = 5000 };

struct sockaddr_in own_address(void) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    const char* text = getenv("RACES_ADDRESS");
    text = text != NULL ? text : getenv("LAB_ADDR");
    text = text != NULL ? text : "127.0.0.1";
    must(inet_pton(AF_INET, text, &address.sin_addr) == 1, text);
    return address;
}

struct rdma_cm_event* next_event(struct rdma_event_channel* events) {
    struct rdma_cm_event* event = NULL;
    must(rdma_get_cm_event(events, &event) == 0, "rdma_get_cm_event");
    return event;
}

struct rdma_cm_id* expect(struct rdma_event_channel* events, enum rdma_cm_event_type type) {
    struct rdma_cm_event* const event = next_event(events);
    if (event->event != type) {
        fprintf(stderr, "%s in place of %s\n", rdma_event_str(event->event), rdma_event_str(type));
        exit(FAILED);
    }
    struct rdma_cm_id* const id = event->id;
    rdma_ack_cm_event(event);
    return id;
}

struct rdma_cm_id* make_listener(struct rdma_event_channel* events, struct sockaddr_in* address) {
    struct rdma_cm_id* listener = NULL;
    *address = own_address();
    must(rdma_create_id(events, &listener, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
    must(rdma_bind_addr(listener, (struct sockaddr*)address) == 0, "rdma_bind_addr");
    must(rdma_listen(listener, 2) == 0, "rdma_listen");
    address->sin_port = rdma_get_src_port(listener);
    return listener;
}

struct rdma_cm_id* make_client(struct rdma_event_channel* events, struct sockaddr_in address) {
    struct rdma_cm_id* client = NULL;
    must(rdma_create_id(events, &client, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
    must(rdma_resolve_addr(client, NULL, (struct sockaddr*)&address, CONNECT_MS) == 0, "rdma_resolve_addr");
    expect(events, RDMA_CM_EVENT_ADDR_RESOLVED);
    must(rdma_resolve_route(client, CONNECT_MS) == 0, "rdma_resolve_route");
    expect(events, RDMA_CM_EVENT_ROUTE_RESOLVED);
    return client;
}

struct rdma_cm_id* make_id_of_device(struct sockaddr_in address) {
    struct rdma_cm_id* id = NULL;
    must(rdma_create_id(NULL, &id, NULL, RDMA_PS_UDP) == 0, "rdma_create_id");
    must(rdma_bind_addr(id, (struct sockaddr*)&address) == 0, "rdma_bind_addr");
    errno = ENODEV;
    must(id->verbs != NULL, "a device with the address");
    return id;
}
