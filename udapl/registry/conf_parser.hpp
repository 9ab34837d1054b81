// SPDX-License-Identifier: BSD-3-Clause
//
// The text of a dat.conf, line by line: an entry, or what is wrong with the line.
//
// A line has eight fields between blanks: IA name, API version, thread safety, default or not,
// library, the provider's version, instance data, platform. A field may stand in double quotes; a
// backslash takes the next byte as it is; '#' where a field could begin starts a comment. One bad
// line costs nothing but itself: unlike sluice.conf, such a file is written by several packages.
//
// The text is hostile. Its length and the number of its entries are bounded, and it may hold any
// byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::dat {

constexpr std::size_t kMaxConfBytes = std::size_t{256} * 1024;
constexpr std::size_t kMaxConfEntries = 4096;
constexpr std::size_t kMaxIaName = 255; // DAT_NAME_MAX_LENGTH, without the byte that ends it

struct ConfEntry {
    std::string ia_name;
    std::uint32_t api_major = 0;
    std::uint32_t api_minor = 0;
    bool is_thread_safe = false;
    bool is_default = false;
    bool is_for_kernel = false;
    std::string library;
    std::string provider_version;
    std::string instance_data;
    std::string platform;
    int line = 0;
};

struct ConfProblem {
    int line;
    std::string text;
};

struct Conf {
    std::vector<ConfEntry> entries;
    std::vector<ConfProblem> problems;
};

Conf parse_conf(std::string_view text);

} // namespace sluice::dat
