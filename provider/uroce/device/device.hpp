// SPDX-License-Identifier: BSD-3-Clause
//
// A device: one address of this process, shared by all contexts that opened it. It owns the engine,
// the engine's lock, and the ways on which packets leave and arrive.
//
// Delivery. Whoever posts carries: when a session ends, its thread takes every packet that the
// engine has to its destination, and brings the answers back, before the call returns. To another
// device of this process packets go straight into its engine if its lock is free; otherwise into
// its inbox, for the thread that has it now. A thread that holds one device never waits for
// another. What belongs to another process goes to the link.
//
// Lock order: a completion queue's, then a device's; within it the registry's and an inbox's.
#pragma once

#include <memory>

#include "provider/uroce/device/addresses.hpp"
#include "provider/uroce/device/device_faults.hpp"
#include "provider/uroce/device/device_lock.hpp"
#include "provider/uroce/device/inbox.hpp"
#include "provider/uroce/device/link.hpp"
#include "provider/uroce/device/progress_thread.hpp"
#include "provider/uroce/device/sysfs_directory.hpp"
#include "roce/engine/engine.hpp"
#include "roce/socket/pcap_recorder.hpp"

namespace sluice::uroce {

class Pump;

namespace cm {
class Gsi;
class Service;
} // namespace cm

class Device final : EventSink, Link::Receiver {
  public:
    static constexpr std::uint32_t kMaxQueuePairs = 4096;
    static constexpr std::uint32_t kMaxRegions = 8192; // and windows

    // Told of asynchronous events, with the owner that its queue pair was made with; runs with the
    // device's lock held.
    using Report = void (*)(void* owner, AsyncEvent event) noexcept;

    // What tests of programs ask for: faults on order, and a recording of all packets. Nothing usually.
    struct Extras {
        std::unique_ptr<DeviceFaults> faults{};
        port::PcapRecorder* recorder = nullptr;
    };

    // MEMORY outlives the device; LINK may be null, and records by itself.
    Device(LocalAddress where, std::uint64_t seed, Memory& memory, Report report, SysfsDirectory directory,
           std::unique_ptr<Link> link, Extras extras);
    ~Device();

    const LocalAddress& where() const noexcept { return where_; }
    const std::string& directory() const noexcept { return directory_.path(); }
    const Memory& memory() const noexcept { return memory_; }

    // Holds the device. At its end, everything that became possible happens.
    class SLUICE_TSA(scoped_lockable) Session {
      public:
        explicit Session(Device& device) noexcept SLUICE_TSA(acquire_capability(device.lock_))
            : device_(device) {
            device.lock_.lock();
        }
        ~Session() SLUICE_TSA(release_capability()) SLUICE_TSA(no_thread_safety_analysis) {
            device_.release();
        }
        Session(const Session&) = delete;
        Session& operator=(const Session&) = delete;
        Engine& engine() const noexcept { return device_.engine_; }

      private:
        Device& device_;
    };

    // Before a queue pair can send or receive.
    Result<void> start_progress();
    void make_progress() noexcept;
    // The same, unless somebody is at it; never waits. True: something arrived on the link.
    bool try_progress() noexcept { return take_from_link(false) || advance_if_due(); }
    // The same for a program that polls. Acknowledgements of what arrived wait for its next call, which
    // is likely the answer: then both leave together, and the program has the message sooner.
    bool poll_progress() noexcept;
    bool has_held_back() const noexcept { return held_back_.load(std::memory_order_seq_cst); }
    // Whether try_progress() may be worth its price: one look, for polls of an empty queue.
    bool may_progress() const noexcept {
        return link_ != nullptr || wake_at_.load(std::memory_order_relaxed) != kNever;
    }
    std::uint64_t polls() const noexcept { return polls_.load(std::memory_order_relaxed); }

    // Of a queue's life, as far as faults may keep completions back.
    void prepare_queue(CompletionQueue& queue, CompletionQueue::BeforePush ask) const noexcept;
    void before_completion(CompletionQueue& queue) noexcept; // with the lock held
    void end_queue(CompletionQueue& queue) noexcept;

