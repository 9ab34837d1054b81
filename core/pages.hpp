// SPDX-License-Identifier: BSD-3-Clause
//
// Memory of its own pages, which are there as far as they have been touched. Unlike what comes from malloc()
// it goes without a call of the C library's munmap() (core/memory_calls.hpp).
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "core/memory_calls.hpp"

namespace sluice {

#ifdef SLUICE_UNDER_SANITIZER // which knows malloc()'s ends
using Pages = std::unique_ptr<std::uint8_t[]>;

inline Pages make_pages(std::size_t len_bytes) {
    return std::make_unique_for_overwrite<std::uint8_t[]>(len_bytes);
}
#else
class Unmap {
  public:
    explicit Unmap(std::size_t len_bytes = 0) noexcept : len_bytes_(len_bytes) {}
    void operator()(std::uint8_t* pages) const noexcept { unmap_memory(pages, len_bytes_); }

  private:
    std::size_t len_bytes_;
};
using Pages = std::unique_ptr<std::uint8_t[], Unmap>;

// Throws bad_alloc.
inline Pages make_pages(std::size_t len_bytes) {
    void* const pages = mmap(nullptr, len_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) {
        throw std::bad_alloc();
    }
    return Pages(static_cast<std::uint8_t*>(pages), Unmap(len_bytes));
}
#endif

} // namespace sluice
