/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dat_fragments ADAPTER ADAPTER: makes the calls of Open MPI's module for uDAPL (1.2 to 1.6), as
 * docs/porting-udapl.md lists them.
 *
 * Each process finds its adapter in the registry's list, and listens at a qualifier that the provider
 * chooses. A launcher carries addresses. A peer has two endpoints, for short messages and for longer ones,
 * made with what dat_ep_query() says of one without attributes; the first message on each has
 * the endpoint's number. Short messages go by RDMA Write into a ring of the receiver, which polls the last
 * byte of each slot and gives slots back by messages; longer ones are Written into memory that is registered
 * for them, and announced by a Send behind them. All dispatchers are polled; none is waited for.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pair.h"

enum {
    kProviders = 32,
    kEvents = 32,
    kMoreEvents = 256,
    kSlots = 8,      /* of a ring */
    kSlot = 4096,    /* bytes, the footer among them */
    kEager = 512,    /* messages through the ring, each way */
    kReceives = 16,  /* posted on each endpoint */
    kControl = 128,  /* bytes of a message of the module's own */
    kLong = 3 << 20, /* bytes of a long message */
    kLongTurns = 4,
    kConnectSeconds = 30
};

enum kind { kShort, kMax, kKinds };

struct address {
    DAT_SOCK_ADDR where;
    DAT_CONN_QUAL qualifier;
};

/* The private data of a request. */
struct hello {
    struct address from;
    int32_t kind;
};

/* A message of the module's own. */
struct control {
    int32_t what;
    uint32_t number;
    DAT_RMR_CONTEXT key;
    DAT_VADDR memory;
};
enum what { kWho = 1, kRing, kCredits, kLongIsThere };

struct module {
    DAT_IA_HANDLE ia;
    DAT_EVD_HANDLE errors;
    DAT_PZ_HANDLE zone;
    DAT_EVD_HANDLE transfers;   /* and binds */
    DAT_EVD_HANDLE connections; /* and requests */
    DAT_PSP_HANDLE psp;
    DAT_EP_ATTR attributes;
    struct address here;
    struct address peer;
    DAT_EP_HANDLE eps[kKinds];
    struct block {
        char* memory;
        DAT_LMR_HANDLE lmr;
        DAT_LMR_CONTEXT context;
        DAT_RMR_CONTEXT key;
        size_t size;
    } ring, shadow, controls, large;
    DAT_RMR_TRIPLET peer_ring;
    DAT_RMR_TRIPLET peer_large;
    unsigned credits;
    unsigned long_there;
};

/* Receives have numbers below kReceives * kKinds as cookies. */
enum cookie { kOfControl = 1000, kOfSlot, kOfLong };

static void open_adapter(struct module* module, const char* wanted) {
    static DAT_PROVIDER_INFO found[kProviders];
    DAT_PROVIDER_INFO* list[kProviders];
    DAT_COUNT count = 0;
    DAT_COUNT i;
    for (i = 0; i < kProviders; ++i) {
        list[i] = &found[i];
    }
    must(dat_registry_list_providers(kProviders, &count, list), "dat_registry_list_providers");
    for (i = 0; i < count && strcmp(found[i].ia_name, wanted) != 0; ++i) {
    }
    require(i < count, "the registry doesn't list the adapter");
    require(found[i].is_thread_safe == DAT_TRUE, "it isn't thread safe");
    module->errors = DAT_HANDLE_NULL;
    must(dat_ia_open(found[i].ia_name, kEvents, &module->errors, &module->ia), "dat_ia_open");
}

static void learn_attributes(struct module* module) {
    DAT_IA_ATTR adapter;
    DAT_EP_PARAM endpoint;
    DAT_EP_HANDLE ep;
    must(dat_ia_query(module->ia, &module->errors, DAT_IA_ALL, &adapter, DAT_PROVIDER_FIELD_NONE, NULL),
         "dat_ia_query");
    memcpy(&module->here.where, adapter.ia_address_ptr, sizeof module->here.where);
    require(adapter.max_dto_per_ep >= kReceives && adapter.max_evd_qlen >= kMoreEvents,
            "too small an adapter");
    must(dat_ep_create(module->ia, module->zone, module->transfers, module->transfers, module->connections,
                       NULL, &ep),
         "dat_ep_create");
    must(dat_ep_query(ep, DAT_EP_FIELD_ALL, &endpoint), "dat_ep_query");
    must(dat_ep_free(ep), "dat_ep_free");
    module->attributes = endpoint.ep_attr;
    module->attributes.max_recv_dtos = kReceives;
    module->attributes.max_request_dtos = kReceives;
}

