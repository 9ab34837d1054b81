// SPDX-License-Identifier: BSD-3-Clause
//
// What stands before libc: the calls that take a path, so that programs find uroce's devices under
// /dev/infiniband and /sys/class/infiniband. All of them only exchange the path (files.hpp). What libc calls
// by itself, as in nftw(), isn't seen (glob() is: api_glob.cpp); neither are system calls without libc.
//
// Names with 64, x or __ are what compilers and headers, old ones too, make of the plain ones.
#undef _FORTIFY_SOURCE // its inline functions have the names of ours
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "layers/hooks/mode.hpp"
#include "layers/hooks/next.hpp"
#include "layers/preload/files.hpp"

using sluice::layers::hooks::mode_among;
using sluice::layers::hooks::Next;
using sluice::layers::preload::Redirected;

namespace {

using Filter = int (*)(const dirent*);
using Order = int (*)(const dirent**, const dirent**);
using Filter64 = int (*)(const dirent64*);
using Order64 = int (*)(const dirent64**, const dirent64**);

} // namespace

extern "C" {
#pragma GCC visibility push(default)

// Of old headers, and of checked calls. The names are libc's.
// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)
int __open_2(const char* path, int flags);
int __open64_2(const char* path, int flags);
int __openat_2(int directory, const char* path, int flags);
int __openat64_2(int directory, const char* path, int flags);
int __xstat(int version, const char* path, struct stat* status) noexcept;
int __xstat64(int version, const char* path, struct stat64* status) noexcept;
int __lxstat(int version, const char* path, struct stat* status) noexcept;
int __lxstat64(int version, const char* path, struct stat64* status) noexcept;
int __fxstatat(int version, int directory, const char* path, struct stat* status, int flags) noexcept;
int __fxstatat64(int version, int directory, const char* path, struct stat64* status, int flags) noexcept;
ssize_t __readlink_chk(const char* path, char* target, size_t size, size_t room) noexcept;
ssize_t __readlinkat_chk(int directory, const char* path, char* target, size_t size, size_t room) noexcept;
char* __realpath_chk(const char* path, char* resolved, size_t room) noexcept;
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)

int open(const char* path, int flags, ...) {
    static constinit Next<int(const char*, int, ...)> next("open");
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = mode_among(rest, flags);
    va_end(rest);
    return next.call(-1, Redirected(path, __builtin_return_address(0)).get(), flags, mode);
}

int open64(const char* path, int flags, ...) {
    static constinit Next<int(const char*, int, ...)> next("open64");
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = mode_among(rest, flags);
    va_end(rest);
    return next.call(-1, Redirected(path, __builtin_return_address(0)).get(), flags, mode);
}

int openat(int directory, const char* path, int flags, ...) {
    static constinit Next<int(int, const char*, int, ...)> next("openat");
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = mode_among(rest, flags);
    va_end(rest);
    return next.call(-1, directory, Redirected(path, __builtin_return_address(0)).get(), flags, mode);
}

int openat64(int directory, const char* path, int flags, ...) {
    static constinit Next<int(int, const char*, int, ...)> next("openat64");
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = mode_among(rest, flags);
    va_end(rest);
    return next.call(-1, directory, Redirected(path, __builtin_return_address(0)).get(), flags, mode);
}

int __open_2(const char* path, int flags) {
    static constinit Next<int(const char*, int)> next("__open_2");
    return next.call(-1, Redirected(path, __builtin_return_address(0)).get(), flags);
}

int __open64_2(const char* path, int flags) {
    static constinit Next<int(const char*, int)> next("__open64_2");
    return next.call(-1, Redirected(path, __builtin_return_address(0)).get(), flags);
}

int __openat_2(int directory, const char* path, int flags) {
    static constinit Next<int(int, const char*, int)> next("__openat_2");
    return next.call(-1, directory, Redirected(path, __builtin_return_address(0)).get(), flags);
}

int __openat64_2(int directory, const char* path, int flags) {
    static constinit Next<int(int, const char*, int)> next("__openat64_2");
    return next.call(-1, directory, Redirected(path, __builtin_return_address(0)).get(), flags);
}

FILE* fopen(const char* path, const char* mode) {
    static constinit Next<FILE*(const char*, const char*)> next("fopen");
    return next.call(static_cast<FILE*>(nullptr), Redirected(path, __builtin_return_address(0)).get(), mode);
}

