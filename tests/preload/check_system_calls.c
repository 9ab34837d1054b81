// SPDX-License-Identifier: BSD-3-Clause
//
// The cases of check_program.c in which the kernel loads from memory in use, or stores to it.
#include "check_cases.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

// What a compiler makes of read() where it knows the memory's size.
extern ssize_t __read_chk(int fd, void* memory, size_t bytes, size_t room); // NOLINT: glibc's name

static const struct options usual = {0};

// A Send of the whole buffer, for which there is no receive yet, and an empty pipe that doesn't wait.
struct outstanding {
    struct ends ends;
    struct buffer from;
    struct buffer to;
    int pipe[2];
};

static struct outstanding send_all(void) {
    struct outstanding sent = {.ends = open_ends(usual)};
    struct ibv_send_wr* refused = NULL;
    sent.from = make_buffer(&sent.ends);
    sent.to = make_buffer(&sent.ends);
    struct ibv_sge piece = piece_of(&sent.from);
    piece.length = BYTES;
    struct ibv_send_wr request = {
        .wr_id = 1, .sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
    must(ibv_post_send(sent.ends.a.qp, &request, &refused) == 0, "ibv_post_send");
    must(pipe2(sent.pipe, O_NONBLOCK) == 0, "pipe2");
    return sent;
}

static void end_all(struct outstanding* sent) {
    struct ibv_sge piece = piece_of(&sent->to);
    piece.length = BYTES;
    struct ibv_recv_wr receive = {.wr_id = 9, .sg_list = &piece, .num_sge = 1};
    struct ibv_recv_wr* refused = NULL;
    must(ibv_post_recv(sent->ends.b.qp, &receive, &refused) == 0, "ibv_post_recv");
    await(sent->ends.b.received, 9);
    await(sent->ends.a.sent, 1);
    must(memcmp(sent->from.memory, sent->to.memory, BYTES) == 0, "the data");
    must(close(sent->pipe[0]) == 0 && close(sent->pipe[1]) == 0, "close");
    free_buffer(&sent->from);
    free_buffer(&sent->to);
    close_ends(&sent->ends);
}

void read_into_what_is_sent(void) {
    struct outstanding sent = send_all();
    must(write(sent.pipe[1], "text", 4) == 4, "write");
    must(read(sent.pipe[0], sent.from.memory + 8192, 64) == 4, "read");
    end_all(&sent);
}

// It isn't changed: nothing was there to be read, or it came to the other piece.
void written_from_what_is_sent(void) {
    struct outstanding sent = send_all();
    char own[8] = {0};
    const struct iovec pieces[] = {{own, sizeof own}, {sent.from.memory, BYTES}};
    must(read(sent.pipe[0], sent.from.memory, 64) == -1 && errno == EAGAIN, "read of nothing");
    must(write(sent.pipe[1], sent.from.memory, sizeof own) == sizeof own, "write");
    must(readv(sent.pipe[0], pieces, 2) == sizeof own, "readv");
    end_all(&sent);
}

void read_counted_into_what_is_sent(void) {
    struct outstanding sent = send_all();
    must(write(sent.pipe[1], "text", 4) == 4, "write");
    must(__read_chk(sent.pipe[0], sent.from.memory + 8192, 64, BYTES - 8192) == 4, "read");
    end_all(&sent);
}

// More than a stream's own buffer has room for.
void streamed_into_what_is_sent(void) {
    struct outstanding sent = send_all();
    const int file = memfd_create("test", MFD_CLOEXEC);
    must(file >= 0 && ftruncate(file, 65536) == 0, "a file");
    FILE* const stream = fdopen(file, "r");
    must(stream != NULL && fread(sent.from.memory + 8192, 1, 8192, stream) == 8192, "fread");
    must(fclose(stream) == 0, "fclose");
    end_all(&sent);
}

void messages_into_what_is_sent(void) {
    struct outstanding sent = send_all();
    int sockets[2];
    char own[8] = {0};
    struct iovec pieces[] = {{own, sizeof own}, {sent.from.memory + 8192, 64}};
    struct mmsghdr messages[] = {{.msg_hdr = {.msg_iov = &pieces[0], .msg_iovlen = 1}},
                                 {.msg_hdr = {.msg_iov = &pieces[1], .msg_iovlen = 1}}};
    must(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, sockets) == 0, "socketpair");
    must(send(sockets[0], "one", 3, 0) == 3 && send(sockets[0], "two", 3, 0) == 3, "send");
    must(recvmmsg(sockets[1], messages, 2, 0, NULL) == 2, "recvmmsg");
    must(close(sockets[0]) == 0 && close(sockets[1]) == 0, "close");
    end_all(&sent);
}

// It isn't changed: one message came, and not to its memory.
void messages_from_what_is_sent(void) {
    struct outstanding sent = send_all();
    int sockets[2];
    char own[8] = {0};
    struct iovec pieces[] = {{own, sizeof own}, {sent.from.memory, 4096}};
    struct mmsghdr messages[] = {{.msg_hdr = {.msg_iov = &pieces[0], .msg_iovlen = 1}},
                                 {.msg_hdr = {.msg_iov = &pieces[1], .msg_iovlen = 1}}};
    must(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, sockets) == 0, "socketpair");
    must(sendmmsg(sockets[0], &messages[1], 1, 0) == 1, "sendmmsg");
    must(recvmmsg(sockets[1], messages, 2, MSG_DONTWAIT, NULL) == 1, "recvmmsg");
    must(close(sockets[0]) == 0 && close(sockets[1]) == 0, "close");
    end_all(&sent);
}

void random_into_what_is_sent(void) {
    struct outstanding sent = send_all();
    must(getrandom(sent.from.memory + 8192, 64, 0) == 64, "getrandom");
    end_all(&sent);
}

void read_in_pieces_into_what_is_sent(void) {
    struct outstanding sent = send_all();
    const struct iovec pieces[] = {{sent.from.memory + 8192, 64}, {sent.from.memory + 16384, 64}};
    const int file = memfd_create("test", MFD_CLOEXEC);
    must(file >= 0 && pwrite(file, "text", 4, 0) == 4, "a file");
    must(preadv(file, pieces, 2, 0) == 4, "preadv");
    must(close(file) == 0, "close");
    end_all(&sent);
}