static void make_module(struct module* module, const char* adapter) {
    open_adapter(module, adapter);
    must(dat_pz_create(module->ia, &module->zone), "dat_pz_create");
    must(dat_evd_create(module->ia, kEvents, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG,
                        &module->transfers),
         "dat_evd_create");
    must(dat_evd_create(module->ia, kEvents, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG,
                        &module->connections),
         "dat_evd_create");
    learn_attributes(module);
    must(dat_psp_create_any(module->ia, &module->here.qualifier, module->connections, DAT_PSP_CONSUMER_FLAG,
                            &module->psp),
         "dat_psp_create_any");
}

/* When there are peers, the dispatcher gets room for their transfers. */
static void resize_transfers(const struct module* module) {
    DAT_EVD_PARAM evd;
    must(dat_evd_query(module->transfers, DAT_EVD_FIELD_EVD_QLEN, &evd), "dat_evd_query");
    require(evd.evd_qlen >= kEvents, "a dispatcher with less events than were asked for");
    if (evd.evd_qlen < kMoreEvents) {
        must(dat_evd_resize(module->transfers, kMoreEvents), "dat_evd_resize");
    }
}

static void make_block(const struct module* module, struct block* block, size_t size, DAT_MEM_TYPE type) {
    DAT_REGION_DESCRIPTION region;
    DAT_VLEN registered;
    DAT_VADDR start;
    block->size = size;
    block->memory = calloc(1, size);
    require(block->memory != NULL, "memory");
    memset(&region, 0, sizeof region);
    region.for_va = block->memory;
    must(dat_lmr_create(module->ia, type, region, size, module->zone, DAT_MEM_PRIV_ALL_FLAG, &block->lmr,
                        &block->context, &block->key, &registered, &start),
         "dat_lmr_create");
    require(start <= (DAT_VADDR)(uintptr_t)block->memory &&
                start + registered >= (DAT_VADDR)(uintptr_t)block->memory + size,
            "less is registered than was asked for");
}

static void free_block(struct block* block) {
    must(dat_lmr_free(block->lmr), "dat_lmr_free");
    free(block->memory);
}

static DAT_LMR_TRIPLET part(const struct block* block, size_t offset, size_t size) {
    DAT_LMR_TRIPLET triplet;
    memset(&triplet, 0, sizeof triplet);
    triplet.lmr_context = block->context;
    triplet.virtual_address = (DAT_VADDR)(uintptr_t)block->memory + offset;
    triplet.segment_length = size;
    return triplet;
}

static void post_receive(const struct module* module, unsigned number) {
    DAT_LMR_TRIPLET into = part(&module->controls, number * kControl, kControl);
    DAT_DTO_COOKIE cookie;
    cookie.as_64 = number;
    must(dat_ep_post_recv(module->eps[number / kReceives], 1, &into, cookie, DAT_COMPLETION_DEFAULT_FLAG),
         "dat_ep_post_recv");
}

static void make_endpoint(struct module* module, int kind) {
    unsigned i;
    must(dat_ep_create(module->ia, module->zone, module->transfers, module->transfers, module->connections,
                       &module->attributes, &module->eps[kind]),
         "dat_ep_create");
    for (i = 0; i < kReceives; ++i) {
        post_receive(module, (unsigned)kind * kReceives + i);
    }
}

static void send_control(const struct module* module, int kind, int what, unsigned number,
                         const struct block* block) {
    /* Behind the receives; one at a time, since the one before has completed. */
    const size_t offset = (size_t)kReceives * kKinds * kControl;
    struct control* const control = (struct control*)(module->controls.memory + offset);
    DAT_LMR_TRIPLET from = part(&module->controls, offset, sizeof *control);
    DAT_DTO_COOKIE cookie;
    memset(control, 0, sizeof *control);
    control->what = what;
    control->number = number;
    if (block != NULL) {
        control->key = block->key;
        control->memory = (DAT_VADDR)(uintptr_t)block->memory;
    }
    cookie.as_64 = kOfControl;
    must(dat_ep_post_send(module->eps[kind], 1, &from, cookie, DAT_COMPLETION_DEFAULT_FLAG),
         "dat_ep_post_send");
}

static void take_control(struct module* module, const struct control* control) {
    DAT_RMR_TRIPLET* const target = control->number == 0 ? &module->peer_ring : &module->peer_large;
    switch (control->what) {
    case kWho:
        require(control->number < kKinds, "who?");
        break;
    case kRing:
        target->rmr_context = control->key;
        target->target_address = control->memory;
        break;
    case kCredits:
        module->credits += control->number;
        break;
    case kLongIsThere:
        module->long_there = control->number;
        break;
    default:
        require(0, "an unknown message");
    }
}

