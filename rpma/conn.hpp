// SPDX-License-Identifier: BSD-3-Clause
//
// From a request to a connection, and where requests come from.
//
// A Request has everything that a connection needs, so that receives can be posted before it connects; the
// Conn that it becomes takes it over. Each has an event queue of its own, where its descriptor is.
//
// Thread safety: a Request is used by one thread at a time. Everything of an Ep and of a Conn may be called
// from any thread, but the destructors.
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "core/sync.hpp"
#include "rpma/include/sluice/rpma.h"
#include "rpma/queues.hpp"
#include "rpma/waiter.hpp"

namespace sluice::rpma {

class Conn;

using PrivateData = std::span<const std::byte>;

class Request {
  public:
    // Blocks while the way to ADDRESS is found.
    static Result<std::unique_ptr<Request>> make(Peer& peer, const char* address, const char* port,
                                                 const ConnConfig& config);
    // Only starts to look for the way to ADDRESS, which is in numbers.
    static Result<std::unique_ptr<Request>> start(Peer& peer, const char* address, const char* port,
                                                  const ConnConfig& config);
    // Of a peer's; rejects it where that fails.
    static Result<std::unique_ptr<Request>> answer(Peer& peer, glue::ConnectionEvent event,
                                                   const ConnConfig& config);

    Queues& queues() const noexcept { return *queues_; }
    PrivateData private_data() const noexcept { return private_data_; }

    // Of one that was started; -1 of others.
    int event_fd() const noexcept { return waiter_ ? waiter_->fd() : -1; }
    // The step that was done meanwhile, or nothing, as Waiter::next() says. kInvalidArgument: none is left to
    // do.
    Result<std::optional<rpma_conn_req_step>> next_step();

    // The request is used up in any case. kInvalidArgument: it was started, and its way is not found.
    static Result<std::unique_ptr<Conn>> connect(std::unique_ptr<Request> request, PrivateData from_program);
    // Rejects, if it is the peer's.
    Result<void> close();

  private:
    friend class Conn;

    Request(Peer& peer, const ConnConfig& config) noexcept : peer_(peer), config_(config) {}
    static Result<std::unique_ptr<Request>> make(Peer& peer, const glue::Address& to,
                                                 const ConnConfig& config);
    Result<void> prepare();
    Result<void> start_resolving();
    Result<std::optional<rpma_conn_req_step>> step_of(const glue::ConnectionEvent& event);
    rpma_conn_req_step step_done() noexcept;

    Peer& peer_;
    const ConnConfig config_; // as it was
    // What is named first goes last.
    std::unique_ptr<Queues> queues_;
    std::unique_ptr<glue::ConnectionService> service_;
    std::unique_ptr<glue::Connection> connection_;
    glue::Address to_; // unset for the peer's
    enum class Way : std::uint8_t { kFound, kAddressWanted, kPathWanted, kNotFound };
    Way way_ = Way::kFound;
    Descriptor steps_; // an eventfd with a step for each look, where there is nothing to find
    std::optional<Waiter> waiter_;
    std::vector<std::byte> private_data_; // the peer's
    std::vector<std::byte> from_program_; // this side's, without an offer
    Features peers_offer_ = kNoFeature;
};

class Ep {
  public:
    static Result<std::unique_ptr<Ep>> make(Peer& peer, const char* address, const char* port);

    int fd() const noexcept { return waiter_.fd(); }
    // Nothing when there is none, as Waiter::next() says.
    Result<std::unique_ptr<Request>> next(const ConnConfig& config);

  private:
    Ep(Peer& peer, std::unique_ptr<glue::ConnectionService> service, Waiter waiter,
       std::unique_ptr<glue::Listener> listener) noexcept
        : peer_(peer), service_(std::move(service)), waiter_(std::move(waiter)),
          listener_(std::move(listener)) {}

    Peer& peer_;
    const std::unique_ptr<glue::ConnectionService> service_;
    const Waiter waiter_;
    const std::unique_ptr<glue::Listener> listener_;
};

// Where the reads go that stand in for flushes: what they bring is of no interest.
class FlushPage {
  public:
    static constexpr std::size_t kBytes = 8;

    static Result<std::unique_ptr<FlushPage>> make(Peer& peer);
    ~FlushPage();
    FlushPage(const FlushPage&) = delete;
    FlushPage& operator=(const FlushPage&) = delete;

