// SPDX-License-Identifier: BSD-3-Clause
//
// uroce's connection manager moves queue pairs by itself, and answers a disconnect. So there is little
// to do here but to put its events in our words.
//
// As with librdmacm, destroying an id waits until the event of it that is being looked at is
// acknowledged, which we do last.
#include <sluice/sluice.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "ibverbs-glue/connection_managers.hpp"

namespace sluice::glue {

namespace {

using Event =
    std::unique_ptr<sluice_cm_event, decltype([](sluice_cm_event* event) { sluice_cm_ack_event(event); })>;
using Id = std::unique_ptr<sluice_cm_id, decltype([](sluice_cm_id* id) { sluice_cm_destroy_id(id); })>;
using Channel =
    std::unique_ptr<sluice_cm_channel,
                    decltype([](sluice_cm_channel* channel) { sluice_cm_destroy_channel(channel); })>;

Result<Id> make_id(sluice_cm_channel* channel, void* context) {
    sluice_cm_id* id = nullptr;
    Result<void> made =
        from_rc(sluice_cm_create_id(channel, SLUICE_CM_TCP, context, &id), "making an id of uroce's");
    if (!made) {
        return std::move(made).error();
    }
    return Id(id);
}

// What the context of each id points to.
class IdUser {
  public:
    virtual std::optional<ConnectionEvent> handle(const sluice_cm_event& event) = 0;

  protected:
    IdUser() = default;
    ~IdUser() = default;
};

std::vector<std::byte> private_data_of(const sluice_cm_event& event) {
    const auto* bytes = static_cast<const std::byte*>(event.private_data);
    return bytes == nullptr ? std::vector<std::byte>()
                            : std::vector<std::byte>(bytes, bytes + event.private_data_len);
}

Address address_of(const sockaddr_storage& storage) {
    const Result<Address> address = Address::from(reinterpret_cast<const sockaddr*>(&storage));
    return address ? *address : Address();
}

class UroceConnection final : public Connection, public IdUser {
  public:
    explicit UroceConnection(void* owner) noexcept : owner_(owner) {}

    void adopt(Id id) noexcept {
        id_ = std::move(id);
        (void)sluice_cm_set_context(id_.get(), static_cast<IdUser*>(this));
    }
    // With which addresses is told by events only.
    void remember(const sluice_cm_event& event) {
        local_ = address_of(event.local);
        peer_ = address_of(event.peer);
    }

    void set_owner(void* owner) noexcept override { owner_.store(owner, std::memory_order_relaxed); }
    // There is nothing to find: packets leave from the device's address.
    Result<void> resolve(const Address& peer, int timeout_ms) override;
    Result<bool> start_resolving(const Address& peer, int timeout_ms) override {
        return resolve(peer, timeout_ms).and_then([] { return Result<bool>(true); });
    }
    Result<void> move_to(ConnectionService& service) override;
    Result<void> connect(const Address& peer, const QueuePair& qp, const ConnectionOptions& options) override;
    Result<void> accept(const QueuePair& qp, const ConnectionOptions& options) override;
    Result<void> reject(std::span<const std::byte> private_data) override;
    Result<void> refuse() override {
        return from_rc(sluice_cm_reject(id_.get(), SLUICE_CM_STATUS_NO_RESOURCES, nullptr, 0),
                       "refusing a connection");
    }
    Result<void> disconnect() override { return from_rc(sluice_cm_disconnect(id_.get()), "disconnecting"); }
    Result<void> notify_communication() override {
        return from_rc(sluice_cm_notify(id_.get()), "telling that the peer is ready");
    }
    Address local_address() const override { return local_; }
    Address peer_address() const override { return peer_; }
    std::uint16_t local_port() const override { return sluice_cm_local_port(id_.get()); }

    std::optional<ConnectionEvent> handle(const sluice_cm_event& event) override;

