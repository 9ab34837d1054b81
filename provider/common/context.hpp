// SPDX-License-Identifier: BSD-3-Clause
//
// Our part of an open rxe or siw device, in the memory that context_memory.hpp describes.
#pragma once

#include <atomic>
#include <cstddef>

#include "core/sync.hpp"
#include "provider/abi/driver.hpp"
#include "provider/abi/uverbs.hpp"
#include "provider/common/removal.hpp"

namespace sluice::provider {

struct QueuePair;

struct Context {
    Context(int cmd_fd, abi::Driver kind, const abi::KernelCalls& kernel) noexcept
        : uverbs(cmd_fd, static_cast<std::uint32_t>(kind), kernel), driver(kind), removal(kernel) {}

    abi::Uverbs uverbs;
    const abi::Driver driver;
    // The kernel has cut us off: nothing of the device answers any more.
    std::atomic<bool> gone{false};
    Removal removal;
    Mutex qps_mutex;
    QueuePair* qps SLUICE_TSA(guarded_by(qps_mutex)) = nullptr;
};

inline Context& context_of(const ibv_context* context) noexcept {
    return *reinterpret_cast<Context*>(reinterpret_cast<std::uintptr_t>(context) + sizeof(ibv_context));
}

// The kernel has forgotten the object already when its device is gone: then destroying succeeds,
// so that the program's memory can be freed.
inline int destroy_result(int error) noexcept {
    return error == EIO || error == ENODEV ? 0 : error;
}

} // namespace sluice::provider
