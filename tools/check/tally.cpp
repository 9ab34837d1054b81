// SPDX-License-Identifier: BSD-3-Clause
#include "tools/check/tally.hpp"

#include <utility>

namespace sluice::tools::check {

namespace {

// Nobody reads more. A program that writes findings at random shall not take all memory by them.
constexpr std::size_t kMostShown = 10'000;
constexpr std::size_t kMostBytes = 64 << 20;
constexpr std::size_t kMostBlindSpots = 1'000;

std::string counted(std::size_t number, const char* one, const char* many) {
    return std::to_string(number) + " " + (number == 1 ? one : many);
}

} // namespace

Tally::Tally(Suppressions suppressions, std::size_t limit)
    : suppressions_(std::move(suppressions)), limit_(limit) {}

bool Tally::add(const Report& report) {
    if (suppressions_.cover(report)) {
        ++suppressed_;
        return false;
    }
    const std::string key = key_of(report);
    if (const auto same = by_key_.find(key); same != by_key_.end()) {
        ++shown_[same->second].again;
        return false;
    }
    const std::string place_key = place_key_of(report);
    const auto at_place = by_place_.find(place_key);
    if (at_place != by_place_.end() && at_place->second.size() >= limit_) {
        ++shown_[at_place->second.back()].others;
        return false;
    }
    bytes_ += key.size() + place_key.size();
    if (shown_.size() >= kMostShown || bytes_ > kMostBytes) {
        ++too_many_;
        return false;
    }
    by_key_[key] = shown_.size();
    by_place_[place_key].push_back(shown_.size());
    shown_.push_back({.rule = report.rule, .place = place_of(report), .again = 0, .others = 0});
    kinds_.insert(report.rule);
    return true;
}

bool Tally::add_blind_spot(const std::string& text) {
    return blind_spots_.size() < kMostBlindSpots && blind_spots_.insert(text).second;
}

std::string Tally::text() const {
    std::string text;
    for (const std::string& each : blind_spots_) {
        text += "sluice: check: not looked at: " + each + "\n";
    }
    return text + (is_empty() ? "" : text_of_counts());
}

std::string Tally::text_of_counts() const {
    std::string text;
    for (const Shown& each : shown_) {
        const std::string start = "sluice: check: " + each.rule + ": " + each.place + ": ";
        if (each.again != 0) {
            text += start + "found " + counted(each.again, "more time", "more times") + "\n";
        }
        if (each.others != 0) {
            text += start + "found with " + counted(each.others, "other stack", "other stacks") +
                    "; --limit shows more\n";
        }
    }
    for (const Suppression& each : suppressions_.all()) {
        text += "sluice: check: suppression " + each.line() + ": " +
                (each.used == 0 ? "not used" : "used " + counted(each.used, "time", "times")) + "\n";
    }
    if (too_many_ != 0) {
        text += "sluice: check: " + std::to_string(too_many_) + " more are not shown\n";
    }
    text += "sluice: check: " + counted(shown_.size(), "mistake", "mistakes") + " of " +
            counted(kinds_.size(), "kind", "kinds");
    return text + (suppressed_ == 0 ? "" : ", " + std::to_string(suppressed_) + " suppressed") + "\n";
}

nlohmann::json Tally::json() const {
    nlohmann::json repeated = nlohmann::json::array();
    for (const Shown& each : shown_) {
        if (each.again != 0 || each.others != 0) {
            repeated.push_back({{"rule", each.rule},
                                {"place", each.place},
                                {"again", each.again},
                                {"other-stacks", each.others}});
        }
    }
    nlohmann::json suppressions = nlohmann::json::array();
    for (const Suppression& each : suppressions_.all()) {
        suppressions.push_back({{"suppression", each.line()}, {"used", each.used}});
    }
    return {{"schema", 1},
            {"kind", "summary"},
            {"mistakes", shown_.size()},
            {"kinds", kinds_.size()},
            {"suppressed", suppressed_},
            {"not-shown", too_many_},
            {"repeated", repeated},
            {"suppressions", suppressions}};
}

} // namespace sluice::tools::check
