/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * librpma 1.3: remote access to memory, persistent or not, for programs that don't want to know verbs.
 *
 * This is Sluice's implementation of the interface of the library of that name which was discontinued in
 * 2023. Programs that were built with the former's header run with this library, and the other way round.
 * What differs is told function by function in docs/rpma-compatibility.md. This header is the manual; the
 * manual pages are made from it.
 *
 * The way of a program:
 *
 *   both sides      rpma_utils_get_ibv_context, rpma_peer_new, rpma_mr_reg
 *   passive side    rpma_ep_listen, rpma_ep_next_conn_req, rpma_conn_req_connect
 *   active side     rpma_conn_req_new, rpma_conn_req_connect
 *   both sides      rpma_conn_next_event: RPMA_CONN_ESTABLISHED
 *   either side     rpma_read, rpma_write, rpma_flush, rpma_atomic_write, rpma_send, rpma_recv;
 *                   rpma_conn_get_cq, rpma_cq_wait, rpma_cq_get_wc
 *   both sides      rpma_conn_disconnect, rpma_conn_next_event: RPMA_CONN_CLOSED, rpma_conn_delete
 *
 * Conventions. Functions return 0, or a negative code of those below; what they give through a pointer is
 * given on success only. What can be wrong with the arguments is looked at before anything is done. A
 * function that deletes takes a pointer to the pointer, sets that to NULL, and is content with NULL there.
 * Objects are deleted before what they were made from: regions, queues, connections, requests and endpoints
 * before their peer.
 *
 * Threads. Every function may be called from any thread. Different objects may be used at the same time
 * without any restriction; docs/threading.md says for each function which of them may be used on the same
 * object.
 *
 * Trust. Nothing here is encrypted or authenticated, descriptors least of all: a program that has one may use
 * the memory. Send them by a way that the peer has proven itself on.
 */
#ifndef LIBRPMA_H
#define LIBRPMA_H 1

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* For rpma_conn_wait(), which does without. */
#define RPMA_W_WAIT_FOR_COMPLETION (1)

#define RPMA_E_UNKNOWN (-100000)         /* what can't be told otherwise */
#define RPMA_E_NOSUPP (-100001)          /* the device, the peer or the region can't do it */
#define RPMA_E_PROVIDER (-100002)        /* the device or the system refused; the log tells why */
#define RPMA_E_NOMEM (-100003)           /* out of memory */
#define RPMA_E_INVAL (-100004)           /* an argument can't be right */
#define RPMA_E_NO_COMPLETION (-100005)   /* there is no completion */
#define RPMA_E_NO_EVENT (-100006)        /* there is no event */
#define RPMA_E_AGAIN (-100007)           /* for the moment */
#define RPMA_E_SHARED_CHANNEL (-100008)  /* the completion channel is shared */
#define RPMA_E_NOT_SHARED_CHNL (-100009) /* the completion channel is not shared */

/* How long finding an address, and again the way to it, may take. */
#define RPMA_DEFAULT_TIMEOUT_MS 1000

/* The side that the address belongs to. */
enum rpma_util_ibv_context_type {
    RPMA_UTIL_IBV_CONTEXT_LOCAL, /* this machine's */
    RPMA_UTIL_IBV_CONTEXT_REMOTE /* the peer's */
};

/**
 * rpma_utils_get_ibv_context - the device that an address belongs or leads to
 *
 * ADDR is an IPv4 or IPv6 address or a name. With RPMA_UTIL_IBV_CONTEXT_LOCAL the device that has this
 * address is opened, with RPMA_UTIL_IBV_CONTEXT_REMOTE one from which it can be reached. The context stays
 * open until the process ends; asked again, the function gives the same. It must not be closed.
 *
 * Addresses of the loopback net 127.0.0.0/8, and those of the uroce devices that `sluice devices` lists, are
 * such devices': RDMA without hardware, kernel module or privileges. To reach one of another
 * process on this machine, one on another loopback address is opened.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: addr or ibv_ctx_ptr is NULL, or type is unknown
 * - RPMA_E_NOMEM: out of memory
 * - RPMA_E_PROVIDER: the address means nothing, or no RDMA device has or reaches it
 */
int rpma_utils_get_ibv_context(const char* addr, enum rpma_util_ibv_context_type type,
                               struct ibv_context** ibv_ctx_ptr);

/**
 * rpma_utils_ibv_context_is_odp_capable - can the device page on demand?
 *
 * Gives 1 if the device can page memory on demand for both RDMA reads and writes of reliable connections,
 * otherwise 0. Files on a file system with DAX can be registered with such a device only.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: ibv_ctx or is_odp_capable is NULL
 * - RPMA_E_PROVIDER: the device does not answer
 */
int rpma_utils_ibv_context_is_odp_capable(struct ibv_context* ibv_ctx, int* is_odp_capable);

/* Defined where the functions are that the original doesn't have; they are in the node LIBRPMA_SLUICE_1.0. */
#define RPMA_HAS_IS_PMEM 1

/**
 * rpma_utils_is_pmem - does memory survive a loss of power?
 *
 * Tells whether all of the SIZE bytes at PTR are persistent memory, mapped in such a way that what is written
 * back from the CPU's caches stays: device DAX, or a file on a file system with DAX that was mapped with
 * MAP_SYNC. Such memory is worth RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT. For all other memory, that of files of
 * ordinary file systems included, the answer is false.
 *
 * The original doesn't have this function; RPMA_HAS_IS_PMEM tells at compile time that it is there. Which
 * files are persistent memory is libpmem2's knowledge: it is loaded when the first such question comes up,
 * and only then has to be installed. The question takes time, so ask once for each mapping.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: ptr or is_pmem is NULL, size is 0, or not all of the memory is mapped
 * - RPMA_E_NOMEM: out of memory
 * - RPMA_E_NOSUPP: it may be persistent memory, and libpmem2 is not installed
 * - RPMA_E_PROVIDER: the file was deleted or can't be read any more, or is nothing that libpmem2 can map
 */