/* Takes a transfer if there is one. Returns its cookie, or -1. */
static int64_t progress(struct module* module) {
    DAT_EVENT event;
    const DAT_RETURN status = dat_evd_dequeue(module->transfers, &event);
    const DAT_DTO_COMPLETION_EVENT_DATA* const done = &event.event_data.dto_completion_event_data;
    if (DAT_GET_TYPE(status) == DAT_QUEUE_EMPTY) {
        return -1;
    }
    must(status, "dat_evd_dequeue");
    require(event.event_number == DAT_DTO_COMPLETION_EVENT && done->status == DAT_DTO_SUCCESS,
            "a transfer has failed");
    if (done->user_cookie.as_64 < kReceives * kKinds) {
        const unsigned number = (unsigned)done->user_cookie.as_64;
        require(done->transfered_length == sizeof(struct control), "a message of another length");
        take_control(module, (const struct control*)(module->controls.memory + (size_t)number * kControl));
        post_receive(module, number);
    }
    return (int64_t)done->user_cookie.as_64;
}

static void until_done(struct module* module, enum cookie cookie) {
    while (progress(module) != (int64_t)cookie) {
        breathe();
    }
}

/* Connects both endpoints, one after the other. */
static void connect_both(struct module* module) {
    int kind;
    for (kind = 0; kind < kKinds; ++kind) {
        struct hello hello;
        memset(&hello, 0, sizeof hello);
        hello.from = module->here;
        hello.kind = kind;
        make_endpoint(module, kind);
        must(dat_ep_connect(module->eps[kind], &module->peer.where, module->peer.qualifier,
                            kConnectSeconds * 1000000, sizeof hello, &hello, DAT_QOS_BEST_EFFORT,
                            DAT_CONNECT_DEFAULT_FLAG),
             "dat_ep_connect");
        poll_event(module->connections, DAT_CONNECTION_EVENT_ESTABLISHED);
    }
}

static void accept_both(struct module* module) {
    int count;
    for (count = 0; count < kKinds; ++count) {
        const DAT_EVENT event = poll_event(module->connections, DAT_CONNECTION_REQUEST_EVENT);
        const DAT_CR_HANDLE request = event.event_data.cr_arrival_event_data.cr_handle;
        DAT_CR_PARAM param;
        struct hello hello;
        must(dat_cr_query(request, DAT_CR_FIELD_ALL, &param), "dat_cr_query");
        require(param.private_data_size >= (DAT_COUNT)sizeof hello, "no private data");
        memcpy(&hello, param.private_data, sizeof hello);
        require(memcmp(&hello.from, &module->peer, sizeof hello.from) == 0, "a request of somebody else's");
        require(hello.kind == count, "endpoints in another order");
        make_endpoint(module, hello.kind);
        must(dat_cr_accept(request, module->eps[hello.kind], 0, NULL), "dat_cr_accept");
        poll_event(module->connections, DAT_CONNECTION_EVENT_ESTABLISHED);
    }
}

static void introduce(struct module* module) {
    int kind;
    for (kind = 0; kind < kKinds; ++kind) {
        send_control(module, kind, kWho, (unsigned)kind, NULL);
        until_done(module, kOfControl);
    }
    send_control(module, kShort, kRing, 0, &module->ring);
    until_done(module, kOfControl);
    send_control(module, kShort, kRing, 1, &module->large);
    until_done(module, kOfControl);
    while (module->peer_ring.rmr_context == 0 || module->peer_large.rmr_context == 0) {
        progress(module);
        breathe();
    }
    module->credits = kSlots;
}

static size_t size_of_eager(unsigned number) {
    return number * 37 % (kSlot - sizeof(uint32_t) - 1);
}

/* A slot ends with a footer: length, and the byte that the receiver polls. What is Written ends there. */
static void send_eager(struct module* module, unsigned number) {
    const size_t size = size_of_eager(number);
    const size_t slot = (size_t)(number % kSlots) * kSlot;
    char* const end = module->shadow.memory + slot + kSlot;
    const size_t all = size + sizeof(uint32_t) + 1;
    const uint32_t length = (uint32_t)size;
    DAT_LMR_TRIPLET from = part(&module->shadow, slot + kSlot - all, all);
    DAT_RMR_TRIPLET to = module->peer_ring;
    DAT_DTO_COOKIE cookie;
    while (module->credits == 0) {
        progress(module);
        breathe();
    }
    --module->credits;
    fill(end - all, size, number);
    memcpy(end - 1 - sizeof length, &length, sizeof length);
    end[-1] = 1;
    to.target_address += slot + kSlot - all;
    to.segment_length = all;
    cookie.as_64 = kOfSlot;
    must(dat_ep_post_rdma_write(module->eps[kShort], 1, &from, cookie, &to, DAT_COMPLETION_DEFAULT_FLAG),
         "dat_ep_post_rdma_write");
    until_done(module, kOfSlot);
}

