// SPDX-License-Identifier: BSD-3-Clause
#include "core/own_memory.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace sluice {

namespace {

constexpr std::size_t kPieceBytes = 4096; // no page is smaller, and a pipe takes it whole

// Not by the C library's functions: layers stand before them, and take the memory for what the program gives
// away.
bool write_all(int pipe, std::uintptr_t address, std::size_t bytes) noexcept {
    return syscall(SYS_write, pipe, address, bytes) == static_cast<long>(bytes);
}

// Up to the next border between pieces at a time: of two pages the first may be open.
std::optional<std::size_t> copy_by(const int (&ends)[2], std::uintptr_t address,
                                   std::span<std::byte> to) noexcept {
    std::size_t copied = 0;
    while (copied < to.size()) {
        const std::uintptr_t at = address + copied;
        const std::size_t bytes = std::min(to.size() - copied, kPieceBytes - at % kPieceBytes);
        if (!write_all(ends[1], at, bytes)) {
            return errno == EFAULT ? std::optional(copied) : std::nullopt;
        }
        if (syscall(SYS_read, ends[0], to.data() + copied, bytes) != static_cast<long>(bytes)) {
            return std::nullopt;
        }
        copied += bytes;
    }
    return copied;
}

std::optional<std::size_t> copy_by_pipe(std::uintptr_t address, std::span<std::byte> to) noexcept {
    int ends[2];
    if (syscall(SYS_pipe2, ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        return std::nullopt;
    }
    const std::optional<std::size_t> copied = copy_by(ends, address, to);
    (void)syscall(SYS_close, ends[0]);
    (void)syscall(SYS_close, ends[1]);
    return copied;
}

} // namespace

std::optional<std::size_t> copy_own_memory(std::uintptr_t address, std::span<std::byte> to) noexcept {
    const iovec target{.iov_base = to.data(), .iov_len = to.size()};
    // NOLINTNEXTLINE(performance-no-int-to-ptr): nobody looks through it here
    const iovec source{.iov_base = reinterpret_cast<void*>(address), .iov_len = to.size()};
    const ssize_t copied = process_vm_readv(getpid(), &target, 1, &source, 1, 0);
    if (copied >= 0) {
        return static_cast<std::size_t>(copied);
    }
    return errno == EFAULT ? std::optional(std::size_t{0}) : copy_by_pipe(address, to);
}

} // namespace sluice
