// SPDX-License-Identifier: BSD-3-Clause
//
// The memory of another process, by the kernel's process_vm_writev() and process_vm_readv(). Whether that is
// allowed is the kernel's ptrace check: the same user, no other namespace, and what Yama and seccomp say.
#pragma once

#include <sys/types.h>

#include "roce/near/peer_memory.hpp"

namespace sluice::roce::near {

class ProcessMemory final : public PeerMemory {
  public:
    // PID is as this process sees it, and 0 if it doesn't.
    explicit ProcessMemory(pid_t pid) noexcept : pid_(pid) {}

    // Whether the byte at PROBE can be read, and is kProbe.
    bool may_touch(std::uint64_t probe) noexcept;

    bool write(std::uint64_t to, std::span<const iovec> from, std::size_t len_bytes) noexcept override;
    bool read(std::span<const iovec> to, std::uint64_t from, std::size_t len_bytes) noexcept override;
    bool write_in_order(std::uint64_t to, std::span<const iovec> from, std::size_t first,
                        std::size_t last) noexcept override;

  private:
    const pid_t pid_;
};

} // namespace sluice::roce::near
