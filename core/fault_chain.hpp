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
#include <cstdint>

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

    // Which of the known handlers are in which order, in one word, so that a handler of signals always sees
    // all of it: their number, then one place of four bits for each, oldest first.
    class Order {
      public:
        constexpr explicit Order(std::uint64_t word) noexcept : word_(word) {}

        std::uint64_t word() const noexcept { return word_; }
        std::size_t count() const noexcept { return word_ & kMask; }
        std::size_t at(std::size_t place) const noexcept { return word_ >> (kBits * (place + 1)) & kMask; }
        // Without it, and with it as the last one.
        Order with_last(std::size_t known) const noexcept;

      private:
        static constexpr unsigned kBits = 4;
        static constexpr std::uint64_t kMask = 15;

        std::uint64_t word_;
    };

    Result<void> install() const;
    std::size_t index_of(const struct sigaction& action) const noexcept;

    const int signal_;
    Handler* const ours_;
    Mutex mutex_; // of those that install
    // The handlers that ours was put in front of, each once. Two libraries that both put theirs in front, and
    // a program that comes and goes with its own, find each other's again and again.
    std::array<struct sigaction, kMost> known_ = {};
    std::size_t known_count_ = 0;          // of those that install
    std::atomic<std::uint64_t> order_ = 0; // released after an entry is written
};

} // namespace sluice
