// SPDX-License-Identifier: BSD-3-Clause
#include "layers/preload/channel.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <unordered_set>

#include "ibverbs-glue/adaptors.hpp"
#include "layers/hooks/real.hpp"
#include "layers/preload/acknowledgements.hpp"

namespace sluice::layers::preload {

namespace {

Error nothing_yet() noexcept {
    return Error(ErrorKind::kTimedOut, "there is no event", EAGAIN);
}

bool is_nothing_yet(const Result<rdma_cm_event*>& event) noexcept {
    return !event && event.error().os_errno() == EAGAIN;
}

// Made into what the program has, and known until it is acknowledged.
rdma_cm_event* hand_out(std::unique_ptr<Event> event) {
    rdma_cm_event* const visible = &event->visible;
    Events::instance().add(visible, std::move(event));
    return visible;
}

} // namespace

class Channel::Visit {
  public:
    explicit Visit(Channel& channel) : channel_(channel) {
        const LockGuard guard(channel_.mutex_);
        ++channel_.visits_;
    }
    ~Visit() {
        const LockGuard guard(channel_.mutex_);
        if (--channel_.visits_ == 0) {
            channel_.left_.notify_all();
        }
    }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

  private:
    Channel& channel_;
};

Result<std::unique_ptr<Channel>> Channel::make(rdma_event_channel* kernels) {
    Descriptor poller(epoll_create1(EPOLL_CLOEXEC));
    Descriptor bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (poller.get() < 0 || bell.get() < 0) {
        return Error::from_errno(errno, "no descriptor for an event channel; raise `ulimit -n`");
    }
    std::unique_ptr<Channel> made(new Channel(std::move(poller), std::move(bell), kernels));
    Result<void> watched = made->watch(made->bell_.get());
    if (watched && kernels != nullptr) {
        watched = made->watch(kernels->fd);
    }
    if (!watched) {
        return std::move(watched).error();
    }
    return made;
}

Channel::~Channel() {
    close();
}

void Channel::close() {
    const LockGuard guard(mutex_);
    unwatch(bell_.get());
    told_.clear();
    if (rdma_event_channel* const kernels = std::exchange(kernels_, nullptr); kernels != nullptr) {
        unwatch(kernels->fd);
    }
    // A thread that comes from now on finds nothing here.
    const std::vector<OfDevice> devices = std::exchange(of_devices_, {});
    for (const OfDevice& each : devices) {
        unwatch(sluice_cm_channel_fd(each.channel));
    }
    while (visits_ != 0) {
        left_.wait(mutex_);
    }
    for (const OfDevice& each : devices) {
        (void)sluice_cm_destroy_channel(each.channel);
    }
}

void Channel::unwatch(int fd) noexcept {
    (void)epoll_ctl(poller_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

Result<void> Channel::watch(int fd) {
    epoll_event wanted{};
    wanted.events = EPOLLIN;
    if (epoll_ctl(poller_.get(), EPOLL_CTL_ADD, fd, &wanted) != 0) {
        return Error::from_errno(errno, "watching a descriptor of an event channel");
    }
    return {};
}

Result<sluice_cm_channel*> Channel::of(ibv_context* context) {
    const LockGuard guard(mutex_);
    const auto known = std::ranges::find_if(
        of_devices_, [context](const OfDevice& each) { return each.context == context; });
    if (known != of_devices_.end()) {
        return known->channel;
    }
    sluice_cm_channel* made = nullptr;
    Result<void> done =
        glue::from_rc(sluice_cm_create_channel(context, &made), "making a channel for a device's events");
    if (!done) {
        return std::move(done).error();
    }
    done = watch(sluice_cm_channel_fd(made));
    if (!done) {
        (void)sluice_cm_destroy_channel(made);
        return std::move(done).error();
    }
    of_devices_.push_back({context, made});
    return made;
}

void Channel::tell(Id& id, rdma_cm_id* visible, rdma_cm_event_type type) {
    auto event = std::make_unique<Event>();
    event->visible.id = visible;
    event->visible.event = type;
    event->told_to = &id;
    std::vector<std::unique_ptr<Event>> events;
    events.push_back(std::move(event));
    tell(std::move(events));
}

void Channel::tell(std::vector<std::unique_ptr<Event>> events) {
    const LockGuard guard(mutex_);
    for (std::unique_ptr<Event>& event : events) {
        told_.push_back(std::move(event));
        (void)eventfd_write(bell_.get(), 1);
    }
}

std::vector<std::unique_ptr<Event>> Channel::take_told(const Id& id) {
    std::vector<std::unique_ptr<Event>> taken;
    const LockGuard guard(mutex_);
    for (std::unique_ptr<Event>& event : told_) {
        if (event->told_to == &id) {
            taken.push_back(std::move(event));
        }
    }
    std::erase(told_, nullptr);
    if (told_.empty()) {
        eventfd_t value = 0;
        (void)eventfd_read(bell_.get(), &value);
    }
    return taken;
}

std::unique_ptr<Event> Channel::next_told() {
    const LockGuard guard(mutex_);
    if (told_.empty()) {
        return nullptr;
    }
    std::unique_ptr<Event> event = std::move(told_.front());
    told_.pop_front();
    if (told_.empty()) {
        eventfd_t value = 0;
        (void)eventfd_read(bell_.get(), &value);
    }
    taken(*event->told_to);
    return event;
}

std::vector<sluice_cm_channel*> Channel::of_devices() {
    const LockGuard guard(mutex_);
    std::vector<sluice_cm_channel*> channels;
    for (const OfDevice& each : of_devices_) {
        channels.push_back(each.channel);
    }
    return channels;
}

Result<rdma_cm_event*> Channel::next_of_kernel() {
    rdma_event_channel* const channel = kernels();
    const LockGuard turn(kernels_turn_);
    pollfd waiting = {.fd = channel == nullptr ? -1 : channel->fd, .events = POLLIN, .revents = 0};
    if (poll(&waiting, 1, 0) != 1) {
        return nothing_yet();
    }
    rdma_cm_event* event = nullptr;
    if (hooks::real_cm()->get_cm_event(channel, &event) != 0) {
        return Error::from_errno(errno, "taking an event of the kernel's");
    }
    return event;
}

Result<rdma_cm_event*> Channel::next_at_once(Translate translate) {
    const Visit visit(*this);
    if (std::unique_ptr<Event> told = next_told()) {
        return hand_out(std::move(told));
    }
    for (sluice_cm_channel* each : of_devices()) {
        sluice_cm_event* source = nullptr;
        for (int rc = 0; (rc = sluice_cm_get_event(each, 0, &source)) != EAGAIN;) {
            if (rc != 0) {
                return Error::from_errno(rc, "taking an event of uroce's");
            }
            Result<std::unique_ptr<Event>> event = translate(source);
            if (!event) {
                return std::move(event).error();
            }
            if (*event != nullptr) {
                return hand_out(*std::move(event));
            }
        }
    }
    return next_of_kernel();
}

Result<rdma_cm_event*> Channel::next(Translate translate) {
    for (;;) {
        Result<rdma_cm_event*> event = next_at_once(translate);
        const bool waits = is_nothing_yet(event) && (fcntl(face_.fd, F_GETFL) & O_NONBLOCK) == 0;
        if (!waits) {
            return event;
        }
        pollfd waiting = {.fd = face_.fd, .events = POLLIN, .revents = 0};
        if (poll(&waiting, 1, -1) < 0) {
            return Error::from_errno(errno, "waiting for an event was interrupted");
        }
    }
}

namespace {

struct Destroyed {
    Mutex mutex;
    std::unordered_set<const rdma_event_channel*> channels SLUICE_TSA(guarded_by(mutex));
};

Destroyed& destroyed() {
    static Destroyed& instance = *new Destroyed();
    return instance;
}

} // namespace

void add_channel(std::unique_ptr<Channel> channel) {
    const rdma_event_channel* const visible = channel->visible();
    {
        const LockGuard guard(destroyed().mutex);
        destroyed().channels.erase(visible); // a new one at an old address
    }
    Channels::instance().add(visible, std::move(channel));
}

void destroy_channel(rdma_event_channel* visible) {
    // Before it can't be found any more, so that a search finds one of the two. A caller that doesn't wait is
    // never late.
    if ((fcntl(visible->fd, F_GETFL) & O_NONBLOCK) == 0) {
        const LockGuard guard(destroyed().mutex);
        destroyed().channels.insert(visible);
    }
    const std::shared_ptr<Channel> last = Channels::instance().take(visible);
    last->close();
}

bool was_destroyed(const rdma_event_channel* visible) {
    const LockGuard guard(destroyed().mutex);
    return destroyed().channels.contains(visible);
}

bool acknowledge(rdma_cm_event* event) {
    const std::shared_ptr<Event> ours = Events::instance().take(event);
    if (ours == nullptr) {
        return false;
    }
    if (ours->source != nullptr) {
        sluice_cm_ack_event(ours->source);
    } else {
        acknowledged(*ours->told_to);
    }
    return true;
}

} // namespace sluice::layers::preload
