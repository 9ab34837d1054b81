// SPDX-License-Identifier: BSD-3-Clause
//
// What is mapped into this process, as the kernel tells it in /proc/self/maps and, at more length and
// cost, in /proc/self/smaps.
//
// Thread safety: there is nothing but the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice {

// As long a text as a program may be expected to have.
inline constexpr std::size_t kLargestMappings = std::size_t{64} << 20;

struct Mapping {
    std::uint64_t first = 0;
    std::uint64_t end = 0;
    bool is_readable = false;
    bool is_writable = false;
    bool is_executable = false;
    bool is_shared = false;
    bool is_synchronous = false; // MAP_SYNC; smaps alone tells
    bool is_special = false;     // a device's memory, or pages of hugetlbfs; smaps alone tells
    std::uint64_t offset = 0;
    // What is mapped; the three point into the text.
    std::string_view device; // as the kernel spells it: "08:01"
    std::uint64_t inode = 0; // 0: no file
    std::string_view path;   // with " (deleted)" behind it, if so
};

// Takes the next mapping off TEXT, with all lines about it. False: there is none left.
bool take_mapping(std::string_view& text, Mapping& mapping) noexcept;

} // namespace sluice
