/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One end of a connection: a device, memory that the other end may write and read, and a queue pair.
 * Everything here is libibverbs as for any RDMA device, but for the call that opens it.
 *
 * Functions return 0, or -1 after they have said what is wrong on standard error.
 */
#ifndef ENDPOINT_H
#define ENDPOINT_H

#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

enum { MAX_OUTSTANDING = 64 };

/* What each end tells the other before they can talk: where to send, and what may be accessed. */
struct introduction {
    union ibv_gid gid;
    uint32_t qp_number;
    uint32_t first_psn;
    uint32_t rkey;
    uint64_t address;
};

struct endpoint {
    int socket; /* the way on which the introductions go, and by which an end learns of the other's */
    struct ibv_context* device;
    struct ibv_pd* domain;
    struct ibv_cq* sent;     /* completions of what we asked for */
    struct ibv_cq* received; /* and of what the peer has sent */
    struct ibv_qp* qp;
    struct ibv_mr* region;
    char* memory;
    struct introduction own;
    struct introduction peer;
};

/* Opens DEVICE ("uroce0", or an address of this machine) and makes BYTES of zeros accessible. */
int endpoint_open(struct endpoint* end, const char* device, size_t bytes);
/* Introduces the ends to each other on SOCKET, which it keeps, and makes the queue pair ready. */
int endpoint_connect(struct endpoint* end, int socket);
/* For every endpoint, opened or not, if it began as zeros. */
void endpoint_close(struct endpoint* end);

/* Asks for a Write or a Read between LOCAL in our memory and REMOTE in the peer's, or for a Send. */
int endpoint_post(struct endpoint* end, enum ibv_wr_opcode opcode, size_t local, size_t remote, size_t bytes);
/* Offers memory for one message that the peer sends. */
int endpoint_receive(struct endpoint* end, size_t local, size_t bytes);
/* Waits for one completion. BYTES, unless it is null, is how long a received message is. */
int endpoint_wait(struct endpoint* end, struct ibv_cq* queue, size_t* bytes);

#endif
