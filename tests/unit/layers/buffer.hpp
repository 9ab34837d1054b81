// SPDX-License-Identifier: BSD-3-Clause
//
// Memory of whole pages for tests of what protects it, and accesses that no compiler leaves out.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "layers/check/pages/pages.hpp"

namespace sluice::test {

inline const std::size_t kPage = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));

inline bool protects(std::uint64_t tag, const void* memory, std::size_t bytes,
                     layers::check::pages::Forbidden forbidden) {
    return layers::check::pages::protect(tag, memory, bytes, forbidden) !=
           layers::check::pages::Protected::kNone;
}

class Buffer {
  public:
    // Between pages that can't be touched, so that it is a mapping of its own.
    explicit Buffer(std::size_t pages, int rights = PROT_READ | PROT_WRITE)
        : pages_(pages),
          whole_(mmap(nullptr, (pages + 2) * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
        if (whole_ == MAP_FAILED || mprotect(data(), pages_ * kPage, rights) != 0) {
            std::abort();
        }
    }
    ~Buffer() {
        layers::check::pages::lift_range(whole_, (pages_ + 2) * kPage);
        (void)munmap(whole_, (pages_ + 2) * kPage);
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    std::uint8_t* data() const { return static_cast<std::uint8_t*>(whole_) + kPage; }
    std::uint8_t* page(std::size_t index) const { return data() + index * kPage; }
    std::size_t bytes() const { return pages_ * kPage; }

  private:
    std::size_t pages_;
    void* whole_;
};

inline std::uint8_t load(const std::uint8_t* from) {
    return *const_cast<const volatile std::uint8_t*>(from);
}

inline void store(std::uint8_t* to, std::uint8_t value = 1) {
    *const_cast<volatile std::uint8_t*>(to) = value;
}

} // namespace sluice::test
