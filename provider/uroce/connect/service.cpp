// SPDX-License-Identifier: BSD-3-Clause
//
// Calls of programs. Events on their way to them are in service_events.cpp.
#include "provider/uroce/connect/service.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <utility>

#include "provider/uroce/connect/socket_address.hpp"

namespace sluice::uroce::connect {
namespace {

constexpr std::uint32_t kDefaultBacklog = 128;
constexpr int kPortTries = 64; // of ports drawn by lot
constexpr engine::Nanoseconds kMillisecond = 1'000'000;

Error invalid(const char* text) noexcept {
    return Error(ErrorKind::kInvalidState, text, EINVAL);
}

std::span<const std::uint8_t> private_data_of(const sluice_cm_params& params) noexcept {
    return {static_cast<const std::uint8_t*>(params.private_data), params.private_data_len};
}

cm::Timing timing_of(const sluice_cm_params& params) noexcept {
    return {.response_timeout = params.response_timeout,
            .packet_lifetime = params.packet_lifetime,
            .max_retries = params.max_retries,
            .give_up_after = params.timeout_ms * kMillisecond};
}

TransitionOptions options_of(const sluice_cm_params& params) noexcept {
    return {.access = params.qp_access_flags,
            .min_rnr_timer = params.min_rnr_timer,
            .timeout = params.qp_timeout};
}

std::uint32_t qpn_of(const sluice_cm_params& params) noexcept {
    return params.qp != nullptr ? params.qp->qp_num : params.qp_num;
}

bool has_srq(const sluice_cm_params& params) noexcept {
    return params.qp != nullptr ? params.qp->srq != nullptr : params.srq != 0;
}

} // namespace

sluice_cm_params default_params() noexcept {
    constexpr std::uint8_t kAsManyAsPossible = 255;
    const cm::ConnectParams connect;
    sluice_cm_params params{};
    params.qp_access_flags = TransitionOptions{}.access;
    params.responder_resources = params.initiator_depth = kAsManyAsPossible;
    params.retry_count = connect.retry_count;
    params.rnr_retry_count = connect.rnr_retry_count;
    params.response_timeout = connect.timing.response_timeout;
    params.packet_lifetime = connect.timing.packet_lifetime;
    params.max_retries = connect.timing.max_retries;
    return params;
}

Service::Service(const cm::ManagerConfig& config, const engine::Address& local, ManagementPort& port)
    : config_(config), local_(local), port_(port), manager_(config) {}

void Service::receive(const engine::Address& source, const engine::Address& destination,
                      std::span<const std::uint8_t> mad) noexcept {
    const engine::Nanoseconds now = port_.now();
    const Turn turn(*this);
    manager_.receive(source, destination, mad, now);
}

void Service::advance() noexcept {
    {
        const engine::Nanoseconds now = port_.now();
        const Turn turn(*this);
        manager_.advance(now);
    }
    cm::ConnectionManager::Silent silent;
    while (next_silent(silent)) {
        if (!port_.is_anybody_at(silent.peer)) {
            const Turn turn(*this);
            manager_.nobody_there(silent.id);
        }
    }
    cm::ConnectionManager::Doubtful doubtful;
    while (next_doubtful(doubtful)) {
        const cm::Sight sight = port_.look_for(doubtful.ends);
        const Turn turn(*this);
        manager_.peer_seen(doubtful.id, sight, port_.now());
    }
}

bool Service::next_doubtful(cm::ConnectionManager::Doubtful& doubtful) noexcept {
    const LockGuard guard(mutex_);
    return manager_.next_doubtful(doubtful);
}

bool Service::next_silent(cm::ConnectionManager::Silent& silent) noexcept {
    const LockGuard guard(mutex_);
    return manager_.next_silent(silent);
}

cm::ConnectionManager::Ended Service::end_connections(const engine::Address& address,
                                                      const engine::Share& its) noexcept {
    const engine::Nanoseconds now = port_.now();
    const Turn turn(*this);
    return manager_.process_ended(address, its, now);
}

bool Service::has_connections(const engine::Address& address, const engine::Share& its) noexcept {
    const LockGuard guard(mutex_);
    return manager_.has_connections(address, its);
}

void Service::process_ended(const engine::Address& address, const engine::Share& its) noexcept {
    if (!has_connections(address, its)) {
        return;
    }
    if (!port_.is_seat_empty(address, its.which())) {
        const Turn turn(*this);
        manager_.process_replaced(address, its, port_.now());
        return;
    }
    for (bool more = true; more;) {
        const cm::ConnectionManager::Ended ended = end_connections(address, its);
        for (const engine::Ends& ends : std::span(ended.ends).first(ended.count)) {
            port_.peer_is_gone(ends);
        }
        more = ended.are_more;
    }
}

void Service::peer_denies(const engine::Ends& ends) noexcept {
    const Turn turn(*this);
    manager_.peer_denies(ends, port_.now());
}

void Service::communication_established(std::uint32_t qpn) noexcept {
    const Turn turn(*this);
    manager_.communication_established(qpn);
}

cm::ManagerCounters Service::counters() noexcept {
    const LockGuard guard(mutex_);
    return manager_.counters();
}

bool Service::another_sends_locked() const noexcept {
    return sender_ != std::thread::id() && sender_ != std::this_thread::get_id();
}

// One thread at a time takes messages from the manager to the port: when a call returns, also one that
// returns an event, what there was to say has left. A program may end then, and must not take a message with
// it that another thread has in its hands: the peer would wait for it for minutes. False: the port itself has
// called, and its caller goes on sending.
bool Service::begin_sending_locked() noexcept {
    while (another_sends_locked()) {
        settled_.wait(mutex_);
    }
    return std::exchange(sender_, std::this_thread::get_id()) == std::thread::id();
}

// One by one, because the lock isn't held while the port is at work.
void Service::send_all() noexcept {
    cm::OutMad out;
    engine::Nanoseconds next = engine::kNever;
    for (bool more = true; more;) {
        {
            const LockGuard guard(mutex_);
            more = manager_.transmit(out);
            next = manager_.next_deadline();
            if (!more) {
                sender_ = {};
                settled_.notify_all();
            }
        }
        if (more) {
            port_.send(out);
        }
    }
    if (next != engine::kNever) {
        port_.wake_at(next);
    }
}

Result<Channel*> Service::create_channel() {
    const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd < 0) {
        return Error::from_errno(errno, "no descriptor for a channel; raise `ulimit -n`");
    }
    auto* channel = new (std::nothrow) Channel{.service = *this, .fd = fd};
    if (channel == nullptr) {
        close(fd);
        return Error(ErrorKind::kInsufficientResources, "no memory for a channel");
    }
    return channel;
}

