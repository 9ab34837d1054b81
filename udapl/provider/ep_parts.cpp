// SPDX-License-Identifier: BSD-3-Clause
//
// What endpoints are made of: protection zone, dispatchers and queues, and how these are replaced.
#include "core/log.hpp"
#include "udapl/provider/ep.hpp"
#include "udapl/provider/ia.hpp"

namespace sluice::dapl {

namespace {

constexpr unsigned kPeerMay = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
constexpr std::uint8_t kPort = 1;

ibv_cq* queue_of(const Held<Evd>& evd, const std::unique_ptr<Evd>& otherwise) noexcept {
    return evd ? evd->completions()->get() : otherwise->completions()->get();
}

Result<void> fill_gaps(Ia& ia, EpParts& parts) {
    if (parts.unused != nullptr || (parts.evds.receive && parts.evds.request)) {
        return {};
    }
    Result<std::unique_ptr<Evd>> made = Evd::make(ia, 1, kDtoStream);
    if (!made) {
        return std::move(made).error();
    }
    parts.unused = *std::move(made);
    return {};
}

EpAnswer failed(const Error& error) noexcept {
    SLUICE_LOG(kInfo, "dat", "the queues of an endpoint: %s (%d)", error.text(), error.os_errno());
    return EpAnswer::kNoResources;
}

// Parts of each request that are kept until it is complete, where the device doesn't see the CPU's caches.
std::uint32_t kept_parts(const Ia& ia, std::uint32_t parts) noexcept {
    return ia.device().memory().sync_required() ? parts : 0;
}

DtoStore make_requests(const Ia& ia, const EpParts& parts) {
    return {parts.options.max_requests, kept_parts(ia, parts.options.max_read_parts)};
}

DtoStore make_receives(const Ia& ia, const EpParts& parts) {
    return {parts.srq ? 0 : parts.options.max_receives, kept_parts(ia, parts.options.max_receive_parts)};
}

template<typename T>
Held<T> again(const Held<T>& held) noexcept {
    return Held<T>(held.get());
}

} // namespace

Ep::Ep(Ia& ia, EpParts parts)
    : Object(&ia), parts_(std::move(parts)), requests_(make_requests(ia, parts_)),
      receives_(make_receives(ia, parts_)) {}

Result<std::unique_ptr<Ep>> Ep::make(Ia& ia, Held<Pz> pz, EpEvds evds, const EpOptions& options,
                                     Held<Srq> srq) {
    EpParts parts{std::move(pz), std::move(evds), options, std::move(srq), nullptr};
    if (Result<void> filled = fill_gaps(ia, parts); !filled) {
        return std::move(filled).error();
    }
    {
        const LockGuard guard(ia.joining());
        if (!join(parts)) {
            return Error(ErrorKind::kInvalidArgument, "other endpoints use the dispatcher in another way");
        }
    }
    std::unique_ptr<Ep> ep(new Ep(ia, std::move(parts)));
    Result<glue::QueuePair> qp = ep->make_queue_pair(ep->parts_);
    if (!qp) {
        return std::move(qp).error();
    }
    ep->qp_ = *std::move(qp);
    ep->attach();
    return ep;
}

Ep::~Ep() {
    abandon();
    qp_.reset();
    if (parts_.evds.receive) {
        parts_.evds.receive->set_watermarks(receives_, handle(), {});
    }
    forget_posted();
    if (parts_.srq) {
        parts_.srq->detach(*this);
    }
    const LockGuard guard(ia().joining());
    leave(parts_);
}

Result<glue::QueuePair> Ep::make_queue_pair(const EpParts& parts) {
    ibv_qp_init_attr attributes{};
    attributes.qp_context = this;
    attributes.send_cq = queue_of(parts.evds.request, parts.unused);
    attributes.recv_cq = queue_of(parts.evds.receive, parts.unused);
    const EpOptions& options = parts.options;
    attributes.cap = {options.max_requests + kOwnRequests, options.max_receives, options.max_request_parts,
                      options.max_receive_parts, 0};
    attributes.qp_type = IBV_QPT_RC;
    if (parts.srq) {
        attributes.srq = parts.srq->queue().get();
        attributes.cap.max_recv_wr = attributes.cap.max_recv_sge = 0;
    }
    Result<glue::QueuePair> qp = glue::QueuePair::make(parts.pz->domain(), attributes);
    if (!qp) {
        return std::move(qp).error();
    }
    // Receives may be posted before it is connected.
    if (Result<void> ready = qp->to_init(kPort, kPeerMay); !ready) {
        return std::move(ready).error();
    }
    return qp;
}

void Ep::attach() {
    if (parts_.srq) {
        parts_.srq->attach({this, qp_->number(), parts_.evds.receive.get(), &receives_});
    }
}

bool Ep::join(const EpParts& parts) noexcept {
    if (parts.evds.receive && !parts.evds.receive->join(parts.options.receive_model)) {
        return false;
    }
    if (parts.evds.request && !parts.evds.request->join(parts.options.request_model)) {
        if (parts.evds.receive) {
            parts.evds.receive->leave();
        }
        return false;
    }
    return true;
}

void Ep::leave(const EpParts& parts) noexcept {
    for (const Held<Evd>* evd : {&parts.evds.receive, &parts.evds.request}) {
        if (*evd) {
            (*evd)->leave();
        }
    }
}

void Ep::forget_posted() noexcept {
    if (parts_.evds.request) {
        parts_.evds.request->forget(handle(), requests_);
    }
    if (parts_.evds.receive) {
        parts_.evds.receive->forget(handle(), receives_);
    }
    requests_.clear();
    receives_.clear();
}

bool Ep::completes_at(const Evd& evd) noexcept {
    const LockGuard guard(mutex_);
    return parts_.evds.receive.get() == &evd || parts_.evds.request.get() == &evd;
}

EpView Ep::view() noexcept {
    const LockGuard guard(mutex_);
    const EpState now = state();
    const bool knows_peer =
        now != EpState::kUnconnected && now != EpState::kReserved && now != EpState::kDisconnected;
    return {now,
            parts_.options,
            parts_.pz.handle(),
            parts_.evds.receive.handle(),
            parts_.evds.request.handle(),
            parts_.evds.connect.handle(),
            parts_.srq.handle(),
            knows_peer ? &peer_.address : nullptr,
            knows_peer ? peer_.qualifier : 0,
            knows_peer ? local_port_ : std::uint16_t{0}};
}

std::optional<EpPeer> Ep::peer() noexcept {
    const LockGuard guard(mutex_);
    return state() == EpState::kConnected ? std::optional(peer_) : std::nullopt;
}

ReceiveUse Ep::receive_use() noexcept {
    const LockGuard guard(mutex_);
    const std::uint32_t held = parts_.evds.receive ? parts_.evds.receive->held(receives_) : 0;
    const std::uint32_t allocated = receives_.posted() + held;
    return {allocated, allocated}; // they complete in the order in which they were posted
}

EpAnswer Ep::set_watermarks(const Watermarks& watermarks) {
    const LockGuard guard(mutex_);
    if (!parts_.evds.receive) {
        return EpAnswer::kNoEvd;
    }
    watermarks_ = watermarks;
    parts_.options.soft_watermark = watermarks.soft;
    parts_.evds.receive->set_watermarks(receives_, handle(), watermarks);
    return EpAnswer::kDone;
}

bool Ep::needs_queues_locked(const EpParts& parts) const noexcept {
    const EpOptions& now = parts_.options;
    const EpOptions& then = parts.options;
    return parts.pz.get() != parts_.pz.get() || parts.evds.receive.get() != parts_.evds.receive.get() ||
           parts.evds.request.get() != parts_.evds.request.get() || then.max_receives != now.max_receives ||
           then.max_requests != now.max_requests || then.max_receive_parts != now.max_receive_parts ||
           then.max_request_parts != now.max_request_parts;
}

EpAnswer Ep::modify(EpChange& change) {
    EpParts parts;
    std::optional<glue::QueuePair> former; // goes without the lock, while its dispatchers are still held
    const LockGuard guard(mutex_);
    const EpState now = state();
    const bool is_reserved = now == EpState::kReserved || now == EpState::kPassive;
    if (now != EpState::kUnconnected && !(is_reserved && !change.needs_unconnected)) {
        return EpAnswer::kBadState;
    }
    const auto chosen = [](auto& wanted, const auto& present) {
        return wanted ? *std::move(wanted) : again(present);
    };
    parts.pz = chosen(change.pz, parts_.pz);
    parts.evds = {chosen(change.receive, parts_.evds.receive), chosen(change.request, parts_.evds.request),
                  chosen(change.connect, parts_.evds.connect)};
    parts.options = change.options;
    parts.srq = again(parts_.srq);
    if (parts.srq && &parts.srq->pz() != parts.pz.get()) {
        return EpAnswer::kOtherZone;
    }
    return change_locked(parts, former);
}

// PARTS and FORMER become what was.
EpAnswer Ep::change_locked(EpParts& parts, std::optional<glue::QueuePair>& former) {
    const bool needs_queues = needs_queues_locked(parts);
    if (needs_queues && !is_receive_idle()) {
        return EpAnswer::kHasReceives;
    }
    DtoStore requests = make_requests(ia(), parts);
    DtoStore receives = make_receives(ia(), parts);
    if (needs_queues) {
        if (const Result<void> filled = fill_gaps(ia(), parts); !filled) {
            return failed(filled.error());
        }
        Result<glue::QueuePair> qp = make_queue_pair(parts);
        if (!qp) {
            return failed(qp.error());
        }
        former = *std::move(qp);
    } else {
        parts.unused = std::move(parts_.unused);
    }
    {
        const LockGuard joining(ia().joining());
        leave(parts_);
        if (!join(parts)) {
            (void)join(parts_); // as it was: nobody else has joined meanwhile
            if (!needs_queues) {
                parts_.unused = std::move(parts.unused);
            }
            return EpAnswer::kOtherModel;
        }
    }
    if (parts_.evds.receive) {
        parts_.evds.receive->set_watermarks(receives_, handle(), {});
    }
    {
        const LockGuard no_requests(requests_.lock());
        const LockGuard no_receives(receives_.lock());
        if (needs_queues) {
            former.swap(qp_);
            requests_.replace_locked(requests);
            receives_.replace_locked(receives);
        }
        std::swap(parts_, parts);
    }
    attach();
    watermarks_.soft = parts_.options.soft_watermark;
    if (parts_.evds.receive) {
        parts_.evds.receive->set_watermarks(receives_, handle(), watermarks_);
    }
    return EpAnswer::kDone;
}

// A fresh queue pair: the connection manager keeps the former one's number for a while. Nothing of that
// comes any more when it is in reset, so that its records are free for who posts from now on.
EpAnswer Ep::reset() {
    std::optional<glue::QueuePair> former;   // goes without the lock
    const LockGuard telling(ia().telling()); // no event of the connection is on its way
    const LockGuard guard(mutex_);
    if (state() == EpState::kUnconnected) {
        return EpAnswer::kDone;
    }
    if (state() != EpState::kDisconnected) {
        return EpAnswer::kBadState;
    }
    Result<glue::QueuePair> fresh = make_queue_pair(parts_);
    if (!fresh) {
        return failed(fresh.error());
    }
    connection_.reset();
    {
        const LockGuard no_requests(requests_.lock());
        const LockGuard no_receives(receives_.lock());
        former = std::exchange(qp_, *std::move(fresh));
        requests_.count_connection();
        receives_.count_connection();
        (void)former->to_reset();
        forget_posted();
    }
    attach();
    peer_data_.clear();
    state_ = EpState::kUnconnected;
    return EpAnswer::kDone;
}

} // namespace sluice::dapl
