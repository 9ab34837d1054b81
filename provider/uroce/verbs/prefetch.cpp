// SPDX-License-Identifier: BSD-3-Clause
//
// Advice about regions. Nothing here pins a page, whatever the region was registered with, so that to
// prefetch is to fault the pages in; they may go again.
#include <sys/mman.h>
#include <unistd.h>

#include "core/memory_calls.hpp"
#include "provider/uroce/verbs/verbs.hpp"

namespace sluice::uroce::verbs {

namespace {

constexpr int kPopulateRead = 22; // MADV_POPULATE_READ and _WRITE, since Linux 5.14
constexpr int kPopulateWrite = 23;

struct Extent {
    std::uint64_t host_addr = 0;
    std::uint64_t len_bytes = 0;
};

// 0 and where the bytes are, or the errno that rxe and mlx5 have for it.
int find(ibv_pd* pd, const ibv_sge& sge, bool writes, Extent& extent) noexcept {
    const device::Device::ProgressSession session(context_of(pd->context).device);
    const engine::RegionTable& regions = session.engine().regions();
    if (!regions.has(sge.lkey, pd->handle, 0)) {
        return EINVAL;
    }
    if (writes && !regions.has(sge.lkey, pd->handle, engine::kLocalWrite)) {
        return EPERM;
    }
    const auto host = regions.local(sge.lkey, pd->handle, sge.addr, sge.length, 0);
    extent = {host.value_or(0), sge.length};
    return host ? 0 : EFAULT;
}

int fault_in(const Extent& extent, bool writes) noexcept {
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const std::uint64_t begin = extent.host_addr & ~(page - 1);
    if (extent.len_bytes == 0) {
        return 0;
    }
    const int done =
        advise_memory(reinterpret_cast<void*>(static_cast<std::uintptr_t>(begin)),
                      extent.host_addr + extent.len_bytes - begin, writes ? kPopulateWrite : kPopulateRead);
    return done == 0 ? 0 : EFAULT;
}

} // namespace

// Without the flag that asks for the end of it, what can't be faulted in is no error: the access that needs
// the page tells it.
int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* list,
              std::uint32_t count) noexcept {
    const std::uint32_t kind = number_of(advice);
    if (context_of(pd->context).gone()) {
        return EIO;
    }
    if (kind > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT ||
        (flags & ~std::uint32_t{IBV_ADVISE_MR_FLAG_FLUSH}) != 0) {
        return EOPNOTSUPP;
    }
    if (count == 0 || list == nullptr) {
        return EINVAL;
    }
    const bool writes = kind == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
    for (std::uint32_t i = 0; i < count; ++i) {
        Extent extent;
        if (const int error = find(pd, list[i], writes, extent)) {
            return error;
        }
        const int error = kind == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT ? 0 : fault_in(extent, writes);
        if (error != 0 && (flags & IBV_ADVISE_MR_FLAG_FLUSH) != 0) {
            return error;
        }
    }
    return 0;
}

} // namespace sluice::uroce::verbs