Result<void> Service::destroy_channel(Channel& channel) {
    {
        const LockGuard guard(mutex_);
        if (channel.ids != 0) {
            return Error(ErrorKind::kBusy, "the channel has ids; destroy or migrate them first");
        }
    }
    close(channel.fd);
    delete &channel;
    return {};
}

Result<Id*> Service::create_id(Channel& channel, int port_space, void* context) {
    if (port_space != SLUICE_CM_TCP && port_space != SLUICE_CM_UDP) {
        return Error(ErrorKind::kInvalidArgument, "a port space is SLUICE_CM_TCP or SLUICE_CM_UDP");
    }
    auto* id = new (std::nothrow) Id(channel, static_cast<std::uint16_t>(port_space), context);
    if (id == nullptr) {
        return Error(ErrorKind::kInsufficientResources, "no memory for a connection id");
    }
    const LockGuard guard(mutex_);
    ++channel.ids;
    return id;
}

void Service::destroy_id(Id& id) noexcept {
    const engine::Nanoseconds now = port_.now();
    {
        const Turn turn(*this);
        if (id.use == Id::Use::kListens) {
            stop_listening_locked(id);
        } else if (id.use == Id::Use::kConnects) {
            manager_.destroy(id.connection, now);
        }
        unlist_locked(id);
        id.event_count = 0;
    }
    const LockGuard guard(mutex_);
    while (id.unacknowledged != 0) {
        settled_.wait(mutex_);
    }
    forget_locked(id);
}

void Service::forget_locked(Id& id) noexcept {
    unlist_locked(id);
    --id.channel->ids;
    delete &id;
}

