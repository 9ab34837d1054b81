// SPDX-License-Identifier: BSD-3-Clause
#include "tools/check/record.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace sluice::tools::check {

namespace {

using report::file::number_in;
using report::file::take_until_space;

constexpr std::string_view kForm = "1";

bool continues(char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

// Bytes of the character that TEXT begins with; 0: it is none, or one that terminals execute.
std::size_t bytes_of_character(std::string_view text) {
    const auto first = static_cast<unsigned char>(text[0]);
    if (first < 0x80) {
        return first >= ' ' && first != 0x7f ? 1 : 0;
    }
    const std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || text.size() < bytes ||
        !std::ranges::all_of(text.substr(1, bytes - 1), continues)) {
        return 0;
    }
    const auto second = static_cast<unsigned char>(text[1]);
    // Overlong forms, surrogates, what lies beyond Unicode, and the control characters from U+0080.
    const bool is_wrong = (first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0) ||
                          (first == 0xf0 && second < 0x90) || (first == 0xf4 && second >= 0x90) ||
                          (first == 0xc2 && second < 0xa0);
    return is_wrong ? 0 : bytes;
}

} // namespace

std::string printable(std::string_view text) {
    std::string result;
    result.reserve(text.size());
    while (!text.empty()) {
        const std::size_t bytes = bytes_of_character(text);
        result += bytes == 0 ? "?" : text.substr(0, bytes);
        text.remove_prefix(std::max<std::size_t>(bytes, 1));
    }
    return result;
}

bool is_rule(std::string_view text) {
    constexpr std::size_t kLongestRule = 64;
    return !text.empty() && text.size() <= kLongestRule && std::ranges::all_of(text, [](char each) {
        return (each >= 'a' && each <= 'z') || (each >= '0' && each <= '9') || each == '-';
    });
}

std::optional<Frame> frame_in(std::string_view text) {
    const std::string_view offset = take_until_space(text);
    const std::string_view function = take_until_space(text);
    if (!offset.starts_with("0x") || function.empty() || text.empty()) {
        return std::nullopt;
    }
    const auto number = number_in<std::uint64_t>(offset.substr(2), 16);
    if (!number) {
        return std::nullopt;
    }
    return Frame{.offset = *number, .function = printable(function), .module = printable(text)};
}

RecordReader::Batch RecordReader::feed(std::string_view bytes) {
    Batch batch;
    lines_.feed(bytes, [&](std::string_view line) { take_line(line, batch); });
    return batch;
}

void RecordReader::take_line(std::string_view line, Batch& batch) {
    const std::string_view word = take_until_space(line);
    if (word == "finding") {
        begin(line);
    } else if (word == "blind") {
        batch.blind_spots.push_back(printable(line));
    } else if (is_in_record_ && word == "end") {
        end(batch);
    } else if (is_in_record_) {
        take_word(word, line);
    }
}

void RecordReader::take_word(std::string_view word, std::string_view text) {
    using Text = std::pair<std::string_view, std::string*>;
    for (const auto& [name, to] : {Text{"rule", &finding_.rule}, Text{"object", &finding_.object},
                                   Text{"what", &finding_.what}, Text{"remedy", &finding_.remedy}}) {
        if (word == name) {
            *to = printable(text);
            return;
        }
    }
    if (word == "pid") {
        finding_.pid = number_in<std::int64_t>(text).value_or(0);
    } else if (word == "side" && finding_.sides.size() < kMostSides) {
        finding_.sides.push_back({.title = printable(text), .frames = {}});
    } else if (word == "frame" && !finding_.sides.empty() &&
               finding_.sides.back().frames.size() < kMostFrames) {
        if (std::optional<Frame> frame = frame_in(text)) {
            finding_.sides.back().frames.push_back(std::move(*frame));
        }
    }
}

void RecordReader::begin(std::string_view form) {
    if (is_in_record_ || form != kForm) {
        ++unreadable_;
    }
    finding_ = {};
    is_in_record_ = form == kForm;
}

void RecordReader::end(Batch& batch) {
    if (is_rule(finding_.rule)) {
        batch.findings.push_back(std::exchange(finding_, {}));
    } else {
        ++unreadable_;
    }
    is_in_record_ = false;
}

} // namespace sluice::tools::check
