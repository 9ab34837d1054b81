// SPDX-License-Identifier: BSD-3-Clause
#include "core/file_tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <system_error>
#include <utility>

namespace sluice {

namespace {

constexpr int kMaxLinks = 40; // as the kernel
constexpr std::size_t kMaxEntries = 4096;
constexpr std::size_t kShortFile = 4096;

Error file_error(int os_errno, std::string_view path) {
    return Error::format(kind_of_errno(os_errno), os_errno, "%.*s: %s", static_cast<int>(path.size()),
                         path.data(), strerrordesc_np(os_errno));
}

// Root of the machine, or of a namespace with several users in it. Says yes where /proc is missing.
bool is_root_among_others() noexcept {
    std::array<char, 256> map{};
    const Descriptor file(open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC | O_NOCTTY));
    const ssize_t size = file.get() < 0 ? -1 : ::read(file.get(), map.data(), map.size());
    return size < 0 || !holds_one_ordinary_user({map.data(), static_cast<std::size_t>(size)});
}

// Takes the first number off TEXT; false if there is none.
bool take_number(std::string_view& text, std::uint32_t& number) noexcept {
    text.remove_prefix(std::min(text.find_first_not_of(" \n"), text.size()));
    const std::from_chars_result parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    text.remove_prefix(static_cast<std::size_t>(parsed.ptr - text.data()));
    return parsed.ec == std::errc();
}

// Takes the first name off PATH.
std::string_view next_name(std::string_view& path) {
    path.remove_prefix(std::min(path.find_first_not_of('/'), path.size()));
    const std::string_view name = path.substr(0, path.find('/'));
    path.remove_prefix(name.size());
    return name;
}

} // namespace

bool runs_with_privileges() noexcept {
    return getauxval(AT_SECURE) != 0 || (geteuid() == 0 && is_root_among_others());
}

bool holds_one_ordinary_user(std::string_view uid_map) noexcept {
    std::uint32_t inside = 0;
    std::uint32_t outside = 0;
    std::uint32_t count = 0;
    return take_number(uid_map, inside) && take_number(uid_map, outside) && take_number(uid_map, count) &&
           outside != 0 && count == 1 && uid_map.find_first_not_of(" \n") == std::string_view::npos;
}

