// SPDX-License-Identifier: BSD-3-Clause
#include "roce/socket/guard.hpp"

#include <csetjmp>
#include <csignal>
#include <ucontext.h>

#include <array>
#include <atomic>
#include <cerrno>

#include "core/sync.hpp"

namespace sluice::roce::socket {
namespace {

// Where a fault of this thread jumps to; null outside of guarded accesses. The handler reads these,
// maybe in a thread that has never been here: no memory may be allocated for that, hence the model.
[[gnu::tls_model("initial-exec")]] constinit thread_local sigjmp_buf* landing = nullptr;

// The call of a program's handler that this thread is in. That handler may pass a signal back to us,
// whom it had found when it was installed; then it is the turn of the one before it.
struct Passing {
    const siginfo_t* info;
    const void* frame;
    std::size_t depth;
};
[[gnu::tls_model("initial-exec")]] constinit thread_local Passing passing = {};

// The handlers that ours was put in front of, oldest first.
struct Replaced {
    static constexpr std::size_t kMost = 8;
    std::array<struct sigaction, kMost> actions;
    std::atomic<std::size_t> count; // released after the entry below it is written
};
constinit std::array<Replaced, 2> replaced = {};
constexpr std::array kSignals = {SIGSEGV, SIGBUS};

// What the kernel would have done if ours weren't there. A fault repeats itself when we return, and
// then the default action is taken; a signal that somebody sent is sent again.
void default_action(int signal, bool is_fault) noexcept {
    struct sigaction action = {};
    action.sa_handler = SIG_DFL;
    (void)sigaction(signal, &action, nullptr);
    if (!is_fault) {
        (void)raise(signal);
    }
}

void call(const struct sigaction& action, int signal, siginfo_t* info, void* context) noexcept {
    sigset_t mask = action.sa_mask;
    if ((action.sa_flags & SA_NODEFER) == 0) {
        (void)sigaddset(&mask, signal);
    }
    sigset_t before;
    (void)pthread_sigmask(SIG_BLOCK, &mask, &before);
    if ((action.sa_flags & SA_SIGINFO) != 0) {
        action.sa_sigaction(signal, info, context);
    } else {
        action.sa_handler(signal);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void pass_on(int signal, siginfo_t* info, void* context) noexcept {
    const void* frame = __builtin_frame_address(0);
    // Passed back to us it is the same signal, further down the stack. A handler may also have left
    // by longjmp(): then the next signal comes at the same place or another, never below.
    const bool again = passing.info == info && frame < passing.frame;
    const std::size_t depth = again ? passing.depth + 1 : 0;
    const Replaced& before = replaced[signal == SIGBUS ? 1 : 0];
    // Partner: the release in take_over().
    const std::size_t count = before.count.load(std::memory_order_acquire);
    const bool is_fault = info->si_code > 0;
    const struct sigaction* const next = depth < count ? &before.actions[count - 1 - depth] : nullptr;
    if (next == nullptr || next->sa_handler == SIG_DFL || (is_fault && next->sa_handler == SIG_IGN)) {
        default_action(signal, is_fault);
    } else if (next->sa_handler != SIG_IGN) {
        const Passing outer = passing;
        passing = {.info = info, .frame = frame, .depth = depth};
        call(*next, signal, info, context);
        passing = outer;
    }
}

void on_fault(int signal, siginfo_t* info, void* context) {
    sigjmp_buf* const jump_to = landing;
    if (jump_to != nullptr && info->si_code > 0) { // 0 and below: somebody sent it
        landing = nullptr;
        // A layer between the kernel and us, as a sanitizer's, may have blocked signals for our time.
        (void)pthread_sigmask(SIG_SETMASK, &static_cast<const ucontext_t*>(context)->uc_sigmask, nullptr);
        // NOLINTNEXTLINE(cert-err52-cpp): a fault has no other way out, and no destructor is skipped
        siglongjmp(*jump_to, 1);
    }
    const int saved_errno = errno;
    pass_on(signal, info, context);
    errno = saved_errno;
}

bool is_same(const struct sigaction& a, const struct sigaction& b) noexcept {
    // One member of a union; the other is at the same place.
    return a.sa_handler == b.sa_handler && a.sa_flags == b.sa_flags;
}

Result<void> install(int signal) {
    struct sigaction ours = {};
    ours.sa_sigaction = on_fault;
    // On the program's alternate stack if it has one; never blocked, since we don't return.
    ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    (void)sigemptyset(&ours.sa_mask);
    if (sigaction(signal, &ours, nullptr) != 0) {
        return Error::from_errno(errno, "installing a signal's handler");
    }
    return {};
}

Result<void> take_over(int signal, Replaced& before) {
    struct sigaction now = {};
    if (sigaction(signal, nullptr, &now) != 0) {
        return Error::from_errno(errno, "asking for a signal's handler");
    }
    if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_fault) {
        return {};
    }
    const std::size_t count = before.count.load(std::memory_order_relaxed);
    // A program that comes and goes with the same handler replaces ours each time.
    if (count != 0 && is_same(before.actions[count - 1], now)) {
        return install(signal);
    }
    if (count == Replaced::kMost) {
        return Error::format(ErrorKind::kInsufficientResources, 0,
                             "the program has had %zu handlers of signal %d in turn, and more aren't kept; "
                             "let it keep one, or set SLUICE_UROCE_GUARD=syscall",
                             count, signal);
    }
    before.actions[count] = now;
    before.count.store(count + 1, std::memory_order_release); // partner: pass_on()
    return install(signal);
}

constinit Mutex install_mutex;

} // namespace

Result<void> prepare_guard() {
    const LockGuard lock(install_mutex);
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
        Result<void> taken = take_over(kSignals[i], replaced[i]);
        if (!taken) {
            return taken;
        }
    }
    return {};
}

// Not inlined: a caller's variables in registers would be lost by the jump.
[[gnu::noinline]] bool run_guarded(void (*access)(void* context), void* context) noexcept {
    sigjmp_buf here;
    // NOLINTNEXTLINE(cert-err52-cpp): see on_fault()
    if (sigsetjmp(here, 0) != 0) {
        return false;
    }
    landing = &here;
    access(context);
    landing = nullptr;
    return true;
}

} // namespace sluice::roce::socket
