/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server has two connections and one queue of receives for both: buffers for what comes at once, and not
 * for each connection what might come there.
 */
#include <stdio.h>
#include <string.h>

#include "../dat-common/common.h"

enum { CONNECTIONS = 2, MESSAGES = 8, BUFFERS = 4, SIZE = 64 };

/* What the client sends: its connection, and its number there. */
static void write_message(char* to, int connection, int number) {
    snprintf(to, SIZE, "message %d on connection %d", number, connection);
}

static DAT_SRQ_HANDLE make_queue(const struct side* side) {
    DAT_SRQ_ATTR attributes;
    DAT_SRQ_HANDLE queue = DAT_HANDLE_NULL;
    memset(&attributes, 0, sizeof attributes);
    attributes.max_recv_dtos = BUFFERS;
    attributes.max_recv_iov = 1;
    attributes.low_watermark = DAT_SRQ_LW_DEFAULT; /* no event when few are left */
    must(dat_srq_create(side->ia, side->zone, &attributes, &queue));
    return queue;
}

static void post_shared(DAT_SRQ_HANDLE queue, const struct region* buffers, DAT_UINT64 which) {
    DAT_LMR_TRIPLET part = part_of(buffers, which * SIZE, SIZE);
    must(dat_srq_post_recv(queue, 1, &part, cookie_of(which)));
}

/* Attributes as of any endpoint, but that the number of receives is the queue's. */
static DAT_EP_HANDLE make_sharing_endpoint(const struct side* side, DAT_SRQ_HANDLE queue) {
    DAT_EP_PARAM param;
    DAT_EP_HANDLE model = make_endpoint(side);
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    must(dat_ep_query(model, DAT_EP_FIELD_ALL, &param));
    must(dat_ep_free(model));
    param.ep_attr.max_recv_dtos = DAT_HW_DEFAULT;
    param.ep_attr.srq_soft_hw = DAT_HW_DEFAULT;
    must(dat_ep_create_with_srq(side->ia, side->zone, side->receives, side->requests, side->connections,
                                queue, &param.ep_attr, &ep));
    return ep;
}

/* Takes one message of any connection, looks at it, and posts its buffer again. */
static void take_one(const struct side* side, DAT_SRQ_HANDLE queue, const struct region* buffers,
                     const DAT_EP_HANDLE* eps, int* seen) {
    const DAT_EVENT event = await_event(side->receives, DAT_DTO_COMPLETION_EVENT);
    const DAT_DTO_COMPLETION_EVENT_DATA* done = &event.event_data.dto_completion_event_data;
    const DAT_UINT64 which = done->user_cookie.as_64; /* the buffer */
    const int connection = done->ep_handle == eps[0] ? 0 : 1;
    char expected[SIZE];
    require(done->status == DAT_DTO_SUCCESS && which < BUFFERS, "a receive has failed");
    require(done->ep_handle == eps[connection], "nobody's endpoint");
    write_message(expected, connection, seen[connection]++);
    printf("%.*s\n", SIZE, buffers->memory + which * SIZE);
    require(strncmp(buffers->memory + which * SIZE, expected, SIZE) == 0, "another message was expected");
    post_shared(queue, buffers, which);
}

static void serve(struct side* side, const struct arguments* arguments) {
    struct region buffers = make_region(side, BUFFERS * SIZE, DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
    DAT_SRQ_HANDLE queue = make_queue(side);
    DAT_EP_HANDLE eps[CONNECTIONS];
    DAT_SRQ_PARAM param;
    int seen[CONNECTIONS] = {0, 0};
    for (int i = 0; i < BUFFERS; ++i) {
        post_shared(queue, &buffers, (DAT_UINT64)i);
    }
    for (int i = 0; i < CONNECTIONS; ++i) {
        eps[i] = make_sharing_endpoint(side, queue);
    }
    DAT_PSP_HANDLE listener = listen_at(side, arguments->qualifier);
    for (int i = 0; i < CONNECTIONS; ++i) {
        accept_request(side, eps[i], NULL);
    }
    for (int i = 0; i < CONNECTIONS * MESSAGES; ++i) {
        take_one(side, queue, &buffers, eps, seen);
    }
    must(dat_srq_query(queue, DAT_SRQ_FIELD_ALL, &param));
    printf("%d buffers were enough\n", param.available_dto_count);
    require(param.available_dto_count == BUFFERS && seen[0] == MESSAGES, "messages were lost");
    for (int i = 0; i < CONNECTIONS; ++i) {
        await_end(side, eps[i]);
    }
    must(dat_psp_free(listener));
    must(dat_srq_free(queue));
    free_region(&buffers);
}

static void send_all(struct side* side, const struct arguments* arguments) {
    struct region message = make_region(side, SIZE, DAT_MEM_PRIV_LOCAL_READ_FLAG);
    DAT_EP_HANDLE eps[CONNECTIONS];
    for (int i = 0; i < CONNECTIONS; ++i) {
        eps[i] = make_endpoint(side);
        connect_to(side, eps[i], arguments, NULL);
    }
    for (int number = 0; number < MESSAGES; ++number) {
        for (int i = 0; i < CONNECTIONS; ++i) {
            memset(message.memory, 0, SIZE);
            write_message(message.memory, i, number);
            send_bytes(side, eps[i], &message, 0, SIZE); /* waits while the server has no buffer */
        }
    }
    for (int i = 0; i < CONNECTIONS; ++i) {
        end_connection(side, eps[i]);
    }
    free_region(&message);
}

int main(int argc, char** argv) {
    const struct arguments arguments = parse(argc, argv);
    struct side side = open_side(arguments.adapter);
    (arguments.is_server ? serve : send_all)(&side, &arguments);
    close_side(&side);
    printf("done\n");
    return 0;
}
