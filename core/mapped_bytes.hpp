// SPDX-License-Identifier: BSD-3-Clause
//
// Memory that was mapped, and goes when its owner does, without a call of the C library's munmap()
// (core/memory_calls.hpp): a part of a file, shared with all other mappings of it, or pages of its own.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "core/memory_calls.hpp"
#include "core/result.hpp"

namespace sluice {

class MappedBytes {
  public:
    // OFFSET and LEN_BYTES are multiples of the file's pages. FLAGS may have further ones. FAILURE is the
    // error's text.
    static Result<MappedBytes> map(const char* failure, int file, std::uint64_t offset, std::size_t len_bytes,
                                   int protection, int flags = MAP_SHARED) {
        void* const at = mmap(nullptr, len_bytes, protection, flags, file, static_cast<off_t>(offset));
        if (at == MAP_FAILED) {
            return Error::from_errno(errno, failure);
        }
        return MappedBytes(at, len_bytes);
    }

    // Zeros, which are there as far as they have been touched. LEN_BYTES is a multiple of a page; the page
    // behind them can't be accessed. Throws bad_alloc.
    static MappedBytes allocate(std::size_t len_bytes) {
        const auto page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        Result<MappedBytes> mapped = map("can't map memory", -1, 0, len_bytes + page_bytes,
                                         PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
        if (!mapped || mprotect(mapped->at() + len_bytes, page_bytes, PROT_NONE) != 0) {
            throw std::bad_alloc();
        }
        return *std::move(mapped);
    }

    MappedBytes() noexcept = default;
    MappedBytes(MappedBytes&& other) noexcept
        : at_(std::exchange(other.at_, nullptr)), len_bytes_(other.len_bytes_) {}
    MappedBytes& operator=(MappedBytes&& other) noexcept {
        std::swap(at_, other.at_);
        std::swap(len_bytes_, other.len_bytes_);
        return *this;
    }
    ~MappedBytes() {
        if (at_ != nullptr) {
            unmap_memory(at_, len_bytes_);
        }
    }

    char* at() const noexcept { return static_cast<char*>(at_); }

  private:
    MappedBytes(void* at, std::size_t len_bytes) noexcept : at_(at), len_bytes_(len_bytes) {}

    void* at_ = nullptr;
    std::size_t len_bytes_ = 0;
};

} // namespace sluice
