// SPDX-License-Identifier: BSD-3-Clause
//
// idle server ADDRESS PORT, and idle client ADDRESS PORT: two ends of a connection over which nothing is
// sent. Each says "up" when it is there, and "ended" when rdma_cm says that it has ended.
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int fine, const char* what) {
    if (!fine) {
        perror(what);
        exit(1);
    }
}

static struct rdma_cm_id* open_end(const char* address, const char* port, int flags) {
    struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = flags};
    struct ibv_qp_init_attr attr = {
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
    struct rdma_addrinfo* found = NULL;
    struct rdma_cm_id* end = NULL;
    check(rdma_getaddrinfo(address, port, &hints, &found) == 0, "rdma_getaddrinfo");
    check(rdma_create_ep(&end, found, NULL, &attr) == 0, "rdma_create_ep");
    rdma_freeaddrinfo(found);
    return end;
}

static struct rdma_cm_id* serve(const char* address, const char* port) {
    struct rdma_cm_id* const listener = open_end(address, port, RAI_PASSIVE);
    struct rdma_cm_id* end = NULL;
    check(rdma_listen(listener, 1) == 0, "rdma_listen");
    puts("listens");
    check(rdma_get_request(listener, &end) == 0, "rdma_get_request");
    check(rdma_accept(end, NULL) == 0, "rdma_accept");
    return end;
}

static struct rdma_cm_id* go(const char* address, const char* port) {
    struct rdma_cm_id* const end = open_end(address, port, 0);
    check(rdma_connect(end, NULL) == 0, "rdma_connect");
    return end;
}

int main(int argc, char** argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: idle server|client ADDRESS PORT\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct rdma_cm_id* const end =
        strcmp(argv[1], "server") == 0 ? serve(argv[2], argv[3]) : go(argv[2], argv[3]);
    struct rdma_cm_event* event = NULL;
    puts("up");
    check(rdma_get_cm_event(end->channel, &event) == 0, "rdma_get_cm_event");
    check(event->event == RDMA_CM_EVENT_DISCONNECTED, rdma_event_str(event->event));
    puts("ended");
    rdma_ack_cm_event(event);
    return 0;
}
