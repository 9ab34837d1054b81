// SPDX-License-Identifier: BSD-3-Clause
//
// A libibverbs as a provider sees it, in the layout that fake_layout.c gives it. This code is compiled once
// and linked to each layout.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "provider/abi/layout.hpp"
#include "provider/abi/slots.hpp"
#include "tests/unit/provider/fake_layout.h"

using namespace sluice::abi;

namespace {

// Both hold a mutex.
std::size_t context_bytes() {
    return fake_layout.context_bytes + kMutexExtra;
}

std::size_t qp_mask_at() {
    return fake_layout.qp_mask_at + kMutexExtra;
}

std::size_t ibv_context_at() {
    return context_bytes() - sizeof(ibv_context);
}

// The table of operations, and the flag `imported` behind it.
std::size_t priv_bytes() {
    return kPrivOpsOffset + (fake_layout.slots + 1) * sizeof(void*);
}

const void** ops_of(verbs_ex_private* priv) {
    return reinterpret_cast<const void**>(reinterpret_cast<std::byte*>(priv) + kPrivOpsOffset);
}

ibv_context* context_in(void* memory) {
    return reinterpret_cast<ibv_context*>(static_cast<std::byte*>(memory) + ibv_context_at());
}

// The public structure, whose end is where it is whatever the size of its front.
verbs_context* public_view(void* memory) {
    return reinterpret_cast<verbs_context*>(reinterpret_cast<std::byte*>(context_in(memory)) -
                                            offsetof(verbs_context, context));
}

std::size_t place(Slot slot) {
    // The nearest known table, for a number of operations that is none.
    const std::size_t table = *std::find_if(kKnownSlotCounts.rbegin(), kKnownSlotCounts.rend(),
                                            [](std::size_t count) { return count <= fake_layout.slots; });
    const std::size_t known_index = *slot_index(slot, table);
    const std::size_t index = known_index + (known_index >= fake_layout.inserted_at ? 1 : 0);
    if (!fake_layout.shuffled) {
        return index;
    }
    const std::size_t send = *slot_index(Slot::post_send, table);
    const std::size_t recv = *slot_index(Slot::post_recv, table);
    return index == send ? recv : index == recv ? send : index;
}

template<typename Function>
void publish(Function*& field, const void* const* ops, Slot slot) {
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

EXPORTED int fake_live_contexts = 0;
EXPORTED const VerbsDeviceOps* fake_registered = nullptr;

void fake_register(const void* ops) {
    fake_registered = static_cast<const VerbsDeviceOps*>(ops);
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
    view->sz = context_bytes();
    void* priv = std::calloc(1, priv_bytes());
    view->priv = static_cast<verbs_ex_private*>(priv);
    return memory;
}

void fake_set_ops(void* base, const void* table) {
    const auto* ops = static_cast<const void* const*>(table);
    verbs_context* view = public_view(base);
    const void** own = ops_of(view->priv);
    for (std::size_t i = 0; i < fake_layout.slots; ++i) {
        if (ops[i] != nullptr) {
            own[i] = ops[i];
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

EXPORTED void verbs_uninit_context(verbs_context* base) {
    verbs_context* view = public_view(base);
    --refcount_of(view->context.device);
    --fake_live_contexts;
    std::free(view->priv);
}

EXPORTED ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
    std::uint32_t mask = 0;
    std::memcpy(&mask, reinterpret_cast<const std::byte*>(qp) + qp_mask_at(), sizeof mask);
    return (mask & kQpMaskExtended) != 0 ? reinterpret_cast<ibv_qp_ex*>(qp) : nullptr;
}

EXPORTED void ibv_unimport_pd(ibv_pd* pd) {
    auto* base = reinterpret_cast<std::byte*>(pd->context) - ibv_context_at();
    void (*unimport)(ibv_pd*) = nullptr;
    std::memcpy(&unimport, &ops_of(public_view(base)->priv)[place(Slot::unimport_pd)], sizeof unimport);
    unimport(pd);
}

// An operation out of the private table, as the library's own entry points would call it.
EXPORTED const void* fake_operation(ibv_context* context, std::size_t index) {
    auto* base = reinterpret_cast<std::byte*>(context) - ibv_context_at();
    return ops_of(public_view(base)->priv)[index];
}

} // extern "C"
