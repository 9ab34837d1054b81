/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two processes move data by RDMA, with no RDMA hardware, no kernel module and no privileges:
 *
 *     write_read_send server uroce0              prints where it waits: HOST PORT
 *     write_read_send client uroce1 HOST PORT [table]
 *
 * The client writes into the server's memory and reads it back, while the server's program knows of
 * nothing. Then it sends a message, for which the server's program does something: it looks whether
 * what was written is there, and sends the message back. All bytes are compared. At last, if it is told
 * to, the client measures: a table of latencies and bandwidths.
 *
 * Exit status: 0 all data was right, 1 it was not or something failed, 2 wrong command line.
 */
#define _POSIX_C_SOURCE 200809L
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "endpoint.h"

/* The same memory at both ends: what the peer may access, our own data, and two places for messages,
 * so that one can be offered while the other is still being sent back. */
enum {
    LARGEST = 1 << 20,
    SHARED = 0,
    SOURCE = LARGEST,
    INBOX = 2 * LARGEST,
    MEMORY_BYTES = 4 * LARGEST,
};

/* Bytes that differ from place to place and from SEED to SEED. */
static void fill(char* to, size_t bytes, unsigned seed) {
    size_t i;

    for (i = 0; i < bytes; ++i) {
        to[i] = (char)(i * 31 + (i >> 8) + seed);
    }
}

static int is_filled(const char* what, const char* from, size_t bytes, unsigned seed) {
    size_t i;

    for (i = 0; i < bytes; ++i) {
        if (from[i] != (char)(i * 31 + (i >> 8) + seed)) {
            fprintf(stderr, "%s: byte %zu of %zu is wrong\n", what, i, bytes);
            return 0;
        }
    }
    return 1;
}

static int request(struct endpoint* end, enum ibv_wr_opcode opcode, size_t local, size_t bytes) {
    return endpoint_post(end, opcode, local, SHARED, bytes) != 0 || endpoint_wait(end, end->sent, NULL) != 0
               ? -1
               : 0;
}

/* The server. Each message of N bytes asks: are the first N bytes of the shared memory the same? It comes
 * back if they are. An empty message is the last one. */
static int serve(struct endpoint* end) {
    size_t bytes = 0;
    unsigned turn;

    /* A message that comes before this is there is sent again after a while. */
    if (endpoint_receive(end, INBOX, LARGEST) != 0) {
        return -1;
    }
    for (turn = 0;; ++turn) {
        const size_t here = INBOX + (turn % 2) * LARGEST;
        const size_t next = INBOX + ((turn + 1) % 2) * LARGEST;

        if (endpoint_wait(end, end->received, &bytes) != 0) {
            return -1;
        }
        if (bytes == 0) {
            return 0;
        }
        if (memcmp(end->memory + SHARED, end->memory + here, bytes) != 0) {
            fprintf(stderr, "server: what was written is not what was sent\n");
            return -1;
        }
        if (endpoint_receive(end, next, LARGEST) != 0 || request(end, IBV_WR_SEND, here, bytes) != 0) {
            return -1;
        }
    }
}

/* The client. */
static int send_and_get_back(struct endpoint* end, size_t bytes) {
    return endpoint_receive(end, INBOX, LARGEST) != 0 || request(end, IBV_WR_SEND, SOURCE, bytes) != 0 ||
                   endpoint_wait(end, end->received, NULL) != 0
               ? -1
               : 0;
}

/* One Write, one Read and one Send, each with all its bytes looked at. */
static int move_data(struct endpoint* end, size_t bytes, unsigned seed) {
    fill(end->memory + SOURCE, bytes, seed);
    if (request(end, IBV_WR_RDMA_WRITE, SOURCE, bytes) != 0 || send_and_get_back(end, bytes) != 0 ||
        !is_filled("sent and sent back", end->memory + INBOX, bytes, seed)) {
        return -1;
    }
    memset(end->memory + INBOX, 0, bytes);
    if (request(end, IBV_WR_RDMA_READ, INBOX, bytes) != 0 ||
        !is_filled("written and read back", end->memory + INBOX, bytes, seed)) {
        return -1;
    }
    return 0;
}

