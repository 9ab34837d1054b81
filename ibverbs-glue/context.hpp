// SPDX-License-Identifier: BSD-3-Clause
//
// An RDMA device that is open, and what it tells by itself.
//
// Thread safety: as libibverbs'; everything may be called from any thread, but no thread may use a
// Context that another destroys.
#pragma once

#include <infiniband/verbs.h>

#include <optional>
#include <string>
#include <vector>

#include "ibverbs-glue/address.hpp"
#include "ibverbs-glue/owned.hpp"

namespace sluice::glue {

// Something that happened to a device or to an object made from it. Acknowledged when it goes: an
// object can't be destroyed before.
class AsyncEvent {
  public:
    explicit AsyncEvent(const ibv_async_event& event) noexcept : event_(event) {}
    AsyncEvent(AsyncEvent&& other) noexcept : event_(other.event_) { other.event_.reset(); }
    AsyncEvent& operator=(AsyncEvent&&) = delete;
    AsyncEvent(const AsyncEvent&) = delete;
    ~AsyncEvent() {
        if (event_) {
            ibv_ack_async_event(&*event_);
        }
    }

    ibv_event_type type() const noexcept { return event_->event_type; }
    const ibv_async_event& operator*() const noexcept { return *event_; }
    const ibv_async_event* operator->() const noexcept { return &*event_; }

  private:
    std::optional<ibv_async_event> event_;
};

// What the device's view of memory is, as libsluice found out or was told.
enum class Coherence { kUnknown, kCoherent, kNonCoherent, kSimulated };

// The standard demands both; the kernel's software devices fall short of it.
struct SolicitedNotice {
    bool receives = false; // those that the peer's request asks for
    bool failures = false;
};

// The address in a GID: an IPv4 one behind ::ffff:0:0/96, or a global IPv6 one.
std::optional<Address> address_in(const ibv_gid& gid);

class Context : public Owned<ibv_context, ibv_close_device> {
  public:
    // A device that libibverbs lists, uroceN, or uroce on an address 127.x.y.z. kNotFound when there is none
    // of that name.
    static Result<Context> open(const std::string& device);
    // uroce on an address that it was given, which may be any of this machine's.
    static Result<Context> open_uroce(const std::string& address);

    const char* device_name() const noexcept { return ibv_get_device_name(get()->device); }
    bool is_iwarp() const noexcept { return get()->device->transport_type == IBV_TRANSPORT_IWARP; }

    Result<ibv_device_attr_ex> query_device() const;
    Result<ibv_port_attr> query_port(std::uint8_t port) const;

    // What a completion queue that is armed for solicited completions notifies of. Takes milliseconds.
    SolicitedNotice solicited_notice() const noexcept;
    // Takes milliseconds. kInvalidArgument for an override that can't be understood; the log names it.
    Result<Coherence> query_coherence() const;
    // The IP addresses that the port's GIDs hold, as RoCE and uroce have them. Empty for others.
    Result<std::vector<Address>> gid_addresses(std::uint8_t port) const;

    // Readable when an event waits.
    int async_fd() const noexcept { return get()->async_fd; }
    // The next event, or nothing when none waits.
    Result<std::optional<AsyncEvent>> next_async_event() const;

  private:
    friend class LentContext;

    using Owned::Owned;

    static Result<Context> take(Result<ibv_context*> opened);
};

// A context that somebody else has opened, and closes when nobody uses it any more.
class LentContext {
  public:
    explicit LentContext(ibv_context* context) noexcept : context_(context) {}
    ~LentContext() { (void)context_.release(); }
    LentContext(const LentContext&) = delete;
    LentContext& operator=(const LentContext&) = delete;

    const Context& operator*() const noexcept { return context_; }
    const Context* operator->() const noexcept { return &context_; }

  private:
    Context context_;
};

// The names of the devices that libibverbs lists.
Result<std::vector<std::string>> device_names();

} // namespace sluice::glue
