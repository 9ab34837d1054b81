// SPDX-License-Identifier: BSD-3-Clause
//
// The control path. conn_post.cpp is the data path.
#include "rpma/conn.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "ibverbs-glue/adaptors.hpp"
#include "ibverbs-glue/reach.hpp"
#include "rpma/codes.hpp"
#include "rpma/log.hpp"

namespace sluice::rpma {

namespace {

constexpr std::uint8_t kAllThereAre = 0xff; // reads under way: as many as both devices can

// iWARP's messages are as long as what is in them, so that an offer would be the program's data to others; no
// iWARP device has a native request that it could tell.
std::vector<std::byte> data_to_send(const Peer& peer, PrivateData from_program, std::size_t capacity) {
    return with_offer(from_program, capacity, peer.is_iwarp() ? Features{kNoFeature} : peer.offer());
}

glue::ConnectionOptions options_of(PrivateData data, bool has_srq) noexcept {
    return {.private_data = data,
            .reads_in = kAllThereAre,
            .reads_out = kAllThereAre,
            .has_shared_receive_queue = has_srq,
            .has_flow_control = true};
}

} // namespace

std::optional<rpma_conn_event> name_of(glue::ConnectionEventKind kind) noexcept {
    switch (kind) {
    case glue::ConnectionEventKind::kEstablished:
        return RPMA_CONN_ESTABLISHED;
    case glue::ConnectionEventKind::kRejected:
        return RPMA_CONN_REJECTED;
    case glue::ConnectionEventKind::kUnreachable:
        return RPMA_CONN_UNREACHABLE;
    case glue::ConnectionEventKind::kFailed:
    case glue::ConnectionEventKind::kPeerDied:
    case glue::ConnectionEventKind::kDeviceGone:
        return RPMA_CONN_LOST;
    case glue::ConnectionEventKind::kDisconnected:
    case glue::ConnectionEventKind::kTimedWait:
        return RPMA_CONN_CLOSED;
    case glue::ConnectionEventKind::kRequest:
    case glue::ConnectionEventKind::kAddressFound:
    case glue::ConnectionEventKind::kPathFound:
        break;
    }
    return std::nullopt;
}

Result<void> Request::prepare() {
    Result<std::unique_ptr<Queues>> queues = Queues::make(peer_, config_);
    if (!queues) {
        return std::move(queues).error();
    }
    queues_ = *std::move(queues);
    Result<std::unique_ptr<glue::ConnectionService>> service =
        glue::open_connections(peer_.context(), glue::Address());
    if (!service) {
        return std::move(service).error();
    }
    service_ = *std::move(service);
    return {};
}

Result<std::unique_ptr<Request>> Request::make(Peer& peer, const char* address, const char* port,
                                               const ConnConfig& config) {
    Result<glue::Address> to = glue::look_up(address, port, false);
    if (!to) {
        return std::move(to).error();
    }
    return make(peer, *to, config);
}

Result<std::unique_ptr<Request>> Request::make(Peer& peer, const glue::Address& to,
                                               const ConnConfig& config) {
    std::unique_ptr<Request> request(new Request(peer, config));
    if (Result<void> prepared = request->prepare(); !prepared) {
        return std::move(prepared).error();
    }
    Result<std::unique_ptr<glue::Connection>> connection = request->service_->make_connection(nullptr);
    if (!connection) {
        return std::move(connection).error();
    }
    request->connection_ = *std::move(connection);
    if (Result<void> found = request->connection_->resolve(to, config.timeout_ms); !found) {
        return std::move(found).error();
    }
    request->to_ = to;
    return request;
}

Result<std::unique_ptr<Request>> Request::answer(Peer& peer, glue::ConnectionEvent event,
                                                 const ConnConfig& config) {
    std::unique_ptr<Request> request(new Request(peer, config));
    Result<void> done = request->prepare();
    if (done) {
        // The endpoint may go before the request is answered.
        done = event.request->move_to(*request->service_);
    }
    if (!done) {
        (void)event.request->reject({}); // the peer may have given up meanwhile
        return std::move(done).error();
    }
    request->connection_ = std::move(event.request);
    request->private_data_ = std::move(event.private_data);
    request->peers_offer_ = take_offer(request->private_data_);
    return request;
}

Result<std::unique_ptr<Conn>> Request::connect(std::unique_ptr<Request> request, PrivateData from_program) {
    Request& is = *request;
    if (is.way_ != Way::kFound) {
        return Error(ErrorKind::kInvalidArgument,
                     "the way to the peer is not found yet; take the request's steps first");
    }
    is.waiter_.reset();
    is.steps_.reset();
    is.from_program_.assign(from_program.begin(), from_program.end());
    const glue::PrivateDataLimits limits = is.service_->limits();
    const bool is_active = is.to_.is_set();
    const std::vector<std::byte> data =
        data_to_send(is.peer_, from_program, is_active ? limits.connect : limits.accept);
    Result<std::unique_ptr<FlushPage>> page = FlushPage::make(is.peer_);
    if (!page) {
        return std::move(page).error();
    }
    Result<Waiter> waiter = Waiter::make(is.service_->fd(), is.queues_->loss_fd());
    if (!waiter) {
        return std::move(waiter).error();
    }
    auto conn = std::make_unique<Conn>(std::move(request), *std::move(page), *std::move(waiter));
    const glue::ConnectionOptions options = options_of(data, is.queues_->has_srq());
    Result<void> asked = is_active ? is.connection_->connect(is.to_, is.queues_->qp(), options)
                                   : is.connection_->accept(is.queues_->qp(), options);
    if (!asked) {
        return std::move(asked).error();
    }
    return conn;
}

Result<void> Request::close() {
    Result<void> rejected = to_.is_set() ? Result<void>() : connection_->reject({});
    connection_.reset();
    return both(std::move(rejected), queues_->close());
}

Result<std::unique_ptr<Ep>> Ep::make(Peer& peer, const char* address, const char* port) {
    Result<glue::Address> at = glue::look_up(address, port, true);
    if (!at) {
        return std::move(at).error();
    }
    Result<std::unique_ptr<glue::ConnectionService>> service = glue::open_connections(peer.context(), *at);
    if (!service) {
        return std::move(service).error();
    }
    Result<Waiter> waiter = Waiter::make((*service)->fd(), -1);
    if (!waiter) {
        return std::move(waiter).error();
    }
    Result<std::unique_ptr<glue::Listener>> listener = (*service)->listen(at->port(), 0, nullptr);
    if (!listener) {
        return std::move(listener).error();
    }
    return std::unique_ptr<Ep>(new Ep(peer, *std::move(service), *std::move(waiter), *std::move(listener)));
}

Result<std::unique_ptr<Request>> Ep::next(const ConnConfig& config) {
    Result<std::optional<glue::ConnectionEvent>> event = waiter_.next(*service_);
    if (!event) {
        return std::move(event).error();
    }
    if (!event->has_value()) {
        return std::unique_ptr<Request>();
    }
    if ((*event)->kind != glue::ConnectionEventKind::kRequest) {
        return Error(ErrorKind::kInvalidArgument, "what came is no request to connect");
    }
    return Request::answer(peer_, std::move(**event), config);
}

// A page of its own, so that a fork() of the program's copies nothing that the device writes to.
Result<std::unique_ptr<FlushPage>> FlushPage::make(Peer& peer) {
    void* const mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
        return Error(ErrorKind::kInsufficientResources, "out of memory for flushing");
    }
    std::unique_ptr<FlushPage> page(new FlushPage(mapped));
    Result<std::unique_ptr<LocalRegion>> region =
        LocalRegion::make(peer, mapped, kBytes, RPMA_MR_USAGE_READ_DST);
    if (!region) {
        return std::move(region).error();
    }
    page->region_ = *std::move(region);
    return page;
}

