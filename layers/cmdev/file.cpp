// SPDX-License-Identifier: BSD-3-Clause
#include "layers/cmdev/file.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/event_descriptor.hpp"
#include "ibverbs-glue/adaptors.hpp"

namespace sluice::layers::cmdev {

namespace {

Result<void> watch(int epoll, int fd) noexcept {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        return Error::from_errno(errno, "watching for events of a connection channel");
    }
    return {};
}

} // namespace

File::File(Descriptor kernels, Descriptor bell, int fd)
    : kernels_(std::move(kernels)), bell_(std::move(bell)), fd_(fd) {}

Result<std::shared_ptr<File>> File::make(Descriptor kernels) {
    Descriptor bell(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    const Descriptor all(epoll_create1(EPOLL_CLOEXEC));
    if (bell.get() < 0 || all.get() < 0) {
        return Error::from_errno(errno, "no descriptor for an event channel; raise `ulimit -n`");
    }
    Result<void> watched = watch(all.get(), bell.get());
    if (watched && kernels.get() >= 0) {
        watched = watch(all.get(), kernels.get());
    }
    if (!watched) {
        return std::move(watched).error();
    }
    Descriptor fd(fcntl(all.get(), F_DUPFD_CLOEXEC, 0));
    if (fd.get() < 0) {
        return Error::from_errno(errno, "no descriptor for an event channel; raise `ulimit -n`");
    }
    std::shared_ptr<File> made(new File(std::move(kernels), std::move(bell), fd.get()));
    (void)fd.release(); // the program closes it
    return made;
}

File::~File() {
    for (const OfDevice& each : of_devices_) {
        (void)sluice_cm_destroy_channel(each.channel);
    }
}

Result<sluice_cm_channel*> File::channel_of(ibv_context* context) {
    const LockGuard guard(mutex_);
    for (const OfDevice& each : of_devices_) {
        if (each.context == context) {
            return each.channel;
        }
    }
    of_devices_.reserve(of_devices_.size() + 1);
    sluice_cm_channel* channel = nullptr;
    Result<void> done =
        glue::from_rc(sluice_cm_create_channel(context, &channel), "making a channel of a device's");
    if (!done) {
        return std::move(done).error();
    }
    done = watch(fd_, sluice_cm_channel_fd(channel));
    if (!done) {
        (void)sluice_cm_destroy_channel(channel);
        return std::move(done).error();
    }
    of_devices_.push_back({context, channel}); // there is room
    return channel;
}

std::vector<sluice_cm_channel*> File::channels() {
    const LockGuard guard(mutex_);
    std::vector<sluice_cm_channel*> channels;
    for (const OfDevice& each : of_devices_) {
        channels.push_back(each.channel);
    }
    return channels;
}

void File::post(const Event& event) {
    const LockGuard guard(mutex_);
    posted_.push_back(event);
    ring_eventfd(bell_.get());
}

void File::silence_locked() noexcept {
    if (posted_.empty()) {
        (void)quiet_eventfd(bell_.get());
    }
}

std::optional<Event> File::take_posted() {
    const LockGuard guard(mutex_);
    if (posted_.empty()) {
        return std::nullopt;
    }
    const Event event = posted_.front();
    posted_.pop_front();
    silence_locked();
    return event;
}

std::vector<Event> File::take_posted_of(std::uint32_t handle) {
    const LockGuard guard(mutex_);
    std::vector<Event> taken;
    std::ranges::copy_if(posted_, std::back_inserter(taken),
                         [handle](const Event& each) { return each.handle == handle; });
    std::erase_if(posted_, [handle](const Event& each) { return each.handle == handle; });
    silence_locked();
    return taken;
}

void File::close() {
    const LockGuard guard(mutex_);
    is_closed_ = true;
}

bool File::is_closed() {
    const LockGuard guard(mutex_);
    return is_closed_;
}

namespace files {

namespace {

struct OpenFiles {
    Mutex mutex;
    std::unordered_map<int, std::shared_ptr<File>> by_fd SLUICE_TSA(guarded_by(mutex));
    std::unordered_set<int> parents SLUICE_TSA(guarded_by(mutex));
    pid_t owner SLUICE_TSA(guarded_by(mutex)) = getpid();
};

OpenFiles& open_files() {
    static OpenFiles& instance = *new OpenFiles();
    return instance;
}

// What the parent had is left where it is: closing it would take it from the parent's peers.
void forget_after_fork_locked(OpenFiles& all) SLUICE_TSA(requires_capability(all.mutex)) {
    if (all.owner == getpid()) {
        return;
    }
    all.owner = getpid();
    auto& parents = *new std::unordered_map<int, std::shared_ptr<File>>(std::move(all.by_fd));
    all.by_fd.clear();
    for (const auto& each : parents) {
        all.parents.insert(each.first);
    }
}

} // namespace

void add(std::shared_ptr<File> file) {
    OpenFiles& all = open_files();
    const LockGuard guard(all.mutex);
    forget_after_fork_locked(all);
    all.parents.erase(file->fd());
    std::shared_ptr<File>& place = all.by_fd[file->fd()];
    place = std::move(file);
}

Entry find(int fd) {
    OpenFiles& all = open_files();
    const LockGuard guard(all.mutex);
    forget_after_fork_locked(all);
    const auto found = all.by_fd.find(fd);
    return {.file = found == all.by_fd.end() ? nullptr : found->second,
            .is_parents = all.parents.contains(fd)};
}

Entry take(int fd) {
    OpenFiles& all = open_files();
    const LockGuard guard(all.mutex);
    forget_after_fork_locked(all);
    Entry entry;
    const auto found = all.by_fd.find(fd);
    if (found != all.by_fd.end()) {
        entry.file = std::move(found->second);
        all.by_fd.erase(found);
    }
    entry.is_parents = all.parents.erase(fd) != 0;
    return entry;
}

} // namespace files

} // namespace sluice::layers::cmdev
