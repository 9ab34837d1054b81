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
constexpr const char* kLock = "lock";
constexpr const char* kLockBefore = "lock.new";

constexpr const char* kFolders[] = {"ports",
                                    "ports/1",
                                    "ports/1/gids",
                                    "ports/1/pkeys",
                                    "ports/1/gid_attrs",
                                    "ports/1/gid_attrs/types",
                                    "ports/1/gid_attrs/ndevs"};

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
    return {{{"node_guid", guid_text},
             {"ports/1/gids/0", gid_text(where.gid)},
             {"ports/1/pkeys/0", "0xffff"},
             {"ports/1/gid_attrs/types/0", "RoCE v2"},
             {"ports/1/gid_attrs/ndevs/0", where.interface}}};
}

// Everybody can put something into /tmp that is called like a directory of ours: a link to somebody's files,
// or a directory with links in it. So nothing is followed, and only what belongs to us, and nobody else can
// write to, is ours.
class Opened {
  public:
    Opened(int base, const char* name) noexcept
        : fd_(openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) {
        struct stat status {};
        is_ours_ = fd_.get() >= 0 && fstat(fd_.get(), &status) == 0 && status.st_uid == geteuid() &&
                   (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
    }

    bool is_ours() const noexcept { return is_ours_; }
    int fd() const noexcept { return fd_.get(); }

  private:
    Descriptor fd_;
    bool is_ours_;
};

// DIRECTORY is what BASE has under that name.
void remove_opened(const Opened& directory, int base, const char* name) noexcept {
    for (const File& file : files_of({})) {
        unlinkat(directory.fd(), file.name, 0);
    }
    for (std::size_t i = std::size(kFolders); i-- > 0;) {
        unlinkat(directory.fd(), kFolders[i], AT_REMOVEDIR);
    }
    unlinkat(directory.fd(), kLockBefore, 0);
    unlinkat(directory.fd(), kLock, 0);
    unlinkat(base, name, AT_REMOVEDIR);
}

void remove_all(const std::string& path) noexcept {
    const Opened directory(AT_FDCWD, path.c_str());
    if (directory.is_ours()) {
        remove_opened(directory, AT_FDCWD, path.c_str());
    }
}

bool write_file(int directory, const char* name, const std::string& text) noexcept {
    const Descriptor file(
        openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    const std::string line = text + "\n";
    return file.get() >= 0 &&
           write(file.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

bool fill(int directory, const LocalAddress& where) {
    for (const char* folder : kFolders) {
        if (mkdirat(directory, folder, 0700) != 0) {
            return false;
        }
    }
    for (const File& file : files_of(where)) {
        if (!write_file(directory, file.name, file.text)) {
            return false;
        }
    }
    return true;
}

// The lock file gets its name when it is locked already: nobody takes a new directory for an old one.
Descriptor make_lock(int directory) noexcept {
    Descriptor lock(openat(directory, kLockBefore, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (lock.get() >= 0 && (flock(lock.get(), LOCK_EX | LOCK_NB) != 0 ||
                            renameat(directory, kLockBefore, directory, kLock) != 0)) {
        lock.reset();
    }
    return lock;
}

// Ours, and the process that made it has ended.
void remove_if_stale(int base, const char* name) noexcept {
    const Opened directory(base, name);
    if (!directory.is_ours()) {
        return;
    }
    const Descriptor lock(openat(directory.fd(), kLock, O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (lock.get() >= 0 && flock(lock.get(), LOCK_EX | LOCK_NB) == 0) {
        SLUICE_LOG(kInfo, "uroce", "removing %s, which a process that was killed left behind", name);
        remove_opened(directory, base, name);
    }
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
            remove_if_stale(dirfd(dir.get()), entry->d_name);
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
        const Opened directory(AT_FDCWD, path.c_str());
        if (!directory.is_ours()) {
            continue;
        }
        Descriptor lock = make_lock(directory.fd());
        if (lock.get() >= 0 && fill(directory.fd(), where)) {
            Present::instance().add(path);
            return SysfsDirectory(std::move(path), std::move(lock));
        }
        remove_opened(directory, AT_FDCWD, path.c_str());
    }
    return Error(ErrorKind::kPermission,
                 "no directory to put a device's description in: make one of $XDG_RUNTIME_DIR, $TMPDIR, /tmp "
                 "or /dev/shm writable");
}

SysfsDirectory::SysfsDirectory(SysfsDirectory&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}

SysfsDirectory::~SysfsDirectory() {
    if (!path_.empty()) {
        Present::instance().forget(path_);
        remove_all(path_);
    }
}

} // namespace sluice::uroce::device
