// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/ia.hpp"

#include "core/boundary.hpp"
#include "core/log.hpp"
#include "udapl/provider/cno.hpp"
#include "udapl/provider/ep.hpp"
#include "udapl/provider/memory.hpp"
#include "udapl/provider/rmr.hpp"
#include "udapl/provider/service_points.hpp"

namespace sluice::dapl {

constinit HandleTable all_handles;

Result<void*> Ia::open(std::unique_ptr<Ia>& ia, const void* front) {
    Device& device = ia->device();
    device.join(ia.get(), nullptr);
    Result<void*> handle = handles().insert(ia.get(), front);
    if (handle) {
        Ia* const opened = ia.release();
        opened->handle_ = *handle;
        device.join(opened, *handle);
    }
    return handle;
}

bool Ia::close(Pin<Ia> ia) noexcept {
    const Result<Ia*> mine = handles().retire(std::move(ia));
    if (mine) {
        const std::unique_ptr<Ia> owned(*mine);
        owned->empty();
    }
    return mine.ok();
}

void Ia::use_for_errors(Held<Evd> evd, bool is_own) noexcept {
    const LockGuard guard(errors_mutex_);
    async_evd_ = std::move(evd);
    owns_async_evd_ = is_own;
}

void Ia::tell(const Event& event) noexcept {
    const LockGuard guard(errors_mutex_);
    if (!async_evd_ || async_evd_->post(event) != EvdAnswer::kDone) {
        SLUICE_LOG(kWarning, "dat", "an asynchronous error is lost (%u): nobody takes them",
                   static_cast<unsigned>(event.kind));
    }
}

void Ia::tell_overflow(const Evd& evd) noexcept {
    SLUICE_LOG(kInfo, "dat", "an event is lost: its dispatcher is full");
    tell({EventKind::kEvdOverflow, evd.handle()});
}

void Ia::end_endpoints_of(const Evd& evd) {
    std::vector<void*> endpoints;
    {
        const LockGuard guard(mutex_);
        for (const Object* each = first_[kEp]; each != nullptr; each = each->next_) {
            endpoints.push_back(each->handle());
        }
    }
    for (void* const each : endpoints) {
        if (const Result<Pin<Ep>> ep = handles().get<Ep>(each); ep && (*ep)->completes_at(evd)) {
            (*ep)->on_device_error();
        }
    }
}

void Ia::wake_at(std::uint64_t time, void* endpoint) {
    const LockGuard guard(times_mutex_);
    times_.insert({time, endpoint});
    if (times_.begin()->first == time) {
        loop().wake_at(*this, time);
    }
}

void Ia::forget_time(std::uint64_t time, void* endpoint) noexcept {
    const LockGuard guard(times_mutex_);
    times_.erase({time, endpoint});
}

// Null when none is due; the loop comes again for the next one.
void* Ia::take_due(std::uint64_t now) noexcept {
    const LockGuard guard(times_mutex_);
    if (times_.empty() || times_.begin()->first > now) {
        return nullptr;
    }
    return times_.extract(times_.begin()).value().second;
}

void Ia::on_time() noexcept {
    const std::uint64_t now = now_ns();
    while (void* const due = take_due(now)) {
        if (const Result<Pin<Ep>> ep = handles().get<Ep>(due)) {
            (*ep)->on_time(now);
        }
    }
    const Result<void> done = at_boundary("dat times", [this]() -> Result<void> {
        const LockGuard guard(times_mutex_);
        loop().wake_at(*this, times_.empty() ? kNever : times_.begin()->first);
        return {};
    });
    if (!done) {
        SLUICE_LOG(kWarning, "dat", "timeouts may come late: %s", done.error().text());
    }
}

Result<void> Ia::start_connections() {
    Result<std::unique_ptr<glue::ConnectionService>> connections =
        glue::open_connections(device_->context(), device_->address());
    if (!connections) {
        return std::move(connections).error();
    }
    connections_ = *std::move(connections);
    return loop().add(connections_->fd(), *this);
}

void Ia::on_readable() noexcept {
    const Result<void> done = at_boundary("dat events", [this]() -> Result<void> {
        take_events();
        return {};
    });
    if (!done) {
        SLUICE_LOG(kWarning, "dat", "an event of a connection is lost: %s", done.error().text());
    }
}

// Their owners are named by handle: who was freed since is nobody's.
void Ia::take_events() {
    while (true) {
        const LockGuard guard(telling_);
        Result<std::optional<glue::ConnectionEvent>> taken = connections_->next_event();
        if (!taken) {
            SLUICE_LOG(kWarning, "dat", "taking an event: %s", taken.error().text());
            return;
        }
        if (!*taken) {
            return;
        }
        glue::ConnectionEvent& event = **taken;
        if (const Result<Pin<Ep>> ep = handles().get<Ep>(event.owner)) {
            (*ep)->on_event(event);
        } else {
            give_request(event, event.owner);
        }
    }
}

void Ia::give_request(glue::ConnectionEvent& event, void* point) {
    if (const Result<Pin<Psp>> psp = handles().get<Psp>(point)) {
        (*psp)->on_request(event);
    } else if (Result<Pin<Rsp>> rsp = handles().get<Rsp>(point)) {
        // Its end, unless the program frees it at this moment.
        if ((*rsp)->on_request(event) && (*rsp)->close()) {
            destroy(*std::move(rsp));
        }
    }
}

void* Ia::find_point(std::uint64_t qualifier) noexcept {
    const LockGuard guard(mutex_);
    for (Object* each = first_[kPsp]; each != nullptr; each = each->next_) {
        if (static_cast<Psp*>(each)->qualifier() == qualifier) {
            return each->handle();
        }
    }
    for (Object* each = first_[kRsp]; each != nullptr; each = each->next_) {
        if (static_cast<Rsp*>(each)->qualifier() == qualifier) {
            return each->handle();
        }
    }
    return nullptr;
}

void Ia::hand_on(glue::ConnectionEvent& request, std::uint64_t qualifier) {
    give_request(request, find_point(qualifier));
    if (request.request != nullptr) {
        (void)request.request->refuse(); // as where nobody listens; the peer may be gone
    }
}

void Ia::list_locked(Object& object, HandleKind kind, void* handle) noexcept {
    object.handle_ = handle;
    object.next_ = first_[kind];
    if (object.next_ != nullptr) {
        object.next_->previous_ = &object;
    }
    first_[kind] = &object;
}

void Ia::forget(Object& object, HandleKind kind) noexcept {
    const LockGuard guard(mutex_);
    (object.previous_ != nullptr ? object.previous_->next_ : first_[kind]) = object.next_;
    if (object.next_ != nullptr) {
        object.next_->previous_ = object.previous_;
    }
    changed_.notify_all();
}

bool Ia::is_idle() noexcept {
    const Object* const own_evd = owns_async_evd_ ? async_evd() : nullptr;
    const LockGuard guard(mutex_);
    for (const Object* const first : first_) {
        const bool is_own_evd = first != nullptr && first == own_evd;
        if (first != nullptr && !(is_own_evd && first->next_ == nullptr)) {
            return false;
        }
    }
    return true;
}

template<typename T>
void Ia::destroy_all() noexcept {
    while (true) {
        void* handle = nullptr;
        {
            const LockGuard guard(mutex_);
            const Object* const first = first_[T::kHandleKind];
            if (first == nullptr) {
                return;
            }
            handle = first->handle();
        }
        Result<Pin<T>> object = handles().template get<T>(handle);
        if (object) {
            (*object)->abandon();
            destroy(*std::move(object));
            continue;
        }
        // Another thread frees it at this moment.
        const LockGuard guard(mutex_);
        while (first_[T::kHandleKind] != nullptr && first_[T::kHandleKind]->handle() == handle) {
            changed_.wait(mutex_);
        }
    }
}

// What holds others goes before them.
void Ia::empty() noexcept {
    device_->leave(this);
    if (connections_ != nullptr) {
        loop().remove(connections_->fd(), *this);
    }
    use_for_errors(Held<Evd>(), false);
    destroy_all<Psp>();
    destroy_all<Rsp>();
    destroy_all<Cr>();
    destroy_all<Ep>();
    destroy_all<Rmr>();
    destroy_all<Srq>();
    destroy_all<Lmr>();
    destroy_all<Evd>();
    destroy_all<Cno>();
    destroy_all<Pz>();
}

} // namespace sluice::dapl
