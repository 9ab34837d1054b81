// SPDX-License-Identifier: BSD-3-Clause
#include "tools/check/timeline.hpp"

#include <algorithm>
#include <iterator>
#include <optional>

namespace sluice::tools::check {

namespace {

using report::file::take_until_space;

// Limits to what a program can cost us.
constexpr std::size_t kMostTimelineEvents = 2'000'000;
constexpr std::size_t kMostRegions = 1'000;
constexpr std::size_t kMostStacks = 2'000;
constexpr std::size_t kMostCalls = 1'000;
constexpr std::size_t kMostMistakes = 10'000;
constexpr std::size_t kLongestCall = 100;
constexpr std::uint64_t kMostRegionBytes = std::uint64_t{1} << 50;

// The next number in TEXT, which it takes away with it.
bool take_number(std::string_view& text, std::uint64_t& number) {
    const auto found = report::file::number_in<std::uint64_t>(take_until_space(text));
    number = found.value_or(0);
    return found.has_value();
}

bool take_numbers(std::string_view& text, std::initializer_list<std::uint64_t*> numbers) {
    return std::ranges::all_of(numbers, [&](std::uint64_t* number) { return take_number(text, *number); });
}

std::int64_t pid_of(std::uint64_t number) noexcept {
    return static_cast<std::int64_t>(number & 0x7fffffff);
}

std::optional<LineEvent> event_named(std::string_view name) {
    const auto found = std::ranges::find(kLineEventNames, name);
    return found == kLineEventNames.end() || name == "mistake"
               ? std::nullopt
               : std::optional(static_cast<LineEvent>(found - kLineEventNames.begin()));
}

} // namespace

void TimelineReader::feed(std::string_view bytes) {
    lines_.feed(bytes, [this](std::string_view line) {
        if (!line.empty() && !take_line(line)) {
            ++timeline_.unreadable;
        }
    });
}

Timeline TimelineReader::finish() {
    std::ranges::stable_sort(timeline_.events, {}, &TimelineEvent::time_ns);
    return std::exchange(timeline_, {});
}

bool TimelineReader::take_line(std::string_view line) {
    const std::string_view word = take_until_space(line);
    const bool is_of_stack = std::exchange(is_in_stack_, false);
    const bool is_of_mistake = std::exchange(is_in_mistake_, false);
    if (word == "frame" && is_of_stack) {
        return take_frame(line);
    }
    if (word == "what" && is_of_mistake) {
        return take_text(line, &TimelineMistake::what);
    }
    if (word == "remedy" && is_of_mistake) {
        return take_text(line, &TimelineMistake::remedy);
    }
    if (word == "event" || word == "mistake") {
        return take_event(line, word == "mistake");
    }
    return word == "region"  ? take_region(line)
           : word == "stack" ? take_stack(line)
           : word == "gone"  ? take_gone(line)
                             : word == "lost" && take_lost(line);
}

bool TimelineReader::take_region(std::string_view text) {
    TimelineRegion region;
    std::uint64_t pid = 0;
    std::uint64_t number = 0;
    if (!take_numbers(text,
                      {&pid, &number, &region.line_bytes, &region.first, &region.bytes, &region.began_ns}) ||
        region.line_bytes == 0 || region.line_bytes > 4096 || region.first >= region.line_bytes ||
        region.bytes == 0 || region.bytes > kMostRegionBytes || timeline_.regions.size() >= kMostRegions) {
        return false;
    }
    const std::string_view host = take_until_space(text);
    region.pid = pid_of(pid);
    region.host = host == "-" ? "" : printable(host);
    region.name = printable(text);
    regions_[{region.pid, number}] = static_cast<std::uint32_t>(timeline_.regions.size());
    timeline_.regions.push_back(std::move(region));
    return true;
}

bool TimelineReader::take_stack(std::string_view text) {
    std::uint64_t pid = 0;
    std::uint64_t number = 0;
    if (!take_numbers(text, {&pid, &number}) || timeline_.stacks.size() >= kMostStacks) {
        return false;
    }
    stacks_[{pid_of(pid), number}] = static_cast<std::uint32_t>(timeline_.stacks.size());
    timeline_.stacks.emplace_back();
    is_in_stack_ = true;
    return true;
}

bool TimelineReader::take_frame(std::string_view text) {
    std::optional<Frame> frame = frame_in(text);
    if (!frame) {
        return false;
    }
    std::vector<Frame>& frames = timeline_.stacks.back();
    if (frames.size() < kMostFrames) {
        frames.push_back(std::move(*frame));
    }
    is_in_stack_ = true;
    return true;
}

std::uint32_t TimelineReader::index_of_call(std::string_view name) {
    const std::string shown = printable(name.substr(0, kLongestCall));
    if (const auto found = calls_.find(shown); found != calls_.end()) {
        return found->second;
    }
    if (timeline_.calls.size() >= kMostCalls) {
        return 0;
    }
    const auto index = static_cast<std::uint32_t>(timeline_.calls.size());
    calls_.emplace(shown, index);
    timeline_.calls.push_back(shown);
    return index;
}

bool TimelineReader::take_event(std::string_view text, bool is_mistake) {
    TimelineEvent event;
    std::uint64_t pid = 0;
    std::uint64_t number = 0;
    std::uint64_t stack = 0;
    if (!take_numbers(text, {&pid, &number})) {
        return false;
    }
    const auto region = regions_.find({pid_of(pid), number});
    const std::string_view word = take_until_space(text);
    const std::optional<LineEvent> kind =
        is_mistake ? (is_rule(word) ? std::optional(LineEvent::kMistake) : std::nullopt) : event_named(word);
    if (region == regions_.end() || !kind ||
        !take_numbers(text, {&event.time_ns, &event.since_ns, &event.first_byte, &event.end_byte, &stack}) ||
        event.first_byte >= event.end_byte || event.end_byte > kMostRegionBytes) {
        return false;
    }
    if (timeline_.events.size() >= kMostTimelineEvents ||
        (is_mistake && timeline_.mistakes.size() >= kMostMistakes)) {
        ++timeline_.left_out;
        return true;
    }
    event.kind = *kind;
    event.region = region->second;
    event.since_ns = std::min(event.since_ns, event.time_ns);
    const auto known = stacks_.find({pid_of(pid), stack});
    event.stack = known != stacks_.end() ? known->second : 0;
    event.call = index_of_call(text);
    TimelineRegion& of = timeline_.regions[event.region];
    of.bytes = std::max(of.bytes, event.end_byte); // a file may be mapped further than before
    if (is_mistake) {
        event.mistake = static_cast<std::uint32_t>(timeline_.mistakes.size());
        timeline_.mistakes.push_back({.rule = std::string(word), .what = {}, .remedy = {}});
        is_in_mistake_ = true;
    }
    timeline_.events.push_back(event);
    return true;
}

bool TimelineReader::take_text(std::string_view text, std::string TimelineMistake::*to) {
    timeline_.mistakes.back().*to = printable(text);
    is_in_mistake_ = true;
    return true;
}

bool TimelineReader::take_gone(std::string_view text) {
    std::uint64_t pid = 0;
    std::uint64_t number = 0;
    std::uint64_t time_ns = 0;
    if (!take_numbers(text, {&pid, &number, &time_ns})) {
        return false;
    }
    const auto region = regions_.find({pid_of(pid), number});
    if (region == regions_.end()) {
        return false;
    }
    timeline_.regions[region->second].ended_ns = time_ns;
    regions_.erase(region); // another one may have its number
    return true;
}

bool TimelineReader::take_lost(std::string_view text) {
    std::uint64_t pid = 0;
    std::uint64_t lost = 0;
    if (!take_numbers(text, {&pid, &lost})) {
        return false;
    }
    timeline_.lost += std::min<std::uint64_t>(lost, std::uint64_t{1} << 40);
    return true;
}

} // namespace sluice::tools::check
