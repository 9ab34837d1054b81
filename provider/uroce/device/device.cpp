// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/device/device.hpp"

#include <cerrno>
#include <utility>

#include "core/boundary.hpp"
#include "core/log.hpp"

namespace sluice::uroce::device {

Device::Device(LocalAddress where, const RandomKey& secret, engine::Memory& memory, Neighbours& neighbours,
               DeviceCounters& counters, engine::QueuePairRows* rows, Report report, const Patience& patience,
               SysfsDirectory directory, Paths paths, Instrumentation instrumentation)
    : where_(std::move(where)), keepalive_(patience.keepalive), gids_(where_.gid, where_.further),
      memory_(memory), neighbours_(neighbours), counters_(counters), report_(report),
      share_(paths.link != nullptr ? paths.link->share() : engine::Share()),
      same_host_(std::move(paths.same_host)), engine_({.max_queue_pairs = kMaxQueuePairs,
                                                       .max_regions = kMaxRegions,
                                                       .secret = secret,
                                                       .share = share_,
                                                       .min_silence = patience.min_silence,
                                                       .counters = &counters.transport,
                                                       .neighbourhood = same_host_.get(),
                                                       .rows = rows},
                                                      memory, *this),
      link_(std::move(paths.link)), instrumentation_(std::move(instrumentation)),
      directory_(std::move(directory)), progress_(*this), watch_(*this) {}

Device::~Device() {
    watch_.stop();
    if (link_ != nullptr) {
        link_->stop();
    }
}

Result<Companion*> Device::companion(MakeCompanion make) {
    const LockGuard guard(making_companion_);
    if (companion_ == nullptr) {
        Result<void> started = start_progress();
        if (!started) {
            return std::move(started).error();
        }
        Result<std::unique_ptr<Companion>> made = make(*this);
        if (!made) {
            return std::move(made).error();
        }
        companion_ = *std::move(made);
    }
    return companion_.get();
}

void Device::poison() noexcept {
    poisoned_.store(true, std::memory_order_relaxed);
    progress_.abandon();
    watch_.abandon();
    if (same_host_ != nullptr) {
        same_host_->abandon();
    }
    if (link_ != nullptr) {
        link_->abandon();
    }
}

Result<void> Device::start_link() {
    return link_ != nullptr ? link_->start(*this) : Result<void>();
}

// A system that doesn't tell of changes has none, mostly.
void Device::start_following() {
    const Result<void> started = where_.follows ? watch_.start() : Result<void>();
    if (!started) {
        SLUICE_LOG(kInfo, "uroce", "%s doesn't follow its interface: %s", where_.name.c_str(),
                   started.error().text());
    }
}

// The files first: a program that hears of the change reads them.
void Device::addresses_changed() noexcept {
    const Result<bool> changed = at_boundary("following an interface", [&]() -> Result<bool> {
        const LockGuard guard(changing_gids_);
        const Result<std::vector<engine::Address>> present = present_locked();
        if (!present) {
            return present.error().clone();
        }
        if (!gids_.follow(*present)) {
            return false;
        }
        directory_.update(gids_, where_.interface);
        return true;
    });
    if (changed && *changed) {
        tell_watchers();
    }
}

// What programs took stays.
Result<std::vector<engine::Address>> Device::present_locked() const {
    Result<std::vector<engine::Address>> present = present_addresses(where_);
    for (std::size_t index = 1; present && index < gids_.length(); ++index) {
        const engine::Address* const entry = gids_.at(index);
        if (entry != nullptr && where_.has_on_demand(*entry)) {
            present->push_back(*entry);
        }
    }
    return present;
}

void Device::tell_watchers() noexcept {
    const ProgressSession session(*this);
    for (GidWatcher* watcher = watchers_; watcher != nullptr; watcher = watcher->next_) {
        watcher->changed_(*watcher);
    }
}

void Device::add_watcher(GidWatcher& watcher) noexcept {
    const ProgressSession session(*this);
    watcher.next_ = std::exchange(watchers_, &watcher);
}

void Device::remove_watcher(GidWatcher& watcher) noexcept {
    const ProgressSession session(*this);
    GidWatcher** at = &watchers_;
    while (*at != nullptr && *at != &watcher) {
        at = &(*at)->next_;
    }
    if (*at != nullptr) {
        *at = watcher.next_;
    }
}

Result<void> Device::start_progress() {
    return progress_.start(link_ != nullptr ? link_->fd() : -1,
                           same_host_ != nullptr ? same_host_->bell().own_end() : -1);
}

// Its further socket is watched as those of multicast groups are.
Result<void> Device::use_address(const engine::Address& address) {
    if (link_ == nullptr || link_->hears(address)) {
        return {};
    }
    Result<void> started = start_progress();
    if (!started) {
        return started;
    }
    const Result<int> opened = link_->use(address);
    if (!opened) {
        return opened.error().clone();
    }
    if (*opened >= 0 && same_host_ != nullptr && link_->is_shared(address)) {
        const ProgressSession session(*this);
        same_host_->add_address(address);
    }
    return *opened < 0 ? Result<void>() : progress_.watch_also(*opened);
}

// What can't be bound doesn't become an entry.
Result<void> Device::take_address(const engine::Address& address) {
    if (gids_.find(address) != nullptr) {
        return use_address(address);
    }
    if (!where_.has_on_demand(address)) {
        return Error(ErrorKind::kNotFound, "this device doesn't have that address", EADDRNOTAVAIL);
    }
    {
        const LockGuard guard(changing_gids_);
        if (!gids_.has_room()) {
            return Error::format(ErrorKind::kInsufficientResources, ENOSPC,
                                 "%s has %zu addresses, which is the most; %s can be a device of its own",
                                 where_.name.c_str(), GidTable::kMostEntries,
                                 socket::to_text(address).data());
        }
        Result<void> used = use_address(address);
        if (!used) {
            return used;
        }
        gids_.take(address);
        directory_.update(gids_, where_.interface);
    }
    tell_watchers();
    return {};
}

bool Device::hears(const engine::Address& address) const noexcept {
    return address == where_.gid || (link_ != nullptr && link_->hears(address));
}

void Device::event(engine::AsyncEvent event, std::uint32_t qpn) noexcept {
    queues_failed_ = queues_failed_ || event == engine::AsyncEvent::kCqError;
    engine::QueuePair* qp = engine_.find(qpn);
    if (qp != nullptr && qp->owner() != nullptr) {
        report_(qp->owner(), event);
    }
}

void Device::end_queue_pair(std::uint32_t qpn) noexcept {
    engine::QueuePair* const qp = engine_.find(qpn);
    if (qp != nullptr && qp->modify(engine::QpState::kError, {})) {
        event(engine::AsyncEvent::kQpFatal, qpn);
    }
}

void Device::prepare_queue(engine::CompletionQueue& queue,
                           engine::CompletionQueue::BeforePush ask) const noexcept {
    if (instrumentation_.faults != nullptr) {
        queue.ask_before_push(ask);
    }
}

void Device::before_completion(engine::CompletionQueue& queue) noexcept {
    instrumentation_.faults->before_completion(queue, monotonic_now());
}

void Device::end_queue(engine::CompletionQueue& queue) noexcept {
    if (instrumentation_.faults != nullptr) {
        const ProgressSession session(*this);
        instrumentation_.faults->forget(queue);
    }
}

} // namespace sluice::uroce::device
