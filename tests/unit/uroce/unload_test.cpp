// SPDX-License-Identifier: BSD-3-Clause
//
// A program that loads the library by dlopen() and lets go of it: what the library has installed in the
// process, its handlers of signals and its thread, still finds its code.
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "sluice/sluice.h"
#include "tests/loopback.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

namespace {

constexpr int kSeen = 7; // what the program's own handler ends with

void on_fault(int) {
    _exit(kSeen);
}

[[noreturn]] void stop(const char* what) {
    dprintf(STDERR_FILENO, "%s: %s\n", what, dlerror());
    _exit(1);
}

// As the program would: its handler, the library, a device with memory, and the end of both or of the library
// alone.
[[noreturn]] void load_use_unload_and_fault(bool closes_device) {
    struct sigaction own = {};
    own.sa_handler = on_fault;
    (void)sigaction(SIGSEGV, &own, nullptr);
    void* const library = dlopen(TEST_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        stop("dlopen");
    }
    const auto open_uroce =
        reinterpret_cast<decltype(&sluice_open_uroce)>(dlsym(library, "sluice_open_uroce"));
    if (open_uroce == nullptr) {
        stop("dlsym");
    }
    ibv_context* const context = open_uroce(sluice::test::own_address().c_str());
    if (context == nullptr) {
        stop("sluice_open_uroce");
    }
    ibv_pd* const pd = ibv_alloc_pd(context);
    static char memory[4096];
    ibv_mr* const mr = ibv_reg_mr(pd, memory, sizeof memory, int{IBV_ACCESS_LOCAL_WRITE});
    if (mr == nullptr) {
        stop("ibv_reg_mr");
    }
    if (closes_device &&
        (ibv_dereg_mr(mr) != 0 || ibv_dealloc_pd(pd) != 0 || ibv_close_device(context) != 0)) {
        stop("closing");
    }
    if (dlclose(library) != 0) {
        stop("dlclose");
    }
    (void)raise(SIGSEGV);
    _exit(2); // nobody has taken it
}

int end_of(bool closes_device) {
    const pid_t child = fork();
    if (child == 0) {
        load_use_unload_and_fault(closes_device);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST(unload__after_the_device__programs_handler_still_gets_its_signal) {
    assert_int_equal(end_of(true), kSeen);
}

TEST(unload__before_the_device__programs_handler_still_gets_its_signal) {
    assert_int_equal(end_of(false), kSeen);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("uroce.unload");
}
