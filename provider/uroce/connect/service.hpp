// SPDX-License-Identifier: BSD-3-Clause
//
// The connection manager of one device for programs: what <sluice/sluice.h> says about connections,
// behind its façade. Ids and channels here are the sluice_cm_id and sluice_cm_channel there.
//
// One lock for all. It is held neither while messages are sent nor while queue pairs are led: those
// go through the device's lock, and the device's thread comes here with what it received. A queue
// pair is led by the thread that asks for the event, so that nothing touches a program's queue
// pair behind its back.
#pragma once

#include <array>
#include <memory>
#include <thread>

#include "core/sync.hpp"
#include "provider/uroce/connect/qp_transitions.hpp"
#include "provider/uroce/connect/socket_address.hpp"
#include "provider/uroce/roce.hpp"
#include "roce/cm/manager.hpp"
#include "sluice/sluice.h"

namespace sluice::uroce::connect {

class Service;

// All members of both belong to the service's lock, unless they never change.
struct Channel;

struct Id {
    enum class Use : std::uint8_t { kNone, kListens, kConnects };
    // A request or an answer, its end, and the end of time-wait.
    static constexpr std::uint32_t kMostEvents = 4;

    Id(Channel& its_channel, std::uint16_t its_port_space, void* its_context) noexcept;

    Service& service;
    const std::uint16_t port_space;
    Channel* channel;
    void* context = nullptr;
    Use use = Use::kNone;
    std::uint16_t local_port = 0;
    cm::ListenerId listener = cm::ListenerId::kNone;
    cm::ConnectionId connection = cm::ConnectionId::kNone;
    Id* asked = nullptr; // the listening id, until the request is taken
    ibv_qp* qp = nullptr;
    TransitionOptions options;
    bool moved = false; // qp is past INIT, by us
    std::uint32_t unacknowledged = 0;

    std::array<cm::Event, kMostEvents> events{};
    std::uint32_t event_first = 0;
    std::uint32_t event_count = 0;
    Id* previous = nullptr; // in the channel's list of those that have events
    Id* next = nullptr;
};

struct Channel {
    Service& service;
    const int fd; // an eventfd, readable while the list isn't empty
    std::uint32_t ids = 0;
    Id* first = nullptr;
    Id* last = nullptr;
};

inline Id::Id(Channel& its_channel, std::uint16_t its_port_space, void* its_context) noexcept
    : service(its_channel.service), port_space(its_port_space), channel(&its_channel), context(its_context) {}

// What sluice_cm_default_params() gives.
sluice_cm_params default_params() noexcept;

class Service {
  public:
    // PORT outlives the service.
    Service(const cm::ManagerConfig& config, const engine::Address& local, ManagementPort& port);
    Service(const Service&) = delete;
    Service& operator=(const Service&) = delete;

    bool gone() const noexcept { return port_.gone(); }

    // For the port's thread.
    void receive(const engine::Address& source, const engine::Address& destination,
                 std::span<const std::uint8_t> mad) noexcept;
    void advance() noexcept;
    // The process that had share ITS of the numbers of ADDRESS has ended. Another one may have that share by
    // now, and connections with us.
    void process_ended(const engine::Address& address, const engine::Share& its) noexcept;
    // A process of this host says that it hasn't the connection of ENDS.
    void peer_denies(const engine::Ends& ends) noexcept;
    // Data arrived at a queue pair whose connection waits for RTU.
    void communication_established(std::uint32_t qpn) noexcept;
    cm::ManagerCounters counters() noexcept;

    Result<Channel*> create_channel();
    Result<void> destroy_channel(Channel& channel);
    // 0 or an errno; EAGAIN when none comes in time. TIMEOUT_MS below 0: without an end.
    int get_event(Channel& channel, int timeout_ms, sluice_cm_event*& event);
    static void acknowledge(sluice_cm_event& event) noexcept;

    Result<Id*> create_id(Channel& channel, int port_space, void* context);
    void destroy_id(Id& id) noexcept;
    Result<void> migrate(Id& id, Channel& channel);
    void set_context(Id& id, void* context) noexcept;
    std::uint16_t local_port(const Id& id) noexcept;

