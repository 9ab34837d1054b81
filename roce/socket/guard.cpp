// SPDX-License-Identifier: BSD-3-Clause
#include "roce/socket/guard.hpp"

#include <csetjmp>
#include <csignal>
#include <dlfcn.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>

#include "core/fault_chain.hpp"

namespace sluice::roce::socket {
namespace {

// Where a fault of this thread jumps to; null outside of guarded accesses. The handler reads these,
// maybe in a thread that has never been here: no memory may be allocated for that, hence the model.
[[gnu::tls_model("initial-exec")]] constinit thread_local sigjmp_buf* landing = nullptr;
[[gnu::tls_model("initial-exec")]] constinit thread_local FaultChain::Passing passing = {};

// The checker's. Null: there is none.
using OpenPage = bool(void* address);
constinit std::atomic<OpenPage*> open_page = nullptr;
using Copy = std::size_t(void* to, const void* from, std::size_t bytes);
constinit std::atomic<Copy*> checkers_store = nullptr;
constinit std::atomic<Copy*> checkers_load = nullptr;

bool is_accessing() {
    return landing != nullptr;
}

bool open_by_checker(void* address) noexcept {
    OpenPage* const open = open_page.load(std::memory_order_relaxed); // code, which is there before us
    return open != nullptr && open(address);
}

void on_fault(int signal, siginfo_t* info, void* context);

constinit std::array<FaultChain, 2> chains = {FaultChain(SIGSEGV, on_fault), FaultChain(SIGBUS, on_fault)};

void on_fault(int signal, siginfo_t* info, void* context) {
    sigjmp_buf* const jump_to = landing;
    if (jump_to != nullptr && info->si_code > 0) { // 0 and below: somebody sent it
        if (signal == SIGSEGV && open_by_checker(info->si_addr)) {
            return;
        }
        landing = nullptr;
        // A layer between the kernel and us, as a sanitizer's, may have blocked signals for our time.
        (void)pthread_sigmask(SIG_SETMASK, &static_cast<const ucontext_t*>(context)->uc_sigmask, nullptr);
        // NOLINTNEXTLINE(cert-err52-cpp): a fault has no other way out, and no destructor is skipped
        siglongjmp(*jump_to, 1);
    }
    chains[signal == SIGBUS ? 1 : 0].pass_on(info, context, passing);
}

} // namespace

// It is preloaded, and so there from the beginning. Its own handler may be in front of ours: it asks us
// whether an access is the device's.
void look_for_checker() noexcept {
    [[maybe_unused]] static const bool has_looked = [] {
        auto* const open = reinterpret_cast<OpenPage*>(dlsym(RTLD_DEFAULT, "sluice_check_lift_page"));
        auto* const know =
            reinterpret_cast<void (*)(bool (*)())>(dlsym(RTLD_DEFAULT, "sluice_check_know_device"));
        if (open != nullptr && know != nullptr) {
            know(is_accessing);
            open_page.store(open, std::memory_order_relaxed);
            checkers_store.store(reinterpret_cast<Copy*>(dlsym(RTLD_DEFAULT, "sluice_check_store")),
                                 std::memory_order_relaxed);
            checkers_load.store(reinterpret_cast<Copy*>(dlsym(RTLD_DEFAULT, "sluice_check_load")),
                                std::memory_order_relaxed);
        }
        return true;
    }();
}

bool opened_by_checker(const void* memory, std::size_t bytes) noexcept {
    if (open_page.load(std::memory_order_relaxed) == nullptr || bytes == 0) {
        return false;
    }
    static const auto page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto first = reinterpret_cast<std::uintptr_t>(memory);
    bool is_opened = false;
    for (std::uintptr_t page = first / page_bytes; page <= (first + bytes - 1) / page_bytes; ++page) {
        // NOLINTNEXTLINE(performance-no-int-to-ptr)
        is_opened = open_by_checker(reinterpret_cast<void*>(page * page_bytes)) || is_opened;
    }
    return is_opened;
}

bool has_checker() noexcept {
    return open_page.load(std::memory_order_relaxed) != nullptr;
}

std::size_t stored_by_checker(void* to, const void* from, std::size_t bytes) noexcept {
    Copy* const copy = checkers_store.load(std::memory_order_relaxed); // code, as above
    return copy != nullptr ? copy(to, from, bytes) : 0;
}

std::size_t loaded_by_checker(void* to, const void* from, std::size_t bytes) noexcept {
    Copy* const copy = checkers_load.load(std::memory_order_relaxed);
    return copy != nullptr ? copy(to, from, bytes) : 0;
}

Result<void> prepare_guard() {
    look_for_checker();
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
