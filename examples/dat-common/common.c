/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Long enough for anything here; a peer that has died is noticed. */
static const DAT_TIMEOUT kTimeout = 30 * 1000 * 1000;
static const DAT_UINT32 kOffer = 0x6f666572;

static void explain(DAT_RETURN status, const char* call) {
    const char* type = "?";
    const char* subtype = "";
    dat_strerror(status, &type, &subtype);
    fprintf(stderr, "%s: %s %s\n", call, type, subtype);
}

void must_succeed(DAT_RETURN status, const char* call) {
    if (status != DAT_SUCCESS) {
        explain(status, call);
        exit(1);
    }
}

void must_fail_with(DAT_RETURN status, DAT_RETURN_TYPE type, const char* call) {
    if (DAT_GET_TYPE(status) != (DAT_RETURN)type) {
        explain(status, call);
        exit(1);
    }
}

void require(int holds, const char* what) {
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        exit(1);
    }
}

struct arguments parse(int argc, char** argv) {
    struct arguments parsed;
    const int is_client = argc == 5 && strcmp(argv[1], "client") == 0;
    memset(&parsed, 0, sizeof parsed);
    parsed.is_server = argc == 4 && strcmp(argv[1], "server") == 0;
    parsed.server.sin_family = AF_INET;
    if ((!parsed.is_server && !is_client) ||
        (is_client && inet_pton(AF_INET, argv[3], &parsed.server.sin_addr) != 1)) {
        fprintf(stderr, "usage: %s server ADAPTER QUALIFIER | client ADAPTER ADDRESS QUALIFIER\n", argv[0]);
        exit(2);
    }
    parsed.adapter = argv[2];
    parsed.qualifier = strtoull(argv[argc - 1], NULL, 10);
    return parsed;
}

struct side open_side(char* adapter) {
    struct side side;
    side.errors = DAT_HANDLE_NULL; /* the call shall make one */
    must(dat_ia_open(adapter, 8, &side.errors, &side.ia));
    must(dat_pz_create(side.ia, &side.zone));
    must(dat_evd_create(side.ia, 64, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG,
                        &side.requests));
    must(dat_evd_create(side.ia, 64, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &side.receives));
    must(dat_evd_create(side.ia, 16, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG,
                        &side.connections));
    return side;
}

/* Graceful: it fails if something was forgotten. Abrupt would free everything else, too. */
void close_side(struct side* side) {
    must(dat_evd_free(side->connections));
    must(dat_evd_free(side->receives));
    must(dat_evd_free(side->requests));
    must(dat_pz_free(side->zone));
    must(dat_ia_close(side->ia, DAT_CLOSE_GRACEFUL_FLAG));
}

/* Where a device doesn't see the CPU's caches, a line of memory should be in one region only. A larger region
   has its pages for itself, so that `sluice check` can watch them. */
static size_t alignment_for(DAT_VLEN size) {
    const size_t page = 4096;
    return size >= page ? page : DAT_OPTIMAL_ALIGNMENT;
}

struct region make_region(const struct side* side, DAT_VLEN size, int privileges) {
    struct region region;
    DAT_REGION_DESCRIPTION description;
    const int failed = posix_memalign((void**)&region.memory, alignment_for(size), size);
    require(failed == 0, "out of memory");
    memset(region.memory, 0, size);
    region.size = size;
    description.for_va = region.memory;
    must(dat_lmr_create(side->ia, DAT_MEM_TYPE_VIRTUAL, description, size, side->zone,
                        (DAT_MEM_PRIV_FLAGS)privileges, &region.lmr, &region.context, &region.key, NULL,
                        NULL));
    return region;
}

void free_region(struct region* region) {
    must(dat_lmr_free(region->lmr));
    free(region->memory);
}

DAT_LMR_TRIPLET part_of(const struct region* region, DAT_VLEN offset, DAT_VLEN size) {
    DAT_LMR_TRIPLET part;
    part.lmr_context = region->context;
    part.pad = 0;
    part.virtual_address = (uintptr_t)region->memory + offset;
    part.segment_length = size;
    return part;
}

/* Without attributes the provider's sizes count. */
DAT_EP_HANDLE make_endpoint(const struct side* side) {
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    must(dat_ep_create(side->ia, side->zone, side->receives, side->requests, side->connections, NULL, &ep));
    return ep;
}

