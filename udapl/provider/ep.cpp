// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/ep.hpp"

#include "core/log.hpp"
#include "udapl/provider/ia_context.hpp"

namespace sluice::dapl {

Result<std::unique_ptr<Ep>> Ep::make(IaContext& ia, EpSetup setup) {
    std::unique_ptr<Ep> ep(new Ep(ia, std::move(setup)));
    if (Result<void> opened = ep->queues_.open(); !opened) {
        return std::move(opened).error();
    }
    return ep;
}

// From close() on no completion schedules the task any more.
Ep::~Ep() {
    abandon();
    connection_.stop();
    queues_.close();
    ia().loop().cancel(*this);
}

void Ep::on_async_event(ibv_event_type type) noexcept {
    if (type == IBV_EVENT_COMM_EST) {
        connection_.on_communication();
    } else {
        connection_.on_device_error();
    }
}

EpView Ep::view() noexcept {
    const LockGuard guard(connection_.mutex());
    const EpSetup& setup = queues_.setup();
    EpView view{.state = EpState::kUnconnected,
                .options = setup.options,
                .pz = setup.pz.handle(),
                .receive = setup.evds.receive.handle(),
                .request = setup.evds.request.handle(),
                .connect = setup.evds.connect.handle(),
                .srq = setup.srq.handle(),
                .peer = nullptr,
                .peer_qualifier = 0,
                .local_port = 0};
    if (setup.srq) {
        view.options.max_receive_segments = setup.srq->max_segments();
    }
    connection_.describe_locked(view);
    return view;
}

void Ep::collect() noexcept {
    if (queues_.is_receive_idle() && queues_.is_request_idle()) {
        return;
    }
    const LockGuard guard(connection_.mutex());
    queues_.collect();
}

ReceiveUse Ep::receive_use() noexcept {
    const LockGuard guard(connection_.mutex());
    return queues_.receive_use();
}

void Ep::set_watermarks(const Watermarks& watermarks) noexcept {
    const LockGuard guard(connection_.mutex());
    queues_.set_watermarks(watermarks);
}

EpAnswer Ep::modify(EpChange& change) {
    EpSetup setup;
    std::optional<glue::QueuePair>
        former; // goes without the lock, while its dispatchers are still referred to
    const LockGuard guard(connection_.mutex());
    const EpState now = state();
    const bool is_reserved = now == EpState::kReserved || now == EpState::kPassive;
    if (now != EpState::kUnconnected && !(is_reserved && !change.needs_unconnected)) {
        return EpAnswer::kBadState;
    }
    const auto again = [](const auto& ref) { return std::remove_cvref_t<decltype(ref)>(ref.get()); };
    const auto chosen = [&](auto& wanted, const auto& present) {
        return wanted ? *std::move(wanted) : again(present);
    };
    const EpSetup& present = queues_.setup();
    setup.pz = chosen(change.pz, present.pz);
    setup.evds.lender = change.connect ? Ref<IaContext>() : again(present.evds.lender);
    setup.evds.receive = chosen(change.receive, present.evds.receive);
    setup.evds.request = chosen(change.request, present.evds.request);
    setup.evds.connect = chosen(change.connect, present.evds.connect);
    setup.options = change.options;
    setup.srq = again(present.srq);
    if (setup.srq && &setup.srq->pz() != setup.pz.get()) {
        return EpAnswer::kOtherZone;
    }
    return queues_.change(setup, former);
}

// A fresh queue pair: the connection manager keeps the former one's number for a while.
EpAnswer Ep::reset() {
    std::optional<glue::QueuePair> former;         // goes without the lock
    const LockGuard delivering(ia().delivering()); // no event of the connection is on its way
    const LockGuard guard(connection_.mutex());
    if (state() == EpState::kUnconnected) {
        return EpAnswer::kDone;
    }
    if (state() != EpState::kDisconnected) {
        return EpAnswer::kBadState;
    }
    Result<glue::QueuePair> fresh = queues_.make_queue_pair();
    if (!fresh) {
        SLUICE_LOG(kInfo, "dat", "resetting an endpoint: %s (%d)", fresh.error().text(),
                   fresh.error().os_errno());
        return EpAnswer::kNoResources;
    }
    connection_.drop_locked();
    former = queues_.replace(*std::move(fresh));
    connection_.forget_locked();
    return EpAnswer::kDone;
}

} // namespace sluice::dapl
