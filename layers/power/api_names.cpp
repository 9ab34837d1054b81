// SPDX-License-Identifier: BSD-3-Clause
//
// What stands before libc: the calls that make files, cut them off, take them away, or rename them. Each does
// what it did; what survives follows (layers/power/simulation.hpp). Those that never wait do so under the
// lock of all processes, so that nobody makes another file of that name, or writes behind what is cut off,
// before that is seen.
#undef _FORTIFY_SOURCE // its inline functions have the names of ours
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "layers/hooks/mode.hpp"
#include "layers/hooks/next.hpp"
#include "layers/power/simulation.hpp"
#include "layers/power/undisturbed.hpp"

namespace {

using sluice::layers::hooks::mode_among;
using sluice::layers::hooks::Next;
using sluice::layers::power::Simulation;
using sluice::layers::power::Undisturbed;

// The simulation, for a call that is the program's.
Simulation* of_program() noexcept {
    return Undisturbed::is_alive() ? nullptr : Simulation::find();
}

// What REAL() gives, which is CALL.
template<typename Real>
int follow(const char* call, Real&& real) noexcept {
    Simulation* const simulation = of_program();
    if (simulation == nullptr) {
        return real();
    }
    const Undisturbed undisturbed;
    return simulation->follow(call, real);
}

// All of DESCRIPTOR, which may be open for reading alone: Linux cuts off then, too, if the process may write
// to the file, or has just made it.
int cut_off(int descriptor, int access) noexcept {
    struct stat status {};
    if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0) {
        return 0;
    }
    if (access == O_WRONLY || access == O_RDWR) {
        return ftruncate(descriptor, 0);
    }
    std::array<char, 32> own{};
    std::snprintf(own.data(), own.size(), "/proc/self/fd/%d", descriptor);
    return truncate(own.data(), 0);
}

// A file that was opened with FLAGS, by OPEN(flags), which may wait, as for a pipe's other end. So what is to
// be cut off is cut off behind it.
template<typename Open>
int open_file(int flags, const char* call, Open&& open) {
    const bool is_changed = (flags & (O_CREAT | O_TRUNC)) != 0;
    Simulation* const simulation = is_changed ? of_program() : nullptr;
    if (simulation == nullptr) {
        return open(flags);
    }
    const bool is_cut_here = (flags & O_TRUNC) != 0 && (flags & O_PATH) == 0;
    const int opened = open(is_cut_here ? flags & ~O_TRUNC : flags);
    if (opened < 0) {
        return opened;
    }
    const Undisturbed undisturbed;
    const int cut =
        simulation->follow(call, [&] { return is_cut_here ? cut_off(opened, flags & O_ACCMODE) : 0; });
    if (cut != 0) {
        const int why = errno;
        close(opened);
        errno = why;
        return -1;
    }
    return opened;
}

bool makes_files(const char* mode) noexcept {
    return mode[0] == 'w' || mode[0] == 'a';
}

// What fopen() opens a file with for MODE, which begins with 'w'.
int flags_of(const char* mode) noexcept {
    int flags = O_CREAT | O_TRUNC;
    int access = O_WRONLY;
    for (const char* next = mode + 1; *next != '\0'; ++next) {
        access = *next == '+' ? O_RDWR : access;
        flags |= *next == 'x' ? O_EXCL : *next == 'e' ? O_CLOEXEC : 0;
    }
    return flags | access;
}

// What OPEN() gives, which may make a file, or cut it off by itself.
template<typename Open>
std::FILE* follow_stream(const char* mode, const char* call, Open&& open) {
    std::FILE* const opened = open();
    if (opened != nullptr && makes_files(mode)) {
        follow(call, [] { return 0; });
    }
    return opened;
}

// A stream to PATH with MODE, which REAL(path, mode) would open, and cut off where nobody looks. fdopen()
// takes no encoding, and leaves the position of what is appended to at the begin.
template<typename Real>
std::FILE* open_stream(Real& real, const char* path, const char* mode) {
    if (mode[0] != 'w' || std::strchr(mode, ',') != nullptr || of_program() == nullptr) {
        return follow_stream(mode, "fopen",
                             [&] { return real.call(static_cast<std::FILE*>(nullptr), path, mode); });
    }
    constexpr mode_t kForAll = 0666;
    const int opened = open64(path, flags_of(mode), kForAll);
    std::FILE* const stream = opened < 0 ? nullptr : fdopen(opened, mode);
    if (opened >= 0 && stream == nullptr) {
        const int why = errno;
        close(opened);
        errno = why;
    }
    return stream;
}

// The stream stays the same.
template<typename Real>
std::FILE* reopen_stream(Real& real, const char* path, const char* mode, std::FILE* stream) {
    return follow_stream(mode, "freopen",
                         [&] { return real.call(static_cast<std::FILE*>(nullptr), path, mode, stream); });
}

} // namespace

