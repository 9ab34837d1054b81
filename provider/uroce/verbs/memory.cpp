// SPDX-License-Identifier: BSD-3-Clause
//
// Protection domains, memory regions and memory windows.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "core/boundary.hpp"
#include "core/file_tree.hpp"
#include "core/mappings.hpp"
#include "core/memory_calls.hpp"
#include "core/probes.hpp"
#include "provider/common/verbs.hpp"
#include "provider/uroce/verbs/open.hpp"
#include "provider/uroce/verbs/regions.hpp"
#include "provider/uroce/verbs/verbs.hpp"

namespace sluice::uroce::verbs {

namespace {

constexpr unsigned kKnownAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
                                  IBV_ACCESS_HUGETLB | IBV_ACCESS_ON_DEMAND | kRemoteAccessMask;
// What the engine keeps.
constexpr unsigned kEngineAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND | IBV_ACCESS_ON_DEMAND | kRemoteAccessMask;
static_assert(unsigned{IBV_ACCESS_ON_DEMAND} == unsigned{engine::kOnDemand});

constexpr unsigned kWritingAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

device::Device& device_of(const ibv_pd* pd) noexcept {
    return context_of(pd->context).device;
}

bool is_gone(const ibv_pd* pd) noexcept {
    return context_of(pd->context).gone();
}

// Where a program's memory begins and ends in whole pages.
struct Pages {
    Pages(std::uint64_t address, std::size_t len_bytes) noexcept
        : begin(address & ~(page_bytes() - 1)), bytes(address + len_bytes - begin) {}
    void* at(std::size_t offset = 0) const noexcept {
        return reinterpret_cast<void*>(static_cast<std::uintptr_t>(begin + offset));
    }
    static std::uint64_t page_bytes() noexcept { return static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)); }

    std::uint64_t begin;
    std::size_t bytes;
};

// valgrind takes what msync() is given for read, and blames the program for each byte that it hasn't written
// yet.
bool is_watched_by_valgrind() noexcept {
    const char* const preloaded = getenv("LD_PRELOAD");
    return preloaded != nullptr && std::strstr(preloaded, "/vgpreload_") != nullptr;
}

// Looks at each page, which takes longer.
bool is_each_page_mapped(const Pages& pages) noexcept {
    std::array<unsigned char, 4096> states{};
    const std::size_t most = states.size() * Pages::page_bytes();
    for (std::size_t offset = 0; offset < pages.bytes; offset += most) {
        if (mincore(pages.at(offset), std::min(pages.bytes - offset, most), states.data()) != 0) {
            return false;
        }
    }
    return true;
}

// All of it is mapped. A page that goes later is another matter; but what never was there is an error
// of the caller's that would show up far away. MS_ASYNC does nothing but look.
bool is_mapped(const Pages& pages) noexcept {
    static const bool watched = is_watched_by_valgrind();
    return watched ? is_each_page_mapped(pages) : msync(pages.at(), pages.bytes, MS_ASYNC) == 0;
}

// Each page of what is mapped there may be written to, as the list of mappings says.
bool is_listed_writable(std::uint64_t address, std::size_t len_bytes) {
    const Result<std::string> maps = FileTree().read("/proc/self/maps", kLargestMappings);
    if (!maps) {
        return true; // nobody says otherwise
    }
    std::string_view text = *maps;
    for (Mapping mapping; take_mapping(text, mapping);) {
        if (mapping.first < address + len_bytes && mapping.end > address && !mapping.is_writable) {
            return false;
        }
    }
    return true;
}

// Where a peer may write, and what is filled here, each page must allow it. Adapters and rxe learn that when
// they pin the pages; here it would show up when the write arrives, far away. Asking the kernel touches the
// pages and costs 0.65 us for one page, 36 us for 1 MiB; for larger regions the list of mappings is read.
bool makes_writable(const Pages& pages) noexcept {
    constexpr int kPopulateWrite = 23; // MADV_POPULATE_WRITE, since Linux 5.14
    constexpr std::size_t kCheap = std::size_t{1} << 20;
    // malloc() gives 1 MiB on one page more.
    return pages.bytes <= kCheap + Pages::page_bytes() &&
           advise_memory(pages.at(), pages.bytes, kPopulateWrite) == 0;
}

