// SPDX-License-Identifier: BSD-3-Clause
//
// What a process asks for and doesn't get, on order: memory, mappings, descriptors, threads, what the kernel
// needs memory for. It fails for the calls of this thread, in whatever library. It puts itself in front of
// libc's functions, so that one source of a program includes it; with SLUICE_SHORTAGE_WITHOUT_FILES not of
// open(), which a preloaded layer stands in front of.
#pragma once

#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace sluice::test {

// How many requests succeed before one fails; negative: none fails.
inline thread_local int until_failure = -1;
// The same for what all threads ask for but those that are here.
inline std::atomic<int> until_failure_elsewhere{-1};
inline thread_local bool is_here = false;
inline thread_local const char* last_failure = ""; // the function that has failed
inline thread_local void* failed_stack[32] = {};   // and the calls that led there
inline thread_local int failed_depth = 0;

// Where it is set, only what it answers with true counts: requests of a library that is under test.
inline bool (*is_counted)() noexcept = nullptr;

inline bool fails_elsewhere(int error) noexcept {
    if (is_here || until_failure_elsewhere.load() < 0 || (is_counted != nullptr && !is_counted()) ||
        until_failure_elsewhere.fetch_sub(1) != 0) {
        return false;
    }
    errno = error;
    return true;
}

inline bool fails_now(const char* function, int error = ENOMEM) noexcept {
    if (fails_elsewhere(error)) {
        return true;
    }
    if (until_failure < 0 || (is_counted != nullptr && !is_counted()) || until_failure-- != 0) {
        return false;
    }
    last_failure = function;
    failed_depth = backtrace(failed_stack, 32);
    errno = error;
    return true;
}
inline void print_failed_stack() noexcept {
    backtrace_symbols_fd(failed_stack, failed_depth, STDERR_FILENO);
}

// What was allocated and isn't free yet, by all threads.
inline std::atomic<long> live_allocations{0};

inline void* counted(void* allocated) noexcept {
    live_allocations.fetch_add(allocated != nullptr ? 1 : 0, std::memory_order_relaxed);
    return allocated;
}

// FUNCTION of libc by the kernel's NUMBER.
template<typename... Args>
long asked(const char* function, int error, long number, Args... args) noexcept {
    return fails_now(function, error) ? -1 : syscall(number, args...);
}

} // namespace sluice::test

#define SLUICE_IN_FRONT [[gnu::visibility("default")]] // of libc's

extern "C" {
// NOLINTBEGIN: glibc's names, and there is one source
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* former, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
void __libc_free(void* allocated);

SLUICE_IN_FRONT void* malloc(std::size_t size) noexcept {
    return sluice::test::fails_now("malloc") ? nullptr : sluice::test::counted(__libc_malloc(size));
}
SLUICE_IN_FRONT void* calloc(std::size_t count, std::size_t size) noexcept {
    return sluice::test::fails_now("calloc") ? nullptr : sluice::test::counted(__libc_calloc(count, size));
}
SLUICE_IN_FRONT void* realloc(void* former, std::size_t size) noexcept {
    if (former == nullptr) {
        return malloc(size);
    }
    if (size == 0) {
        free(former);
        return nullptr;
    }
    return sluice::test::fails_now("realloc") ? nullptr : __libc_realloc(former, size);
}
SLUICE_IN_FRONT void* memalign(std::size_t alignment, std::size_t size) noexcept {
    return sluice::test::fails_now("memalign") ? nullptr
                                               : sluice::test::counted(__libc_memalign(alignment, size));
}
SLUICE_IN_FRONT void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
    return memalign(alignment, size);
}
SLUICE_IN_FRONT int posix_memalign(void** made, std::size_t alignment, std::size_t size) noexcept {
    void* const found = memalign(alignment, size);
    *made = found != nullptr ? found : *made;
    return found != nullptr ? 0 : ENOMEM;
}
SLUICE_IN_FRONT void free(void* allocated) noexcept {
    sluice::test::live_allocations.fetch_sub(allocated != nullptr ? 1 : 0, std::memory_order_relaxed);
    __libc_free(allocated);
}

