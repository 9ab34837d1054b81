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

Result<void*> Ia::open(std::unique_ptr<Ia>& ia, const void* front) {
    Device& device = ia->device();
    device.join(*ia, false);
    Result<void*> handle = handles().insert(ia.get(), front);
    if (handle) {
        Ia& opened = *ia.release();
        set_handle(opened, *handle);
        device.join(opened, true);
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

Result<void> Ia::start_connections() {
    Result<std::unique_ptr<glue::ConnectionService>> connections =
        glue::open_connections(device().context(), device().address());
    if (!connections) {
        return std::move(connections).error();
    }
    connections_ = *std::move(connections);
    return loop().add(connections_->fd(), *this);
}

void Ia::on_async_event(ibv_event_type) noexcept {
    report({EventKind::kIaGone, handle()}); // the only event that an adapter gets
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

// A connection names its owner by handle, so that an owner that was freed since gets nothing.
void Ia::take_events() {
    while (true) {
        const LockGuard guard(delivering());
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
            (*ep)->connection().on_event(event);
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
    for (Object* each = first_locked(kPsp); each != nullptr; each = next_of(*each)) {
        if (static_cast<Psp*>(each)->qualifier() == qualifier) {
            return each->handle();
        }
    }
    for (Object* each = first_locked(kRsp); each != nullptr; each = next_of(*each)) {
        if (static_cast<Rsp*>(each)->qualifier() == qualifier) {
            return each->handle();
        }
    }
    return nullptr;
}

void Ia::hand_on(glue::ConnectionEvent& request, std::uint64_t qualifier) {
    give_request(request, find_point(qualifier));
    if (request.request != nullptr) {
        (void)request.request->refuse(); // as where no point listens; the peer may be gone
    }
}

template<typename T>
void Ia::destroy_all() noexcept {
    while (true) {
        void* handle = nullptr;
        {
            const LockGuard guard(mutex_);
            const Object* const first = first_locked(T::kHandleKind);
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
        while (first_locked(T::kHandleKind) != nullptr && first_locked(T::kHandleKind)->handle() == handle) {
            changed_.wait(mutex_);
        }
    }
}

// None of them goes while the list is locked.
void Ia::abandon_cnos() noexcept {
    const LockGuard guard(mutex_);
    for (Object* each = first_locked(kCno); each != nullptr; each = next_of(*each)) {
        each->abandon();
    }
}

// An object with references to others goes before them.
void Ia::empty() noexcept {
    device().leave(*this);
    if (connections_ != nullptr) {
        loop().remove(connections_->fd(), *this);
    }
    forget_errors();
    destroy_all<Psp>();
    destroy_all<Rsp>();
    destroy_all<Cr>();
    destroy_all<Ep>();
    destroy_all<Rmr>();
    destroy_all<Srq>();
    destroy_all<Lmr>();
    abandon_cnos(); // waiters hear that it is dead, and not that its last dispatcher has let it go
    destroy_all<Evd>();
    destroy_all<Cno>();
    destroy_all<Pz>();
}

} // namespace sluice::dapl
