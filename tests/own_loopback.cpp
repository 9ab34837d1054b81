// SPDX-License-Identifier: BSD-3-Clause
//
// own_loopback COMMAND [ARGUMENT]...: for tests in shell.
//
// Runs COMMAND with two addresses of the loopback network in TEST_ADDRESS and TEST_PEER_ADDRESS and a TCP
// port in TEST_TCP_PORT, which no other test has before COMMAND and all that it started have ended.
#include <fcntl.h>

#include "tests/loopback.hpp"

namespace {

// Above the descriptors of one digit, which shells give meanings to.
bool keep_across_exec(int fd) {
    constexpr int kAboveShells = 64;
    return fcntl(fd, F_DUPFD, kAboveShells) >= 0;
}

} // namespace

int main(int argc, char** argv) {
    if (argc < 2) {
        std::fprintf(stderr, "usage: %s COMMAND [ARGUMENT]...\n", argv[0]);
        return 2;
    }
    auto& loopback = sluice::test::Loopback::instance();
    setenv("TEST_ADDRESS", loopback.next_address().c_str(), 1);
    setenv("TEST_PEER_ADDRESS", loopback.next_address().c_str(), 1);
    setenv("TEST_TCP_PORT", loopback.next_tcp_port().c_str(), 1);
    for (const int fd : loopback.descriptors()) {
        if (!keep_across_exec(fd)) {
            std::perror("own_loopback: keeping a reservation");
            return 1;
        }
    }
    execvp(argv[1], argv + 1);
    std::perror(argv[1]);
    return 127;
}
