/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server opens a part of its memory to the client, for reading, and closes it again: a window on a region
 * (RMR), which is bound in nanoseconds to microseconds and without registering anything. Some devices have
 * none: there dat_rmr_create() says DAT_MODEL_NOT_SUPPORTED.
 */
#include <stdio.h>
#include <string.h>

#include "../dat-common/common.h"

enum { SIZE = 4096, WINDOW_AT = 1024, WINDOW_SIZE = 256 };

static const char kSecret[] = "what nobody else shall see";
static const char kShown[] = "what the window shows";

/* Binds the window to SHOWN, or to nothing where that is empty. Returns its key, which is another each time.
 */
static DAT_RMR_CONTEXT bind_to(const struct side* side, DAT_EP_HANDLE ep, DAT_RMR_HANDLE window,
                               DAT_LMR_TRIPLET shown) {
    DAT_RMR_CONTEXT key = 0;
    must(dat_rmr_bind(window, &shown, DAT_MEM_PRIV_REMOTE_READ_FLAG, ep, cookie_of(1),
                      DAT_COMPLETION_DEFAULT_FLAG, &key));
    const DAT_EVENT event = await_event(side->requests, DAT_RMR_BIND_COMPLETION_EVENT);
    require(event.event_data.rmr_completion_event_data.status == DAT_RMR_BIND_SUCCESS, "the bind failed");
    return key;
}

/* One side has broken the rules and both hear of it: of the error, or that the other has gone because of it.
 */
static void await_loss(const struct side* side, DAT_EP_HANDLE ep) {
    DAT_EVENT event;
    DAT_COUNT more = 0;
    must(dat_evd_wait(side->connections, DAT_TIMEOUT_INFINITE, 1, &event, &more));
    require(event.event_number == DAT_CONNECTION_EVENT_BROKEN ||
                event.event_number == DAT_CONNECTION_EVENT_DISCONNECTED,
            "the connection goes on");
    must(dat_ep_free(ep));
}

/* Whatever its status: the client's read may end the connection before this message is acknowledged. */
static void send_last(const struct side* side, DAT_EP_HANDLE ep, const struct region* message) {
    DAT_LMR_TRIPLET part = part_of(message, 0, 1);
    must(dat_ep_post_send(ep, 1, &part, cookie_of(1), DAT_COMPLETION_DEFAULT_FLAG));
    (void)await_event(side->requests, DAT_DTO_COMPLETION_EVENT);
}

static void serve(struct side* side, const struct arguments* arguments) {
    /* Nobody else may look at the region itself. */
    struct region region =
        make_region(side, SIZE, DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
    struct region message = make_region(side, sizeof(struct offer), DAT_MEM_PRIV_ALL_FLAG);
    const DAT_LMR_TRIPLET shown = part_of(&region, WINDOW_AT, WINDOW_SIZE);
    const DAT_LMR_TRIPLET nothing = part_of(&region, 0, 0);
    struct offer offer;
    DAT_EP_HANDLE ep = make_endpoint(side);
    DAT_RMR_HANDLE window = DAT_HANDLE_NULL;

    strcpy(region.memory, kSecret);
    strcpy(region.memory + WINDOW_AT, kShown);
    must(dat_lmr_sync_rdma_read(side->ia, &shown, 1));
    must(dat_rmr_create(side->zone, &window));
    post_receive(ep, &message, 0, sizeof offer, 0);
    DAT_PSP_HANDLE listener = listen_at(side, arguments->qualifier);
    accept_request(side, ep, NULL);

    /* A window belongs to a connection: so its key goes in a message. */
    offer = make_offer(&region);
    offer.address += WINDOW_AT;
    offer.size = WINDOW_SIZE;
    offer.key = bind_to(side, ep, window, shown);
    await_transfer(side->receives, 0); /* the client has a receive for it */
    memcpy(message.memory, &offer, sizeof offer);
    post_receive(ep, &message, 0, 1, 0);
    send_bytes(side, ep, &message, 0, sizeof offer);
    await_transfer(side->receives, 0); /* the client has read */
    bind_to(side, ep, window, nothing);
    send_last(side, ep, &message);
    /* The client's next read is refused, which ends the connection at both sides. */
    await_loss(side, ep);
    must(dat_rmr_free(window));
    must(dat_psp_free(listener));
    free_region(&message);
    free_region(&region);
}

static void post_read(DAT_EP_HANDLE ep, const struct offer* offer, const struct region* target) {
    DAT_LMR_TRIPLET part = part_of(target, 0, offer->size);
    DAT_RMR_TRIPLET remote;
    remote.rmr_context = offer->key;
    remote.pad = 0;
    remote.target_address = offer->address;
    remote.segment_length = offer->size;
    must(dat_ep_post_rdma_read(ep, 1, &part, cookie_of(2), &remote, DAT_COMPLETION_DEFAULT_FLAG));
}

static void read_through(struct side* side, const struct arguments* arguments) {
    struct region target = make_region(side, WINDOW_SIZE, DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
    struct region message = make_region(side, sizeof(struct offer), DAT_MEM_PRIV_ALL_FLAG);
    struct offer offer;
    DAT_EVENT event;
    DAT_EP_HANDLE ep = make_endpoint(side);
    connect_to(side, ep, arguments, NULL);
    post_receive(ep, &message, 0, sizeof offer, 0);
    send_bytes(side, ep, &message, 0, 1);
    require(await_transfer(side->receives, 0) == sizeof offer, "the server has not told of its window");
    memcpy(&offer, message.memory, sizeof offer);
    require(offer.size == WINDOW_SIZE, "the window has another size");
    post_read(ep, &offer, &target);
    await_transfer(side->requests, 2);
    printf("read: %.*s\n", WINDOW_SIZE, target.memory);
    require(strncmp(target.memory, kShown, WINDOW_SIZE) == 0, "something else was read");

    post_receive(ep, &message, 0, 1, 0);
    send_bytes(side, ep, &message, 0, 1);
    await_transfer(side->receives, 0); /* the window is closed */
    post_read(ep, &offer, &target);
    event = await_event(side->requests, DAT_DTO_COMPLETION_EVENT);
    require(event.event_data.dto_completion_event_data.status == DAT_DTO_ERR_REMOTE_ACCESS,
            "the window is still open");
    printf("closed: the read was refused\n");
    await_loss(side, ep);
    free_region(&message);
    free_region(&target);
}

int main(int argc, char** argv) {
    const struct arguments arguments = parse(argc, argv);
    struct side side = open_side(arguments.adapter);
    (arguments.is_server ? serve : read_through)(&side, &arguments);
    close_side(&side);
    printf("done\n");
    return 0;
}