int rpma_utils_is_pmem(const void* ptr, size_t size, bool* is_pmem);

/* What one side tells the other about itself. */
struct rpma_peer_cfg;

/**
 * rpma_peer_cfg_new - make a peer configuration
 *
 * All in it is false at first.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: pcfg_ptr is NULL
 * - RPMA_E_NOMEM: out of memory
 */
int rpma_peer_cfg_new(struct rpma_peer_cfg** pcfg_ptr);

/**
 * rpma_peer_cfg_delete - delete a peer configuration
 *
 * Sets the pointer to NULL.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: pcfg_ptr is NULL
 */
int rpma_peer_cfg_delete(struct rpma_peer_cfg** pcfg_ptr);

/**
 * rpma_peer_cfg_set_direct_write_to_pmem - declare that writes go to persistent memory
 *
 * True says that what a peer's write brings to persistent memory here is persistent as soon as it is
 * visible: the caches are bypassed, or are part of what survives a loss of power. Only who runs the
 * machine knows. It is what makes rpma_flush() with RPMA_FLUSH_TYPE_PERSISTENT possible for the peer,
 * which believes it.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: pcfg is NULL
 */
int rpma_peer_cfg_set_direct_write_to_pmem(struct rpma_peer_cfg* pcfg, bool supported);

/**
 * rpma_peer_cfg_get_direct_write_to_pmem - what was declared
 *
 * See rpma_peer_cfg_set_direct_write_to_pmem().
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: pcfg or supported is NULL
 */
int rpma_peer_cfg_get_direct_write_to_pmem(const struct rpma_peer_cfg* pcfg, bool* supported);

/**
 * rpma_peer_cfg_get_descriptor - the configuration as bytes
 *
 * Writes rpma_peer_cfg_get_descriptor_size() bytes to DESC, which are the same on every machine, to be
 * sent to the peer.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: pcfg or desc is NULL
 */
int rpma_peer_cfg_get_descriptor(const struct rpma_peer_cfg* pcfg, void* desc);

/**
 * rpma_peer_cfg_get_descriptor_size - how many bytes that is
 *
 * It is 1.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: pcfg or desc_size is NULL
 */
int rpma_peer_cfg_get_descriptor_size(const struct rpma_peer_cfg* pcfg, size_t* desc_size);

/**
 * rpma_peer_cfg_from_descriptor - a configuration from bytes
 *
 * The bytes are the peer's. More of them than are needed are no error, and not looked at.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: desc or pcfg_ptr is NULL
 * - RPMA_E_INVAL: desc_size is 0
 * - RPMA_E_NOMEM: out of memory
 */
int rpma_peer_cfg_from_descriptor(const void* desc, size_t desc_size, struct rpma_peer_cfg** pcfg_ptr);

/* A device as one program uses it; its regions and connections belong together. */
struct rpma_peer;

/**
 * rpma_peer_new - make a peer
 *
 * The context must stay open as long as the peer is there.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: ibv_ctx or peer_ptr is NULL
 * - RPMA_E_NOMEM: out of memory
 * - RPMA_E_PROVIDER: the device refuses a protection domain, or does not tell what it can
 */
int rpma_peer_new(struct ibv_context* ibv_ctx, struct rpma_peer** peer_ptr);

/**
 * rpma_peer_delete - delete a peer
 *
 * Sets the pointer to NULL, also where the device refuses. Everything made from the peer must be gone.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: peer_ptr is NULL
 * - RPMA_E_PROVIDER: the device refuses, because something made from the peer is still there
 */
int rpma_peer_delete(struct rpma_peer** peer_ptr);

/* A registered region of memory: this side's, and the peer's. */
struct rpma_mr_local;
struct rpma_mr_remote;

/* What a region is for. */
#define RPMA_MR_USAGE_READ_SRC (1 << 0)              /* the peer may read from it */
#define RPMA_MR_USAGE_READ_DST (1 << 1)              /* rpma_read() may bring data there */
#define RPMA_MR_USAGE_WRITE_SRC (1 << 2)             /* rpma_write() may take data from there */
#define RPMA_MR_USAGE_WRITE_DST (1 << 3)             /* the peer may write to it */
#define RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY (1 << 4) /* the peer may flush it: visible to everybody */
#define RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT (1 << 5) /* the peer may flush it: survives a loss of power */
#define RPMA_MR_USAGE_SEND (1 << 6)                  /* rpma_send() may take data from there */
#define RPMA_MR_USAGE_RECV (1 << 7)                  /* rpma_recv() may bring data there */

/**
 * rpma_mr_reg - register memory
 *
 * The memory must stay mapped as long as it is registered. Files on a file system with DAX are paged on
 * demand, where the device can do that. Where a device with a flush of its own refuses to promise
 * persistence for memory that isn't persistent, the region is registered without that promise, and the
 * peer's flushes of it are what older devices do. Register before connecting: what a device can do for the
 * peer is told with the connection.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: peer, ptr or mr_ptr is NULL, size is 0, or the memory would reach beyond the address
 *   space
 * - RPMA_E_INVAL: usage is 0 or has unknown bits
 * - RPMA_E_NOMEM: out of memory, or of memory that may be locked; the log tells how much that is
 * - RPMA_E_PROVIDER: the device or the system refuses
 */
int rpma_mr_reg(struct rpma_peer* peer, void* ptr, size_t size, int usage, struct rpma_mr_local** mr_ptr);

