/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dat_blocks ADAPTER ADAPTER send|write poll|wait: what is known of NetPIPE's module for uDAPL. Its source
 * wasn't at hand: this follows what such programs ask for.
 *
 * Blocks of 1 byte to 2 MiB go there and back, each size with some bytes less and more. Attributes of the
 * endpoint are filled by hand, with large queues and DAT_COMPLETION_SUPPRESS_FLAG for requests, which such
 * programs mean as "what the post says". Blocks go by Sends into posted receives, or by RDMA Writes,
 * and then the receiver watches the last byte. Completions are polled for, or waited for.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pair.h"

enum { kMost = (2 << 20) + 3, kQueue = 20000, kEvents = 256, kTurns = 3 };

struct target {
    struct sockaddr_in where;
    DAT_CONN_QUAL qualifier;
    DAT_RMR_CONTEXT key;
    DAT_VADDR memory;
};

struct end {
    DAT_IA_HANDLE ia;
    DAT_EVD_HANDLE errors;
    DAT_PZ_HANDLE zone;
    DAT_EVD_HANDLE sends;
    DAT_EVD_HANDLE receives;
    DAT_EVD_HANDLE connections;
    DAT_EVD_HANDLE requests;
    DAT_PSP_HANDLE psp;
    DAT_EP_HANDLE ep;
    DAT_LMR_HANDLE lmr;
    DAT_LMR_CONTEXT context;
    char* from; /* half of the region, and the other half is what the peer writes to */
    char* into;
    struct target here;
    struct target peer;
    int writes;
    int waits;
};

static void register_memory(struct end* end) {
    DAT_REGION_DESCRIPTION region;
    DAT_VLEN size;
    DAT_VADDR start;
    memset(&region, 0, sizeof region);
    end->from = calloc(2, kMost);
    require(end->from != NULL, "memory");
    end->into = end->from + kMost;
    region.for_va = end->from;
    must(dat_lmr_create(end->ia, DAT_MEM_TYPE_VIRTUAL, region, 2 * (DAT_VLEN)kMost, end->zone,
                        DAT_MEM_PRIV_ALL_FLAG, &end->lmr, &end->context, &end->here.key, &size, &start),
         "dat_lmr_create");
    end->here.memory = (DAT_VADDR)(uintptr_t)end->into;
}

static void make_endpoint(struct end* end) {
    DAT_EP_ATTR attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.service_type = DAT_SERVICE_TYPE_RC;
    attributes.max_message_size = kMost;
    attributes.max_rdma_size = kMost;
    attributes.qos = DAT_QOS_BEST_EFFORT;
    attributes.recv_completion_flags = DAT_COMPLETION_DEFAULT_FLAG;
    attributes.request_completion_flags = DAT_COMPLETION_SUPPRESS_FLAG;
    attributes.max_recv_dtos = kQueue;
    attributes.max_request_dtos = kQueue;
    attributes.max_recv_iov = 1;
    attributes.max_request_iov = 1;
    must(
        dat_ep_create(end->ia, end->zone, end->receives, end->sends, end->connections, &attributes, &end->ep),
        "dat_ep_create");
}

static void open_end(struct end* end, char* adapter) {
    DAT_IA_ATTR attributes;
    must(dat_ia_open(adapter, kEvents, &end->errors, &end->ia), "dat_ia_open");
    must(dat_ia_query(end->ia, NULL, DAT_IA_FIELD_IA_ADDRESS_PTR, &attributes, 0, NULL), "dat_ia_query");
    memcpy(&end->here.where, attributes.ia_address_ptr, sizeof end->here.where);
    must(dat_pz_create(end->ia, &end->zone), "dat_pz_create");
    must(dat_evd_create(end->ia, kQueue, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &end->sends), "dat_evd_create");
    must(dat_evd_create(end->ia, kQueue, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &end->receives),
         "dat_evd_create");
    must(dat_evd_create(end->ia, kEvents, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &end->connections),
         "dat_evd_create");
    must(dat_evd_create(end->ia, kEvents, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &end->requests),
         "dat_evd_create");
    register_memory(end);
    make_endpoint(end);
}

static DAT_LMR_TRIPLET part(const struct end* end, const char* memory, size_t size) {
    DAT_LMR_TRIPLET triplet;
    memset(&triplet, 0, sizeof triplet);
    triplet.lmr_context = end->context;
    triplet.virtual_address = (DAT_VADDR)(uintptr_t)memory;
    triplet.segment_length = size;
    return triplet;
}

static DAT_EVENT next_event(const struct end* end, DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number) {
    DAT_EVENT event;
    DAT_COUNT more;
    if (!end->waits) {
        return poll_event(evd, number);
    }
    must(dat_evd_wait(evd, DAT_TIMEOUT_INFINITE, 1, &event, &more), "dat_evd_wait");
    require(event.event_number == number, "another event");
    return event;
}

static void transfer_done(const struct end* end, DAT_EVD_HANDLE evd, size_t size) {
    const DAT_EVENT event = next_event(end, evd, DAT_DTO_COMPLETION_EVENT);
    const DAT_DTO_COMPLETION_EVENT_DATA* const done = &event.event_data.dto_completion_event_data;
    require(done->status == DAT_DTO_SUCCESS && done->transfered_length == size, "a transfer has failed");
}

