// SPDX-License-Identifier: BSD-3-Clause
//
// A Soft-RoCE device of our own, on a network interface of its own, for as long as the object
// lives. Nothing else of the machine's network is touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/netlink.hpp"

namespace sluice::tools {

class RxeDevice {
  public:
    // Ready when it returns: active, with its node and the GID of its address. Throws a Failure.
    RxeDevice();
    ~RxeDevice();
    RxeDevice(const RxeDevice&) = delete;
    RxeDevice& operator=(const RxeDevice&) = delete;

    // What a program needs to know, as "NAME=VALUE"; the names are those of the lab.
    std::vector<std::string> environment() const;

  private:
    void add_interface();
    void add_device();
    void wait_until_ready();
    std::size_t first_missing(); // of the parts that are waited for; their number if none is
    bool find_gid();
    void undo() noexcept;

    NetlinkSocket route_;
    NetlinkSocket rdma_;
    std::string interface_name_;
    std::string device_name_;
    std::string address_;
    unsigned interface_ = 0; // 0: not there
    std::uint32_t index_ = 0;
    bool has_device_ = false;
    unsigned gid_index_ = 0;
};

} // namespace sluice::tools