FILE* fopen64(const char* path, const char* mode) {
    static constinit Next<FILE*(const char*, const char*)> next("fopen64");
    return next.call(static_cast<FILE*>(nullptr), Redirected(path, __builtin_return_address(0)).get(), mode);
}

DIR* opendir(const char* path) {
    static constinit Next<DIR*(const char*)> next("opendir");
    return next.call(static_cast<DIR*>(nullptr), Redirected(path, __builtin_return_address(0)).get());
}

int scandir(const char* path, dirent*** names, Filter filter, Order order) {
    static constinit Next<int(const char*, dirent***, Filter, Order)> next("scandir");
    return next.call(-1, Redirected(path, __builtin_return_address(0)).get(), names, filter, order);
}

int scandir64(const char* path, dirent64*** names, Filter64 filter, Order64 order) {
    static constinit Next<int(const char*, dirent64***, Filter64, Order64)> next("scandir64");
    return next.call(-1, Redirected(path, __builtin_return_address(0)).get(), names, filter, order);
}

int stat(const char* path, struct stat* status) noexcept {
    static constinit Next<int(const char*, struct stat*)> next("stat");
    return next.call(-1, Redirected(path, __builtin_return_address(0)).get(), status);
}

int stat64(const char* path, struct stat64* status) noexcept {
    static constinit Next<int(const char*, struct stat64*)> next("stat64");
    return next.call(-1, Redirected(path, __builtin_return_address(0)).get(), status);
}

int lstat(const char* path, struct stat* status) noexcept {
    static constinit Next<int(const char*, struct stat*)> next("lstat");
    return next.call(-1, Redirected(path, __builtin_return_address(0)).get(), status);
}

int lstat64(const char* path, struct stat64* status) noexcept {
    static constinit Next<int(const char*, struct stat64*)> next("lstat64");
    return next.call(-1, Redirected(path, __builtin_return_address(0)).get(), status);
}

int fstatat(int directory, const char* path, struct stat* status, int flags) noexcept {
    static constinit Next<int(int, const char*, struct stat*, int)> next("fstatat");
    return next.call(-1, directory, Redirected(path, __builtin_return_address(0)).get(), status, flags);
}

int fstatat64(int directory, const char* path, struct stat64* status, int flags) noexcept {
    static constinit Next<int(int, const char*, struct stat64*, int)> next("fstatat64");
    return next.call(-1, directory, Redirected(path, __builtin_return_address(0)).get(), status, flags);
}

int statx(int directory, const char* path, int flags, unsigned mask, struct statx* status) noexcept {
    static constinit Next<int(int, const char*, int, unsigned, struct statx*)> next("statx");
    return next.call(-1, directory, Redirected(path, __builtin_return_address(0)).get(), flags, mask, status);
}

int __xstat(int version, const char* path, struct stat* status) noexcept {
    static constinit Next<int(int, const char*, struct stat*)> next("__xstat");
    return next.call(-1, version, Redirected(path, __builtin_return_address(0)).get(), status);
}

int __xstat64(int version, const char* path, struct stat64* status) noexcept {
    static constinit Next<int(int, const char*, struct stat64*)> next("__xstat64");
    return next.call(-1, version, Redirected(path, __builtin_return_address(0)).get(), status);
}

int __lxstat(int version, const char* path, struct stat* status) noexcept {
    static constinit Next<int(int, const char*, struct stat*)> next("__lxstat");
    return next.call(-1, version, Redirected(path, __builtin_return_address(0)).get(), status);
}

int __lxstat64(int version, const char* path, struct stat64* status) noexcept {
    static constinit Next<int(int, const char*, struct stat64*)> next("__lxstat64");
    return next.call(-1, version, Redirected(path, __builtin_return_address(0)).get(), status);
}

int __fxstatat(int version, int directory, const char* path, struct stat* status, int flags) noexcept {
    static constinit Next<int(int, int, const char*, struct stat*, int)> next("__fxstatat");
    return next.call(-1, version, directory, Redirected(path, __builtin_return_address(0)).get(), status,
                     flags);
}

int __fxstatat64(int version, int directory, const char* path, struct stat64* status, int flags) noexcept {
    static constinit Next<int(int, int, const char*, struct stat64*, int)> next("__fxstatat64");
    return next.call(-1, version, directory, Redirected(path, __builtin_return_address(0)).get(), status,
                     flags);
}

