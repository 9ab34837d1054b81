// SPDX-License-Identifier: BSD-3-Clause
//
// What stands before libc's glob(), which looks for files by calls of its own that nothing can stand before:
// it gets ours for patterns of uroce's places.
#include <dirent.h>
#include <glob.h>
#include <sys/stat.h>

#include "layers/hooks/next.hpp"
#include "layers/preload/files.hpp"

using sluice::layers::hooks::Next;
using sluice::layers::preload::Redirected;

namespace {

void* open_directory(const char* path) {
    return opendir(Redirected(path, nullptr).get());
}

void close_directory(void* directory) {
    closedir(static_cast<DIR*>(directory));
}

// How glob() and glob64() ask for files.
struct Plain {
    static constexpr char kName[] = "glob";
    using Found = glob_t;
    static dirent* read(void* directory) { return readdir(static_cast<DIR*>(directory)); }
    static int look(const char* path, struct stat* status) {
        return stat(Redirected(path, nullptr).get(), status);
    }
    static int look_at_link(const char* path, struct stat* status) {
        return lstat(Redirected(path, nullptr).get(), status);
    }
};

struct Large {
    static constexpr char kName[] = "glob64";
    using Found = glob64_t;
    static dirent64* read(void* directory) { return readdir64(static_cast<DIR*>(directory)); }
    static int look(const char* path, struct stat64* status) {
        return stat64(Redirected(path, nullptr).get(), status);
    }
    static int look_at_link(const char* path, struct stat64* status) {
        return lstat64(Redirected(path, nullptr).get(), status);
    }
};

using Refused = int (*)(const char* path, int error);

template<typename Kind>
int find(const char* pattern, int flags, Refused refused, typename Kind::Found* found) {
    static constinit Next<int(const char*, int, Refused, typename Kind::Found*)> next(Kind::kName);
    // A program's own functions see what the program wants to see.
    if ((flags & GLOB_ALTDIRFUNC) != 0 || found == nullptr || !Redirected::may_be_ours(pattern)) {
        return next.call(GLOB_NOSYS, pattern, flags, refused, found);
    }
    const typename Kind::Found before = *found;
    found->gl_opendir = open_directory;
    found->gl_closedir = close_directory;
    found->gl_readdir = Kind::read;
    found->gl_stat = Kind::look;
    found->gl_lstat = Kind::look_at_link;
    const int result = next.call(GLOB_NOSYS, pattern, flags | GLOB_ALTDIRFUNC, refused, found);
    found->gl_flags &= ~GLOB_ALTDIRFUNC;
    found->gl_opendir = before.gl_opendir;
    found->gl_closedir = before.gl_closedir;
    found->gl_readdir = before.gl_readdir;
    found->gl_stat = before.gl_stat;
    found->gl_lstat = before.gl_lstat;
    return result;
}

} // namespace

extern "C" {
#pragma GCC visibility push(default)

int glob(const char* pattern, int flags, Refused refused, glob_t* found) noexcept {
    return find<Plain>(pattern, flags, refused, found);
}

int glob64(const char* pattern, int flags, Refused refused, glob64_t* found) noexcept {
    return find<Large>(pattern, flags, refused, found);
}

#pragma GCC visibility pop
} // extern "C"
