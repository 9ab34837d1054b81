// SPDX-License-Identifier: BSD-3-Clause
#include "ibverbs-glue/memory.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "core/file_tree.hpp"

namespace sluice::glue {

namespace {

// Bytes that devices have pinned in this process, which the kernel counts against the limit.
std::uint64_t pinned_bytes() {
    constexpr std::size_t kLargestStatus = 65536;
    constexpr std::string_view kKey = "VmPin:";
    const Result<std::string> status = FileTree().read("/proc/self/status", kLargestStatus);
    const std::size_t at = status ? status->find(kKey) : std::string::npos;
    return at != std::string::npos ? std::strtoull(status->c_str() + at + kKey.size(), nullptr, 10) * 1024
                                   : 0;
}

// Whether not even one page can be registered, though it might be locked.
bool has_no_region_left(ibv_pd* pd, const rlimit& limit) {
    const auto page_bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    if (limit.rlim_cur != RLIM_INFINITY && pinned_bytes() + page_bytes > limit.rlim_cur) {
        return false;
    }
    char byte = 0;
    ibv_mr* const tried = ibv_reg_mr(pd, &byte, sizeof byte, int{IBV_ACCESS_LOCAL_WRITE});
    return tried == nullptr || ibv_dereg_mr(tried) != 0;
}

int region_limit(const ibv_pd* pd) noexcept {
    ibv_device_attr attributes{};
    return ibv_query_device(pd->context, &attributes) == 0 ? attributes.max_mr : 0;
}

// Memory and regions both run out by ENOMEM.
Error explain_registration(Error error, ibv_pd* pd, std::size_t length_bytes) {
    rlimit limit{};
    // EPERM: the limit is 0, and this process has no right to go beyond it.
    const bool is_short =
        error.os_errno() == ENOMEM || error.os_errno() == EAGAIN || error.os_errno() == EPERM;
    if (!is_short || getrlimit(RLIMIT_MEMLOCK, &limit) != 0) {
        return error;
    }
    if (has_no_region_left(pd, limit)) {
        return Error::format(ErrorKind::kInsufficientResources, error.os_errno(),
                             "registering %zu bytes: the device has %d memory regions in all, memory windows "
                             "included, and none is left; free some, or register larger ones",
                             length_bytes, region_limit(pd));
    }
    if (limit.rlim_cur == RLIM_INFINITY) {
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
        return explain_registration(std::move(mr).error(), pd.get(), length_bytes);
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
