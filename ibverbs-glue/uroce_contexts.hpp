// SPDX-License-Identifier: BSD-3-Clause
//
// Which device of uroce's an address means, and the contexts that a process has of them. This needs libsluice
// alone, so that what stands before librdmacm can have it, too.
#pragma once

#include <infiniband/verbs.h>
#include <sluice/sluice.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/sync.hpp"
#include "ibverbs-glue/address.hpp"

namespace sluice::glue {

struct ListedAddress {
    Address address;
    bool is_given;                // by somebody, and not by default
    std::vector<Address> further; // of the same device
    bool is_loopback;             // all of 127.0.0.0/8 is the device's, as far as it is nobody else's
};

// The first is the one that DEVICE is opened at. Without loopback addresses that this process has taken for
// it: a child of fork() hasn't got them, and other processes have others.
std::vector<Address> addresses_of(const sluice_uroce_device& device);

// Those of the devices that `sluice devices` lists, without those by default that programs aren't shown.
std::vector<ListedAddress> listed_uroce_addresses();

// Changes when the former may have: what the variable says, and which addresses there are. Costs little.
std::string origin_of_uroce_list();

// The addresses that somebody gave to uroce's devices.
std::vector<Address> given_uroce_addresses();

// The loopback addresses that nobody gave.
std::vector<Address> default_uroce_addresses();

// Those of listed devices.
bool is_listed_uroce_address(const Address& address);

// Loopback addresses, and those of listed devices.
bool is_uroce_address(const Address& address);

// By which device an address is had.
struct Home {
    // The first of the listed one that has it, or else itself.
    Address address;
    // That of the one that takes it when it is used, as it has all of 127.0.0.0/8.
    std::optional<Address> taking;
};
Home home_of(const Address& address);

// Where packets to PEER would leave from; nothing if there is no way.
std::optional<Address> source_towards(const Address& peer);

// ADDRESS is an entry of the GID table of CONTEXT's device from now on.
Result<void> use_address(ibv_context* context, const Address& address);

// Whether a device could live on ADDRESS, of which this process has none yet.
bool can_be_opened(const Address& address);

// Loopback addresses beside PEER, nearest first.
std::vector<Address> loopback_neighbours(const Address& peer);

// uroce's contexts of this process, by address. Never closed, as librdmacm closes none: a caller that was
// given one doesn't say when it is done. A child of fork() can't use its parent's, and opens its own.
//
// CONTEXT has a static open(address as text), a Result of one, and get(). Thread safety: everything may be
// called from any thread.
template<typename Context>
class UroceContexts {
  public:
    struct Found {
        ibv_context* context;
        Address address;
    };

    Result<Found> at(const Address& address) {
        const Home home = home_of(address);
        const LockGuard guard(mutex_);
        forget_after_fork_locked();
        if (home.taking && !contexts_.contains(home.address.to_string())) {
            Result<Found> found = take_locked(*home.taking, address);
            if (found || !must_be_alone(found.error())) {
                return found;
            }
        }
        return open_locked(home.address, address);
    }

    std::vector<Found> all_open() {
        const LockGuard guard(mutex_);
        forget_after_fork_locked();
        std::vector<Found> all;
        for (const auto& [text, entry] : contexts_) {
            all.push_back(found_in(entry));
        }
        return all;
    }

    // One that PEER can be reached from; nothing if that is no matter of uroce's.
    Result<std::optional<Found>> towards(const Address& peer) {
        if (peer.is_loopback()) {
            return as_optional(near_loopback(peer));
        }
        const std::optional<Address> source = source_towards(peer);
        if (!source || !is_uroce_address(*source)) {
            return std::optional<Found>();
        }
        Result<Found> found = at(*source);
        if (found || !source->is_same_host(peer) || !is_elsewhere(found.error())) {
            return as_optional(std::move(found));
        }
        Result<Found> other = first_of(given_uroce_addresses());
        return as_optional(other ? std::move(other) : std::move(found));
    }

  private:
    struct Entry {
        Context context;
        Address address;
    };

    // ADDRESS, of the device at HOME.
    Result<Found> open_locked(const Address& home, const Address& address)
        SLUICE_TSA(requires_capability(mutex_)) {
        const std::string text = home.to_string();
        auto known = contexts_.find(text);
        if (known == contexts_.end()) {
            Result<Context> context = Context::open(text);
            if (!context) {
                return std::move(context).error();
            }
            known = contexts_.emplace(text, Entry{*std::move(context), home.with_port(0)}).first;
        }
        return Found{known->second.context.get(), address.with_port(0)};
    }

    // The same for an address that becomes the device's now.
    Result<Found> take_locked(const Address& home, const Address& address)
        SLUICE_TSA(requires_capability(mutex_)) {
        if (!contexts_.contains(home.to_string()) && !can_be_opened(home)) {
            return Error(ErrorKind::kExists, "another user has the loopback device", EADDRINUSE);
        }
        Result<Found> device = open_locked(home, address);
        if (!device) {
            return device;
        }
        Result<void> taken = use_address(device->context, address);
        return taken ? std::move(device) : Result<Found>(std::move(taken).error());
    }

    // A loopback address is a device of its own where its own device can't be had or has no room, or another
    // process has opened it so.
    static bool must_be_alone(const Error& error) noexcept {
        return is_elsewhere(error) || error.kind() == ErrorKind::kInsufficientResources;
    }

    static Found found_in(const Entry& entry) { return {entry.context.get(), entry.address}; }
    // Another process has it, or no interface.
    static bool is_elsewhere(const Error& error) noexcept {
        return error.os_errno() == EADDRINUSE || error.os_errno() == ENOENT;
    }

    static Result<std::optional<Found>> as_optional(Result<Found> found) {
        if (!found) {
            return std::move(found).error();
        }
        return std::optional<Found>(*std::move(found));
    }

    Result<Found> near_loopback(const Address& peer) {
        if (const std::optional<Found> open = open_loopback()) {
            return *open;
        }
        if (Result<Found> given = first_of(given_uroce_addresses())) {
            return given;
        }
        // uroce0, unless another user has it.
        if (Result<Found> by_default = first_of(default_uroce_addresses())) {
            return by_default;
        }
        return first_of(loopback_neighbours(peer));
    }

    std::optional<Found> open_loopback() {
        for (const Found& open : all_open()) {
            if (open.address.is_loopback()) {
                return open;
            }
        }
        return std::nullopt;
    }

    bool knows(const Address& address) {
        const LockGuard guard(mutex_);
        forget_after_fork_locked();
        return contexts_.contains(address.to_string());
    }

    // The first that can be had here. Those that can't are no error, and so nobody shall read of them.
    Result<Found> first_of(const std::vector<Address>& addresses) {
        for (const Address& address : addresses) {
            if (!knows(address) && !can_be_opened(address)) {
                continue;
            }
            Result<Found> found = at(address);
            if (found || !is_elsewhere(found.error())) {
                return found;
            }
        }
        return Error(ErrorKind::kExists, "all addresses of uroce's near the peer's are taken", EADDRINUSE);
    }

    void forget_after_fork_locked() SLUICE_TSA(requires_capability(mutex_)) {
        if (owner_ != getpid()) {
            contexts_.clear();
            owner_ = getpid();
        }
    }

    Mutex mutex_;
    std::map<std::string, Entry> contexts_ SLUICE_TSA(guarded_by(mutex_));
    pid_t owner_ SLUICE_TSA(guarded_by(mutex_)) = getpid();
};

} // namespace sluice::glue
