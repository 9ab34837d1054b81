/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What bench_udapl_peer counts: transfers between two endpoints of one process, on any DAT, 1.2 or 2.0, so
 * that the same program runs on ours and on other people's.
 *
 *   udapl_transfers ADAPTER poll|wait COUNT
 *   udapl_transfers ADAPTER poll|wait COUNT write|read BYTES SEGMENTS AT_A_TIME
 *
 * The first form sends COUNT messages of 64 bytes there and as many back. The second one has COUNT RDMA
 * Writes or Reads of SEGMENTS times BYTES, of which AT_A_TIME are under way.
 *
 * With `poll` it sleeps until the transfer must have ended, and then takes it by dat_evd_dequeue(): a
 * loop that spins executes as many instructions as the machine is slow. Prints how often it came too early.
 * With `wait` dat_evd_wait() does the waiting.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef BENCH_DAT_2
#include <dat2/udat.h>
#else
#include <dat/udat.h>
#endif

enum { kMessage = 64, kMostBytes = 131072, kMostSegments = 4, kEvents = 16, kPort = 45678 };

static unsigned long too_early;

static void must(DAT_RETURN status, const char* what) {
    if (status != DAT_SUCCESS) {
        fprintf(stderr, "udapl_transfers: %s: 0x%x\n", what, (unsigned)status);
        _Exit(1);
    }
}

struct end {
    DAT_EP_HANDLE ep;
    DAT_EVD_HANDLE receives;
    DAT_EVD_HANDLE requests;
    DAT_LMR_TRIPLET part;
    DAT_RMR_CONTEXT rmr_context;
    char bytes[kMostBytes];
};

static void make_end(struct end* end, DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE connections) {
    DAT_REGION_DESCRIPTION region;
    DAT_LMR_HANDLE lmr;
    DAT_VLEN length;
    DAT_VADDR address;
    must(dat_evd_create(ia, kEvents, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &end->receives), "dat_evd_create");
    must(dat_evd_create(ia, kEvents, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &end->requests), "dat_evd_create");
    must(dat_ep_create(ia, pz, end->receives, end->requests, connections, NULL, &end->ep), "dat_ep_create");
    memset(&region, 0, sizeof region);
    region.for_va = end->bytes;
    must(dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, kMostBytes, pz, DAT_MEM_PRIV_ALL_FLAG,
#ifdef BENCH_DAT_2
                        DAT_VA_TYPE_VA,
#endif
                        &lmr, &end->part.lmr_context, &end->rmr_context, &length, &address),
         "dat_lmr_create");
    end->part.virtual_address = (DAT_VADDR)(uintptr_t)end->bytes;
    end->part.segment_length = kMessage;
}

static DAT_EVENT next(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number) {
    DAT_EVENT event;
    DAT_COUNT more;
    must(dat_evd_wait(evd, DAT_TIMEOUT_INFINITE, 1, &event, &more), "dat_evd_wait");
    if (event.event_number != number) {
        fprintf(stderr, "udapl_transfers: event 0x%x, not 0x%x\n", (unsigned)event.event_number,
                (unsigned)number);
        _Exit(1);
    }
    return event;
}

