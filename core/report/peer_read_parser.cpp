// SPDX-License-Identifier: BSD-3-Clause
#include "core/report/peer_read_parser.hpp"

#include <utility>

namespace sluice::report {

namespace {

using file::add_line;
using file::take_until_space;

constexpr std::string_view kFrameWord = "peer-frame";
constexpr std::size_t kLongestFrames = 64 * file::kLongestLine;

template<typename Number>
bool take_number(std::string_view& text, Number& number) {
    const std::optional<Number> taken = file::number_in<Number>(take_until_space(text));
    number = taken.value_or(0);
    return taken.has_value();
}

} // namespace

std::vector<PeerRead> PeerReadParser::feed(std::string_view bytes, pid_t itself) {
    std::vector<PeerRead> whole;
    lines_.feed(bytes, [&](std::string_view line) {
        if (!take_line(line)) {
            return;
        }
        PeerRead read = *std::exchange(record_, std::nullopt);
        if (process_ != itself) {
            whole.push_back(std::move(read));
        }
    });
    return whole;
}

bool PeerReadParser::take_line(std::string_view line) {
    const std::string_view word = take_until_space(line);
    if (word == kEndWord && record_) {
        return true;
    }
    if (word == kReadWord) {
        PeerRead& read = record_.emplace();
        if (!take_number(line, process_) || !take_number(line, read.number) ||
            !take_number(line, read.first) || !take_number(line, read.last) ||
            !take_number(line, read.posted_ns) || read.first > read.last || line.empty()) {
            record_.reset();
            return false;
        }
        read.address = line;
    } else if (word == kFrameWord && record_ && record_->frames.size() + line.size() < kLongestFrames) {
        add_line(record_->frames, "frame", line); // of a finding, of which it becomes a part
    } else {
        record_.reset();
    }
    return false;
}

} // namespace sluice::report