FlushPage::~FlushPage() {
    region_.reset();
    munmap(page_, kBytes);
}

Conn::Conn(std::unique_ptr<Request> request, std::unique_ptr<FlushPage> page, Waiter waiter) noexcept
    : is_(std::move(request)), flush_page_(std::move(page)), waiter_(std::move(waiter)),
      private_data_(std::move(is_->private_data_)) {
    agree(is_->peers_offer_);
}

// The queue pair refers to the page, and the connection to the queue pair.
Conn::~Conn() {
    is_->connection_.reset();
    (void)is_->queues_->close();
}

void Conn::agree(Features peers_offer) noexcept {
    features_.store(static_cast<Features>(peers_offer & is_->peer_.features()), std::memory_order_relaxed);
}

Result<std::optional<rpma_conn_event>> Conn::next_event() {
    while (true) {
        Result<std::optional<glue::ConnectionEvent>> event = waiter_.next(*is_->service_);
        if (!event) {
            return std::move(event).error();
        }
        if (!event->has_value()) {
            return std::optional<rpma_conn_event>();
        }
        if (const std::optional<rpma_conn_event> name = told(**event)) {
            return name;
        }
        if (!name_of((*event)->kind)) {
            return Error(ErrorKind::kInternal, "an event of the connection has no name");
        }
    }
}

