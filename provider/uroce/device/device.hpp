// SPDX-License-Identifier: BSD-3-Clause
//
// A device: one address of this process, shared by all contexts that opened it. It owns the engine,
// the engine's lock, and the paths on which packets leave and arrive.
//
// Delivery. The posting thread delivers its own packets: at the end of a ProgressSession it takes every
// packet that the engine has to its destination, and brings the answers back, before the call returns. A
// packet for a neighbour goes straight into that one's engine if its lock is free, otherwise into its
// inbox, for the thread that holds it. A thread that holds one device never waits for another. A packet
// for an address that no neighbour has goes to the link.
//
// Parts: device.cpp is its life, its addresses and its queues; device_progress.cpp says who works when;
// device_delivery.cpp, which way each packet takes; device_peers.cpp, what is known of other processes;
// device_groups.cpp, multicast. pump.hpp is for them alone.
//
// This unit knows the engine, the link and the seam to its neighbours. It knows neither libibverbs nor the
// connection manager nor the registry: what they need of it is a function or an interface of this header.
//
// Lock order: that of the GID table's changes; that of multicast groups; a completion queue's, then a
// device's; within it an inbox's.
#pragma once

#include <memory>

#include "provider/uroce/device/address_watch.hpp"
#include "provider/uroce/device/addresses.hpp"
#include "provider/uroce/device/counters.hpp"
#include "provider/uroce/device/device_faults.hpp"
#include "provider/uroce/device/device_lock.hpp"
#include "provider/uroce/device/gid_table.hpp"
#include "provider/uroce/device/inbox.hpp"
#include "provider/uroce/device/link.hpp"
#include "provider/uroce/device/neighbours.hpp"
#include "provider/uroce/device/progress_thread.hpp"
#include "provider/uroce/device/sysfs_directory.hpp"
#include "provider/uroce/device/xrc_domains.hpp"
#include "provider/uroce/roce.hpp"
#include "roce/engine/engine.hpp"
#include "roce/near/same_host.hpp"
#include "roce/socket/pcap_recorder.hpp"

