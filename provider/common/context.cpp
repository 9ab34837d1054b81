// SPDX-License-Identifier: BSD-3-Clause
#include "provider/common/context.hpp"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "core/log.hpp"
#include "core/settings.hpp"
#include "provider/common/objects.hpp"
#include "provider/common/verbs.hpp"

namespace sluice::provider {

namespace {

abi::Abi measured_abi{};
const abi::KernelCalls* kernel_calls = &abi::kRealKernelCalls;

constexpr std::size_t kMaxContextBytes = 4096;
static_assert(sizeof(Context) <= kMaxContextBytes && alignof(Context) <= 8);

// The start of the piece of memory that CONTEXT lies in.
void* allocation_of(ibv_context* context) noexcept {
    return reinterpret_cast<std::byte*>(context) -
           (current_abi().layout.verbs_context_bytes - sizeof(ibv_context));
}

void release(ibv_context* context) noexcept {
    void* allocation = allocation_of(context);
    context_of(context).~Context();
    current_abi().symbols.uninit_context(static_cast<verbs_context*>(allocation));
    std::free(allocation); // NOLINT(cppcoreguidelines-no-malloc): allocated by libibverbs
}

// Makes the kernel's context, or asks about the one that there is.
int announce(ibv_context* context, const OpenRequest& request) noexcept {
    std::uint32_t vectors = 0;
    std::uint64_t core_support = 0;
    abi::IoctlCommand<3> command(UVERBS_OBJECT_DEVICE,
                                 request.imported ? UVERBS_METHOD_QUERY_CONTEXT : UVERBS_METHOD_GET_CONTEXT);
    static_assert(static_cast<int>(UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS) ==
                  static_cast<int>(UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS));
    static_assert(static_cast<int>(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT) ==
                  static_cast<int>(UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT));
    command.output(UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, &vectors, sizeof vectors);
    command.output(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, &core_support, sizeof core_support);
    command.make_last_optional();
    if (!request.driver_answer.out.empty() && !request.imported) {
        command.output(UVERBS_ATTR_UHW_OUT, request.driver_answer.out.data(),
                       request.driver_answer.out.size());
    }
    if (const int error = context_of(context).uverbs.call(command)) {
        return error;
    }
    context->num_comp_vectors = static_cast<int>(vectors);
    reinterpret_cast<abi::VerbsDevice*>(request.device)->core_support = core_support;
    return 0;
}

void free_context(ibv_context* context) noexcept {
    release(context);
}

// The program has read that its device is gone: from now on our queues know, too.
void note_async_event(ibv_context* context, ibv_async_event* event) noexcept {
    if (event->event_type == IBV_EVENT_DEVICE_FATAL) {
        context_of(context).gone.store(true, std::memory_order_relaxed);
    }
}

} // namespace

const abi::Abi& current_abi() noexcept {
    return measured_abi;
}

void set_current_abi(const abi::Abi& measured) noexcept {
    measured_abi = measured;
}

void set_kernel_calls(const abi::KernelCalls& kernel) noexcept {
    kernel_calls = &kernel;
}

verbs_context* open_context(const OpenRequest& request) noexcept {
    const std::size_t verbs_bytes = current_abi().layout.verbs_context_bytes;
    void* allocation = current_abi().symbols.init_and_alloc_context(
        request.device, request.cmd_fd, verbs_bytes + sizeof(Context), nullptr,
        static_cast<std::uint32_t>(request.driver));
    if (allocation == nullptr) {
        return nullptr;
    }
    auto* context = reinterpret_cast<ibv_context*>(static_cast<std::byte*>(allocation) + verbs_bytes -
                                                   sizeof(ibv_context));
    new (&context_of(context)) Context(request.cmd_fd, request.driver, *kernel_calls);
    if (const int error = announce(context, request)) {
        SLUICE_LOG(kError, "provider", "opening %s failed: %s", request.device->name, std::strerror(error));
        release(context);
        return fail_with<verbs_context>(error);
    }
    current_abi().symbols.set_ops(static_cast<verbs_context*>(allocation), request.ops.data());
    SLUICE_LOG(kDebug, "provider", "opened %s", request.device->name);
    return static_cast<verbs_context*>(allocation);
}

void set_common_ops(abi::OpsTable& ops) noexcept {
    using abi::Slot;
    ops.set(Slot::free_context, free_context);
    ops.set(Slot::async_event, note_async_event);
    ops.set(Slot::query_device_ex, query_device_ex);
    ops.set(Slot::query_port, query_port);
    ops.set(Slot::alloc_pd, alloc_pd);
    ops.set(Slot::dealloc_pd, dealloc_pd);
    ops.set(Slot::alloc_td, alloc_td);
    ops.set(Slot::dealloc_td, dealloc_td);
    ops.set(Slot::alloc_parent_domain, alloc_parent_domain);
    ops.set(Slot::import_pd, import_pd);
    ops.set(Slot::unimport_pd, unimport_pd);
    ops.set(Slot::reg_mr, reg_mr);
    ops.set(Slot::dereg_mr, dereg_mr);
    ops.set(Slot::rereg_mr, rereg_mr);
    ops.set(Slot::import_mr, import_mr);
    ops.set(Slot::unimport_mr, unimport_mr);
}

} // namespace sluice::provider
