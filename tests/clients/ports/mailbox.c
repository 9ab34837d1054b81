/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dat_mailbox ADAPTER ADAPTER: makes the calls of ParaStation's ping-pong for uDAPL, and in its order.
 *
 * Two buffers of ten megabytes on each side; the private data of the connection are their keys and addresses.
 * A message lies at the end of a buffer, and its length and a mark behind it; one RDMA Write moves all of
 * that, and the other side polls the mark. The process number is the qualifier that the first side listens
 * at, and the address is carried to the other one as the bytes of a struct sockaddr. One dispatcher of eight
 * events has all completions, which are taken as they come and never waited for.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pair.h"

enum { kBuffer = 10000 * 1000, kEvents = 8, kTries = 100, kTurns = 50 };

struct buffer {
    char* memory;
    DAT_LMR_HANDLE lmr;
    DAT_LMR_CONTEXT context;
    DAT_RMR_CONTEXT key;
    struct {
        DAT_RMR_CONTEXT key;
        DAT_VADDR address;
    } remote;
};

/* What lies behind each message. */
struct tail {
    volatile uint32_t length;
    volatile uint32_t mark;
};

/* The private data. Each side's send buffer goes to the other's receive buffer. */
struct greeting {
    struct {
        DAT_RMR_CONTEXT key;
        DAT_VADDR address;
    } receives, sends;
};

struct mailbox {
    DAT_IA_HANDLE ia;
    DAT_EVD_HANDLE errors;
    DAT_PZ_HANDLE zone;
    DAT_EVD_HANDLE transfers;
    DAT_EVD_HANDLE connections;
    DAT_EP_HANDLE ep;
    struct buffer sends;
    struct buffer receives;
};

struct address {
    DAT_SOCK_ADDR where;
    DAT_CONN_QUAL qualifier;
};

static void make_buffer(const struct mailbox* box, struct buffer* buffer) {
    DAT_REGION_DESCRIPTION region;
    DAT_VLEN size = 0;
    DAT_VADDR address = 0;
    require(posix_memalign((void**)&buffer->memory, (size_t)sysconf(_SC_PAGESIZE), kBuffer) == 0, "memory");
    memset(buffer->memory, 0xee, kBuffer);
    region.for_va = buffer->memory;
    must(dat_lmr_create(box->ia, DAT_MEM_TYPE_VIRTUAL, region, kBuffer, box->zone, DAT_MEM_PRIV_ALL_FLAG,
                        &buffer->lmr, &buffer->context, &buffer->key, &size, &address),
         "dat_lmr_create");
}

static struct tail* tail_of(const struct buffer* buffer) {
    return (struct tail*)(buffer->memory + kBuffer - sizeof(struct tail));
}

static void open_mailbox(struct mailbox* box, char* adapter) {
    box->errors = DAT_HANDLE_NULL;
    must(dat_ia_open(adapter, kEvents, &box->errors, &box->ia), "dat_ia_open");
    must(dat_pz_create(box->ia, &box->zone), "dat_pz_create");
    make_buffer(box, &box->sends);
    make_buffer(box, &box->receives);
    tail_of(&box->receives)->mark = 0;
}

static void make_endpoint(struct mailbox* box) {
    must(dat_evd_create(box->ia, kEvents, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &box->transfers),
         "dat_evd_create");
    must(dat_evd_create(box->ia, kEvents, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG,
                        &box->connections),
         "dat_evd_create");
    must(dat_ep_create(box->ia, box->zone, box->transfers, box->transfers, box->connections, NULL, &box->ep),
         "dat_ep_create");
}

static struct greeting greeting_of(const struct mailbox* box) {
    struct greeting greeting;
    memset(&greeting, 0, sizeof greeting);
    greeting.receives.key = box->receives.key;
    greeting.receives.address = (DAT_VADDR)(uintptr_t)box->receives.memory;
    greeting.sends.key = box->sends.key;
    greeting.sends.address = (DAT_VADDR)(uintptr_t)box->sends.memory;
    return greeting;
}

