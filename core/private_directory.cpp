// SPDX-License-Identifier: BSD-3-Clause
#include "core/private_directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "core/log.hpp"
#include "core/sync.hpp"

namespace sluice {

namespace {

constexpr std::string_view kNamePrefix = "sluice-uroce-";
constexpr const char* kLock = "lock";
constexpr const char* kLockBefore = "lock.new";
constexpr int kDepth = 16; // of folders, more than any directory of ours has

using Listing = std::unique_ptr<DIR, decltype([](DIR* open) { closedir(open); })>;

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

bool is_entry(const dirent& entry) noexcept {
    const std::string_view name = entry.d_name;
    return name != "." && name != "..";
}

// All that FOLDER has but the lock, which is last.
void empty_folder(int folder, int depth) noexcept {
    const int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const Listing listing(again < 0 ? nullptr : fdopendir(again));
    if (listing == nullptr) {
        if (again >= 0) {
            close(again);
        }
        return;
    }
    while (const dirent* entry = readdir(listing.get())) {
        const char* const name = entry->d_name;
        if (!is_entry(*entry) || std::string_view(name) == kLock || unlinkat(folder, name, 0) == 0) {
            continue;
        }
        const Opened below(folder, name);
        if (below.is_ours() && depth > 0) {
            empty_folder(below.fd(), depth - 1);
            unlinkat(folder, name, AT_REMOVEDIR);
        }
    }
}

// DIRECTORY is what BASE has under that name.
void remove_opened(const Opened& directory, int base, const char* name) noexcept {
    empty_folder(directory.fd(), kDepth);
    unlinkat(directory.fd(), kLock, 0);
    unlinkat(base, name, AT_REMOVEDIR);
}

void remove_all(const std::string& path) noexcept {
    const Opened directory(AT_FDCWD, path.c_str());
    if (directory.is_ours()) {
        remove_opened(directory, AT_FDCWD, path.c_str());
    }
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

// The directories of this process. A program may end without having closed its devices; their destructors
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
    const Listing listing(opendir(base.c_str()));
    if (listing == nullptr) {
        return;
    }
    while (const dirent* entry = readdir(listing.get())) {
        if (std::string_view(entry->d_name).starts_with(kNamePrefix)) {
            remove_if_stale(dirfd(listing.get()), entry->d_name);
        }
    }
}

} // namespace

bool write_line(int directory, const char* name, const std::string& text) noexcept {
    const Descriptor file(
        openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    const std::string line = text + "\n";
    return file.get() >= 0 &&
           write(file.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

bool replace_line(int directory, const char* name, const std::string& text) {
    const std::string fresh = std::string(name) + ".new";
    (void)unlinkat(directory, fresh.c_str(), 0); // of a process that was killed here
    return write_line(directory, fresh.c_str(), text) &&
           renameat(directory, fresh.c_str(), directory, name) == 0;
}

Result<PrivateDirectory> PrivateDirectory::make_by(bool (*fill)(void*, int), void* context) {
    for (const char* base : {static_cast<const char*>(secure_getenv("XDG_RUNTIME_DIR")),
                             static_cast<const char*>(secure_getenv("TMPDIR")), "/tmp", "/dev/shm"}) {
        if (base == nullptr || base[0] != '/') {
            continue;
        }
        remove_stale(base);
        std::string path = std::string(base) + "/" + std::string(kNamePrefix) + "XXXXXX";
        if (mkdtemp(path.data()) == nullptr) {
            continue;
        }
        const Opened directory(AT_FDCWD, path.c_str());
        if (!directory.is_ours()) {
            continue;
        }
        Descriptor lock = make_lock(directory.fd());
        if (lock.get() >= 0 && fill(context, directory.fd())) {
            Present::instance().add(path);
            return PrivateDirectory(std::move(path), std::move(lock));
        }
        remove_opened(directory, AT_FDCWD, path.c_str());
    }
    return Error(ErrorKind::kPermission,
                 "no directory to put a device's description in: make one of $XDG_RUNTIME_DIR, $TMPDIR, /tmp "
                 "or /dev/shm writable");
}

PrivateDirectory::~PrivateDirectory() {
    if (!path_.empty()) {
        Present::instance().forget(path_);
        remove_all(path_);
    }
}

} // namespace sluice
