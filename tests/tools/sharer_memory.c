/* SPDX-License-Identifier: BSD-3-Clause */
#include "sharer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

int host;
static const char* directory;

void demand(int holds, const char* what) {
    if (!holds) {
        fprintf(stderr, "%s: %s\n", what, strerror(errno));
        exit(2);
    }
}

const char* path_of(const char* name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static int pipe_from(int writer) {
    const char* const path = path_of(writer == 0 ? "from0" : "from1");
    demand(mkfifo(path, 0600) == 0 || errno == EEXIST, path);
    return open(path, writer == host ? O_WRONLY : O_RDONLY);
}

static int pipes[2];

void open_pipes(const char* its_directory) {
    directory = its_directory;
    pipes[0] = pipe_from(0);
    pipes[1] = pipe_from(1);
}

void tell(void) {
    demand(write(pipes[host], "x", 1) == 1, "write");
}
static int has_heard; /* before its time */
void hear(void) {
    char byte;
    if (has_heard) {
        has_heard = 0;
        return;
    }
    demand(read(pipes[1 - host], &byte, 1) == 1, "read");
}

static void send_descriptor(int socket_fd, int file) {
    char byte = 'x';
    struct iovec part = {&byte, 1};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    memset(&control, 0, sizeof control);
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(&control.header), &file, sizeof file);
    demand(sendmsg(socket_fd, &message, 0) == 1, "sendmsg");
}

static int receive_descriptor(int socket_fd) {
    int file = -1;
    char byte;
    struct iovec part = {&byte, 1};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    demand(recvmsg(socket_fd, &message, 0) == 1, "recvmsg");
    memcpy(&file, CMSG_DATA(&control.header), sizeof file);
    return file;
}

/* A memory file that host 0 makes, and host 1 gets through a socket. */
static int memory_file(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int socket_fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path_of("socket"));
    if (host == 1) {
        hear();
        demand(connect(socket_fd, (struct sockaddr*)&address, sizeof address) == 0, "connect");
        return receive_descriptor(socket_fd);
    }
    const int file = memfd_create("shared", 0);
    demand(ftruncate(file, sizeof(struct shared)) == 0, "ftruncate");
    demand(bind(socket_fd, (struct sockaddr*)&address, sizeof address) == 0, "bind");
    demand(listen(socket_fd, 1) == 0, "listen");
    tell();
    send_descriptor(accept(socket_fd, NULL, NULL), file);
    return file;
}

static int named_file(int flags) {
    const int file = open(path_of("memory"), flags | O_CREAT, 0600);
    demand(file >= 0, "open");
    const int to_enlarge = open(path_of("memory"), O_RDWR);
    demand(ftruncate(to_enlarge, sizeof(struct shared)) == 0, "ftruncate");
    close(to_enlarge);
    return file;
}

static struct shared* mapped(int file, int protection) {
    void* const memory = mmap(NULL, sizeof(struct shared), protection, MAP_SHARED, file, 0);
    demand(memory != MAP_FAILED, "mmap");
    close(file);
    return memory;
}

/* The mapping is put together from its parts, the last of which has moved. */
static struct shared* mapped_in_parts(int file) {
    char* const first = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    demand(first != MAP_FAILED, "mmap");
    char* const rest = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 2 * PAGE);
    demand(rest != MAP_FAILED, "mmap");
    demand(munmap(first + 2 * PAGE, 2 * PAGE) == 0, "munmap");
    demand(mremap(rest, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, first + 2 * PAGE) ==
               first + 2 * PAGE,
           "mremap");
    close(file);
    return (struct shared*)first;
}

unsigned char byte_at(size_t index) {
    return (unsigned char)(index * 7 + index / 256 + 1);
}

void fill(unsigned char* data) {
    for (size_t i = 0; i < BYTES; ++i) {
        data[i] = byte_at(i);
    }
}

/* Before anybody maps it. */
static void fill_file(void) {
    static unsigned char bytes[BYTES];
    if (host == 1) {
        hear();
        return;
    }
    const int file = named_file(O_RDWR);
    fill(bytes);
    demand(pwrite(file, bytes, BYTES, PAGE) == BYTES, "pwrite");
    close(file);
    tell();
}

struct shared* map_as(const char* way) {
    if (strcmp(way, "memfd") == 0) {
        return mapped(memory_file(), PROT_READ | PROT_WRITE);
    }
    if (strcmp(way, "parts") == 0) {
        return mapped_in_parts(named_file(O_RDWR));
    }
    if (strcmp(way, "late") == 0 && host == 1) {
        hear();
        has_heard = 1;
    }
    if (strcmp(way, "filled") == 0) {
        fill_file();
    }
    const int reads = host == 1 && strcmp(way, "read-only") == 0;
    return mapped(named_file(reads ? O_RDONLY : O_RDWR), reads ? PROT_READ : PROT_READ | PROT_WRITE);
}
