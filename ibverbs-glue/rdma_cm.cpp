// SPDX-License-Identifier: BSD-3-Clause
//
// librdmacm would make and modify queue pairs by itself, on a device context that it has opened by
// itself. Ours are made on the caller's context, so it gets their numbers only, and we move
// them as it would (rdma_init_qp_attr() tells the attributes). What differs between InfiniBand and
// iWARP: there the kernel's driver moves the queue pair, so that the active side sees no
// CONNECT_RESPONSE, and is connected when that would come.
//
// An id, and the object that uses it, is never destroyed while an event of it is being looked at:
// rdma_destroy_id() waits until that is acknowledged, and we acknowledge last.
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string>

#include "core/log.hpp"
#include "ibverbs-glue/connection_managers.hpp"
#include "ibverbs-glue/descriptor.hpp"

namespace sluice::glue {

namespace {

// How long resolving an address or a path may take.
constexpr int kResolveTimeoutMs = 4000;
constexpr PrivateDataLimits kIwarpLimits{255, 255, 255}; // librdmacm's own

PrivateDataLimits limits_of(bool is_iwarp) noexcept {
    return is_iwarp ? kIwarpLimits : kInfinibandLimits;
}

using Event =
    std::unique_ptr<rdma_cm_event, decltype([](rdma_cm_event* event) { rdma_ack_cm_event(event); })>;
using Id = std::unique_ptr<rdma_cm_id, decltype([](rdma_cm_id* id) { rdma_destroy_id(id); })>;
using Channel =
    std::unique_ptr<rdma_event_channel,
                    decltype([](rdma_event_channel* channel) { rdma_destroy_event_channel(channel); })>;

Result<void> done(const Result<int>& result) {
    return result ? Result<void>() : result.error().clone();
}

Result<Id> make_id(rdma_event_channel* channel, void* context) {
    rdma_cm_id* id = nullptr;
    Result<int> made =
        from_minus_one(rdma_create_id(channel, &id, context, RDMA_PS_TCP), "making an id of rdma_cm");
    if (!made) {
        return std::move(made).error();
    }
    return Id(id);
}

// What the context of each id points to.
class IdUser {
  public:
    // Goes a step further; what the caller shall know of it, if anything.
    virtual std::optional<ConnectionEvent> handle(const rdma_cm_event& event) = 0;

  protected:
    IdUser() = default;
    ~IdUser() = default;
};

// What all ids of a service have in common.
struct LocalDevice {
    std::string name;
    Address local; // may be unset
    bool is_iwarp;

    // Several devices may lie over one network interface, and rdma_cm takes one of them.
    bool is_of(const rdma_cm_id& id) const noexcept {
        return id.verbs != nullptr && name == ibv_get_device_name(id.verbs->device);
    }
};

class RdmaCmConnection final : public Connection, public IdUser {
  public:
    // CHANNEL: where its events arrive.
    RdmaCmConnection(const LocalDevice& device, rdma_event_channel* channel, void* owner) noexcept
        : device_(device), channel_(channel), owner_(owner) {}

    void adopt(Id id) noexcept {
        id_ = std::move(id);
        id_->context = static_cast<IdUser*>(this);
        note_port();
    }

    void set_owner(void* owner) noexcept override { owner_.store(owner, std::memory_order_relaxed); }
    Result<void> resolve(const Address& peer, int timeout_ms) override;
    Result<bool> start_resolving(const Address& peer, int timeout_ms) override;
    Result<void> move_to(ConnectionService& service) override;
    Result<void> connect(const Address& peer, const QueuePair& qp, const ConnectionOptions& options) override;
    Result<void> accept(const QueuePair& qp, const ConnectionOptions& options) override;
    Result<void> reject(std::span<const std::byte> private_data) override;
    Result<void> refuse() override { return reject({}); }
    Result<void> disconnect() override;
    Address local_address() const override { return address_of(rdma_get_local_addr(id_.get())); }
    Address peer_address() const override { return address_of(rdma_get_peer_addr(id_.get())); }
    std::uint16_t local_port() const override { return local_port_; }

    Result<void> notify_communication() override;

    std::optional<ConnectionEvent> handle(const rdma_cm_event& event) override;

  private:
    static Address address_of(const sockaddr* address) {
        const Result<Address> copy = Address::from(address);
        return copy ? *copy : Address();
    }

