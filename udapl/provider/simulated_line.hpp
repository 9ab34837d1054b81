// SPDX-License-Identifier: BSD-3-Clause
//
// What simulated memory is made of: pages for shadows, and a line as the program and the device have it.
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/result.hpp"

namespace sluice::dapl {

// Pages that are zeros until somebody writes, and go with their owner.
class Pages {
  public:
    static constexpr int kShared = MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE;
    static constexpr int kPrivate = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

    static Result<Pages> make(std::size_t length_bytes, int flags) {
        void* const address = mmap(nullptr, length_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (address == MAP_FAILED) {
            return Error::format(ErrorKind::kInsufficientResources, errno,
                                 "SLUICE_COHERENCE=simulated: no address space for a shadow of %zu bytes",
                                 length_bytes);
        }
        return Pages(address, length_bytes);
    }
    Pages(Pages&& other) noexcept
        : address_(std::exchange(other.address_, nullptr)), length_bytes_(other.length_bytes_) {}
    Pages& operator=(Pages&&) = delete;
    ~Pages() {
        if (address_ != nullptr) {
            munmap(address_, length_bytes_);
        }
    }

    std::uintptr_t address() const noexcept { return reinterpret_cast<std::uintptr_t>(address_); }
    std::size_t length_bytes() const noexcept { return length_bytes_; }
    void* release() noexcept { return std::exchange(address_, nullptr); }

  private:
    Pages(void* address, std::size_t length_bytes) noexcept
        : address_(address), length_bytes_(length_bytes) {}

    void* address_;
    std::size_t length_bytes_;
};

// A line's bytes, or those that are its region's, on each side. Devices and other threads of the program's
// may be at their neighbours: hence byte by byte, and without the thread sanitizer, whose rules hardware
// doesn't know.
struct LineView {
    volatile std::uint8_t* cpu;
    volatile std::uint8_t* shadow;
    volatile std::uint8_t* former; // what both held when they were the same
    std::size_t length;

    __attribute__((no_sanitize("thread"), noinline)) bool is_dirty() const noexcept {
        for (std::size_t i = 0; i < length; ++i) {
            if (cpu[i] != former[i]) {
                return true;
            }
        }
        return false;
    }
    // By the device, since both were the same.
    __attribute__((no_sanitize("thread"), noinline)) bool is_written() const noexcept {
        for (std::size_t i = 0; i < length; ++i) {
            if (shadow[i] != former[i]) {
                return true;
            }
        }
        return false;
    }
    __attribute__((no_sanitize("thread"), noinline)) bool differs() const noexcept {
        for (std::size_t i = 0; i < length; ++i) {
            if (cpu[i] != shadow[i]) {
                return true;
            }
        }
        return false;
    }
    __attribute__((no_sanitize("thread"), noinline)) void write_back() const noexcept {
        for (std::size_t i = 0; i < length; ++i) {
            const std::uint8_t byte = cpu[i];
            shadow[i] = byte;
            former[i] = byte;
        }
    }
    // Stores only what differs: the program may not be allowed to write there, nor the device.
    __attribute__((no_sanitize("thread"), noinline)) void fetch() const noexcept {
        for (std::size_t i = 0; i < length; ++i) {
            const std::uint8_t byte = shadow[i];
            if (cpu[i] != byte) {
                cpu[i] = byte;
            }
            former[i] = byte;
        }
    }
};

} // namespace sluice::dapl
