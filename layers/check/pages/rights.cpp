// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/pages/rights.hpp"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>
#include <utility>

#include "core/file_tree.hpp"
#include "core/mappings.hpp"

namespace sluice::layers::check::pages {

namespace {

PageRange pages_of(std::uint64_t first, std::uint64_t end) noexcept {
    return {.first = first / page_bytes(), .end = (end + page_bytes() - 1) / page_bytes()};
}

bool overlap(PageRange a, PageRange b) noexcept {
    return a.first < b.end && b.first < a.end;
}

// The heap, and what mmap() gives without a file. Programs may give such memory names.
bool is_anonymous(const Mapping& mapping) noexcept {
    return mapping.inode == 0 &&
           (mapping.path.empty() || mapping.path == "[heap]" || mapping.path.starts_with("[anon:"));
}

Rights rights_of(const Mapping& mapping) noexcept {
    const bool may_be_protected = mapping.is_readable && !mapping.is_executable && !mapping.is_special &&
                                  (is_anonymous(mapping) || mapping.inode != 0);
    if (!may_be_protected) {
        return Rights::kRefused;
    }
    return mapping.is_writable ? Rights::kReadWrite : Rights::kRead;
}

std::vector<KnownRange> list(std::string_view text, PageRange pages) {
    std::vector<KnownRange> known;
    for (Mapping mapping; take_mapping(text, mapping);) {
        const PageRange whole = pages_of(mapping.first, mapping.end);
        if (overlap(whole, pages)) {
            known.push_back({.pages = {.first = std::max(whole.first, pages.first),
                                       .end = std::min(whole.end, pages.end)},
                             .rights = rights_of(mapping)});
        }
    }
    return known;
}

bool has_file(std::string_view text, PageRange pages) noexcept {
    for (Mapping mapping; take_mapping(text, mapping);) {
        if (mapping.inode != 0 && overlap(pages_of(mapping.first, mapping.end), pages)) {
            return true;
        }
    }
    return false;
}

// Where the kernel finds a thread's robust mutexes; 0: nowhere, or the thread has ended.
Result<std::uint64_t> descriptor_of(pid_t thread) noexcept {
    void* head = nullptr;
    std::size_t length = 0;
    if (syscall(SYS_get_robust_list, thread, &head, &length) == 0) {
        return std::uint64_t{reinterpret_cast<std::uintptr_t>(head)};
    }
    if (errno == ESRCH) {
        return std::uint64_t{0};
    }
    return Error(ErrorKind::kNotSupported,
                 "get_robust_list() is refused, so that threads' stacks aren't known", errno);
}

std::uint64_t usual_stack_bytes() noexcept {
    pthread_attr_t attributes;
    std::size_t bytes = 0;
    if (pthread_attr_init(&attributes) == 0) {
        (void)pthread_attr_getstacksize(&attributes, &bytes);
        (void)pthread_attr_destroy(&attributes);
    }
    return bytes;
}

// Of all threads but the main one, whose has a name.
Result<std::vector<PageRange>> stacks_of_threads(const FileTree& files, std::string_view maps) {
    Result<std::vector<std::string>> threads = files.list("/proc/self/task");
    if (!threads) {
        return std::move(threads).error();
    }
    std::vector<PageRange> stacks;
    for (const std::string& name : *threads) {
        pid_t thread = 0;
        (void)std::from_chars(name.data(), name.data() + name.size(), thread);
        if (thread == getpid()) {
            continue;
        }
        Result<std::uint64_t> top = descriptor_of(thread);
        if (!top) {
            return std::move(top).error();
        }
        if (*top != 0) {
            stacks.push_back(stack_below(maps, *top, usual_stack_bytes()));
        }
    }
    return stacks;
}

// Those that are refused come first: who learns a page's rights keeps the first ones.
std::vector<KnownRange> without_stacks(const std::vector<PageRange>& stacks,
                                       const std::vector<KnownRange>& known, PageRange pages) {
    std::vector<KnownRange> all;
    for (const PageRange& stack : stacks) {
        if (overlap(stack, pages)) {
            all.push_back({.pages = {.first = std::max(stack.first, pages.first),
                                     .end = std::min(stack.end, pages.end)},
                           .rights = Rights::kRefused});
        }
    }
    all.insert(all.end(), known.begin(), known.end());
    return all;
}

} // namespace

PageRange stack_below(std::string_view maps, std::uint64_t top, std::uint64_t usual_bytes) {
    std::uint64_t first = 0;
    std::uint64_t end = 0;
    for (Mapping mapping; take_mapping(maps, mapping) && mapping.first <= top;) {
        const bool goes_on = mapping.first == end && first != end && mapping.is_readable;
        first = goes_on ? first : mapping.first;
        end = mapping.end;
        if (!mapping.is_readable || mapping.path == "[heap]") {
            first = end; // a guard, or nothing that a stack is made of
        }
    }
    if (top < first || top >= end) {
        return {};
    }
    return pages_of(std::max(first, top - std::min(usual_bytes, top)), top + 1);
}

Result<std::vector<KnownRange>> read_rights(PageRange pages) {
    const FileTree files;
    Result<std::string> maps = files.read("/proc/self/maps", kLargestMappings);
    if (!maps) {
        return std::move(maps).error();
    }
    Result<std::vector<PageRange>> stacks = stacks_of_threads(files, *maps);
    if (!stacks) {
        return std::move(stacks).error();
    }
    if (!has_file(*maps, pages)) {
        return without_stacks(*stacks, list(*maps, pages), pages);
    }
    // It says of a file whether it is a device or has huge pages, and takes more time.
    Result<std::string> smaps = files.read("/proc/self/smaps", kLargestMappings);
    if (!smaps) {
        return std::move(smaps).error();
    }
    return without_stacks(*stacks, list(*smaps, pages), pages);
}

} // namespace sluice::layers::check::pages
