// SPDX-License-Identifier: BSD-3-Clause
//
// The program's memory while a function of libc's has it. The kernel refuses protected pages instead of
// faulting: they are opened for it. Threads may be cancelled in such a function: nothing here has to be
// destroyed.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "layers/check/pages/pages.hpp"

namespace sluice::layers::check {

// Others in this process that protect memory, and open it when they are told.
using BufferListener = void(const void* memory, std::size_t bytes, int is_store);
void add_buffer_listener(BufferListener* listener) noexcept;

class Opened {
  public:
    Opened() noexcept = default;
    Opened(const iovec* pieces, std::size_t count, bool is_store) noexcept {
        open_pieces(pieces, count, is_store);
    }
    // By its number, as what read() and its like get is declared as memory that nobody reads: where this is
    // inlined, the compiler would warn of reading it.
    Opened(std::uintptr_t address, std::size_t bytes, bool is_store) noexcept {
        open(address, bytes, is_store, 0);
    }

    bool is_forbidden() const noexcept { return forbidden_.has_value(); }
    // DONE is what the call answers: how many bytes it has got through, or less than none.
    ssize_t after(ssize_t done) const noexcept;

  private:
    // An access of the kernel's to memory that a request forbids, once the kernel has got so far.
    struct KernelTouch {
        std::size_t bytes_before = 0;
        pages::Touch touch;
    };

    void open_pieces(const iovec* pieces, std::size_t count, bool is_store) noexcept;
    // The first that is forbidden is told.
    void open(std::uintptr_t address, std::size_t bytes, bool is_store, std::size_t bytes_before) noexcept;

    std::optional<KernelTouch> forbidden_;
};

} // namespace sluice::layers::check
