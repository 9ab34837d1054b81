// SPDX-License-Identifier: BSD-3-Clause
//
// A handler for faults that stands in front of the program's, and passes on what isn't its own.
//
//     constinit FaultChain chain(SIGSEGV, on_fault);
//     [[gnu::tls_model("initial-exec")]] constinit thread_local FaultChain::Passing passing = {};
//
//     void on_fault(int, siginfo_t* info, void* context) {
//         if (!is_ours(info)) {
//             chain.pass_on(info, context, passing);
//         }
//     }
//
// To the program's handlers, ours isn't there: they get their faults and the signals that somebody sent, with
// the mask that they asked for, and may leave by siglongjmp(). A handler that the program installs later
// replaces ours until take_front() is called again.
//
// Thread safety: take_front() may be called in any thread, but not in a signal's handler; pass_on() in
// handlers.
#pragma once

#include <csignal>
#include <cstddef>

#include <array>
#include <atomic>

#include "core/result.hpp"
#include "core/sync.hpp"

namespace sluice {

class FaultChain {
  public:
    using Handler = void(int signal, siginfo_t* info, void* context);

    // The call of a program's handler that a thread is in. That handler may pass a signal back to us, since
    // it found our handler when it was installed; then it is the turn of the one before it. One for each
    // thread and chain. A handler reads it, maybe in a thread that has never been here: no memory may be
    // allocated for that, hence the model of thread-local storage above.
    struct Passing {
        const siginfo_t* info;
        const void* frame;
        std::size_t depth;
    };

    constexpr FaultChain(int signal, Handler* ours) noexcept : signal_(signal), ours_(ours) {}

    // Puts our handler in place, in front of the program's. One system call when it is there already. An
    // error where the program has had too many in turn.
    Result<void> take_front();

    // The signal goes on to the handler that was there before ours.
    void pass_on(siginfo_t* info, void* context, Passing& passing) const noexcept;

  private:
    static constexpr std::size_t kMost = 8;

    Result<void> install() const;

    const int signal_;
    Handler* const ours_;
    Mutex mutex_; // of those that install
    // The handlers that ours was put in front of, oldest first.
    std::array<struct sigaction, kMost> replaced_ = {};
    std::atomic<std::size_t> count_ = 0; // released after the entry below it is written
};

} // namespace sluice
