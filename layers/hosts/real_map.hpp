// SPDX-License-Identifier: BSD-3-Clause
//
// libc's mmap(), which ours stands before, and what is mapped by it.
#pragma once

#include <sys/mman.h>
#include <sys/types.h>

#include <cstddef>
#include <utility>

#include "core/descriptor.hpp"
#include "core/result.hpp"

namespace sluice::layers::hosts {

void* real_mmap(void* address, std::size_t length, int protection, int flags, int file,
                off_t offset) noexcept;

// Bytes of a file, shared with all that map it. Thread safety: none is needed, it doesn't change.
class MappedFile {
  public:
    static Result<MappedFile> make(const Descriptor& file, std::size_t length, int protection, off_t offset);

    MappedFile(MappedFile&& other) noexcept
        : first_(std::exchange(other.first_, nullptr)), length_(other.length_) {}
    MappedFile& operator=(MappedFile&&) = delete;
    ~MappedFile() {
        if (first_ != nullptr) {
            munmap(first_, length_);
        }
    }
    std::byte* first() const noexcept { return first_; }

  private:
    MappedFile(std::byte* first, std::size_t length) noexcept : first_(first), length_(length) {}

    std::byte* first_; // null: moved away
    std::size_t length_;
};

} // namespace sluice::layers::hosts
