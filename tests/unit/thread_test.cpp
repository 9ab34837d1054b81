// SPDX-License-Identifier: BSD-3-Clause
//
// Threads of a library in somebody else's program.
#include "core/thread.hpp"

#include <semaphore.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <iterator>

#include "tests/cmocka.hpp"

using namespace sluice;

namespace {

#ifndef SLUICE_UNDER_SANITIZER // a sanitizer's allocator maps as it likes
// The C library keeps the mapping of a small one behind the thread's end.
constexpr std::size_t kSmallStack = std::size_t{256} * 1024;

auto count_mappings() {
    std::ifstream file("/proc/self/maps");
    return std::count(std::istreambuf_iterator<char>(file), {}, '\n');
}

// Where this thread's memory is.
void* allocate(void* argument) {
    sem_wait(static_cast<sem_t*>(argument));
    // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the test frees it
    return std::malloc(1);
}

// The first one of all: a thread that ends leaves its memory to the next.
TEST(quiet_thread__started__its_first_allocation_is_behind_it) {
    pthread_t thread{};
    sem_t may_allocate;
    void* memory = nullptr;
    sem_init(&may_allocate, 0, 0);
    assert_int_equal(start_quiet_thread(thread, "sluice-test", kSmallStack, allocate, &may_allocate), 0);
    const auto before = count_mappings();
    sem_post(&may_allocate);
    pthread_join(thread, &memory);
    assert_int_equal(count_mappings(), before);
    std::free(memory);
}
#endif

// What such a thread finds about itself.
struct Found {
    sigset_t blocked;
    std::size_t stack_bytes;
};

void* look(void* argument) {
    auto& found = *static_cast<Found*>(argument);
    pthread_sigmask(SIG_SETMASK, nullptr, &found.blocked);
    pthread_attr_t attributes;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstacksize(&attributes, &found.stack_bytes);
    pthread_attr_destroy(&attributes);
    return nullptr;
}

Found start_and_look(std::size_t stack_bytes) {
    Found found{};
    pthread_t thread{};
    assert_int_equal(start_quiet_thread(thread, "sluice-test", stack_bytes, look, &found), 0);
    pthread_join(thread, nullptr);
    return found;
}

TEST(quiet_thread__signals__all_blocked_but_those_of_vanished_pages) {
    const Found found = start_and_look(0);
    for (const int signal : {SIGSEGV, SIGBUS}) {
        assert_int_equal(sigismember(&found.blocked, signal), 0);
    }
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGALRM, SIGUSR1, SIGIO, SIGRTMIN}) {
        assert_int_equal(sigismember(&found.blocked, signal), 1);
    }
}

TEST(quiet_thread__started__the_caller_has_its_signals_as_before) {
    sigset_t wanted;
    sigset_t after;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGUSR2);
    pthread_sigmask(SIG_SETMASK, &wanted, nullptr);
    (void)start_and_look(0);
    pthread_sigmask(SIG_SETMASK, nullptr, &after);
    assert_int_equal(sigismember(&after, SIGUSR2), 1);
    assert_int_equal(sigismember(&after, SIGUSR1), 0);
}

TEST(quiet_thread__stack__as_large_as_asked_for) {
    constexpr std::size_t kSmall = std::size_t{512} * 1024;
    const std::size_t small = start_and_look(kSmall).stack_bytes;
    assert_true(small >= kSmall); // a sanitizer adds what it needs itself
    assert_true(start_and_look(0).stack_bytes > small);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
