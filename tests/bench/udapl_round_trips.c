/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What bench_udapl_peer counts: round trips of a message between two endpoints of one process, on any DAT,
 * 1.2 or 2.0, so that the same program runs on ours and on other people's.
 *
 *   udapl_round_trips ADAPTER poll|wait ROUND_TRIPS
 *
 * With `poll` it sleeps until the message must have arrived, and then takes it by dat_evd_dequeue(): who
 * spins instead executes as many instructions as the machine is slow. Prints how often it came too early.
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

enum { kBytes = 64, kEvents = 16, kPort = 45678 };

static unsigned long too_early;

static void must(DAT_RETURN status, const char* what) {
    if (status != DAT_SUCCESS) {
        fprintf(stderr, "udapl_round_trips: %s: 0x%x\n", what, (unsigned)status);
        _Exit(1);
    }
}

struct end {
    DAT_EP_HANDLE ep;
    DAT_EVD_HANDLE receives;
    DAT_EVD_HANDLE requests;
    DAT_LMR_TRIPLET part;
    char bytes[kBytes];
};

static void make_end(struct end* end, DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE connections) {
    DAT_REGION_DESCRIPTION region;
    DAT_LMR_HANDLE lmr;
    DAT_RMR_CONTEXT rmr_context;
    DAT_VLEN length;
    DAT_VADDR address;
    must(dat_evd_create(ia, kEvents, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &end->receives), "dat_evd_create");
    must(dat_evd_create(ia, kEvents, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &end->requests), "dat_evd_create");
    must(dat_ep_create(ia, pz, end->receives, end->requests, connections, NULL, &end->ep), "dat_ep_create");
    memset(&region, 0, sizeof region);
    region.for_va = end->bytes;
    must(dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, kBytes, pz, DAT_MEM_PRIV_ALL_FLAG,
#ifdef BENCH_DAT_2
                        DAT_VA_TYPE_VA,
#endif
                        &lmr, &end->part.lmr_context, &rmr_context, &length, &address),
         "dat_lmr_create");
    end->part.virtual_address = (DAT_VADDR)(uintptr_t)end->bytes;
    end->part.segment_length = kBytes;
}

static DAT_EVENT next(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number) {
    DAT_EVENT event;
    DAT_COUNT more;
    must(dat_evd_wait(evd, DAT_TIMEOUT_INFINITE, 1, &event, &more), "dat_evd_wait");
    if (event.event_number != number) {
        fprintf(stderr, "udapl_round_trips: event 0x%x, not 0x%x\n", (unsigned)event.event_number,
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

int main(int argc, char** argv) {
    static struct end ends[2];
    DAT_IA_HANDLE ia;
    DAT_PZ_HANDLE pz;
    DAT_EVD_HANDLE errors = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE connections;
    long left;
    int waits;
    if (argc != 4) {
        fprintf(stderr, "usage: %s ADAPTER poll|wait ROUND_TRIPS\n", argv[0]);
        return 2;
    }
    waits = strcmp(argv[2], "wait") == 0;
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
    for (left = strtol(argv[3], NULL, 10); left > 0; --left) {
        send_and_take(&ends[0], &ends[1], waits);
        send_and_take(&ends[1], &ends[0], waits);
    }
    fprintf(stderr, "too early: %lu\n", too_early);
    _Exit(0); /* what is made isn't taken apart: that isn't compared */
}