int access(const char* path, int mode) noexcept {
    static constinit Next<int(const char*, int)> next("access");
    return next.call(-1, Redirected(path, __builtin_return_address(0)).get(), mode);
}

int euidaccess(const char* path, int mode) noexcept {
    static constinit Next<int(const char*, int)> next("euidaccess");
    return next.call(-1, Redirected(path, __builtin_return_address(0)).get(), mode);
}

int eaccess(const char* path, int mode) noexcept {
    static constinit Next<int(const char*, int)> next("eaccess");
    return next.call(-1, Redirected(path, __builtin_return_address(0)).get(), mode);
}

int faccessat(int directory, const char* path, int mode, int flags) noexcept {
    static constinit Next<int(int, const char*, int, int)> next("faccessat");
    return next.call(-1, directory, Redirected(path, __builtin_return_address(0)).get(), mode, flags);
}

ssize_t readlink(const char* path, char* target, size_t size) noexcept {
    static constinit Next<ssize_t(const char*, char*, size_t)> next("readlink");
    return next.call(ssize_t{-1}, Redirected(path, __builtin_return_address(0)).get(), target, size);
}

ssize_t readlinkat(int directory, const char* path, char* target, size_t size) noexcept {
    static constinit Next<ssize_t(int, const char*, char*, size_t)> next("readlinkat");
    return next.call(ssize_t{-1}, directory, Redirected(path, __builtin_return_address(0)).get(), target,
                     size);
}

ssize_t __readlink_chk(const char* path, char* target, size_t size, size_t room) noexcept {
    static constinit Next<ssize_t(const char*, char*, size_t, size_t)> next("__readlink_chk");
    return next.call(ssize_t{-1}, Redirected(path, __builtin_return_address(0)).get(), target, size, room);
}

ssize_t __readlinkat_chk(int directory, const char* path, char* target, size_t size, size_t room) noexcept {
    static constinit Next<ssize_t(int, const char*, char*, size_t, size_t)> next("__readlinkat_chk");
    return next.call(ssize_t{-1}, directory, Redirected(path, __builtin_return_address(0)).get(), target,
                     size, room);
}

char* realpath(const char* path, char* resolved) noexcept {
    static constinit Next<char*(const char*, char*)> next("realpath");
    return next.call(static_cast<char*>(nullptr), Redirected(path, __builtin_return_address(0)).get(),
                     resolved);
}

char* __realpath_chk(const char* path, char* resolved, size_t room) noexcept {
    static constinit Next<char*(const char*, char*, size_t)> next("__realpath_chk");
    return next.call(static_cast<char*>(nullptr), Redirected(path, __builtin_return_address(0)).get(),
                     resolved, room);
}

char* canonicalize_file_name(const char* path) noexcept {
    static constinit Next<char*(const char*)> next("canonicalize_file_name");
    return next.call(static_cast<char*>(nullptr), Redirected(path, __builtin_return_address(0)).get());
}

int chdir(const char* path) noexcept {
    static constinit Next<int(const char*)> next("chdir");
    return next.call(-1, Redirected(path, __builtin_return_address(0)).get());
}

ssize_t getxattr(const char* path, const char* name, void* value, size_t size) noexcept {
    static constinit Next<ssize_t(const char*, const char*, void*, size_t)> next("getxattr");
    return next.call(ssize_t{-1}, Redirected(path, __builtin_return_address(0)).get(), name, value, size);
}

ssize_t lgetxattr(const char* path, const char* name, void* value, size_t size) noexcept {
    static constinit Next<ssize_t(const char*, const char*, void*, size_t)> next("lgetxattr");
    return next.call(ssize_t{-1}, Redirected(path, __builtin_return_address(0)).get(), name, value, size);
}

ssize_t listxattr(const char* path, char* names, size_t size) noexcept {
    static constinit Next<ssize_t(const char*, char*, size_t)> next("listxattr");
    return next.call(ssize_t{-1}, Redirected(path, __builtin_return_address(0)).get(), names, size);
}

ssize_t llistxattr(const char* path, char* names, size_t size) noexcept {
    static constinit Next<ssize_t(const char*, char*, size_t)> next("llistxattr");
    return next.call(ssize_t{-1}, Redirected(path, __builtin_return_address(0)).get(), names, size);
}

#pragma GCC visibility pop
} // extern "C"
