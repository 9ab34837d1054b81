/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void must_succeed(int code, const char* call) {
    if (code != 0) {
        fprintf(stderr, "%s: %s\n", call, rpma_err_2str(code));
        exit(1);
    }
}

void require(bool holds, const char* what) {
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        exit(1);
    }
}

struct arguments parse(int argc, char** argv) {
    const bool is_server = argc >= 4 && strcmp(argv[1], "server") == 0;
    const bool is_client = argc == 4 && strcmp(argv[1], "client") == 0;
    if (!is_server && !is_client) {
        fprintf(stderr, "usage: %s server|client ADDRESS PORT [FILE]\n", argv[0]);
        exit(2);
    }
    /* What goes wrong inside is worth a line on the terminal. */
    must(rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_LEVEL_WARNING));
    const struct arguments parsed = {is_server, argv[2], argv[3], argc > 4 ? argv[4] : NULL};
    return parsed;
}

struct rpma_peer* open_peer(const struct arguments* arguments) {
    struct ibv_context* context = NULL;
    must(rpma_utils_get_ibv_context(
        arguments->address, arguments->is_server ? RPMA_UTIL_IBV_CONTEXT_LOCAL : RPMA_UTIL_IBV_CONTEXT_REMOTE,
        &context));
    struct rpma_peer* peer = NULL;
    must(rpma_peer_new(context, &peer));
    return peer;
}

void* make_pages(size_t size) {
    void* pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(pages != MAP_FAILED, "out of memory");
    return pages;
}

struct rpma_ep* listen_at(struct rpma_peer* peer, const struct arguments* arguments) {
    struct rpma_ep* ep = NULL;
    must(rpma_ep_listen(peer, arguments->address, arguments->port, &ep));
    printf("listening\n");
    fflush(stdout);
    return ep;
}

static struct rpma_conn* establish(struct rpma_conn_req* request, void* data, size_t size) {
    const struct rpma_conn_private_data private_data = {data, (uint8_t)size};
    struct rpma_conn* conn = NULL;
    must(rpma_conn_req_connect(&request, data == NULL ? NULL : &private_data, &conn));
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    must(rpma_conn_next_event(conn, &event));
    require(event == RPMA_CONN_ESTABLISHED, rpma_utils_conn_event_2str(event));
    return conn;
}

struct rpma_conn* accept_request(struct rpma_conn_req* request, void* data, size_t size) {
    return establish(request, data, size);
}

struct rpma_conn* connect_to(struct rpma_peer* peer, const struct arguments* arguments, void* data,
                             size_t size) {
    struct rpma_conn_req* request = NULL;
    must(rpma_conn_req_new(peer, arguments->address, arguments->port, NULL, &request));
    return establish(request, data, size);
}

struct rpma_conn* connect_with(struct rpma_peer* peer, const struct arguments* arguments,
                               const struct rpma_conn_cfg* cfg) {
    struct rpma_conn_req* request = NULL;
    must(rpma_conn_req_new(peer, arguments->address, arguments->port, cfg, &request));
    return establish(request, NULL, 0);
}

void await(struct rpma_conn* conn, const void* op_context) {
    struct rpma_cq* cq = NULL;
    must(rpma_conn_get_cq(conn, &cq));
    struct ibv_wc wc;
    int code = rpma_cq_get_wc(cq, 1, &wc, NULL);
    while (code == RPMA_E_NO_COMPLETION) {
        must(rpma_cq_wait(cq));
        code = rpma_cq_get_wc(cq, 1, &wc, NULL); /* the queue may turn out to be empty */
    }
    must_succeed(code, "rpma_cq_get_wc");
    require(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
    require(wc.wr_id == (uintptr_t)op_context, "another request has completed");
}

void await_end(struct rpma_conn* conn) {
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    must(rpma_conn_next_event(conn, &event));
    require(event == RPMA_CONN_CLOSED, rpma_utils_conn_event_2str(event));
    must(rpma_conn_disconnect(conn));
    must(rpma_conn_delete(&conn));
}

void end(struct rpma_conn* conn) {
    must(rpma_conn_disconnect(conn));
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    must(rpma_conn_next_event(conn, &event));
    require(event == RPMA_CONN_CLOSED, rpma_utils_conn_event_2str(event));
    must(rpma_conn_delete(&conn));
}

struct offer make_offer(const struct rpma_mr_local* region, bool direct_write_to_pmem) {
    struct rpma_peer_cfg* config = NULL;
    must(rpma_peer_cfg_new(&config));
    must(rpma_peer_cfg_set_direct_write_to_pmem(config, direct_write_to_pmem));
    size_t region_size = 0;
    size_t config_size = 0;
    must(rpma_mr_get_descriptor_size(region, &region_size));
    must(rpma_peer_cfg_get_descriptor_size(config, &config_size));
    struct offer offer = {(uint8_t)region_size, (uint8_t)config_size, {0}};
    require(region_size + config_size <= sizeof offer.bytes, "the descriptors don't fit");
    must(rpma_mr_get_descriptor(region, offer.bytes));
    must(rpma_peer_cfg_get_descriptor(config, offer.bytes + region_size));
    must(rpma_peer_cfg_delete(&config));
    return offer;
}

struct rpma_mr_remote* take_offer(struct rpma_conn* conn) {
    struct rpma_conn_private_data data;
    must(rpma_conn_get_private_data(conn, &data));
    struct offer offer;
    require(data.len >= sizeof offer, "the server has not told of its memory");
    memcpy(&offer, data.ptr, sizeof offer);
    /* The server may be anybody. */
    require((size_t)offer.region_size + offer.config_size <= sizeof offer.bytes, "an impossible offer");
    struct rpma_mr_remote* region = NULL;
    struct rpma_peer_cfg* config = NULL;
    must(rpma_mr_remote_from_descriptor(offer.bytes, offer.region_size, &region));
    must(rpma_peer_cfg_from_descriptor(offer.bytes + offer.region_size, offer.config_size, &config));
    must(rpma_conn_apply_remote_peer_cfg(conn, config));
    must(rpma_peer_cfg_delete(&config));
    return region;
}