    // librdmacm writes it when the address is resolved.
    void note_port() noexcept { local_port_ = ntohs(rdma_get_src_port(id_.get())); }
    Result<void> resolve_address(const Address& peer, int timeout_ms);
    Result<void> resolve_here(const Address& peer, int timeout_ms);
    Result<void> ask_peer();
    Result<void> keep(const QueuePair& qp, const ConnectionOptions& options, std::size_t limit);
    rdma_conn_param parameters() const noexcept;
    Result<void> modify_to(ibv_qp_state state);
    Result<void> move_to_rts();
    void move_to_error() const;

    std::optional<ConnectionEvent> after(const Result<void>& step, ConnectionEventKind failure);
    std::optional<ConnectionEvent> address_resolved();
    std::optional<ConnectionEvent> route_resolved();
    bool is_of_device() const noexcept;
    std::optional<ConnectionEvent> ended(ConnectionEventKind kind, int os_errno);
    std::optional<ConnectionEvent> responded(const rdma_cm_event& event);
    std::optional<ConnectionEvent> rejected(const rdma_cm_event& event);

    const LocalDevice device_;
    rdma_event_channel* channel_;
    std::atomic<void*> owner_; // read by the thread that takes events
    std::atomic<std::uint16_t> local_port_{0};
    // Written by the thread that takes events where the way is looked for without blocking.
    std::atomic<bool> is_resolved_{false};
    std::atomic<int> resolving_ms_{0}; // how long each step may take; 0: connect() finds the way
    const QueuePair* qp_ = nullptr;
    ConnectionOptions options_{};
    std::vector<std::byte> private_data_; // what options_ shows
    Id id_; // the last, so that it goes first: until then an event may be looked at
};

std::vector<std::byte> private_data_of(const rdma_cm_event& event) {
    const auto* bytes = static_cast<const std::byte*>(event.param.conn.private_data);
    return bytes == nullptr ? std::vector<std::byte>()
                            : std::vector<std::byte>(bytes, bytes + event.param.conn.private_data_len);
}

Result<void> RdmaCmConnection::keep(const QueuePair& qp, const ConnectionOptions& options,
                                    std::size_t limit) {
    if (Result<void> fits = check_private_data(options.private_data, limit); !fits) {
        return fits;
    }
    private_data_.assign(options.private_data.begin(), options.private_data.end());
    options_ = options;
    options_.private_data = private_data_;
    qp_ = &qp;
    return {};
}

rdma_conn_param RdmaCmConnection::parameters() const noexcept {
    rdma_conn_param parameters{};
    parameters.private_data = private_data_.data();
    parameters.private_data_len = static_cast<std::uint8_t>(private_data_.size());
    parameters.responder_resources = options_.reads_in;
    parameters.initiator_depth = options_.reads_out;
    parameters.flow_control = options_.has_flow_control ? 1 : 0;
    parameters.retry_count = options_.retries;
    parameters.rnr_retry_count = options_.not_ready_retries;
    parameters.srq = options_.has_shared_receive_queue ? 1 : 0;
    parameters.qp_num = qp_->number();
    return parameters;
}

// The kernel tells what both sides have agreed to; we grant no more than we were told to.
Result<void> RdmaCmConnection::modify_to(ibv_qp_state state) {
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    int mask = 0;
    Result<int> told = from_minus_one(rdma_init_qp_attr(id_.get(), &attributes, &mask),
                                      "asking rdma_cm for the attributes of a queue pair's next state");
    if (!told) {
        return std::move(told).error();
    }
    if (state == IBV_QPS_INIT) {
        mask &= ~IBV_QP_ACCESS_FLAGS; // the caller's
    } else if (state == IBV_QPS_RTR) {
        options_.reads_in = std::min(options_.reads_in, attributes.max_dest_rd_atomic);
        attributes.max_dest_rd_atomic = options_.reads_in;
    } else {
        options_.reads_out = std::min(options_.reads_out, attributes.max_rd_atomic);
        attributes.max_rd_atomic = options_.reads_out;
    }
    return qp_->modify(attributes, mask);
}

Result<void> RdmaCmConnection::move_to_rts() {
    for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
        if (Result<void> moved = modify_to(state); !moved) {
            return moved;
        }
    }
    return {};
}

// iWARP's driver has done so when it tells of the end.
void RdmaCmConnection::move_to_error() const {
    if (qp_ == nullptr || device_.is_iwarp) {
        return;
    }
    if (const Result<void> flushed = qp_->to_error(); !flushed) {
        SLUICE_LOG(kInfo, "cm", "a queue pair isn't flushed: %s (%d)", flushed.error().text(),
                   flushed.error().os_errno());
    }
}

Result<void> RdmaCmConnection::connect(const Address& peer, const QueuePair& qp,
                                       const ConnectionOptions& options) {
    if (Result<void> kept = keep(qp, options, limits_of(device_.is_iwarp).connect); !kept) {
        return kept;
    }
    return is_resolved_ ? ask_peer() : resolve_address(peer, kResolveTimeoutMs);
}

Result<void> RdmaCmConnection::resolve_address(const Address& peer, int timeout_ms) {
    Address to = peer;
    Address from = device_.local.with_port(0);
    return done(from_minus_one(rdma_resolve_addr(id_.get(), from.is_set() ? from.for_rdma_cm() : nullptr,
                                                 to.for_rdma_cm(), timeout_ms),
                               "resolving the peer's address"));
}

// librdmacm waits by itself for what it is asked on a channel of the id's own.
Result<void> RdmaCmConnection::resolve(const Address& peer, int timeout_ms) {
    if (Result<int> moved = from_minus_one(rdma_migrate_id(id_.get(), nullptr), "waiting for an address");
        !moved) {
        return std::move(moved).error();
    }
    Result<void> resolved = resolve_here(peer, timeout_ms);
    Result<int> back = from_minus_one(rdma_migrate_id(id_.get(), channel_), "waiting for an address");
    if (resolved && !back) {
        return std::move(back).error();
    }
    is_resolved_ = resolved.ok();
    return resolved;
}

Result<bool> RdmaCmConnection::start_resolving(const Address& peer, int timeout_ms) {
    resolving_ms_ = std::max(timeout_ms, 1);
    if (Result<void> asked = resolve_address(peer, timeout_ms); !asked) {
        return std::move(asked).error();
    }
    return false;
}

Result<void> RdmaCmConnection::resolve_here(const Address& peer, int timeout_ms) {
    if (Result<void> found = resolve_address(peer, timeout_ms); !found) {
        return found;
    }
    note_port();
    if (!device_.is_of(*id_)) {
        return Error::format(ErrorKind::kNotFound, ENODEV, "the way to %s doesn't lead through %s",
                             peer.to_string().c_str(), device_.name.c_str());
    }
    return done(from_minus_one(rdma_resolve_route(id_.get(), timeout_ms), "resolving a path"));
}

Result<void> RdmaCmConnection::ask_peer() {
    rdma_conn_param with = parameters();
    return done(from_minus_one(rdma_connect(id_.get(), &with), "connecting"));
}

Result<void> RdmaCmConnection::accept(const QueuePair& qp, const ConnectionOptions& options) {
    Result<void> ready = keep(qp, options, limits_of(device_.is_iwarp).accept);
    if (ready && !device_.is_iwarp) {
        ready = move_to_rts();
    }
    if (!ready) {
        return ready;
    }
    rdma_conn_param with = parameters();
    return done(from_minus_one(rdma_accept(id_.get(), &with), "accepting a connection"));
}

Result<void> RdmaCmConnection::reject(std::span<const std::byte> private_data) {
    if (Result<void> fits = check_private_data(private_data, limits_of(device_.is_iwarp).reject); !fits) {
        return fits;
    }
    return done(from_minus_one(
        rdma_reject(id_.get(), private_data.data(), static_cast<std::uint8_t>(private_data.size())),
        "rejecting a connection"));
}

Result<void> RdmaCmConnection::disconnect() {
    move_to_error();
    return done(from_minus_one(rdma_disconnect(id_.get()), "disconnecting"));
}

Result<void> RdmaCmConnection::notify_communication() {
    return done(from_minus_one(rdma_notify(id_.get(), IBV_EVENT_COMM_EST), "telling that the peer is ready"));
}

// Nothing to tell if STEP worked.
std::optional<ConnectionEvent> RdmaCmConnection::after(const Result<void>& step,
                                                       ConnectionEventKind failure) {
    return step ? std::nullopt : ended(failure, step.error().to_errno());
}

std::optional<ConnectionEvent> RdmaCmConnection::ended(ConnectionEventKind kind, int os_errno) {
    move_to_error();
    return ConnectionEvent{kind, owner_, os_errno};
}

bool RdmaCmConnection::is_of_device() const noexcept {
    if (device_.is_of(*id_)) {
        return true;
    }
    SLUICE_LOG(kWarning, "cm", "rdma_cm would connect through another device than %s at the same address",
               device_.name.c_str());
    return false;
}

std::optional<ConnectionEvent> RdmaCmConnection::address_resolved() {
    note_port();
    const int resolving_ms = resolving_ms_;
    if (resolving_ms != 0 && !is_of_device()) {
        return ended(ConnectionEventKind::kUnreachable, ENODEV);
    }
    const Result<void> asked = done(
        from_minus_one(rdma_resolve_route(id_.get(), resolving_ms != 0 ? resolving_ms : kResolveTimeoutMs),
                       "resolving a path"));
    if (asked && resolving_ms != 0) {
        return ConnectionEvent{ConnectionEventKind::kAddressFound, owner_};
    }
    return after(asked, ConnectionEventKind::kUnreachable);
}

std::optional<ConnectionEvent> RdmaCmConnection::route_resolved() {
    if (resolving_ms_ != 0) {
        is_resolved_ = true;
        return ConnectionEvent{ConnectionEventKind::kPathFound, owner_};
    }
    if (!is_of_device()) {
        return ended(ConnectionEventKind::kUnreachable, ENODEV);
    }
    const Result<void> asked = ask_peer();
    // iWARP connects TCP before it returns: that is where it finds that nobody listens.
    if (!asked && asked.error().os_errno() == ECONNREFUSED) {
        return ended(ConnectionEventKind::kRejected, 0);
    }
    return after(asked, ConnectionEventKind::kUnreachable);
}

// InfiniBand, active side: the peer has accepted, and our queue pair isn't ready yet.
std::optional<ConnectionEvent> RdmaCmConnection::responded(const rdma_cm_event& event) {
    Result<void> ready = move_to_rts();
    if (ready) {
        ready = done(from_minus_one(rdma_establish(id_.get()), "finishing a connection"));
    }
    if (!ready) {
        (void)rdma_reject(id_.get(), nullptr, 0);
        return ended(ConnectionEventKind::kFailed, ready.error().to_errno());
    }
    ConnectionEvent told{ConnectionEventKind::kEstablished, owner_};
    told.private_data = private_data_of(event);
    return told;
}

std::optional<ConnectionEvent> RdmaCmConnection::rejected(const rdma_cm_event& event) {
    move_to_error();
    ConnectionEvent told{ConnectionEventKind::kRejected, owner_};
    told.private_data = private_data_of(event);
    // Over iWARP nobody listening is an error of connecting; a message can only be the program's.
    told.by_the_program = device_.is_iwarp || event.status == kRejectedByConsumer;
    return told;
}

std::optional<ConnectionEvent> RdmaCmConnection::handle(const rdma_cm_event& event) {
    switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        return address_resolved();
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        return route_resolved();
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
        return responded(event);
    case RDMA_CM_EVENT_ESTABLISHED: {
        ConnectionEvent told{ConnectionEventKind::kEstablished, owner_};
        told.private_data = private_data_of(event);
        return told;
    }
    case RDMA_CM_EVENT_REJECTED:
        return rejected(event);
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
        return ended(ConnectionEventKind::kUnreachable, std::abs(event.status));
    case RDMA_CM_EVENT_CONNECT_ERROR:
        return ended(ConnectionEventKind::kFailed, std::abs(event.status));
    case RDMA_CM_EVENT_DISCONNECTED:
        // The peer that has asked for it waits for this answer. Where we asked it fails, as it should.
        (void)rdma_disconnect(id_.get());
        return ended(ConnectionEventKind::kDisconnected, 0);
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
        return ConnectionEvent{ConnectionEventKind::kTimedWait, owner_};
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        return ended(ConnectionEventKind::kDeviceGone, ENODEV);
    default: // of multicast, and of addresses that move: they change nothing here
        return std::nullopt;
    }
}