    Result<void> listen(Id& id, const sockaddr& address, int backlog);
    Result<void> connect(Id& id, const sockaddr& peer, const sluice_cm_params& params);
    Result<void> accept(Id& id, const sluice_cm_params& params);
    Result<void> reject(Id& id, std::uint16_t why, std::span<const std::uint8_t> data);
    Result<void> disconnect(Id& id);
    Result<void> establish(Id& id);
    Result<void> notify(Id& id);
    Result<void> qp_attributes(Id& id, ibv_qp_attr& attr, int& mask);

  private:
    struct Delivered;
    struct Route {
        engine::Address local;
        engine::Address remote;
        std::uint64_t service_id;
    };

    // Holds the service. At its end events go to their channels, and after that messages to the port.
    class SLUICE_TSA(scoped_lockable) Turn {
      public:
        explicit Turn(Service& service) SLUICE_TSA(acquire_capability(service.mutex_)) : service_(service) {
            service.mutex_.lock();
        }
        ~Turn() SLUICE_TSA(release_capability()) SLUICE_TSA(no_thread_safety_analysis) {
            service_.take_events_locked();
            const bool sends = service_.begin_sending_locked();
            service_.mutex_.unlock();
            if (sends) {
                service_.send_all();
            }
        }
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;

      private:
        Service& service_;
    };

    bool has_connections(const engine::Address& address, const engine::Share& its) noexcept;
    cm::ConnectionManager::Ended end_connections(const engine::Address& address,
                                                 const engine::Share& its) noexcept;
    bool another_sends_locked() const noexcept SLUICE_TSA(requires_capability(mutex_));
    bool begin_sending_locked() noexcept SLUICE_TSA(requires_capability(mutex_));
    void send_all() noexcept SLUICE_TSA(locks_excluded(mutex_));
    bool next_silent(cm::ConnectionManager::Silent& silent) noexcept;
    bool next_doubtful(cm::ConnectionManager::Doubtful& doubtful) noexcept;
    void take_events_locked() noexcept SLUICE_TSA(requires_capability(mutex_));
    Id* child_locked(Id& listening, const cm::Event& event) noexcept SLUICE_TSA(requires_capability(mutex_));
    void queue_locked(Id& id, const cm::Event& event) noexcept SLUICE_TSA(requires_capability(mutex_));
    void append_locked(Id& id) noexcept SLUICE_TSA(requires_capability(mutex_));
    void unlist_locked(Id& id) noexcept SLUICE_TSA(requires_capability(mutex_));
    void stop_listening_locked(Id& id) noexcept SLUICE_TSA(requires_capability(mutex_));
    void forget_locked(Id& id) noexcept SLUICE_TSA(requires_capability(mutex_));
    Result<cm::ConnectionId> connection_of(const Id& id) const SLUICE_TSA(requires_capability(mutex_));
    Result<engine::Address> local_towards(const engine::Address& peer, const sluice_cm_params& params);
    Result<cm::ListenerId> listen_at_locked(Id& id, const Endpoint& endpoint, std::uint32_t backlog)
        SLUICE_TSA(requires_capability(mutex_));
    // Its port becomes the one that is chosen.
    Result<cm::ListenerId> listen_anywhere_locked(Id& id, Endpoint& endpoint, std::uint32_t backlog)
        SLUICE_TSA(requires_capability(mutex_));
    Result<void> resolve_locked(Id& id, const Route& route, const sluice_cm_params& params)
        SLUICE_TSA(requires_capability(mutex_));
    Result<void> connect_locked(Id& id, const Route& route, const sluice_cm_params& params)
        SLUICE_TSA(requires_capability(mutex_));
    bool take_event(Channel& channel, Delivered& to) noexcept;
    Result<sluice_cm_event*> next_event(Channel& channel);
    int look_for_event(Channel& channel, sluice_cm_event*& found) noexcept;
    bool finish(Delivered& event) noexcept;
    bool finish_answer(Delivered& event, ibv_qp& qp) noexcept;
    Result<void> accept_on(Id& id, const sluice_cm_params& params, const cm::AcceptParams& accepted);

    const cm::ManagerConfig config_;
    const engine::Address local_;
    ManagementPort& port_;
    Mutex mutex_;
    ConditionVariable settled_; // an event is acknowledged, or messages are sent
    // The thread that takes messages from the manager to the port.
    std::thread::id sender_ SLUICE_TSA(guarded_by(mutex_));
    cm::ConnectionManager manager_ SLUICE_TSA(guarded_by(mutex_));
};

} // namespace sluice::uroce::connect
