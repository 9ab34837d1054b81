// SPDX-License-Identifier: BSD-3-Clause
#include "rpma/persistence.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <string>
#include <type_traits>

#include "core/coherence/power.hpp"
#include "core/descriptor.hpp"
#include "core/file_tree.hpp"
#include "core/mappings.hpp"
#include "ibverbs-glue/adaptors.hpp"

namespace sluice::rpma {

namespace {

// What is used of libpmem2's interface, node LIBPMEM2_1.0.
struct Libpmem2 {
    static constexpr int kBytes = 0; // granularities of stores; the caches are within the reach of power
    static constexpr int kCacheLines = 1;
    static constexpr int kPages = 2;
    static constexpr unsigned kRead = 1U << 30;

    int (*source_from_fd)(void** source, int fd) = nullptr;
    int (*source_delete)(void** source) = nullptr;
    int (*config_new)(void** config) = nullptr;
    int (*config_set_required_store_granularity)(void* config, int granularity) = nullptr;
    int (*config_set_protection)(void* config, unsigned protection) = nullptr;
    int (*config_delete)(void** config) = nullptr;
    int (*map_new)(void** map, const void* config, const void* source) = nullptr;
    int (*map_get_store_granularity)(void* map) = nullptr;
    int (*map_delete)(void** map) = nullptr;
    bool is_there = false;

    Libpmem2() noexcept {
        void* const library = dlopen("libpmem2.so.1", RTLD_NOW | RTLD_LOCAL); // stays
        const auto find = [&](auto& function, const char* name) {
            function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
            return function != nullptr;
        };
        is_there =
            library != nullptr && find(source_from_fd, "pmem2_source_from_fd") &&
            find(source_delete, "pmem2_source_delete") && find(config_new, "pmem2_config_new") &&
            find(config_set_required_store_granularity, "pmem2_config_set_required_store_granularity") &&
            find(config_set_protection, "pmem2_config_set_protection") &&
            find(config_delete, "pmem2_config_delete") && find(map_new, "pmem2_map_new") &&
            find(map_get_store_granularity, "pmem2_map_get_store_granularity") &&
            find(map_delete, "pmem2_map_delete");
    }
};

// Maps the file once more, for a moment and to be read: that is how libpmem2 finds out.
Result<bool> ask_libpmem2(int fd) {
    static const Libpmem2 library;
    if (!library.is_there) {
        return Error(ErrorKind::kNotSupported,
                     "whether a file is persistent memory only libpmem2 can tell; install libpmem2.so.1");
    }
    void* source = nullptr;
    void* config = nullptr;
    void* map = nullptr;
    const bool is_mapped = library.source_from_fd(&source, fd) == 0 && library.config_new(&config) == 0 &&
                           library.config_set_required_store_granularity(config, Libpmem2::kPages) == 0 &&
                           library.config_set_protection(config, Libpmem2::kRead) == 0 &&
                           library.map_new(&map, config, source) == 0;
    const int granularity = is_mapped ? library.map_get_store_granularity(map) : Libpmem2::kPages;
    if (map != nullptr) {
        library.map_delete(&map);
    }
    if (config != nullptr) {
        library.config_delete(&config);
    }
    if (source != nullptr) {
        library.source_delete(&source);
    }
    if (!is_mapped) {
        return Error(ErrorKind::kInvalidState, "libpmem2 can't map the file to look at it");
    }
    return granularity == Libpmem2::kBytes || granularity == Libpmem2::kCacheLines;
}

// A device whose pages are memory of its own; others may do anything when they are opened.
bool is_dax_device(const struct stat& status) {
    if (!S_ISCHR(status.st_mode)) {
        return false;
    }
    const std::string node = "/sys/dev/char/" + std::to_string(major(status.st_rdev)) + ":" +
                             std::to_string(minor(status.st_rdev)) + "/subsystem";
    const Result<std::string> subsystem = FileTree().resolve(node);
    return subsystem.ok() && name_of(*subsystem) == "dax";
}

Result<bool> is_persistent(const Mapping& mapping) {
    struct stat status {};
    const std::string path(mapping.path);
    const bool is_found = !path.empty() && path.front() == '/' && stat(path.c_str(), &status) == 0 &&
                          status.st_ino == mapping.inode;
    if (!mapping.is_shared || !(mapping.is_synchronous || (is_found && is_dax_device(status)))) {
        return false;
    }
    if (!is_found) {
        return Error(
            ErrorKind::kNotFound,
            "a mapped file isn't at its path any more, so that its persistence cannot be determined");
    }
    const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) {
        return glue::failed_by(errno, "opening a file that is mapped, to look at it");
    }
    return ask_libpmem2(file.get());
}

} // namespace

Result<bool> is_persistent(const void* address, std::size_t size) {
    if (coherence::is_simulated_persistent(address, size)) {
        return true;
    }
    const Result<std::string> told = FileTree().read("/proc/self/smaps", kLargestMappings);
    if (!told) {
        return told.error().clone();
    }
    std::string_view text = *told;
    const auto begin = reinterpret_cast<std::uintptr_t>(address);
    std::uint64_t at = begin; // so far all is
    std::string_view asked;   // the file that was asked about last: many mappings may be of one
    bool is_all = true;
    for (Mapping mapping; at - begin < size && take_mapping(text, mapping);) {
        if (at < mapping.first || at >= mapping.end) {
            continue;
        }
        if (is_all && (asked.empty() || asked != mapping.path || !mapping.is_synchronous)) {
            Result<bool> answer = is_persistent(mapping);
            if (!answer) {
                return answer;
            }
            is_all = *answer;
            asked = mapping.path;
        }
        at = mapping.end;
    }
    if (at - begin < size) {
        return Error(ErrorKind::kInvalidArgument, "not all of the memory is mapped");
    }
    return is_all;
}

} // namespace sluice::rpma
