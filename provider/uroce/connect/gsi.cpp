// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/connect/gsi.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <utility>

#include "core/boundary.hpp"
#include "core/event_descriptor.hpp"
#include "core/file_tree.hpp"
#include "core/log.hpp"
#include "core/thread.hpp"
#include "provider/uroce/verbs/open.hpp"
#include "provider/uroce/verbs/verbs.hpp"
#include "roce/socket/address.hpp"
#include "roce/socket/port_owner.hpp"

namespace sluice::uroce::connect {
namespace {

constexpr engine::Nanoseconds kSecond = 1'000'000'000;
constexpr std::size_t kStackBytes = std::size_t{128} * 1024; // nothing here calls a program

cm::ManagerConfig config_for(device::Device& device, const RandomKey& secret) noexcept {
    cm::ManagerConfig config;
    config.guid = device::guid_of(device.where().gid);
    config.secret = secret;
    config.max_path_mtu = static_cast<std::uint8_t>(verbs::to_ibv_mtu(device.where().path_mtu()));
    config.max_rd_atomic = verbs::kMaxRdAtomic;
    config.keepalive = device.keepalive();
    config.share = device.share();
    config.claims = device.port_claims();
    config.counters = &device.counters().connections;
    return config;
}

struct Ends {
    engine::Address source;
    engine::Address destination;
};

// Of a datagram, by the header that it came with.
Ends ends_of(const wire::Grh& grh) noexcept {
    constexpr std::size_t kIpv4At = 20;
    const std::span<const std::uint8_t, sizeof(wire::Grh)> bytes(grh);
    const auto v6 = wire::decode<wire::Ipv6Header>(bytes);
    if (v6.version == 6) {
        return {.source = {v6.source}, .destination = {v6.destination}};
    }
    const auto v4 = wire::decode<wire::Ipv4Header>(bytes.subspan<kIpv4At, wire::Ipv4Header::kBytes>());
    return {.source = roce::socket::from_ipv4(v4.source),
            .destination = roce::socket::from_ipv4(v4.destination)};
}

} // namespace

Gsi::Arrivals::Arrivals(Gsi& its_owner) : engine::CompletionQueue(kReceives, on_arrival), owner(its_owner) {}

Gsi::Gsi(device::Device& device, const RandomKey& secret)
    : device_(device), buffers_(std::make_unique<Buffer[]>(kReceives)), sent_(kSends), arrived_(*this),
      service_(config_for(device, secret), device.where().gid, *this) {}

Result<std::unique_ptr<device::Companion>> Gsi::start(device::Device& device) {
    Result<RandomKey> secret = RandomKey::from_system();
    if (!secret) {
        return std::move(secret).error();
    }
    std::unique_ptr<Gsi> gsi(new Gsi(device, *secret));
    Result<void> made = gsi->make_queue_pair();
    if (made) {
        made = gsi->start_thread();
    }
    if (!made) {
        return std::move(made).error();
    }
    return std::unique_ptr<device::Companion>(std::move(gsi));
}

Result<Service*> connections_of(ibv_context* context) {
    if (!verbs::is_ours(context)) {
        return Error(ErrorKind::kNotSupported, "this device isn't uroce's: librdmacm connects it");
    }
    verbs::Context& ours = verbs::context_of(context);
    if (ours.gone()) {
        return Error(ErrorKind::kDeviceGone, "this context was opened before a fork, by the parent", EIO);
    }
    Result<device::Companion*> gsi = ours.device.companion(Gsi::start);
    if (!gsi) {
        return std::move(gsi).error();
    }
    return &static_cast<Gsi*>(*gsi)->service();
}

Result<void> use_address(ibv_context* context, const sockaddr& address) {
    if (!verbs::is_ours(context)) {
        return Error(ErrorKind::kInvalidArgument, "this device isn't uroce's", EINVAL);
    }
    verbs::Context& ours = verbs::context_of(context);
    if (ours.gone()) {
        return Error(ErrorKind::kDeviceGone, "this context was opened before a fork, by the parent", EIO);
    }
    const Result<Endpoint> endpoint = to_endpoint(address);
    return endpoint ? ours.device.take_address(endpoint->address) : endpoint.error().clone();
}

Gsi::~Gsi() {
    if (running_) {
        stopping_ = true;
        ring_eventfd(wake_fd_);
        pthread_join(thread_, nullptr);
    }
    {
        const device::Device::ProgressSession session(device_);
        if (qp_ != nullptr) {
            session.engine().destroy_queue_pair(*qp_);
        }
        if (has_key_) {
            (void)session.engine().regions().remove_region(key_); // nothing is bound to it
        }
    }
    if (wake_fd_ >= 0) {
        close(wake_fd_);
    }
}

Result<void> Gsi::make_queue_pair() {
    const device::Device::ProgressSession session(device_);
    const std::uint32_t pd = device_.new_domain();
    const auto address = reinterpret_cast<std::uintptr_t>(buffers_.get());
    const Result<std::uint32_t> key = session.engine().regions().add_region(
        pd, address, address, kReceives * sizeof(Buffer), engine::kLocalWrite);
    if (!key) {
        return key.error().clone();
    }
    key_ = *key;
    has_key_ = true;
    Result<engine::QueuePair*> made = session.engine().create_gsi({.type = engine::QpType::kUd,
                                                                   .pd = pd,
                                                                   .send_cq = &sent_,
                                                                   .recv_cq = &arrived_,
                                                                   .max_send_wr = kSends,
                                                                   .max_recv_wr = kReceives,
                                                                   .max_inline = wire::kMadBytes});
    if (!made) {
        return std::move(made).error();
    }
    qp_ = *made;
    engine::QpAttributes attributes;
    attributes.path_mtu = wire::kMadBytes;
    attributes.qkey = wire::kGsiQkey;
    attributes.local = device_.where().gid;
    for (const engine::QpState state :
         {engine::QpState::kInit, engine::QpState::kReadyToReceive, engine::QpState::kReadyToSend}) {
        Result<void> modified = qp_->modify(state, attributes);
        if (!modified) {
            return modified;
        }
    }
    for (std::uint64_t buffer = 0; buffer < kReceives; ++buffer) {
        post_receive(buffer);
    }
    return {};
}

// With the device's session held. There is room for as many as there are buffers.
void Gsi::post_receive(std::uint64_t buffer) noexcept {
    const engine::Sge sge = {reinterpret_cast<std::uintptr_t>(&buffers_[buffer]), sizeof(Buffer), key_};
    (void)qp_->post_receive({.wr_id = buffer, .sges = {&sge, 1}});
}

Result<void> Gsi::start_thread() {
    wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_fd_ < 0) {
        return Error::from_errno(errno, "no descriptor for the connection manager; raise `ulimit -n`");
    }
    const int error = start_quiet_thread(thread_, "uroce-cm", kStackBytes, run, this);
    if (error != 0) {
        return Error::from_errno(error, "no thread for the connection manager; raise `ulimit -u`");
    }
    running_ = true;
    return {};
}