static void post_receive(const struct end* end) {
    DAT_LMR_TRIPLET into = part(end, end->into, kMost);
    DAT_DTO_COOKIE cookie;
    cookie.as_64 = 1;
    must(dat_ep_post_recv(end->ep, 1, &into, cookie, DAT_COMPLETION_DEFAULT_FLAG), "dat_ep_post_recv");
}

static void send_block(const struct end* end, size_t size, unsigned turn) {
    DAT_LMR_TRIPLET from = part(end, end->from, size);
    DAT_RMR_TRIPLET to;
    DAT_DTO_COOKIE cookie;
    fill(end->from, size, turn);
    cookie.as_64 = 2;
    if (end->writes) {
        end->from[size - 1] = (char)(turn + 1); /* the byte that is watched */
        memset(&to, 0, sizeof to);
        to.rmr_context = end->peer.key;
        to.target_address = end->peer.memory;
        to.segment_length = size;
        must(dat_ep_post_rdma_write(end->ep, 1, &from, cookie, &to, DAT_COMPLETION_DEFAULT_FLAG),
             "dat_ep_post_rdma_write");
    } else {
        must(dat_ep_post_send(end->ep, 1, &from, cookie, DAT_COMPLETION_DEFAULT_FLAG), "dat_ep_post_send");
    }
    transfer_done(end, end->sends, size);
}

static void receive_block(const struct end* end, size_t size, unsigned turn) {
    if (end->writes) {
        volatile char* const last = end->into + size - 1;
        while (*last != (char)(turn + 1)) {
            breathe();
        }
        compare(end->into, size - 1, turn);
        *last = 0;
    } else {
        transfer_done(end, end->receives, size);
        compare(end->into, size, turn);
        post_receive(end);
    }
}

static unsigned play_size(const struct end* end, const struct rank* rank, size_t size) {
    unsigned turn;
    meet(rank); /* each size begins together, as there */
    for (turn = 0; turn < kTurns; ++turn) {
        if (rank->number == 0) {
            send_block(end, size, turn);
        }
        receive_block(end, size, turn);
        if (rank->number == 1) {
            send_block(end, size, turn);
        }
    }
    return kTurns;
}

static unsigned play(const struct end* end, const struct rank* rank) {
    size_t size;
    unsigned blocks = 0;
    for (size = 1; size <= 2 << 20; size *= 2) {
        if (size > 4) {
            blocks += play_size(end, rank, size - 3);
        }
        blocks += play_size(end, rank, size);
        blocks += play_size(end, rank, size + 3);
    }
    return blocks;
}

static void connect_ends(struct end* end, const struct rank* rank) {
    if (rank->number == 0) {
        must(dat_psp_create_any(end->ia, &end->here.qualifier, end->requests, DAT_PSP_CONSUMER_FLAG,
                                &end->psp),
             "dat_psp_create_any");
    }
    exchange(rank, &end->here, &end->peer, sizeof end->here);
    if (!end->writes) {
        post_receive(end);
    }
    if (rank->number == 1) {
        must(dat_ep_connect(end->ep, (DAT_IA_ADDRESS_PTR)&end->peer.where, end->peer.qualifier,
                            DAT_TIMEOUT_INFINITE, 0, NULL, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
             "dat_ep_connect");
    } else {
        const DAT_EVENT event = next_event(end, end->requests, DAT_CONNECTION_REQUEST_EVENT);
        must(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, end->ep, 0, NULL),
             "dat_cr_accept");
    }
    next_event(end, end->connections, DAT_CONNECTION_EVENT_ESTABLISHED);
}

static void close_end(struct end* end, const struct rank* rank) {
    meet(rank);
    if (rank->number == 0) {
        must(dat_ep_disconnect(end->ep, DAT_CLOSE_GRACEFUL_FLAG), "dat_ep_disconnect");
        must(dat_psp_free(end->psp), "dat_psp_free");
    }
    next_event(end, end->connections, DAT_CONNECTION_EVENT_DISCONNECTED);
    must(dat_ep_free(end->ep), "dat_ep_free");
    must(dat_lmr_free(end->lmr), "dat_lmr_free");
    must(dat_evd_free(end->sends), "dat_evd_free");
    must(dat_evd_free(end->receives), "dat_evd_free");
    must(dat_evd_free(end->connections), "dat_evd_free");
    must(dat_evd_free(end->requests), "dat_evd_free");
    must(dat_pz_free(end->zone), "dat_pz_free");
    must(dat_ia_close(end->ia, DAT_CLOSE_GRACEFUL_FLAG), "dat_ia_close");
    free(end->from);
}

int main(int argc, char** argv) {
    static struct end end;
    struct rank rank;
    unsigned blocks;
    require(argc == 5, "usage: dat_blocks ADAPTER ADAPTER send|write poll|wait");
    end.errors = DAT_HANDLE_NULL;
    end.writes = strcmp(argv[3], "write") == 0;
    end.waits = strcmp(argv[4], "wait") == 0;
    rank = start_pair();
    open_end(&end, argv[1 + rank.number]);
    connect_ends(&end, &rank);
    blocks = play(&end, &rank);
    close_end(&end, &rank);
    if (rank.number == 0) {
        printf("%u blocks each way\n", blocks);
    }
    return end_pair(&rank);
}
