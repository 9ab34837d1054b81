// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/device/counter_reader.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>
#include <string_view>

#include "core/descriptor.hpp"
#include "core/log.hpp"
#include "core/settings.hpp"
#include "provider/uroce/device/counter_format.hpp"

namespace sluice::uroce::device {

namespace {

// Files of ended processes: as many as there may be, and what stays of them when there are more.
constexpr std::size_t kMostEnded = 256;
constexpr std::size_t kKeptEnded = 128;
// Anybody can put names into /tmp: no more are looked at.
constexpr std::size_t kMostNames = 8192;
// In which the process that made a file has locked it.
constexpr std::time_t kLongestStartSeconds = 60;

using OpenDirectory = std::unique_ptr<DIR, decltype([](DIR* open) { closedir(open); })>;

bool is_ours(const struct stat& status) noexcept {
    return S_ISREG(status.st_mode) && status.st_uid == geteuid() && (status.st_mode & 077) == 0;
}

struct Entry {
    std::string name;
    struct stat status;
};

bool operator<(const Entry& left, const Entry& right) noexcept {
    const timespec &a = left.status.st_ctim, &b = right.status.st_ctim;
    return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

std::vector<Entry> entries_of(DIR* directory) {
    std::vector<Entry> all;
    for (std::size_t looked_at = 0; looked_at < kMostNames; ++looked_at) {
        const dirent* const entry = readdir(directory);
        if (entry == nullptr) {
            break;
        }
        struct stat status {};
        if (std::string_view(entry->d_name).starts_with(kCounterFilePrefix) &&
            fstatat(dirfd(directory), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && is_ours(status)) {
            all.push_back({entry->d_name, status});
        }
    }
    return all;
}

// Never one that this process holds: its lock would go with the descriptor. Null: it isn't what it was.
Descriptor open_entry(DIR* directory, const Entry& entry) noexcept {
    Descriptor file(
        openat(dirfd(directory), entry.name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat status {};
    const bool same = file.get() >= 0 && fstat(file.get(), &status) == 0 && is_ours(status) &&
                      status.st_ino == entry.status.st_ino && status.st_dev == entry.status.st_dev;
    return same ? std::move(file) : Descriptor();
}

// The process that holds the file, by its number here; 0: one that has none here. Nothing: it has ended.
std::optional<std::int64_t> holder_of(int file) noexcept {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    if (fcntl(file, F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) {
        return std::nullopt;
    }
    return std::max<std::int64_t>(lock.l_pid, 0);
}

// What is in FILE from BEGIN to END, or to its own end.
std::vector<std::uint8_t> bytes_between(int file, std::size_t begin, std::size_t end) {
    std::vector<std::uint8_t> bytes(end - begin);
    std::size_t got = 0;
    while (got < bytes.size()) {
        const ssize_t more =
            pread(file, bytes.data() + got, bytes.size() - got, static_cast<off_t>(begin + got));
        if (more <= 0) {
            break;
        }
        got += static_cast<std::size_t>(more);
    }
    bytes.resize(got);
    return bytes;
}

// Rooms that were never used have no memory in the file; there may be hundreds of files.
std::vector<std::uint8_t> rooms_of(int file) {
    const off_t hole = lseek(file, kRoomsAt, SEEK_HOLE);
    const bool is_known = hole >= static_cast<off_t>(kRoomsAt) && hole < static_cast<off_t>(kRowsHeadAt);
    return bytes_between(file, 0, is_known ? static_cast<std::size_t>(hole) : kRowsHeadAt);
}

std::vector<std::uint8_t> rows_of(int file) {
    constexpr std::size_t kHeadBytes = kRowsAt - kRowsHeadAt;
    std::vector<std::uint8_t> bytes = bytes_between(file, kRowsHeadAt, kRowsAt);
    std::uint64_t used = 0;
    if (bytes.size() == kHeadBytes) {
        std::memcpy(&used, bytes.data() + offsetof(RowsHeader, used), sizeof used);
    }
    if (used != 0) {
        const std::vector<std::uint8_t> rows =
            bytes_between(file, kRowsAt, kRowsAt + std::min<std::uint64_t>(used, kMaxRows) * kRowBytes);
        bytes.insert(bytes.end(), rows.begin(), rows.end());
    }
    return bytes;
}

std::optional<ProcessUse> read_entry(DIR* directory, const Entry& entry, int own) {
    struct stat status {};
    const bool is_own = own >= 0 && fstat(own, &status) == 0 && status.st_ino == entry.status.st_ino &&
                        status.st_dev == entry.status.st_dev;
    const Descriptor file = is_own ? Descriptor() : open_entry(directory, entry);
    if (!is_own && file.get() < 0) {
        return std::nullopt;
    }
    const int readable = is_own ? own : file.get();
    const std::vector<std::uint8_t> rooms = rooms_of(readable);
    const std::vector<std::uint8_t> rows = rows_of(readable);
    Result<ProcessUse> use = parse_counters({rooms, rows});
    if (!use) {
        SLUICE_LOG(kInfo, "uroce", "%s isn't read: %s", entry.name.c_str(), use.error().text());
        return std::nullopt;
    }
    const std::optional<std::int64_t> holder = is_own ? getpid() : holder_of(file.get());
    use->is_running = holder.has_value();
    use->pid = holder.value_or(0) > 0 ? *holder : use->pid;
    return *std::move(use);
}

} // namespace

std::vector<std::string> counter_directories() {
    if (getauxval(AT_SECURE) != 0) {
        return {};
    }
    const char* const said = setting_value(Setting::kUroceCounters);
    if (said != nullptr && said[0] != '\0') {
        return said == std::string_view("no") ? std::vector<std::string>() : std::vector<std::string>{said};
    }
    std::vector<std::string> all{"/dev/shm"};
    for (const char* name : {"XDG_RUNTIME_DIR", "TMPDIR"}) {
        const char* const value = secure_getenv(name);
        if (value != nullptr && value[0] == '/') {
            all.emplace_back(value);
        }
    }
    all.emplace_back("/tmp");
    return all;
}

Result<std::vector<ProcessUse>> read_counters(int own) {
    std::vector<ProcessUse> all;
    bool any = false;
    std::string places;
    for (const std::string& path : counter_directories()) {
        places += (places.empty() ? "" : ", ") + path;
        const OpenDirectory directory(opendir(path.c_str()));
        if (directory == nullptr) {
            continue;
        }
        any = true;
        for (const Entry& entry : entries_of(directory.get())) {
            if (std::optional<ProcessUse> use = read_entry(directory.get(), entry, own)) {
                all.push_back(*std::move(use));
            }
        }
    }
    if (!any) {
        return Error::format(
            ErrorKind::kNotFound, 0,
            "processes keep no counters here: %s%s; name a directory in SLUICE_UROCE_COUNTERS",
            places.empty() ? "SLUICE_UROCE_COUNTERS says \"no\"" : "no directory can be read of ",
            places.c_str());
    }
    std::ranges::stable_sort(all, {}, &ProcessUse::opened_ns);
    return all;
}

void remove_old_counters(const std::string& path) {
    const OpenDirectory directory(opendir(path.c_str()));
    if (directory == nullptr) {
        return;
    }
    std::vector<Entry> entries = entries_of(directory.get());
    if (entries.size() <= kMostEnded) {
        return;
    }
    std::ranges::sort(entries, [](const Entry& left, const Entry& right) { return left < right; });
    std::erase_if(entries, [&](const Entry& entry) {
        const Descriptor file = open_entry(directory.get(), entry);
        const bool starts = std::time(nullptr) - entry.status.st_ctim.tv_sec < kLongestStartSeconds &&
                            entry.status.st_size == 0;
        return file.get() < 0 || starts || holder_of(file.get()).has_value();
    });
    for (std::size_t i = 0; i + kKeptEnded < entries.size(); ++i) {
        unlinkat(dirfd(directory.get()), entries[i].name.c_str(), 0);
    }
}

} // namespace sluice::uroce::device
