// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/pages/fault.hpp"

#include <csignal>
#include <sys/types.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>

#include "core/fault_access.hpp"
#include "core/fault_chain.hpp"
#include "layers/check/pages/protection.hpp"

namespace sluice::layers::check::pages {

namespace {

void on_protected_page(int signal, siginfo_t* info, void* context);

constinit FaultChain protection_chain(SIGSEGV, on_protected_page);
[[gnu::tls_model("initial-exec")]] constinit thread_local FaultChain::Passing passing_protection = {};

constinit std::array<std::atomic<bool (*)()>, 8> devices = {};

// In a child that has our handler and the parent's pages, as one of vfork() is, nothing is told.
constinit std::atomic<pid_t> process = 0;

std::uint64_t number_of(const void* address) noexcept {
    return reinterpret_cast<std::uintptr_t>(address) / page_bytes();
}

bool answer(const void* address, const ucontext_t& context) noexcept {
    const std::uint64_t number = number_of(address);
    const Access access = access_of_fault(context);
    Protection& protection = Protection::instance();
    if (is_device()) {
        return protection.open_for_device(number, access);
    }
    if (getpid() != process.load(std::memory_order_relaxed) || !protection.forbids(number, access)) {
        return protection.open(number, access, nullptr);
    }
    // Not under the lock. If another thread opens the page meanwhile, the touch is the other's.
    Touch touch{.address = address, .stack = report::capture_fault()};
    return protection.open(number, access, &touch);
}

void on_protected_page(int /*signal*/, siginfo_t* info, void* context) {
    const int saved_errno = errno;
    const bool is_ours =
        info->si_code == SEGV_ACCERR && answer(info->si_addr, *static_cast<const ucontext_t*>(context));
    errno = saved_errno;
    if (!is_ours) {
        protection_chain.pass_on(info, context, passing_protection);
    }
}

} // namespace

bool is_device() noexcept {
    for (const std::atomic<bool (*)()>& device : devices) {
        bool (*const is_inside)() = device.load(std::memory_order_relaxed); // code, which is there before us
        if (is_inside != nullptr && is_inside()) {
            return true;
        }
    }
    return false;
}

Result<void> catch_faults() {
    process.store(getpid(), std::memory_order_relaxed);
    return protection_chain.take_front();
}

bool open_for_device(const void* address) noexcept {
    return Protection::instance().open_for_device(number_of(address), Access::kUnknown);
}

void add_device(bool (*is_inside)()) noexcept {
    for (std::atomic<bool (*)()>& device : devices) {
        bool (*free)() = nullptr;
        if (device.compare_exchange_strong(free, is_inside) || free == is_inside) {
            return;
        }
    }
}

} // namespace sluice::layers::check::pages