/**
 * rpma_mr_dereg - end a registration
 *
 * Sets the pointer to NULL, also where the device refuses.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: mr_ptr is NULL
 * - RPMA_E_PROVIDER: the device refuses
 */
int rpma_mr_dereg(struct rpma_mr_local** mr_ptr);

/**
 * rpma_mr_get_descriptor - the region as bytes
 *
 * Writes rpma_mr_get_descriptor_size() bytes to DESC, which are the same on every machine: what the peer
 * needs to use the region. Any other program that has them can use it, too.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: mr or desc is NULL
 */
int rpma_mr_get_descriptor(const struct rpma_mr_local* mr, void* desc);

/**
 * rpma_mr_remote_from_descriptor - the peer's region from bytes
 *
 * The bytes are the peer's. More of them than are needed are no error, and not looked at.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: desc or mr_ptr is NULL
 * - RPMA_E_INVAL: desc_size is less than rpma_mr_get_descriptor_size() tells
 * - RPMA_E_INVAL: the bytes describe no region: of no use, of no length, or beyond the end of the
 *   address space
 * - RPMA_E_NOMEM: out of memory
 */
int rpma_mr_remote_from_descriptor(const void* desc, size_t desc_size, struct rpma_mr_remote** mr_ptr);

/**
 * rpma_mr_get_descriptor_size - how many bytes that is
 *
 * It is 21.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: mr or desc_size is NULL
 */
int rpma_mr_get_descriptor_size(const struct rpma_mr_local* mr, size_t* desc_size);

/**
 * rpma_mr_get_ptr - where a region is
 *
 * As rpma_mr_reg() was told.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: mr or ptr is NULL
 */
int rpma_mr_get_ptr(const struct rpma_mr_local* mr, void** ptr);

/**
 * rpma_mr_get_size - how long a region is
 *
 * As rpma_mr_reg() was told.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: mr or size is NULL
 */
int rpma_mr_get_size(const struct rpma_mr_local* mr, size_t* size);

/**
 * rpma_mr_remote_get_size - how long the peer's region is
 *
 * As its descriptor says.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: mr or size is NULL
 */
int rpma_mr_remote_get_size(const struct rpma_mr_remote* mr, size_t* size);

/**
 * rpma_mr_remote_get_flush_type - how the peer's region may be flushed
 *
 * Gives RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY, RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT, both, or 0.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: mr or flush_type is NULL
 */
int rpma_mr_remote_get_flush_type(const struct rpma_mr_remote* mr, int* flush_type);

/**
 * rpma_mr_remote_delete - forget the peer's region
 *
 * Sets the pointer to NULL. The peer does not notice.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: mr_ptr is NULL
 */
int rpma_mr_remote_delete(struct rpma_mr_remote** mr_ptr);

/**
 * rpma_mr_advise - tell what a part of a region will be used for
 *
 * ADVICE and FLAGS are those of ibv_advise_mr(), for memory that is paged on demand.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: mr is NULL
 * - RPMA_E_INVAL: the range is not within the region or has 4 GiB or more, or the device says so
 * - RPMA_E_NOSUPP: the device takes no advice, or knows none of that kind or no such flags
 * - RPMA_E_PROVIDER: the device refuses
 */
int rpma_mr_advise(struct rpma_mr_local* mr, size_t offset, size_t len, int advice, uint32_t flags);

/* How a connection shall be. */
struct rpma_conn_cfg;
/* A receive queue that several connections share. */
struct rpma_srq;

/**
 * rpma_conn_cfg_new - make a configuration of connections
 *
 * It begins with the defaults: a timeout of RPMA_DEFAULT_TIMEOUT_MS; a completion queue of 10 entries and
 * none for receives alone; 10 send and 10 receive requests; a completion channel for each queue; no shared
 * receive queue. It may be deleted when the connection is made.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: cfg_ptr is NULL
 * - RPMA_E_NOMEM: out of memory
 */
int rpma_conn_cfg_new(struct rpma_conn_cfg** cfg_ptr);

/**
 * rpma_conn_cfg_delete - delete a configuration
 *
 * Sets the pointer to NULL.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: cfg_ptr is NULL
 */
int rpma_conn_cfg_delete(struct rpma_conn_cfg** cfg_ptr);

/**
 * rpma_conn_cfg_set_timeout - how long finding the peer may take
 *
 * For the address, and again for the way to it.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: cfg is NULL
 * - RPMA_E_INVAL: timeout_ms is negative
 */
int rpma_conn_cfg_set_timeout(struct rpma_conn_cfg* cfg, int timeout_ms);

/**
 * rpma_conn_cfg_get_timeout - what was set
 *
 * See rpma_conn_cfg_set_timeout().
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: cfg or timeout_ms is NULL
 */
int rpma_conn_cfg_get_timeout(const struct rpma_conn_cfg* cfg, int* timeout_ms);

/**
 * rpma_conn_cfg_set_cq_size - how many completions fit in the completion queue
 *
 * At least as many as requests with completions are under way, receives included unless they have a queue
 * of their own; a queue that overflows ends the connection.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: cfg is NULL
 */
int rpma_conn_cfg_set_cq_size(struct rpma_conn_cfg* cfg, uint32_t cq_size);

/**
 * rpma_conn_cfg_get_cq_size - what was set
 *
 * See rpma_conn_cfg_set_cq_size().
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: cfg or cq_size is NULL
 */
int rpma_conn_cfg_get_cq_size(const struct rpma_conn_cfg* cfg, uint32_t* cq_size);

/**
 * rpma_conn_cfg_set_rcq_size - how many completions fit in the completion queue of receives
 *
 * With 0, which is the default, there is no such queue, and receives complete in the other one.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: cfg is NULL
 */
