// SPDX-License-Identifier: BSD-3-Clause
//
// What check_program.c begins and ends with: two connected queue pairs "a" and "b" of one device, in one
// process. What can't go wrong without a mistake of ours ends the program with status 2.
#ifndef TESTS_PRELOAD_CHECK_ENDS_H
#define TESTS_PRELOAD_CHECK_ENDS_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stddef.h>
#include <stdint.h>

enum { REQUESTS = 64, PIECES = 2, INLINE_BYTES = 64, BYTES = 65536 };

struct end {
    struct ibv_comp_channel* channel; // of `sent`
    struct ibv_cq* sent;
    struct ibv_cq* received;
    struct ibv_qp* qp;
    uint32_t places; // of the send queue, as granted
};

struct ends {
    struct rdma_event_channel* events;
    struct rdma_cm_id* id; // the device is found by it
    struct ibv_context* verbs;
    struct ibv_pd* pd;
    struct ibv_srq* shared; // of both ends, or null
    struct end a;
    struct end b;
};

// In whole pages of its own.
struct buffer {
    char* memory; // BYTES of zeros
    struct ibv_mr* region;
};

struct options {
    int is_extended; // its completion queues are made by ibv_create_cq_ex()
    int is_shared;   // receives are posted to a shared queue
    int is_apart;    // the ends aren't connected, and in state INIT
};

struct ends open_ends(struct options options);
void close_ends(struct ends* ends);

struct buffer make_buffer(struct ends* ends);
void end_region(struct buffer* buffer);
void free_buffer(struct buffer* buffer); // with its region, if that hasn't ended

// A request of 64 bytes at the buffer's begin. ID is also that of the completion.
struct ibv_sge piece_of(const struct buffer* buffer);
void post_send(struct end* end, uint64_t id, const struct buffer* buffer, unsigned flags);
void post_write(struct end* end, uint64_t id, const struct buffer* from, const struct buffer* to);
void post_receive(struct end* end, uint64_t id, const struct buffer* buffer);
void post_shared(struct ends* ends, uint64_t id, const struct buffer* buffer);

// The next completion, which has to come.
struct ibv_wc await_any(struct ibv_cq* queue);
// It has to be a success of request ID.
void await(struct ibv_cq* queue, uint64_t id);

long long now_ms(void);
void must(int fine, const char* what);

#endif
