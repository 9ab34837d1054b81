// SPDX-License-Identifier: BSD-3-Clause
//
// Device memory: pages of a memfd, which the program reaches by copying and by regions alone. The descriptor
// isn't kept: the mapping keeps the pages.
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cstring>
#include <memory>
#include <new>

#include "core/descriptor.hpp"
#include "core/memory_calls.hpp"
#include "provider/uroce/verbs/regions.hpp"
#include "provider/uroce/verbs/verbs.hpp"

namespace sluice::uroce::verbs {

namespace {

DeviceMemory& memory_of(ibv_dm* dm) noexcept {
    return *static_cast<DeviceMemory*>(dm);
}

// What adapters copy by.
constexpr std::uint64_t kWord = 4;

bool is_inside(const DeviceMemory& memory, std::uint64_t offset, std::size_t len_bytes) noexcept {
    return offset <= memory.len_bytes && len_bytes <= memory.len_bytes - offset;
}

int check_copy(const DeviceMemory& memory, std::uint64_t offset, std::size_t len_bytes) noexcept {
    if (offset % kWord != 0 || len_bytes % kWord != 0) {
        return EINVAL;
    }
    return is_inside(memory, offset, len_bytes) ? 0 : EFAULT;
}

int memcpy_to_dm(ibv_dm* dm, std::uint64_t offset, const void* from, std::size_t len_bytes) noexcept {
    DeviceMemory& memory = memory_of(dm);
    if (const int error = check_copy(memory, offset, len_bytes)) {
        return error;
    }
    std::memcpy(memory.bytes + offset, from, len_bytes);
    return 0;
}

int memcpy_from_dm(void* to, ibv_dm* dm, std::uint64_t offset, std::size_t len_bytes) noexcept {
    const DeviceMemory& memory = memory_of(dm);
    if (const int error = check_copy(memory, offset, len_bytes)) {
        return error;
    }
    std::memcpy(to, memory.bytes + offset, len_bytes);
    return 0;
}

std::byte* map_pages(std::size_t len_bytes) noexcept {
    const Descriptor file(memfd_create("sluice-device-memory", MFD_CLOEXEC));
    if (file.get() < 0 || ftruncate(file.get(), static_cast<off_t>(len_bytes)) != 0) {
        return nullptr;
    }
    void* const mapped = mmap(nullptr, len_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    return mapped == MAP_FAILED ? nullptr : static_cast<std::byte*>(mapped);
}

} // namespace

DeviceMemory::~DeviceMemory() {
    if (bytes != nullptr) {
        unmap_memory(bytes, mapped_bytes);
    }
}

// Also in a child of fork(), where the device itself isn't: this is memory.
ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attr) noexcept {
    if (context_of(context).closed) {
        return fail_with<ibv_dm>(EIO);
    }
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    if (attr->comp_mask != 0) {
        return fail_with<ibv_dm>(EOPNOTSUPP);
    }
    if (attr->length == 0 || attr->length > kMaxDeviceMemory ||
        attr->log_align_req > static_cast<unsigned>(std::countr_zero(page))) {
        return fail_with<ibv_dm>(EINVAL);
    }
    const std::size_t mapped_bytes = (attr->length + page - 1) & ~(page - 1);
    std::unique_ptr<DeviceMemory> memory(new (std::nothrow) DeviceMemory);
    if (memory == nullptr) {
        return fail_with<ibv_dm>(ENOMEM);
    }
    memory->context = context;
    memory->len_bytes = attr->length;
    memory->mapped_bytes = mapped_bytes;
    memory->memcpy_to_dm = memcpy_to_dm;
    memory->memcpy_from_dm = memcpy_from_dm;
    memory->bytes = map_pages(mapped_bytes);
    if (memory->bytes == nullptr) {
        return nullptr;
    }
    if (!context_of(context).forked()) {
        memory->membership.join(memory->context);
    }
    return memory.release();
}

int free_dm(ibv_dm* dm) noexcept {
    DeviceMemory& memory = memory_of(dm);
    if (memory.users.load(std::memory_order_acquire) != 0) {
        return EBUSY;
    }
    delete &memory;
    return 0;
}

// The addresses of such a region count from its start, as the manual demands: it has no others.
ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* dm, std::uint64_t offset, std::size_t len_bytes,
                  unsigned access) noexcept {
    DeviceMemory& memory = memory_of(dm);
    if (dm->context != pd->context || (access & IBV_ACCESS_ZERO_BASED) == 0 ||
        !is_inside(memory, offset, len_bytes)) {
        return fail_with<ibv_mr>(EINVAL);
    }
    auto region = make_region(pd, {.host_addr = reinterpret_cast<std::uintptr_t>(memory.bytes) + offset,
                                   .iova = 0,
                                   .len_bytes = len_bytes,
                                   .access = access});
    if (region == nullptr) {
        return nullptr;
    }
    region->mr.addr = nullptr;
    region->type = abi::kMrTypeDmabuf; // not the program's pages: libibverbs lets them be
    region->device_memory = &memory;
    memory.users.fetch_add(1, std::memory_order_relaxed);
    return &region.release()->mr;
}

} // namespace sluice::uroce::verbs