DAT_EVENT await_event(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number) {
    DAT_EVENT event;
    DAT_COUNT more = 0;
    must(dat_evd_wait(evd, kTimeout, 1, &event, &more));
    if (event.event_number != number) {
        fprintf(stderr, "event 0x%x in place of 0x%x\n", (unsigned)event.event_number, (unsigned)number);
        exit(1);
    }
    return event;
}

DAT_VLEN await_transfer(DAT_EVD_HANDLE evd, DAT_UINT64 cookie) {
    const DAT_EVENT event = await_event(evd, DAT_DTO_COMPLETION_EVENT);
    const DAT_DTO_COMPLETION_EVENT_DATA* done = &event.event_data.dto_completion_event_data;
    if (done->status != DAT_DTO_SUCCESS) {
        fprintf(stderr, "a transfer has failed with status %d\n", (int)done->status);
        exit(1);
    }
    require(done->user_cookie.as_64 == cookie, "another transfer has completed");
    return done->transfered_length;
}

DAT_DTO_COOKIE cookie_of(DAT_UINT64 number) {
    DAT_DTO_COOKIE cookie;
    cookie.as_64 = number;
    return cookie;
}

void post_receive(DAT_EP_HANDLE ep, const struct region* region, DAT_VLEN offset, DAT_VLEN size,
                  DAT_UINT64 cookie) {
    DAT_LMR_TRIPLET part = part_of(region, offset, size);
    must(dat_ep_post_recv(ep, 1, &part, cookie_of(cookie), DAT_COMPLETION_DEFAULT_FLAG));
}

void send_bytes(const struct side* side, DAT_EP_HANDLE ep, const struct region* region, DAT_VLEN offset,
                DAT_VLEN size) {
    DAT_LMR_TRIPLET part = part_of(region, offset, size);
    const DAT_UINT64 cookie = (uintptr_t)region->memory;
    must(dat_ep_post_send(ep, 1, &part, cookie_of(cookie), DAT_COMPLETION_DEFAULT_FLAG));
    await_transfer(side->requests, cookie);
}

DAT_PSP_HANDLE listen_at(const struct side* side, DAT_CONN_QUAL qualifier) {
    DAT_PSP_HANDLE listener = DAT_HANDLE_NULL;
    must(dat_psp_create(side->ia, qualifier, side->connections, DAT_PSP_CONSUMER_FLAG, &listener));
    printf("listening\n");
    fflush(stdout);
    return listener;
}

void accept_request(const struct side* side, DAT_EP_HANDLE ep, const struct offer* offer) {
    const DAT_EVENT event = await_event(side->connections, DAT_CONNECTION_REQUEST_EVENT);
    const DAT_CR_HANDLE request = event.event_data.cr_arrival_event_data.cr_handle;
    must(dat_cr_accept(request, ep, offer != NULL ? (DAT_COUNT)sizeof *offer : 0, (DAT_PVOID)offer));
    await_event(side->connections, DAT_CONNECTION_EVENT_ESTABLISHED);
}

void connect_to(const struct side* side, DAT_EP_HANDLE ep, const struct arguments* arguments,
                struct offer* offer) {
    struct sockaddr_in server = arguments->server;
    must(dat_ep_connect(ep, (DAT_IA_ADDRESS_PTR)&server, arguments->qualifier, kTimeout, 0, NULL,
                        DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
    const DAT_EVENT event = await_event(side->connections, DAT_CONNECTION_EVENT_ESTABLISHED);
    const DAT_CONNECTION_EVENT_DATA* data = &event.event_data.connect_event_data;
    if (offer != NULL) {
        /* There may be more bytes than were sent, and the server may be anybody. */
        require((size_t)data->private_data_size >= sizeof *offer, "the server has not told of its memory");
        memcpy(offer, data->private_data, sizeof *offer);
        require(offer->is_offer == kOffer, "the server has told something else");
    }
}

void end_connection(const struct side* side, DAT_EP_HANDLE ep) {
    must(dat_ep_disconnect(ep, DAT_CLOSE_GRACEFUL_FLAG));
    await_end(side, ep);
}

void await_end(const struct side* side, DAT_EP_HANDLE ep) {
    await_event(side->connections, DAT_CONNECTION_EVENT_DISCONNECTED);
    must(dat_ep_free(ep));
}

struct offer make_offer(const struct region* region) {
    struct offer offer;
    offer.address = (uintptr_t)region->memory;
    offer.size = region->size;
    offer.key = region->key;
    offer.is_offer = kOffer;
    return offer;
}
