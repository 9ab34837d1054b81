// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/device/address_watch.hpp"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "core/event_descriptor.hpp"
#include "core/thread.hpp"

namespace sluice::uroce::device {

namespace {

constexpr std::size_t kWatchStackBytes = std::size_t{256} * 1024; // nothing here calls a program

// Which change it was isn't read: a list of all addresses is right even if messages were lost.
void drop_messages(int netlink) noexcept {
    std::array<char, 8192> bytes;
    while (recv(netlink, bytes.data(), bytes.size(), MSG_DONTWAIT) >= 0 || errno == ENOBUFS ||
           errno == EINTR) {
    }
}

} // namespace

Result<void> AddressWatch::start() {
    netlink_ = Descriptor(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    sockaddr_nl groups{};
    groups.nl_family = AF_NETLINK;
    groups.nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
    if (netlink_.get() < 0 ||
        bind(netlink_.get(), reinterpret_cast<const sockaddr*>(&groups), sizeof groups) != 0) {
        return Error::from_errno(errno, "no netlink socket for changes of addresses");
    }
    stop_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (stop_.get() < 0) {
        return Error::from_errno(errno, "no descriptor for changes of addresses; raise `ulimit -n`");
    }
    const int error = start_quiet_thread(thread_, "uroce-watch", kWatchStackBytes, run, this);
    if (error != 0) {
        return Error::from_errno(error, "no thread for changes of addresses; raise `ulimit -u`");
    }
    running_ = true;
    return {};
}

void AddressWatch::stop() noexcept {
    if (running_) {
        ring_eventfd(stop_.get());
        pthread_join(thread_, nullptr);
        running_ = false;
    }
}

void AddressWatch::abandon() noexcept {
    running_ = false;
    netlink_.reset();
    stop_.reset();
}

void* AddressWatch::run(void* self) noexcept {
    static_cast<AddressWatch*>(self)->loop();
    return nullptr;
}

void AddressWatch::loop() noexcept {
    for (;;) {
        client_.addresses_changed();
        std::array<pollfd, 2> wanted = {{{.fd = netlink_.get(), .events = POLLIN, .revents = 0},
                                         {.fd = stop_.get(), .events = POLLIN, .revents = 0}}};
        while (poll(wanted.data(), wanted.size(), -1) < 0 && errno == EINTR) {
        }
        if (wanted[1].revents != 0) {
            return;
        }
        drop_messages(netlink_.get());
    }
}

} // namespace sluice::uroce::device
