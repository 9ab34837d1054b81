// SPDX-License-Identifier: BSD-3-Clause
//
// Where a figure stands in charts, for the pages of `scripts/bench --html`.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace sluice::bench {

// A chart has a point for each size and contender. One without sizes is bars.
struct Point {
    std::string chart; // its title
    std::string unit;
    std::string who;
    std::uint64_t bytes = 0; // of a message or a range; 0: the chart has no sizes
    double value = 0;
    double goal = 0; // in the same unit; 0: none
};
using Points = std::vector<Point>;

// A chart that compares two.
struct Comparison {
    std::string chart;
    std::string unit;
    std::string us;
    std::string them;
};

inline Points compared(const Comparison& comparison, std::uint64_t bytes, double ours, double theirs,
                       double goal = 0) {
    const auto& [chart, unit, us, them] = comparison;
    return {{chart, unit, us, bytes, ours, goal}, {chart, unit, them, bytes, theirs}};
}

inline nlohmann::json to_json(const Points& points) {
    nlohmann::json list = nlohmann::json::array();
    for (const Point& point : points) {
        nlohmann::json json{
            {"chart", point.chart}, {"unit", point.unit}, {"who", point.who}, {"value", point.value}};
        if (point.bytes != 0) {
            json["bytes"] = point.bytes;
        }
        if (point.goal != 0) {
            json["goal"] = point.goal;
        }
        list.push_back(std::move(json));
    }
    return list;
}

} // namespace sluice::bench
