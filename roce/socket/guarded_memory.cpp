// SPDX-License-Identifier: BSD-3-Clause
#include "roce/socket/guarded_memory.hpp"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "core/coherence/cacheflush.hpp"
#include "core/coherence/power.hpp"
#include "core/memory_calls.hpp"
#include "core/settings.hpp"
#include "roce/socket/guard.hpp"
#include "roce/wire/headers.hpp"

namespace sluice::roce::socket {
namespace {

#if defined(__SANITIZE_THREAD__)
// It holds a lock of its own during an atomic access, which a jump out of it would leave locked.
constexpr bool kAskBeforeAccess = true;
#else
constexpr bool kAskBeforeAccess = false;
#endif

template<typename T>
T* at(std::uint64_t addr) noexcept {
    return reinterpret_cast<T*>(static_cast<std::uintptr_t>(addr));
}

std::uintptr_t page_bytes() noexcept {
    static const auto bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    return bytes;
}

// One byte of each page that the range touches.
void read_pages(std::uintptr_t addr, std::size_t len_bytes) noexcept {
    for (std::uintptr_t left = len_bytes; left != 0;) {
        (void)*reinterpret_cast<const volatile std::uint8_t*>(addr);
        const std::uintptr_t step = page_bytes() - addr % page_bytes();
        addr += step;
        left -= step < left ? step : left;
    }
}

bool copy_at_once(bool write, void* local, void* remote, std::size_t len_bytes) noexcept {
    const iovec ours = {local, len_bytes};
    const iovec theirs = {remote, len_bytes};
    const ssize_t copied = write ? process_vm_writev(getpid(), &ours, 1, &theirs, 1, 0)
                                 : process_vm_readv(getpid(), &ours, 1, &theirs, 1, 0);
    return copied >= 0 && static_cast<std::size_t>(copied) == len_bytes;
}

// The kernel's copy, which fails where a page isn't there. LOCAL may be a neighbour's memory, too.
bool copy_by_kernel(bool write, void* local, void* remote, std::size_t len_bytes) noexcept {
    if (copy_at_once(write, local, remote, len_bytes)) {
        return true;
    }
    const bool is_remote_open = opened_by_checker(remote, len_bytes);
    return (opened_by_checker(local, len_bytes) || is_remote_open) &&
           copy_at_once(write, local, remote, len_bytes);
}

// Makes the pages present; fails where they can't be, or not for this kind of access.
bool populate(std::uintptr_t first, std::size_t len_bytes, bool for_writing) noexcept {
    constexpr int kPopulateRead = 22; // MADV_POPULATE_READ, MADV_POPULATE_WRITE
    constexpr int kPopulateWrite = 23;
    return advise_memory(at<void>(first), len_bytes, for_writing ? kPopulateWrite : kPopulateRead) == 0;
}

std::uintptr_t page_of(std::uintptr_t addr) noexcept {
    return addr & ~(page_bytes() - 1);
}

// The kernel before 5.14 can't be asked like that, and gives the same answer as for a page that
// doesn't allow it: it is asked once about a page that does.
bool kernel_populates() noexcept {
    static std::uint8_t writable = 0;
    static const bool does = populate(page_of(reinterpret_cast<std::uintptr_t>(&writable)), 1, true);
    return does;
}

// Without a touch of ours. Where the kernel can't tell what may be written, it tells what may be read.
bool pages_are_there(std::uint64_t addr, std::size_t len_bytes, bool for_writing) noexcept {
    const std::uintptr_t first = page_of(static_cast<std::uintptr_t>(addr));
    const std::size_t whole = static_cast<std::uintptr_t>(addr) - first + len_bytes;
    if (kernel_populates()) {
        return populate(first, whole, for_writing) ||
               (opened_by_checker(at<void>(addr), len_bytes) && populate(first, whole, for_writing));
    }
    std::uint8_t byte = 0;
    for (std::uintptr_t offset = 0; offset < whole; offset += page_bytes()) {
        if (!copy_by_kernel(false, &byte, at<void>(first + offset), 1)) {
            return false;
        }
    }
    return true;
}

// Page by page of WATCHED, which is TO or FROM: by the checker where it protects them, and otherwise by COPY.
template<typename ByChecker, typename Copy>
bool copy_in_parts(void* to, const void* from, std::size_t len_bytes, const void* watched,
                   ByChecker&& by_checker, Copy&& copy) noexcept {
    auto* into = static_cast<std::uint8_t*>(to);
    const auto* bytes = static_cast<const std::uint8_t*>(from);
    auto place = reinterpret_cast<std::uintptr_t>(watched);
    while (len_bytes != 0) {
        std::size_t done = by_checker(into, bytes, len_bytes);
        if (done == 0) {
            done = std::min<std::size_t>(len_bytes, page_bytes() - place % page_bytes());
            if (!copy(into, bytes, done)) {
                return false;
            }
        }
        into += done;
        bytes += done;
        place += done;
        len_bytes -= done;
    }
    return true;
}

} // namespace

Result<GuardMethod> parse_guard_method(const char* text) {
    const std::string_view method = text == nullptr ? "" : text;
    if (method.empty()) {
        return GuardMethod::kSignal;
    }
    const Result<Choice> choice = parse_choice(Setting::kUroceGuard, method);
    if (!choice) {
        return choice.error().clone();
    }
    return choice->index == 0 ? GuardMethod::kSignal : GuardMethod::kSystemCall;
}

Result<std::unique_ptr<GuardedMemory>> GuardedMemory::create(GuardMethod method) {
    const auto ops = coherence::native_ops();
    const auto simulated = coherence::is_power_simulated();
    std::unique_ptr<GuardedMemory> memory(
        new GuardedMemory(method, ops ? *ops : nullptr, simulated && *simulated));
    Result<void> prepared = memory->prepare();
    if (!prepared) {
        return std::move(prepared).error();
    }
    return memory;
}

Result<void> GuardedMemory::prepare() const {
    if (method_ == GuardMethod::kSignal) {
        return prepare_guard();
    }
    look_for_checker();
    std::uint64_t from = 1;
    std::uint64_t to = 0;
    if (!copy_by_kernel(true, &from, &to, sizeof from) || to != from) {
        return Error::format(ErrorKind::kNotSupported, errno,
                             "SLUICE_UROCE_GUARD=syscall needs process_vm_writev() on this process itself, "
                             "which is refused here; allow it in the seccomp profile or use signal");
    }
    return {};
}

template<typename Access>
bool GuardedMemory::touch(std::uint64_t addr, std::size_t len_bytes, bool writes,
                          Access&& access) const noexcept {
    const bool by_signal = method_ == GuardMethod::kSignal;
    if ((!by_signal || kAskBeforeAccess) && !pages_are_there(addr, len_bytes, writes)) {
        return false;
    }
    if (by_signal) {
        return guarded(access);
    }
    access();
    return true;
}

bool GuardedMemory::copy_in(std::uint64_t to, const void* from, std::size_t len_bytes) noexcept {
    if (len_bytes == 0) {
        return true;
    }
    const auto store = [this](void* into, const void* bytes, std::size_t count) {
        if (method_ == GuardMethod::kSystemCall) {
            return copy_by_kernel(true, const_cast<void*>(bytes), into, count);
        }
        // What comes from this process may overlap with where it goes.
        return guarded([=] { std::memmove(into, bytes, count); });
    };
    return has_checker()
               ? copy_in_parts(at<void>(to), from, len_bytes, at<void>(to), stored_by_checker, store)
               : store(at<void>(to), from, len_bytes);
}

bool GuardedMemory::copy_out(void* to, std::uint64_t from, std::size_t len_bytes) noexcept {
    if (len_bytes == 0) {
        return true;
    }
    if (from == 0) { // which memcpy() mustn't be given
        return false;
    }
    const auto load = [this](void* into, const void* bytes, std::size_t count) {
        if (method_ == GuardMethod::kSystemCall) {
            return copy_by_kernel(false, into, const_cast<void*>(bytes), count);
        }
        return guarded([=] { std::memcpy(into, bytes, count); });
    };
    return has_checker()
               ? copy_in_parts(to, at<void>(from), len_bytes, at<void>(from), loaded_by_checker, load)
               : load(to, at<void>(from), len_bytes);
}

bool GuardedMemory::readable(std::uint64_t addr, std::size_t len_bytes) noexcept {
    return len_bytes == 0 ||
           touch(addr, len_bytes, false, [=] { read_pages(static_cast<std::uintptr_t>(addr), len_bytes); });
}

bool GuardedMemory::fetch_add(std::uint64_t addr, std::uint64_t add, std::uint64_t& original) noexcept {
    return touch(addr, sizeof add, true,
                 [&] { original = std::atomic_ref(*at<std::uint64_t>(addr)).fetch_add(add); });
}

bool GuardedMemory::compare_swap(std::uint64_t addr, std::uint64_t compare, std::uint64_t swap,
                                 std::uint64_t& original) noexcept {
    return touch(addr, sizeof swap, true, [&] {
        std::uint64_t found = compare;
        std::atomic_ref(*at<std::uint64_t>(addr)).compare_exchange_strong(found, swap);
        original = found;
    });
}

bool GuardedMemory::store(std::uint64_t addr, std::uint64_t value) noexcept {
    // Partner: the program's acquire load of the same word.
    return touch(addr, sizeof value, true,
                 [=] { std::atomic_ref(*at<std::uint64_t>(addr)).store(value, std::memory_order_release); });
}

bool GuardedMemory::flush(std::uint64_t addr, std::size_t len_bytes, std::uint8_t placement) noexcept {
    // Partner: the program's acquire fence after it learns of the flush.
    std::atomic_thread_fence(std::memory_order_release);
    if ((placement & wire::Feth::kPersistence) == 0 || len_bytes == 0) {
        return true;
    }
    return ops_ != nullptr && touch(addr, len_bytes, false, [=, this] {
               const auto at = static_cast<std::uintptr_t>(addr);
               if (simulates_power_) {
                   coherence::persist(*ops_, at, len_bytes);
               } else {
                   coherence::clean(*ops_, at, len_bytes);
               }
           });
}

} // namespace sluice::roce::socket
