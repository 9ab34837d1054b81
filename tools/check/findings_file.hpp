// SPDX-License-Identifier: BSD-3-Clause
//
// The file that findings are written to, which nobody else can read, and which goes with its owner.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::tools::check {

class FindingsFile {
  public:
    // Throws a Failure where none can be made.
    FindingsFile();
    ~FindingsFile();
    FindingsFile(const FindingsFile&) = delete;
    FindingsFile& operator=(const FindingsFile&) = delete;

    const std::string& path() const noexcept { return path_; }
    std::uint64_t size() const;
    // What follows what was read before, a piece of it, up to END; empty: there is no more. Good until the
    // next call.
    std::string_view read_next(std::uint64_t end);

  private:
    std::string path_;
    int fd_ = -1;
    std::uint64_t read_bytes_ = 0;
    std::string buffer_;
};

} // namespace sluice::tools::check
