// SPDX-License-Identifier: BSD-3-Clause
//
// What stands before libc's calls that give memory back. free() gives whole mappings back by itself, and for
// blocks of some size only.
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdarg>
#include <cstdlib>

#include "layers/check/mappings.hpp"
#include "layers/check/pages/pages.hpp"
#include "layers/hooks/next.hpp"

namespace {

using sluice::layers::check::may_be_registered;
using sluice::layers::check::Unmapping;
using sluice::layers::check::pages::lift_range;
using sluice::layers::hooks::Next;

using Free = void(void*);

// Null while another one looks it up in this thread: looking up may free something.
Free* real_free() noexcept {
    static constinit Next<Free> real("free");
    [[gnu::tls_model("initial-exec")]] static thread_local bool is_looking = false;
    if (is_looking) {
        return nullptr;
    }
    is_looking = true;
    Free* const found = real.get();
    is_looking = false;
    return found;
}

// Of glibc's own blocks, and none of another library's that stands in for it.
bool is_of_libc(Free* function) noexcept {
    Dl_info its{};
    Dl_info libcs{};
    return dladdr(reinterpret_cast<const void*>(function), &its) != 0 &&
           dladdr(reinterpret_cast<const void*>(&gnu_get_libc_version), &libcs) != 0 &&
           its.dli_fbase == libcs.dli_fbase;
}

// glibc marks a block that has a mapping of its own in the word before it.
bool has_own_mapping(const void* block) noexcept {
    constexpr std::size_t kIsMapped = 2;
    return (static_cast<const std::size_t*>(block)[-1] & kIsMapped) != 0;
}

} // namespace

extern "C" {
#pragma GCC visibility push(default)

int munmap(void* memory, std::size_t bytes) noexcept {
    static constinit Next<int(void*, std::size_t)> real("munmap");
    if (!may_be_registered(memory, bytes)) {
        return real.get()(memory, bytes);
    }
    const Unmapping unmapping(memory, bytes);
    const int error = real.get()(memory, bytes);
    if (error == 0) {
        unmapping.check("munmap()");
    }
    return error;
}

int mprotect(void* memory, std::size_t bytes, int protection) noexcept {
    static constinit Next<int(void*, std::size_t, int)> real("mprotect");
    if (may_be_registered(memory, bytes)) {
        lift_range(memory, bytes);
    }
    return real.get()(memory, bytes, protection);
}

void* mremap(void* memory, std::size_t bytes, std::size_t new_bytes, int flags, ...) noexcept {
    static constinit Next<void*(void*, std::size_t, std::size_t, int, ...)> real("mremap");
    va_list rest;
    va_start(rest, flags);
    void* const wanted = (flags & MREMAP_FIXED) != 0 ? va_arg(rest, void*) : nullptr;
    va_end(rest);
    if (!may_be_registered(memory, bytes)) {
        return real.get()(memory, bytes, new_bytes, flags, wanted);
    }
    const Unmapping all(memory, bytes);
    const std::size_t cut = std::min(bytes, new_bytes);
    const Unmapping end(static_cast<char*>(memory) + cut, bytes - cut);
    void* const moved = real.get()(memory, bytes, new_bytes, flags, wanted);
    if (moved != MAP_FAILED) {
        (moved != memory ? all : end).check("mremap()");
    }
    return moved;
}

int madvise(void* memory, std::size_t bytes, int advice) noexcept {
    static constinit Next<int(void*, std::size_t, int)> real("madvise");
    if ((advice != MADV_DONTNEED && advice != MADV_REMOVE) || !may_be_registered(memory, bytes)) {
        return real.get()(memory, bytes, advice);
    }
    const Unmapping unmapping(memory, bytes);
    const int error = real.get()(memory, bytes, advice);
    if (error == 0) {
        unmapping.check("madvise()");
    }
    return error;
}

void free(void* block) noexcept {
    Free* const real = real_free();
    if (real == nullptr) {
        return; // some bytes, once
    }
    static const bool knows_blocks = is_of_libc(real);
    if (block == nullptr || !knows_blocks || !may_be_registered(block, 1) || !has_own_mapping(block)) {
        real(block);
        return;
    }
    const Unmapping unmapping(block, malloc_usable_size(block));
    real(block);
    unmapping.check("free()");
}

#pragma GCC visibility pop
} // extern "C"
