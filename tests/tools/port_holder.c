/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port_holder ADDRESS: takes RoCEv2's UDP port at ADDRESS, prints a line, and keeps it until a signal ends
 * it.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char** argv) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(4791)};
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);

    if (argc != 2 || inet_pton(AF_INET, argv[1], &address.sin_addr) != 1 ||
        bind(fd, (const struct sockaddr*)&address, sizeof address) != 0) {
        perror("port_holder");
        return 1;
    }
    puts("ready");
    (void)fflush(stdout);
    for (;;) {
        (void)pause();
    }
}