int rpma_conn_cfg_set_rcq_size(struct rpma_conn_cfg* cfg, uint32_t rcq_size);

/**
 * rpma_conn_cfg_get_rcq_size - what was set
 *
 * See rpma_conn_cfg_set_rcq_size().
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: cfg or rcq_size is NULL
 */
int rpma_conn_cfg_get_rcq_size(const struct rpma_conn_cfg* cfg, uint32_t* rcq_size);

/**
 * rpma_conn_cfg_set_sq_size - how many requests may be under way
 *
 * Reads, writes, flushes and sends together.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: cfg is NULL
 */
int rpma_conn_cfg_set_sq_size(struct rpma_conn_cfg* cfg, uint32_t sq_size);

/**
 * rpma_conn_cfg_get_sq_size - what was set
 *
 * See rpma_conn_cfg_set_sq_size().
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: cfg or sq_size is NULL
 */
int rpma_conn_cfg_get_sq_size(const struct rpma_conn_cfg* cfg, uint32_t* sq_size);

/**
 * rpma_conn_cfg_set_rq_size - how many receives may be posted
 *
 * Without meaning where a shared receive queue is used.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: cfg is NULL
 */
int rpma_conn_cfg_set_rq_size(struct rpma_conn_cfg* cfg, uint32_t rq_size);

/**
 * rpma_conn_cfg_get_rq_size - what was set
 *
 * See rpma_conn_cfg_set_rq_size().
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: cfg or rq_size is NULL
 */
int rpma_conn_cfg_get_rq_size(const struct rpma_conn_cfg* cfg, uint32_t* rq_size);

/**
 * rpma_conn_cfg_set_compl_channel - one completion channel for both queues?
 *
 * True: rpma_conn_wait() and rpma_conn_get_compl_fd() wait for both queues of the connection. False, the
 * default: rpma_cq_wait() and rpma_cq_get_fd() wait for each.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: cfg is NULL
 */
int rpma_conn_cfg_set_compl_channel(struct rpma_conn_cfg* cfg, bool shared);

/**
 * rpma_conn_cfg_get_compl_channel - what was set
 *
 * See rpma_conn_cfg_set_compl_channel().
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: cfg or shared is NULL
 */
int rpma_conn_cfg_get_compl_channel(const struct rpma_conn_cfg* cfg, bool* shared);

/**
 * rpma_conn_cfg_set_srq - take receives from a shared queue
 *
 * The connections made with the configuration must be gone before the queue.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: cfg or srq is NULL
 */
int rpma_conn_cfg_set_srq(struct rpma_conn_cfg* cfg, struct rpma_srq* srq);

/**
 * rpma_conn_cfg_get_srq - what was set
 *
 * Gives NULL where nothing was set.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: cfg or srq_ptr is NULL
 */
int rpma_conn_cfg_get_srq(const struct rpma_conn_cfg* cfg, struct rpma_srq** srq_ptr);

/* A connection. */
struct rpma_conn;

/**
 * rpma_conn_get_event_fd - a descriptor to wait for events with
 *
 * Readable, for poll(2) and the like, when rpma_conn_next_event() has something to tell. With O_NONBLOCK
 * set on it by fcntl(2) that function does not block. It is the connection's: neither to read nor to
 * close.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: conn or fd is NULL
 */
int rpma_conn_get_event_fd(const struct rpma_conn* conn, int* fd);

enum rpma_conn_event {
    RPMA_CONN_UNDEFINED = -1,
    RPMA_CONN_ESTABLISHED, /* both sides are ready */
    RPMA_CONN_CLOSED,      /* by either side */
    RPMA_CONN_LOST,     /* a side could not be made ready, the device is gone, or the peer answers no more */
    RPMA_CONN_REJECTED, /* by the peer, or nobody listens there */
    RPMA_CONN_UNREACHABLE /* nobody has answered */
};

/**
 * rpma_conn_next_event - the next event of a connection
 *
 * Waits until there is one, or until a signal comes, unless the descriptor of rpma_conn_get_event_fd() has
 * O_NONBLOCK set. A connection is usable when it has told RPMA_CONN_ESTABLISHED here, and tells
 * RPMA_CONN_CLOSED once. When it ends, whatever is posted completes with an error.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: conn or event is NULL
 * - RPMA_E_NO_EVENT: there is none, and the descriptor does not block; or a signal ended the wait
 * - RPMA_E_PROVIDER: the system refuses
 * - RPMA_E_UNKNOWN: something happened that has no name here
 * - RPMA_E_NOMEM: out of memory
 */
int rpma_conn_next_event(struct rpma_conn* conn, enum rpma_conn_event* event);

/**
 * rpma_utils_conn_event_2str - an event in words
 *
 * For messages to people.
 *
 * Returns: a text that stays valid; never NULL.
 */
const char* rpma_utils_conn_event_2str(enum rpma_conn_event conn_event);

/* What the peer's program sent along when it connected or accepted. */
struct rpma_conn_private_data {
    void* ptr;
    uint8_t len;
};

/**
 * rpma_conn_get_private_data - what the peer sent along
 *
 * The active side has it when RPMA_CONN_ESTABLISHED is there, the passive one from the beginning. The
 * pointer points into the connection. The length is that of the message, 56 bytes at the passive side and
 * 196 at the active one on RoCE and InfiniBand; how many of these the peer has filled nobody tells, the
 * rest is zero. NULL and 0 where nothing was sent.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: conn or pdata is NULL
 */
int rpma_conn_get_private_data(const struct rpma_conn* conn, struct rpma_conn_private_data* pdata);

