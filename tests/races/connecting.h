// SPDX-License-Identifier: BSD-3-Clause
//
// The steps by which librdmacm connects, for pair.h and for programs that connect by themselves.
#ifndef TESTS_RACES_CONNECTING_H
#define TESTS_RACES_CONNECTING_H

#include <netinet/in.h>
#include <rdma/rdma_cma.h>

// An id that listens, and its address with the port; one that knows the way there; the next event; and the id
// of the next one, which must be of TYPE and is acknowledged.
struct rdma_cm_id* make_listener(struct rdma_event_channel* events, struct sockaddr_in* address);
struct rdma_cm_id* make_client(struct rdma_event_channel* events, struct sockaddr_in address);
struct rdma_cm_event* next_event(struct rdma_event_channel* events);
struct rdma_cm_id* expect(struct rdma_event_channel* events, enum rdma_cm_event_type type);

// An id for datagrams, of the device that has ADDRESS.
struct rdma_cm_id* make_id_of_device(struct sockaddr_in address);

// RACES_ADDRESS, LAB_ADDR or 127.0.0.1.
struct sockaddr_in own_address(void);

#endif
