// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/shared_receives.hpp"

#include <algorithm>

#include "udapl/provider/ia_context.hpp"

namespace sluice::dapl {

SharedReceives::LowReport::~LowReport() {
    queue_.ia().loop().cancel(*this);
}

void SharedReceives::LowReport::schedule() noexcept {
    due_.fetch_add(1);
    queue_.ia().loop().schedule(*this);
}

void SharedReceives::LowReport::run() noexcept {
    for (std::uint32_t due = due_.exchange(0); due != 0; --due) {
        queue_.ia().report({EventKind::kSrqLow, queue_.handle()});
    }
}

Dto* SharedReceives::begin_post(std::uint64_t cookie) noexcept {
    Dto* const dto = outstanding_.load(std::memory_order_relaxed) < max_receives_ ? pool_.take() : nullptr;
    if (dto == nullptr) {
        return nullptr;
    }
    dto->shared = this;
    dto->cookie = cookie;
    // Before the device may complete it.
    posted_.fetch_add(1, std::memory_order_relaxed);
    outstanding_.fetch_add(1, std::memory_order_relaxed);
    return dto;
}

void SharedReceives::cancel_post(Dto& record) noexcept {
    posted_.fetch_sub(1, std::memory_order_relaxed);
    release();
    pool_.give(record);
}

Dto SharedReceives::finish(Dto& record, std::uint32_t number) noexcept {
    Dto dto = record;
    dto.ring = nullptr;
    {
        const LockGuard guard(users_lock_);
        const auto user = std::ranges::find(users_, number, &SrqUser::number);
        if (user != users_.end()) {
            dto.ring = user->ring;
            dto.endpoint = user->endpoint->handle();
            dto.connection = user->ring->connection();
        }
    }
    pool_.give(record);
    taken_.fetch_add(1, std::memory_order_relaxed);
    if (available() < low_watermark_.load(std::memory_order_relaxed)) {
        report_low();
    }
    return dto;
}

void SharedReceives::report_low() noexcept {
    if (is_armed_.exchange(false)) {
        low_report_.schedule();
    }
}

// Users don't change meanwhile; but completions look here under their dispatcher's lock.
bool SharedReceives::find_events_locked(std::size_t index, EventQueue*& events) noexcept {
    const LockGuard reading(users_lock_);
    if (index >= users_.size()) {
        return false;
    }
    events = users_[index].events;
    return true;
}

void SharedReceives::attach(const SrqUser& user) {
    const LockGuard guard(mutex_);
    const LockGuard changing(users_lock_);
    const auto former = std::ranges::find(users_, user.endpoint, &SrqUser::endpoint);
    if (former != users_.end()) {
        *former = user;
    } else {
        users_.push_back(user);
    }
}

void SharedReceives::detach(const Object& endpoint) noexcept {
    const LockGuard guard(mutex_);
    const LockGuard changing(users_lock_);
    std::erase_if(users_, [&](const SrqUser& user) { return user.endpoint == &endpoint; });
}

} // namespace sluice::dapl