engine::Nanoseconds Gsi::now() noexcept {
    return device::monotonic_now();
}

void Gsi::send(const cm::OutMad& mad) noexcept {
    const engine::Sge sge = {reinterpret_cast<std::uintptr_t>(mad.bytes.data()), wire::kMadBytes, 0};
    engine::SendWr wr;
    wr.flags = engine::kInline;
    wr.source = mad.source;
    wr.destination = mad.destination;
    wr.dest_qpn = wire::kGsiQpn;
    wr.qkey = wire::kGsiQkey;
    wr.sges = {&sge, 1};
    const device::Device::ProgressSession session(device_);
    (void)qp_->post_send(wr); // a full queue loses it, as a network would
    session.engine().posted(*qp_);
}

void Gsi::wake_at(engine::Nanoseconds when) noexcept {
    engine::Nanoseconds now_set = wake_at_.load(std::memory_order_relaxed);
    while (when < now_set) {
        if (wake_at_.compare_exchange_weak(now_set, when, std::memory_order_relaxed)) {
            ring_eventfd(wake_fd_);
            return;
        }
    }
}

bool Gsi::is_anybody_at(const engine::Address& peer) noexcept {
    const Result<bool> is_there = at_boundary("looking for a peer", [&]() -> Result<bool> {
        return roce::socket::find_port_owner(FileTree(), peer).has_value();
    });
    return !is_there || *is_there;
}