/**
 * rpma_conn_apply_remote_peer_cfg - believe what the peer says of itself
 *
 * See rpma_peer_cfg_set_direct_write_to_pmem().
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: conn or pcfg is NULL
 */
int rpma_conn_apply_remote_peer_cfg(struct rpma_conn* conn, const struct rpma_peer_cfg* pcfg);

/**
 * rpma_conn_get_qp_num - the connection's number
 *
 * The same as qp_num in its completions.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: conn or qp_num is NULL
 */
int rpma_conn_get_qp_num(const struct rpma_conn* conn, uint32_t* qp_num);

/* A completion queue. */
struct rpma_cq;

/**
 * rpma_conn_get_cq - the completion queue
 *
 * It belongs to the connection, and goes with it.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: conn or cq_ptr is NULL
 */
int rpma_conn_get_cq(const struct rpma_conn* conn, struct rpma_cq** cq_ptr);

/**
 * rpma_conn_get_rcq - the completion queue of receives
 *
 * NULL where the connection has none of its own; see rpma_conn_cfg_set_rcq_size() and rpma_srq_get_rcq().
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: conn or rcq_ptr is NULL
 */
int rpma_conn_get_rcq(const struct rpma_conn* conn, struct rpma_cq** rcq_ptr);

/**
 * rpma_conn_disconnect - end a connection
 *
 * RPMA_CONN_CLOSED follows, at both sides. After the peer has ended the connection there is nothing left
 * to do, and no error.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: conn is NULL
 * - RPMA_E_PROVIDER: the connection has not come about
 */
int rpma_conn_disconnect(struct rpma_conn* conn);

/**
 * rpma_conn_delete - delete a connection
 *
 * Sets the pointer to NULL, also where the device refuses. A connection that still exists ends.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: conn_ptr is NULL
 * - RPMA_E_PROVIDER: the device refuses
 */
int rpma_conn_delete(struct rpma_conn** conn_ptr);

/* A request to connect: one's own, or the peer's. */
struct rpma_conn_req;

/**
 * rpma_conn_req_new - prepare to connect
 *
 * Finds ADDR and the way to it, which may take twice the configuration's timeout. Receives may be posted
 * to the request. CFG may be NULL for the defaults.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: peer, addr, port or req_ptr is NULL
 * - RPMA_E_INVAL: cfg asks for a shared completion channel together with a shared receive queue that has
 *   a completion queue of its own
 * - RPMA_E_NOMEM: out of memory
 * - RPMA_E_PROVIDER: there is no such address or no way to it from this device, or the device refuses
 *   what cfg asks for
 */
int rpma_conn_req_new(struct rpma_peer* peer, const char* addr, const char* port,
                      const struct rpma_conn_cfg* cfg, struct rpma_conn_req** req_ptr);

/**
 * rpma_conn_req_delete - give a request up
 *
 * The peer's request is rejected. Sets the pointer to NULL.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: req_ptr is NULL
 * - RPMA_E_PROVIDER: rejecting fails, as when the peer has given up before
 */
int rpma_conn_req_delete(struct rpma_conn_req** req_ptr);

/**
 * rpma_conn_req_connect - connect, or accept
 *
 * The request is used up and *REQ_PTR set to NULL in every case but that where one of the pointers is
 * NULL. PDATA may be NULL; 56 bytes of it can be sent with one's own request, 196 with the answer to the
 * peer's, on RoCE and InfiniBand. Whether it worked is an event, see rpma_conn_next_event().
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: req_ptr, *req_ptr or conn_ptr is NULL
 * - RPMA_E_INVAL: pdata has no bytes
 * - RPMA_E_NOMEM: out of memory
 * - RPMA_E_PROVIDER: there is more private data than can be sent, the peer has given up, or the device
 *   refuses
 */
int rpma_conn_req_connect(struct rpma_conn_req** req_ptr, const struct rpma_conn_private_data* pdata,
                          struct rpma_conn** conn_ptr);

/**
 * rpma_conn_get_compl_fd - a descriptor to wait for completions with
 *
 * Readable when rpma_conn_wait() does not block. With O_NONBLOCK set by fcntl(2) it never does.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: conn or fd is NULL
 * - RPMA_E_NOT_SHARED_CHNL: each queue has a channel of its own
 */
int rpma_conn_get_compl_fd(const struct rpma_conn* conn, int* fd);

/**
 * rpma_conn_wait - wait for completions in either queue
 *
 * Gives the queue that has some. It is to be emptied by rpma_cq_get_wc(): the next wait only sees what
 * comes after. It may turn out to be empty. FLAGS has no meaning. IS_RCQ, which may be NULL, tells whether
 * it is the queue of receives.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: conn or cq is NULL
 * - RPMA_E_NOT_SHARED_CHNL: each queue has a channel of its own
 * - RPMA_E_NO_COMPLETION: there is none, and the descriptor does not block; or a signal ended the wait
 * - RPMA_E_UNKNOWN: the notification is of a queue of somebody else's
 * - RPMA_E_PROVIDER: the device refuses to notify again
 */
int rpma_conn_wait(struct rpma_conn* conn, int flags, struct rpma_cq** cq, bool* is_rcq);

/**
 * rpma_conn_req_recv - post a receive before connecting
 *
 * As rpma_recv(), so that the peer's first message finds it.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: req or dst is NULL
 * - RPMA_E_INVAL: the range is not within the region, or has 4 GiB or more
 * - RPMA_E_PROVIDER: the queue is full, or the connection has a shared one
 */
int rpma_conn_req_recv(struct rpma_conn_req* req, struct rpma_mr_local* dst, size_t offset, size_t len,
                       const void* op_context);

