// SPDX-License-Identifier: BSD-3-Clause
//
// munmap() and madvise() for threads that the program doesn't know of.
//
// UCX, Open MPI and libfabric keep memory registered and want to hear when it goes. So they write a jump over
// the beginning of these functions of the C library, while the program runs. On x86-64 a jump is 13 bytes and
// the system call within them: a thread that is in the kernel then comes back into the middle of the jump's
// address. The program can keep its own threads out of there meanwhile, and not those of a library.
//
// The C library calls them, too: at a thread's first allocation (core/thread.cpp), where a block of 128 KiB
// or so many bytes at once are freed, which these threads avoid (core/mapped_bytes.hpp,
// FileTree::read_lines()), and as a thread ends, for which the program waits.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

namespace sluice {

// Like munmap(), and madvise().
inline int unmap_memory(void* memory, std::size_t len_bytes) noexcept {
    return static_cast<int>(syscall(SYS_munmap, memory, len_bytes));
}

inline int advise_memory(void* memory, std::size_t len_bytes, int advice) noexcept {
    return static_cast<int>(syscall(SYS_madvise, memory, len_bytes, advice));
}

} // namespace sluice
