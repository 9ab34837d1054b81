/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the examples of DAT begin and end with: opening an adapter, connecting, waiting for events. Errors end
 * the program, which is right for an example only.
 */
#ifndef EXAMPLES_DAT_COMMON_H
#define EXAMPLES_DAT_COMMON_H

#include <dat/udat.h>

/* Ends the program unless CALL, a function of DAT, succeeds. */
#define must(call) must_succeed((call), #call)
void must_succeed(DAT_RETURN status, const char* call);
/* Ends the program unless CALL fails with TYPE: DAT_INVALID_PARAMETER and the like. */
#define must_fail(call, type) must_fail_with((call), (type), #call)
void must_fail_with(DAT_RETURN status, DAT_RETURN_TYPE type, const char* call);
/* Ends the program unless HOLDS. */
void require(int holds, const char* what);

/* What the command line says: each side opens an adapter of its own, and the client knows where the server
 * is. */
struct arguments {
    int is_server;
    char* adapter;
    struct sockaddr_in server;
    DAT_CONN_QUAL qualifier; /* what a port is to TCP */
};
struct arguments parse(int argc, char** argv);

/* An open adapter, and what connections need of it. */
struct side {
    DAT_IA_HANDLE ia;
    DAT_EVD_HANDLE errors; /* asynchronous ones */
    DAT_PZ_HANDLE zone;    /* regions and endpoints of one zone may be used together */
    /* They hear of what has completed. Two, because an answer may be here before its question is done. */
    DAT_EVD_HANDLE requests; /* what was asked of the device: sends, writes, reads, binds */
    DAT_EVD_HANDLE receives;
    DAT_EVD_HANDLE connections; /* hears of connections that are asked for, come, and go */
};
struct side open_side(char* adapter);
void close_side(struct side* side);

/* Memory that the device may use. A peer names it by its key, if PRIVILEGES let a peer in. */
struct region {
    char* memory;
    DAT_VLEN size;
    DAT_LMR_HANDLE lmr;
    DAT_LMR_CONTEXT context;
    DAT_RMR_CONTEXT key;
};
struct region make_region(const struct side* side, DAT_VLEN size, int privileges);
void free_region(struct region* region);
/* SIZE bytes of it from OFFSET on, as posting and sync calls want it. */
DAT_LMR_TRIPLET part_of(const struct region* region, DAT_VLEN offset, DAT_VLEN size);

DAT_EP_HANDLE make_endpoint(const struct side* side);

/* Waits for the next event, which must be NUMBER. */
DAT_EVENT await_event(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number);
/* Waits for the next completion, which must be a success with COOKIE. Returns how many bytes went. */
DAT_VLEN await_transfer(DAT_EVD_HANDLE evd, DAT_UINT64 cookie);
/* A value of ours that comes back with the completion. */
DAT_DTO_COOKIE cookie_of(DAT_UINT64 number);

/* Receives for what the peer will send must be there before it sends: post them before connecting. */
void post_receive(DAT_EP_HANDLE ep, const struct region* region, DAT_VLEN offset, DAT_VLEN size,
                  DAT_UINT64 cookie);
/* Sends and waits until that is done. */
void send_bytes(const struct side* side, DAT_EP_HANDLE ep, const struct region* region, DAT_VLEN offset,
                DAT_VLEN size);

/* Listens, and says so on standard output. */
DAT_PSP_HANDLE listen_at(const struct side* side, DAT_CONN_QUAL qualifier);
/* The next connection that is asked for. OFFER goes to the client with the answer, and may be NULL. */
struct offer;
void accept_request(const struct side* side, DAT_EP_HANDLE ep, const struct offer* offer);
/* Connects to the server, and takes its offer if OFFER isn't NULL. */
void connect_to(const struct side* side, DAT_EP_HANDLE ep, const struct arguments* arguments,
                struct offer* offer);
/* The client ends a connection, and the server waits for that. */
void end_connection(const struct side* side, DAT_EP_HANDLE ep);
void await_end(const struct side* side, DAT_EP_HANDLE ep);

/* What a server tells of its memory, in its private data, for a client of the same byte order. */
struct offer {
    DAT_UINT64 address;
    DAT_UINT64 size;
    DAT_UINT32 key;
    DAT_UINT32 is_offer; /* kOffer: data may come without any */
};
struct offer make_offer(const struct region* region);

#endif
