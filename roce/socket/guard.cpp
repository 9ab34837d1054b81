// SPDX-License-Identifier: BSD-3-Clause
#include "roce/socket/guard.hpp"

#include <csetjmp>
#include <csignal>
#include <ucontext.h>

#include <array>

#include "core/fault_chain.hpp"

namespace sluice::roce::socket {
namespace {

// Where a fault of this thread jumps to; null outside of guarded accesses. The handler reads these,
// maybe in a thread that has never been here: no memory may be allocated for that, hence the model.
[[gnu::tls_model("initial-exec")]] constinit thread_local sigjmp_buf* landing = nullptr;
[[gnu::tls_model("initial-exec")]] constinit thread_local FaultChain::Passing passing = {};

void on_fault(int signal, siginfo_t* info, void* context);

constinit std::array<FaultChain, 2> chains = {FaultChain(SIGSEGV, on_fault), FaultChain(SIGBUS, on_fault)};

void on_fault(int signal, siginfo_t* info, void* context) {
    sigjmp_buf* const jump_to = landing;
    if (jump_to != nullptr && info->si_code > 0) { // 0 and below: somebody sent it
        landing = nullptr;
        // A layer between the kernel and us, as a sanitizer's, may have blocked signals for our time.
        (void)pthread_sigmask(SIG_SETMASK, &static_cast<const ucontext_t*>(context)->uc_sigmask, nullptr);
        // NOLINTNEXTLINE(cert-err52-cpp): a fault has no other way out, and no destructor is skipped
        siglongjmp(*jump_to, 1);
    }
    chains[signal == SIGBUS ? 1 : 0].pass_on(info, context, passing);
}

} // namespace

Result<void> prepare_guard() {
    for (FaultChain& chain : chains) {
        Result<void> taken = chain.take_front();
        if (!taken) {
            return Error::format(taken.error().kind(), taken.error().os_errno(),
                                 "%s, or set SLUICE_UROCE_GUARD=syscall", taken.error().text());
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
