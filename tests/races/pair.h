// SPDX-License-Identifier: BSD-3-Clause
//
// What the programs about verbs begin and end with: two ends of a reliable connection, "a" and "b", in one
// process and one thread. They connect by librdmacm, so that the same program runs on uroce, rxe, siw and
// hardware. The device is the one that has the address RACES_ADDRESS, or LAB_ADDR, which `sluice run` sets,
// or else 127.0.0.1.
//
// What can't go wrong without a mistake of the set-up ends the program with status 2. A device that can't do
// what a program is about ends it with status 77. A program itself ends with 0, or with 1 if it has noticed
// its mistake.
#ifndef TESTS_RACES_PAIR_H
#define TESTS_RACES_PAIR_H

#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stddef.h>
#include <stdint.h>

#include "connecting.h"
#include "outcome.h"

struct end {
    struct rdma_cm_id* id; // id->qp is the queue pair
    struct ibv_comp_channel* channel;
    struct ibv_cq* sent;
    struct ibv_cq* received;
    struct ibv_qp_cap cap; // what the device has granted
    unsigned receives;     // posted by post_receive(), and not seen by await() yet
};

struct pair {
    struct rdma_event_channel* events;
    struct rdma_cm_id* listener;
    struct ibv_pd* pd;      // of both ends
    struct ibv_srq* shared; // of both ends, or null
    uint8_t retries;        // of a message that finds no receive; 7: without end
    uint8_t reads;          // at a time
    struct end a;
    struct end b;
};

// Zero is right for most programs.
struct options {
    uint32_t send_requests;                     // for each end; 0: 64
    int sent_entries;                           // of the queue `sent`; 0: as many as send_requests
    uint8_t no_retries;                         // a message that finds no receive is an error at once
    uint8_t no_reads;                           // neither end may read from the other
    uint8_t one_sent;                           // b's requests complete in a's queue `sent`, too
    uint32_t send_pieces;                       // of a request; 0: 1
    uint32_t inline_bytes;                      // of a request
    uint32_t shared_places;                     // of a shared receive queue; 0: each end has its own
    uint64_t operations;                        // that ibv_wr_*() shall have
    const struct ibv_cq_init_attr_ex* received; // what `received` is beyond an ordinary queue
};

// Makes both ends. Receives may be posted from now on; pair_connect() connects the ends.
void pair_open(struct pair* pair, const struct options* options);
void pair_connect(struct pair* pair);
// Moves both queue pairs to error, awaits the receives that are still posted, and destroys everything.
void pair_close(struct pair* pair);

// The queue pair of an end as ibv_wr_*() want it.
struct ibv_qp_ex* end_by_calls(const struct end* end);
// The queue pair of an end, after its requests have ended, or just so.
void end_flush(struct end* end);
void end_destroy_qp(struct end* end);
// Both queue pairs and the shared receive queue, whose receives end with it, without a completion.
void pair_destroy_shared(struct pair* pair);

// Zeros in whole pages of their own, on any CPU. free() takes them back.
void* whole_pages(size_t bytes);
// Registers BYTES at MEMORY for everything that the peer may do, and for windows where MORE_ACCESS says so.
struct ibv_mr* register_memory(struct pair* pair, void* memory, size_t bytes, int more_access);
// A window, and the bind of one of type 1 to all of REGION. A device without windows ends the program with
// status 77.
struct ibv_mw* make_window(struct pair* pair, enum ibv_mw_type type);
void bind_window(struct end* end, struct ibv_mw* window, struct ibv_mr* region);

// Posts a Send, or a Write to or a Read from REMOTE, of BYTES at LOCAL. Returns what ibv_post_send() returns.
struct remote {
    uint64_t address;
    uint32_t key;
};
int post(struct end* end, enum ibv_wr_opcode opcode, const struct ibv_mr* region, const void* local,
         size_t bytes, struct remote remote, unsigned flags);
// An atomic addition at REMOTE, whose result goes to BYTES at RESULT. Returns what ibv_post_send() returns.
int post_add(struct end* end, const struct ibv_mr* region, const void* result, size_t bytes,
             struct remote remote, uint64_t summand);
// A Send with a completion, which has to be accepted.
void post_message(struct end* end, const struct ibv_mr* region, const void* local, size_t bytes);
void post_receive(struct end* end, const struct ibv_mr* region, void* local, size_t bytes);
// To the shared receive queue.
void post_shared(struct pair* pair, const struct ibv_mr* region, void* local, size_t bytes);

// The next completion of a queue, whatever its status. Ends the program if none comes.
struct ibv_wc await_completion(struct ibv_cq* queue);
struct ibv_wc await_sent(struct end* end);
struct ibv_wc await_received(struct end* end);
// The same where it may never come: 0 if it doesn't within MS.
int poll_for(struct ibv_cq* queue, int ms, struct ibv_wc* completion);
// How many completions of requests come, up to MOST; ends where the queue is broken, or nothing comes for a
// while.
int count_sent(struct end* end, int most);
// Waits for an event of the queue `received`, and acknowledges it: 0 if none comes within patience_ms().
int take_event(struct end* end);
// Whether the device reports EVENT within MS.
int device_reports(struct ibv_context* verbs, enum ibv_event_type event, int ms);

// Ends the program with status 77 where the device is of iWARP: a message that finds no receive ends the
// connection there.
void needs_retries(const struct pair* pair);

#endif
