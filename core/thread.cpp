// SPDX-License-Identifier: BSD-3-Clause
#include "core/thread.hpp"

#include <semaphore.h>
#include <signal.h>

#include <cerrno>
#include <cstdlib>

#include "core/not_cancelled.hpp"

namespace sluice {
namespace {

struct Start {
    const char* name;
    void* (*body)(void*);
    void* argument;
    sem_t is_ready;
};

// The C library gives a thread memory of its own at its first allocation, and cuts it to size by munmap().
void allocate_first() noexcept {
    void* volatile first = std::malloc(1);
    std::free(first);
}

void* begin(void* start_of_it) {
    auto& start = *static_cast<Start*>(start_of_it);
    const auto body = start.body;
    void* const argument = start.argument;
    allocate_first();
    pthread_setname_np(pthread_self(), start.name);
    sem_post(&start.is_ready); // `start` is gone from here on
    return body(argument);
}

void wait_for(sem_t& event) noexcept {
    const NotCancelled guard;
    while (sem_wait(&event) != 0 && errno == EINTR) {
    }
}

} // namespace

int start_quiet_thread(pthread_t& thread, const char* name, std::size_t stack_bytes, void* (*body)(void*),
                       void* argument) noexcept {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (stack_bytes != 0) {
        pthread_attr_setstacksize(&attributes, stack_bytes);
    }
    sigset_t blocked;
    sigset_t before;
    sigfillset(&blocked);
    sigdelset(&blocked, SIGSEGV);
    sigdelset(&blocked, SIGBUS);
    Start start{.name = name, .body = body, .argument = argument, .is_ready = {}};
    sem_init(&start.is_ready, 0, 0);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    const int error = pthread_create(&thread, &attributes, begin, &start);
    if (error == 0) {
        wait_for(start.is_ready);
    }
    // Not before: a handler that doesn't come back would take START away.
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&attributes);
    sem_destroy(&start.is_ready);
    return error;
}

} // namespace sluice
