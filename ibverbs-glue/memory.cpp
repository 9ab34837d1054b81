// SPDX-License-Identifier: BSD-3-Clause
#include "ibverbs-glue/memory.hpp"

#include <sys/resource.h>

namespace sluice::glue {

namespace {

Error explain_registration(Error error, std::size_t length_bytes) {
    rlimit limit{};
    // EPERM: the limit is 0, and this process has no right to go beyond it.
    const bool is_limit =
        error.os_errno() == ENOMEM || error.os_errno() == EAGAIN || error.os_errno() == EPERM;
    if (!is_limit || getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return error;
    }
    return Error::format(ErrorKind::kInsufficientResources, error.os_errno(),
                         "registering %zu bytes: this process may lock %llu bytes in all; raise that with "
                         "ulimit -l or in /etc/security/limits.conf (memlock)",
                         length_bytes, static_cast<unsigned long long>(limit.rlim_cur));
}

} // namespace

Result<ProtectionDomain> ProtectionDomain::make(const Context& context) {
    Result<ibv_pd*> pd = from_null(ibv_alloc_pd(context.get()), "making a protection domain");
    if (!pd) {
        return std::move(pd).error();
    }
    return ProtectionDomain(*pd);
}

Result<MemoryRegion> MemoryRegion::make(const ProtectionDomain& pd, void* address, std::size_t length_bytes,
                                        std::uint64_t iova, unsigned access) {
    Result<ibv_mr*> mr =
        from_null(ibv_reg_mr_iova2(pd.get(), address, length_bytes, iova, access), "registering memory");
    if (!mr) {
        return explain_registration(std::move(mr).error(), length_bytes);
    }
    return MemoryRegion(*mr);
}

Result<void> MemoryRegion::advise(ibv_advise_mr_advice advice, std::uint32_t flags, std::uint64_t iova,
                                  std::uint32_t length_bytes) const {
    ibv_sge range{iova, length_bytes, local_key()};
    return from_rc(ibv_advise_mr(get()->pd, advice, flags, &range, 1), "advising about memory");
}

Result<MemoryWindow> MemoryWindow::make(const ProtectionDomain& pd, ibv_mw_type type) {
    Result<ibv_mw*> mw = from_null(ibv_alloc_mw(pd.get(), type), "making a memory window");
    if (!mw) {
        return std::move(mw).error();
    }
    return MemoryWindow(*mw);
}

} // namespace sluice::glue
