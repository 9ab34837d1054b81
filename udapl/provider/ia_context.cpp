// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/ia_context.hpp"

#include <pthread.h>

#include <memory>

#include "core/log.hpp"

namespace sluice::dapl {

constinit Mutex EventSink::users_mutex;

void EventSink::renew_users_mutex_in_children() noexcept {
    pthread_atfork(nullptr, nullptr, [] { std::construct_at(&users_mutex); });
}

void EventSink::dismiss_users() noexcept {
    const LockGuard guard(users_mutex);
    while (first_user_ != nullptr) {
        first_user_->forget_sink_locked();
    }
}

void IaContext::use_for_errors(Ref<Object> evd, EventSink& sink, bool is_own) noexcept {
    const LockGuard guard(EventSink::users_mutex);
    async_evd_ = std::move(evd);
    async_sink_ = &sink;
    owns_async_evd_ = is_own;
    next_user_ = std::exchange(sink.first_user_, this);
}

void IaContext::forget_errors() noexcept {
    const LockGuard guard(EventSink::users_mutex);
    if (async_sink_ != nullptr) {
        forget_sink_locked();
    }
}

void IaContext::forget_sink_locked() noexcept {
    IaContext** link = &async_sink_->first_user_;
    while (*link != this) {
        link = &(*link)->next_user_;
    }
    *link = std::exchange(next_user_, nullptr);
    async_sink_ = nullptr;
    async_evd_ = Ref<Object>();
    owns_async_evd_ = false;
}

void* IaContext::async_evd() noexcept {
    const LockGuard guard(EventSink::users_mutex);
    return async_evd_.handle();
}

void IaContext::report(const Event& event) noexcept {
    const LockGuard guard(EventSink::users_mutex);
    if (async_sink_ == nullptr || !async_sink_->take(event)) {
        SLUICE_LOG(kWarning, "dat", "an asynchronous error is lost (%u): no dispatcher takes it",
                   static_cast<unsigned>(event.kind));
    }
}

void IaContext::report_overflow(const Object& evd) noexcept {
    SLUICE_LOG(kInfo, "dat", "an event is lost: its dispatcher is full");
    report({EventKind::kEvdOverflow, evd.handle()});
}

void IaContext::list_locked(Object& object, HandleKind kind, void* handle) noexcept {
    object.handle_ = handle;
    object.next_ = first_[kind];
    if (object.next_ != nullptr) {
        object.next_->previous_ = &object;
    }
    first_[kind] = &object;
}

void IaContext::forget(Object& object, HandleKind kind) noexcept {
    const LockGuard guard(mutex_);
    (object.previous_ != nullptr ? object.previous_->next_ : first_[kind]) = object.next_;
    if (object.next_ != nullptr) {
        object.next_->previous_ = object.previous_;
    }
    changed_.notify_all();
}

bool IaContext::is_idle() noexcept {
    const void* own_evd = nullptr;
    {
        const LockGuard guard(EventSink::users_mutex);
        own_evd = owns_async_evd_ ? async_evd_.handle() : nullptr;
    }
    const LockGuard guard(mutex_);
    for (const Object* const first : first_) {
        const bool is_own_evd = first != nullptr && own_evd != nullptr && first->handle() == own_evd;
        if (first != nullptr && !(is_own_evd && first->next_ == nullptr)) {
            return false;
        }
    }
    return true;
}

} // namespace sluice::dapl
