// SPDX-License-Identifier: BSD-3-Clause
//
// What stands before libc: the calls that make files, cut them off, take them away, or rename them. Each does
// what it did; then what survives follows (layers/power/simulation.hpp).
#undef _FORTIFY_SOURCE // its inline functions have the names of ours
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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

// The simulation, if a call has gone well that is the program's.
Simulation* of_program(bool has_gone_well) noexcept {
    return has_gone_well && !Undisturbed::is_alive() ? Simulation::find() : nullptr;
}

// STATUS of CALL, which may have changed which files have names.
int follow(int status, const char* call) noexcept {
    if (Simulation* const simulation = of_program(status == 0)) {
        const Undisturbed undisturbed;
        simulation->follow_names(call);
    }
    return status;
}

// STATUS of CALL, by which the file that FIND(stat) finds has LENGTH bytes now.
template<typename Find>
int shorten(int status, off_t length, const char* call, Find&& find) noexcept {
    const int former_errno = errno;
    struct stat found {};
    if (Simulation* const simulation = of_program(status == 0); simulation != nullptr && find(&found) == 0) {
        const Undisturbed undisturbed;
        simulation->shorten(found, static_cast<std::uint64_t>(length), call);
    }
    errno = former_errno;
    return status;
}

int shorten_open(int status, int descriptor, off_t length, const char* call) noexcept {
    return shorten(status, length, call,
                   [descriptor](struct stat* found) { return fstat(descriptor, found); });
}

int shorten_named(int status, const char* path, off_t length, const char* call) noexcept {
    return shorten(status, length, call, [path](struct stat* found) { return stat(path, found); });
}

// DESCRIPTOR, which was opened with FLAGS.
int opened(int descriptor, int flags, const char* call) noexcept {
    if (descriptor >= 0 && (flags & O_CREAT) != 0) {
        follow(0, call);
    }
    if (descriptor >= 0 && (flags & O_TRUNC) != 0) {
        shorten_open(0, descriptor, 0, call);
    }
    return descriptor;
}

std::FILE* opened(std::FILE* stream, const char* mode, const char* call) noexcept {
    if (stream != nullptr && std::strchr("wa", mode[0]) != nullptr) {
        opened(fileno(stream), O_CREAT | (mode[0] == 'w' ? O_TRUNC : 0), call);
    }
    return stream;
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
    return opened(real.call(-1, path, flags, mode), flags, "open");
}

int open64(const char* path, int flags, ...) {
    static constinit Next<int(const char*, int, ...)> real("open64");
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = mode_among(rest, flags);
    va_end(rest);
    return opened(real.call(-1, path, flags, mode), flags, "open");
}

int openat(int directory, const char* path, int flags, ...) {
    static constinit Next<int(int, const char*, int, ...)> real("openat");
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = mode_among(rest, flags);
    va_end(rest);
    return opened(real.call(-1, directory, path, flags, mode), flags, "openat");
}

int openat64(int directory, const char* path, int flags, ...) {
    static constinit Next<int(int, const char*, int, ...)> real("openat64");
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = mode_among(rest, flags);
    va_end(rest);
    return opened(real.call(-1, directory, path, flags, mode), flags, "openat");
}

int creat(const char* path, mode_t mode) {
    static constinit Next<int(const char*, mode_t)> real("creat");
    return opened(real.call(-1, path, mode), O_CREAT | O_TRUNC, "creat");
}

int creat64(const char* path, mode_t mode) {
    static constinit Next<int(const char*, mode_t)> real("creat64");
    return opened(real.call(-1, path, mode), O_CREAT | O_TRUNC, "creat");
}

std::FILE* fopen(const char* path, const char* mode) {
    static constinit Next<std::FILE*(const char*, const char*)> real("fopen");
    return opened(real.call(static_cast<std::FILE*>(nullptr), path, mode), mode, "fopen");
}

std::FILE* fopen64(const char* path, const char* mode) {
    static constinit Next<std::FILE*(const char*, const char*)> real("fopen64");
    return opened(real.call(static_cast<std::FILE*>(nullptr), path, mode), mode, "fopen");
}

std::FILE* freopen(const char* path, const char* mode, std::FILE* stream) {
    static constinit Next<std::FILE*(const char*, const char*, std::FILE*)> real("freopen");
    return opened(real.call(static_cast<std::FILE*>(nullptr), path, mode, stream), mode, "freopen");
}

std::FILE* freopen64(const char* path, const char* mode, std::FILE* stream) {
    static constinit Next<std::FILE*(const char*, const char*, std::FILE*)> real("freopen64");
    return opened(real.call(static_cast<std::FILE*>(nullptr), path, mode, stream), mode, "freopen");
}

int ftruncate(int descriptor, off_t length) noexcept {
    static constinit Next<int(int, off_t)> real("ftruncate");
    return shorten_open(real.call(-1, descriptor, length), descriptor, length, "ftruncate");
}

int ftruncate64(int descriptor, off64_t length) noexcept {
    static constinit Next<int(int, off64_t)> real("ftruncate64");
    return shorten_open(real.call(-1, descriptor, length), descriptor, length, "ftruncate");
}

int truncate(const char* path, off_t length) noexcept {
    static constinit Next<int(const char*, off_t)> real("truncate");
    return shorten_named(real.call(-1, path, length), path, length, "truncate");
}

int truncate64(const char* path, off64_t length) noexcept {
    static constinit Next<int(const char*, off64_t)> real("truncate64");
    return shorten_named(real.call(-1, path, length), path, length, "truncate");
}

int unlink(const char* path) noexcept {
    static constinit Next<int(const char*)> real("unlink");
    return follow(real.call(-1, path), "unlink");
}

int unlinkat(int directory, const char* path, int flags) noexcept {
    static constinit Next<int(int, const char*, int)> real("unlinkat");
    return follow(real.call(-1, directory, path, flags), "unlinkat");
}

int remove(const char* path) noexcept {
    static constinit Next<int(const char*)> real("remove");
    return follow(real.call(-1, path), "remove");
}

int rename(const char* from, const char* to) noexcept {
    static constinit Next<int(const char*, const char*)> real("rename");
    return follow(real.call(-1, from, to), "rename");
}

int renameat(int from_directory, const char* from, int to_directory, const char* to) noexcept {
    static constinit Next<int(int, const char*, int, const char*)> real("renameat");
    return follow(real.call(-1, from_directory, from, to_directory, to), "renameat");
}

int renameat2(int from_directory, const char* from, int to_directory, const char* to,
              unsigned flags) noexcept {
    static constinit Next<int(int, const char*, int, const char*, unsigned)> real("renameat2");
    return follow(real.call(-1, from_directory, from, to_directory, to, flags), "renameat2");
}

int link(const char* from, const char* to) noexcept {
    static constinit Next<int(const char*, const char*)> real("link");
    return follow(real.call(-1, from, to), "link");
}

int linkat(int from_directory, const char* from, int to_directory, const char* to, int flags) noexcept {
    static constinit Next<int(int, const char*, int, const char*, int)> real("linkat");
    return follow(real.call(-1, from_directory, from, to_directory, to, flags), "linkat");
}

#pragma GCC visibility pop
} // extern "C"
