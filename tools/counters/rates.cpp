// SPDX-License-Identifier: BSD-3-Clause
#include "tools/counters/rates.hpp"

#include <algorithm>
#include <utility>

#include "tools/counters/uses.hpp"

namespace sluice::tools::counters {

namespace {

// The number of a process may change when it ends: that of another container isn't what it saw itself.
bool is_same(const UroceUse& a, const UroceUse& b) {
    return a.opened_ns == b.opened_ns && a.device == b.device && a.address == b.address &&
           a.command == b.command;
}

// A stranger's file may count backwards.
double grown(const UroceUse& before, const UroceUse& after, const char* begin, const char* end = "") {
    const std::uint64_t was = sum(before.counters, begin, end);
    const std::uint64_t is = sum(after.counters, begin, end);
    return is > was ? static_cast<double>(is - was) : 0;
}

Rate rate_between(const UroceUse& before, const UroceUse& after, double seconds) {
    return {grown(before, after, "path.", ".bytes_sent") / seconds,
            grown(before, after, "path.", ".bytes_received") / seconds,
            (grown(before, after, "path.", ".packets_sent") +
             grown(before, after, "path.", ".packets_received")) /
                seconds,
            grown(before, after, "transport.retransmissions") / seconds};
}

} // namespace

void Rates::update(Watched& one, UroceUse use, double seconds) const {
    const double passed = seconds - now_;
    if (passed > 0) {
        one.rate = rate_between(one.use, use, passed);
        one.spans.push_back({now_, seconds, one.rate.bytes() * passed});
    }
    while (!one.spans.empty() && one.spans.front().end <= seconds - kMinuteSeconds) {
        one.spans.pop_front();
    }
    one.last_seen = seconds;
    one.last_seen_running = use.is_running ? seconds : one.last_seen_running;
    one.use = std::move(use);
}

// What came since the last time has counted from zero.
Watched& Rates::watched(const UroceUse& use) {
    const auto known = std::ranges::find_if(
        all_, [&](const UroceUse& other) { return is_same(use, other); }, &Watched::use);
    if (known != all_.end()) {
        return *known;
    }
    Watched& made = all_.emplace_back(Watched{use, {}, {}, now_, now_});
    if (!is_first_) {
        made.use.counters.clear();
    }
    return made;
}

bool Rates::is_left_out(const UroceUse& use) {
    if (is_first_ && !use.is_running) {
        ended_before_.push_back(use);
    }
    return std::ranges::any_of(ended_before_, [&](const UroceUse& other) { return is_same(use, other); });
}

void Rates::add(std::vector<UroceUse> uses, double seconds) {
    now_ = is_first_ ? seconds : now_;
    for (UroceUse& use : uses) {
        if (!is_left_out(use)) {
            Watched& one = watched(use);
            update(one, std::move(use), seconds);
        }
    }
    std::erase_if(all_, [&](const Watched& one) {
        return one.last_seen < seconds || one.last_seen_running <= seconds - kMinuteSeconds;
    });
    now_ = seconds;
    is_first_ = false;
}

std::vector<double> Rates::last_minute(const Watched& watched, std::size_t parts) const {
    std::vector<double> made(parts);
    const double length = kMinuteSeconds / static_cast<double>(parts);
    for (std::size_t i = 0; i < parts; ++i) {
        const double begin = now_ - kMinuteSeconds + static_cast<double>(i) * length;
        for (const Watched::Span& span : watched.spans) {
            const double common = std::min(span.end, begin + length) - std::max(span.begin, begin);
            made[i] += common > 0 ? span.bytes * common / (span.end - span.begin) : 0;
        }
    }
    return made;
}

} // namespace sluice::tools::counters
