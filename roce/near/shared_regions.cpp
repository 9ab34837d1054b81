// SPDX-License-Identifier: BSD-3-Clause
#include "roce/near/shared_regions.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdio>
#include <new>
#include <string>

#include "core/boundary.hpp"
#include "core/file_tree.hpp"
#include "core/mappings.hpp"

namespace sluice::roce::near {

namespace {

constexpr const char* kCantMapMemory = "can't map memory of a process of this host";
constexpr std::uint32_t kUsesBeforeSearch = 4;
constexpr std::uint32_t kUsesBeforeExchange = 256;
constexpr std::uint32_t kWritingAccess = engine::kRemoteWrite | engine::kRemoteAtomic;

std::string directory_of(pid_t pid) {
    return "/proc/" + std::to_string(pid);
}

// What a link in /proc says, which asks no file system.
std::string link_text(const std::string& path) {
    std::array<char, PATH_MAX> text{};
    const ssize_t length = readlink(path.c_str(), text.data(), text.size());
    return length < 0 ? std::string() : std::string(text.data(), static_cast<std::size_t>(length));
}

bool is_file_of(const Mapping& mapping, const struct stat& status) {
    std::array<char, 32> device{};
    std::snprintf(device.data(), device.size(), "%02x:%02x", major(status.st_dev), minor(status.st_dev));
    return S_ISREG(status.st_mode) && status.st_ino == mapping.inode && mapping.device == device.data();
}

bool leads_to(const std::string& path, const Mapping& mapping) {
    struct stat status {};
    return stat(path.c_str(), &status) == 0 && is_file_of(mapping, status);
}

// The file of MAPPING among those that the process with this DIRECTORY in /proc has open. Only the file
// system of one that has the same path is asked. Empty: it isn't open.
std::string find_open_file(const std::string& directory, const Mapping& mapping) {
    const Result<std::vector<std::string>> open_files = FileTree().list(directory + "/fd");
    for (std::size_t i = 0; open_files && i < open_files->size(); ++i) {
        std::string name = directory + "/fd/" + (*open_files)[i];
        if (link_text(name) == mapping.path && leads_to(name, mapping)) {
            return name;
        }
    }
    return {};
}

// None: what is at PATH, which may be a link, is another file than that of MAPPING. Such a one isn't opened:
// it may be a device.
Descriptor open_if_it_is(const Mapping& mapping, const std::string& path, int flags) {
    struct stat status {};
    if (!leads_to(path, mapping)) {
        return Descriptor();
    }
    Descriptor file(open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK));
    const bool is_still = fstat(file.get(), &status) == 0 && is_file_of(mapping, status);
    return is_still ? std::move(file) : Descriptor();
}

// One that the process has open, or that of its path there. Not one that this process has open itself:
// closing a descriptor takes away the record locks of the program.
Descriptor open_file_of(const Mapping& mapping, pid_t pid, int flags) {
    if (!find_open_file("/proc/self", mapping).empty()) {
        return Descriptor();
    }
    const std::string directory = directory_of(pid);
    const std::string open_file = find_open_file(directory, mapping);
    return open_if_it_is(
        mapping, open_file.empty() ? directory + "/root" + std::string(mapping.path) : open_file, flags);
}

bool needs_writing(const engine::PublishedRegion& region) noexcept {
    return (region.access & kWritingAccess) != 0;
}

// The line of the process's mappings that the region begins in. Empty: there is none.
std::string line_of(const engine::PublishedRegion& region, pid_t pid) {
    std::string found;
    (void)FileTree().read_lines(directory_of(pid) + "/maps", kLargestMappings, [&](std::string_view line) {
        Mapping mapping;
        std::string_view rest = line;
        if (take_mapping(rest, mapping) && mapping.first <= region.host_addr &&
            region.host_addr < mapping.end) {
            found = line;
        }
        return found.empty();
    });
    return found;
}

// The mapping that LINE is about, if all of the region lies in it and its process itself may do there what
// the region says.
std::optional<Mapping> mapping_of(const engine::PublishedRegion& region, std::string_view line) {
    Mapping mapping;
    const bool fits = take_mapping(line, mapping) && region.len_bytes <= mapping.end - region.host_addr &&
                      mapping.is_shared && mapping.inode != 0 &&
                      (mapping.is_writable || !needs_writing(region));
    return fits ? std::optional(mapping) : std::nullopt;
}

std::uint64_t page_bytes_of(const Descriptor& file) noexcept {
    struct statfs system {};
    const bool is_huge = fstatfs(file.get(), &system) == 0 && system.f_type == HUGETLBFS_MAGIC;
    return static_cast<std::uint64_t>(is_huge ? system.f_bsize : sysconf(_SC_PAGESIZE));
}

// Where the file's blocks are memory, a peer's writes must be as durable as the process's own: its flush only
// writes caches back.
Result<MappedBytes> map_as_durable(const engine::PublishedRegion& region, const Descriptor& file,
                                   std::uint64_t offset, std::uint64_t len_bytes) {
    const int protection = PROT_READ | (needs_writing(region) ? PROT_WRITE : 0);
    Result<MappedBytes> bytes = MappedBytes::map(kCantMapMemory, file.get(), offset, len_bytes, protection,
                                                 MAP_SHARED_VALIDATE | MAP_SYNC);
    const bool may_be_lost = (region.access & engine::kFlushPersistent) == 0;
    return bytes || !may_be_lost
               ? std::move(bytes)
               : MappedBytes::map(kCantMapMemory, file.get(), offset, len_bytes, protection);
}

} // namespace

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

