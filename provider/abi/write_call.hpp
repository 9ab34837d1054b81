// SPDX-License-Identifier: BSD-3-Clause
//
// write(2) without the C library in between. Its own write() is a place where POSIX lets a thread
// be cancelled: posting a request is no such place, and unwinding from there would end the program.
// Its syscall() isn't, but moves six arguments. A post to rxe or siw is one of these calls.
#pragma once

#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace sluice::abi {

// The kernel's own answer: bytes, or a negative errno. errno stays as it was on x86-64 and
// aarch64.
[[gnu::always_inline]] inline ssize_t write_call(int fd, const void* data, std::size_t len_bytes) noexcept {
#if defined(__x86_64__)
    ssize_t answer = SYS_write;
    asm volatile("syscall"
                 : "+a"(answer)
                 : "D"(static_cast<long>(fd)), "S"(data), "d"(len_bytes)
                 : "rcx", "r11", "memory");
    return answer;
#elif defined(__aarch64__)
    register long number asm("x8") = SYS_write;
    register long answer asm("x0") = fd;
    register const void* from asm("x1") = data;
    register std::size_t count asm("x2") = len_bytes;
    asm volatile("svc #0" : "+r"(answer) : "r"(number), "r"(from), "r"(count) : "memory", "cc");
    return answer;
#else
    const ssize_t answer = ::syscall(SYS_write, fd, data, len_bytes);
    return answer >= 0 ? answer : -errno;
#endif
}

} // namespace sluice::abi
