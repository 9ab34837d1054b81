// SPDX-License-Identifier: BSD-3-Clause
//
// Protection domains, thread domains, and memory under protection.
#include <cstring>
#include <memory>
#include <new>

#include "provider/common/objects.hpp"
#include "provider/common/verbs.hpp"

namespace sluice::provider {

namespace {

abi::Uverbs& uverbs_of(const ibv_context* context) noexcept {
    return context_of(context).uverbs;
}

std::unique_ptr<ProtectionDomain> new_domain(ibv_context* context, std::uint32_t handle) noexcept {
    std::unique_ptr<ProtectionDomain> pd(new (std::nothrow) ProtectionDomain);
    if (pd != nullptr) {
        pd->context = context;
        pd->handle = handle;
    }
    return pd;
}

void fill_region(MemoryRegion& region, ibv_pd* pd, void* address, std::size_t len_bytes) noexcept {
    region.mr.context = pd->context;
    region.mr.pd = pd;
    region.mr.addr = address;
    region.mr.length = len_bytes;
}

} // namespace

// The rings are allocated by the kernel, so that a program's own allocators have nothing to do
// here; they are accepted, as the manual allows.
int check_parent_domain(const ibv_context* context, const ibv_parent_domain_init_attr& attr) noexcept {
    constexpr std::uint32_t kKnown =
        IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    if (attr.pd == nullptr || attr.pd->context != context ||
        (attr.td != nullptr && attr.td->context != context)) {
        return EINVAL;
    }
    return (attr.comp_mask & ~kKnown) != 0 ? EOPNOTSUPP : 0;
}

void wrap(ProtectionDomain& domain, const ibv_parent_domain_init_attr& attr) noexcept {
    ProtectionDomain& wrapped = kernel_domain_of(attr.pd);
    domain.context = wrapped.context;
    domain.handle = wrapped.handle;
    wrapped.users.fetch_add(1, std::memory_order_relaxed);
    domain.parent = &wrapped;
    if (attr.td != nullptr) {
        domain.thread_domain = static_cast<ThreadDomain*>(attr.td);
        domain.thread_domain->users.fetch_add(1, std::memory_order_relaxed);
    }
}

void unwrap(const ProtectionDomain& domain) noexcept {
    if (domain.parent != nullptr) {
        domain.parent->users.fetch_sub(1, std::memory_order_release);
    }
    if (domain.thread_domain != nullptr) {
        domain.thread_domain->users.fetch_sub(1, std::memory_order_release);
    }
}

ibv_pd* alloc_pd(ibv_context* context) noexcept {
    const ib_uverbs_alloc_pd command{};
    ib_uverbs_alloc_pd_resp answer{};
    auto pd = new_domain(context, 0);
    if (pd == nullptr) {
        return fail_with<ibv_pd>(ENOMEM);
    }
    if (const int error = uverbs_of(context).invoke(IB_USER_VERBS_CMD_ALLOC_PD, command, answer)) {
        return fail_with<ibv_pd>(error);
    }
    pd->handle = answer.pd_handle;
    return pd.release();
}

int dealloc_pd(ibv_pd* pd) noexcept {
    ProtectionDomain& domain = domain_of(pd);
    if (domain.users.load(std::memory_order_acquire) != 0) {
        return EBUSY;
    }
    const ib_uverbs_dealloc_pd command{.pd_handle = domain.handle};
    const int error =
        domain.parent != nullptr
            ? 0
            : destroy_result(uverbs_of(pd->context).invoke(IB_USER_VERBS_CMD_DEALLOC_PD, command));
    if (error != 0) {
        return error;
    }
    unwrap(domain);
    delete &domain;
    return 0;
}

ibv_pd* import_pd(ibv_context* context, std::uint32_t handle) noexcept {
    auto pd = new_domain(context, handle);
    if (pd == nullptr) {
        return fail_with<ibv_pd>(ENOMEM);
    }
    pd->imported = true;
    return pd.release();
}

void unimport_pd(ibv_pd* pd) noexcept {
    delete &domain_of(pd);
}

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr) noexcept {
    if (attr->comp_mask != 0) {
        return fail_with<ibv_td>(EOPNOTSUPP);
    }
    auto* td = new (std::nothrow) ThreadDomain;
    if (td == nullptr) {
        return fail_with<ibv_td>(ENOMEM);
    }
    td->context = context;
    return td;
}

int dealloc_td(ibv_td* td) noexcept {
    auto* domain = static_cast<ThreadDomain*>(td);
    if (domain->users.load(std::memory_order_acquire) != 0) {
        return EBUSY;
    }
    delete domain;
    return 0;
}

ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr) noexcept {
    if (const int error = check_parent_domain(context, *attr)) {
        return fail_with<ibv_pd>(error);
    }
    auto pd = new_domain(context, 0);
    if (pd == nullptr) {
        return fail_with<ibv_pd>(ENOMEM);
    }
    wrap(*pd, *attr);
    return pd.release();
}

ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t len_bytes, std::uint64_t iova, int access) noexcept {
    return reg_mr_with(pd, address, len_bytes, iova, access, {});
}

