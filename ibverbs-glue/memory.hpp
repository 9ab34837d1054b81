// SPDX-License-Identifier: BSD-3-Clause
//
// Protection domains, memory regions and memory windows.
#pragma once

#include <sluice/sluice.h>

#include <cstdint>

#include "ibverbs-glue/context.hpp"

namespace sluice::glue {

// What lets peers flush a region; younger than the libibverbs that we may be compiled with.
constexpr unsigned kAccessFlushGlobal = SLUICE_ACCESS_FLUSH_GLOBAL;
constexpr unsigned kAccessFlushPersistent = SLUICE_ACCESS_FLUSH_PERSISTENT;

// Outlives what is made from it, and its Context outlives it.
class ProtectionDomain : public Owned<ibv_pd, ibv_dealloc_pd> {
  public:
    static Result<ProtectionDomain> make(const Context& context);

  private:
    using Owned::Owned;
};

class MemoryRegion : public Owned<ibv_mr, ibv_dereg_mr> {
  public:
    // LENGTH bytes at ADDRESS of this process, which peers and work requests name by IOVA and following.
    // IOVA must have ADDRESS' place in its page (the kernel's rule), and siw takes ADDRESS instead. ACCESS:
    // bits IBV_ACCESS_*. When locked memory or the device's regions run out the error tells limit, need and
    // remedy.
    static Result<MemoryRegion> make(const ProtectionDomain& pd, void* address, std::size_t length_bytes,
                                     std::uint64_t iova, unsigned access);

    // Tells the kernel what will be done with a part of it: IBV_ADVISE_MR_*, for memory that is paged on
    // demand. The range lies within the region.
    Result<void> advise(ibv_advise_mr_advice advice, std::uint32_t flags, std::uint64_t iova,
                        std::uint32_t length_bytes) const;

    std::uint32_t local_key() const noexcept { return get()->lkey; }
    std::uint32_t remote_key() const noexcept { return get()->rkey; }

  private:
    using Owned::Owned;
};

// What libibverbs has in its header only is nobody's symbol, which a template needs.
inline int destroy_window(ibv_mw* mw) noexcept {
    return ibv_dealloc_mw(mw);
}

class MemoryWindow : public Owned<ibv_mw, destroy_window> {
  public:
    // kNotSupported where the device has none of that type.
    static Result<MemoryWindow> make(const ProtectionDomain& pd, ibv_mw_type type);

    std::uint32_t remote_key() const noexcept { return get()->rkey; }

    // A window of type 1. Posted to QP; the key changes at once. 0 or an errno.
    int bind(ibv_qp* qp, ibv_mw_bind& bind) const noexcept { return ibv_bind_mw(qp, get(), &bind); }

  private:
    using Owned::Owned;
};

} // namespace sluice::glue
