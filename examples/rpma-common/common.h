/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all examples of librpma begin and end with: opening a device, connecting, waiting. Errors end the
 * program, which is right for an example only.
 */
#ifndef EXAMPLES_RPMA_COMMON_H
#define EXAMPLES_RPMA_COMMON_H

#include <librpma.h>

/* Ends the program unless CALL, a function of librpma, succeeds. */
#define must(call) must_succeed((call), #call)
void must_succeed(int code, const char* call);
/* Ends the program unless HOLDS. */
void require(bool holds, const char* what);

/* Whether the program is the server; otherwise it is the client. Both get the server's address and port. */
struct arguments {
    bool is_server;
    const char* address;
    const char* port;
    const char* file; /* NULL where none is given */
};
struct arguments parse(int argc, char** argv);

/* The server's device has this address, the client's leads there. */
struct rpma_peer* open_peer(const struct arguments* arguments);
/* Whole pages of zeros. */
void* make_pages(size_t size);

/* Listens and says so on standard output. */
struct rpma_ep* listen_at(struct rpma_peer* peer, const struct arguments* arguments);
/* Accepts; both return when the connection is established. DATA may be NULL. */
struct rpma_conn* accept_request(struct rpma_conn_req* request, void* data, size_t size);
struct rpma_conn* connect_to(struct rpma_peer* peer, const struct arguments* arguments, void* data,
                             size_t size);

/* With a configuration of one's own. */
struct rpma_conn* connect_with(struct rpma_peer* peer, const struct arguments* arguments,
                               const struct rpma_conn_cfg* cfg);

/* Takes the next completion, which must be a success, and that of OP_CONTEXT. */
void await(struct rpma_conn* conn, const void* op_context);
/* Waits until the peer ends the connection. */
void await_end(struct rpma_conn* conn);
/* Ends it. */
void end(struct rpma_conn* conn);

/* What a server tells of its memory, in its private data. Lengths are told because the peer's side may come
 * with more bytes than were sent. */
struct offer {
    uint8_t region_size;
    uint8_t config_size;
    char bytes[24];
};
struct offer make_offer(const struct rpma_mr_local* region, bool direct_write_to_pmem);
/* The client's view of it. */
struct rpma_mr_remote* take_offer(struct rpma_conn* conn);

#endif
