// SPDX-License-Identifier: BSD-3-Clause
//
// A libibverbs as a provider sees it, in any layout: built once for each, with
//   FAKE_VERSION  the NN of verbs_register_driver_NN
//   FAKE_SLOTS    operations in its table
//   FAKE_CONTEXT  sizeof(struct verbs_context), as on x86-64
//   FAKE_QP_MASK  offset of comp_mask in struct verbs_qp, as on x86-64
//   FAKE_SHUFFLED two operations have changed places
//   FAKE_LACKS_SET_OPS  a function that providers need is not there
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "provider/abi/layout.hpp"
#include "provider/abi/slots.hpp"

using namespace sluice::abi;

namespace {

// Both hold a mutex.
constexpr std::size_t kContextBytes = FAKE_CONTEXT + kMutexExtra;
constexpr std::size_t kQpMaskAt = FAKE_QP_MASK + kMutexExtra;
constexpr std::size_t kIbvContextAt = kContextBytes - sizeof(ibv_context);

// The nearest known table, for a number of operations that is none.
constexpr std::size_t kTable = std::min<std::size_t>(FAKE_SLOTS, 83);

struct Priv {
    std::byte head[kPrivOpsOffset];
    const void* ops[FAKE_SLOTS];
    bool imported;
};

ibv_context* context_in(void* memory) {
    return reinterpret_cast<ibv_context*>(static_cast<std::byte*>(memory) + kIbvContextAt);
}

// The public structure, whose end is where it is whatever the size of its front.
verbs_context* public_view(void* memory) {
    return reinterpret_cast<verbs_context*>(reinterpret_cast<std::byte*>(context_in(memory)) -
                                            offsetof(verbs_context, context));
}

[[maybe_unused]] std::size_t place(Slot slot) {
    const std::size_t index = *slot_index(slot, kTable);
#ifdef FAKE_SHUFFLED
    constexpr std::size_t kSend = *slot_index(Slot::post_send, kTable);
    constexpr std::size_t kRecv = *slot_index(Slot::post_recv, kTable);
    return index == kSend ? kRecv : index == kRecv ? kSend : index;
#else
    return index;
#endif
}

template<typename Function>
[[maybe_unused]] void publish(Function*& field, const void* const* ops, Slot slot) {
    if (ops[place(slot)] != nullptr) {
        std::memcpy(&field, &ops[place(slot)], sizeof field);
    }
}

int& refcount_of(ibv_device* device) {
    return reinterpret_cast<VerbsDevice*>(device)->refcount;
}

} // namespace

extern "C" {

#define EXPORTED __attribute__((visibility("default")))
#define REGISTER_NAME(version) verbs_register_driver_##version
#define REGISTER(version) REGISTER_NAME(version)

EXPORTED int fake_live_contexts = 0;
EXPORTED const VerbsDeviceOps* fake_registered = nullptr;

EXPORTED void REGISTER(FAKE_VERSION)(const VerbsDeviceOps* ops) {
    fake_registered = ops;
}

// NOLINTNEXTLINE(readability-identifier-naming): libibverbs' name
EXPORTED void* _verbs_init_and_alloc_context(ibv_device* device, int cmd_fd, std::size_t size,
                                             verbs_context* offset, std::uint32_t /*driver_id*/) {
    auto* memory = static_cast<std::byte*>(std::calloc(1, size));
    auto* base = memory + reinterpret_cast<std::uintptr_t>(offset);
    ++refcount_of(device);
    ++fake_live_contexts;
    ibv_context* context = context_in(base);
    context->device = device;
    context->cmd_fd = cmd_fd;
    context->async_fd = -1;
    context->abi_compat = reinterpret_cast<void*>(~std::uintptr_t{0});
    verbs_context* view = public_view(base);
    view->sz = kContextBytes;
    void* priv = std::calloc(1, sizeof(Priv));
    view->priv = static_cast<verbs_ex_private*>(priv);
    return memory;
}

#ifndef FAKE_LACKS_SET_OPS
EXPORTED void verbs_set_ops(verbs_context* base, const void* table) {
    const auto* ops = static_cast<const void* const*>(table);
    verbs_context* view = public_view(base);
    auto* priv = reinterpret_cast<Priv*>(view->priv);
    for (std::size_t i = 0; i < FAKE_SLOTS; ++i) {
        if (ops[i] != nullptr) {
            priv->ops[i] = ops[i];
        }
    }
    ibv_context_ops& fast = view->context.ops;
    publish(fast.alloc_mw, ops, Slot::alloc_mw);
    publish(fast.bind_mw, ops, Slot::bind_mw);
    publish(fast.dealloc_mw, ops, Slot::dealloc_mw);
    publish(fast.poll_cq, ops, Slot::poll_cq);
    publish(fast.req_notify_cq, ops, Slot::req_notify_cq);
    publish(fast.post_srq_recv, ops, Slot::post_srq_recv);
    publish(fast.post_send, ops, Slot::post_send);
    publish(fast.post_recv, ops, Slot::post_recv);
    publish(view->advise_mr, ops, Slot::advise_mr);
    publish(view->alloc_parent_domain, ops, Slot::alloc_parent_domain);
    publish(view->create_qp_ex, ops, Slot::create_qp_ex);
    publish(view->create_srq_ex, ops, Slot::create_srq_ex);
    publish(view->free_dm, ops, Slot::free_dm);
    publish(view->get_srq_num, ops, Slot::get_srq_num);
    publish(view->modify_cq, ops, Slot::modify_cq);
    publish(view->open_xrcd, ops, Slot::open_xrcd);
    publish(view->query_device_ex, ops, Slot::query_device_ex);
    publish(view->query_rt_values, ops, Slot::query_rt_values);
    publish(view->reg_dm_mr, ops, Slot::reg_dm_mr);
    publish(view->alloc_td, ops, Slot::alloc_td);
    publish(view->dealloc_td, ops, Slot::dealloc_td);
    publish(view->create_cq_ex, ops, Slot::create_cq_ex);
}
#endif

EXPORTED void verbs_uninit_context(verbs_context* base) {
    verbs_context* view = public_view(base);
    --refcount_of(view->context.device);
    --fake_live_contexts;
    std::free(view->priv);
}

EXPORTED ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
    std::uint32_t mask = 0;
    std::memcpy(&mask, reinterpret_cast<const std::byte*>(qp) + kQpMaskAt, sizeof mask);
    return (mask & kQpMaskExtended) != 0 ? reinterpret_cast<ibv_qp_ex*>(qp) : nullptr;
}

// An operation out of the private table, as the library's own entry points would call it.
EXPORTED const void* fake_operation(ibv_context* context, std::size_t index) {
    auto* base = reinterpret_cast<std::byte*>(context) - kIbvContextAt;
    return reinterpret_cast<Priv*>(public_view(base)->priv)->ops[index];
}

} // extern "C"