namespace sluice::uroce::device {

// Something that needs a device, is made at its first use, and ends before it: the connection manager.
class Companion {
  public:
    Companion() = default;
    Companion(const Companion&) = delete;
    Companion& operator=(const Companion&) = delete;
    virtual ~Companion() = default;
    // The process that had share ITS of the numbers of ADDRESS has ended; from the link's thread. Another
    // process may have that share by now: with that one, too, there may be connections.
    virtual void process_ended(const engine::Address& /*address*/, const engine::Share& /*its*/) noexcept {}
    // A process of this host says that it hasn't the connection of ENDS; from the link's thread.
    virtual void peer_denies(const engine::Ends& /*ends*/) noexcept {}
};

class Device final : public Neighbour,
                     engine::EventSink,
                     Link::Receiver,
                     ProgressThread::Client,
                     AddressWatch::Client {
  public:
    static constexpr std::uint32_t kMaxQueuePairs = 4096;
    static constexpr std::uint32_t kMaxRegions = 8192; // and windows

    // Gets each asynchronous event, with the owner that its queue pair was made with; runs with the
    // device's lock held.
    using Report = void (*)(void* owner, engine::AsyncEvent event) noexcept;

    // Injected faults and a recording of all packets, for tests of programs. Usually neither.
    struct Instrumentation {
        std::unique_ptr<DeviceFaults> faults{};
        socket::PcapRecorder* recorder = nullptr;
    };

    // With peers of which nothing is known.
    struct Patience {
        engine::Nanoseconds min_silence = 0; // before one is lost
        engine::Nanoseconds keepalive = 0;   // between two questions of the connection manager; 0: none
    };

    // The ways to other processes. Either may be null; SAME_HOST needs the link.
    struct Paths {
        std::unique_ptr<Link> link{}; // records by itself
        std::unique_ptr<near::SameHost> same_host{};
    };

    // MEMORY, NEIGHBOURS and COUNTERS outlive the device.
    Device(LocalAddress where, const RandomKey& secret, engine::Memory& memory, Neighbours& neighbours,
           DeviceCounters& counters, engine::QueuePairRows* rows, Report report, const Patience& patience,
           SysfsDirectory directory, Paths paths, Instrumentation instrumentation);
    ~Device();

    const LocalAddress& where() const noexcept { return where_; }
    const GidTable& gids() const noexcept { return gids_; }
    engine::Nanoseconds keepalive() const noexcept { return keepalive_; }
    const std::string& directory() const noexcept { return directory_.path(); }
    const engine::Memory& memory() const noexcept { return memory_; }

    // What a session is for. A post doesn't first send the acknowledgements that wait.
    enum class Purpose : std::uint8_t { kChange, kPost };
    // Holds the device's lock. At its end, everything that became possible happens: progress_and_unlock().
    class SLUICE_TSA(scoped_lockable) ProgressSession {
      public:
        explicit ProgressSession(Device& device, Purpose purpose = Purpose::kChange) noexcept
            SLUICE_TSA(acquire_capability(device.lock_)) SLUICE_TSA(no_thread_safety_analysis)
            : device_(device) {
            device.lock(purpose);
        }
        ~ProgressSession() SLUICE_TSA(release_capability()) SLUICE_TSA(no_thread_safety_analysis) {
            device_.progress_and_unlock();
        }
        ProgressSession(const ProgressSession&) = delete;
        ProgressSession& operator=(const ProgressSession&) = delete;
        engine::Engine& engine() const noexcept { return device_.engine_; }
        XrcDomains& xrc_domains() const noexcept { return device_.xrc_domains_; }

      private:
        Device& device_;
    };

    // What belongs to this process of what the processes at its address share.
    const engine::Share& share() const noexcept { return share_; }
    cm::PortClaims* port_claims() noexcept { return link_ != nullptr ? link_->port_claims() : nullptr; }

    // Once, before anything else: packets may arrive from now on.
    Result<void> start_link();
    // Its addresses follow its interface's, from now on.
    void start_following();

    // Somebody who wants to know of changes of the GID table.
    class GidWatcher {
      public:
        // Runs with the device's lock held.
        using Changed = void (*)(GidWatcher& self) noexcept;
        explicit GidWatcher(Changed changed) noexcept : changed_(changed) {}

      private:
        friend class Device;
        const Changed changed_;
        GidWatcher* next_ = nullptr;
    };
    void add_watcher(GidWatcher& watcher) noexcept;
    void remove_watcher(GidWatcher& watcher) noexcept;

    // Before a queue pair can send or receive.
    Result<void> start_progress();
    // Before one does so at ADDRESS, an entry of the GID table. May bind sockets; without the device's lock.
    Result<void> use_address(const engine::Address& address);
    // The same for one that needn't be an entry yet: ADDRESS becomes one if it is the device's (ADR 65).
    // kNotFound: it isn't; kInsufficientResources: the table is full.
    Result<void> take_address(const engine::Address& address);
    // Whether use_address() was called for it, or it is the home.
    bool hears(const engine::Address& address) const noexcept;
    bool make_progress() noexcept override;
    // The same, unless somebody is at it; never waits. True: something arrived.
    bool try_progress() noexcept override {
        const bool any = take_from_rings(false);
        const bool more = take_from_link(false);
        advance_if_due(); // also while something always comes
        return any || more;
    }
    // The same for a program that polls. Acknowledgements of what arrived wait for its next call, which
    // is likely the answer: then both leave together, and the program has the message sooner.
    bool poll_progress() noexcept;
    // What has arrived by now, whichever way, has reached the engine when this returns. May wait for the
    // thread that delivers it; the device's lock is free.
    void catch_up() noexcept override;
    bool has_held_back() const noexcept override { return held_back_.load(std::memory_order_seq_cst); }
    // Whether try_progress() may be worth its price: one look, for polls of an empty queue.
    bool may_progress() const noexcept {
        return link_ != nullptr || wake_at_.load(std::memory_order_relaxed) != engine::kNever;
    }
    std::uint64_t polls() const noexcept override { return polls_.load(std::memory_order_relaxed); }
    engine::Nanoseconds since_last_poll() const noexcept override;

    // A program that is to be woken: after what it is woken for has been answered, since it may end at once,
    // and what hasn't left by then never does.
    class Wakeup {
      public:
        // Runs with the device's lock held.
        using Wake = void (*)(Wakeup& self) noexcept;
        explicit Wakeup(Wake wake) noexcept : wake_(wake) {}

      private:
        friend class Device;
        const Wake wake_;
        Wakeup* next_ = nullptr;
        bool waits_ = false;
    };
    // With the lock held: before it is given back, in the order of the calls, since programs look at queues
    // in the order of their events. Once, however often it is asked for until then.
    void wake_later(Wakeup& wakeup) noexcept;
    // As many queues are armed: each for a program that may sleep soon.
    void queue_armed() noexcept;
    void queue_disarmed() noexcept { armed_queues_.fetch_sub(1, std::memory_order_relaxed); }
    bool fall_asleep() noexcept override;
    bool may_sleep() const noexcept override;
    void polls_are_seldom() noexcept override;
    // The process ends: what is to leave leaves, unless a thread keeps the device for long.
    void send_rest() noexcept;

    // Of a queue's life, as far as faults may keep completions back.
    void prepare_queue(engine::CompletionQueue& queue,
                       engine::CompletionQueue::BeforePush ask) const noexcept;
    void before_completion(engine::CompletionQueue& queue) noexcept; // with the lock held
    void end_queue(engine::CompletionQueue& queue) noexcept;

    // QP hears the multicast group from now on; twice is once. May throw bad_alloc. The device's lock is
    // free.
    Result<void> attach(engine::QueuePair& qp, const engine::Address& group);
    // False: it didn't hear that.
    bool detach(engine::QueuePair& qp, const engine::Address& group) noexcept;
    // After a queue pair has ended.
    void leave_unheard_groups() noexcept;

    std::uint32_t new_domain() noexcept { return domains_.fetch_add(1, std::memory_order_relaxed); }

    DeviceCounters& counters() noexcept { return counters_; }
    const DeliveryCounters& deliveries() const noexcept { return counters_.deliveries; }

    // The one that MAKE makes, at the first call. It finds the device able to make progress.
    using MakeCompanion = Result<std::unique_ptr<Companion>> (*)(Device& device);
    Result<Companion*> companion(MakeCompanion make);

    // This is the child of a fork: nothing of the device works any more, and nothing of it is used.
    void poison() noexcept;
    bool poisoned() const noexcept { return poisoned_.load(std::memory_order_relaxed); }

    // For Pump alone, which holds the device.
    void work(Pump& pump) noexcept;
    // For Pump alone: gives the lock back, unless somebody has left a note. True: it is given back.
    bool end_work() noexcept;
    Taken take_from(Device& from, Pump& pump) noexcept override;
    bool takes_from(Device& from) noexcept override;
    bool has_number(std::uint32_t qpn) const noexcept override { return share_.owns(qpn); }

    // Whether no process has SEAT of ADDRESS.
    bool is_seat_empty(const engine::Address& address, std::uint32_t seat) noexcept {
        return link_ == nullptr || link_->is_empty(address, seat);
    }
    // Of a peer that is silent; the caller holds the device. kLives: its process is on this machine.
    engine::Peer find_peer(const engine::Ends& ends) noexcept;
    bool is_port_refused(const engine::Ends& ends) noexcept {
        return look_at_port(ends) == engine::Port::kRefused;
    }

    // The process that had the other end of this connection is gone.
    void connection_ended(const engine::Ends& ends) noexcept;

    // QP is ready to receive, and has one peer; the caller holds the device.
    void watch_peer(const engine::QueuePair& qp) noexcept;

  private:
    void addresses_changed() noexcept override;
    Result<std::vector<engine::Address>> present_locked() const
        SLUICE_TSA(requires_capability(changing_gids_));
    void tell_watchers() noexcept;
    void event(engine::AsyncEvent event, std::uint32_t qpn) noexcept override;
    void packet(const engine::InPacket& in) noexcept override;
    void arrived(const engine::InPacket& in) noexcept override;
    bool is_connected(std::uint32_t qpn, const engine::Address& peer,
                      std::uint32_t peer_qpn) noexcept override;
    void peer_told(const engine::Ends& ends, bool connected) noexcept override;
    void member_ended(const engine::Address& address, const engine::Share& its) noexcept override;
    void nobody_at(const engine::Address& address) noexcept override;
    void peer_heard(const engine::Ends& ends) noexcept override;
    void thread_begins() noexcept override;
    void thread_ends() noexcept override;
    int board() const noexcept override;
    std::uint64_t board_id() const noexcept override;
    Admission board_came(const Descriptor& board, pid_t pid) noexcept override;
    void board_taken(pid_t pid, Admittance given) noexcept override;
    engine::Peer silent_peer(const engine::Ends& ends) noexcept override;
    engine::Port look_at_port(const engine::Ends& ends) noexcept override;

    // With the lock held.
    using Acks = engine::Engine::Acks;
    void lock(Purpose purpose) noexcept;
    void progress_and_unlock() noexcept;
    bool has_work() const noexcept;
    void transmit(Pump& pump) noexcept;
    void transmit_with(Pump& pump, Acks acks) noexcept;
    void dispatch(Pump& pump) noexcept;
    void deliver(Pump& pump, bool damaged) noexcept;
    bool send_through_memory() noexcept;
    Neighbour* find_here(Pump& pump) noexcept;
    void deliver_here(Neighbour& to, Pump& pump) noexcept;
    void end_queue_pair(std::uint32_t qpn) noexcept;
    bool is_in_this_process(const engine::Address& address, std::uint32_t qpn) noexcept;
    void receive(const engine::InPacket& in, PathCounters& path, const engine::Moment& now) noexcept;
    void give_to_neighbour(Neighbour& to, Pump& pump) noexcept;
    void take_in(engine::OutPacket& out, const engine::Moment& now) noexcept;
    bool payload_of(const engine::OutPacket& out, wire::ConstBytes& payload) noexcept;
    bool is_due(const Pump& pump) const noexcept;
    void read_inbox(const engine::Moment& now) noexcept;
    bool take_from_rings(bool polled) noexcept;
    void read_rings(const engine::Moment& now) noexcept;
    bool take_from_link(bool polled) noexcept;
    bool is_look_due(std::uint64_t now) const noexcept;
    void advance_if_due() noexcept;
    void read_link(const engine::Moment& now) noexcept;
    void take_link() noexcept;
    class HeldLink;
    class Trimming;
    Result<void> hear_locked(const engine::Address& group) SLUICE_TSA(requires_capability(changing_groups_));
    void leave_unheard_groups_locked() noexcept SLUICE_TSA(requires_capability(changing_groups_));
    void flush_link() noexcept;
    bool hold_back() noexcept;
    void wake_programs() noexcept;
    void end_failed_queues() noexcept;
    void arm_timer() noexcept;

    const LocalAddress where_;
    const engine::Nanoseconds keepalive_;
    GidTable gids_;
    Mutex changing_gids_; // and the files that show them
    engine::Memory& memory_;
    Neighbours& neighbours_;
    DeviceCounters& counters_;
    const Report report_;
    const engine::Share share_;
    const std::unique_ptr<near::SameHost> same_host_;
    DeviceLock lock_;
    XrcDomains xrc_domains_; // the engine's queue pairs have some
    engine::Engine engine_;
    Inbox inbox_;
    engine::OutPacket out_;
    std::array<std::uint8_t, kMaxPayloadBytes> gathered_; // a payload in several pieces
    std::unique_ptr<Link> link_;
    const Instrumentation instrumentation_;
    bool batch_open_ = false;               // link_ has packets to send
    bool link_full_ = false;                // and has no room for them now
    bool rings_due_ = false;                // the holder of the device is to read them
    bool polled_ = false;                   // a program's poll has brought what is worked on
    std::atomic<bool> held_back_{false};    // acknowledgements wait for the program's next call
    std::atomic<bool> link_taken_{false};   // a thread is between link_'s fetch() and deliver()
    std::atomic<bool> link_fetched_{false}; // the next holder of the device delivers it
    // Of empty queues, by the program. Threads that poll at the same time may count as one.
    std::atomic<std::uint64_t> polls_{0};
    std::atomic<std::uint64_t> last_poll_{0};    // in ticks()
    std::atomic<std::uint64_t> last_look_{0};    // at the link, by a poll; in ticks()
    std::atomic<std::uint64_t> last_traffic_{0}; // that a poll has found there, or that has left
    std::atomic<int> armed_queues_{0};
    std::atomic<std::uint64_t> polls_when_armed_{0}; // the last of them
    Wakeup* wakeups_ = nullptr;                      // the oldest first
    Wakeup** wakeups_end_ = &wakeups_;               // where the next one goes
    GidWatcher* watchers_ = nullptr;                 // in any order
    bool queues_failed_ = false;                     // a completion queue has overflowed
    const engine::Moment* link_time_ = nullptr;      // of the packets that the link hands over
    bool timer_fired_ = false;                       // so that deadlines are looked at with the exact clock
    std::atomic<engine::Nanoseconds> wake_at_{engine::kNever}; // what the progress thread's timer is set to
    std::atomic<std::uint32_t> domains_{1};
    Mutex changing_groups_;               // of multicast: those that link_ hears and those in engine_
    std::atomic<bool> has_groups_{false}; // or had some
    std::atomic<bool> poisoned_{false};
    SysfsDirectory directory_;
    ProgressThread progress_; // its end comes before that of all it works with
    Mutex making_companion_;
    std::unique_ptr<Companion>
        companion_ SLUICE_TSA(guarded_by(making_companion_)); // and its end before that
    AddressWatch watch_;                                      // its end is the first of all
};

} // namespace sluice::uroce::device