// Requests that weren't reported yet are refused, as if nothing had listened.
void Service::stop_listening_locked(Id& id) noexcept {
    const engine::Nanoseconds now = port_.now();
    manager_.unlisten(id.listener, now);
    for (Id* at = id.channel->first; at != nullptr;) {
        Id* candidate = std::exchange(at, at->next);
        if (candidate->asked == &id) {
            manager_.drop_request(candidate->connection, now);
            forget_locked(*candidate);
        }
    }
}

Result<void> Service::migrate(Id& id, Channel& channel) {
    if (&channel.service != this) {
        return Error(ErrorKind::kInvalidArgument, "an id can't leave its device");
    }
    const LockGuard guard(mutex_);
    Channel& before = *id.channel;
    const auto move = [&](Id& moved) SLUICE_TSA(requires_capability(mutex_)) {
        const bool waits = moved.event_count != 0;
        unlist_locked(moved);
        --before.ids;
        moved.channel = &channel;
        ++channel.ids;
        if (waits) {
            append_locked(moved);
        }
    };
    for (Id* at = &before == &channel ? nullptr : before.first; at != nullptr;) {
        Id* candidate = std::exchange(at, at->next);
        if (candidate->asked == &id) {
            move(*candidate); // a request that wasn't taken yet is an event of its listener
        }
    }
    move(id);
    return {};
}

void Service::set_context(Id& id, void* context) noexcept {
    const LockGuard guard(mutex_);
    id.context = context;
}

std::uint16_t Service::local_port(const Id& id) noexcept {
    const LockGuard guard(mutex_);
    return id.local_port;
}

Result<void> Service::listen(Id& id, const sockaddr& address, int backlog) {
    Result<Endpoint> endpoint = to_endpoint(address);
    if (!endpoint) {
        return std::move(endpoint).error();
    }
    if (is_wildcard(endpoint->address)) {
        port_.use_all(endpoint->address);
    } else if (endpoint->address != local_) {
        Result<void> used = port_.use(endpoint->address);
        if (!used) {
            return used;
        }
    }
    const Turn turn(*this);
    if (id.use != Id::Use::kNone) {
        return invalid("this id listens or connects already");
    }
    const std::uint32_t waiting = backlog > 0 ? static_cast<std::uint32_t>(backlog) : kDefaultBacklog;
    const Result<cm::ListenerId> listener = endpoint->port != 0
                                                ? listen_at_locked(id, *endpoint, waiting)
                                                : listen_anywhere_locked(id, *endpoint, waiting);
    if (!listener) {
        const bool taken = listener.error().kind() == ErrorKind::kExists;
        return taken ? Error(ErrorKind::kExists,
                             "another listener has this port already; choose another port, or close that one",
                             EADDRINUSE)
                     : listener.error().clone();
    }
    id.use = Id::Use::kListens;
    id.listener = *listener;
    id.local_port = endpoint->port;
    return {};
}

Result<cm::ListenerId> Service::listen_at_locked(Id& id, const Endpoint& endpoint, std::uint32_t backlog) {
    return manager_.listen({.service_id = wire::cm_service_id(id.port_space, endpoint.port),
                            .local = endpoint.address,
                            .backlog = backlog,
                            .cookie = reinterpret_cast<std::uintptr_t>(&id)});
}

// What is free here another process may have.
Result<cm::ListenerId> Service::listen_anywhere_locked(Id& id, Endpoint& endpoint, std::uint32_t backlog) {
    for (int tries = 0;; ++tries) {
        const Result<std::uint16_t> free = manager_.free_port(id.port_space);
        if (!free) {
            return free.error().clone();
        }
        endpoint.port = *free;
        Result<cm::ListenerId> listener = listen_at_locked(id, endpoint, backlog);
        if (listener || listener.error().kind() != ErrorKind::kExists || tries == kPortTries) {
            return listener;
        }
    }
}

