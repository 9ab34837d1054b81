// SPDX-License-Identifier: BSD-3-Clause
#include "sync/access.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string>

#include "core/file_tree.hpp"
#include "core/mappings.hpp"

namespace sluice::sync {

namespace {

// Of <linux/mman.h> since 5.14, which is newer than the oldest headers that we build with.
constexpr int kPopulateRead = 22;
constexpr int kPopulateWrite = 23;

constinit std::atomic<void (*)(Range range) noexcept> opener = nullptr;

Error not_mapped(Range range) noexcept {
    return error_about(range, ErrorKind::kInvalidArgument, "a page isn't mapped, or can't be read", EFAULT);
}

// Emulators take any advice and follow none. A kernel refuses one that doesn't exist.
bool takes_any_advice() noexcept {
    constexpr int kNoAdvice = 0x7fff;
    static const bool takes_any =
        madvise(nullptr, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), kNoAdvice) == 0;
    return takes_any;
}

// 0, or why the kernel couldn't make the pages present for that access.
int populate(Range range, Access access) noexcept {
    if (takes_any_advice()) {
        return EINVAL;
    }
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const std::uintptr_t first = range.address & ~(page - 1);
    const int advice = access == Access::kWrite ? kPopulateWrite : kPopulateRead;
    void* const from = reinterpret_cast<void*>(first); // NOLINT(performance-no-int-to-ptr)
    return madvise(from, range.address + range.length - first, advice) == 0 ? 0 : errno;
}

} // namespace

Error error_about(Range range, ErrorKind kind, const char* what, int os_errno) noexcept {
    return Error::format(kind, os_errno, "%llu bytes at 0x%llx: %s",
                         static_cast<unsigned long long>(range.length),
                         static_cast<unsigned long long>(range.address), what);
}

Error error_in_segment(std::uint64_t index, const Error& error) noexcept {
    return Error::format(error.kind(), error.os_errno(), "segment %llu, %s",
                         static_cast<unsigned long long>(index), error.text());
}

Result<void> check_listed(std::string_view maps, Range range, Access access) noexcept {
    const std::uintptr_t end = range.address + range.length;
    std::uintptr_t at = range.address;
    for (Mapping mapping; at < end && take_mapping(maps, mapping);) {
        if (mapping.end <= at) {
            continue;
        }
        if (mapping.first > at || !mapping.is_readable) {
            return not_mapped(range);
        }
        if (access == Access::kWrite && !mapping.is_writable) {
            return error_about(range, ErrorKind::kPermission, "a page that would be written may only be read",
                               EACCES);
        }
        at = mapping.end;
    }
    return at >= end ? Result<void>{} : not_mapped(range);
}

void set_opener(void (*open)(Range range) noexcept) noexcept {
    opener = open;
}

Result<void> check_access(Range range, Access access) {
    if (range.length == 0) {
        return {};
    }
    if (const auto open = opener.load(std::memory_order_relaxed); open != nullptr) {
        open(range);
    }
    const int why = populate(range, access);
    if (why == 0) {
        return {};
    }
    if (why == EFAULT || why == EHWPOISON) {
        return not_mapped(range);
    }
    // EINVAL is a lack of rights, memory of a device, an emulator, or a kernel before 5.14; ENOMEM also a
    // lack of memory.
    const Result<std::string> maps = FileTree().read("/proc/self/maps", kLargestMappings);
    if (!maps) {
        return Error::format(
            ErrorKind::kInsufficientResources, ENOMEM,
            "%llu bytes at 0x%llx: the pages can't be checked, since /proc/self/maps can't be read: %s",
            static_cast<unsigned long long>(range.length), static_cast<unsigned long long>(range.address),
            maps.error().text());
    }
    Result<void> listed = check_listed(*maps, range, access);
    if (listed && why != EINVAL) {
        return Error::format(ErrorKind::kInsufficientResources, ENOMEM,
                             "%llu bytes at 0x%llx: the kernel can't make the pages present (errno %d)",
                             static_cast<unsigned long long>(range.length),
                             static_cast<unsigned long long>(range.address), why);
    }
    return listed;
}

} // namespace sluice::sync
