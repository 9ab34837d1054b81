// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/device/sysfs_directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "core/log.hpp"
#include "core/sync.hpp"

namespace sluice::uroce::device {

namespace {

constexpr std::string_view kPrefix = "sluice-uroce-";
constexpr const char* kLock = "/lock";
constexpr const char* kLockBefore = "/lock.new";

constexpr const char* kFolders[] = {"/ports",
                                    "/ports/1",
                                    "/ports/1/gids",
                                    "/ports/1/pkeys",
                                    "/ports/1/gid_attrs",
                                    "/ports/1/gid_attrs/types",
                                    "/ports/1/gid_attrs/ndevs"};

struct File {
    const char* name;
    std::string text;
};

std::array<File, 5> files_of(const LocalAddress& where) {
    const std::uint64_t guid = guid_of(where.gid);
    char guid_text[24];
    std::snprintf(guid_text, sizeof guid_text, "%04x:%04x:%04x:%04x", static_cast<unsigned>(guid >> 48),
                  static_cast<unsigned>(guid >> 32 & 0xffff), static_cast<unsigned>(guid >> 16 & 0xffff),
                  static_cast<unsigned>(guid & 0xffff));
    return {{{"/node_guid", guid_text},
             {"/ports/1/gids/0", gid_text(where.gid)},
             {"/ports/1/pkeys/0", "0xffff"},
             {"/ports/1/gid_attrs/types/0", "RoCE v2"},
             {"/ports/1/gid_attrs/ndevs/0", where.interface}}};
}

void remove_all(const std::string& path) noexcept {
    for (const File& file : files_of({})) {
        unlink((path + file.name).c_str());
    }
    for (std::size_t i = std::size(kFolders); i-- > 0;) {
        rmdir((path + kFolders[i]).c_str());
    }
    unlink((path + kLockBefore).c_str());
    unlink((path + kLock).c_str());
    rmdir(path.c_str());
}

bool write_file(const std::string& path, const std::string& text) noexcept {
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return false;
    }
    const std::string line = text + "\n";
    const bool written = write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
    close(fd);
    return written;
}

bool fill(const std::string& path, const LocalAddress& where) {
    for (const char* folder : kFolders) {
        if (mkdir((path + folder).c_str(), 0700) != 0) {
            return false;
        }
    }
    for (const File& file : files_of(where)) {
        if (!write_file(path + file.name, file.text)) {
            return false;
        }
    }
    return true;
}

// The lock file gets its name when it is locked already: nobody takes a new directory for an old one.
int make_lock(const std::string& path) noexcept {
    const int fd = open((path + kLockBefore).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0 && (flock(fd, LOCK_EX | LOCK_NB) != 0 ||
                    rename((path + kLockBefore).c_str(), (path + kLock).c_str()) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

// Ours, and the process that made it has ended.
void remove_if_stale(const std::string& path) noexcept {
    const int fd = open((path + kLock).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return;
    }
    struct stat status {};
    if (fstat(fd, &status) == 0 && status.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0) {
        SLUICE_LOG(kInfo, "uroce", "removing %s, which a process that was killed left behind", path.c_str());
        remove_all(path);
    }
    close(fd);
}

// The directories of this process. A program may end without having closed its devices, whose destructors
// don't run then.
class Present {
  public:
    static Present& instance() {
        static Present* const present = new Present; // never destroyed: it is needed at the very end
        return *present;
    }
    void add(const std::string& path) {
        const LockGuard guard(mutex_);
        if (!registered_) {
            registered_ = std::atexit(remove_at_exit) == 0;
        }
        paths_.push_back({path, getpid()});
    }
    void forget(const std::string& path) noexcept {
        const LockGuard guard(mutex_);
        std::erase_if(paths_, [&](const Made& made) { return made.path == path; });
    }

  private:
    struct Made {
        std::string path;
        pid_t owner; // in the child of a fork, those of before are the parent's
    };

    static void remove_at_exit() noexcept {
        Present& present = instance();
        const LockGuard guard(present.mutex_);
        for (const Made& made : present.paths_) {
            if (made.owner == getpid()) {
                remove_all(made.path);
            }
        }
    }

    Mutex mutex_; // nobody forks while one opens or closes a device
    std::vector<Made> paths_ SLUICE_TSA(guarded_by(mutex_));
    bool registered_ SLUICE_TSA(guarded_by(mutex_)) = false;
};

void remove_stale(const std::string& base) {
    const auto close_dir = [](DIR* open) { closedir(open); };
    const std::unique_ptr<DIR, decltype(close_dir)> dir(opendir(base.c_str()), close_dir);
    if (dir == nullptr) {
        return;
    }
    while (const dirent* entry = readdir(dir.get())) {
        if (std::string_view(entry->d_name).starts_with(kPrefix)) {
            remove_if_stale(base + "/" + entry->d_name);
        }
    }
}

} // namespace

std::string gid_text(const engine::Address& address) {
    std::string text;
    for (std::size_t i = 0; i < address.gid.size(); i += 2) {
        char group[8];
        std::snprintf(group, sizeof group, "%s%02x%02x", i == 0 ? "" : ":", unsigned{address.gid[i]},
                      unsigned{address.gid[i + 1]});
        text += group;
    }
    return text;
}

// FNV-1a, with the bit that says "given locally".
std::uint64_t guid_of(const engine::Address& address) noexcept {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const std::uint8_t byte : address.gid) {
        hash = (hash ^ byte) * 0x100000001b3;
    }
    return hash | std::uint64_t{2} << 56;
}

Result<SysfsDirectory> SysfsDirectory::make(const LocalAddress& where) {
    for (const char* base : {static_cast<const char*>(secure_getenv("XDG_RUNTIME_DIR")),
                             static_cast<const char*>(secure_getenv("TMPDIR")), "/tmp", "/dev/shm"}) {
        if (base == nullptr || base[0] != '/') {
            continue;
        }
        remove_stale(base);
        std::string path = std::string(base) + "/" + std::string(kPrefix) + "XXXXXX";
        if (mkdtemp(path.data()) == nullptr) {
            continue;
        }
        const int lock = make_lock(path);
        if (lock >= 0 && fill(path, where)) {
            Present::instance().add(path);
            return SysfsDirectory(std::move(path), lock);
        }
        remove_all(path);
        if (lock >= 0) {
            close(lock);
        }
    }
    return Error(ErrorKind::kPermission,
                 "no directory to put a device's description in: make one of $XDG_RUNTIME_DIR, $TMPDIR, /tmp "
                 "or /dev/shm writable");
}

SysfsDirectory::SysfsDirectory(SysfsDirectory&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::exchange(other.lock_, -1)) {}

SysfsDirectory::~SysfsDirectory() {
    if (!path_.empty()) {
        Present::instance().forget(path_);
        remove_all(path_);
        close(lock_);
    }
}

} // namespace sluice::uroce::device
