// SPDX-License-Identifier: BSD-3-Clause
//
// Endpoints: a queue pair, what is posted to it, and the connection that it has or may get.
//
// Posting is in ep_post.hpp.
//
// Thread safety: everything may be called from any thread. Control calls take the endpoint's mutex; posts
// take the lock of their direction only, and look at the state without one.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "ibverbs-glue/connection.hpp"
#include "udapl/provider/evd.hpp"
#include "udapl/provider/memory.hpp"
#include "udapl/provider/parts.hpp"
#include "udapl/provider/srq.hpp"

namespace sluice::dapl {

// The numbers are DAT's own, in each of its versions.
enum class EpState : std::uint8_t {
    kUnconnected = 0,
    kReserved = 2,   // a service point waits for it
    kPassive = 4,    // whose request has come
    kConnecting = 6, // by the program's wish
    kConnected = 9,
    kDisconnecting = 10,
    kDisconnected = 11,
    kAccepting = 12,
};

// What each queue of requests has beyond the program's.
constexpr int kOwnRequests = 1;

struct EpOptions {
    std::uint64_t max_message = kMaxMessage;
    std::uint64_t max_rdma = kMaxMessage;
    std::uint32_t max_receives = 16; // with a shared queue the hard watermark
    std::uint32_t max_requests = 16;
    std::uint32_t max_receive_parts = 4;
    std::uint32_t max_request_parts = 4;
    std::uint32_t max_read_parts = 4;
    std::uint32_t max_write_parts = 4;
    std::uint32_t soft_watermark = Watermarks::kInfinite;
    std::uint8_t max_reads_in = 4;
    std::uint8_t max_reads_out = 4;
    EvdModel receive_model = EvdModel::kEach;
    EvdModel request_model = EvdModel::kEach;
    // As they were asked for: two words of DAT's mean the first model.
    unsigned receive_flags = 0;
    unsigned request_flags = 0;
};

// Empty where the endpoint shall have none.
struct EpEvds {
    Held<Evd> receive;
    Held<Evd> request;
    Held<Evd> connect;
};

// What an endpoint is made of, and modify() changes.
struct EpParts {
    Held<Pz> pz;
    EpEvds evds;
    EpOptions options;
    Held<Srq> srq{};             // where it receives from; empty: a queue of its own
    std::unique_ptr<Evd> unused; // a queue pair needs queues even where the program has none
};

// The members that are to be others; for dispatchers an empty one means none.
struct EpChange {
    std::optional<Held<Pz>> pz;
    std::optional<Held<Evd>> receive;
    std::optional<Held<Evd>> request;
    std::optional<Held<Evd>> connect;
    EpOptions options;
    bool needs_unconnected = false; // a service point has no objection to the others
};

// Whom an endpoint is connected to.
struct EpPeer {
    glue::Address address;
    std::uint64_t qualifier = 0; // the program's, or else the port
};

// What a query tells, of one moment.
struct EpView {
    EpState state;
    EpOptions options;
    void* pz;
    void* receive;
    void* request;
    void* connect;
    void* srq;
    const glue::Address* peer; // null where none is known; it stays where it is
    std::uint64_t peer_qualifier;
    std::uint16_t local_port;
};

enum class EpRequest { kSend, kWrite, kRead };

struct RemotePart {
    std::uint32_t key;
    std::uint64_t address;
    std::uint64_t length;
};

// Binds WINDOW, a remote memory region's of that HANDLE and zone.
struct BindRequest {
    const glue::MemoryWindow& window;
    ibv_mw_bind_info info;
    const Pz& pz;
    void* handle;
    std::uint64_t number;
};

// How many receives an endpoint has: with the program's to take, and from the first of them to the last.
struct ReceiveUse {
    std::uint32_t allocated;
    std::uint32_t span;
};

class Ep final : public Object {
  public:
    static constexpr HandleKind kHandleKind = kEp;
    static constexpr bool kIsHot = true;

    // kInvalidArgument where a dispatcher has endpoints of another model.
    static Result<std::unique_ptr<Ep>> make(Ia& ia, Held<Pz> pz, EpEvds evds, const EpOptions& options,
                                            Held<Srq> srq = {});
    ~Ep() override;
    void abandon() noexcept override;

    EpState state() const noexcept { return state_.load(std::memory_order_acquire); }
    bool is_receive_idle() const noexcept { return receives_.is_idle(); }
    bool is_request_idle() const noexcept { return requests_.is_idle(); }
    EpView view() noexcept;
    // Nothing where it isn't connected.
    std::optional<EpPeer> peer() noexcept;
    ReceiveUse receive_use() noexcept;