// Nothing for the end of an end, that the network has forgotten the connection, too; and for the loss of what
// this side has left. A peer that dies is lost, or takes leave of who has left it.
std::optional<rpma_conn_event> Conn::told(glue::ConnectionEvent& event) {
    std::optional<rpma_conn_event> name = name_of(event.kind);
    if (event.kind == glue::ConnectionEventKind::kPeerDied) {
        if (was_left_ || is_lost_) {
            name = RPMA_CONN_CLOSED;
        } else if (is_ended_.exchange(true)) {
            return std::nullopt;
        }
    }
    if (name == RPMA_CONN_ESTABLISHED) {
        established(event);
    }
    is_refused_ = is_refused_ || name == RPMA_CONN_REJECTED || name == RPMA_CONN_UNREACHABLE;
    const bool is_known = (name == RPMA_CONN_CLOSED && is_ended_.exchange(true)) ||
                          (name == RPMA_CONN_LOST && (was_left_ || is_lost_.exchange(true)));
    if (!name || is_known) {
        return std::nullopt;
    }
    log_message(RPMA_LOG_LEVEL_NOTICE, {}, text_of(*name));
    return name;
}

void Conn::established(glue::ConnectionEvent& event) {
    is_established_ = true;
    const LockGuard guard(mutex_);
    if (is_->to_.is_set()) {
        agree(take_offer(event.private_data));
        private_data_ = std::move(event.private_data);
    }
}

PrivateData Conn::private_data() noexcept {
    const LockGuard guard(mutex_);
    return private_data_;
}

Result<void> Conn::disconnect() {
    if (is_ended_) {
        return {}; // by the peer, and answered
    }
    if (is_refused_) {
        return Error(ErrorKind::kInvalidState, "the connection has not come about", EINVAL);
    }
    const bool is_second = was_left_.exchange(true);
    Result<void> asked = is_->connection_->disconnect();
    // The peer's wish may have come first, and its event not have been looked at.
    const bool is_over = !asked && asked.error().os_errno() == EINVAL && is_established_ && !is_second;
    return is_over ? Result<void>() : std::move(asked);
}

Result<std::unique_ptr<Conn>> Conn::reconnect() const {
    if (!is_->to_.is_set()) {
        return Error(ErrorKind::kNotSupported,
                     "the peer has asked for the connection, so that only the peer can ask for it again");
    }
    if (!is_ended_ && !is_refused_ && !is_lost_ && !was_left_) {
        return Error(ErrorKind::kInvalidArgument,
                     "the connection has neither ended nor failed; disconnect it first");
    }
    Result<std::unique_ptr<Request>> request = Request::make(is_->peer_, is_->to_, is_->config_);
    if (!request) {
        return std::move(request).error();
    }
    return Request::connect(*std::move(request), is_->from_program_);
}

Result<void> Conn::close() noexcept {
    is_->connection_.reset();
    Result<void> queues = is_->queues_->close();
    return both(std::move(queues), flush_page_->close());
}

} // namespace sluice::rpma