// As far as it can be known.
bool is_writable(const Range& range) noexcept {
    const Result<bool> listed = at_boundary("is_writable", [&]() -> Result<bool> {
        return is_listed_writable(range.host_addr, range.len_bytes);
    });
    return !listed || *listed;
}

bool is_usable(const Range& range) noexcept {
    const Pages pages(range.host_addr, range.len_bytes);
    const bool is_written = (range.access & kWritingAccess) != 0;
    // What the kernel refuses there may be writable all the same: memory of devices, and pages that a file
    // has lost.
    return range.len_bytes == 0 || (is_written && makes_writable(pages)) ||
           (is_mapped(pages) && (!is_written || is_writable(range)));
}

int check(const Range& range) noexcept {
    if ((range.access & ~(kKnownAccess | kOptionalAccess)) != 0) {
        return EOPNOTSUPP;
    }
    // What is persistent is the program's to know; what a flush does is to write the caches back.
    if ((range.access & SLUICE_ACCESS_FLUSH_PERSISTENT) != 0 && !can_write_back()) {
        return EOPNOTSUPP;
    }
    if (range.host_addr + range.len_bytes < range.host_addr || range.iova + range.len_bytes < range.iova) {
        return EINVAL;
    }
    // Paged on demand, memory is looked at when it is used: it may come later, and all addresses may be
    // meant.
    if ((range.access & IBV_ACCESS_ON_DEMAND) != 0) {
        return 0;
    }
    return is_usable(range) ? 0 : EFAULT;
}

Result<std::uint32_t> add_region(engine::Engine& engine, ibv_pd* pd, const Range& range) {
    Result<void> prepared = device_of(pd).memory().prepare();
    if (!prepared) {
        return std::move(prepared).error();
    }
    return engine.regions().add_region(pd->handle, range.host_addr, range.iova, range.len_bytes,
                                       range.access & kEngineAccess);
}

void fill(MemoryRegion& region, ibv_pd* pd, const Range& range, std::uint32_t key) noexcept {
    region.mr.context = pd->context;
    region.mr.pd = pd;
    region.mr.addr = reinterpret_cast<void*>(static_cast<std::uintptr_t>(range.host_addr));
    region.mr.length = range.len_bytes;
    region.mr.handle = key;
    region.mr.lkey = key;
    region.mr.rkey = key;
    region.type = abi::kMrTypeMr;
    region.access = static_cast<int>(range.access);
    region.iova = range.iova;
}

MemoryRegion& region_of(abi::VerbsMr* mr) noexcept {
    return *static_cast<MemoryRegion*>(mr);
}

// With its regions and windows.
void leave_device(void* object, device::Device& device) noexcept {
    const auto& domain = *static_cast<const Domain*>(object);
    if (domain.users.load(std::memory_order_acquire) != 0) {
        const device::Device::ProgressSession session(device);
        session.engine().regions().remove_domain(domain.handle);
    }
}

} // namespace

namespace {

std::unique_ptr<MemoryRegion> try_to_make_region(ibv_pd* pd, const Range& range) noexcept {
    const int error = is_gone(pd) ? EIO : check(range);
    if (error != 0) {
        errno = error;
        return nullptr;
    }
    std::unique_ptr<MemoryRegion> region(new (std::nothrow) MemoryRegion{});
    if (region == nullptr) {
        errno = ENOMEM;
        return nullptr;
    }
    const device::Device::ProgressSession session(device_of(pd));
    const Result<std::uint32_t> key = add_region(session.engine(), pd, range);
    if (!key) {
        errno = key.error().to_errno();
        return nullptr;
    }
    fill(*region, pd, range, *key);
    region->membership.join(region->mr.context);
    domain_of(pd).users.fetch_add(1, std::memory_order_relaxed);
    return region;
}

} // namespace