SLUICE_IN_FRONT void* mmap(void* at, std::size_t length, int protection, int flags, int fd,
                           off_t offset) noexcept {
    return reinterpret_cast<void*>(
        sluice::test::asked("mmap", ENOMEM, SYS_mmap, at, length, protection, flags, fd, offset));
}
SLUICE_IN_FRONT void* mmap64(void* at, std::size_t length, int protection, int flags, int fd,
                             off64_t offset) noexcept {
    return mmap(at, length, protection, flags, fd, offset);
}
SLUICE_IN_FRONT int memfd_create(const char* name, unsigned flags) noexcept {
    return static_cast<int>(sluice::test::asked("memfd_create", EMFILE, SYS_memfd_create, name, flags));
}
SLUICE_IN_FRONT int ftruncate(int fd, off_t length) noexcept {
    return static_cast<int>(sluice::test::asked("ftruncate", ENOSPC, SYS_ftruncate, fd, length));
}
SLUICE_IN_FRONT int ftruncate64(int fd, off64_t length) noexcept {
    return ftruncate(fd, length);
}
#if !defined(SLUICE_SHORTAGE_WITHOUT_FILES)
SLUICE_IN_FRONT int openat(int directory, const char* path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return static_cast<int>(sluice::test::asked("openat", EMFILE, SYS_openat, directory, path, flags, mode));
}
SLUICE_IN_FRONT int open(const char* path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return static_cast<int>(sluice::test::asked("open", EMFILE, SYS_openat, AT_FDCWD, path, flags, mode));
}
#endif
SLUICE_IN_FRONT int socket(int family, int type, int protocol) noexcept {
    return static_cast<int>(sluice::test::asked("socket", EMFILE, SYS_socket, family, type, protocol));
}
SLUICE_IN_FRONT int socketpair(int family, int type, int protocol, int ends[2]) noexcept {
    return static_cast<int>(
        sluice::test::asked("socketpair", EMFILE, SYS_socketpair, family, type, protocol, ends));
}
SLUICE_IN_FRONT int accept4(int fd, sockaddr* from, socklen_t* length, int flags) {
    return static_cast<int>(sluice::test::asked("accept4", EMFILE, SYS_accept4, fd, from, length, flags));
}
SLUICE_IN_FRONT int bind(int fd, const sockaddr* to, socklen_t length) noexcept {
    return static_cast<int>(sluice::test::asked("bind", ENOMEM, SYS_bind, fd, to, length));
}
SLUICE_IN_FRONT int setsockopt(int fd, int level, int name, const void* value, socklen_t length) noexcept {
    return static_cast<int>(
        sluice::test::asked("setsockopt", ENOMEM, SYS_setsockopt, fd, level, name, value, length));
}
SLUICE_IN_FRONT ssize_t sendmsg(int fd, const msghdr* message, int flags) {
    return sluice::test::asked("sendmsg", ENOBUFS, SYS_sendmsg, fd, message, flags);
}
SLUICE_IN_FRONT int eventfd(unsigned value, int flags) noexcept {
    return static_cast<int>(sluice::test::asked("eventfd", EMFILE, SYS_eventfd2, value, flags));
}
SLUICE_IN_FRONT int timerfd_create(clockid_t clock, int flags) noexcept {
    return static_cast<int>(sluice::test::asked("timerfd_create", EMFILE, SYS_timerfd_create, clock, flags));
}
SLUICE_IN_FRONT int epoll_create1(int flags) noexcept {
    return static_cast<int>(sluice::test::asked("epoll_create1", EMFILE, SYS_epoll_create1, flags));
}
SLUICE_IN_FRONT int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) noexcept {
    return static_cast<int>(
        sluice::test::asked("epoll_ctl", ENOMEM, SYS_epoll_ctl, epoll, operation, fd, event));
}
SLUICE_IN_FRONT int pthread_create(pthread_t* made, const pthread_attr_t* attributes, void* (*start)(void*),
                                   void* argument) noexcept {
    using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
    static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
    return sluice::test::fails_now("pthread_create", EAGAIN) ? EAGAIN
                                                             : create(made, attributes, start, argument);
}
// NOLINTEND
}

#undef SLUICE_IN_FRONT
