// SPDX-License-Identifier: BSD-3-Clause
//
// malloc() and what belongs to it. What takes a page or more comes from the heap that other processes can
// map; the rest, and whatever there is no room for, from the allocator behind this library.
#include <malloc.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "layers/heap/heap.hpp"
#include "layers/hooks/next.hpp"

namespace sluice::layers::heap {

namespace {

using Content = Heap::Content;
using hooks::Next;

constexpr std::size_t kUsualAlignment = alignof(std::max_align_t);

constinit Next<void*(std::size_t)> next_malloc("malloc");
constinit Next<void*(std::size_t, std::size_t)> next_calloc("calloc");
constinit Next<void*(void*, std::size_t)> next_realloc("realloc");
constinit Next<void(void*)> next_free("free");
constinit Next<void*(std::size_t, std::size_t)> next_memalign("memalign");
constinit Next<std::size_t(void*)> next_usable_size("malloc_usable_size");

// The look for a function behind us may allocate. A library that is there from the beginning has room for
// this in each thread.
[[gnu::tls_model("initial-exec")]] constinit thread_local bool is_looking = false;

// Null: this thread is looking for one of them.
template<typename Function>
Function* behind(Next<Function>& next) noexcept {
    if (is_looking) {
        return nullptr;
    }
    is_looking = true;
    Function* const found = next.get();
    is_looking = false;
    return found;
}

void* of_heap(std::size_t bytes, std::size_t alignment, Content content) noexcept {
    void* const at = Heap::instance().allocate(std::max<std::size_t>(bytes, 1), alignment, content);
    errno = at == nullptr ? ENOMEM : errno;
    return at;
}

// Null, too, where it isn't for the heap.
void* try_heap(std::size_t bytes, std::size_t alignment, Content content) noexcept {
    return Heap::is_for_us(bytes, alignment) ? Heap::instance().allocate(bytes, alignment, content) : nullptr;
}

void* allocate(std::size_t bytes) noexcept {
    if (void* const at = try_heap(bytes, kUsualAlignment, Content::kAny); at != nullptr) {
        return at;
    }
    auto* const next = behind(next_malloc);
    return next != nullptr ? next(bytes) : of_heap(bytes, kUsualAlignment, Content::kAny);
}

void* allocate_zeroed(std::size_t count, std::size_t bytes_each) noexcept {
    std::size_t bytes = 0;
    if (__builtin_mul_overflow(count, bytes_each, &bytes)) {
        errno = ENOMEM;
        return nullptr;
    }
    if (void* const at = try_heap(bytes, kUsualAlignment, Content::kZero); at != nullptr) {
        return at;
    }
    auto* const next = behind(next_calloc);
    return next != nullptr ? next(count, bytes_each) : of_heap(bytes, kUsualAlignment, Content::kZero);
}

// As memalign(), an ALIGNMENT that isn't a power of two becomes the next one.
void* allocate_aligned(std::size_t alignment, std::size_t bytes) noexcept {
    constexpr std::size_t kMost = std::size_t{1} << 62;
    const std::size_t rounded = alignment <= kMost ? std::bit_ceil(alignment) : 0;
    void* const at = rounded != 0 ? try_heap(bytes, rounded, Content::kAny) : nullptr;
    if (at != nullptr) {
        return at;
    }
    auto* const next = behind(next_memalign);
    return next != nullptr ? next(alignment, bytes) : of_heap(bytes, rounded, Content::kAny);
}

void release(void* pointer) noexcept {
    if (Heap::instance().owns(pointer)) {
        Heap::instance().free(pointer);
    } else if (auto* const next = behind(next_free); next != nullptr) {
        next(pointer);
    }
}

std::size_t usable_size(void* pointer) noexcept {
    if (Heap::instance().owns(pointer)) {
        return Heap::instance().size_of(pointer);
    }
    auto* const next = behind(next_usable_size);
    return pointer != nullptr && next != nullptr ? next(pointer) : 0;
}

void* move(void* from, std::size_t bytes) noexcept {
    void* const to = allocate(bytes);
    if (to != nullptr) {
        std::memcpy(to, from, std::min(usable_size(from), bytes));
        release(from);
    }
    return to;
}

// From the one to the other, if it grows or shrinks past what separates them.
void* reallocate(void* from, std::size_t bytes) noexcept {
    if (from == nullptr) {
        return allocate(bytes);
    }
    const bool is_for_us = Heap::is_for_us(bytes, kUsualAlignment);
    if (Heap::instance().owns(from)) {
        if (bytes == 0) {
            release(from);
            return nullptr;
        }
        return is_for_us && Heap::instance().resize(from, bytes) ? from : move(from, bytes);
    }
    auto* const next = behind(next_realloc);
    return is_for_us || next == nullptr ? move(from, bytes) : next(from, bytes);
}

// Ours is asked for handlers of fork() before any other library is.
[[gnu::constructor]] void begin() noexcept {
    Heap::follow_forks();
}

} // namespace

} // namespace sluice::layers::heap

using namespace sluice::layers::heap;

extern "C" {

[[gnu::visibility("default")]] void* malloc(std::size_t bytes) noexcept {
    return allocate(bytes);
}

[[gnu::visibility("default")]] void* calloc(std::size_t count, std::size_t bytes_each) noexcept {
    return allocate_zeroed(count, bytes_each);
}

[[gnu::visibility("default")]] void* realloc(void* from, std::size_t bytes) noexcept {
    return reallocate(from, bytes);
}

[[gnu::visibility("default")]] void free(void* pointer) noexcept {
    release(pointer);
}

[[gnu::visibility("default")]] void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
    return allocate_aligned(alignment, bytes);
}

[[gnu::visibility("default")]] void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
    return allocate_aligned(alignment, bytes);
}

[[gnu::visibility("default")]] int posix_memalign(void** to, std::size_t alignment,
                                                  std::size_t bytes) noexcept {
    if (!std::has_single_bit(alignment) || alignment % sizeof(void*) != 0) {
        return EINVAL;
    }
    const int error = errno; // which this function leaves as it was
    void* const at = allocate_aligned(alignment, bytes);
    errno = error;
    if (at == nullptr) {
        return ENOMEM;
    }
    *to = at;
    return 0;
}

[[gnu::visibility("default")]] void* valloc(std::size_t bytes) noexcept {
    return allocate_aligned(static_cast<std::size_t>(Heap::page_bytes()), bytes);
}

[[gnu::visibility("default")]] void* pvalloc(std::size_t bytes) noexcept {
    const std::size_t page = Heap::page_bytes();
    std::size_t whole = 0;
    if (__builtin_add_overflow(bytes, page - 1, &whole)) {
        errno = ENOMEM;
        return nullptr;
    }
    return allocate_aligned(page, whole / page * page);
}

[[gnu::visibility("default")]] std::size_t malloc_usable_size(void* pointer) noexcept {
    return usable_size(pointer);
}

} // extern "C"
