// SPDX-License-Identifier: BSD-3-Clause
//
// What the parsers of settings share.
#pragma once

#include <algorithm>
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
