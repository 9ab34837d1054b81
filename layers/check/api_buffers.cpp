// SPDX-License-Identifier: BSD-3-Clause
//
// What stands before libc's calls with buffers. The kernel refuses protected pages instead of faulting: they
// are opened for it. Threads may be cancelled in there: nothing of ours is on the stack but the call itself.
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "layers/check/mappings.hpp"
#include "layers/check/pages/pages.hpp"
#include "layers/hooks/next.hpp"

namespace {

using sluice::layers::hooks::Next;

// Others in this process that protect memory, and open it when they are told.
using Touch = void(const void* memory, std::size_t bytes, int is_store);
constinit std::array<std::atomic<Touch*>, 8> others = {};

// By its number, as what read() and its like get is declared as memory that nobody reads.
void open_for_kernel(std::uintptr_t address, std::size_t bytes, bool is_store) noexcept {
    const auto* const memory = reinterpret_cast<const void*>(address); // NOLINT(performance-no-int-to-ptr)
    if (sluice::layers::check::may_be_registered(memory, bytes)) {
        sluice::layers::check::pages::lift_range(memory, bytes);
    }
    for (const std::atomic<Touch*>& other : others) {
        Touch* const touch = other.load(std::memory_order_relaxed); // code, which is there before us
        if (touch == nullptr) {
            return;
        }
        touch(memory, bytes, is_store ? 1 : 0);
    }
}

void open_for_kernel(const iovec* pieces, std::size_t count, bool is_store) noexcept {
    for (const iovec& piece : std::span(pieces, count)) {
        open_for_kernel(reinterpret_cast<std::uintptr_t>(piece.iov_base), piece.iov_len, is_store);
    }
}

} // namespace

extern "C" {
#pragma GCC visibility push(default)

// For libraries that look for it by its name: TOUCH is called before the kernel gets memory of the program's.
void sluice_check_on_buffers(Touch* touch) { // NOLINT: a name in C
    for (std::atomic<Touch*>& other : others) {
        Touch* free = nullptr;
        if (other.compare_exchange_strong(free, touch) || free == touch) {
            return;
        }
    }
}

ssize_t read(int fd, void* memory, std::size_t bytes) {
    static constinit Next<ssize_t(int, void*, std::size_t)> real("read");
    open_for_kernel(reinterpret_cast<std::uintptr_t>(memory), bytes, true);
    return real.get()(fd, memory, bytes);
}

ssize_t write(int fd, const void* memory, std::size_t bytes) {
    static constinit Next<ssize_t(int, const void*, std::size_t)> real("write");
    open_for_kernel(reinterpret_cast<std::uintptr_t>(memory), bytes, false);
    return real.get()(fd, memory, bytes);
}

ssize_t pread(int fd, void* memory, std::size_t bytes, off_t offset) {
    static constinit Next<ssize_t(int, void*, std::size_t, off_t)> real("pread");
    open_for_kernel(reinterpret_cast<std::uintptr_t>(memory), bytes, true);
    return real.get()(fd, memory, bytes, offset);
}

ssize_t pwrite(int fd, const void* memory, std::size_t bytes, off_t offset) {
    static constinit Next<ssize_t(int, const void*, std::size_t, off_t)> real("pwrite");
    open_for_kernel(reinterpret_cast<std::uintptr_t>(memory), bytes, false);
    return real.get()(fd, memory, bytes, offset);
}

ssize_t pread64(int fd, void* memory, std::size_t bytes, off64_t offset) {
    static constinit Next<ssize_t(int, void*, std::size_t, off64_t)> real("pread64");
    open_for_kernel(reinterpret_cast<std::uintptr_t>(memory), bytes, true);
    return real.get()(fd, memory, bytes, offset);
}

ssize_t pwrite64(int fd, const void* memory, std::size_t bytes, off64_t offset) {
    static constinit Next<ssize_t(int, const void*, std::size_t, off64_t)> real("pwrite64");
    open_for_kernel(reinterpret_cast<std::uintptr_t>(memory), bytes, false);
    return real.get()(fd, memory, bytes, offset);
}

ssize_t readv(int fd, const iovec* pieces, int count) {
    static constinit Next<ssize_t(int, const iovec*, int)> real("readv");
    open_for_kernel(pieces, static_cast<std::size_t>(count > 0 ? count : 0), true);
    return real.get()(fd, pieces, count);
}

ssize_t writev(int fd, const iovec* pieces, int count) {
    static constinit Next<ssize_t(int, const iovec*, int)> real("writev");
    open_for_kernel(pieces, static_cast<std::size_t>(count > 0 ? count : 0), false);
    return real.get()(fd, pieces, count);
}

ssize_t send(int fd, const void* memory, std::size_t bytes, int flags) {
    static constinit Next<ssize_t(int, const void*, std::size_t, int)> real("send");
    open_for_kernel(reinterpret_cast<std::uintptr_t>(memory), bytes, false);
    return real.get()(fd, memory, bytes, flags);
}

ssize_t recv(int fd, void* memory, std::size_t bytes, int flags) {
    static constinit Next<ssize_t(int, void*, std::size_t, int)> real("recv");
    open_for_kernel(reinterpret_cast<std::uintptr_t>(memory), bytes, true);
    return real.get()(fd, memory, bytes, flags);
}

ssize_t sendto(int fd, const void* memory, std::size_t bytes, int flags, const sockaddr* to,
               socklen_t length) {
    static constinit Next<ssize_t(int, const void*, std::size_t, int, const sockaddr*, socklen_t)> real(
        "sendto");
    open_for_kernel(reinterpret_cast<std::uintptr_t>(memory), bytes, false);
    return real.get()(fd, memory, bytes, flags, to, length);
}

ssize_t recvfrom(int fd, void* memory, std::size_t bytes, int flags, sockaddr* from, socklen_t* length) {
    static constinit Next<ssize_t(int, void*, std::size_t, int, sockaddr*, socklen_t*)> real("recvfrom");
    open_for_kernel(reinterpret_cast<std::uintptr_t>(memory), bytes, true);
    return real.get()(fd, memory, bytes, flags, from, length);
}

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
    static constinit Next<ssize_t(int, const msghdr*, int)> real("sendmsg");
    open_for_kernel(message->msg_iov, message->msg_iovlen, false);
    return real.get()(fd, message, flags);
}

ssize_t recvmsg(int fd, msghdr* message, int flags) {
    static constinit Next<ssize_t(int, msghdr*, int)> real("recvmsg");
    open_for_kernel(message->msg_iov, message->msg_iovlen, true);
    return real.get()(fd, message, flags);
}

#pragma GCC visibility pop
} // extern "C"
