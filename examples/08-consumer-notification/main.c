/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server waits at one place for everything: connections, receives, and a word from a thread of its own. A
 * consumer notification object (CNO) tells which event dispatcher has something; what it is, that one tells.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "../dat-common/common.h"

enum { MESSAGES = 10, SIZE = 32 };

struct watch {
    DAT_CNO_HANDLE cno;
    DAT_EVD_HANDLE words; /* of our own */
    DAT_EP_HANDLE ep;
    struct region inbox;
    int received;
    int words_heard;
    int is_over;
};

static void on_receive(struct watch* watch, const DAT_DTO_COMPLETION_EVENT_DATA* done) {
    char expected[SIZE];
    require(done->status == DAT_DTO_SUCCESS && done->user_cookie.as_64 == (DAT_UINT64)watch->received,
            "a receive has failed");
    const char* message = watch->inbox.memory + watch->received * SIZE;
    snprintf(expected, sizeof expected, "message %d", watch->received);
    require(strncmp(message, expected, SIZE) == 0, "another message was expected");
    printf("received: %s\n", expected);
    ++watch->received;
}

static void on_event(struct watch* watch, const DAT_EVENT* event) {
    switch (event->event_number) {
    case DAT_CONNECTION_REQUEST_EVENT:
        printf("somebody wants to connect\n");
        must(dat_cr_accept(event->event_data.cr_arrival_event_data.cr_handle, watch->ep, 0, NULL));
        break;
    case DAT_CONNECTION_EVENT_ESTABLISHED:
        printf("connected\n");
        break;
    case DAT_CONNECTION_EVENT_DISCONNECTED:
        printf("disconnected\n");
        watch->is_over = 1;
        break;
    case DAT_DTO_COMPLETION_EVENT:
        on_receive(watch, &event->event_data.dto_completion_event_data);
        break;
    case DAT_SOFTWARE_EVENT:
        printf("a word from the thread: %s\n", (const char*)event->event_data.software_event_data.pointer);
        ++watch->words_heard;
        break;
    default:
        require(0, "an event that was not expected");
    }
}

/*
 * A CNO's word is a hint: the dispatcher that it names may hold many events, or none any more. Dispatchers
 * have no order among each other: the end of the connection may be heard before the messages that came by it.
 */
static void look_after(struct watch* watch) {
    while (!watch->is_over || watch->received < MESSAGES || watch->words_heard == 0) {
        DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
        DAT_EVENT event;
        must(dat_cno_wait(watch->cno, 30 * 1000 * 1000, &evd));
        while (dat_evd_dequeue(evd, &event) == DAT_SUCCESS) {
            on_event(watch, &event);
        }
    }
}

static void* say_something(void* argument) {
    static char word[] = "hello";
    DAT_EVENT event;
    memset(&event, 0, sizeof event);
    event.event_number = DAT_SOFTWARE_EVENT;
    event.event_data.software_event_data.pointer = word;
    must(dat_evd_post_se(((struct watch*)argument)->words, &event));
    return NULL;
}

static void serve(struct side* side, const struct arguments* arguments) {
    struct watch watch;
    pthread_t thread;
    memset(&watch, 0, sizeof watch);
    must(dat_cno_create(side->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &watch.cno));
    must(dat_evd_create(side->ia, 4, watch.cno, DAT_EVD_SOFTWARE_FLAG, &watch.words));
    must(dat_evd_modify_cno(side->receives, watch.cno));
    must(dat_evd_modify_cno(side->connections, watch.cno));
    watch.inbox = make_region(side, MESSAGES * SIZE, DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
    watch.ep = make_endpoint(side);
    for (int i = 0; i < MESSAGES; ++i) {
        post_receive(watch.ep, &watch.inbox, (DAT_VLEN)i * SIZE, SIZE, (DAT_UINT64)i);
    }
    DAT_PSP_HANDLE listener = listen_at(side, arguments->qualifier);
    require(pthread_create(&thread, NULL, say_something, &watch) == 0, "no thread");
    look_after(&watch);
    require(pthread_join(thread, NULL) == 0, "the thread doesn't end");
    require(watch.received == MESSAGES && watch.words_heard == 1, "an event came twice");
    must(dat_psp_free(listener));
    must(dat_ep_free(watch.ep));
    free_region(&watch.inbox);
    must(dat_evd_free(watch.words));
    must(dat_evd_modify_cno(side->receives, DAT_HANDLE_NULL));
    must(dat_evd_modify_cno(side->connections, DAT_HANDLE_NULL));
    must(dat_cno_free(watch.cno));
}

static void send_all(struct side* side, const struct arguments* arguments) {
    struct region message = make_region(side, SIZE, DAT_MEM_PRIV_LOCAL_READ_FLAG);
    DAT_EP_HANDLE ep = make_endpoint(side);
    connect_to(side, ep, arguments, NULL);
    for (int i = 0; i < MESSAGES; ++i) {
        snprintf(message.memory, SIZE, "message %d", i);
        send_bytes(side, ep, &message, 0, SIZE);
    }
    end_connection(side, ep);
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
