// SPDX-License-Identifier: BSD-3-Clause
#include "dat_pair.h"

#include <stdio.h>
#include <stdlib.h>

static char* adapter(void) {
    char* name = getenv("RACES_ADDRESS");
    name = name != NULL ? name : getenv("LAB_DEVICE");
    static char first[] = "uroce0";
    return name != NULL ? name : first;
}

// Another dispatcher in the place of the one that open_side() has made.
static void replace_requests(struct side* side, DAT_COUNT length) {
    if (length != 0) {
        must(dat_evd_free(side->requests));
        must(dat_evd_create(side->ia, length, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &side->requests));
    }
}

void dat_pair_open(struct dat_pair* pair, DAT_COUNT requests) {
    const DAT_TIMEOUT timeout_us = 5000000;
    DAT_PSP_HANDLE listener = DAT_HANDLE_NULL;
    DAT_CONN_QUAL qualifier = 0;
    DAT_IA_ATTR attributes;
    pair->side = open_side(adapter());
    replace_requests(&pair->side, requests);
    pair->a = make_endpoint(&pair->side);
    pair->b = make_endpoint(&pair->side);
    must(dat_ia_query(pair->side.ia, NULL, DAT_IA_FIELD_IA_ADDRESS_PTR, &attributes, 0, NULL));
    must(dat_psp_create_any(pair->side.ia, &qualifier, pair->side.connections, DAT_PSP_CONSUMER_FLAG,
                            &listener));
    must(dat_ep_connect(pair->a, attributes.ia_address_ptr, qualifier, timeout_us, 0, NULL,
                        DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
    accept_request(&pair->side, pair->b, NULL);
    await_event(pair->side.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
    must(dat_psp_free(listener));
}

void dat_pair_close(struct dat_pair* pair) {
    must(dat_ep_disconnect(pair->a, DAT_CLOSE_GRACEFUL_FLAG));
    await_end(&pair->side, pair->a);
    await_end(&pair->side, pair->b);
    close_side(&pair->side);
}

void dat_pair_abort(struct dat_pair* pair) {
    must(dat_ia_close(pair->side.ia, DAT_CLOSE_ABRUPT_FLAG));
}

DAT_TIMEOUT patience_us(void) {
    const char* text = getenv("RACES_PATIENCE_MS");
    return (text != NULL ? (DAT_TIMEOUT)strtol(text, NULL, 10) : 5000) * 1000;
}

DAT_RMR_TRIPLET remote_of(const struct region* region) {
    const DAT_RMR_TRIPLET remote = {.rmr_context = region->key,
                                    .target_address = (uintptr_t)region->memory,
                                    .segment_length = region->size};
    return remote;
}

int verdict(const char* symptom) {
    if (symptom != NULL) {
        printf("symptom: %s\n", symptom);
        return 1;
    }
    printf("all is right\n");
    return 0;
}
