// SPDX-License-Identifier: BSD-3-Clause
//
// What stands before libc: the call that maps files. A mapping that others can't see isn't looked at, and
// what libc maps by itself isn't seen; neither are system calls without libc.
#include <sys/mman.h>

#include <cerrno>

#include "core/boundary.hpp"
#include "core/log.hpp"
#include "layers/hosts/host.hpp"
#include "layers/hosts/real_map.hpp"

namespace {

using sluice::Result;
using sluice::layers::hosts::Host;

bool is_of_a_shared_file(int flags, int file) noexcept {
    const int type = flags & MAP_TYPE;
    return file >= 0 && (flags & MAP_ANONYMOUS) == 0 && (type == MAP_SHARED || type == MAP_SHARED_VALIDATE);
}

// The program's mapping, with the image in the place of the file where it is one that hosts share.
void* map_as_host(void* address, std::size_t length, int protection, int flags, int file,
                  off_t offset) noexcept {
    void* const mapped = sluice::layers::hosts::real_mmap(address, length, protection, flags, file, offset);
    if (mapped == MAP_FAILED || !is_of_a_shared_file(flags, file)) {
        return mapped;
    }
    const int former_errno = errno;
    const Result<void> put = sluice::at_boundary("mmap", [&]() -> Result<void> {
        const Result<Host*> host = Host::find();
        if (!host) {
            return host.error().clone();
        }
        return *host != nullptr ? (*host)->put_image(mapped, length, protection, flags, file, offset)
                                : Result<void>{};
    });
    errno = former_errno;
    if (!put) {
        SLUICE_LOG(kError, "hosts", "mmap: %s", put.error().text());
        munmap(mapped, length);
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return mapped;
}

} // namespace

extern "C" {
#pragma GCC visibility push(default)

void* mmap(void* address, size_t length, int protection, int flags, int file, off_t offset) noexcept {
    return map_as_host(address, length, protection, flags, file, offset);
}

void* mmap64(void* address, size_t length, int protection, int flags, int file, off64_t offset) noexcept {
    return map_as_host(address, length, protection, flags, file, offset);
}

#pragma GCC visibility pop
} // extern "C"
