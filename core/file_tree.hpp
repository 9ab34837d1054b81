// SPDX-License-Identifier: BSD-3-Clause
//
// The files that tell about a machine: /sys, /proc and /etc of this one, or those that were
// recorded under a directory. Everything that asks about a machine reads through here, so a test
// can play any machine.
//
// What is read is hostile: paths have a bounded length, links are followed a bounded number of
// times and never out of the tree, only regular files are opened, and never more than a stated
// number of bytes is read.
//
// Thread safety: a FileTree never changes; calls are independent of each other.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/descriptor.hpp"
#include "core/result.hpp"

namespace sluice {

struct FileStatus {
    unsigned owner;
    unsigned mode;
};

// Whether a file that misleads this program could do harm beyond an ordinary user's rights: it runs as
// root, or with more rights than its caller (setuid, file capabilities). Root of a user namespace that holds
// nobody but an ordinary user has that user's rights. There the machine's root, to whom /etc belongs, looks
// like a stranger.
bool runs_with_privileges() noexcept;
// Whether UID_MAP, the text of a /proc/PID/uid_map, has one user and no more, and not the root outside.
bool holds_one_ordinary_user(std::string_view uid_map) noexcept;
// Whether such a program may do what the file says: it belongs to root, and nobody else may write
// it.
bool is_trustworthy(const FileStatus& status) noexcept;

class FileTree {
  public:
    static constexpr std::size_t kMaxLine = 8192; // of read_lines()

    // ROOT is a directory of this machine; "" or "/" is this machine itself. Paths below are
    // absolute and mean what they mean on the machine that ROOT holds.
    explicit FileTree(std::string_view root = "");

    // Whether this is the machine that we run on, which may be asked more than its files.
    bool is_live() const noexcept { return root_.empty(); }

    // The path without any link in it.
    Result<std::string> resolve(std::string_view path) const;

    // Whether it leads to something.
    bool exists(std::string_view path) const;
    // Whether there is something by that name, be it a link that leads nowhere.
    bool has_entry(std::string_view path) const;

    // The content of a regular file; kOutOfRange if it is longer than LIMIT_BYTES. STATUS gets that
    // of the very file that was read.
    Result<std::string> read(std::string_view path, std::size_t limit_bytes,
                             FileStatus* status = nullptr) const;
    // Calls TAKE with each line of a regular file in turn, without its end, until TAKE says false; a line of
    // more than kMaxLine bytes in pieces. Allocates no more for a long file than for a short one. Errors as
    // read()'s, behind the lines that there are before.
    Result<void> read_lines(std::string_view path, std::size_t limit_bytes,
                            const std::function<bool(std::string_view)>& take) const;
    // The first line of a short file, without blanks at its ends; empty when there is none.
    std::string read_line(std::string_view path) const;

    // The names in a directory, sorted, without "." and ".."; kOutOfRange if there are too many.
    Result<std::vector<std::string>> list(std::string_view path) const;

    // Where PATH is on the machine that we run on. PATH is resolved already.
    std::string outside(std::string_view resolved) const { return root_ + std::string(resolved); }

  private:
    Result<Descriptor> open_regular(std::string_view path, FileStatus* status) const;

    std::string root_; // empty for "/"
};

// The path without its last name: "/sys" for "/sys/bus", "/" for "/sys" and "/".
std::string_view parent_of(std::string_view path) noexcept;
// The last name of a path.
std::string_view name_of(std::string_view path) noexcept;

} // namespace sluice
