/* SPDX-License-Identifier: BSD-3-Clause */
#define _POSIX_C_SOURCE 200809L
#include "endpoint.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <sluice/sluice.h>

static int failed(const char* what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    return -1;
}

int endpoint_open(struct endpoint* end, const char* device, size_t bytes) {
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    struct ibv_qp_init_attr init;

    memset(end, 0, sizeof *end);
    end->socket = -1;
    /* The one line that differs from hardware: there, ibv_get_device_list() and ibv_open_device(). */
    end->device = sluice_open_uroce(device);
    if (end->device == NULL) {
        return failed(device);
    }
    end->memory = calloc(1, bytes);
    end->domain = ibv_alloc_pd(end->device);
    end->sent = ibv_create_cq(end->device, MAX_OUTSTANDING, NULL, NULL, 0);
    end->received = ibv_create_cq(end->device, MAX_OUTSTANDING, NULL, NULL, 0);
    if (end->memory == NULL || end->domain == NULL || end->sent == NULL || end->received == NULL) {
        return failed("memory, a domain and completion queues");
    }
    /* From here on the peer may access the memory, if it knows the key and the address. */
    end->region = ibv_reg_mr(end->domain, end->memory, bytes, access);
    memset(&init, 0, sizeof init);
    init.send_cq = end->sent;
    init.recv_cq = end->received;
    init.qp_type = IBV_QPT_RC; /* reliable, connected */
    init.cap.max_send_wr = init.cap.max_recv_wr = MAX_OUTSTANDING;
    init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    end->qp = end->region != NULL ? ibv_create_qp(end->domain, &init) : NULL;
    if (end->qp == NULL || ibv_query_gid(end->device, 1, 0, &end->own.gid) != 0) {
        return failed("a memory region and a queue pair");
    }
    end->own.qp_number = end->qp->qp_num;
    end->own.first_psn = (uint32_t)getpid() & 0xffffff; /* any number will do */
    end->own.rkey = end->region->rkey;
    end->own.address = (uintptr_t)end->memory;
    return 0;
}

/* Both ends run on machines of the same byte order here; a real protocol says which one it uses. */
static int introduce(struct endpoint* end) {
    char* to = (char*)&end->peer;
    size_t got = 0;

    if (send(end->socket, &end->own, sizeof end->own, MSG_NOSIGNAL) != (ssize_t)sizeof end->own) {
        return failed("telling the peer who we are");
    }
    while (got < sizeof end->peer) {
        const ssize_t more = recv(end->socket, to + got, sizeof end->peer - got, 0);
        if (more <= 0) {
            errno = more == 0 ? ECONNRESET : errno;
            return failed("hearing who the peer is");
        }
        got += (size_t)more;
    }
    return 0;
}

/* A queue pair becomes ready in three steps: initialised, ready to receive, ready to send. */
static int make_ready(struct endpoint* end) {
    struct ibv_port_attr port;
    struct ibv_qp_attr attr;

    if (ibv_query_port(end->device, 1, &port) != 0) {
        return failed("the port");
    }
    memset(&attr, 0, sizeof attr);
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    if (ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) !=
        0) {
        return failed("initialising the queue pair");
    }
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = port.active_mtu;
    attr.dest_qp_num = end->peer.qp_number;
    attr.rq_psn = end->peer.first_psn;
    attr.max_dest_rd_atomic = 16; /* Reads of the peer at a time */
    attr.min_rnr_timer = 12;      /* a message without a receive may come again after 640 us */
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = end->peer.gid;
    if (ibv_modify_qp(end->qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0) {
        return failed("making the queue pair ready to receive");
    }
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = end->own.first_psn;
    attr.timeout = 14; /* no answer for 67 ms: again */
    attr.retry_cnt = 7;
    attr.rnr_retry = 7; /* a peer that isn't ready: without end */
    attr.max_rd_atomic = 16;
    if (ibv_modify_qp(end->qp, &attr,
                      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                          IBV_QP_MAX_QP_RD_ATOMIC) != 0) {
        return failed("making the queue pair ready to send");
    }
    return 0;
}

