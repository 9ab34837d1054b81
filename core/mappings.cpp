// SPDX-License-Identifier: BSD-3-Clause
#include "core/mappings.hpp"

#include <algorithm>
#include <charconv>

namespace sluice {

namespace {

constexpr std::string_view kFlags = "VmFlags:";
constexpr std::string_view kSynchronous = "sf";
constexpr std::string_view kSpecial[] = {"ht", "io", "pf"};

// What stands before the next STOP, which goes.
std::string_view take_until(std::string_view& text, char stop) noexcept {
    const std::string_view word = text.substr(0, text.find(stop));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    return word;
}

bool read_number(std::string_view word, int base, std::uint64_t& number) noexcept {
    const char* const end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data(), end, number, base);
    return error == std::errc() && stop == end && !word.empty();
}

// "7f00-7f10 rw-s 00001000 00:01 1035      /dev/zero (deleted)".
bool parse(std::string_view line, Mapping& mapping) noexcept {
    std::string_view range = take_until(line, ' ');
    const std::string_view first = take_until(range, '-');
    const std::string_view rights = take_until(line, ' ');
    const std::string_view offset = take_until(line, ' ');
    mapping = {};
    mapping.is_readable = rights.starts_with('r');
    mapping.is_writable = rights.find('w') != std::string_view::npos;
    mapping.is_executable = rights.find('x') != std::string_view::npos;
    mapping.is_shared = rights.ends_with('s');
    mapping.device = take_until(line, ' ');
    const std::string_view inode = take_until(line, ' ');
    mapping.path = line.substr(std::min(line.find_first_not_of(' '), line.size()));
    return read_number(first, 16, mapping.first) && read_number(range, 16, mapping.end) &&
           read_number(offset, 16, mapping.offset) && read_number(inode, 10, mapping.inode);
}

bool has_word(std::string_view text, std::string_view wanted) noexcept {
    while (!text.empty()) {
        if (take_until(text, ' ') == wanted) {
            return true;
        }
    }
    return false;
}

} // namespace

bool take_mapping(std::string_view& text, Mapping& mapping) noexcept {
    bool found = false;
    while (!text.empty()) {
        std::string_view rest = text;
        const std::string_view line = take_until(rest, '\n');
        Mapping next;
        if (parse(line, next)) {
            if (found) {
                return true; // it is the one after
            }
            mapping = next;
            found = true;
        } else if (found && line.starts_with(kFlags)) {
            mapping.is_synchronous = has_word(line, kSynchronous);
            mapping.is_special =
                std::ranges::any_of(kSpecial, [&](std::string_view word) { return has_word(line, word); });
        }
        text = rest;
    }
    return found;
}

} // namespace sluice
