// SPDX-License-Identifier: BSD-3-Clause
//
// Opening, importing and closing a device, as far as rxe and siw are alike.
#pragma once

#include "provider/abi/driver.hpp"
#include "provider/abi/probe.hpp"
#include "provider/abi/uverbs.hpp"
#include "provider/common/removal.hpp"

namespace sluice::provider {

// The kernel as contexts opened from now on see it. For tests; not thread-safe.
void set_kernel_calls(const abi::KernelCalls& kernel) noexcept;

// How a device is opened. DRIVER_ANSWER receives what the driver itself says on opening.
struct OpenRequest {
    abi::Driver driver;
    ibv_device* device;
    int cmd_fd;    // owned from here on
    bool imported; // the kernel's context exists already, made by another process or library
    const abi::OpsTable& ops;
    const DriverVerbs& verbs;
    abi::DriverData driver_answer;
};

// A new context, or null with errno set.
verbs_context* open_context(const OpenRequest& request) noexcept;

// Operations for every device of ours: the verbs that need no rings.
void set_common_ops(abi::OpsTable& ops) noexcept;

} // namespace sluice::provider