std::unique_ptr<MemoryRegion> make_region(ibv_pd* pd, const Range& range) noexcept {
    SLUICE_PROBE(register_begin, range.host_addr, range.len_bytes, range.access);
    std::unique_ptr<MemoryRegion> region = try_to_make_region(pd, range);
    SLUICE_PROBE(register_end, range.host_addr, range.len_bytes, region != nullptr ? region->mr.lkey : 0,
                 region != nullptr ? 0 : errno);
    return region;
}

ibv_pd* alloc_pd(ibv_context* context) noexcept {
    if (context_of(context).gone()) {
        return fail_with<ibv_pd>(EIO);
    }
    auto* pd = new (std::nothrow) Domain;
    if (pd == nullptr) {
        return fail_with<ibv_pd>(ENOMEM);
    }
    pd->context = context;
    pd->handle = context_of(context).device.new_domain();
    pd->membership.join(pd->context, pd, leave_device);
    return pd;
}

int dealloc_pd(ibv_pd* pd) noexcept {
    auto& domain = static_cast<Domain&>(domain_of(pd));
    if (domain.users.load(std::memory_order_acquire) != 0) {
        return EBUSY;
    }
    provider::unwrap(domain);
    delete &domain;
    return 0;
}

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr) noexcept {
    if (context_of(context).gone() || attr->comp_mask != 0) {
        return fail_with<ibv_td>(attr->comp_mask != 0 ? EOPNOTSUPP : EIO);
    }
    auto* td = new (std::nothrow) ThreadDomain;
    if (td == nullptr) {
        return fail_with<ibv_td>(ENOMEM);
    }
    td->context = context;
    td->membership.join(td->context);
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
    if (const int error = context_of(context).gone() ? EIO : provider::check_parent_domain(context, *attr)) {
        return fail_with<ibv_pd>(error);
    }
    auto* pd = new (std::nothrow) Domain;
    if (pd == nullptr) {
        return fail_with<ibv_pd>(ENOMEM);
    }
    provider::wrap(*pd, *attr);
    pd->membership.join(pd->context);
    return pd;
}

ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t len_bytes, std::uint64_t iova, int access) noexcept {
    const bool zero_based = (access & IBV_ACCESS_ZERO_BASED) != 0;
    auto region = make_region(pd, {.host_addr = reinterpret_cast<std::uintptr_t>(address),
                                   .iova = zero_based ? 0 : iova,
                                   .len_bytes = len_bytes,
                                   .access = static_cast<unsigned>(access)});
    return region != nullptr ? &region.release()->mr : nullptr;
}

// The exporter of the buffer must let it be mapped; then it is memory like any other.
ibv_mr* reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t len_bytes, std::uint64_t iova, int fd,
                      int access) noexcept {
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const std::uint64_t begin = offset & ~(page - 1);
    if (len_bytes == 0 || offset + len_bytes < offset) {
        return fail_with<ibv_mr>(EINVAL);
    }
    const std::size_t mapping_bytes = static_cast<std::size_t>(offset - begin) + len_bytes;
    const bool writes = (access & IBV_ACCESS_LOCAL_WRITE) != 0;
    void* mapping = mmap(nullptr, mapping_bytes, PROT_READ | (writes ? PROT_WRITE : 0), MAP_SHARED, fd,
                         static_cast<off_t>(begin));
    if (mapping == MAP_FAILED) {
        return nullptr;
    }
    auto region = make_region(pd, {.host_addr = reinterpret_cast<std::uintptr_t>(mapping) + (offset - begin),
                                   .iova = iova,
                                   .len_bytes = len_bytes,
                                   .access = static_cast<unsigned>(access)});
    if (region == nullptr) {
        const int error = errno;
        unmap_memory(mapping, mapping_bytes);
        return fail_with<ibv_mr>(error);
    }
    region->mr.addr = nullptr; // the program has no address of its own for it
    region->type = abi::kMrTypeDmabuf;
    region->mapping = mapping;
    region->mapping_bytes = mapping_bytes;
    return &region.release()->mr;
}