/* Where peers can connect to. */
struct rpma_ep;

/**
 * rpma_ep_listen - listen for peers
 *
 * ADDR is an address of the peer's device.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: peer, addr, port or ep_ptr is NULL
 * - RPMA_E_NOMEM: out of memory
 * - RPMA_E_PROVIDER: there is no such address or port, it is not the device's, or somebody else has it
 */
int rpma_ep_listen(struct rpma_peer* peer, const char* addr, const char* port, struct rpma_ep** ep_ptr);

/**
 * rpma_ep_shutdown - stop listening
 *
 * Sets the pointer to NULL. Requests and connections that came from it stay.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: ep_ptr is NULL
 * - RPMA_E_PROVIDER: the system refuses
 */
int rpma_ep_shutdown(struct rpma_ep** ep_ptr);

/**
 * rpma_ep_get_fd - a descriptor to wait for requests with
 *
 * Readable when rpma_ep_next_conn_req() has something to give. With O_NONBLOCK set on it by fcntl(2) that
 * function does not block. It is the endpoint's.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: ep or fd is NULL
 */
int rpma_ep_get_fd(const struct rpma_ep* ep, int* fd);

/**
 * rpma_ep_next_conn_req - the next request of a peer
 *
 * Waits until there is one, or until a signal comes, unless the descriptor of rpma_ep_get_fd() has
 * O_NONBLOCK set. CFG may be NULL for the defaults. Receives may be posted to the request.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: ep or req_ptr is NULL
 * - RPMA_E_INVAL: cfg asks for what rpma_conn_req_new() refuses
 * - RPMA_E_INVAL: what came is no request: the device is gone
 * - RPMA_E_NO_EVENT: there is none, and the descriptor does not block; or a signal ended the wait
 * - RPMA_E_NOMEM: out of memory
 * - RPMA_E_PROVIDER: the device refuses what cfg asks for; the peer is rejected
 */
int rpma_ep_next_conn_req(struct rpma_ep* ep, const struct rpma_conn_cfg* cfg,
                          struct rpma_conn_req** req_ptr);

/**
 * rpma_conn_req_get_private_data - what the peer sent along with its request
 *
 * As rpma_conn_get_private_data(). NULL and 0 for one's own request.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: req or pdata is NULL
 */
int rpma_conn_req_get_private_data(const struct rpma_conn_req* req, struct rpma_conn_private_data* pdata);

/* How a shared receive queue shall be. */
struct rpma_srq_cfg;

/**
 * rpma_srq_cfg_new - make a configuration of shared receive queues
 *
 * It begins with 20 receives and a completion queue of 20 entries.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: cfg_ptr is NULL
 * - RPMA_E_NOMEM: out of memory
 */
int rpma_srq_cfg_new(struct rpma_srq_cfg** cfg_ptr);

/**
 * rpma_srq_cfg_delete - delete a configuration
 *
 * Sets the pointer to NULL.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: cfg_ptr is NULL
 */
int rpma_srq_cfg_delete(struct rpma_srq_cfg** cfg_ptr);

/**
 * rpma_srq_cfg_set_rq_size - how many receives may be posted
 *
 * To be set before the queue is made.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: cfg is NULL
 */
int rpma_srq_cfg_set_rq_size(struct rpma_srq_cfg* cfg, uint32_t rq_size);

/**
 * rpma_srq_cfg_get_rq_size - what was set
 *
 * See rpma_srq_cfg_set_rq_size().
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: cfg or rq_size is NULL
 */
int rpma_srq_cfg_get_rq_size(const struct rpma_srq_cfg* cfg, uint32_t* rq_size);

/**
 * rpma_srq_cfg_set_rcq_size - how many completions fit in its completion queue
 *
 * With 0 the queue has none, and receives complete in the queues of their connections.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: cfg is NULL
 */
int rpma_srq_cfg_set_rcq_size(struct rpma_srq_cfg* cfg, uint32_t rcq_size);

/**
 * rpma_srq_cfg_get_rcq_size - what was set
 *
 * See rpma_srq_cfg_set_rcq_size().
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: cfg or rcq_size is NULL
 */
int rpma_srq_cfg_get_rcq_size(const struct rpma_srq_cfg* cfg, uint32_t* rcq_size);

/**
 * rpma_srq_new - make a shared receive queue
 *
 * CFG may be NULL for the defaults.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: peer or srq_ptr is NULL
 * - RPMA_E_NOMEM: out of memory
 * - RPMA_E_PROVIDER: the device refuses what cfg asks for
 */
int rpma_srq_new(struct rpma_peer* peer, struct rpma_srq_cfg* cfg, struct rpma_srq** srq_ptr);

/**
 * rpma_srq_delete - delete a shared receive queue
 *
 * Sets the pointer to NULL, also where the device refuses. The connections that use it must be gone.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: srq_ptr is NULL
 * - RPMA_E_PROVIDER: the device refuses, because a connection uses it
 */
int rpma_srq_delete(struct rpma_srq** srq_ptr);

/**
 * rpma_srq_recv - post a receive that any of the connections may use
 *
 * As rpma_recv().
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: srq is NULL
 * - RPMA_E_INVAL: dst is NULL and offset or len is not 0
 * - RPMA_E_INVAL: the range is not within the region, or has 4 GiB or more
 * - RPMA_E_PROVIDER: the queue is full
 */
int rpma_srq_recv(struct rpma_srq* srq, struct rpma_mr_local* dst, size_t offset, size_t len,
                  const void* op_context);

/**
 * rpma_srq_get_rcq - its completion queue
 *
 * NULL where it has none; see rpma_srq_cfg_set_rcq_size().
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: srq or rcq_ptr is NULL
 */