// False: there is no memory for them, and nothing is mapped.
bool SharedRegions::has_places() noexcept {
    if (known_ == nullptr) {
        known_.reset(new (std::nothrow) Known[kKnown]);
    }
    return known_ != nullptr;
}

SharedRegions::Known& SharedRegions::place_of(std::uint32_t key) const noexcept {
    return known_[key >> engine::kKeyVariantBits & (kKnown - 1)];
}

bool SharedRegions::is_settled(std::uint32_t key) noexcept {
    if (known_ == nullptr) {
        return false;
    }
    Known& known = place_of(key);
    const bool is_it = known.key == key && known.uses == kUsesBeforeSearch;
    known.uses_of_others = is_it ? 0 : known.uses_of_others;
    return is_it;
}

bool SharedRegions::before_use(const SeenRegion& seen, Search search) noexcept {
    if (!has_places()) {
        return false;
    }
    Known& known = place_of(seen.region.key);
    if (!is_or_becomes(known, seen) || known.uses == kUsesBeforeSearch) {
        return false;
    }
    known.uses = search == Search::kNow ? kUsesBeforeSearch : known.uses + 1;
    if (known.uses == kUsesBeforeSearch) {
        (void)at_boundary("memory of a process of this host", [&]() -> Result<void> {
            look_for(seen.region, known);
            return {};
        });
    }
    return known.range.len_bytes != 0;
}

std::optional<std::uint64_t> SharedRegions::find(const SeenRegion& seen, const Range& range) noexcept {
    if (known_ == nullptr) {
        return std::nullopt;
    }
    Known& known = place_of(seen.region.key);
    if (known.key == seen.region.key && known.version != seen.version) {
        known.uses = 0;
    }
    const bool is_mapped = known.key == seen.region.key && known.version == seen.version &&
                           range.addr >= known.range.addr && range.len_bytes <= known.range.len_bytes &&
                           range.addr - known.range.addr <= known.range.len_bytes - range.len_bytes;
    return is_mapped && range.len_bytes != 0 ? std::optional(known.here + (range.addr - known.range.addr))
                                             : std::nullopt;
}

void SharedRegions::look_for(const engine::PublishedRegion& region, Known& known) const {
    const std::string line = line_of(region, pid_);
    const std::optional<Mapping> mapping = mapping_of(region, line);
    if (!mapping) {
        return;
    }
    const Descriptor file = open_file_of(*mapping, pid_, needs_writing(region) ? O_RDWR : O_RDONLY);
    const std::uint64_t page = page_bytes_of(file);
    const std::uint64_t offset = mapping->offset + (region.host_addr - mapping->first);
    const std::uint64_t first = offset & ~(page - 1);
    const std::uint64_t end = (offset + region.len_bytes + page - 1) & ~(page - 1);
    Result<MappedBytes> bytes = map_as_durable(region, file, first, end - first);
    if (bytes) {
        known.bytes = *std::move(bytes);
        known.range = {region.host_addr, region.len_bytes};
        known.here = reinterpret_cast<std::uintptr_t>(known.bytes.at()) + (offset - first);
    }
}

} // namespace sluice::roce::near
