/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What Sluice's librpma has beyond librpma 1.3. A program that uses it needs this library: the functions are
 * in a node of their own, LIBRPMA_SLUICE_1.0, so that the program doesn't start with the original. The
 * conventions are those of librpma.h. This header is the manual; the manual pages are made from it.
 */
#ifndef SLUICE_RPMA_H
#define SLUICE_RPMA_H 1

#include <librpma.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The most pieces of memory that one request can have. */
#define RPMA_MAX_PIECES 16

/* LEN bytes at OFFSET of this side's region MR. */
struct rpma_piece {
    const struct rpma_mr_local* mr;
    size_t offset;
    size_t len;
};

/**
 * rpma_conn_cfg_set_max_pieces - choose how many pieces of memory one request may have
 *
 * It is 1 at first. Each request of the connection's then takes more memory at the device. A device that
 * takes fewer refuses the connection.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: cfg is NULL
 * - RPMA_E_INVAL: max_pieces is 0 or more than RPMA_MAX_PIECES
 */
int rpma_conn_cfg_set_max_pieces(struct rpma_conn_cfg* cfg, uint32_t max_pieces);

/**
 * rpma_conn_cfg_get_max_pieces - how many pieces of memory one request may have
 *
 * See rpma_conn_cfg_set_max_pieces().
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: cfg or max_pieces is NULL
 */
int rpma_conn_cfg_get_max_pieces(const struct rpma_conn_cfg* cfg, uint32_t* max_pieces);

/**
 * rpma_write_pieces - bring several pieces of memory to one place in the peer's
 *
 * As rpma_write(), of NUM_PIECES pieces that arrive one behind the other at DST_OFFSET. It is one request
 * with one completion. PIECES may be reused when the function returns; the memory that they name may not,
 * before the request has completed.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: conn, dst or pieces is NULL, or the mr of a piece
 * - RPMA_E_INVAL: num_pieces is less than 1, or more than the connection was configured for
 * - RPMA_E_INVAL: flags is 0
 * - RPMA_E_INVAL: a piece has no bytes, or is not within its region
 * - RPMA_E_INVAL: all pieces together do not fit into the peer's region at that offset, or have 4 GiB or more
 * - RPMA_E_AGAIN: completions are counted, and the queue may be full
 * - RPMA_E_PROVIDER: the device refuses: too many requests are under way, or the connection is not
 *   established
 */
int rpma_write_pieces(struct rpma_conn* conn, struct rpma_mr_remote* dst, size_t dst_offset,
                      const struct rpma_piece* pieces, int num_pieces, int flags, const void* op_context);

/* The most writes that one call posts. */
#define RPMA_MAX_WRITES 32

/* The arguments of rpma_write(). */
struct rpma_write_args {
    const struct rpma_mr_remote* dst;
    size_t dst_offset;
    const struct rpma_mr_local* src;
    size_t src_offset;
    size_t len;
    int flags;
    const void* op_context;
};

/**
 * rpma_write_many - post several writes with one doorbell
 *
 * As rpma_write() for each of the NUM_WRITES in WRITES, in this order, but the device is told once. All are
 * checked before the first is posted. NUM_POSTED may be NULL; it tells how many were posted, also if the
 * function fails with RPMA_E_PROVIDER: those before were, and complete.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: conn or writes is NULL
 * - RPMA_E_INVAL: num_writes is less than 1 or more than RPMA_MAX_WRITES
 * - RPMA_E_INVAL: rpma_write() would refuse one of the writes
 * - RPMA_E_AGAIN: completions are counted, and the queue may be too full for all of them
 * - RPMA_E_PROVIDER: the device refuses one: too many requests are under way, or the connection is not
 *   established
 */
int rpma_write_many(struct rpma_conn* conn, const struct rpma_write_args* writes, int num_writes,
                    int* num_posted);

/**
 * rpma_cq_wait_wc - take completions, waiting for the first
 *
 * What rpma_cq_get_wc() and rpma_cq_wait() do in a loop, without the pitfall of a notification that was for
 * completions taken before: if the queue is empty, the function waits until it is not. NUM_ENTRIES_GOT may be
 * NULL if num_entries is 1.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: cq or wc is NULL, num_entries is less than 1, or more than 1 where num_entries_got is NULL
 * - RPMA_E_SHARED_CHANNEL: the queue is empty, and notifies a channel that it shares: rpma_conn_wait()
 * - RPMA_E_NO_COMPLETION: the queue is empty, and its descriptor does not block, or a signal came
 * - RPMA_E_PROVIDER: the device fails, or the queue has overflowed
 * - RPMA_E_UNKNOWN: the device gives more completions than it was asked for
 */
