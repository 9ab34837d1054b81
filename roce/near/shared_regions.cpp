// SPDX-License-Identifier: BSD-3-Clause
#include "roce/near/shared_regions.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "core/boundary.hpp"
#include "core/file_tree.hpp"
#include "core/mappings.hpp"

namespace sluice::roce::near {

namespace {

constexpr std::uint32_t kUsesBeforeSearch = 4;
constexpr std::uint32_t kUsesBeforeExchange = 256;
constexpr std::uint32_t kWritingAccess = engine::kRemoteWrite | engine::kRemoteAtomic;

std::string directory_of(pid_t pid) {
    return "/proc/" + std::to_string(pid);
}

bool is_file_of(const Mapping& mapping, const struct stat& status) {
    std::array<char, 32> device{};
    std::snprintf(device.data(), device.size(), "%02x:%02x", major(status.st_dev), minor(status.st_dev));
    return S_ISREG(status.st_mode) && status.st_ino == mapping.inode && mapping.device == device.data();
}

// None: what is at PATH, which may be a link, is another file than that of MAPPING. Such a one isn't opened:
// it may be a device.
Descriptor open_if_it_is(const Mapping& mapping, const std::string& path, int flags) {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0 || !is_file_of(mapping, status)) {
        return Descriptor();
    }
    Descriptor file(open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK));
    const bool is_still = fstat(file.get(), &status) == 0 && is_file_of(mapping, status);
    return is_still ? std::move(file) : Descriptor();
}

// A file without a name is one that the process still has open.
Descriptor open_file_of(const Mapping& mapping, pid_t pid, int flags) {
    const std::string directory = directory_of(pid);
    Descriptor file = open_if_it_is(mapping, directory + "/root" + std::string(mapping.path), flags);
    const Result<std::vector<std::string>> open_files = FileTree().list(directory + "/fd");
    for (std::size_t i = 0; open_files && file.get() < 0 && i < open_files->size(); ++i) {
        file = open_if_it_is(mapping, directory + "/fd/" + (*open_files)[i], flags);
    }
    return file;
}

// The one mapping in which all of the region lies.
std::optional<Mapping> mapping_of(const engine::PublishedRegion& region, std::string_view maps) {
    for (Mapping mapping; take_mapping(maps, mapping);) {
        if (mapping.first <= region.host_addr && region.host_addr < mapping.end) {
            const bool is_all = region.len_bytes <= mapping.end - region.host_addr;
            return is_all && mapping.is_shared && mapping.inode != 0 ? std::optional(mapping) : std::nullopt;
        }
    }
    return std::nullopt;
}

} // namespace

SharedRegions::SharedRegions(pid_t pid) : pid_(pid), known_(std::make_unique<Known[]>(kKnown)) {}

// A search takes its time: two regions of one place don't drive each other out by turns.
bool SharedRegions::is_or_becomes(Known& known, const SeenRegion& seen) noexcept {
    if (known.key == seen.region.key && known.version == seen.version) {
        known.uses_of_others = 0;
        return true;
    }
    const bool was_searched = known.uses == kUsesBeforeSearch && known.key != seen.region.key;
    if (was_searched && ++known.uses_of_others < kUsesBeforeExchange) {
        return false;
    }
    known = Known{.key = seen.region.key, .version = seen.version};
    return true;
}

SharedRegions::Known& SharedRegions::place_of(const SeenRegion& seen) const noexcept {
    return known_[seen.region.key >> engine::kKeyVariantBits & (kKnown - 1)];
}

void SharedRegions::before_use(const SeenRegion& seen, Search search) noexcept {
    Known& known = place_of(seen);
    if (!is_or_becomes(known, seen) || known.uses == kUsesBeforeSearch) {
        return;
    }
    known.uses = search == Search::kNow ? kUsesBeforeSearch : known.uses + 1;
    if (known.uses == kUsesBeforeSearch) {
        (void)at_boundary("memory of a process of this host", [&]() -> Result<void> {
            look_for(seen.region, known);
            return {};
        });
    }
}

std::optional<std::uint64_t> SharedRegions::find(const SeenRegion& seen, const Range& range) const noexcept {
    const Known& known = place_of(seen);
    const bool is_mapped = known.key == seen.region.key && known.version == seen.version &&
                           range.addr >= known.range.addr && range.len_bytes <= known.range.len_bytes &&
                           range.addr - known.range.addr <= known.range.len_bytes - range.len_bytes;
    return is_mapped && range.len_bytes != 0 ? std::optional(known.here + (range.addr - known.range.addr))
                                             : std::nullopt;
}

void SharedRegions::look_for(const engine::PublishedRegion& region, Known& known) const {
    const Result<std::string> maps = FileTree().read(directory_of(pid_) + "/maps", kLargestMappings);
    const std::optional<Mapping> mapping = maps ? mapping_of(region, *maps) : std::nullopt;
    if (!mapping) {
        return;
    }
    const bool writes = (region.access & kWritingAccess) != 0;
    const Descriptor file = open_file_of(*mapping, pid_, writes ? O_RDWR : O_RDONLY);
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    std::uint64_t first = region.host_addr & ~(page - 1);
    const int protection = PROT_READ | (writes ? PROT_WRITE : 0);
    const auto map_from = [&](std::uint64_t begin, std::uint64_t end) {
        return MappedBytes::map(file.get(), mapping->offset + (begin - mapping->first), end - begin,
                                protection);
    };
    Result<MappedBytes> bytes = map_from(first, region.host_addr + region.len_bytes);
    if (!bytes) { // huge pages, of which the process has mapped whole ones
        first = mapping->first;
        bytes = map_from(first, mapping->end);
    }
    if (bytes) {
        known.bytes = *std::move(bytes);
        known.range = {region.host_addr, region.len_bytes};
        known.here = reinterpret_cast<std::uintptr_t>(known.bytes.at()) + (region.host_addr - first);
    }
}

} // namespace sluice::roce::near