static double now_us(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static const double measure_us = 60000;

/* One at a time: microseconds from asking to knowing that it is done. A Send goes there and back, and
 * counts half. */
static double latency_us(struct endpoint* end, enum ibv_wr_opcode opcode, size_t bytes) {
    const double start = now_us();
    double end_us = start;
    unsigned count = 0;

    while (end_us - start < measure_us) {
        const int status = opcode == IBV_WR_SEND
                               ? send_and_get_back(end, bytes)
                               : request(end, opcode, opcode == IBV_WR_RDMA_READ ? INBOX : SOURCE, bytes);
        if (status != 0) {
            return -1;
        }
        ++count;
        end_us = now_us();
    }
    return (end_us - start) / count / (opcode == IBV_WR_SEND ? 2 : 1);
}

/* Several under way: megabytes per second. */
static double bandwidth(struct endpoint* end, enum ibv_wr_opcode opcode, size_t bytes) {
    const size_t local = opcode == IBV_WR_RDMA_READ ? INBOX : SOURCE;
    const unsigned under_way = 16;
    const double start = now_us();
    unsigned posted = 0;
    unsigned done = 0;

    while (posted == 0 || now_us() - start < measure_us) {
        while (posted - done < under_way) {
            if (endpoint_post(end, opcode, local, SHARED, bytes) != 0) {
                return -1;
            }
            ++posted;
        }
        if (endpoint_wait(end, end->sent, NULL) != 0) {
            return -1;
        }
        ++done;
    }
    for (; done < posted; ++done) {
        if (endpoint_wait(end, end->sent, NULL) != 0) {
            return -1;
        }
    }
    return (double)posted * (double)bytes / (now_us() - start);
}

static int measure(struct endpoint* end) {
    static const size_t sizes[] = {8, 64, 512, 4096, 32768, 262144, LARGEST};
    size_t i;

    printf("%10s  %28s  %20s\n", "", "one at a time, us", "16 at a time, MB/s");
    printf("%10s  %8s  %8s  %8s  %9s  %9s\n", "bytes", "Write", "Read", "Send", "Write", "Read");
    for (i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
        const size_t bytes = sizes[i];
        double figures[5];
        unsigned k;

        if (move_data(end, bytes, (unsigned)i + 1) != 0) {
            return -1;
        }
        figures[0] = latency_us(end, IBV_WR_RDMA_WRITE, bytes);
        figures[1] = latency_us(end, IBV_WR_RDMA_READ, bytes);
        figures[2] = latency_us(end, IBV_WR_SEND, bytes);
        figures[3] = bandwidth(end, IBV_WR_RDMA_WRITE, bytes);
        figures[4] = bandwidth(end, IBV_WR_RDMA_READ, bytes);
        for (k = 0; k < 5; ++k) {
            if (figures[k] < 0) {
                return -1;
            }
        }
        if (!is_filled("after the measurement", end->memory + INBOX, bytes, (unsigned)i + 1)) {
            return -1;
        }
        printf("%10zu  %8.1f  %8.1f  %8.1f  %9.1f  %9.1f\n", bytes, figures[0], figures[1], figures[2],
               figures[3], figures[4]);
        fflush(stdout);
    }
    return 0;
}

static int run_client(struct endpoint* end, int with_table) {
    static const size_t sizes[] = {1, 255, 4096, 4097, 65536, LARGEST};
    size_t i;

    for (i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
        if (move_data(end, sizes[i], (unsigned)i * 7) != 0) {
            return -1;
        }
        printf("%zu bytes: written, sent, sent back, read: all right\n", sizes[i]);
    }
    if (with_table && measure(end) != 0) {
        return -1;
    }
    return request(end, IBV_WR_SEND, SOURCE, 0);
}

/* The rendezvous: an ordinary TCP connection, for the few bytes that the ends must know. The server
 * waits at the address of its device. */
static int wait_for_client(const struct endpoint* end) {
    struct sockaddr_in6 address;
    socklen_t length = sizeof address;
    const int any = socket(AF_INET6, SOCK_STREAM, 0);
    const int no = 0;
    char text[INET6_ADDRSTRLEN];
    int client = -1;

    memset(&address, 0, sizeof address);
    address.sin6_family = AF_INET6;
    memcpy(&address.sin6_addr, &end->own.gid, sizeof address.sin6_addr); /* IPv4 as ::ffff:a.b.c.d */
    if (any < 0 || setsockopt(any, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) != 0 ||
        bind(any, (struct sockaddr*)&address, sizeof address) != 0 || listen(any, 1) != 0 ||
        getsockname(any, (struct sockaddr*)&address, &length) != 0) {
        perror("listen");
    } else {
        if (IN6_IS_ADDR_V4MAPPED(&address.sin6_addr)) {
            inet_ntop(AF_INET, address.sin6_addr.s6_addr + 12, text, sizeof text);
        } else {
            inet_ntop(AF_INET6, &address.sin6_addr, text, sizeof text);
        }
        printf("%s %u\n", text, (unsigned)ntohs(address.sin6_port));
        fflush(stdout);
        client = accept(any, NULL, NULL);
    }
    if (any >= 0) {
        close(any);
    }
    return client;
}

static int go_to_server(const char* host, const char* port) {
    struct addrinfo hints;
    struct addrinfo* found = NULL;
    int server = -1;

    memset(&hints, 0, sizeof hints);
    hints.ai_socktype = SOCK_STREAM;
    if (getaddrinfo(host, port, &hints, &found) != 0) {
        fprintf(stderr, "%s port %s: no such address\n", host, port);
        return -1;
    }
    server = socket(found->ai_family, found->ai_socktype, found->ai_protocol);
    if (server < 0 || connect(server, found->ai_addr, found->ai_addrlen) != 0) {
        perror(host);
        if (server >= 0) {
            close(server);
        }
        server = -1;
    }
    freeaddrinfo(found);
    return server;
}

int main(int argc, char** argv) {
    const int is_server = argc == 3 && strcmp(argv[1], "server") == 0;
    const int has_table = argc == 6 && strcmp(argv[5], "table") == 0;
    const int is_client = (argc == 5 || has_table) && strcmp(argv[1], "client") == 0;
    struct endpoint end;
    int socket = -1;
    int status = -1;

    if (!is_server && !is_client) {
        fprintf(stderr, "usage: %s server DEVICE | client DEVICE HOST PORT [table]\n", argv[0]);
        return 2;
    }
    if (endpoint_open(&end, argv[2], MEMORY_BYTES) == 0) {
        socket = is_server ? wait_for_client(&end) : go_to_server(argv[3], argv[4]);
    }
    if (socket >= 0 && endpoint_connect(&end, socket) == 0) {
        status = is_server ? serve(&end) : run_client(&end, has_table);
    }
    endpoint_close(&end);
    return status == 0 ? 0 : 1;
}