int rpma_cq_wait_wc(struct rpma_cq* cq, int num_entries, struct ibv_wc* wc, int* num_entries_got);

/**
 * rpma_cq_next_event - take a notification, and leave everything else to the program
 *
 * rpma_cq_wait() acknowledges each notification, which takes a lock, and arms the queue for the next. Where
 * that is too much, a program takes notifications with this function, acknowledges many at once with
 * rpma_cq_ack_events(), and arms the queue with rpma_cq_arm() only before it means to sleep.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: cq is NULL
 * - RPMA_E_SHARED_CHANNEL: the queue notifies a channel that it shares
 * - RPMA_E_NO_COMPLETION: there is no notification, and the descriptor does not block, or a signal came
 */
int rpma_cq_next_event(struct rpma_cq* cq);

/**
 * rpma_cq_ack_events - acknowledge notifications
 *
 * NUM_EVENTS of those that rpma_cq_next_event() has given. What was not acknowledged is when the queue goes.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: cq is NULL, num_events is 0, or there are not so many to be acknowledged
 */
int rpma_cq_ack_events(struct rpma_cq* cq, unsigned num_events);

/**
 * rpma_cq_arm - ask for a notification of the next completion
 *
 * It tells nothing of completions that are in the queue already: a program arms, takes what is there with
 * rpma_cq_get_wc(), and only then sleeps.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: cq is NULL
 * - RPMA_E_PROVIDER: the device refuses
 */
int rpma_cq_arm(struct rpma_cq* cq);

/**
 * rpma_conn_cfg_set_cq_credits - refuse requests that the completion queue has no room for
 *
 * A completion queue that gets more completions than it has entries loses them, and the connection is over.
 * If COUNTED is true, the library counts what can still come: one completion for each receive, and one for
 * each other request, also without RPMA_F_COMPLETION_ALWAYS, since the request may fail. A request that may
 * find no room is refused with RPMA_E_AGAIN, and nothing is posted. rpma_cq_get_wc() and rpma_cq_wait_wc()
 * make room. A request that asks for no completion keeps its place until a later one of the same connection
 * that asks for one has completed and its completion has been taken.
 *
 * It is false at first, because librpma's programs may post more than fits where they know that not all of it
 * completes at the same time. Receives of a shared receive queue are counted by that queue:
 * rpma_srq_cfg_set_rcq_credits().
 *
 * With COUNTED, rpma_conn_req_new() and rpma_ep_next_conn_req() answer RPMA_E_INVAL for a shared receive
 * queue without a completion queue of its own: at which connection a receive completes cannot be known.
 *
 * Returns: 0, or the error below.
 *
 * Errors:
 * - RPMA_E_INVAL: cfg is NULL
 */
int rpma_conn_cfg_set_cq_credits(struct rpma_conn_cfg* cfg, bool counted);

/**
 * rpma_conn_cfg_get_cq_credits - whether completions are counted
 *
 * See rpma_conn_cfg_set_cq_credits().
 *
 * Returns: 0, or the error below.
 *
 * Errors:
 * - RPMA_E_INVAL: cfg or counted is NULL
 */
int rpma_conn_cfg_get_cq_credits(const struct rpma_conn_cfg* cfg, bool* counted);

/**
 * rpma_srq_cfg_set_rcq_credits - refuse shared receives that the completion queue has no room for
 *
 * As rpma_conn_cfg_set_cq_credits(), for rpma_srq_recv() and the completion queue that belongs to the shared
 * receive queue. With COUNTED, rpma_srq_new() answers RPMA_E_INVAL if there is no such queue.
 *
 * Returns: 0, or the error below.
 *
 * Errors:
 * - RPMA_E_INVAL: cfg is NULL
 */
int rpma_srq_cfg_set_rcq_credits(struct rpma_srq_cfg* cfg, bool counted);

/**
 * rpma_srq_cfg_get_rcq_credits - whether completions of shared receives are counted
 *
 * See rpma_srq_cfg_set_rcq_credits().
 *
 * Returns: 0, or the error below.
 *
 * Errors:
 * - RPMA_E_INVAL: cfg or counted is NULL
 */
