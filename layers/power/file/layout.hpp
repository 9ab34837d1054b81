// SPDX-License-Identifier: BSD-3-Clause
//
// The directory of a run of `sluice persist run`, as the command makes it and libsluice-power.so uses it:
//
//     control     a Control, and behind it two tables, each with a State for each file
//     files       paths, one a line: the simulated files, in the order of their numbers
//     N.durable   what survives a cut now of the file with N in its State
//     N.numbers   an Age, and for each line the number of the look at the file that the line is from
//     cut         a pipe with a name: a byte comes when the power is cut
//     lock        of all processes (layers/hosts)
//
// The file itself, at its path, is what the CPUs' caches show. Numbers are in the host's order of bytes.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>

namespace sluice::layers::power::file {

inline constexpr std::array<char, 8> kMagic = {'S', 'L', 'P', 'O', 'W', 'E', 'R', '4'};
inline constexpr const char* kControl = "control";
inline constexpr const char* kFiles = "files";
inline constexpr const char* kCut = "cut";
inline constexpr std::uint64_t kLineBytes = 64;
inline constexpr std::uint64_t kWordBytes = 8; // what is stored whole, or not at all

// What changes is under the lock of all processes, but for is_ended and is_busy.
struct Control {
    std::array<char, 8> magic;
    std::uint64_t cut_at;        // the power is cut before this step; 0: never
    std::uint64_t steps;         // that were begun
    std::uint64_t next_survivor; // which number another one gets
    std::uint32_t is_ddio_off;   // what devices write is pushed to memory by a Read behind it
    std::uint32_t is_cut;        // no step is taken any more
    std::uint32_t has_failed;    // what survives is no longer known; a line on standard error says why
    std::uint32_t is_ended;      // by the command, which looks at what is left: nothing changes any more
    std::uint32_t is_busy;       // somebody changes something. Partner: is_ended
    std::uint32_t table;         // which one counts: 0 or 1. The other is written, and then is the one
    std::int32_t pid;            // of the last step's process
    std::array<char, 56> call;   // of the last step
};

inline constexpr std::uint64_t kNoSurvivor = UINT64_MAX; // of a file that isn't there

// Which file or directory something is.
struct Identity {
    std::uint64_t device;
    std::uint64_t inode;
    std::uint64_t birth_ns; // 0: the file system doesn't tell. Numbers of inodes are used again

    bool operator==(const Identity&) const noexcept = default;
};

// Which file stands at a simulated file's path, and what of it survives. Under the same lock.
struct State {
    Identity file;
    std::uint64_t exists;
    std::uint64_t survivor;
    std::uint64_t length; // when somebody looked last
    Identity directory;   // where it stands, for processes that see it

    bool is_same(const State& other) const noexcept {
        return exists == other.exists && (exists == 0 || file == other.file);
    }
};

// Of the control file, where there are FILES.
constexpr std::size_t table_offset(std::uint32_t table, std::size_t files) noexcept {
    return sizeof(Control) + (table % 2) * files * sizeof(State);
}
constexpr std::size_t control_bytes(std::size_t files) noexcept {
    return sizeof(Control) + 2 * files * sizeof(State);
}

inline Identity identity_of(const struct statx& status) noexcept {
    const std::uint64_t device = std::uint64_t{status.stx_dev_major} << 32 | status.stx_dev_minor;
    const bool has_birth = (status.stx_mask & STATX_BTIME) != 0;
    const std::uint64_t birth_ns =
        has_birth
            ? static_cast<std::uint64_t>(status.stx_btime.tv_sec) * 1'000'000'000 + status.stx_btime.tv_nsec
            : 0;
    return {device, status.stx_ino, birth_ns};
}

// 0, or an errno: of what stands at PATH.
inline int look_at(const char* path, struct statx& status) noexcept {
    return statx(AT_FDCWD, path, 0, STATX_BASIC_STATS | STATX_BTIME, &status) == 0 ? 0 : errno;
}

// Which looks no longer count: those with a number up to ALL, for every line. And the last cut: what an
// earlier look holds behind CUT_LENGTH is gone. Lines behind that have its number.
struct Age {
    std::uint64_t all; // the survivor was made, or all of the file was written, then
    std::uint64_t cut;
    std::uint64_t cut_length; // in bytes
};

inline std::string durable_name(std::uint64_t number) {
    return std::to_string(number) + ".durable";
}
inline std::string numbers_name(std::uint64_t number) {
    return std::to_string(number) + ".numbers";
}

} // namespace sluice::layers::power::file
