// SPDX-License-Identifier: BSD-3-Clause
#include "roce/group/further_address.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>

#include "roce/group/door.hpp"
#include "roce/group/steering.hpp"

namespace sluice::roce::group {

Error opened_alone(const engine::Address& address) {
    return Error::format(ErrorKind::kExists, EADDRINUSE,
                         "a process of yours has opened %s as a device of its own; end it, or open the "
                         "device of that address here, too",
                         socket::to_text(address).data());
}

namespace {

Result<void> bind_to_name(int socket_fd, const engine::Address& address) {
    Result<void> bound = bind_name(socket_fd, door_name(address));
    return !bound && bound.error().kind() == ErrorKind::kExists ? opened_alone(address) : std::move(bound);
}

} // namespace

bool is_bound(int socket_fd) noexcept {
    union {
        sockaddr any;
        sockaddr_in v4;
        sockaddr_in6 v6;
        sockaddr_un name;
    } address{};
    socklen_t bytes = sizeof address;
    if (socket_fd < 0 || getsockname(socket_fd, &address.any, &bytes) != 0) {
        return false;
    }
    switch (address.any.sa_family) {
    case AF_INET:
        return address.v4.sin_port != 0;
    case AF_INET6:
        return address.v6.sin6_port != 0;
    default:
        return bytes > offsetof(sockaddr_un, sun_path);
    }
}

std::size_t FurtherAddress::bound() const noexcept {
    std::size_t count = 0;
    while (count < kSockets && is_bound(sockets_[count].get())) {
        ++count;
    }
    return count;
}

Result<void> FurtherAddress::make(std::size_t from, std::size_t end) {
    for (std::size_t index = from; index < end; ++index) {
        Result<Descriptor> made =
            index == kDoor ? make_name_socket() : socket::make_socket(config_, socket::Sharing::kGroup);
        if (!made) {
            return std::move(made).error();
        }
        take(index, *std::move(made));
    }
    return {};
}

Result<void> FurtherAddress::bind(std::size_t from, std::size_t end, const engine::Share::Words& words) {
    const Result<socket::NetworkDevice> device = socket::usable_device(config_);
    if (!device) {
        return device.error().clone();
    }
    for (std::size_t index = from; index < end; ++index) {
        // Whoever bound the one before may have died then. The common socket needs its program before there
        // is a choice.
        Result<void> done = index == kCommon      ? listen_at(sockets_[kDoor].get())
                            : index == kFirstSeat ? steer(sockets_[kCommon].get(), words)
                                                  : Result<void>();
        if (done) {
            done = index == kDoor ? bind_to_name(sockets_[index].get(), address())
                                  : socket::bind_socket(sockets_[index].get(), address(), *device);
        }
        if (!done) {
            return done;
        }
    }
    return {};
}

void FurtherAddress::take(std::size_t index, Descriptor socket_fd) {
    if (index == kCommon) {
        receiver_ = std::make_unique<socket::Receiver>(socket_fd.get(), config_.local, config_.recorder);
    }
    sockets_[index] = std::move(socket_fd);
}

void FurtherAddress::abandon() noexcept {
    for (Descriptor& one : sockets_) {
        one.reset();
    }
}

} // namespace sluice::roce::group