extern "C" {
#pragma GCC visibility push(default)

int open(const char* path, int flags, ...) {
    static constinit Next<int(const char*, int, ...)> real("open");
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = mode_among(rest, flags);
    va_end(rest);
    return open_file(flags, "open", [&](int how) { return real.call(-1, path, how, mode); });
}

int open64(const char* path, int flags, ...) {
    static constinit Next<int(const char*, int, ...)> real("open64");
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = mode_among(rest, flags);
    va_end(rest);
    return open_file(flags, "open", [&](int how) { return real.call(-1, path, how, mode); });
}

int openat(int directory, const char* path, int flags, ...) {
    static constinit Next<int(int, const char*, int, ...)> real("openat");
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = mode_among(rest, flags);
    va_end(rest);
    return open_file(flags, "openat", [&](int how) { return real.call(-1, directory, path, how, mode); });
}

int openat64(int directory, const char* path, int flags, ...) {
    static constinit Next<int(int, const char*, int, ...)> real("openat64");
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = mode_among(rest, flags);
    va_end(rest);
    return open_file(flags, "openat", [&](int how) { return real.call(-1, directory, path, how, mode); });
}

// What programs call that are compiled with _FORTIFY_SOURCE, where they say no mode.

// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): libc's
// names

int __open_2(const char* path, int flags) {
    static constinit Next<int(const char*, int)> real("__open_2");
    return open_file(flags, "open", [&](int how) { return real.call(-1, path, how); });
}

int __open64_2(const char* path, int flags) {
    static constinit Next<int(const char*, int)> real("__open64_2");
    return open_file(flags, "open", [&](int how) { return real.call(-1, path, how); });
}

int __openat_2(int directory, const char* path, int flags) {
    static constinit Next<int(int, const char*, int)> real("__openat_2");
    return open_file(flags, "openat", [&](int how) { return real.call(-1, directory, path, how); });
}

int __openat64_2(int directory, const char* path, int flags) {
    static constinit Next<int(int, const char*, int)> real("__openat64_2");
    return open_file(flags, "openat", [&](int how) { return real.call(-1, directory, path, how); });
}

// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)

int creat(const char* path, mode_t mode) {
    return open(path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

int creat64(const char* path, mode_t mode) {
    return open64(path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

int shm_open(const char* name, int flags, mode_t mode) {
    static constinit Next<int(const char*, int, mode_t)> real("shm_open");
    return open_file(flags, "shm_open", [&](int how) { return real.call(-1, name, how, mode); });
}

int shm_unlink(const char* name) {
    static constinit Next<int(const char*)> real("shm_unlink");
    return follow("shm_unlink", [&] { return real.call(-1, name); });
}

std::FILE* fopen(const char* path, const char* mode) {
    static constinit Next<std::FILE*(const char*, const char*)> real("fopen");
    return open_stream(real, path, mode);
}

std::FILE* fopen64(const char* path, const char* mode) {
    static constinit Next<std::FILE*(const char*, const char*)> real("fopen64");
    return open_stream(real, path, mode);
}

std::FILE* freopen(const char* path, const char* mode, std::FILE* stream) {
    static constinit Next<std::FILE*(const char*, const char*, std::FILE*)> real("freopen");
    return reopen_stream(real, path, mode, stream);
}

std::FILE* freopen64(const char* path, const char* mode, std::FILE* stream) {
    static constinit Next<std::FILE*(const char*, const char*, std::FILE*)> real("freopen64");
    return reopen_stream(real, path, mode, stream);
}

int ftruncate(int descriptor, off_t length) noexcept {
    static constinit Next<int(int, off_t)> real("ftruncate");
    return follow("ftruncate", [&] { return real.call(-1, descriptor, length); });
}

int ftruncate64(int descriptor, off64_t length) noexcept {
    static constinit Next<int(int, off64_t)> real("ftruncate64");
    return follow("ftruncate", [&] { return real.call(-1, descriptor, length); });
}

int truncate(const char* path, off_t length) noexcept {
    static constinit Next<int(const char*, off_t)> real("truncate");
    return follow("truncate", [&] { return real.call(-1, path, length); });
}

int truncate64(const char* path, off64_t length) noexcept {
    static constinit Next<int(const char*, off64_t)> real("truncate64");
    return follow("truncate", [&] { return real.call(-1, path, length); });
}

int unlink(const char* path) noexcept {
    static constinit Next<int(const char*)> real("unlink");
    return follow("unlink", [&] { return real.call(-1, path); });
}

int unlinkat(int directory, const char* path, int flags) noexcept {
    static constinit Next<int(int, const char*, int)> real("unlinkat");
    return follow("unlinkat", [&] { return real.call(-1, directory, path, flags); });
}

int remove(const char* path) noexcept {
    static constinit Next<int(const char*)> real("remove");
    return follow("remove", [&] { return real.call(-1, path); });
}

int rename(const char* from, const char* to) noexcept {
    static constinit Next<int(const char*, const char*)> real("rename");
    return follow("rename", [&] { return real.call(-1, from, to); });
}

int renameat(int from_directory, const char* from, int to_directory, const char* to) noexcept {
    static constinit Next<int(int, const char*, int, const char*)> real("renameat");
    return follow("renameat", [&] { return real.call(-1, from_directory, from, to_directory, to); });
}

int renameat2(int from_directory, const char* from, int to_directory, const char* to,
              unsigned flags) noexcept {
    static constinit Next<int(int, const char*, int, const char*, unsigned)> real("renameat2");
    return follow("renameat2", [&] { return real.call(-1, from_directory, from, to_directory, to, flags); });
}

int link(const char* from, const char* to) noexcept {
    static constinit Next<int(const char*, const char*)> real("link");
    return follow("link", [&] { return real.call(-1, from, to); });
}

int linkat(int from_directory, const char* from, int to_directory, const char* to, int flags) noexcept {
    static constinit Next<int(int, const char*, int, const char*, int)> real("linkat");
    return follow("linkat", [&] { return real.call(-1, from_directory, from, to_directory, to, flags); });
}

#pragma GCC visibility pop
} // extern "C"
