// SPDX-License-Identifier: BSD-3-Clause
//
// A file descriptor that is closed with its owner.
#pragma once

#include <unistd.h>

#include <utility>

namespace sluice {

// A thread isn't cancelled in there, as it would be in close(). No part of each destructor, of which there
// are many.
void close_descriptor(int fd) noexcept;

class Descriptor {
  public:
    Descriptor() noexcept = default;
    explicit Descriptor(int fd) noexcept : fd_(fd) {}
    Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~Descriptor() { reset(); }

    void reset() noexcept {
        if (fd_ >= 0) {
            close_descriptor(std::exchange(fd_, -1));
        }
    }

    // The caller closes it.
    int release() noexcept { return std::exchange(fd_, -1); }

    // -1: there is none.
    int get() const noexcept { return fd_; }

  private:
    int fd_ = -1;
};

} // namespace sluice