int rpma_srq_get_rcq(const struct rpma_srq* srq, struct rpma_cq** rcq_ptr);

/* When a request shall have a completion. One that fails always has. */
#define RPMA_F_COMPLETION_ON_ERROR (1 << 0)
#define RPMA_F_COMPLETION_ALWAYS (1 << 1 | RPMA_F_COMPLETION_ON_ERROR)

/**
 * rpma_read - bring data from the peer's memory
 *
 * Returns when the request is posted. OP_CONTEXT comes back as wr_id of the completion, if there is one.
 * With both regions NULL, a read of no bytes.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: conn is NULL
 * - RPMA_E_INVAL: flags is 0
 * - RPMA_E_INVAL: one of the regions is NULL and the other is not, or both are and offsets and len are
 *   not 0
 * - RPMA_E_INVAL: a range is not within its region, or has 4 GiB or more
 * - RPMA_E_PROVIDER: the device refuses: too many requests are under way, or the connection is not
 *   established
 */
int rpma_read(struct rpma_conn* conn, struct rpma_mr_local* dst, size_t dst_offset,
              const struct rpma_mr_remote* src, size_t src_offset, size_t len, int flags,
              const void* op_context);

/**
 * rpma_write - bring data to the peer's memory
 *
 * As rpma_read(). The completion tells that the data has left, and may be changed here; that it is in the
 * peer's memory is told by that of a later rpma_flush().
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: conn is NULL
 * - RPMA_E_INVAL: flags is 0
 * - RPMA_E_INVAL: one of the regions is NULL and the other is not, or both are and offsets and len are
 *   not 0
 * - RPMA_E_INVAL: a range is not within its region, or has 4 GiB or more
 * - RPMA_E_PROVIDER: the device refuses: too many requests are under way, or the connection is not
 *   established
 */
int rpma_write(struct rpma_conn* conn, struct rpma_mr_remote* dst, size_t dst_offset,
               const struct rpma_mr_local* src, size_t src_offset, size_t len, int flags,
               const void* op_context);

/**
 * rpma_write_with_imm - bring data to the peer's memory, and tell it
 *
 * As rpma_write(). It takes one of the peer's receives, whose completion has IMM, in the network's order.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: conn is NULL
 * - RPMA_E_INVAL: flags is 0
 * - RPMA_E_INVAL: one of the regions is NULL and the other is not, or both are and offsets and len are
 *   not 0
 * - RPMA_E_INVAL: a range is not within its region, or has 4 GiB or more
 * - RPMA_E_PROVIDER: the device refuses: too many requests are under way, or the connection is not
 *   established
 */
int rpma_write_with_imm(struct rpma_conn* conn, struct rpma_mr_remote* dst, size_t dst_offset,
                        const struct rpma_mr_local* src, size_t src_offset, size_t len, int flags,
                        uint32_t imm, const void* op_context);

#define RPMA_ATOMIC_WRITE_ALIGNMENT 8

/**
 * rpma_atomic_write - write eight bytes as one
 *
 * A reader of the peer's memory sees the old eight bytes or the new ones, and the new ones only when all
 * earlier flushes have been done. SRC is copied by the call. Native where both devices can, otherwise a
 * write that the bus keeps together; the completion is IBV_WC_ATOMIC_WRITE or IBV_WC_RDMA_WRITE then.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: conn, dst or src is NULL
 * - RPMA_E_INVAL: flags is 0
 * - RPMA_E_INVAL: the place is not aligned to RPMA_ATOMIC_WRITE_ALIGNMENT bytes, or not within the
 *   region
 * - RPMA_E_PROVIDER: the device refuses: too many requests are under way, or the connection is not
 *   established
 */
int rpma_atomic_write(struct rpma_conn* conn, struct rpma_mr_remote* dst, size_t dst_offset,
                      const char src[8], int flags, const void* op_context);

enum rpma_flush_type {
    RPMA_FLUSH_TYPE_PERSISTENT, /* survives a loss of power */
    RPMA_FLUSH_TYPE_VISIBILITY  /* visible to everybody at the peer's side */
};

/**
 * rpma_flush - make what was written visible, or persistent
 *
 * The completion tells that all that was written before to these LEN bytes has arrived. Native where both
 * devices can, otherwise a read after the writes, which makes them visible, and thereby persistent where
 * the peer has declared so; the completion is 8, which is IBV_WC_FLUSH, or IBV_WC_RDMA_READ then.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: conn or dst is NULL
 * - RPMA_E_INVAL: type is unknown, or flags is 0
 * - RPMA_E_INVAL: the range is not within the region, or has 4 GiB or more
 * - RPMA_E_NOSUPP: type is RPMA_FLUSH_TYPE_PERSISTENT, and the peer has not declared that writes go to
 *   persistent memory; see rpma_conn_apply_remote_peer_cfg()
 * - RPMA_E_NOSUPP: the peer did not register the region for flushes of this type
 * - RPMA_E_PROVIDER: the device refuses: too many requests are under way, or the connection is not
 *   established
 */
int rpma_flush(struct rpma_conn* conn, struct rpma_mr_remote* dst, size_t dst_offset, size_t len,
               enum rpma_flush_type type, int flags, const void* op_context);

/**
 * rpma_send - send a message
 *
 * It takes one of the peer's receives, and waits until there is one. With SRC NULL, a message of no bytes.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: conn is NULL
 * - RPMA_E_INVAL: flags is 0
 * - RPMA_E_INVAL: src is NULL and offset or len is not 0
 * - RPMA_E_INVAL: the range is not within the region, or has 4 GiB or more
 * - RPMA_E_PROVIDER: the device refuses: too many requests are under way, or the connection is not
 *   established
 */