Result<void> Service::connect(Id& id, const sockaddr& peer, const sluice_cm_params& params) {
    Result<Endpoint> endpoint = to_endpoint(peer);
    if (!endpoint) {
        return std::move(endpoint).error();
    }
    const Result<engine::Address> local = local_towards(endpoint->address, params);
    if (!local) {
        return local.error().clone();
    }
    const Route route{.local = *local,
                      .remote = endpoint->address,
                      .service_id = wire::cm_service_id(id.port_space, endpoint->port)};
    port_.prepare(route.remote, route.service_id);
    if (id.port_space == SLUICE_CM_UDP) {
        const Turn turn(*this);
        return resolve_locked(id, route, params);
    }
    if (params.qp != nullptr) {
        const int error = move_to_init(port_, *params.qp, options_of(params));
        if (error != 0) {
            return Error::from_errno(error, "the queue pair can't be brought to INIT");
        }
    }
    const Turn turn(*this);
    return connect_locked(id, route, params);
}

// What the program says, or the device's first address of the peer's family.
Result<engine::Address> Service::local_towards(const engine::Address& peer, const sluice_cm_params& params) {
    const bool v4 = engine::is_ipv4(peer);
    engine::Address local = v4 == engine::is_ipv4(local_) ? local_ : port_.other_family();
    if (params.local != nullptr) {
        const Result<Endpoint> said = to_endpoint(*params.local);
        if (!said) {
            return said.error().clone();
        }
        local = is_wildcard(said->address) ? local : said->address;
    }
    if (local == engine::Address{} || engine::is_ipv4(local) != v4) {
        return Error(ErrorKind::kInvalidArgument, "peer and device have addresses of different families",
                     EAFNOSUPPORT);
    }
    Result<void> used = local == local_ ? Result<void>() : port_.use(local);
    return used ? Result<engine::Address>(local) : std::move(used).error();
}

Result<void> Service::resolve_locked(Id& id, const Route& route, const sluice_cm_params& params) {
    if (id.use != Id::Use::kNone) {
        return invalid("this id listens or connects already");
    }
    Result<std::uint16_t> port = manager_.free_port(id.port_space);
    if (!port) {
        return std::move(port).error();
    }
    id.local_port = params.local_port != 0 ? params.local_port : *port;
    const Result<cm::ConnectionId> made = manager_.resolve({.local = route.local,
                                                            .remote = route.remote,
                                                            .service_id = route.service_id,
                                                            .local_port = id.local_port,
                                                            .timing = timing_of(params),
                                                            .private_data = private_data_of(params),
                                                            .cookie = reinterpret_cast<std::uintptr_t>(&id)},
                                                           port_.now());
    if (!made) {
        return made.error().clone();
    }
    id.use = Id::Use::kConnects;
    id.connection = *made;
    return {};
}

Result<void> Service::connect_locked(Id& id, const Route& route, const sluice_cm_params& params) {
    if (id.use != Id::Use::kNone) {
        return invalid("this id listens or connects already");
    }
    Result<std::uint16_t> port = manager_.free_port(id.port_space);
    if (!port) {
        return std::move(port).error();
    }
    const std::uint16_t local_port = params.local_port != 0 ? params.local_port : *port;
    const Result<cm::ConnectionId> made = manager_.connect({.local = route.local,
                                                            .remote = route.remote,
                                                            .service_id = route.service_id,
                                                            .local_port = local_port,
                                                            .qpn = qpn_of(params),
                                                            .responder_resources = params.responder_resources,
                                                            .initiator_depth = params.initiator_depth,
                                                            .flow_control = params.flow_control != 0,
                                                            .srq = has_srq(params),
                                                            .retry_count = params.retry_count,
                                                            .rnr_retry_count = params.rnr_retry_count,
                                                            .path_mtu = config_.max_path_mtu,
                                                            .timing = timing_of(params),
                                                            .private_data = private_data_of(params),
                                                            .cookie = reinterpret_cast<std::uintptr_t>(&id)},
                                                           port_.now());
    if (!made) {
        return made.error().clone();
    }
    id.use = Id::Use::kConnects;
    id.connection = *made;
    id.local_port = local_port;
    id.qp = params.qp;
    id.options = options_of(params);
    return {};
}

Result<cm::ConnectionId> Service::connection_of(const Id& id) const {
    if (id.use != Id::Use::kConnects) {
        return invalid("this id has no connection");
    }
    return id.connection;
}

