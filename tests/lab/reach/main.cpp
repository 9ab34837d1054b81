// SPDX-License-Identifier: BSD-3-Clause
//
// Usage: reach SIDE SIDE CASE...
//
// Two processes, each with an RDMA device, that do everything with each other and check both ends. A
// side is kernel:DEVICE:ADDRESS or uroce:ADDRESS, followed by @NAME if it lives in that network
// namespace. Prints a line for each case, and ends with 0 if all of both sides held.
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <csignal>

#include "cases.hpp"

namespace {

using namespace reach;

struct Case {
    const char* name;
    unsigned (*run)(const Pair& pair);
};
constexpr Case kCases[] = {
    {"rc", run_rc},
    {"atomic_write", run_atomic_write},
    {"ud", run_ud},
    {"receive", run_receive},
    {"errors", run_errors},
    {"mixed", run_mixed},
    {"bad_link", run_mixed_on_bad_link},
    {"speed", run_speed},
};

const Case& find_case(const char* name) {
    for (const Case& known : kCases) {
        if (std::strcmp(known.name, name) == 0) {
            return known;
        }
    }
    die(std::string("there is no case ") + name);
}

void enter(const std::string& name_space) {
    if (name_space.empty()) {
        return;
    }
    const std::string path = "/run/netns/" + name_space;
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    succeed(fd >= 0, "open " + path);
    succeed(setns(fd, CLONE_NEWNET) == 0, "enter " + name_space);
    close(fd);
}

void be(const std::string& text, const Talk& talk, bool first, char** names) {
    place() = {text, "beginning"};
    const Spec spec = Spec::parse(text);
    enter(spec.name_space);
    const Device device(spec);
    talk.meet();
    for (char** name = names; *name != nullptr; ++name) {
        const unsigned count = find_case(*name).run({device, talk, first});
        talk.meet();
        if (first) {
            std::printf("%s: %u\n", *name, count);
            std::fflush(stdout);
        }
    }
    no_error(ibv_close_device(device.context), "close the device");
}

} // namespace

int main(int argc, char** argv) {
    place() = {"reach", "command line"};
    require(argc >= 4, "usage: reach SIDE SIDE CASE...");
    int fds[2];
    succeed(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0, "socketpair");
    const pid_t other = fork();
    succeed(other >= 0, "fork");
    if (other == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(fds[0]);
        be(argv[2], Talk(fds[1]), false, argv + 3);
        return 0;
    }
    close(fds[1]);
    be(argv[1], Talk(fds[0]), true, argv + 3);
    int status = 0;
    succeed(waitpid(other, &status, 0) == other, "wait for the other side");
    return status == 0 ? 0 : 1;
}
