// SPDX-License-Identifier: BSD-3-Clause
//
// What the parsers of settings and of the kernel's tables share.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::roce::socket {

// Takes what stands before SEPARATOR off TEXT.
inline std::string_view take_word(std::string_view& text, char separator) {
    const std::size_t end = std::min(text.find(separator), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return word;
}

// No table of the kernel's is read beyond that.
inline constexpr std::size_t kMaxTableBytes = std::size_t{1} << 20;

// The first words of a line of a table of the kernel's; those that there are not are empty.
template<std::size_t kCount>
std::array<std::string_view, kCount> words_of(std::string_view line) noexcept {
    std::array<std::string_view, kCount> words;
    for (std::string_view& word : words) {
        line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
        word = line.substr(0, line.find(' '));
        line.remove_prefix(word.size());
    }
    return words;
}

// A word of the text for an error, in quotes: short, and nothing that moves a terminal's cursor. A function
// named quoted would be std::quoted for some arguments, where a standard header brings that.
inline std::string in_quotes(std::string_view word) {
    constexpr std::size_t kMost = 40;
    std::string text("'");
    text += word.substr(0, kMost);
    std::ranges::replace_if(
        text, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }, '?');
    text += word.size() > kMost ? "...'" : "'";
    return text;
}

template<typename Number>
std::optional<Number> whole_number(std::string_view text) {
    Number number{};
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

} // namespace sluice::roce::socket
