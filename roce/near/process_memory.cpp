// SPDX-License-Identifier: BSD-3-Clause
#include "roce/near/process_memory.hpp"

#include <array>

#include "core/sync.hpp"
#include "roce/near/board.hpp"

namespace sluice::roce::near {

namespace {

void* at(std::uint64_t addr) noexcept {
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(addr));
}

} // namespace

bool ProcessMemory::may_touch(std::uint64_t probe) noexcept {
    char byte = 0;
    const iovec here{.iov_base = &byte, .iov_len = sizeof byte};
    return pid_ > 0 && read({&here, 1}, probe, sizeof byte) && byte == kProbe;
}

bool ProcessMemory::write(std::uint64_t to, std::span<const iovec> from, std::size_t len_bytes) noexcept {
    const iovec there{.iov_base = at(to), .iov_len = len_bytes};
    return process_vm_writev(pid_, from.data(), from.size(), &there, 1, 0) == static_cast<ssize_t>(len_bytes);
}

bool ProcessMemory::read(std::span<const iovec> to, std::uint64_t from, std::size_t len_bytes) noexcept {
    const iovec there{.iov_base = at(from), .iov_len = len_bytes};
    return process_vm_readv(pid_, to.data(), to.size(), &there, 1, 0) == static_cast<ssize_t>(len_bytes);
}

// The kernel fills one remote buffer after the other, as process_vm_writev(2) says. Where the CPU may reorder
// stores, nothing says that a fence stands between them.
bool ProcessMemory::write_in_order(std::uint64_t to, std::span<const iovec> from, std::size_t first,
                                   std::size_t last) noexcept {
    if constexpr (!kStoresStayInOrder) {
        return PeerMemory::write_in_order(to, from, first, last);
    }
    const std::array<iovec, 2> there = {iovec{.iov_base = at(to), .iov_len = first},
                                        iovec{.iov_base = at(to + first), .iov_len = last}};
    return process_vm_writev(pid_, from.data(), from.size(), there.data(), there.size(), 0) ==
           static_cast<ssize_t>(first + last);
}

} // namespace sluice::roce::near