  private:
    std::atomic<void*> owner_; // read by the thread that takes events
    Address local_;
    Address peer_;
    Id id_; // the last, so that it goes first: until then an event may be looked at
};

sluice_cm_params parameters(const QueuePair& qp, const ConnectionOptions& options) noexcept {
    sluice_cm_params parameters{};
    sluice_cm_default_params(&parameters, sizeof parameters);
    parameters.qp = qp.get();
    parameters.private_data = options.private_data.data();
    parameters.private_data_len = static_cast<std::uint32_t>(options.private_data.size());
    parameters.responder_resources = options.reads_in;
    parameters.initiator_depth = options.reads_out;
    parameters.retry_count = options.retries;
    parameters.rnr_retry_count = options.not_ready_retries;
    parameters.flow_control = options.has_flow_control ? 1 : 0;
    parameters.srq = options.has_shared_receive_queue ? 1 : 0;
    return parameters;
}

Result<void> UroceConnection::connect(const Address& peer, const QueuePair& qp,
                                      const ConnectionOptions& options) {
    if (Result<void> fits = check_private_data(options.private_data, kInfinibandLimits.connect); !fits) {
        return fits;
    }
    const sluice_cm_params with = parameters(qp, options);
    return from_rc(sluice_cm_connect(id_.get(), peer.get(), &with, sizeof with), "connecting");
}

Result<void> UroceConnection::accept(const QueuePair& qp, const ConnectionOptions& options) {
    if (Result<void> fits = check_private_data(options.private_data, kInfinibandLimits.accept); !fits) {
        return fits;
    }
    const sluice_cm_params with = parameters(qp, options);
    return from_rc(sluice_cm_accept(id_.get(), &with, sizeof with), "accepting a connection");
}

Result<void> UroceConnection::reject(std::span<const std::byte> private_data) {
    if (Result<void> fits = check_private_data(private_data, kInfinibandLimits.reject); !fits) {
        return fits;
    }
    return from_rc(sluice_cm_reject(id_.get(), 0, private_data.data(), private_data.size()),
                   "rejecting a connection");
}

std::optional<ConnectionEvent> UroceConnection::handle(const sluice_cm_event& event) {
    ConnectionEvent told{ConnectionEventKind::kDisconnected, owner_};
    told.private_data = private_data_of(event);
    switch (event.type) {
    case SLUICE_CM_ESTABLISHED:
        told.kind = ConnectionEventKind::kEstablished;
        remember(event);
        return told;
    case SLUICE_CM_REJECTED:
        told.kind = ConnectionEventKind::kRejected;
        told.by_the_program = event.status == SLUICE_CM_STATUS_CONSUMER;
        return told;
    case SLUICE_CM_UNREACHABLE:
        told.kind = ConnectionEventKind::kUnreachable;
        told.os_errno = event.status;
        return told;
    case SLUICE_CM_CONNECT_ERROR:
        told.kind = ConnectionEventKind::kFailed;
        told.os_errno = event.status;
        return told;
    case SLUICE_CM_DISCONNECTED:
        told.os_errno = event.status;
        told.kind =
            event.status == ECONNRESET ? ConnectionEventKind::kPeerDied : ConnectionEventKind::kDisconnected;
        return told;
    case SLUICE_CM_TIMEWAIT_EXIT:
        told.kind = ConnectionEventKind::kTimedWait;
        return told;
    default: // of a later version: nothing that we asked for
        return std::nullopt;
    }
}

class UroceListener final : public Listener, public IdUser {
  public:
    explicit UroceListener(void* owner) noexcept : owner_(owner) {}

    Result<void> start(sluice_cm_channel* channel, const Address& at, int backlog) {
        Result<Id> id = make_id(channel, static_cast<IdUser*>(this));
        if (!id) {
            return std::move(id).error();
        }
        id_ = *std::move(id);
        return from_rc(sluice_cm_listen(id_.get(), at.get(), backlog), "listening for connections");
    }
    std::uint16_t port() const override { return sluice_cm_local_port(id_.get()); }

