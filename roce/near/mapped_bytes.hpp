// SPDX-License-Identifier: BSD-3-Clause
//
// A mapping of a part of a file, shared with all other mappings of it.
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/memory_calls.hpp"
#include "core/result.hpp"

namespace sluice::roce::near {

class MappedBytes {
  public:
    // OFFSET and LEN_BYTES are multiples of the file's pages. FLAGS may have further ones.
    static Result<MappedBytes> map(int file, std::uint64_t offset, std::size_t len_bytes, int protection,
                                   int flags = MAP_SHARED) {
        void* const at = mmap(nullptr, len_bytes, protection, flags, file, static_cast<off_t>(offset));
        if (at == MAP_FAILED) {
            return Error::from_errno(errno, "can't map memory of a process of this host");
        }
        return MappedBytes(at, len_bytes);
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

} // namespace sluice::roce::near
