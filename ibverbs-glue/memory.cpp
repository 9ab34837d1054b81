// SPDX-License-Identifier: BSD-3-Clause
#include "ibverbs-glue/memory.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "core/file_tree.hpp"

namespace sluice::glue {

namespace {

// What the kernel lets this thread pin.
struct Pinning {
    bool is_limited = false;
    std::uint64_t most_bytes = 0;   // in all, where that is limited
    std::uint64_t pinned_bytes = 0; // by devices, in this process

    bool has_room_for(std::uint64_t bytes) const noexcept {
        return !is_limited || pinned_bytes + bytes <= most_bytes;
    }
};

std::uint64_t number_behind(std::string_view key, const std::string& status, int base) {
    const std::size_t at = status.find(key);
    return at != std::string::npos ? std::strtoull(status.c_str() + at + key.size(), nullptr, base) : 0;
}

// The limit isn't enforced with CAP_IPC_LOCK of the initial user namespace, where all numbers mean
// themselves.
bool is_above_limits(const std::string& status) {
    constexpr unsigned kIpcLock = 14;
    constexpr std::string_view kEveryUser = "4294967295";
    const bool is_capable = (number_behind("CapEff:", status, 16) >> kIpcLock & 1) != 0;
    return is_capable && FileTree().read_line("/proc/self/uid_map").ends_with(kEveryUser);
}

Pinning query_pinning() {
    constexpr std::size_t kLargestStatus = 65536;
    const Result<std::string> read = FileTree().read("/proc/thread-self/status", kLargestStatus);
    const std::string status = read ? *read : "";
    rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
    (void)getrlimit(RLIMIT_MEMLOCK, &limit);
    return {.is_limited = limit.rlim_cur != RLIM_INFINITY && !is_above_limits(status),
            .most_bytes = limit.rlim_cur,
            .pinned_bytes = number_behind("VmPin:", status, 10) * 1024};
}

bool can_register_one_page(ibv_pd* pd) noexcept {
    char byte = 0;
    ibv_mr* const tried = ibv_reg_mr(pd, &byte, sizeof byte, int{IBV_ACCESS_LOCAL_WRITE});
    return tried != nullptr && ibv_dereg_mr(tried) == 0;
}

// Memory and regions both run out by ENOMEM. Where one page can't be registered either, it is the regions if
// that page might be pinned, and may be both otherwise.
Error explain_registration(Error error, ibv_pd* pd, std::size_t length_bytes) {
    // EPERM: the limit is 0, and this process has no right to go beyond it.
    const bool is_short =
        error.os_errno() == ENOMEM || error.os_errno() == EAGAIN || error.os_errno() == EPERM;
    if (!is_short) {
        return error;
    }
    constexpr ErrorKind kKind = ErrorKind::kInsufficientResources;
    const Pinning pinning = query_pinning();
    const auto most_bytes = static_cast<unsigned long long>(pinning.most_bytes);
    if (can_register_one_page(pd)) {
        return !pinning.is_limited
                   ? std::move(error)
                   : Error::format(
                         kKind, error.os_errno(),
                         "registering %zu bytes: this process may lock %llu bytes in all; raise that "
                         "with ulimit -l or in /etc/security/limits.conf (memlock)",
                         length_bytes, most_bytes);
    }
    if (error.os_errno() == EAGAIN) { // what the kernel answers for a group's limit, and for no other
        return Error::format(
            kKind, EAGAIN,
            "registering %zu bytes: this process's control group may have no more objects of the "
            "device; raise hca_object in rdma.max of the group, or free some",
            length_bytes);
    }
    ibv_device_attr limits{};
    (void)ibv_query_device(pd->context, &limits);
    const char* const windows = limits.max_mw != 0 ? ", memory windows included" : "";
    if (pinning.has_room_for(static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)))) {
        return Error::format(
            kKind, error.os_errno(),
            "registering %zu bytes: the device has %d memory regions in all%s, and none is left; "
            "free some, or register larger ones",
            length_bytes, limits.max_mr, windows);
    }
    return Error::format(
        kKind, error.os_errno(),
        "registering %zu bytes: this process may lock %llu bytes in all and has no page left; "
        "raise that with ulimit -l or in /etc/security/limits.conf (memlock). If that doesn't "
        "help, the device's %d memory regions%s are in use; free some",
        length_bytes, most_bytes, limits.max_mr, windows);
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
