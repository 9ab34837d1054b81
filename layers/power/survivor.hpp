// SPDX-License-Identifier: BSD-3-Clause
//
// What survives of one simulated file: two files in the directory of the run, its bytes, and for each line
// the number of the look at the file that the line is from. They are opened anew for each use. A program may
// close any descriptor, such as all that it doesn't know, and have its next file there.
//
// Thread safety: under the lock of all processes. Nothing is allocated where all goes well: fsync() may be
// called in a signal's handler.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/descriptor.hpp"
#include "core/result.hpp"
#include "layers/power/file/layout.hpp"

namespace sluice::layers::power {

inline constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 20; // files are looked at in such pieces

// Room for one piece.
struct Room {
    std::array<std::byte, kPieceBytes> bytes;
    std::array<std::uint64_t, kPieceBytes / file::kLineBytes> numbers;
};

constexpr std::uint64_t in_whole_lines(std::uint64_t bytes) noexcept {
    return (bytes + file::kLineBytes - 1) / file::kLineBytes * file::kLineBytes;
}

// As many BYTES at OFFSET as FILE has.
Result<std::size_t> read_at(const Descriptor& file, std::uint64_t offset,
                            std::span<std::byte> bytes) noexcept;

class Survivor {
  public:
    Survivor(const std::string& directory, std::size_t number);

    // BYTES, which look NUMBER found at OFFSET, a line's; one piece at most. Lines that survive from a later
    // look stay as they are: what two threads flush may be drained in any order.
    Result<void> write(std::uint64_t offset, std::span<const std::byte> bytes, std::uint64_t number,
                       Room& room) const;
    // Nothing behind the first LENGTH bytes.
    Result<void> shorten(std::uint64_t length) const;

    // Puts it aside, and nothing is in its place until one of these three: what OTHER has put aside; what
    // FILE holds; or nothing.
    Result<void> put_aside() const;
    Result<void> take_from(const Survivor& other) const;
    Result<void> copy_of(const Descriptor& file, Room& room) const;
    Result<void> nothing() const;
    // What was put aside, and nobody has taken, is gone.
    void forget_aside() const noexcept;

  private:
    struct Name {
        std::string used;
        std::string aside;
    };

    Name durable_;
    Name numbers_;
};

} // namespace sluice::layers::power
