// SPDX-License-Identifier: BSD-3-Clause
#include "provider/common/open.hpp"

#include <unistd.h>

#include <cstring>
#include <new>

#include "core/log.hpp"
#include "provider/common/context.hpp"
#include "provider/common/context_memory.hpp"
#include "provider/common/verbs.hpp"

namespace sluice::provider {

namespace {

const abi::KernelCalls* kernel_calls = &abi::kRealKernelCalls;

constexpr std::size_t kMaxContextBytes = 4096;
static_assert(sizeof(Context) <= kMaxContextBytes && alignof(Context) <= 8);

void release(ibv_context* context) noexcept {
    context_of(context).~Context();
    free_context_memory(context);
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
        if (!request.imported || error != EOPNOTSUPP) {
            return error;
        }
        // rxe and siw don't answer about a context that there is. One vector any device has.
        context->num_comp_vectors = 1;
        return 0;
    }
    context->num_comp_vectors = static_cast<int>(vectors);
    reinterpret_cast<abi::VerbsDevice*>(request.device)->core_support = core_support;
    return 0;
}

void free_context(ibv_context* context) noexcept {
    context_of(context).removal.clean_up();
    release(context);
}

// The program has read that it is cut off: from now on our queues know, too.
void note_async_event(ibv_context* context, ibv_async_event* event) noexcept {
    if (event->event_type == IBV_EVENT_DEVICE_FATAL) {
        context_of(context).gone.store(true, std::memory_order_relaxed);
    } else {
        context_of(context).removal.translate(*event);
    }
}

} // namespace

void set_kernel_calls(const abi::KernelCalls& kernel) noexcept {
    kernel_calls = &kernel;
}

verbs_context* open_context(const OpenRequest& request) noexcept {
    ibv_context* context = allocate_context(request.device, request.cmd_fd, sizeof(Context),
                                            static_cast<std::uint32_t>(request.driver));
    if (context == nullptr) {
        return nullptr;
    }
    new (&context_of(context)) Context(request.cmd_fd, request.driver, *kernel_calls);
    if (const int error = announce(context, request)) {
        SLUICE_LOG(kError, "provider", "opening %s failed: %s", request.device->name, std::strerror(error));
        release(context);
        return fail_with<verbs_context>(error);
    }
    current_abi().symbols.set_ops(whole_context(context), request.ops.data());
    context_of(context).removal.watch(*request.device, request.verbs, request.imported);
    SLUICE_LOG(kDebug, "provider", "opened %s", request.device->name);
    return whole_context(context);
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