static void connect_ends(struct end* active, struct end* passive, DAT_IA_HANDLE ia,
                         DAT_EVD_HANDLE connections) {
    DAT_PSP_HANDLE listener;
    DAT_IA_ATTR attributes;
    DAT_EVENT request;
    must(dat_psp_create(ia, kPort, connections, DAT_PSP_CONSUMER_FLAG, &listener), "dat_psp_create");
    must(dat_ia_query(ia, NULL, DAT_IA_FIELD_IA_ADDRESS_PTR, &attributes, 0, NULL), "dat_ia_query");
    must(dat_ep_connect(active->ep, attributes.ia_address_ptr, kPort, DAT_TIMEOUT_INFINITE, 0, NULL,
                        DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
         "dat_ep_connect");
    request = next(connections, DAT_CONNECTION_REQUEST_EVENT);
    must(dat_cr_accept(request.event_data.cr_arrival_event_data.cr_handle, passive->ep, 0, NULL),
         "dat_cr_accept");
    next(connections, DAT_CONNECTION_EVENT_ESTABLISHED);
    next(connections, DAT_CONNECTION_EVENT_ESTABLISHED);
}

static void give_receive(struct end* end) {
    DAT_DTO_COOKIE cookie;
    cookie.as_64 = 1;
    must(dat_ep_post_recv(end->ep, 1, &end->part, cookie, DAT_COMPLETION_DEFAULT_FLAG), "dat_ep_post_recv");
}

static void take(DAT_EVD_HANDLE evd, int waits) {
    static const struct timespec kLong = {.tv_sec = 0, .tv_nsec = 20000000};
    DAT_EVENT event;
    DAT_COUNT more;
    if (waits) {
        must(dat_evd_wait(evd, DAT_TIMEOUT_INFINITE, 1, &event, &more), "dat_evd_wait");
    } else {
        while (dat_evd_dequeue(evd, &event) != DAT_SUCCESS) {
            ++too_early;
            nanosleep(&kLong, NULL);
        }
    }
    must(event.event_data.dto_completion_event_data.status == DAT_DTO_SUCCESS ? DAT_SUCCESS
                                                                              : DAT_INTERNAL_ERROR,
         "a transfer");
}

static void send_and_take(struct end* from, struct end* to, int waits) {
    static const struct timespec kShort = {.tv_sec = 0, .tv_nsec = 1000000};
    DAT_DTO_COOKIE cookie;
    cookie.as_64 = 2;
    must(dat_ep_post_send(from->ep, 1, &from->part, cookie, DAT_COMPLETION_DEFAULT_FLAG), "dat_ep_post_send");
    if (!waits) {
        nanosleep(&kShort, NULL);
    }
    take(to->receives, waits);
    take(from->requests, waits);
    give_receive(to);
}

/* RDMA from one end to the other: SEGMENTS of BYTES each, AT_A_TIME under way. */
struct rdma {
    struct end* from;
    DAT_LMR_TRIPLET parts[kMostSegments];
    DAT_COUNT segments;
    DAT_RMR_TRIPLET remote;
    int reads;
    long at_a_time;
};

static void describe(struct rdma* rdma, struct end* to, DAT_VLEN bytes) {
    DAT_COUNT i;
    for (i = 0; i < rdma->segments; ++i) {
        rdma->parts[i] = rdma->from->part;
        rdma->parts[i].virtual_address += (DAT_VADDR)i * bytes;
        rdma->parts[i].segment_length = bytes;
    }
    memset(&rdma->remote, 0, sizeof rdma->remote);
    rdma->remote.rmr_context = to->rmr_context;
#ifdef BENCH_DAT_2
    rdma->remote.virtual_address = to->part.virtual_address;
#else
    rdma->remote.target_address = to->part.virtual_address;
#endif
    rdma->remote.segment_length = (DAT_VLEN)rdma->segments * bytes;
}

static void post(struct rdma* rdma) {
    DAT_DTO_COOKIE cookie;
    cookie.as_64 = 3;
    if (rdma->reads) {
        must(dat_ep_post_rdma_read(rdma->from->ep, rdma->segments, rdma->parts, cookie, &rdma->remote,
                                   DAT_COMPLETION_DEFAULT_FLAG),
             "dat_ep_post_rdma_read");
    } else {
        must(dat_ep_post_rdma_write(rdma->from->ep, rdma->segments, rdma->parts, cookie, &rdma->remote,
                                    DAT_COMPLETION_DEFAULT_FLAG),
             "dat_ep_post_rdma_write");
    }
}

static void run_rdma(struct rdma* rdma, long count, int waits) {
    static const struct timespec kShort = {.tv_sec = 0, .tv_nsec = 1000000};
    long left = count;
    long under_way;
    for (under_way = 0; under_way < rdma->at_a_time && left > 0; ++under_way, --left) {
        post(rdma);
    }
    for (; count > 0; --count) {
        if (!waits) {
            nanosleep(&kShort, NULL);
        }
        take(rdma->from->requests, waits);
        if (left > 0) {
            post(rdma);
            --left;
        }
    }
}

static void run_messages(struct end* ends, long count, int waits) {
    for (; count > 0; --count) {
        send_and_take(&ends[0], &ends[1], waits);
        send_and_take(&ends[1], &ends[0], waits);
    }
}

static int in_range(long number, long most) {
    return number > 0 && number <= most;
}

static int usage(const char* program) {
    fprintf(stderr, "usage: %s ADAPTER poll|wait COUNT [write|read BYTES SEGMENTS AT_A_TIME]\n", program);
    return 2;
}

int main(int argc, char** argv) {
    static struct end ends[2];
    DAT_IA_HANDLE ia;
    DAT_PZ_HANDLE pz;
    DAT_EVD_HANDLE errors = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE connections;
    static struct rdma rdma;
    long count;
    long bytes = 0;
    int waits;
    if (argc != 4 && argc != 8) {
        return usage(argv[0]);
    }
    waits = strcmp(argv[2], "wait") == 0;
    count = strtol(argv[3], NULL, 10);
    if (argc == 8) {
        rdma.reads = strcmp(argv[4], "read") == 0;
        bytes = strtol(argv[5], NULL, 10);
        rdma.segments = (DAT_COUNT)strtol(argv[6], NULL, 10);
        rdma.at_a_time = strtol(argv[7], NULL, 10);
        if (!in_range(rdma.segments, kMostSegments) || !in_range(bytes, kMostBytes / rdma.segments) ||
            !in_range(rdma.at_a_time, kEvents)) {
            return usage(argv[0]);
        }
    }
    must(dat_ia_open(argv[1], kEvents, &errors, &ia), "dat_ia_open");
    must(dat_pz_create(ia, &pz), "dat_pz_create");
    must(
        dat_evd_create(ia, kEvents, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG, &connections),
        "dat_evd_create");
    make_end(&ends[0], ia, pz, connections);
    make_end(&ends[1], ia, pz, connections);
    give_receive(&ends[0]);
    give_receive(&ends[1]);
    connect_ends(&ends[0], &ends[1], ia, connections);
    if (argc == 8) {
        rdma.from = &ends[0];
        describe(&rdma, &ends[1], (DAT_VLEN)bytes);
        run_rdma(&rdma, count, waits);
    } else {
        run_messages(ends, count, waits);
    }
    fprintf(stderr, "too early: %lu\n", too_early);
    _Exit(0); /* what is made isn't taken apart: that isn't compared */
}