class RdmaCmListener final : public Listener, public IdUser {
  public:
    RdmaCmListener(const LocalDevice& device, void* owner) noexcept : device_(device), owner_(owner) {}

    Result<void> start(rdma_event_channel* channel, std::uint16_t port, int backlog);
    std::uint16_t port() const override { return ntohs(rdma_get_src_port(id_.get())); }

    std::optional<ConnectionEvent> handle(const rdma_cm_event& event) override;

  private:
    std::optional<ConnectionEvent> requested(const rdma_cm_event& event);

    const LocalDevice& device_;
    rdma_event_channel* channel_ = nullptr;
    void* owner_;
    Id id_; // the last, as above
};

Result<void> RdmaCmListener::start(rdma_event_channel* channel, std::uint16_t port, int backlog) {
    Result<Id> id = make_id(channel, static_cast<IdUser*>(this));
    if (!id) {
        return std::move(id).error();
    }
    id_ = *std::move(id);
    channel_ = channel;
    Address at = device_.local.with_port(port);
    Result<int> bound = from_minus_one(rdma_bind_addr(id_.get(), at.for_rdma_cm()), "taking a port");
    if (!bound) {
        return std::move(bound).error();
    }
    return done(from_minus_one(rdma_listen(id_.get(), backlog), "listening for connections"));
}

