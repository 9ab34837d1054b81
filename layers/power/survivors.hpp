// SPDX-License-Identifier: BSD-3-Clause
//
// What survives of files: of each its bytes, and for each line the number of the look at the file that the
// line is from. They are files in the directory of the run, which are opened anew for each use. A program may
// close any descriptor, such as all that it doesn't know, and have its next file there.
//
// Thread safety: under the lock of all processes. Nothing is allocated where all goes well: fsync() may be
// called in a signal's handler.
#pragma once

#include <sys/resource.h>

#include <array>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/descriptor.hpp"
#include "core/result.hpp"
#include "core/sync.hpp"
#include "layers/power/file/layout.hpp"

namespace sluice::layers::power {

inline constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 20; // files are copied in such pieces

constexpr std::uint64_t in_whole_lines(std::uint64_t bytes) noexcept {
    return (bytes + file::kLineBytes - 1) / file::kLineBytes * file::kLineBytes;
}

// While one lives, the program may have as many descriptors as it can be allowed to.
class MoreDescriptors {
  public:
    MoreDescriptors() noexcept;
    ~MoreDescriptors();
    MoreDescriptors(const MoreDescriptors&) = delete;
    MoreDescriptors& operator=(const MoreDescriptors&) = delete;

  private:
    const LockGuard<Mutex> turn_; // two would take the other's limit for the program's
    rlimit former_{};
};

// PATH, also where the program has as many descriptors as it may. -1 in it, and errno: it can't be opened.
Descriptor open_anyhow(const char* path, int flags) noexcept;

class Survivors {
  public:
    explicit Survivors(std::string directory)
        : directory_(std::move(directory)), room_(std::make_unique_for_overwrite<Room>()) {}

    // A new one of what FILE holds; null: of nothing. Looks up to NUMBER don't count for it.
    Result<void> make(std::uint64_t survivor, const Descriptor* file, std::uint64_t number) const;
    void remove(std::uint64_t survivor) const noexcept;
    // How much of its file survives.
    std::uint64_t length(std::uint64_t survivor) const noexcept;

    // BYTES, which look NUMBER found at OFFSET, a line's. Lines that survive from a later look stay as they
    // are: what two threads flush may be drained in any order.
    Result<void> write(std::uint64_t survivor, std::uint64_t offset, std::span<const std::byte> bytes,
                       std::uint64_t number) const;
    // All that FILE holds, at look NUMBER, which is the last.
    Result<void> write_all(std::uint64_t survivor, int file, std::uint64_t number) const;
    // Nothing behind the first LENGTH bytes, not even of looks up to NUMBER; of BEFORE that the file had.
    Result<void> shorten(std::uint64_t survivor, std::uint64_t before, std::uint64_t length,
                         std::uint64_t number) const;

  private:
    // For one piece, and for a path.
    struct Room {
        std::array<std::byte, kPieceBytes> bytes;
        std::array<std::uint64_t, kPieceBytes / file::kLineBytes> numbers;
        std::array<char, PATH_MAX> path;
    };

    const char* path_of(std::uint64_t survivor, const char* kind) const noexcept;
    Result<Descriptor> open(std::uint64_t survivor, const char* kind, int flags) const;
    Result<void> copy(int from, const Descriptor& to) const;
    Result<void> write_piece(const Descriptor& durable, const Descriptor& numbers, std::uint64_t offset,
                             std::span<const std::byte> bytes, std::uint64_t number,
                             const file::Age& age) const;

    const std::string directory_;
    const std::unique_ptr<Room> room_;
};

} // namespace sluice::layers::power
