// SPDX-License-Identifier: BSD-3-Clause
#include "layers/hosts/shared_lock.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <new>

#include "core/robust_mutex.hpp"

namespace sluice::layers::hosts {

struct SharedLock::State {
    pthread_mutex_t mutex;
    std::uint64_t numbers;
};

Result<Descriptor> open_in(const std::string& directory, const std::string& name, int access) {
    const std::string path = directory + "/" + name;
    Descriptor file(::open(path.c_str(), access | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (file.get() < 0) {
        return Error::format(kind_of_errno(errno), errno,
                             "%s can't be opened (errno %d); is the command that simulates still there?",
                             path.c_str(), errno);
    }
    return file;
}

Result<SharedLock> SharedLock::open(const std::string& directory) {
    Result<Descriptor> file = open_in(directory, "lock", O_RDWR);
    if (!file) {
        return std::move(file).error();
    }
    struct stat status {};
    flock(file->get(), LOCK_EX); // one process alone makes the mutex
    const bool is_new = fstat(file->get(), &status) == 0 && status.st_size == 0;
    if (is_new && ftruncate(file->get(), sizeof(State)) != 0) {
        return Error::from_errno(errno, "the lock of a run of hosts can't be made");
    }
    Result<MappedFile> mapped = MappedFile::make(*file, sizeof(State), PROT_READ | PROT_WRITE, 0);
    const bool is_made = mapped && (!is_new || make_robust((new (mapped->first()) State)->mutex));
    if (is_new && !is_made && ftruncate(file->get(), 0) != 0) {
        return Error::from_errno(errno, "the lock of a run of hosts can't be given back");
    }
    if (!mapped) {
        return std::move(mapped).error();
    }
    if (!is_made) {
        return Error(ErrorKind::kNotSupported, "this system has no robust mutexes, which runs of hosts need");
    }
    flock(file->get(), LOCK_UN); // the mapping keeps the file open, and so its lock
    return SharedLock(*std::move(mapped));
}

SharedLock::State& SharedLock::state() noexcept {
    return *reinterpret_cast<State*>(file_.first());
}

void SharedLock::lock() noexcept {
    if (pthread_mutex_lock(&state().mutex) == EOWNERDEAD) {
        pthread_mutex_consistent(&state().mutex);
    }
}

void SharedLock::unlock() noexcept {
    pthread_mutex_unlock(&state().mutex);
}

std::uint64_t SharedLock::next_number_locked() noexcept {
    return state().numbers++;
}

} // namespace sluice::layers::hosts
