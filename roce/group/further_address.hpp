// SPDX-License-Identifier: BSD-3-Clause
//
// The sockets of a further address: one that a group has beside its own.
//
// They are as those of the group's own address: a common one, and one for each seat, in an order that the
// kernel's program relies on. In front of them is the door by which processes look for a group there:
// while this one has its name, no other can be founded, and a process whose peer is there finds that.
//
// All members hold all of them. A member that adds some makes them, sends them to all, and binds them
// afterwards, in their order: what isn't bound belongs to a process that died on the way, and is made anew.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "core/descriptor.hpp"
#include "core/result.hpp"
#include "roce/engine/share.hpp"
#include "roce/group/table.hpp"
#include "roce/socket/udp_port.hpp"

namespace sluice::roce::group {

class FurtherAddress {
  public:
    static constexpr std::size_t kDoor = 0;
    static constexpr std::size_t kCommon = 1;
    static constexpr std::size_t kFirstSeat = 2;
    static constexpr std::size_t kSockets = kFirstSeat + kSeats;

    // CONFIG is the group's, but for the address. NUMBER is its place among the further ones, and GENERATION
    // above that of those which had the place before.
    FurtherAddress(std::uint32_t number, std::uint64_t generation, const engine::Address& address,
                   const socket::PortConfig& config) noexcept
        : number_(number), generation_(generation), config_(config) {
        config_.local = address;
    }

    std::uint32_t number() const noexcept { return number_; }
    std::uint64_t generation() const noexcept { return generation_; }
    const engine::Address& address() const noexcept { return config_.local; }
    int descriptor(std::size_t index) const noexcept { return sockets_[index].get(); }
    // Of the common socket; null before there is one.
    socket::Receiver* receiver() const noexcept { return receiver_.get(); }

    // How many are bound, from the first on.
    std::size_t bound() const noexcept;
    // Those from FROM on up to END, not bound. kPermission and others: as the system says.
    Result<void> make(std::size_t from, std::size_t end);
    // The same, after all members have them.
    Result<void> bind(std::size_t from, std::size_t end, const engine::Share::Words& words);
    // Another member made SOCKET_FD. May throw bad_alloc.
    void take(std::size_t index, Descriptor socket_fd);
    void abandon() noexcept;

  private:
    const std::uint32_t number_;
    const std::uint64_t generation_;
    socket::PortConfig config_;
    std::array<Descriptor, kSockets> sockets_;
    std::unique_ptr<socket::Receiver> receiver_;
};

// What stands in the way of sharing ADDRESS as a further one: a device of its own.
Error opened_alone(const engine::Address& address);
// Whether a socket has a name or a port.
bool is_bound(int socket_fd) noexcept;

} // namespace sluice::roce::group