// Where somebody else is, that one answers.
void Gsi::prepare(const engine::Address& peer, std::uint64_t service) {
    const cm::PortClaims* const claims = device_.port_claims();
    if (claims == nullptr || !device_.where().has_on_demand(peer) ||
        !claims->is_claimed_everywhere(service)) {
        return;
    }
    const Result<void> used = device_.use_address(peer);
    if (!used) {
        SLUICE_LOG(kInfo, "uroce", "%s isn't this device's: %s", roce::socket::to_text(peer).data(),
                   used.error().text());
    }
}

bool Gsi::is_seat_empty(const engine::Address& address, std::uint32_t seat) noexcept {
    return device_.is_seat_empty(address, seat);
}

void Gsi::peer_is_gone(const engine::Ends& ends) noexcept {
    device_.connection_ended(ends);
}

cm::Sight Gsi::look_for(const engine::Ends& ends) noexcept {
    const device::Device::ProgressSession session(device_);
    switch (device_.find_peer(ends)) {
    case engine::Peer::kLives:
    case engine::Peer::kAnswers:
        return cm::Sight::kHere;
    case engine::Peer::kGone:
        return cm::Sight::kGone;
    case engine::Peer::kUnknown:
        break;
    }
    return device_.is_port_refused(ends) ? cm::Sight::kRefused : cm::Sight::kSilent;
}

// As libibverbs' own: the public state follows. A thread may end a connection while another takes the event
// that says that the peer has.
int Gsi::modify_qp(ibv_qp& qp, ibv_qp_attr& attr, int mask) noexcept {
    if (!verbs::is_ours(qp.context) || &verbs::context_of(qp.context).device != &device_) {
        return EINVAL;
    }
    const int error = verbs::modify_qp(&qp, &attr, mask);
    if (error == 0 && (mask & IBV_QP_STATE) != 0) {
        std::atomic_ref(qp.state).store(attr.qp_state, std::memory_order_relaxed);
    }
    return error;
}

void Gsi::on_arrival(engine::CompletionQueue& queue) noexcept {
    ring_eventfd(static_cast<Arrivals&>(queue).owner.wake_fd_);
}

void Gsi::process_ended(const engine::Address& address, const engine::Share& its) noexcept {
    tell_thread({.what = Ended::What::kEnded, .address = address, .its = its});
}

void Gsi::peer_denies(const engine::Ends& ends) noexcept {
    tell_thread({.what = Ended::What::kDenies, .ends = ends});
}

// Its last message may still wait for the thread: a process that took leave before it ended has disconnected.
void Gsi::tell_thread(const Ended& ended) noexcept {
    const Result<void> kept = at_boundary("the end of a peer's process", [&]() -> Result<void> {
        const LockGuard guard(ending_);
        ended_.push_back(ended);
        return {};
    });
    if (kept) {
        ring_eventfd(wake_fd_);
    } else {
        take(ended);
    }
}

void Gsi::take(const Ended& ended) noexcept {
    switch (ended.what) {
    case Ended::What::kEnded:
        return service_.process_ended(ended.address, ended.its);
    case Ended::What::kDenies:
        return service_.peer_denies(ended.ends);
    }
}

std::vector<Gsi::Ended> Gsi::take_ended() noexcept {
    const LockGuard guard(ending_);
    return std::exchange(ended_, {});
}

