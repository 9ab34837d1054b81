// SPDX-License-Identifier: BSD-3-Clause
#include "tools/plain_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace sluice::tools {

namespace {

constexpr std::size_t kMaxBytes = std::size_t{256} * 1024;

// On a disk that becomes full in between, the first write is short and says nothing of the reason; the next
// one does.
bool write_all(int fd, std::string_view content) {
    while (!content.empty()) {
        const ssize_t written = write(fd, content.data(), content.size());
        if (written < 0) {
            return false;
        }
        content.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
}

} // namespace

Failure system_failure(const std::string& what) {
    const int error = errno;
    const char* const advice = error == EACCES || error == EPERM ? "; run it as root" : "";
    return {kExitFailure, what + ": " + std::strerror(error) + advice};
}

PlainFile read_plain_file(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        if (errno == ENOENT) {
            return {};
        }
        if (errno == ELOOP) {
            return {.exists = true, .is_plain = false, .content = ""};
        }
        throw system_failure(path);
    }
    std::string content(kMaxBytes + 1, '\0');
    const ssize_t length = read(fd, content.data(), content.size());
    close(fd);
    if (length < 0 || static_cast<std::size_t>(length) == content.size()) {
        return {.exists = true, .is_plain = false, .content = ""};
    }
    content.resize(static_cast<std::size_t>(length));
    return {.exists = true, .is_plain = true, .content = std::move(content)};
}

void write_atomically(const std::string& path, std::string_view content) {
    const std::string directory = path.substr(0, path.rfind('/'));
    std::string temporary = directory + "/." + path.substr(path.rfind('/') + 1) + ".XXXXXX";
    const int fd = mkostemp(temporary.data(), O_CLOEXEC);
    if (fd < 0) {
        throw system_failure(directory);
    }
    const bool written = write_all(fd, content) && fchmod(fd, 0644) == 0 && fsync(fd) == 0;
    const int write_errno = errno;
    close(fd);
    if (!written || rename(temporary.c_str(), path.c_str()) != 0) {
        const int error = written ? errno : write_errno;
        unlink(temporary.c_str());
        errno = error;
        throw system_failure(path);
    }
}

} // namespace sluice::tools
