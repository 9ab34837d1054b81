// SPDX-License-Identifier: BSD-3-Clause
//
// While one lives, no signal's handler runs in its thread, and nothing cancels that: a handler may call
// fsync(), which would wait for the lock that its own thread has, and a cancelled thread would leave a step
// half done. What that thread calls of libc are calls of our own, though ours stand before them.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace sluice::layers::power {

class Undisturbed {
  public:
    Undisturbed() noexcept {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &former_signals_);
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &former_state_);
        ++depth; // no handler can run now: its calls are the program's
    }
    ~Undisturbed() {
        --depth;
        pthread_setcancelstate(former_state_, nullptr);
        pthread_sigmask(SIG_SETMASK, &former_signals_, nullptr);
    }
    // Whether one lives in this thread.
    static bool is_alive() noexcept { return depth != 0; }
    Undisturbed(const Undisturbed&) = delete;
    Undisturbed& operator=(const Undisturbed&) = delete;

  private:
    [[gnu::tls_model("initial-exec")]] static inline constinit thread_local unsigned depth = 0;

    int former_state_ = 0;
    sigset_t former_signals_{};
};

} // namespace sluice::layers::power
