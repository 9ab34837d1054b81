// SPDX-License-Identifier: BSD-3-Clause
#include "tools/check/findings_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "tools/output.hpp"
#include "tools/scratch.hpp"

namespace sluice::tools::check {

namespace {

constexpr std::size_t kPiece = 65536;

} // namespace

FindingsFile::FindingsFile() : buffer_(kPiece, '\0') {
    for (const std::string& folder : scratch_folders()) {
        // An absolute path: programs change their working directory.
        std::string path = folder + "/sluice-check-XXXXXX";
        if ((fd_ = mkostemp(path.data(), O_CLOEXEC)) >= 0) {
            path_ = path;
            return;
        }
    }
    throw Failure(kExitFailure, "check: no file for what is found can be made in $TMPDIR, /dev/shm or /tmp");
}

FindingsFile::~FindingsFile() {
    unlink(path_.c_str());
    close(fd_);
}

std::uint64_t FindingsFile::size() const {
    struct stat status {};
    return fstat(fd_, &status) == 0 ? static_cast<std::uint64_t>(std::max<off_t>(status.st_size, 0)) : 0;
}

std::string_view FindingsFile::read_next(std::uint64_t end) {
    const std::size_t wanted = std::min<std::uint64_t>(kPiece, end - std::min(end, read_bytes_));
    ssize_t got = 0;
    do {
        got = pread(fd_, buffer_.data(), wanted, static_cast<off_t>(read_bytes_));
    } while (got < 0 && errno == EINTR);
    const auto bytes = static_cast<std::size_t>(std::max<ssize_t>(got, 0));
    read_bytes_ += bytes;
    return std::string_view(buffer_).substr(0, bytes);
}

} // namespace sluice::tools::check