    ibv_sge piece(std::size_t length) const noexcept { return region_->piece(0, length); }
    Result<void> close() noexcept { return region_->close(); }

  private:
    explicit FlushPage(void* page) noexcept : page_(page) {}

    void* const page_;
    std::unique_ptr<LocalRegion> region_;
};

// A piece of this side's memory for a request; without a region, one of no bytes.
struct Local {
    const LocalRegion* region;
    std::size_t offset;
    std::size_t length;
};
struct Remote {
    const RemoteRegion* region;
    std::size_t offset;
};
// How a request shall be told to be done.
struct Report {
    int flags; // RPMA_F_*
    const void* id;
};

struct Write {
    Remote to;
    Local from;
    Report report;
};

class Conn {
  public:
    explicit Conn(std::unique_ptr<Request> request, std::unique_ptr<FlushPage> page, Waiter waiter) noexcept;
    ~Conn();
    Conn(const Conn&) = delete;
    Conn& operator=(const Conn&) = delete;

    int event_fd() const noexcept { return waiter_.fd(); }
    Queues& queues() const noexcept { return *is_->queues_; }
    // Nothing when there is none, as Waiter::next() says. kInternal for what has no name in librpma.
    Result<std::optional<rpma_conn_event>> next_event();
    PrivateData private_data() noexcept;
    void trust_direct_writes(bool peer_has) noexcept { has_direct_write_.store(peer_has); }
    Result<void> disconnect();
    // A new one to the same place, with the same configuration and private data. Blocks as Request::make().
    // kInvalidArgument: it may still be in use. kNotSupported: the peer has asked for it.
    Result<std::unique_ptr<Conn>> reconnect() const;
    Result<void> close() noexcept;

    // The data path. Unless the answer is kDone, nothing is posted.
    Answer read(const Local& to, const Remote& from, const Report& report) noexcept;
    Answer write(const Remote& to, const Local& from, const Report& report) noexcept;
    Answer write_pieces(const Remote& to, std::span<const Local> from, const Report& report) noexcept;
    // All with one doorbell, at most RPMA_MAX_WRITES. POSTED is told unless the answer is kInvalid.
    Answer write_many(std::span<const Write> writes, std::size_t& posted) noexcept;
    Answer write_with_immediate(const Remote& to, const Local& from, std::uint32_t immediate,
                                const Report& report) noexcept;
    Answer send(const Local& from, const Report& report) noexcept;
    Answer send_with_immediate(const Local& from, std::uint32_t immediate, const Report& report) noexcept;
    Answer atomic_write(const Remote& to, const char* value, const Report& report) noexcept;
    Answer flush(const Remote& range, std::size_t length, rpma_flush_type type,
                 const Report& report) noexcept;

  private:
    friend class Request;

    std::optional<rpma_conn_event> told(glue::ConnectionEvent& event);
    void established(glue::ConnectionEvent& event);
    void agree(Features peers_offer) noexcept;
    Answer post_transfer(ibv_wr_opcode opcode, const Local& local, const Remote* remote,
                         std::uint32_t immediate, const Report& report) noexcept;
    Answer post_read_as_flush(const RemoteRegion& region, std::size_t offset, const Report& report) noexcept;

    const std::unique_ptr<Request> is_; // what it was, and still has everything that it consists of
    const std::unique_ptr<FlushPage> flush_page_;
    const Waiter waiter_;
    // Native at both sides. Set by the thread that takes events, read by threads that post; nothing else is
    // published with it.
    std::atomic<Features> features_{kNoFeature};
    std::atomic<bool> has_direct_write_{false};
    std::atomic<bool> is_established_{false};
    std::atomic<bool> is_refused_{false}; // has told RPMA_CONN_REJECTED or RPMA_CONN_UNREACHABLE
    std::atomic<bool> is_ended_{false};   // has told RPMA_CONN_CLOSED, or that the peer died
    std::atomic<bool> is_lost_{false};    // has told RPMA_CONN_LOST
    std::atomic<bool> was_left_{false};   // by this side
    Mutex mutex_;
    std::vector<std::byte> private_data_ SLUICE_TSA(guarded_by(mutex_)); // set once, so that it stays
};

// What an event of the glue's is to a program; nothing for what has no name.
std::optional<rpma_conn_event> name_of(glue::ConnectionEventKind kind) noexcept;

} // namespace sluice::rpma