int rpma_srq_cfg_get_rcq_credits(const struct rpma_srq_cfg* cfg, bool* counted);

/**
 * rpma_conn_reconnect - connect again where a connection has ended or failed
 *
 * CONN is one that this side has asked for, and that rpma_conn_next_event() has called closed, lost, rejected
 * or unreachable, or that this side has disconnected. The new connection goes to the same address and port,
 * from the same peer object, with the configuration and the private data that CONN was made with. A shared
 * receive queue of the configuration must still be there. What comes of it is an event of the new connection,
 * as for rpma_conn_req_connect().
 *
 * CONN stays as it is until it is deleted, and nothing of it is taken over: receives must be posted again,
 * and if the peer's program is a new one, so are its regions. rpma_conn_apply_remote_peer_cfg() must be
 * called again, too.
 *
 * The function blocks as rpma_conn_req_new(): for up to the configuration's timeout for the address and again
 * for the path.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: conn or new_conn_ptr is NULL
 * - RPMA_E_INVAL: the connection has neither ended nor failed
 * - RPMA_E_NOSUPP: the peer has asked for the connection
 * - RPMA_E_PROVIDER: the way to the peer was not found, or the device refuses
 * - RPMA_E_NOMEM: out of memory
 */
int rpma_conn_reconnect(const struct rpma_conn* conn, struct rpma_conn** new_conn_ptr);

/* What rpma_conn_req_next_step() has found. */
enum rpma_conn_req_step {
    RPMA_CONN_REQ_ADDRESS_FOUND, /* the peer is reached through the device; the path is looked for */
    RPMA_CONN_REQ_PATH_FOUND     /* the last step: rpma_conn_req_connect() */
};

/**
 * rpma_conn_req_new_async - make a request to connect without waiting for the way to the peer
 *
 * As rpma_conn_req_new(), but the function returns when it has begun to look for the way. The descriptor of
 * rpma_conn_req_get_event_fd() is readable when rpma_conn_req_next_step() has something to tell. When that
 * has told RPMA_CONN_REQ_PATH_FOUND, the request is like that of rpma_conn_req_new(). Before that,
 * rpma_conn_req_connect() uses the request up and answers RPMA_E_INVAL. Receives can be posted at once, and
 * rpma_conn_req_delete() gives up at any time.
 *
 * ADDR and PORT are numbers: to look up a name would block.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: peer, addr, port or req_ptr is NULL
 * - RPMA_E_INVAL: addr is no address in numbers, or port no number
 * - RPMA_E_INVAL: the configuration has a shared channel, and a shared receive queue with a completion queue
 * - RPMA_E_NOMEM: out of memory
 * - RPMA_E_PROVIDER: the device refuses, or there is no way to the address
 */
int rpma_conn_req_new_async(struct rpma_peer* peer, const char* addr, const char* port,
                            const struct rpma_conn_cfg* cfg, struct rpma_conn_req** req_ptr);

/**
 * rpma_conn_req_get_event_fd - the descriptor that tells when a step can be taken
 *
 * It can be polled, and O_NONBLOCK can be set on it. It is gone when the request is used up or deleted.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: req or fd is NULL
 * - RPMA_E_INVAL: the request was not made by rpma_conn_req_new_async()
 */
int rpma_conn_req_get_event_fd(const struct rpma_conn_req* req, int* fd);

/**
 * rpma_conn_req_next_step - take the next step on the way to the peer
 *
 * Two steps succeed: first RPMA_CONN_REQ_ADDRESS_FOUND, then RPMA_CONN_REQ_PATH_FOUND. Each may take as long
 * as the configuration's timeout, and the function waits for it unless the descriptor does not block. A step
 * that fails is the last; the program deletes the request.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: req or step is NULL
 * - RPMA_E_INVAL: there is no step left, or the request was not made by rpma_conn_req_new_async()
 * - RPMA_E_NO_EVENT: the step is not done, and the descriptor does not block, or a signal came
 * - RPMA_E_PROVIDER: the step has failed: the address is not reached through the device, there is no path to
 *   it, or the time is over
 * - RPMA_E_NOMEM: out of memory
 */
int rpma_conn_req_next_step(struct rpma_conn_req* req, enum rpma_conn_req_step* step);

/* Answers the requests of one connection to make memory persistent. */
struct rpma_responder;

/* For rpma_responder_new(): the region may be of ordinary memory. */
#define RPMA_RESPONDER_ANY_MEMORY 1

