// SPDX-License-Identifier: BSD-3-Clause
//
// Lines of words and numbers, as libraries write them for `sluice check` and each other, and as strangers
// may.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::report::file {

// WORD and TEXT become one line of TO, whatever TEXT holds.
inline void add_line(std::string& to, std::string_view word, std::string_view text) {
    to.append(word).append(" ");
    std::ranges::transform(text, std::back_inserter(to),
                           [](char each) { return static_cast<unsigned char>(each) < ' ' ? ' ' : each; });
    to.append("\n");
}

// The number in TEXT, all of it.
template<typename Number>
std::optional<Number> number_in(std::string_view text, int base = 10) {
    Number number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
    if (error != std::errc() || end != text.data() + text.size()) {
        return std::nullopt;
    }
    return number;
}

// The text up to the next space, which it takes away with it.
inline std::string_view take_until_space(std::string_view& text) {
    const std::size_t at = std::min(text.find(' '), text.size());
    const std::string_view taken = text.substr(0, at);
    text.remove_prefix(std::min(at + 1, text.size()));
    return taken;
}

inline constexpr std::size_t kLongestLine = 8192;

// Pieces of a file as lines. One that is longer is passed over.
class LineReader {
  public:
    // Calls TAKE(line) for each that has become whole by BYTES, which follow those of the last call.
    template<typename Take>
    void feed(std::string_view bytes, const Take& take) {
        while (!bytes.empty()) {
            const std::size_t end = bytes.find('\n');
            const std::string_view part = bytes.substr(0, end);
            is_too_long_ = is_too_long_ || line_.size() + part.size() > kLongestLine;
            if (!is_too_long_) {
                line_.append(part);
            }
            if (end == std::string_view::npos) {
                return;
            }
            if (!is_too_long_) {
                take(std::string_view(line_));
            }
            line_.clear();
            is_too_long_ = false;
            bytes.remove_prefix(end + 1);
        }
    }

  private:
    std::string line_; // whose end hasn't come
    bool is_too_long_ = false;
};

} // namespace sluice::report::file