Result<void> Service::accept(Id& id, const sluice_cm_params& params) {
    cm::AcceptParams accepted = {.qpn = qpn_of(params),
                                 .responder_resources = params.responder_resources,
                                 .initiator_depth = params.initiator_depth,
                                 .flow_control = params.flow_control != 0,
                                 .srq = has_srq(params),
                                 .rnr_retry_count = params.rnr_retry_count,
                                 .qkey = params.qkey,
                                 .private_data = private_data_of(params)};
    if (params.qp != nullptr && id.port_space == SLUICE_CM_TCP) {
        return accept_on(id, params, accepted);
    }
    const Turn turn(*this);
    const Result<cm::ConnectionId> connection = connection_of(id);
    return connection ? manager_.accept(*connection, accepted, port_.now()) : connection.error().clone();
}

// The queue pair is ready before the peer may send.
Result<void> Service::accept_on(Id& id, const sluice_cm_params& params, const cm::AcceptParams& accepted) {
    cm::ConnectionId connection = cm::ConnectionId::kNone;
    cm::QpSettings settings;
    {
        const LockGuard guard(mutex_);
        const Result<cm::ConnectionId> found = connection_of(id);
        if (!found) {
            return found.error().clone();
        }
        connection = *found;
        if (Result<void> possible = manager_.check_accept(connection, accepted); !possible) {
            return possible;
        }
        settings = *manager_.qp_settings(connection);
    }
    settings.max_dest_rd_atomic = std::min(settings.max_dest_rd_atomic, accepted.responder_resources);
    settings.max_rd_atomic = std::min(settings.max_rd_atomic, accepted.initiator_depth);
    if (const int error = move_to_rts(port_, *params.qp, settings, options_of(params)); error != 0) {
        return Error::from_errno(error, "the queue pair can't be made ready");
    }
    Result<void> done;
    {
        const Turn turn(*this);
        done = manager_.accept(connection, accepted, port_.now());
        if (done) {
            id.qp = params.qp;
            id.options = options_of(params);
            id.moved = true;
        }
    }
    if (!done) {
        move_to_error(port_, *params.qp); // the peer withdrew meanwhile
    }
    return done;
}

Result<void> Service::reject(Id& id, std::uint16_t why, std::span<const std::uint8_t> data) {
    const Turn turn(*this);
    const Result<cm::ConnectionId> connection = connection_of(id);
    return connection ? manager_.reject(*connection, why, data, port_.now()) : connection.error().clone();
}

Result<void> Service::disconnect(Id& id) {
    ibv_qp* qp = nullptr;
    {
        const Turn turn(*this);
        const Result<cm::ConnectionId> connection = connection_of(id);
        if (!connection) {
            return connection.error().clone();
        }
        if (Result<void> done = manager_.disconnect(*connection, port_.now()); !done) {
            return done;
        }
        qp = id.qp;
    }
    if (qp != nullptr) {
        move_to_error(port_, *qp);
    }
    return {};
}

Result<void> Service::establish(Id& id) {
    const Turn turn(*this);
    const Result<cm::ConnectionId> connection = connection_of(id);
    if (!connection) {
        return connection.error().clone();
    }
    return manager_.ready(*connection);
}

Result<void> Service::notify(Id& id) {
    const Turn turn(*this);
    const Result<cm::ConnectionId> connection = connection_of(id);
    if (!connection) {
        return connection.error().clone();
    }
    return manager_.communication_established(*connection);
}

Result<void> Service::qp_attributes(Id& id, ibv_qp_attr& attr, int& mask) {
    Step step;
    {
        const LockGuard guard(mutex_);
        if (attr.qp_state == IBV_QPS_INIT) {
            step = step_to_init(id.options);
        } else if (attr.qp_state == IBV_QPS_RTR || attr.qp_state == IBV_QPS_RTS) {
            const Result<cm::ConnectionId> connection = connection_of(id);
            if (!connection) {
                return connection.error().clone();
            }
            const Result<cm::QpSettings> settings = manager_.qp_settings(*connection);
            if (!settings) {
                return settings.error().clone();
            }
            step = attr.qp_state == IBV_QPS_RTR ? step_to_rtr(*settings, id.options, port_)
                                                : step_to_rts(*settings, id.options);
        } else {
            return Error(ErrorKind::kInvalidArgument,
                         "a connection has attributes for the transitions to INIT, RTR and RTS only");
        }
    }
    attr = step.attr;
    mask = step.mask;
    return {};
}

} // namespace sluice::uroce::connect
