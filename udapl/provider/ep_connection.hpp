// SPDX-License-Identifier: BSD-3-Clause
//
// The connection of an endpoint: DAT's states, and the transitions that the program, the peer, the device and
// time cause. It owns the glue's connection and what is known of the peer. The program's threads call the
// upper half, the loop's thread the lower one; its mutex guards everything here and, for all but posts, the
// queues of the endpoint. Posts read the state without a lock.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "udapl/provider/ep_queues.hpp"
#include "udapl/provider/loop.hpp"

namespace sluice::dapl {

class EpConnection final : private Timer {
  public:
    // EP is the endpoint; STATE and QUEUES are parts of it.
    EpConnection(const Object& ep, std::atomic<EpState>& state, EpQueues& queues) noexcept
        : ep_(ep), state_(state), queues_(queues) {}
    EpConnection(const EpConnection&) = delete;
    EpConnection& operator=(const EpConnection&) = delete;

    Mutex& mutex() noexcept SLUICE_TSA(lock_returned(mutex_)) { return mutex_; }
    EpState state() const noexcept { return state_.load(std::memory_order_acquire); }
    // Nothing where it isn't connected.
    std::optional<EpPeer> peer() noexcept;
    // Fills in the peer and the port, where these are known.
    void describe_locked(EpView& view) const noexcept SLUICE_TSA(requires_capability(mutex_));

    // TIMEOUT: microseconds, or kForever.
    EpAnswer connect(const EpPeer& peer, std::uint32_t timeout_us, std::span<const std::byte> private_data);
    // UNCONNECTED to RESERVED, and on to PASSIVE when a request has come.
    EpAnswer reserve() noexcept;
    bool promise(const glue::Connection& request) noexcept;
    // To TO, if it is at FROM.
    void release(EpState from = EpState::kPassive, EpState to = EpState::kUnconnected) noexcept;
    // In state FROM. Takes the request's connection over, on success only.
    EpAnswer accept(std::unique_ptr<glue::Connection>& request, EpState from,
                    std::span<const std::byte> private_data);
    // Graceful: when everything that was requested is done.
    EpAnswer disconnect(bool is_graceful);
    // A request was refused in a state that may end at any moment. Waits a little for that, and says whether
    // there is a connection now.
    bool await_handshake() const noexcept;
    // The endpoint is freed: no event of the connection reaches it any more.
    void abandon() noexcept;
    // on_time() isn't called any more. Without the mutex, behind abandon().
    void stop() noexcept;
    // For a reset, at DISCONNECTED: the glue's connection goes before its queue pair, and behind that the
    // state becomes UNCONNECTED.
    void drop_locked() noexcept SLUICE_TSA(requires_capability(mutex_)) { connection_.reset(); }
    void forget_locked() noexcept SLUICE_TSA(requires_capability(mutex_));

    // For the loop's thread.
    void on_event(glue::ConnectionEvent& event);
    void on_reports() noexcept;
    void on_device_error() noexcept;
    void on_communication() noexcept;

  private:
    void on_time() noexcept override;
    glue::ConnectionOptions options(std::span<const std::byte> private_data) const noexcept;
    EpAnswer begin_drain_locked() noexcept SLUICE_TSA(requires_capability(mutex_));
    void establish_locked(glue::ConnectionEvent& event) noexcept SLUICE_TSA(requires_capability(mutex_));
    void report_locked(EventKind kind) noexcept SLUICE_TSA(requires_capability(mutex_));
    void end_locked(EventKind kind) noexcept SLUICE_TSA(requires_capability(mutex_));
    void break_locked() noexcept SLUICE_TSA(requires_capability(mutex_));
    void fail_locked() noexcept SLUICE_TSA(requires_capability(mutex_));
    void hang_up_locked() noexcept SLUICE_TSA(requires_capability(mutex_));
    void forget_deadline_locked() noexcept SLUICE_TSA(requires_capability(mutex_));
    bool is_pending_locked() const noexcept SLUICE_TSA(requires_capability(mutex_));

    const Object& ep_;
    std::atomic<EpState>& state_; // written with the mutex
    EpQueues& queues_;
    Mutex mutex_;
    std::unique_ptr<glue::Connection> connection_ SLUICE_TSA(guarded_by(mutex_));
    EpPeer peer_ SLUICE_TSA(guarded_by(mutex_));
    std::uint16_t local_port_ SLUICE_TSA(guarded_by(mutex_)) = 0;
    std::vector<std::byte> peer_data_ SLUICE_TSA(guarded_by(mutex_)); // until reset: events point into it
    std::uint64_t deadline_ SLUICE_TSA(guarded_by(mutex_)) = kNever;  // of connecting
};

} // namespace sluice::dapl