/* The most requests that a responder takes at the same time. */
#define RPMA_RESPONDER_MAX_DEPTH 4096

/**
 * rpma_responder_new - make what makes memory persistent for a peer
 *
 * Where a device's writes do not go to persistent memory by themselves, the general purpose server
 * persistency method makes them persistent: after its writes the peer sends a request, the server's CPU
 * writes its caches back, and answers. A responder is the server's side of it, for one connection. The
 * messages are those of librpma's examples 09 and of fio: protobuf's GPSPM_flush_request (fixed64 offset = 1,
 * length = 2, op_context = 3) and GPSPM_flush_response (fixed64 op_context = 1). Offsets are in MR. DEPTH
 * requests can be under way.
 *
 *     rpma_responder_new(peer, mr, 8, 0, &responder);
 *     rpma_responder_start(responder, req);
 *     rpma_conn_req_connect(&req, &pdata, &conn);
 *     while (rpma_cq_wait_wc(cq, 1, &wc, NULL) == 0)
 *         rpma_responder_handle_wc(responder, conn, &wc, NULL);
 *
 * An answer means that the data survive a loss of power. So MR must be of persistent memory, as
 * rpma_utils_is_pmem() tells. With RPMA_RESPONDER_ANY_MEMORY in FLAGS it may be of any; then an answer means
 * no more than that the data are visible.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: peer, mr or responder_ptr is NULL, flags has unknown bits
 * - RPMA_E_INVAL: depth is 0 or more than RPMA_RESPONDER_MAX_DEPTH
 * - RPMA_E_NOSUPP: the memory is not persistent; libpmem2, which can tell, is not installed; or the CPU has
 * no instruction to that end
 * - RPMA_E_NOMEM: out of memory
 * - RPMA_E_PROVIDER: the device refuses, or a mapped file cannot be looked at
 */
int rpma_responder_new(struct rpma_peer* peer, struct rpma_mr_local* mr, uint32_t depth, int flags,
                       struct rpma_responder** responder_ptr);

/**
 * rpma_responder_start - post the receives of a responder
 *
 * Once, before the request is accepted, so that no message of the peer's comes too early. The connection
 * needs DEPTH receives, as many sends, and room for the completions of both.
 *
 * Returns: 0, or one of the errors below. After an error the request is to be deleted, and then the
 * responder.
 *
 * Errors:
 * - RPMA_E_INVAL: responder or req is NULL, or the responder was started before
 * - RPMA_E_AGAIN: completions are counted, and the queue is too small
 * - RPMA_E_PROVIDER: the device refuses: the receive queue is too small
 */
int rpma_responder_start(struct rpma_responder* responder, struct rpma_conn_req* req);

/* What rpma_responder_handle_wc() has done. */
struct rpma_responder_request {
    bool answered; /* the completion was that of a request; the others describe it */
    uint64_t offset;
    uint64_t len;
    uint64_t op_context; /* the peer's */
};

/**
 * rpma_responder_handle_wc - do what a completion asks a responder for
 *
 * The program takes completions of CONN by rpma_cq_get_wc() or rpma_cq_wait_wc(), and gives all of them, or
 * those that are not its own. For a request the range is made persistent and the answer sent; the function
 * runs as long as that takes. For the completion of an answer the receive is posted again. REQUEST may be
 * NULL.
 *
 * A request of no length is answered at once. In fio's protocol one at offset 0 is the last.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: responder, conn or wc is NULL
 * - RPMA_E_INVAL: the peer's message is wrong, or names what is not in the region; nothing was made
 * persistent and nothing answered, and the program should disconnect
 * - RPMA_E_INVAL: the completion is of another connection, or was given before
 * - RPMA_E_NO_COMPLETION: it is none of the responder's
 * - RPMA_E_PROVIDER: the message has failed, which is the end of the connection; or the device refuses
 * - RPMA_E_AGAIN: completions are counted, and the queue may be full; give the same completion again
 */
int rpma_responder_handle_wc(struct rpma_responder* responder, struct rpma_conn* conn,
                             const struct ibv_wc* wc, struct rpma_responder_request* request);

/**
 * rpma_responder_delete - delete a responder
 *
 * After its connection, or the request, was deleted. *responder_ptr becomes NULL. The region stays.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: responder_ptr is NULL
 * - RPMA_E_PROVIDER: the device refuses
 */
int rpma_responder_delete(struct rpma_responder** responder_ptr);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* SLUICE_RPMA_H */
