// SPDX-License-Identifier: BSD-3-Clause
//
// Two queue pairs for datagrams, "a" and "b", on one device, for the programs about them. The device is that
// of pair.h, whose functions these programs use, too.
#ifndef TESTS_RACES_DATAGRAMS_H
#define TESTS_RACES_DATAGRAMS_H

#include "pair.h"

// A receive begins with as many bytes of header, whether a message has one or not.
enum { HEADER_BYTES = 40, Q_KEY = 0x1111 };

struct datagram_end {
    struct ibv_cq* queue; // of sends and receives
    struct ibv_qp* qp;
};

struct datagrams {
    struct rdma_cm_id* id; // for its device and port alone
    struct ibv_pd* pd;
    uint8_t gid; // the address's place in the device's table
    struct datagram_end a;
    struct datagram_end b;
};

void datagrams_open(struct datagrams* datagrams);
// The queue pairs go first, and what is posted to them; or all goes together.
void datagrams_destroy_qps(struct datagrams* datagrams);
void datagrams_close(struct datagrams* datagrams);
// For messages to either end: they have one address.
struct ibv_ah* make_address_handle(struct datagrams* datagrams);
struct ibv_mr* register_for_datagrams(struct datagrams* datagrams, void* memory, size_t bytes);

// One message from a to b, with a completion; and a receive at b.
void send_datagram(struct datagrams* datagrams, struct ibv_ah* ah, uint32_t q_key,
                   const struct ibv_mr* region, const void* local, size_t bytes);
void post_datagram_receive(struct datagrams* datagrams, const struct ibv_mr* region, void* local,
                           size_t bytes);

#endif