// Peers keep the keys that they have, as with rxe, and nothing has changed when it fails.
int rereg_mr(abi::VerbsMr* mr, int flags, ibv_pd* pd, void* address, std::size_t len_bytes,
             int access) noexcept {
    constexpr int kKnown =
        IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;
    MemoryRegion& region = region_of(mr);
    const bool moves = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
    if (is_gone(region.mr.pd)) {
        return EIO;
    }
    ibv_pd* domain = (flags & IBV_REREG_MR_CHANGE_PD) != 0 ? pd : region.mr.pd;
    if ((flags & ~kKnown) != 0 || flags == 0 || (moves && region.mapping != nullptr) || domain == nullptr ||
        domain->context != region.mr.context) {
        return EINVAL;
    }
    Range range{
        .host_addr = reinterpret_cast<std::uintptr_t>(region.mr.addr),
        .iova = region.iova,
        .len_bytes = region.mr.length,
        .access = static_cast<unsigned>((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0 ? access : region.access)};
    if (moves) {
        range.host_addr = range.iova = reinterpret_cast<std::uintptr_t>(address);
        range.len_bytes = len_bytes;
    }
    if (const int error = check(range)) {
        return error;
    }
    const device::Device::ProgressSession session(device_of(domain));
    const Result<void> changed =
        session.engine().regions().change_region(region.mr.lkey, domain->handle, range.host_addr, range.iova,
                                                 range.len_bytes, range.access & kEngineAccess);
    if (!changed) {
        return changed.error().to_errno();
    }
    domain_of(region.mr.pd).users.fetch_sub(1, std::memory_order_release);
    domain_of(domain).users.fetch_add(1, std::memory_order_relaxed);
    fill(region, domain, range, region.mr.lkey);
    return 0;
}

int dereg_mr(abi::VerbsMr* mr) noexcept {
    MemoryRegion& region = region_of(mr);
    SLUICE_PROBE(deregister, region.mr.lkey, region.mr.addr, region.mr.length);
    if (!is_gone(region.mr.pd)) {
        const device::Device::ProgressSession session(device_of(region.mr.pd));
        const Result<void> removed = session.engine().regions().remove_region(region.mr.lkey);
        if (!removed) {
            return removed.error().to_errno();
        }
    }
    if (region.mapping != nullptr) {
        unmap_memory(region.mapping, region.mapping_bytes);
    }
    if (region.device_memory != nullptr) {
        region.device_memory->users.fetch_sub(1, std::memory_order_release);
    }
    domain_of(region.mr.pd).users.fetch_sub(1, std::memory_order_release);
    delete &region;
    return 0;
}

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) noexcept {
    if (is_gone(pd)) {
        return fail_with<ibv_mw>(EIO);
    }
    if (number_of(type) != IBV_MW_TYPE_1 && number_of(type) != IBV_MW_TYPE_2) {
        return fail_with<ibv_mw>(EINVAL);
    }
    std::unique_ptr<MemoryWindow> window(new (std::nothrow) MemoryWindow{});
    if (window == nullptr) {
        return fail_with<ibv_mw>(ENOMEM);
    }
    const device::Device::ProgressSession session(device_of(pd));
    const Result<std::uint32_t> key = session.engine().regions().add_window(
        pd->handle, type == IBV_MW_TYPE_1 ? engine::WindowType::kType1 : engine::WindowType::kType2);
    if (!key) {
        return fail_with<ibv_mw>(key.error().to_errno());
    }
    window->context = pd->context;
    window->pd = pd;
    window->rkey = *key;
    window->handle = *key;
    window->type = type;
    window->membership.join(window->context);
    domain_of(pd).users.fetch_add(1, std::memory_order_relaxed);
    return window.release();
}

int dealloc_mw(ibv_mw* mw) noexcept {
    if (!is_gone(mw->pd)) {
        const device::Device::ProgressSession session(device_of(mw->pd));
        const Result<void> removed = session.engine().regions().remove_window(mw->handle);
        if (!removed) {
            return removed.error().to_errno();
        }
    }
    domain_of(mw->pd).users.fetch_sub(1, std::memory_order_release);
    delete static_cast<MemoryWindow*>(mw);
    return 0;
}

} // namespace sluice::uroce::verbs