ibv_mr* reg_mr_with(ibv_pd* pd, void* address, std::size_t len_bytes, std::uint64_t iova, int access,
                    const abi::DriverData& driver) noexcept {
    std::unique_ptr<MemoryRegion> region(new (std::nothrow) MemoryRegion{});
    if (region == nullptr) {
        return fail_with<ibv_mr>(ENOMEM);
    }
    ib_uverbs_reg_mr command{};
    command.start = reinterpret_cast<std::uintptr_t>(address);
    command.length = len_bytes;
    command.hca_va = iova;
    command.pd_handle = kernel_domain_of(pd).handle;
    command.access_flags = static_cast<std::uint32_t>(access);
    ib_uverbs_reg_mr_resp answer{};
    if (const int error = uverbs_of(pd->context).invoke(IB_USER_VERBS_CMD_REG_MR, command, answer, driver)) {
        return fail_with<ibv_mr>(error);
    }
    fill_region(*region, pd, address, len_bytes);
    region->mr.handle = answer.mr_handle;
    region->mr.lkey = answer.lkey;
    region->mr.rkey = answer.rkey;
    region->type = abi::kMrTypeMr;
    region->access = access;
    return &region.release()->mr;
}

int dereg_mr(abi::VerbsMr* mr) noexcept {
    const ib_uverbs_dereg_mr command{.mr_handle = mr->mr.handle};
    if (const int error =
            destroy_result(uverbs_of(mr->mr.context).invoke(IB_USER_VERBS_CMD_DEREG_MR, command))) {
        return error;
    }
    delete static_cast<MemoryRegion*>(mr);
    return 0;
}

int rereg_mr(abi::VerbsMr* mr, int flags, ibv_pd* pd, void* address, std::size_t len_bytes,
             int access) noexcept {
    const bool moves = (flags & IBV_REREG_MR_CHANGE_PD) != 0; // otherwise the pointer may be anything
    if (moves && (pd == nullptr || pd->context != mr->mr.context)) {
        return EINVAL;
    }
    ib_uverbs_rereg_mr command{};
    command.mr_handle = mr->mr.handle;
    command.flags = static_cast<std::uint32_t>(flags);
    command.start = reinterpret_cast<std::uintptr_t>(address);
    command.length = len_bytes;
    command.hca_va = reinterpret_cast<std::uintptr_t>(address);
    command.pd_handle = moves ? kernel_domain_of(pd).handle : 0;
    command.access_flags = static_cast<std::uint32_t>(access);
    ib_uverbs_rereg_mr_resp answer{};
    if (const int error = uverbs_of(mr->mr.context).invoke(IB_USER_VERBS_CMD_REREG_MR, command, answer)) {
        return error;
    }
    mr->mr.lkey = answer.lkey;
    mr->mr.rkey = answer.rkey;
    return 0;
}

ibv_mr* import_mr(ibv_pd* pd, std::uint32_t handle) noexcept {
    std::unique_ptr<MemoryRegion> region(new (std::nothrow) MemoryRegion{});
    if (region == nullptr) {
        return fail_with<ibv_mr>(ENOMEM);
    }
    std::uint32_t lkey = 0;
    std::uint32_t rkey = 0;
    std::uint64_t len_bytes = 0;
    abi::IoctlCommand<4> command(UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR);
    command.handle(UVERBS_ATTR_QUERY_MR_HANDLE, handle);
    command.output(UVERBS_ATTR_QUERY_MR_RESP_LKEY, &lkey, sizeof lkey);
    command.output(UVERBS_ATTR_QUERY_MR_RESP_RKEY, &rkey, sizeof rkey);
    command.output(UVERBS_ATTR_QUERY_MR_RESP_LENGTH, &len_bytes, sizeof len_bytes);
    if (const int error = uverbs_of(pd->context).call(command)) {
        return fail_with<ibv_mr>(error);
    }
    fill_region(*region, pd, nullptr, len_bytes);
    region->mr.handle = handle;
    region->mr.lkey = lkey;
    region->mr.rkey = rkey;
    region->type = abi::kMrTypeImported;
    return &region.release()->mr;
}

void unimport_mr(ibv_mr* mr) noexcept {
    delete static_cast<MemoryRegion*>(reinterpret_cast<abi::VerbsMr*>(mr));
}

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) noexcept {
    std::unique_ptr<MemoryWindow> window(new (std::nothrow) MemoryWindow{});
    if (window == nullptr) {
        return fail_with<ibv_mw>(ENOMEM);
    }
    ib_uverbs_alloc_mw command{};
    command.pd_handle = kernel_domain_of(pd).handle;
    command.mw_type = static_cast<std::uint8_t>(type);
    ib_uverbs_alloc_mw_resp answer{};
    if (const int error = uverbs_of(pd->context).invoke(IB_USER_VERBS_CMD_ALLOC_MW, command, answer)) {
        return fail_with<ibv_mw>(error);
    }
    window->context = pd->context;
    window->pd = pd;
    window->rkey = answer.rkey;
    window->handle = answer.mw_handle;
    window->type = type;
    return window.release();
}

int dealloc_mw(ibv_mw* mw) noexcept {
    const ib_uverbs_dealloc_mw command{.mw_handle = mw->handle};
    if (const int error =
            destroy_result(uverbs_of(mw->context).invoke(IB_USER_VERBS_CMD_DEALLOC_MW, command))) {
        return error;
    }
    delete static_cast<MemoryWindow*>(mw);
    return 0;
}

} // namespace sluice::provider
