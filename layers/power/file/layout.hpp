// SPDX-License-Identifier: BSD-3-Clause
//
// The directory of a run of `sluice persist run`, as the command makes it and libsluice-power.so uses it:
//
//     control     a Control, and behind it a State for each file
//     files       paths, one a line: the simulated files, in the order of their numbers
//     N.durable   what of file N survives a cut now
//     N.numbers   for each of its lines, the number of the look at the file that the line is from
//     cut         a pipe with a name: a byte comes when the power is cut
//     lock        of all processes (layers/hosts)
//
// The file itself, at its path, is what the CPUs' caches show. Numbers are in the host's order of bytes.
#pragma once

#include <sys/stat.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace sluice::layers::power::file {

inline constexpr std::array<char, 8> kMagic = {'S', 'L', 'P', 'O', 'W', 'E', 'R', '2'};
inline constexpr const char* kControl = "control";
inline constexpr const char* kFiles = "files";
inline constexpr const char* kCut = "cut";
inline constexpr std::uint64_t kLineBytes = 64;
inline constexpr std::uint64_t kWordBytes = 8; // what is stored whole, or not at all

// What changes is under the lock of all processes.
struct Control {
    std::array<char, 8> magic;
    std::uint64_t cut_at;      // the power is cut before this step; 0: never
    std::uint64_t steps;       // that were begun
    std::uint32_t is_ddio_off; // what devices write is pushed to memory by a Read behind it
    std::uint32_t is_cut;
    std::uint32_t has_failed;  // what survives is no longer known; a line on standard error says why
    std::int32_t pid;          // of the last step's process
    std::array<char, 56> call; // of the last step
};

// Which file stands at a simulated file's path. Under the same lock.
struct State {
    std::uint64_t device;
    std::uint64_t inode;
    std::uint32_t exists;
    std::uint32_t changes; // how often there was another file, or none

    bool is_same(const State& other) const noexcept {
        return exists == other.exists && (exists == 0 || (device == other.device && inode == other.inode));
    }
};

inline State state_of(const struct stat& status) noexcept {
    return {status.st_dev, status.st_ino, 1, 0};
}

inline std::string durable_name(std::size_t number) {
    return std::to_string(number) + ".durable";
}
inline std::string numbers_name(std::size_t number) {
    return std::to_string(number) + ".numbers";
}

} // namespace sluice::layers::power::file