std::optional<ConnectionEvent> RdmaCmListener::requested(const rdma_cm_event& event) {
    Id id(event.id); // dropped without an answer, the kernel rejects it
    if (!device_.is_of(*id)) {
        return std::nullopt;
    }
    auto request = std::make_unique<RdmaCmConnection>(device_, channel_, nullptr);
    request->adopt(std::move(id));
    ConnectionEvent told{ConnectionEventKind::kRequest, owner_};
    told.request = std::move(request);
    told.private_data = private_data_of(event);
    return told;
}

std::optional<ConnectionEvent> RdmaCmListener::handle(const rdma_cm_event& event) {
    if (event.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
        return requested(event);
    }
    if (event.event == RDMA_CM_EVENT_DEVICE_REMOVAL) {
        return ConnectionEvent{ConnectionEventKind::kDeviceGone, owner_, ENODEV};
    }
    return std::nullopt;
}

class RdmaCmService final : public ConnectionService {
  public:
    RdmaCmService(Channel channel, LocalDevice device) noexcept
        : channel_(std::move(channel)), device_(std::move(device)) {}

    rdma_event_channel* channel() const noexcept { return channel_.get(); }

    PrivateDataLimits limits() const noexcept override { return limits_of(device_.is_iwarp); }
    int fd() const noexcept override { return channel_->fd; }
    Result<std::optional<ConnectionEvent>> next_event() override;
    Result<std::unique_ptr<Connection>> make_connection(void* owner) override;
    Result<std::unique_ptr<Listener>> listen(std::uint16_t port, int backlog, void* owner) override;

