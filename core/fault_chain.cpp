// SPDX-License-Identifier: BSD-3-Clause
#include "core/fault_chain.hpp"

#include <cerrno>

namespace sluice {

namespace {

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

bool is_same(const struct sigaction& a, const struct sigaction& b) noexcept {
    // One member of a union; the other is at the same place.
    return a.sa_handler == b.sa_handler && a.sa_flags == b.sa_flags;
}

} // namespace

FaultChain::Order FaultChain::Order::with_last(std::size_t known) const noexcept {
    std::uint64_t word = 0;
    std::size_t places = 0;
    for (std::size_t place = 0; place < count(); ++place) {
        if (at(place) != known) {
            word |= std::uint64_t{at(place)} << (kBits * ++places);
        }
    }
    word |= std::uint64_t{known} << (kBits * ++places);
    return Order(word | places);
}

void FaultChain::pass_on(siginfo_t* info, void* context, Passing& passing) const noexcept {
    const int saved_errno = errno;
    const void* frame = __builtin_frame_address(0);
    // Passed back to us it is the same signal, further down the stack. A handler may also have left
    // by longjmp(): then the next signal comes at the same place or another, never below.
    const bool again = passing.info == info && frame < passing.frame;
    const std::size_t depth = again ? passing.depth + 1 : 0;
    // Partner: the release in take_front().
    const Order order(order_.load(std::memory_order_acquire));
    const bool is_fault = info->si_code > 0;
    const struct sigaction* const next =
        depth < order.count() ? &known_[order.at(order.count() - 1 - depth)] : nullptr;
    if (next == nullptr || next->sa_handler == SIG_DFL || (is_fault && next->sa_handler == SIG_IGN)) {
        default_action(signal_, is_fault);
    } else if (next->sa_handler != SIG_IGN) {
        const Passing outer = passing;
        passing = {.info = info, .frame = frame, .depth = depth};
        call(*next, signal_, info, context);
        passing = outer;
    }
    errno = saved_errno;
}

Result<void> FaultChain::install() const {
    struct sigaction ours = {};
    ours.sa_sigaction = ours_;
    // On the program's alternate stack if it has one; never blocked, since a handler may not return.
    ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    (void)sigemptyset(&ours.sa_mask);
    if (sigaction(signal_, &ours, nullptr) != 0) {
        return Error::from_errno(errno, "installing a signal's handler");
    }
    return {};
}

// Where it is, or will be.
std::size_t FaultChain::index_of(const struct sigaction& action) const noexcept {
    std::size_t index = 0;
    while (index < known_count_ && !is_same(known_[index], action)) {
        ++index;
    }
    return index;
}

Result<void> FaultChain::take_front() {
    const LockGuard lock(mutex_);
    struct sigaction now = {};
    if (sigaction(signal_, nullptr, &now) != 0) {
        return Error::from_errno(errno, "asking for a signal's handler");
    }
    if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == ours_) {
        return {};
    }
    const std::size_t found = index_of(now);
    if (found == kMost) {
        return Error::format(ErrorKind::kInsufficientResources, 0,
                             "the program has had %zu handlers of signal %d in turn, and more aren't kept; "
                             "let it keep one",
                             found, signal_);
    }
    if (found == known_count_) {
        known_[known_count_++] = now;
    }
    const Order order(order_.load(std::memory_order_relaxed));
    order_.store(order.with_last(found).word(), std::memory_order_release); // partner: pass_on()
    return install();
}

} // namespace sluice