    // All of it, or nothing.
    EpAnswer modify(EpChange& change);
    EpAnswer set_watermarks(const Watermarks& watermarks);
    // TIMEOUT: microseconds, or kForever.
    EpAnswer connect(const EpPeer& peer, std::uint32_t timeout_us, std::span<const std::byte> private_data);
    // UNCONNECTED to RESERVED, and on to PASSIVE when a request has come; back, if that couldn't be told.
    EpAnswer reserve() noexcept;
    bool promise(const glue::Address& peer) noexcept;
    void keep_reserved() noexcept;
    // To UNCONNECTED, if it is at FROM.
    void release(EpState from = EpState::kPassive) noexcept;
    // In state FROM. Takes the request's connection over, on success only.
    EpAnswer accept(std::unique_ptr<glue::Connection>& request, EpState from,
                    std::span<const std::byte> private_data);
    // Graceful: when everything that was requested is done.
    EpAnswer disconnect(bool is_graceful);
    EpAnswer reset();

    EpAnswer post_receive(Parts parts, std::uint64_t cookie, PostFlags flags) noexcept;
    EpAnswer post_bind(const BindRequest& bind, std::uint64_t cookie, PostFlags flags) noexcept;
    // REMOTE means nothing for a send.
    template<EpRequest kKind>
    EpAnswer post_request(Parts parts, const RemotePart& remote, std::uint64_t cookie,
                          PostFlags flags) noexcept;

    // For the loop's thread.
    void on_event(glue::ConnectionEvent& event);
    void on_time(std::uint64_t now) noexcept;
    void settle(const Unsettled& told) noexcept;
    bool completes_at(const Evd& evd) noexcept;
    void on_device_error() noexcept;
    void on_communication() noexcept;

  private:
    Ep(Ia& ia, EpParts parts);

    Result<glue::QueuePair> make_queue_pair(const EpParts& parts);
    static bool join(const EpParts& parts) noexcept;
    static void leave(const EpParts& parts) noexcept;
    EpAnswer change_locked(EpParts& parts, std::optional<glue::QueuePair>& former)
        SLUICE_TSA(requires_capability(mutex_));
    bool needs_queues_locked(const EpParts& parts) const noexcept SLUICE_TSA(requires_capability(mutex_));

    glue::ConnectionOptions connection_options(std::span<const std::byte> private_data) const noexcept;
    EpAnswer flush(Evd& evd, std::uint64_t cookie) const noexcept;
    EpAnswer check_state(PostFlags flags) const noexcept;
    // Tells the shared queue who takes from it now.
    void attach();
    EpAnswer begin_drain_locked() noexcept SLUICE_TSA(requires_capability(mutex_));
    bool post_marker() noexcept;
    void tell_locked(EventKind kind) noexcept SLUICE_TSA(requires_capability(mutex_));
    void end_locked(EventKind kind) noexcept SLUICE_TSA(requires_capability(mutex_));
    void break_locked() noexcept SLUICE_TSA(requires_capability(mutex_));
    void hang_up_locked() noexcept SLUICE_TSA(requires_capability(mutex_));
    void forget_deadline_locked() noexcept SLUICE_TSA(requires_capability(mutex_));
    bool is_pending_locked() const noexcept SLUICE_TSA(requires_capability(mutex_));
    void forget_posted() noexcept;

    // Changed with the mutex and the locks of both directions; read with any of these.
    EpParts parts_;
    std::optional<glue::QueuePair> qp_;
    DtoRing requests_;
    DtoRing receives_;

    Mutex mutex_;
    std::atomic<EpState> state_{EpState::kUnconnected};
    std::unique_ptr<glue::Connection> connection_ SLUICE_TSA(guarded_by(mutex_));
    EpPeer peer_ SLUICE_TSA(guarded_by(mutex_));
    Watermarks watermarks_ SLUICE_TSA(guarded_by(mutex_));
    std::uint16_t local_port_ SLUICE_TSA(guarded_by(mutex_)) = 0;
    std::vector<std::byte> peer_data_ SLUICE_TSA(guarded_by(mutex_)); // until reset: events point into it
    std::uint64_t deadline_ SLUICE_TSA(guarded_by(mutex_)) = kNever;  // of connecting
};

} // namespace sluice::dapl