static void take_greeting(struct mailbox* box, const void* private_data, DAT_COUNT size) {
    struct greeting greeting;
    /* The transport may have padded it. */
    if (private_data == NULL || size < (DAT_COUNT)sizeof greeting) {
        require(0, "no private data");
        return;
    }
    memcpy(&greeting, private_data, sizeof greeting);
    box->sends.remote.key = greeting.receives.key;
    box->sends.remote.address = greeting.receives.address;
    box->receives.remote.key = greeting.sends.key;
    box->receives.remote.address = greeting.sends.address;
}

/* Listens at the process's number, or at the next one that nobody has. */
static DAT_CONN_QUAL listen_somewhere(const struct mailbox* box, DAT_EVD_HANDLE requests,
                                      DAT_PSP_HANDLE* psp) {
    DAT_CONN_QUAL qualifier = (DAT_CONN_QUAL)getpid();
    DAT_RETURN status;
    int tries = kTries;
    while (DAT_GET_TYPE(status = dat_psp_create(box->ia, qualifier, requests, DAT_PSP_CONSUMER_FLAG, psp)) ==
               DAT_CONN_QUAL_IN_USE &&
           --tries > 0) {
        ++qualifier;
    }
    must(status, "dat_psp_create");
    return qualifier;
}

/* This side never looks whether the connection is established: the first message says it. */
static void accept_one(struct mailbox* box, const struct rank* rank) {
    DAT_EVD_HANDLE requests;
    DAT_PSP_HANDLE psp;
    DAT_IA_ATTR attributes;
    DAT_CR_PARAM request;
    DAT_EVENT event;
    DAT_COUNT more;
    struct address here;
    struct address ignored;
    struct greeting greeting = greeting_of(box);
    memset(&here, 0, sizeof here);
    must(dat_evd_create(box->ia, kEvents, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &requests), "dat_evd_create");
    here.qualifier = listen_somewhere(box, requests, &psp);
    must(dat_ia_query(box->ia, &box->errors, DAT_IA_FIELD_IA_ADDRESS_PTR, &attributes, 0, NULL),
         "dat_ia_query");
    memcpy(&here.where, attributes.ia_address_ptr, sizeof here.where);
    exchange(rank, &here, &ignored, sizeof here);
    must(dat_evd_wait(requests, DAT_TIMEOUT_INFINITE, 1, &event, &more), "dat_evd_wait");
    require(event.event_number == DAT_CONNECTION_REQUEST_EVENT, "not a request");
    must(dat_cr_query(event.event_data.cr_arrival_event_data.cr_handle, DAT_CR_FIELD_ALL, &request),
         "dat_cr_query");
    take_greeting(box, request.private_data, request.private_data_size);
    make_endpoint(box);
    must(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, box->ep, sizeof greeting, &greeting),
         "dat_cr_accept");
    must(dat_psp_free(psp), "dat_psp_free");
    must(dat_evd_free(requests), "dat_evd_free");
}

