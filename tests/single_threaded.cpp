// SPDX-License-Identifier: BSD-3-Clause
//
// Linked into the tests that CMake calls SINGLE_THREADED. The dynamic linker finds this function before the C
// library's, for the program and for every library in it.

#include <pthread.h>

#include <cstdio>
#include <cstdlib>

extern "C" [[gnu::visibility("default")]] int pthread_create(pthread_t*, const pthread_attr_t*,
                                                             void* (*)(void*), void*) noexcept {
    std::fputs(
        "this test starts a thread, so the thread sanitizer has to look at it: take SINGLE_THREADED from its "
        "sluice_test()\n",
        stderr);
    std::abort();
}
