// SPDX-License-Identifier: BSD-3-Clause
//
// Points that wait for connections, and the requests that come.
//
// Thread safety: everything may be called from any thread.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "ibverbs-glue/connection.hpp"
#include "udapl/provider/ep.hpp"

namespace sluice::dapl {

// The port for a qualifier: itself where it is one. Larger ones share ports, as dapl of OpenFabrics has it,
// so that both understand each other.
constexpr std::uint16_t port_of(std::uint64_t qualifier) noexcept {
    constexpr std::uint64_t kLargestPort = 0xffff;
    return static_cast<std::uint16_t>(qualifier <= kLargestPort ? qualifier : qualifier % 32001 + 33534);
}

// A request that waits for its answer.
class Cr final : public Object {
  public:
    static constexpr HandleKind kHandleKind = kCr;

    // RESERVED: the endpoint that the request is for; empty: the program chooses one.
    Cr(IaContext& ia, glue::ConnectionEvent& event, Ref<Ep> reserved)
        : Object(&ia), peer_(event.request->peer_address()), private_data_(std::move(event.private_data)),
          reserved_(std::move(reserved)), connection_(std::move(event.request)) {}

    const glue::Address& peer() const noexcept { return peer_; }
    std::span<const std::byte> private_data() const noexcept { return private_data_; }
    // That endpoint's handle; null: the program chooses.
    void* reserved() const noexcept { return reserved_.handle(); }

    // Once; afterwards it is empty, and to be freed. kBadState when another thread has answered.
    EpAnswer accept(Ep& ep, std::span<const std::byte> private_data);
    // The peer hears PRIVATE_DATA. kPrivateDataTooLong: nothing was done.
    EpAnswer reject(std::span<const std::byte> private_data = {});
    // The request as it came; nothing when it was answered.
    std::optional<glue::ConnectionEvent> hand_off();
    // The program can't be asked.
    void refuse() noexcept;

  private:
    const glue::Address peer_;
    const std::vector<std::byte> private_data_;
    const Ref<Ep> reserved_;
    Mutex mutex_;
    std::unique_ptr<glue::Connection> connection_ SLUICE_TSA(guarded_by(mutex_));
};

// Makes a request of each peer that asks for its qualifier.
class Psp final : public Object {
  public:
    static constexpr HandleKind kHandleKind = kPsp;

    // FRONT: what handles of requests begin with.
    Psp(IaContext& ia, Ref<Evd> evd, const void* front) noexcept
        : Object(&ia), evd_(std::move(evd)), front_(front) {}

    // Once it has its handle. QUALIFIER 0: any; becomes what it is. kExists when that is taken.
    Result<void> listen(std::uint64_t& qualifier);
    void abandon() noexcept override;

    Evd& evd() const noexcept { return *evd_; }
    std::uint64_t qualifier() const noexcept { return qualifier_.load(std::memory_order_relaxed); }
    void on_request(glue::ConnectionEvent& event);

  private:
    const Ref<Evd> evd_;
    const void* const front_;
    std::atomic<std::uint64_t> qualifier_{0};
    Mutex mutex_;
    std::unique_ptr<glue::Listener> listener_ SLUICE_TSA(guarded_by(mutex_));
};

// The same for one peer, whose endpoint is reserved.
class Rsp final : public Object {
  public:
    static constexpr HandleKind kHandleKind = kRsp;

    Rsp(IaContext& ia, Ref<Ep> ep, Ref<Evd> evd, const void* front) noexcept
        : Object(&ia), ep_(std::move(ep)), evd_(std::move(evd)), front_(front) {}

    ~Rsp() override;

    // The endpoint is this point's from here on: it is released with the point, unless a request has come.
    EpAnswer reserve() noexcept;
    // As Psp's.
    Result<void> listen(std::uint64_t& qualifier);
    void abandon() noexcept override;

    Ep& ep() const noexcept { return *ep_; }
    Evd& evd() const noexcept { return *evd_; }
    std::uint64_t qualifier() const noexcept { return qualifier_.load(std::memory_order_relaxed); }
    // True: it was the one, and the point is to be freed.
    bool on_request(glue::ConnectionEvent& event);

  private:
    void let_go_locked() noexcept SLUICE_TSA(requires_capability(mutex_));

    const Ref<Ep> ep_;
    const Ref<Evd> evd_;
    const void* const front_;
    std::atomic<std::uint64_t> qualifier_{0};
    Mutex mutex_;
    std::unique_ptr<glue::Listener> listener_ SLUICE_TSA(guarded_by(mutex_));
    bool has_reserved_ SLUICE_TSA(guarded_by(mutex_)) = false; // the endpoint, until a request has come
};

} // namespace sluice::dapl
