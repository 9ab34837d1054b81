// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/verbs/context.hpp"

#include <unistd.h>

namespace sluice::uroce::verbs {

void Membership::join(ibv_context*& context, void* object, Leave leave) noexcept {
    context_ = &context;
    object_ = object;
    leave_ = leave;
    context_of(context).memberships.add(*this);
}

// The child of a fork has the list as it was at any moment.
Membership::~Membership() {
    if (context_ != nullptr && !context_of(*context_).forked()) {
        context_of(*context_).memberships.remove(*this);
    }
}

void Memberships::add(Membership& one) noexcept {
    const LockGuard guard(lock_);
    one.older_ = newest_;
    if (newest_ != nullptr) {
        newest_->newer_ = &one;
    }
    newest_ = &one;
}

void Memberships::remove(Membership& one) noexcept {
    const LockGuard guard(lock_);
    (one.newer_ != nullptr ? one.newer_->older_ : newest_) = one.older_;
    if (one.older_ != nullptr) {
        one.older_->newer_ = one.newer_;
    }
}

bool Memberships::empty() noexcept {
    const LockGuard guard(lock_);
    return newest_ == nullptr;
}

// The program uses nothing of a context that it closes, so that the list needs no lock.
void Memberships::leave(device::Device& device) noexcept SLUICE_TSA(no_thread_safety_analysis) {
    for (Membership* one = newest_; one != nullptr; one = one->older_) {
        if (one->leave_ != nullptr) {
            one->leave_(one->object_, device);
        }
    }
}

void Memberships::move_to(Memberships& all, ibv_context& context) noexcept
    SLUICE_TSA(no_thread_safety_analysis) {
    while (newest_ != nullptr) {
        Membership& one = *newest_;
        newest_ = one.older_;
        one.newer_ = nullptr;
        *one.context_ = &context;
        all.add(one);
    }
}

bool leave_behind(Context& context) noexcept {
    static std::atomic<Context*> first_left{nullptr};
    if (context.memberships.empty()) {
        return false;
    }
    context.memberships.leave(context.device);
    context.closed = true;
    Context* other = nullptr;
    // Release: a thread that finds it there finds it closed.
    if (!first_left.compare_exchange_strong(other, &context, std::memory_order_acq_rel)) {
        context.memberships.move_to(other->memberships, other->base);
        return false;
    }
    close(context.base.cmd_fd);
    close(context.base.async_fd);
    context.base.cmd_fd = context.base.async_fd = -1;
    return true;
}

} // namespace sluice::uroce::verbs