int rpma_send(struct rpma_conn* conn, const struct rpma_mr_local* src, size_t offset, size_t len, int flags,
              const void* op_context);

/**
 * rpma_send_with_imm - send a message with a number
 *
 * As rpma_send(); the receive's completion has IMM, in the network's order.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: conn is NULL
 * - RPMA_E_INVAL: flags is 0
 * - RPMA_E_INVAL: src is NULL and offset or len is not 0
 * - RPMA_E_INVAL: the range is not within the region, or has 4 GiB or more
 * - RPMA_E_PROVIDER: the device refuses: too many requests are under way, or the connection is not
 *   established
 */
int rpma_send_with_imm(struct rpma_conn* conn, const struct rpma_mr_local* src, size_t offset, size_t len,
                       int flags, uint32_t imm, const void* op_context);

/**
 * rpma_recv - post a receive
 *
 * It always has a completion. Which of several receives takes which message is not promised. With DST
 * NULL, one for messages of no bytes.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: conn is NULL
 * - RPMA_E_INVAL: dst is NULL and offset or len is not 0
 * - RPMA_E_INVAL: the range is not within the region, or has 4 GiB or more
 * - RPMA_E_PROVIDER: the queue is full, or the connection has a shared one
 */
int rpma_recv(struct rpma_conn* conn, struct rpma_mr_local* dst, size_t offset, size_t len,
              const void* op_context);

/**
 * rpma_cq_get_fd - a descriptor to wait for completions with
 *
 * Readable when rpma_cq_wait() does not block. With O_NONBLOCK set by fcntl(2) it never does.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: cq or fd is NULL
 */
int rpma_cq_get_fd(const struct rpma_cq* cq, int* fd);

/**
 * rpma_cq_wait - wait for completions
 *
 * Returns when there may be some. The queue is to be emptied by rpma_cq_get_wc() then: the next wait only
 * sees what comes after.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: cq is NULL
 * - RPMA_E_SHARED_CHANNEL: the channel is shared; use rpma_conn_wait()
 * - RPMA_E_NO_COMPLETION: there is none, and the descriptor does not block; or a signal ended the wait
 * - RPMA_E_PROVIDER: the device refuses to notify again
 */
int rpma_cq_wait(struct rpma_cq* cq);

/**
 * rpma_cq_get_wc - take completions
 *
 * Takes up to NUM_ENTRIES to WC, and never waits. NUM_ENTRIES_GOT may be NULL if NUM_ENTRIES is 1. A
 * completion with a status other than IBV_WC_SUCCESS ends the connection; the members other than wr_id,
 * status, vendor_err and qp_num mean nothing then.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: cq or wc is NULL, num_entries is less than 1, or num_entries_got is NULL though it is
 *   more
 * - RPMA_E_NO_COMPLETION: there is none
 * - RPMA_E_PROVIDER: the queue has overflowed, or the device is gone
 * - RPMA_E_UNKNOWN: the device gives more than it was asked for
 */
int rpma_cq_get_wc(struct rpma_cq* cq, int num_entries, struct ibv_wc* wc, int* num_entries_got);

/**
 * rpma_err_2str - an error in words
 *
 * For messages to people.
 *
 * Returns: a text that stays valid; never NULL.
 */
const char* rpma_err_2str(int ret);

/* How much a message matters. */
enum rpma_log_level {
    RPMA_LOG_DISABLED = -1, /* nothing at all, as a threshold */
    RPMA_LOG_LEVEL_FATAL,   /* it can't go on */
    RPMA_LOG_LEVEL_ERROR,   /* a call fails, and this is why */
    RPMA_LOG_LEVEL_WARNING, /* it goes on, but not as you may think */
    RPMA_LOG_LEVEL_NOTICE,  /* connections come and go */
    RPMA_LOG_LEVEL_INFO,    /* decisions */
    RPMA_LOG_LEVEL_DEBUG
};

enum rpma_log_threshold {
    RPMA_LOG_THRESHOLD,     /* what is logged at all; RPMA_LOG_LEVEL_WARNING at first */
    RPMA_LOG_THRESHOLD_AUX, /* what goes to standard error, too; RPMA_LOG_DISABLED at first */
    RPMA_LOG_THRESHOLD_MAX
};

/**
 * rpma_log_set_threshold - choose what is logged
 *
 * Messages that matter less than LEVEL are dropped.
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: threshold or level is unknown
 */
int rpma_log_set_threshold(enum rpma_log_threshold threshold, enum rpma_log_level level);

/**
 * rpma_log_get_threshold - what was chosen
 *
 * See rpma_log_set_threshold().
 *
 * Returns: 0, or one of the errors below.
 *
 * Errors:
 * - RPMA_E_INVAL: threshold is unknown, or level is NULL
 */
int rpma_log_get_threshold(enum rpma_log_threshold threshold, enum rpma_log_level* level);

/* Takes a message: MESSAGE_FORMAT and what follows are for printf(3), and end with a newline. May be called
 * from several threads at once. */
typedef void rpma_log_function(enum rpma_log_level level, const char* file_name, const int line_no,
                               const char* function_name, const char* message_format, ...);

#define RPMA_LOG_USE_DEFAULT_FUNCTION (NULL)

/**
 * rpma_log_set_function - choose the function that takes messages
 *
 * RPMA_LOG_USE_DEFAULT_FUNCTION restores the library's own, which sends them to syslog(3) as of the
 * facility local7, and those of RPMA_LOG_THRESHOLD_AUX to standard error. A function may still be running,
 * in another thread, when it has been replaced.
 *
 * Returns: 0.
 */
int rpma_log_set_function(rpma_log_function* log_function);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* LIBRPMA_H */
