// SPDX-License-Identifier: BSD-3-Clause
#include "rpma/region.hpp"

#include <cerrno>

#include "rpma/log.hpp"

namespace sluice::rpma {

namespace {

// A flush may turn out to be a read, depending on the peer: so both are allowed.
unsigned access_for(const Peer& peer, unsigned usage) noexcept {
    constexpr unsigned kFlushes = RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT;
    constexpr unsigned kWritten =
        RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_RECV;
    unsigned access = (usage & kWritten) != 0 ? unsigned{IBV_ACCESS_LOCAL_WRITE} : 0U;
    if ((usage & (RPMA_MR_USAGE_READ_SRC | kFlushes)) != 0) {
        access |= IBV_ACCESS_REMOTE_READ;
    }
    if ((usage & RPMA_MR_USAGE_WRITE_DST) != 0) {
        access |= IBV_ACCESS_REMOTE_WRITE;
    }
    if ((usage & RPMA_MR_USAGE_READ_DST) != 0 && peer.is_iwarp()) {
        access |= IBV_ACCESS_REMOTE_WRITE; // there the answer to a read is a write
    }
    if ((usage & RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY) != 0 && (peer.features() & kFlushVisibility) != 0) {
        access |= glue::kAccessFlushGlobal;
    }
    if ((usage & RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT) != 0 && (peer.features() & kFlushPersistent) != 0) {
        access |= glue::kAccessFlushPersistent;
    }
    return access;
}

Result<glue::MemoryRegion> try_to_register(const Peer& peer, void* address, std::size_t size,
                                           unsigned access) {
    return glue::MemoryRegion::make(peer.domain(), address, size, reinterpret_cast<std::uintptr_t>(address),
                                    access);
}

} // namespace

Result<std::unique_ptr<LocalRegion>> LocalRegion::make(Peer& peer, void* address, std::size_t size,
                                                       unsigned usage) {
    unsigned access = access_for(peer, usage);
    Result<glue::MemoryRegion> region = try_to_register(peer, address, size, access);
    // The kernel promises persistence for persistent memory only.
    if (!region && region.error().os_errno() == EINVAL && (access & glue::kAccessFlushPersistent) != 0) {
        access &= ~glue::kAccessFlushPersistent;
        region = try_to_register(peer, address, size, access);
        if (region) {
            peer.withdraw_persistent_flush();
            log_message(RPMA_LOG_LEVEL_INFO, {},
                        "a region is not persistent for the device; peers flush by reading from now on");
        }
    }
    // Pages of a file system with DAX can't be pinned.
    if (!region && region.error().os_errno() == EOPNOTSUPP && peer.can_page()) {
        region = try_to_register(peer, address, size, access | IBV_ACCESS_ON_DEMAND);
    }
    if (!region) {
        return std::move(region).error();
    }
    return std::unique_ptr<LocalRegion>(new LocalRegion(*std::move(region), address, size, usage));
}

RegionDescriptor LocalRegion::descriptor() const noexcept {
    return {.address = reinterpret_cast<std::uintptr_t>(address_),
            .length = size_,
            .key = region_.remote_key(),
            .usage = usage_};
}

Result<void> LocalRegion::advise(std::size_t offset, std::size_t length, int advice,
                                 std::uint32_t flags) const {
    const ibv_sge range = piece(offset, length);
    Result<void> done =
        region_.advise(static_cast<ibv_advise_mr_advice>(advice), flags, range.addr, range.length);
    if (done) {
        return done;
    }
    switch (done.error().os_errno()) {
    case EOPNOTSUPP:
        return Error(ErrorKind::kNotSupported, "the device takes no advice about memory");
    case EFAULT:
    case EINVAL:
        return Error(ErrorKind::kInvalidArgument, "the system doesn't understand the advice about memory");
    default:
        return done;
    }
}

} // namespace sluice::rpma
