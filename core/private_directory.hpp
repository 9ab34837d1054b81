// SPDX-License-Identifier: BSD-3-Clause
//
// A directory of this process alone, for files that other libraries read:
// $XDG_RUNTIME_DIR/sluice-uroce-XXXXXX, or the same under $TMPDIR, /tmp or /dev/shm.
//
// It goes with its object, or at the end of a program that hasn't destroyed that. A process that was killed
// leaves its directory behind; the next that makes one removes it. What tells a living one is a lock on a
// file in it, which the system gives back whatever happens (process numbers would be wrong across
// containers).
#pragma once

#include <string>
#include <utility>

#include "core/descriptor.hpp"
#include "core/result.hpp"

namespace sluice {

class PrivateDirectory {
  public:
    // FILL gets the descriptor of the empty directory and answers whether it has written all that belongs
    // there. Where it hasn't, the next place is tried.
    template<typename Fill>
    static Result<PrivateDirectory> make(Fill&& fill) {
        return make_by([](void* context, int directory) { return (*static_cast<Fill*>(context))(directory); },
                       &fill);
    }

    PrivateDirectory(PrivateDirectory&& other) noexcept
        : lock_(std::move(other.lock_)), path_(std::exchange(other.path_, {})) {}
    PrivateDirectory& operator=(PrivateDirectory&&) = delete;
    PrivateDirectory(const PrivateDirectory&) = delete;
    PrivateDirectory& operator=(const PrivateDirectory&) = delete;
    ~PrivateDirectory();

    const std::string& path() const noexcept { return path_; }

  private:
    static Result<PrivateDirectory> make_by(bool (*fill)(void*, int), void* context);

    PrivateDirectory(std::string path, Descriptor lock) noexcept
        : lock_(std::move(lock)), path_(std::move(path)) {}

    // Before the path: a Result has an Error's text where this begins, and gcc takes the address of a short
    // string, which lies in itself, for that text.
    Descriptor lock_;
    std::string path_; // empty after a move
};

// For FILL: a line of TEXT in a new file, readable for its owner only.
bool write_line(int directory, const char* name, const std::string& text) noexcept;

// The same in place of what is there: a reader finds the one or the other.
bool replace_line(int directory, const char* name, const std::string& text);

} // namespace sluice