  private:
    Channel channel_;
    const LocalDevice device_;
};

Result<void> RdmaCmConnection::move_to(ConnectionService& service) {
    auto* const to = dynamic_cast<RdmaCmService*>(&service);
    if (to == nullptr) {
        return Error(ErrorKind::kInvalidArgument, "a connection moves between services of one device only",
                     EINVAL);
    }
    Result<int> moved =
        from_minus_one(rdma_migrate_id(id_.get(), to->channel()), "moving a connection's events");
    if (!moved) {
        return std::move(moved).error();
    }
    channel_ = to->channel();
    return {};
}

Result<std::optional<ConnectionEvent>> RdmaCmService::next_event() {
    while (true) {
        rdma_cm_event* got = nullptr;
        Result<int> taken =
            from_minus_one(rdma_get_cm_event(channel_.get(), &got), "taking an event of rdma_cm");
        if (!taken) {
            if (taken.error().os_errno() == EAGAIN) {
                return std::optional<ConnectionEvent>();
            }
            return std::move(taken).error();
        }
        const Event event(got);
        const rdma_cm_id* id = event->listen_id != nullptr ? event->listen_id : event->id;
        std::optional<ConnectionEvent> told = static_cast<IdUser*>(id->context)->handle(*event);
        if (told) {
            return told;
        }
    }
}

Result<std::unique_ptr<Connection>> RdmaCmService::make_connection(void* owner) {
    auto connection = std::make_unique<RdmaCmConnection>(device_, channel_.get(), owner);
    Result<Id> id = make_id(channel_.get(), nullptr);
    if (!id) {
        return std::move(id).error();
    }
    connection->adopt(*std::move(id));
    return std::unique_ptr<Connection>(std::move(connection));
}

Result<std::unique_ptr<Listener>> RdmaCmService::listen(std::uint16_t port, int backlog, void* owner) {
    auto listener = std::make_unique<RdmaCmListener>(device_, owner);
    if (Result<void> started = listener->start(channel_.get(), port, backlog); !started) {
        return std::move(started).error();
    }
    return std::unique_ptr<Listener>(std::move(listener));
}

} // namespace

Result<std::unique_ptr<ConnectionService>> open_rdma_cm(const Context& context, const Address& local) {
    Result<rdma_event_channel*> made = from_null(rdma_create_event_channel(), "opening rdma_cm");
    if (!made) {
        return std::move(made).error();
    }
    Channel channel(*made);
    if (Result<void> polled = make_non_blocking(channel->fd); !polled) {
        return std::move(polled).error();
    }
    return std::unique_ptr<ConnectionService>(std::make_unique<RdmaCmService>(
        std::move(channel), LocalDevice{context.device_name(), local, context.is_iwarp()}));
}

} // namespace sluice::glue
