/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client sends questions, and the server sends answers. Each message goes into the receive that was
 * posted first, so one must be there for each message that comes.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "../dat-common/common.h"

enum { QUESTIONS = 3, MESSAGE = 64, INBOX = 0, OUTBOX = QUESTIONS * MESSAGE, SIZE = OUTBOX + MESSAGE };

static const char* const kQuestions[QUESTIONS] = {"is anybody there?", "do you hear me?", "and now?"};

static struct region make_boxes(const struct side* side) {
    return make_region(side, SIZE, DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
}

static void shout(char* to, const char* from) {
    for (; *from != '\0'; ++from) {
        *to++ = (char)toupper((unsigned char)*from);
    }
    *to = '\0';
}

static void serve(struct side* side, const struct arguments* arguments) {
    struct region boxes = make_boxes(side);
    DAT_EP_HANDLE ep = make_endpoint(side);
    for (DAT_UINT64 i = 0; i < QUESTIONS; ++i) {
        post_receive(ep, &boxes, INBOX + i * MESSAGE, MESSAGE, i);
    }
    DAT_PSP_HANDLE listener = listen_at(side, arguments->qualifier);
    accept_request(side, ep, NULL);
    for (DAT_UINT64 i = 0; i < QUESTIONS; ++i) {
        const char* question = boxes.memory + INBOX + i * MESSAGE;
        const DAT_VLEN size = await_transfer(side->receives, i);
        require(size <= MESSAGE && strnlen(question, size) + 1 == size, "the question has no end");
        printf("asked: %s\n", question);
        require(strcmp(question, kQuestions[i]) == 0, "the question is another one");
        shout(boxes.memory + OUTBOX, question);
        send_bytes(side, ep, &boxes, OUTBOX, size);
    }
    await_end(side, ep);
    must(dat_psp_free(listener));
    free_region(&boxes);
}

static void ask(struct side* side, const struct arguments* arguments) {
    struct region boxes = make_boxes(side);
    DAT_EP_HANDLE ep = make_endpoint(side);
    connect_to(side, ep, arguments, NULL);
    for (DAT_UINT64 i = 0; i < QUESTIONS; ++i) {
        char expected[MESSAGE];
        const DAT_VLEN size = strlen(kQuestions[i]) + 1;
        shout(expected, kQuestions[i]);
        post_receive(ep, &boxes, INBOX, MESSAGE, i); /* for the answer: before the question goes */
        strcpy(boxes.memory + OUTBOX, kQuestions[i]);
        send_bytes(side, ep, &boxes, OUTBOX, size);
        require(await_transfer(side->receives, i) == size, "the answer has another length");
        printf("answered: %.*s\n", MESSAGE, boxes.memory + INBOX);
        require(memcmp(boxes.memory + INBOX, expected, size) == 0, "the answer is another one");
    }
    end_connection(side, ep);
    free_region(&boxes);
}

int main(int argc, char** argv) {
    const struct arguments arguments = parse(argc, argv);
    struct side side = open_side(arguments.adapter);
    (arguments.is_server ? serve : ask)(&side, &arguments);
    close_side(&side);
    printf("done\n");
    return 0;
}
