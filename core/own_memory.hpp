// SPDX-License-Identifier: BSD-3-Clause
//
// This process's memory, where another thread may close or unmap it at any moment.
//
// Thread safety: everything may be called from any thread, and within a signal's handler.
#pragma once

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace sluice {

// Copies the bytes from ADDRESS on, by the kernel, and gives how many it did: up to the first page that can't
// be read. Nothing where a sandbox refuses the call.
inline std::optional<std::size_t> copy_own_memory(std::uintptr_t address, std::span<std::byte> to) noexcept {
    const iovec copy{.iov_base = to.data(), .iov_len = to.size()};
    // NOLINTNEXTLINE(performance-no-int-to-ptr): nobody looks through it here
    const iovec memory{.iov_base = reinterpret_cast<void*>(address), .iov_len = to.size()};
    const ssize_t copied = process_vm_readv(getpid(), &copy, 1, &memory, 1, 0);
    if (copied < 0 && (errno == ENOSYS || errno == EPERM)) {
        return std::nullopt;
    }
    return copied > 0 ? static_cast<std::size_t>(copied) : 0;
}

} // namespace sluice