void* Gsi::run(void* self) noexcept {
    static_cast<Gsi*>(self)->loop();
    return nullptr;
}

void Gsi::loop() noexcept {
    while (!stopping_) {
        const std::vector<Ended> ended = take_ended(); // what those had sent arrived before
        arrived_.arm(engine::CompletionQueue::Arm::kAny);
        take_arrivals(); // also those that came before
        for (const Ended& one : ended) {
            take(one);
        }
        if (wake_at_.load(std::memory_order_relaxed) <= device::monotonic_now()) {
            // First, so that what advance() asks for isn't forgotten.
            wake_at_.store(engine::kNever, std::memory_order_relaxed);
            service_.advance();
        }
        wait();
    }
}

void Gsi::take_arrivals() noexcept {
    engine::Completion completion;
    while (arrived_.poll(completion)) {
        take(completion, buffers_[completion.wr_id]);
        const device::Device::ProgressSession session(device_);
        post_receive(completion.wr_id);
    }
}

void Gsi::take(const engine::Completion& completion, const Buffer& buffer) noexcept {
    // What isn't from another queue pair 1 speaks for nobody.
    if (completion.status == engine::Status::kSuccess && completion.src_qpn == wire::kGsiQpn &&
        completion.len_bytes == sizeof(Buffer)) {
        const Ends ends = ends_of(buffer.grh);
        // Another process may have brought it here: the answer leaves from where the question went to.
        (void)at_boundary("answering for an address", [&] { return device_.take_address(ends.destination); });
        // A message may say that the connection ends. What the peer acknowledged before came another way.
        device_.catch_up();
        service_.receive(ends.source, ends.destination, buffer.mad);
    }
}

Result<void> Gsi::use(const engine::Address& local) {
    return device_.take_address(local);
}

// What somebody else has keeps nobody from listening at the others.
void Gsi::use_all(const engine::Address& any) {
    for (std::size_t index = 1; index < device_.gids().length(); ++index) {
        const engine::Address* const one = device_.gids().at(index);
        if (one == nullptr || (engine::is_ipv4(any) && !engine::is_ipv4(*one))) {
            continue;
        }
        const Result<void> used = device_.use_address(*one);
        if (!used) {
            SLUICE_LOG(kWarning, "uroce", "no requests arrive at %s: %s", roce::socket::to_text(*one).data(),
                       used.error().text());
        }
    }
}

engine::Address Gsi::other_family() const noexcept {
    const device::GidTable& gids = device_.gids();
    const bool v4 = engine::is_ipv4(device_.where().gid);
    for (std::size_t index = 1; index < gids.length(); ++index) {
        const engine::Address* const one = gids.at(index);
        if (one != nullptr && engine::is_ipv4(*one) != v4) {
            return *one;
        }
    }
    return {};
}

std::uint8_t Gsi::gid_index(const engine::Address& local) const noexcept {
    const device::GidTable& gids = device_.gids();
    for (std::size_t index = 1; index < gids.length(); ++index) {
        const engine::Address* const one = gids.at(index);
        if (one != nullptr && *one == local) {
            return static_cast<std::uint8_t>(index);
        }
    }
    return 0;
}

void Gsi::wait() noexcept {
    const engine::Nanoseconds until = wake_at_.load(std::memory_order_relaxed);
    const engine::Nanoseconds now = device::monotonic_now();
    const engine::Nanoseconds left = until > now ? until - now : 0;
    const timespec limit = {.tv_sec = static_cast<time_t>(left / kSecond),
                            .tv_nsec = static_cast<long>(left % kSecond)};
    pollfd waiting = {.fd = wake_fd_, .events = POLLIN, .revents = 0};
    (void)ppoll(&waiting, 1, until == engine::kNever ? nullptr : &limit, nullptr);
    (void)quiet_eventfd(wake_fd_);
}

} // namespace sluice::uroce::connect