    std::uint32_t new_domain() noexcept { return domains_.fetch_add(1, std::memory_order_relaxed); }

    struct DeliveryCounters {
        std::atomic<std::uint64_t> own{0};      // to ourselves
        std::atomic<std::uint64_t> direct{0};   // into another device's engine
        std::atomic<std::uint64_t> posted{0};   // into another device's inbox
        std::atomic<std::uint64_t> lost{0};     // its inbox was full
        std::atomic<std::uint64_t> damaged{0};  // on order, and so for nobody
        std::atomic<std::uint64_t> no_route{0}; // nobody here has the address, and there is no link
    };
    const DeliveryCounters& deliveries() const noexcept { return deliveries_; }

    // The connection manager, started when it is first asked for.
    Result<cm::Service*> connections();

    // This is the child of a fork: nothing of the device works any more, and nothing of it is used.
    void poison() noexcept;
    bool poisoned() const noexcept { return poisoned_.load(std::memory_order_relaxed); }

  private:
    friend class Pump;
    friend class ProgressThread;

    void event(AsyncEvent event, std::uint32_t qpn) noexcept override;
    void packet(const wire::Packet& packet, const Address& source, const Address& destination,
                const wire::Grh& grh) noexcept override;

    // Only by Session, Pump and progress: with the lock held.
    void release() noexcept;
    bool work(Pump& pump) noexcept;
    void dispatch(Pump& pump) noexcept;
    void deliver(Pump& pump, bool damaged) noexcept;
    bool deliver_here(Pump& pump) noexcept;
    bool is_here(Pump& pump) const noexcept;
    void end_queue_pair(std::uint32_t qpn) noexcept;
    void receive(const InPacket& in, const Moment& now) noexcept;
    bool hand_over(Pump& pump) noexcept;
    void take_in(OutPacket& out, const Moment& now) noexcept;
    bool payload_of(const OutPacket& out, wire::ConstBytes& payload) noexcept;
    bool is_due(const Pump& pump) const noexcept;
    bool read_inbox(const Moment& now) noexcept;
    bool take_from_link(bool polled) noexcept;
    bool advance_if_due() noexcept;
    bool read_link(const Moment& now) noexcept;
    void flush_link() noexcept;
    bool hold_back() noexcept;
    void end_failed_queues() noexcept;
    void arm_timer() noexcept;

    const LocalAddress where_;
    Memory& memory_;
    const Report report_;
    DeviceLock lock_;
    Engine engine_;
    Inbox inbox_;
    OutPacket out_;
    std::array<std::uint8_t, kMaxPayloadBytes> gathered_; // a payload in several pieces
    std::unique_ptr<Link> link_;
    const Extras extras_;
    bool batch_open_ = false;                  // link_ has packets to send
    bool link_full_ = false;                   // and has no room for them now
    bool only_acks_ = true;                    // are among them
    bool polled_ = false;                      // a program's poll has brought what is worked on
    std::atomic<bool> held_back_{false};       // they wait for the program's next call
    std::atomic<bool> link_taken_{false};      // a thread is between link_'s fetch() and deliver()
    std::atomic<bool> link_fetched_{false};    // who holds the device next is that thread
    std::atomic<std::uint64_t> polls_{0};      // of empty queues, by the program
    bool queues_failed_ = false;               // a completion queue has overflowed
    const Moment* link_time_ = nullptr;        // of the packets that the link hands over
    bool timer_fired_ = false;                 // so that deadlines are looked at with the exact clock
    std::atomic<Nanoseconds> wake_at_{kNever}; // what the progress thread's timer is set to
    std::atomic<std::uint32_t> domains_{1};
    std::atomic<bool> poisoned_{false};
    DeliveryCounters deliveries_;
    SysfsDirectory directory_;
    ProgressThread progress_; // its end comes before that of all it works with
    Mutex connecting_;
    std::unique_ptr<cm::Gsi> gsi_ SLUICE_TSA(guarded_by(connecting_)); // and its end first of all
};

} // namespace sluice::uroce
