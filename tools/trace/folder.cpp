// SPDX-License-Identifier: BSD-3-Clause
#include "tools/trace/folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <limits>

namespace sluice::tools::trace {

namespace {

// The program owns the directory, too, and may have put anything there: a link, a device, a pipe without a
// writer.
int open_recording(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    struct stat status {};
    if (fd >= 0 && (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))) {
        close(fd);
        return -1;
    }
    return fd;
}

std::size_t read_fully(int fd, std::uint64_t offset, char* to, std::size_t bytes) {
    std::size_t done = 0;
    while (done < bytes) {
        const ssize_t got = pread(fd, to + done, bytes - done, static_cast<off_t>(offset + done));
        if (got == 0 || (got < 0 && errno != EINTR)) {
            break;
        }
        done += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
    }
    return done;
}

std::uint64_t first_time_of(const Recording& recording) {
    return recording.events.empty() ? std::numeric_limits<std::uint64_t>::max()
                                    : recording.events.front().event.time_ns;
}

} // namespace

std::vector<Recording> TraceFolder::recordings(std::uint32_t most_blocks) const {
    std::vector<Recording> found;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(path(), error), end; !error && entry != end;
         entry.increment(error)) {
        const int fd = open_recording(entry->path().string());
        if (fd < 0) {
            continue;
        }
        const auto read = [fd](std::uint64_t offset, char* to, std::size_t bytes) {
            return read_fully(fd, offset, to, bytes);
        };
        if (std::optional<Recording> recording = read_recording(read, most_blocks)) {
            found.push_back(std::move(*recording));
        }
        close(fd);
    }
    std::ranges::stable_sort(found, {}, first_time_of);
    return found;
}

} // namespace sluice::tools::trace
