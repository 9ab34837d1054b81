// SPDX-License-Identifier: BSD-3-Clause
//
// Endpoints: the queues that are posted to, and the connection. The endpoint owns both, does what concerns
// both (modify, reset, query), and gives them the events of the device and the reports of completions in the
// loop's thread.
//
// Thread safety: everything may be called from any thread. Control calls take the connection's mutex; posts
// take the lock of their direction only, and look at the state without one.
#pragma once

#include "udapl/provider/ep_connection.hpp"
#include "udapl/provider/ep_queues.hpp"

namespace sluice::dapl {

class Ep final : public Object, private Task, private AsyncEventTarget {
  public:
    static constexpr HandleKind kHandleKind = kEp;
    static constexpr bool kIsHot = true;

    // kInvalidArgument where a dispatcher has endpoints of another model.
    static Result<std::unique_ptr<Ep>> make(IaContext& ia, EpSetup setup);
    ~Ep() override;
    void abandon() noexcept override { connection_.abandon(); }

    // For posts.
    EpQueues& queues() noexcept { return queues_; }
    const EpQueues& queues() const noexcept { return queues_; }
    EpConnection& connection() noexcept { return connection_; }
    EpState state() const noexcept { return connection_.state(); }

    EpView view() noexcept;
    // Completions that are there count from now on, where something is posted.
    void collect() noexcept;
    ReceiveUse receive_use() noexcept;
    void set_watermarks(const Watermarks& watermarks) noexcept;
    // All of it, or nothing.
    EpAnswer modify(EpChange& change);
    EpAnswer reset();

  private:
    Ep(IaContext& ia, EpSetup setup)
        : Object(&ia), queues_(*this, *this, *this, state_, std::move(setup)),
          connection_(*this, state_, queues_) {}
    void run() noexcept override { connection_.on_reports(); }
    void on_async_event(ibv_event_type type) noexcept override;

    std::atomic<EpState> state_{EpState::kUnconnected};
    EpQueues queues_; // changed with the connection's mutex
    EpConnection connection_;
};

} // namespace sluice::dapl