static void connect_to(struct mailbox* box, const struct rank* rank) {
    DAT_EVENT event;
    DAT_COUNT more;
    struct address nothing;
    struct address peer;
    struct greeting greeting = greeting_of(box);
    memset(&nothing, 0, sizeof nothing);
    exchange(rank, &nothing, &peer, sizeof peer);
    make_endpoint(box);
    must(dat_ep_connect(box->ep, &peer.where, peer.qualifier, DAT_TIMEOUT_INFINITE, sizeof greeting,
                        &greeting, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
         "dat_ep_connect");
    must(dat_evd_wait(box->connections, DAT_TIMEOUT_INFINITE, 1, &event, &more), "dat_evd_wait");
    require(event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED, "not established");
    take_greeting(box, event.event_data.connect_event_data.private_data,
                  event.event_data.connect_event_data.private_data_size);
}

/* All that has completed, without waiting. */
static void flush_events(const struct mailbox* box) {
    DAT_EVENT event;
    while (DAT_GET_TYPE(dat_evd_dequeue(box->transfers, &event)) != DAT_QUEUE_EMPTY) {
        require(event.event_number == DAT_DTO_COMPLETION_EVENT &&
                    event.event_data.dto_completion_event_data.status == DAT_DTO_SUCCESS,
                "a Write has failed");
    }
}

static void send_message(const struct mailbox* box, uint32_t length, unsigned turn) {
    struct tail* const tail = tail_of(&box->sends);
    const size_t offset = kBuffer - sizeof *tail - length;
    DAT_LMR_TRIPLET from;
    DAT_RMR_TRIPLET to;
    DAT_DTO_COOKIE cookie;
    fill(box->sends.memory + offset, length, turn);
    tail->length = length;
    tail->mark = 1;
    from.lmr_context = box->sends.context;
    from.pad = 0;
    from.virtual_address = (DAT_VADDR)(uintptr_t)box->sends.memory + offset;
    from.segment_length = length + sizeof *tail;
    to.rmr_context = box->sends.remote.key;
    to.pad = 0;
    to.target_address = box->sends.remote.address + offset;
    to.segment_length = from.segment_length;
    cookie.as_64 = 0;
    must(dat_ep_post_rdma_write(box->ep, 1, &from, cookie, &to, 0), "dat_ep_post_rdma_write");
    flush_events(box);
}

static void await_message(const struct mailbox* box, uint32_t length, unsigned turn) {
    struct tail* const tail = tail_of(&box->receives);
    while (tail->mark != 1) {
        breathe();
    }
    require(tail->length == length, "a message has another length");
    compare((const char*)tail - length, length, turn);
    tail->mark = 0;
}

static unsigned play(const struct mailbox* box, int begins) {
    uint32_t length;
    unsigned messages = 0;
    for (length = 1; length < kBuffer / 2; length = length * 3 + 1) {
        const unsigned turns = length < 65536 ? kTurns : 2;
        unsigned turn;
        for (turn = 0; turn < turns; ++turn, ++messages) {
            if (begins) {
                send_message(box, length, turn);
            }
            await_message(box, length, begins ? turn + 1 : turn);
            if (!begins) {
                send_message(box, length, turn + 1);
            }
        }
    }
    return messages;
}

static void close_buffer(struct buffer* buffer) {
    must(dat_lmr_free(buffer->lmr), "dat_lmr_free");
    free(buffer->memory);
}

/* The side that asks waits for the end before it frees anything, and so does the other one. */
static void close_mailbox(struct mailbox* box, const struct rank* rank) {
    DAT_EVENT event;
    meet(rank); /* an abrupt end takes what is under way along */
    if (rank->number == 1) {
        must(dat_ep_disconnect(box->ep, DAT_CLOSE_ABRUPT_FLAG), "dat_ep_disconnect");
    }
    do {
        DAT_COUNT more;
        must(dat_evd_wait(box->connections, DAT_TIMEOUT_INFINITE, 1, &event, &more), "dat_evd_wait");
    } while (event.event_number != DAT_CONNECTION_EVENT_DISCONNECTED);
    must(dat_ep_free(box->ep), "dat_ep_free");
    must(dat_evd_free(box->transfers), "dat_evd_free");
    must(dat_evd_free(box->connections), "dat_evd_free");
    close_buffer(&box->sends);
    close_buffer(&box->receives);
    must(dat_pz_free(box->zone), "dat_pz_free");
    must(dat_ia_close(box->ia, DAT_CLOSE_DEFAULT), "dat_ia_close");
}

int main(int argc, char** argv) {
    struct mailbox box;
    struct rank rank;
    unsigned messages;
    require(argc == 3, "usage: dat_mailbox ADAPTER ADAPTER");
    rank = start_pair();
    memset(&box, 0, sizeof box);
    open_mailbox(&box, argv[1 + rank.number]);
    if (rank.number == 0) {
        accept_one(&box, &rank);
    } else {
        connect_to(&box, &rank);
    }
    messages = play(&box, rank.number);
    close_mailbox(&box, &rank);
    if (rank.number == 0) {
        printf("%u messages each way\n", messages);
    }
    return end_pair(&rank);
}
