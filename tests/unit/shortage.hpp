// SPDX-License-Identifier: BSD-3-Clause
//
// Memory that runs out on order, for this thread's allocations of whatever library. It puts itself in front
// of the memory's functions, so that one source of a program includes it.
#pragma once

#include <cerrno>
#include <cstddef>

namespace sluice::test {

// How many allocations succeed before one fails; negative: none fails.
inline thread_local int until_failure = -1;

inline bool fails_now() noexcept {
    if (until_failure < 0 || until_failure-- != 0) {
        return false;
    }
    errno = ENOMEM;
    return true;
}

} // namespace sluice::test

extern "C" {
void* __libc_malloc(std::size_t size);                    // NOLINT: glibc's names
void* __libc_calloc(std::size_t count, std::size_t size); // NOLINT

[[gnu::visibility("default")]] void* malloc(std::size_t size) noexcept { // NOLINT: there is one source
    return sluice::test::fails_now() ? nullptr : __libc_malloc(size);
}
[[gnu::visibility("default")]] void* calloc(std::size_t count, std::size_t size) noexcept { // NOLINT
    return sluice::test::fails_now() ? nullptr : __libc_calloc(count, size);
}
}