bool is_trustworthy(const FileStatus& status) noexcept {
    return status.owner == 0 && (status.mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::string_view parent_of(std::string_view path) noexcept {
    const std::size_t slash = path.rfind('/');
    return slash == std::string_view::npos || slash == 0 ? std::string_view("/") : path.substr(0, slash);
}

std::string_view name_of(std::string_view path) noexcept {
    return path.substr(path.rfind('/') + 1);
}

FileTree::FileTree(std::string_view root) : root_(root) {
    while (root_.ends_with('/')) {
        root_.pop_back();
    }
}

// Walks name by name, because the kernel would follow an absolute link out of the tree.
Result<std::string> FileTree::resolve(std::string_view path) const {
    std::string rest(path);
    std::string_view ahead = rest;
    std::string done;
    int links = 0;
    while (true) {
        const std::string_view name = next_name(ahead);
        if (name.empty()) {
            return done.empty() ? std::string("/") : done;
        }
        if (name == "." || name == "..") {
            done.resize(name == "."                            ? done.size()
                        : done.rfind('/') == std::string::npos ? 0
                                                               : done.rfind('/'));
            continue;
        }
        const std::string next = done + "/" + std::string(name);
        if (next.size() >= PATH_MAX) {
            return file_error(ENAMETOOLONG, path.substr(0, 64));
        }
        std::array<char, PATH_MAX> target{};
        const ssize_t length = readlink(outside(next).c_str(), target.data(), target.size() - 1);
        if (length < 0) {
            // EINVAL: it is there, and no link.
            if (errno != EINVAL) {
                return file_error(errno, path);
            }
            done = next;
            continue;
        }
        if (++links > kMaxLinks) {
            return file_error(ELOOP, path);
        }
        std::string new_rest(target.data(), static_cast<std::size_t>(length));
        if (new_rest.starts_with('/')) {
            done.clear();
        }
        new_rest.append(ahead);
        if (new_rest.size() >= PATH_MAX) {
            return file_error(ENAMETOOLONG, path.substr(0, 64));
        }
        rest = std::move(new_rest);
        ahead = rest;
    }
}

bool FileTree::exists(std::string_view path) const {
    return resolve(path).ok();
}

bool FileTree::has_entry(std::string_view path) const {
    const Result<std::string> directory = resolve(parent_of(path));
    struct stat status {};
    return directory && lstat((outside(*directory) + "/" + std::string(name_of(path))).c_str(), &status) == 0;
}

namespace {

// Zero: there is no more.
Result<std::size_t> read_some(const Descriptor& file, std::string_view path, std::span<char> to) {
    while (true) {
        const ssize_t count = ::read(file.get(), to.data(), to.size());
        if (count >= 0) {
            return static_cast<std::size_t>(count);
        }
        if (errno != EINTR) {
            return file_error(errno, path);
        }
    }
}

Error too_long(std::string_view path, std::size_t limit_bytes) {
    return Error::format(ErrorKind::kOutOfRange, 0, "%.*s: longer than %zu bytes",
                         static_cast<int>(path.size()), path.data(), limit_bytes);
}

// Grows with what is there: the limit may be a thousand times as much, and clearing it takes longer than
// reading.
Result<std::string> read_all(const Descriptor& file, std::string_view path, std::size_t limit_bytes) {
    constexpr std::size_t kFirst = 4096;
    std::string content(std::min(limit_bytes + 1, kFirst), '\0');
    for (std::size_t size = 0;;) {
        const Result<std::size_t> count =
            read_some(file, path, {content.data() + size, content.size() - size});
        if (!count) {
            return count.error().clone();
        }
        size += *count;
        if (*count == 0) {
            content.resize(size);
            return content;
        }
        if (size > limit_bytes) {
            return too_long(path, limit_bytes);
        }
        if (size == content.size()) {
            content.resize(std::min(limit_bytes + 1, 2 * size));
        }
    }
}

// Takes whole lines off TEXT. False: no more are wanted.
bool take_lines(std::string_view& text, const std::function<bool(std::string_view)>& take) {
    for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
        const std::string_view line = text.substr(0, end);
        text.remove_prefix(end + 1);
        if (!take(line)) {
            return false;
        }
    }
    return true;
}

} // namespace

Result<Descriptor> FileTree::open_regular(std::string_view path, FileStatus* file_status) const {
    Result<std::string> resolved = resolve(path);
    if (!resolved) {
        return std::move(resolved).error();
    }
    // Not blocking: somebody may have put a pipe there.
    Descriptor file(
        open(outside(*resolved).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
    struct stat status {};
    if (file.get() < 0 || fstat(file.get(), &status) != 0) {
        return file_error(errno, path);
    }
    if (!S_ISREG(status.st_mode)) {
        return Error::format(ErrorKind::kInvalidArgument, 0, "%.*s: not a regular file",
                             static_cast<int>(path.size()), path.data());
    }
    if (file_status != nullptr) {
        *file_status = {status.st_uid, status.st_mode};
    }
    return file;
}

Result<std::string> FileTree::read(std::string_view path, std::size_t limit_bytes,
                                   FileStatus* file_status) const {
    Result<Descriptor> file = open_regular(path, file_status);
    return file ? read_all(*file, path, limit_bytes) : std::move(file).error();
}

Result<void> FileTree::read_lines(std::string_view path, std::size_t limit_bytes,
                                  const std::function<bool(std::string_view)>& take) const {
    Result<Descriptor> file = open_regular(path, nullptr);
    if (!file) {
        return std::move(file).error();
    }
    std::array<char, kMaxLine> buffer; // what has been read and not taken is at its front
    std::size_t held = 0;
    for (std::size_t size = 0;;) {
        const Result<std::size_t> count =
            read_some(*file, path, {buffer.data() + held, buffer.size() - held});
        if (!count) {
            return count.error().clone();
        }
        size += *count;
        if (size > limit_bytes) {
            return too_long(path, limit_bytes);
        }
        std::string_view text(buffer.data(), held + *count);
        const bool is_all = *count == 0;
        bool goes_on = take_lines(text, take);
        if (goes_on && !text.empty() && (is_all || text.size() == buffer.size())) {
            goes_on = take(text);
            text.remove_prefix(text.size());
        }
        if (!goes_on || is_all) {
            return {};
        }
        held = text.size();
        std::memmove(buffer.data(), text.data(), held);
    }
}

std::string FileTree::read_line(std::string_view path) const {
    Result<std::string> content = read(path, kShortFile);
    if (!content) {
        return {};
    }
    std::string line = content->substr(0, content->find_first_of(std::string_view("\n\0", 2)));
    line.erase(0, line.find_first_not_of(" \t"));
    line.erase(line.find_last_not_of(" \t") + 1);
    return line;
}

Result<std::vector<std::string>> FileTree::list(std::string_view path) const {
    Result<std::string> resolved = resolve(path);
    if (!resolved) {
        return std::move(resolved).error();
    }
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(outside(*resolved).c_str()), closedir);
    if (!directory) {
        return file_error(errno, path);
    }
    std::vector<std::string> names;
    while (const dirent* entry = readdir(directory.get())) {
        const std::string_view name = entry->d_name;
        if (name == "." || name == "..") {
            continue;
        }
        if (names.size() == kMaxEntries) {
            return Error::format(ErrorKind::kOutOfRange, 0, "%.*s: more than %zu entries",
                                 static_cast<int>(path.size()), path.data(), kMaxEntries);
        }
        names.emplace_back(name);
    }
    std::ranges::sort(names);
    return names;
}

} // namespace sluice
