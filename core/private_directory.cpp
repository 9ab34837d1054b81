// SPDX-License-Identifier: BSD-3-Clause
#include "core/private_directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
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
        changed_at_ = status.st_mtime;
    }

    bool is_ours() const noexcept { return is_ours_; }
    int fd() const noexcept { return fd_.get(); }
    time_t changed_at() const noexcept { return changed_at_; }

  private:
    Descriptor fd_;
    bool is_ours_;
    time_t changed_at_;
};

bool is_entry(const dirent& entry) noexcept {
    const std::string_view name = entry.d_name;
    return name != "." && name != "..";
}

// All that FOLDER has but the lock, which is last. False: something is left.
bool empty_folder(int folder, int depth) noexcept {
    const int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const Listing listing(again < 0 ? nullptr : fdopendir(again));
    if (listing == nullptr) {
        if (again >= 0) {
            close(again);
        }
        return false;
    }
    bool is_empty = true;
    while (const dirent* entry = readdir(listing.get())) {
        const char* const name = entry->d_name;
        if (!is_entry(*entry) || std::string_view(name) == kLock || unlinkat(folder, name, 0) == 0) {
            continue;
        }
        const Opened below(folder, name);
        is_empty = below.is_ours() && depth > 0 && empty_folder(below.fd(), depth - 1) &&
                   unlinkat(folder, name, AT_REMOVEDIR) == 0 && is_empty;
    }
    return is_empty;
}

// DIRECTORY is what BASE has under that name. Where it can't be emptied (no descriptor is to be had), it
// keeps its lock, which nobody holds any more: the next process removes it.
void remove_opened(const Opened& directory, int base, const char* name) noexcept {
    if (empty_folder(directory.fd(), kDepth)) {
        unlinkat(directory.fd(), kLock, 0);
        unlinkat(base, name, AT_REMOVEDIR);
    }
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

// Ours, and the process that made it has ended. Without a lock, it was killed before there was one, or is
// about to make it.
bool is_stale(const Opened& directory) noexcept {
    constexpr time_t kTimeForLock = 60; // seconds
    const Descriptor lock(openat(directory.fd(), kLock, O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (lock.get() < 0) {
        return errno == ENOENT && time(nullptr) - directory.changed_at() > kTimeForLock;
    }
    return flock(lock.get(), LOCK_EX | LOCK_NB) == 0;
}

void remove_if_stale(int base, const char* name) noexcept {
    const Opened directory(base, name);
    if (directory.is_ours() && is_stale(directory)) {
        SLUICE_LOG(kInfo, "uroce", "removing %s, which a process that was killed left behind", name);
        remove_opened(directory, base, name);
    }
}

// A new directory under BASE; it is removed again unless it is kept.
class NewDirectory {
  public:
    explicit NewDirectory(const char* base)
        : path_(std::string(base) + "/" + std::string(kNamePrefix) + "XXXXXX"),
          is_made_(mkdtemp(path_.data()) != nullptr), directory_(AT_FDCWD, path_.c_str()) {}
    ~NewDirectory() {
        if (is_made_ && directory_.is_ours()) {
            remove_opened(directory_, AT_FDCWD, path_.c_str());
        } else if (is_made_) {
            rmdir(path_.c_str());
        }
    }
    NewDirectory(const NewDirectory&) = delete;
    NewDirectory& operator=(const NewDirectory&) = delete;

    bool is_ours() const noexcept { return is_made_ && directory_.is_ours(); }
    int fd() const noexcept { return directory_.fd(); }
    const std::string& path() const noexcept { return path_; }
    std::string keep() noexcept {
        is_made_ = false;
        return std::move(path_);
    }

  private:
    std::string path_;
    bool is_made_;
    Opened directory_;
};

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
    char end[] = {'\n'};
    const iovec line[] = {{const_cast<char*>(text.data()), text.size()}, {end, sizeof end}};
    return file.get() >= 0 && writev(file.get(), line, 2) == static_cast<ssize_t>(text.size() + sizeof end);
}

bool replace_line(int directory, const char* name, const std::string& text) {
    const std::string fresh = std::string(name) + ".new";
    (void)unlinkat(directory, fresh.c_str(), 0); // of a process that was killed here
    return write_line(directory, fresh.c_str(), text) &&
           renameat(directory, fresh.c_str(), directory, name) == 0;
}

Result<PrivateDirectory> PrivateDirectory::make_by(bool (*fill)(void*, int), void* context) {
    int lacks_descriptors = 0; // or an errno
    for (const char* base : {static_cast<const char*>(secure_getenv("XDG_RUNTIME_DIR")),
                             static_cast<const char*>(secure_getenv("TMPDIR")), "/tmp", "/dev/shm"}) {
        if (base == nullptr || base[0] != '/') {
            continue;
        }
        remove_stale(base);
        errno = 0;
        NewDirectory made(base);
        Descriptor lock = made.is_ours() ? make_lock(made.fd()) : Descriptor();
        if (lock.get() >= 0 && fill(context, made.fd())) {
            Present::instance().add(made.path());
            return PrivateDirectory(made.keep(), std::move(lock));
        }
        lacks_descriptors = errno == EMFILE || errno == ENFILE ? errno : lacks_descriptors;
    }
    if (lacks_descriptors != 0) {
        return Error::from_errno(lacks_descriptors,
                                 lacks_descriptors == EMFILE
                                     ? "no descriptor for a device's description; raise `ulimit -n`"
                                     : "the system has no descriptor for a device's description; "
                                       "raise fs.file-max by sysctl(8)");
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
