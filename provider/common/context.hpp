// SPDX-License-Identifier: BSD-3-Clause
//
// An opened device, as far as rxe and siw are alike: how it is opened, imported and closed, and
// the verbs that are nothing but a command to the kernel.
//
// Memory: libibverbs allocates its struct verbs_context and, in the same piece, room for our
// Context. verbs_context has a size that differs between versions, but always ends in the
// ibv_context that programs hold, so our part is found right behind that.
#pragma once

#include <atomic>
#include <cstddef>

#include "core/sync.hpp"
#include "provider/abi/probe.hpp"
#include "provider/abi/uverbs.hpp"
#include "provider/claim.hpp"
#include "provider/common/removal.hpp"

namespace sluice::provider {

// What libibverbs' layout was found to be. Set once, before the first device is opened.
const abi::Abi& current_abi() noexcept;
void set_current_abi(const abi::Abi& measured) noexcept;

// The kernel as contexts opened from now on see it. For tests; not thread-safe.
void set_kernel_calls(const abi::KernelCalls& kernel) noexcept;

// A context in libibverbs' memory, with OWN_BYTES of ours right behind its ibv_context. Owns CMD_FD,
// whether it fails or not. Null with errno set.
ibv_context* allocate_context(ibv_device* device, int cmd_fd, std::size_t own_bytes,
                              std::uint32_t driver_id) noexcept;
// The structure that CONTEXT is the end of.
verbs_context* whole_context(ibv_context* context) noexcept;
// Closes its descriptors and gives back the memory, in which nothing of ours may live any more.
void free_context_memory(ibv_context* context) noexcept;

struct QueuePair;

struct Context {
    Context(int cmd_fd, Driver kind, const abi::KernelCalls& kernel) noexcept
        : uverbs(cmd_fd, static_cast<std::uint32_t>(kind), kernel), driver(kind), removal(kernel) {}

    abi::Uverbs uverbs;
    const Driver driver;
    // The kernel has cut us off: nothing of the device answers any more.
    std::atomic<bool> gone{false};
    Removal removal;
    Mutex qps_mutex;
    QueuePair* qps SLUICE_TSA(guarded_by(qps_mutex)) = nullptr;
};

inline Context& context_of(const ibv_context* context) noexcept {
    return *reinterpret_cast<Context*>(reinterpret_cast<std::uintptr_t>(context) + sizeof(ibv_context));
}

// How a device is opened. DRIVER_ANSWER receives what the driver itself says on opening.
struct OpenRequest {
    Driver driver;
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

// The kernel has forgotten the object already when its device is gone: then destroying succeeds,
// so that the program's memory can be freed.
inline int destroy_result(int error) noexcept {
    return error == EIO || error == ENODEV ? 0 : error;
}

} // namespace sluice::provider
