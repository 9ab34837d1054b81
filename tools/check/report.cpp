// SPDX-License-Identifier: BSD-3-Clause
#include "tools/check/report.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdio>
#include <string_view>

namespace sluice::tools::check {

namespace {

std::string hexadecimal(std::uint64_t number) {
    std::array<char, 24> text{};
    (void)std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(number));
    return text.data();
}

// Short where the program's sources are in the working directory.
std::string shown_path(const std::string& path) {
    static const std::string here = [] {
        std::array<char, PATH_MAX> folder{};
        return std::string(getcwd(folder.data(), folder.size()) != nullptr ? folder.data() : "") + "/";
    }();
    return here.size() > 1 && path.starts_with(here) ? path.substr(here.size()) : path;
}

// What is further out is the same in each program.
bool is_outermost(const Place& place) {
    return place.function == "main";
}

// libibverbs' and librdmacm's, of which every program has the same.
bool is_of_verbs(const Place& place) {
    return place.function.starts_with("ibv_") || place.function.starts_with("rdma_");
}

// The first frame's own places: the function, and those that were inlined into it.
std::size_t places_of_first_frame(const NamedSide& side) {
    const auto end = std::ranges::find_if_not(side.places, &Place::is_inlined);
    return static_cast<std::size_t>(end - side.places.begin()) + (end == side.places.end() ? 0 : 1);
}

// Of the program's own code, where there is any.
const Place* telling_place(const NamedSide& side) {
    for (const Place& place : side.places) {
        if (place.function != "?" && !is_of_verbs(place)) {
            return &place;
        }
        if (is_outermost(place)) {
            break;
        }
    }
    return side.places.empty() ? nullptr : &side.places.front();
}

void add_key(std::string& key, const Place& place) {
    key += '\n' + place.function + '\t';
    key += place.line != 0 ? place.file + ':' + std::to_string(place.line)
                           : place.module + '+' + hexadecimal(place.offset);
}

nlohmann::json json_of_place(const Place& place) {
    return {{"function", place.function},
            {"file", place.file.empty() ? nlohmann::json() : nlohmann::json(place.file)},
            {"line", place.line == 0 ? nlohmann::json() : nlohmann::json(place.line)},
            {"module", place.module},
            {"offset", place.offset},
            {"inlined", place.is_inlined}};
}

} // namespace

std::string name_of_path(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
}

std::string text_of(const Place& place) {
    const std::string module = name_of_path(place.module);
    if (place.line == 0) {
        return place.function + " (" + module + "+" + hexadecimal(place.offset) + ")";
    }
    return place.function + " at " + shown_path(place.file) + ":" + std::to_string(place.line) + " (" +
           module + ")";
}

std::string text_of(const Report& report) {
    std::string text = "sluice: check: " + report.rule + ": " + report.object + "\n";
    if (!report.what.empty()) {
        text += "  what: " + report.what + "\n";
    }
    for (const NamedSide& side : report.sides) {
        text += "  " + side.title + ":\n";
        for (std::size_t i = 0; i < side.places.size(); ++i) {
            text += "    #" + std::to_string(i) + " " + text_of(side.places[i]) + "\n";
            if (is_outermost(side.places[i])) {
                break;
            }
        }
    }
    if (!report.remedy.empty()) {
        text += "  remedy: " + report.remedy + "\n";
    }
    if (const std::string suppression = suppression_of(report); !suppression.empty()) {
        text += "  suppress: " + suppression + "\n";
    }
    return text;
}

nlohmann::json json_of(const Report& report) {
    nlohmann::json sides = nlohmann::json::array();
    for (const NamedSide& side : report.sides) {
        nlohmann::json frames = nlohmann::json::array();
        for (const Place& place : side.places) {
            frames.push_back(json_of_place(place));
        }
        sides.push_back({{"title", side.title}, {"frames", frames}});
    }
    return {{"schema", 1},
            {"kind", "mistake"},
            {"pid", report.pid},
            {"rule", report.rule},
            {"object", report.object},
            {"what", report.what},
            {"remedy", report.remedy},
            {"sides", sides},
            {"suppression", suppression_of(report)}};
}

std::string suppression_of(const Report& report) {
    for (const NamedSide& side : report.sides) {
        if (const Place* place = telling_place(side); place != nullptr) {
            const std::string where = place->function != "?" ? place->function : name_of_path(place->module);
            return where == "?" ? "" : report.rule + ":" + where;
        }
    }
    return {};
}

std::string place_of(const Report& report) {
    for (const NamedSide& side : report.sides) {
        if (const Place* place = telling_place(side); place != nullptr) {
            return text_of(*place);
        }
    }
    return report.object;
}

std::string key_of(const Report& report) {
    std::string key = report.rule;
    for (const NamedSide& side : report.sides) {
        key += '\n' + side.title;
        for (const Place& place : side.places) {
            add_key(key, place);
        }
    }
    return report.sides.empty() ? key + '\n' + report.object + '\n' + report.what : key;
}

std::string place_key_of(const Report& report) {
    if (report.sides.empty()) {
        return key_of(report);
    }
    std::string key = report.rule;
    const NamedSide& side = report.sides.front();
    for (std::size_t i = 0; i < places_of_first_frame(side); ++i) {
        add_key(key, side.places[i]);
    }
    return key;
}

} // namespace sluice::tools::check
