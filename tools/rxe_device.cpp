// SPDX-License-Identifier: BSD-3-Clause
#include "tools/rxe_device.hpp"

#include <arpa/inet.h>
#include <dirent.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>

#include "tools/output.hpp"
#include "tools/progress.hpp"

namespace sluice::tools {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// rxe takes the largest RDMA MTU that fits: 4096 and its headers.
constexpr unsigned kMtu = 4500;
constexpr unsigned kMostDevices = 250;
// 198.18.0.0/15 is set aside for tests of network devices (RFC 2544), so nobody is reached by it.
constexpr std::uint32_t kFirstAddress = (198U << 24) | (18U << 16) | 1;
constexpr milliseconds kPatience{10000};
// No event tells of a new GID.
constexpr milliseconds kGidInterval{20};

std::string first_line(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

std::string ports_of(const std::string& device) {
    return "/sys/class/infiniband/" + device + "/ports/1";
}

// Wakes up when the kernel has made or changed a device or an interface.
class EventSocket {
  public:
    EventSocket(int protocol, unsigned groups)
        : fd_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol)) {
        sockaddr_nl address{};
        address.nl_family = AF_NETLINK;
        address.nl_groups = groups;
        if (fd_ >= 0 && bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
            close(fd_);
            fd_ = -1; // poll() ignores it, and the interval does
        }
    }
    ~EventSocket() {
        if (fd_ >= 0) {
            close(fd_);
        }
    }
    EventSocket(const EventSocket&) = delete;
    EventSocket& operator=(const EventSocket&) = delete;

    int fd() const noexcept { return fd_; }
    void drain() const noexcept {
        std::array<char, 8192> ignored{};
        while (fd_ >= 0 && recv(fd_, ignored.data(), ignored.size(), MSG_DONTWAIT) > 0) {
        }
    }

  private:
    int fd_;
};

// What comes by itself once the device was added.
constexpr std::array<const char*, 3> kParts = {"its port", "its node in /dev/infiniband", "its GID"};

constexpr unsigned kKernelEvents = 1;
constexpr unsigned kUdevEvents = 2;

// Whether programs can open the device: its node is there.
bool has_node(const std::string& device) {
    constexpr const char* kClass = "/sys/class/infiniband_verbs";
    DIR* const directory = opendir(kClass);
    if (directory == nullptr) {
        return false;
    }
    bool found = false;
    while (const dirent* const entry = readdir(directory)) {
        const std::string name = entry->d_name;
        if (name.starts_with("uverbs") && first_line(std::string(kClass) + "/" + name + "/ibdev") == device) {
            found = access(("/dev/infiniband/" + name).c_str(), R_OK | W_OK) == 0;
        }
    }
    closedir(directory);
    return found;
}

} // namespace

RxeDevice::RxeDevice() : route_(connect_netlink(NETLINK_ROUTE)), rdma_(connect_netlink(NETLINK_RDMA)) {
    try {
        add_interface();
        add_device();
        wait_until_ready();
    } catch (...) {
        undo();
        throw;
    }
}

RxeDevice::~RxeDevice() {
    undo();
}

std::vector<std::string> RxeDevice::environment() const {
    return {"LAB_DEVICE=" + device_name_, "LAB_NETDEV=" + interface_name_, "LAB_ADDR=" + address_,
            "LAB_GID_INDEX=" + std::to_string(gid_index_)};
}

// The kernel makes sure that a name is there once, and with the name goes the address.
void RxeDevice::add_interface() {
    for (unsigned number = 0; number < kMostDevices; ++number) {
        interface_name_ = "sluice" + std::to_string(number);
        if (!add_dummy(route_.get(), interface_name_, kMtu)) {
            continue;
        }
        interface_ = if_nametoindex(interface_name_.c_str());
        const std::uint32_t address = kFirstAddress + (number << 8);
        const in_addr bytes{htonl(address)};
        std::array<char, INET_ADDRSTRLEN> text{};
        address_ = inet_ntop(AF_INET, &bytes, text.data(), text.size());
        add_address(route_.get(), interface_, address);
        return;
    }
    throw Failure(kExitFailure,
                  "all names up to " + interface_name_ + " are taken; `ip link` lists what was left");
}

void RxeDevice::add_device() {
    device_name_ = "rxe_" + interface_name_;
    if (!add_rxe(rdma_.get(), device_name_, interface_name_)) {
        throw Failure(kExitFailure, "there is an RDMA device " + device_name_ +
                                        " without its interface; remove it: rdma link delete " +
                                        device_name_);
    }
    index_ = rdma_index(rdma_.get(), device_name_);
    has_device_ = true;
}

void RxeDevice::wait_until_ready() {
    const EventSocket devices(NETLINK_KOBJECT_UEVENT, kKernelEvents | kUdevEvents);
    const EventSocket links(NETLINK_ROUTE, RTMGRP_LINK | RTMGRP_IPV4_IFADDR);
    const auto limit = steady_clock::now() + kPatience;
    Progress progress(device_name_ + " is made", kParts.size());
    for (std::size_t part = first_missing(); part != kParts.size(); part = first_missing()) {
        progress.reach(part, kParts[part]);
        if (steady_clock::now() > limit) {
            throw Failure(kExitFailure,
                          device_name_ + " was not ready after " + std::to_string(kPatience.count() / 1000) +
                              " s: port " + first_line(ports_of(device_name_) + "/state") +
                              (has_node(device_name_) ? "" : ", no node under /dev/infiniband") +
                              (find_gid() ? "" : ", no GID for " + address_));
        }
        std::array<pollfd, 2> events{{{devices.fd(), POLLIN, 0}, {links.fd(), POLLIN, 0}}};
        poll(events.data(), events.size(), static_cast<int>(kGidInterval.count()));
        devices.drain();
        links.drain();
    }
}

std::size_t RxeDevice::first_missing() {
    if (!first_line(ports_of(device_name_) + "/state").starts_with("4:")) {
        return 0;
    }
    return !has_node(device_name_) ? 1 : !find_gid() ? 2 : kParts.size();
}

// The GID that RoCEv2 makes from the address.
bool RxeDevice::find_gid() {
    const in_addr address{inet_addr(address_.c_str())};
    const std::uint32_t bytes = ntohl(address.s_addr);
    std::array<char, 64> wanted{};
    std::snprintf(wanted.data(), wanted.size(), "0000:0000:0000:0000:0000:ffff:%04x:%04x", bytes >> 16,
                  bytes & 0xffffU);
    constexpr unsigned kMostGids = 16;
    for (gid_index_ = 0; gid_index_ < kMostGids; ++gid_index_) {
        const std::string number = std::to_string(gid_index_);
        if (first_line(ports_of(device_name_) + "/gids/" + number) == wanted.data() &&
            first_line(ports_of(device_name_) + "/gid_attrs/types/" + number) == "RoCE v2") {
            return true;
        }
    }
    return false;
}

void RxeDevice::undo() noexcept {
    if (has_device_) {
        delete_rdma(rdma_.get(), index_);
    }
    if (interface_ != 0) {
        delete_interface(route_.get(), interface_);
    }
    has_device_ = false;
    interface_ = 0;
}

} // namespace sluice::tools