    std::optional<ConnectionEvent> handle(const sluice_cm_event& event) override {
        if (event.type != SLUICE_CM_CONNECT_REQUEST) {
            return std::nullopt;
        }
        Id id(event.id);
        auto request = std::make_unique<UroceConnection>(nullptr);
        request->remember(event);
        request->adopt(std::move(id));
        ConnectionEvent told{ConnectionEventKind::kRequest, owner_};
        told.request = std::move(request);
        told.private_data = private_data_of(event);
        return told;
    }

  private:
    void* owner_;
    Id id_; // the last, as above
};

class UroceService final : public ConnectionService {
  public:
    UroceService(Channel channel, const Address& local) noexcept
        : channel_(std::move(channel)), local_(local) {}

    sluice_cm_channel* channel() const noexcept { return channel_.get(); }

    PrivateDataLimits limits() const noexcept override { return kInfinibandLimits; }
    int fd() const noexcept override { return sluice_cm_channel_fd(channel_.get()); }
    Result<std::optional<ConnectionEvent>> next_event() override;
    Result<std::unique_ptr<Connection>> make_connection(void* owner) override;
    Result<std::unique_ptr<Listener>> listen(std::uint16_t port, int backlog, void* owner) override;

  private:
    Channel channel_;
    const Address local_;
};

Result<void> UroceConnection::resolve(const Address& peer, int /*timeout_ms*/) {
    if (!peer.is_set()) {
        return Error(ErrorKind::kInvalidArgument, "there is no address to connect to", EINVAL);
    }
    return {};
}

Result<void> UroceConnection::move_to(ConnectionService& service) {
    auto* const to = dynamic_cast<UroceService*>(&service);
    if (to == nullptr) {
        return Error(ErrorKind::kInvalidArgument, "a connection moves between services of one device only",
                     EINVAL);
    }
    return from_rc(sluice_cm_migrate_id(id_.get(), to->channel()), "moving a connection's events");
}

Result<std::optional<ConnectionEvent>> UroceService::next_event() {
    while (true) {
        sluice_cm_event* got = nullptr;
        Result<void> taken =
            from_rc(sluice_cm_get_event(channel_.get(), 0, &got), "taking an event of uroce's");
        if (!taken) {
            if (taken.error().os_errno() == EAGAIN) {
                return std::optional<ConnectionEvent>();
            }
            return std::move(taken).error();
        }
        const Event event(got);
        std::optional<ConnectionEvent> told = static_cast<IdUser*>(event->id_context)->handle(*event);
        if (told) {
            return told;
        }
    }
}

Result<std::unique_ptr<Connection>> UroceService::make_connection(void* owner) {
    auto connection = std::make_unique<UroceConnection>(owner);
    Result<Id> id = make_id(channel_.get(), nullptr);
    if (!id) {
        return std::move(id).error();
    }
    connection->adopt(*std::move(id));
    return std::unique_ptr<Connection>(std::move(connection));
}

Result<std::unique_ptr<Listener>> UroceService::listen(std::uint16_t port, int backlog, void* owner) {
    auto listener = std::make_unique<UroceListener>(owner);
    if (Result<void> started = listener->start(channel_.get(), local_.with_port(port), backlog); !started) {
        return std::move(started).error();
    }
    return std::unique_ptr<Listener>(std::move(listener));
}

} // namespace

Result<std::unique_ptr<ConnectionService>> open_uroce_cm(const Context& context, const Address& local) {
    sluice_cm_channel* made = nullptr;
    Result<void> opened =
        from_rc(sluice_cm_create_channel(context.get(), &made), "opening uroce's connection manager");
    if (!opened) {
        return std::move(opened).error();
    }
    return std::unique_ptr<ConnectionService>(std::make_unique<UroceService>(Channel(made), local));
}

} // namespace sluice::glue