int endpoint_connect(struct endpoint* end, int socket) {
    end->socket = socket;
    return introduce(end) != 0 || make_ready(end) != 0 ? -1 : 0;
}

void endpoint_close(struct endpoint* end) {
    if (end->qp != NULL) {
        ibv_destroy_qp(end->qp);
    }
    if (end->region != NULL) {
        ibv_dereg_mr(end->region);
    }
    if (end->received != NULL) {
        ibv_destroy_cq(end->received);
    }
    if (end->sent != NULL) {
        ibv_destroy_cq(end->sent);
    }
    if (end->domain != NULL) {
        ibv_dealloc_pd(end->domain);
    }
    if (end->device != NULL) {
        ibv_close_device(end->device);
    }
    if (end->socket >= 0) {
        close(end->socket);
    }
    free(end->memory);
}

int endpoint_post(struct endpoint* end, enum ibv_wr_opcode opcode, size_t local, size_t remote,
                  size_t bytes) {
    struct ibv_sge piece;
    struct ibv_send_wr request;
    struct ibv_send_wr* bad = NULL;

    piece.addr = (uintptr_t)end->memory + local;
    piece.length = (uint32_t)bytes;
    piece.lkey = end->region->lkey;
    memset(&request, 0, sizeof request);
    request.opcode = opcode;
    request.send_flags = IBV_SEND_SIGNALED;
    request.sg_list = &piece;
    request.num_sge = bytes != 0 ? 1 : 0;
    request.wr.rdma.remote_addr = end->peer.address + remote;
    request.wr.rdma.rkey = end->peer.rkey;
    errno = ibv_post_send(end->qp, &request, &bad);
    return errno == 0 ? 0 : failed("posting a request");
}

int endpoint_receive(struct endpoint* end, size_t local, size_t bytes) {
    struct ibv_sge piece;
    struct ibv_recv_wr request;
    struct ibv_recv_wr* bad = NULL;

    piece.addr = (uintptr_t)end->memory + local;
    piece.length = (uint32_t)bytes;
    piece.lkey = end->region->lkey;
    memset(&request, 0, sizeof request);
    request.sg_list = &piece;
    request.num_sge = 1;
    errno = ibv_post_recv(end->qp, &request, &bad);
    return errno == 0 ? 0 : failed("posting a receive");
}

/* A message from a peer that has ended would never come. */
static int peer_is_gone(int socket) {
    struct pollfd at = {socket, POLLIN, 0};
    char byte;

    return poll(&at, 1, 0) == 1 && recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static time_t now_s(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

int endpoint_wait(struct endpoint* end, struct ibv_cq* queue, size_t* bytes) {
    const unsigned looks_between = 1U << 12;
    const time_t patience_s = 5;
    struct ibv_wc completion;
    unsigned looks = 0;
    time_t gone_since = 0;
    int count = 0;

    while (count == 0) {
        count = ibv_poll_cq(queue, 1, &completion);
        if (count != 0) {
            break;
        }
        sched_yield(); /* on a busy machine the peer may be waiting for our core */
        /* What the peer sent before it ended may still be on its way through this machine. */
        if (++looks % looks_between == 0 && peer_is_gone(end->socket)) {
            if (gone_since == 0) {
                gone_since = now_s();
            } else if (now_s() - gone_since > patience_s) {
                fprintf(stderr, "the peer has ended\n");
                return -1;
            }
        }
    }
    if (count < 0 || completion.status != IBV_WC_SUCCESS) {
        fprintf(stderr, "a request failed: %s\n", count < 0 ? "poll" : ibv_wc_status_str(completion.status));
        return -1;
    }
    if (bytes != NULL) {
        *bytes = completion.byte_len;
    }
    return 0;
}
