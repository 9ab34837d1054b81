// SPDX-License-Identifier: BSD-3-Clause
//
// Threads that are cancelled (pthread_cancel) before they call something of ours.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#define SLUICE_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SLUICE_ADDRESS_SANITIZER 1
#endif
#endif
#ifdef SLUICE_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace sluice::test {

// The address sanitizer doesn't know that the frames of a thread that is cancelled are gone.
struct ForgottenFrames {
    ~ForgottenFrames() {
#ifdef SLUICE_ADDRESS_SANITIZER
        __asan_handle_no_return();
#endif
    }
};

struct CancelledThread {
    std::function<void()> body;
    bool is_cancelled_first;
    std::atomic<pid_t> id{0};

    static void* run(void* argument) {
        auto& self = *static_cast<CancelledThread*>(argument);
        (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
        if (self.is_cancelled_first) {
            (void)pthread_cancel(pthread_self());
        }
        self.id = gettid();
        (void)pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, nullptr);
        {
            const ForgottenFrames frames;
            self.body();
        }
        (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
        return nullptr;
    }
};

inline bool is_asleep(pid_t thread) {
    std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string number;
    std::string name;
    std::string state;
    status >> number >> name >> state;
    return state == "S";
}

inline bool ends_cancelled(CancelledThread& cancelled) {
    pthread_t thread{};
    void* ended = nullptr;
    if (pthread_create(&thread, nullptr, CancelledThread::run, &cancelled) != 0) {
        abort();
    }
    if (!cancelled.is_cancelled_first) {
        while (cancelled.id == 0 || !is_asleep(cancelled.id)) {
            sched_yield();
        }
        (void)pthread_cancel(thread);
    }
    if (pthread_join(thread, &ended) != 0) {
        abort();
    }
    return ended == PTHREAD_CANCELED;
}

// Runs BODY in a thread that is cancelled from the beginning, at the first place where that can be. True:
// there was one; otherwise BODY has come to its end.
inline bool is_cancelled_in(std::function<void()> body) {
    CancelledThread cancelled{.body = std::move(body), .is_cancelled_first = true};
    return ends_cancelled(cancelled);
}

// The same in a thread that is cancelled when it sleeps in BODY.
inline bool is_cancelled_asleep_in(std::function<void()> body) {
    CancelledThread cancelled{.body = std::move(body), .is_cancelled_first = false};
    return ends_cancelled(cancelled);
}

} // namespace sluice::test