static void receive_eager(struct module* module, unsigned number) {
    char* const end = module->ring.memory + (size_t)(number % kSlots + 1) * kSlot;
    uint32_t length;
    while (((volatile char*)end)[-1] != 1) {
        progress(module);
        breathe();
    }
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    memcpy(&length, end - 1 - sizeof length, sizeof length);
    require(length == size_of_eager(number), "an eager message of another length");
    compare(end - 1 - sizeof length - length, length, number);
    end[-1] = 0;
    if (number % (kSlots / 2) == kSlots / 2 - 1) {
        send_control(module, kShort, kCredits, kSlots / 2, NULL);
        until_done(module, kOfControl);
    }
}

/* Memory of the user's, registered for this message and no longer. */
static void send_long(struct module* module, unsigned turn) {
    struct block user;
    DAT_LMR_TRIPLET from;
    DAT_RMR_TRIPLET to = module->peer_large;
    DAT_DTO_COOKIE cookie;
    make_block(module, &user, kLong, DAT_MEM_TYPE_VIRTUAL);
    fill(user.memory, kLong, turn);
    from = part(&user, 0, kLong);
    to.segment_length = kLong;
    cookie.as_64 = kOfLong;
    must(dat_ep_post_rdma_write(module->eps[kMax], 1, &from, cookie, &to, DAT_COMPLETION_DEFAULT_FLAG),
         "dat_ep_post_rdma_write");
    send_control(module, kMax, kLongIsThere, turn + 1, NULL);
    until_done(module, kOfLong);
    until_done(module, kOfControl);
    free_block(&user);
}

static void receive_long(struct module* module, unsigned turn) {
    while (module->long_there != turn + 1) {
        progress(module);
        breathe();
    }
    compare(module->large.memory, kLong, turn);
}

static void play(struct module* module, int begins) {
    unsigned number;
    for (number = 0; number < kEager; ++number) {
        if (begins) {
            send_eager(module, number);
        }
        receive_eager(module, number);
        if (!begins) {
            send_eager(module, number);
        }
    }
    for (number = 0; number < kLongTurns; ++number) {
        if (begins) {
            send_long(module, number);
        }
        receive_long(module, number);
        if (!begins) {
            send_long(module, number);
        }
    }
}

static void close_module(struct module* module, const struct rank* rank) {
    int kind;
    meet(rank);
    for (kind = 0; kind < kKinds; ++kind) {
        if (rank->number == 0) {
            must(dat_ep_disconnect(module->eps[kind], DAT_CLOSE_GRACEFUL_FLAG), "dat_ep_disconnect");
        }
        poll_event(module->connections, DAT_CONNECTION_EVENT_DISCONNECTED);
    }
    for (kind = 0; kind < kKinds; ++kind) {
        must(dat_ep_free(module->eps[kind]), "dat_ep_free");
    }
    free_block(&module->ring);
    free_block(&module->shadow);
    free_block(&module->controls);
    free_block(&module->large);
    must(dat_psp_free(module->psp), "dat_psp_free");
    must(dat_evd_free(module->connections), "dat_evd_free");
    must(dat_evd_free(module->transfers), "dat_evd_free");
    must(dat_pz_free(module->zone), "dat_pz_free");
    must(dat_ia_close(module->ia, DAT_CLOSE_GRACEFUL_FLAG), "dat_ia_close");
}

int main(int argc, char** argv) {
    static struct module module;
    struct rank rank;
    require(argc == 3, "usage: dat_fragments ADAPTER ADAPTER");
    rank = start_pair();
    make_module(&module, argv[1 + rank.number]);
    /* What is polled is registered as strongly ordered, where headers have that. */
    make_block(&module, &module.ring, kSlots * kSlot, DAT_MEM_TYPE_SO_VIRTUAL);
    make_block(&module, &module.shadow, kSlots * kSlot, DAT_MEM_TYPE_SO_VIRTUAL);
    make_block(&module, &module.controls, (kReceives * kKinds + 1) * kControl, DAT_MEM_TYPE_SO_VIRTUAL);
    make_block(&module, &module.large, kLong, DAT_MEM_TYPE_VIRTUAL);
    exchange(&rank, &module.here, &module.peer, sizeof module.here);
    resize_transfers(&module);
    if (rank.number == 0) {
        connect_both(&module);
    } else {
        accept_both(&module);
    }
    introduce(&module);
    play(&module, rank.number == 0);
    close_module(&module, &rank);
    if (rank.number == 0) {
        printf("%d eager messages and %d long ones each way\n", kEager, kLongTurns);
    }
    return end_pair(&rank);
}
