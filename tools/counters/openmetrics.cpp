// SPDX-License-Identifier: BSD-3-Clause
#include "tools/counters/openmetrics.hpp"

#include <cinttypes>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>

namespace sluice::tools::counters {

namespace {

constexpr std::string_view kPrefix = "sluice_uroce_";

// All samples of a family stand together, behind what describes it.
struct Family {
    const char* type = "counter";
    std::string unit; // which the name ends with; empty: a number of things
    std::string help;
    std::map<std::string, std::string> samples; // values by labels
};

using Families = std::map<std::string, Family, std::less<>>;

// Where a counter's value goes.
struct Place {
    std::string family; // without the prefix
    std::string label;  // besides those of the process; empty: none
    std::string value;
    std::string help;
    const char* unit = "";
};

// "drop.no_room" is a drop for the reason "no_room".
struct Group {
    std::string_view begin;
    const char* family;
    const char* label;
    const char* help;
};

constexpr Group kGroups[] = {
    {"completion.", "completions", "status", "Completions of work requests, by status"},
    {"cm.entered.", "cm_entered", "state", "Connections that entered a state, by state"},
    {"drop.", "drops", "reason", "Packets and messages that were dropped, by reason"},
};

std::string escaped(std::string_view text) {
    std::string made;
    for (const char c : text) {
        made += c == '\n' ? "\\n" : c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
    }
    return made;
}

std::string label(std::string_view name, std::string_view value) {
    return std::string(name) + "=\"" + escaped(value) + "\"";
}

// "path.udp.bytes_sent"; a family's name ends with its unit, so that it is "path_sent_bytes".
Place place_of_path(const std::string& path, const std::string& what) {
    const bool is_bytes = what.starts_with("bytes_");
    return {"path_" + (is_bytes ? what.substr(6) + "_bytes" : what), "path", path,
            is_bytes ? "Bytes of programs, without headers, by path" : "Packets or requests, by path",
            is_bytes ? "bytes" : ""};
}

Place place_of(const std::string& name) {
    for (const Group& group : kGroups) {
        if (name.starts_with(group.begin)) {
            return {group.family, group.label, name.substr(group.begin.size()), group.help, ""};
        }
    }
    const std::size_t dot = name.rfind('.');
    if (name.starts_with("path.") && dot >= 5) {
        return place_of_path(name.substr(5, dot - 5), name.substr(dot + 1));
    }
    std::string family = name;
    for (char& c : family) {
        c = c == '.' ? '_' : c;
    }
    return {family, "", "", "The counter " + name + "; sluice(1) describes it", ""};
}

std::string labels_of(const UroceUse& use) {
    return label("device", use.device) + "," + label("address", use.address) + "," +
           label("pid", std::to_string(use.pid)) + "," + label("opened_ns", std::to_string(use.opened_ns)) +
           "," + label("command", use.command);
}

std::string seconds(std::uint64_t ns) {
    char text[32];
    std::snprintf(text, sizeof text, "%" PRIu64 ".%09" PRIu64, ns / 1'000'000'000, ns % 1'000'000'000);
    return text;
}

void add_gauges(Families& families, const UroceUse& use) {
    const std::string labels = labels_of(use);
    families["process_running"].samples.emplace(labels, use.is_running ? "1" : "0");
    families["process_opened_timestamp_seconds"].samples.emplace(labels, seconds(use.opened_ns));
}

// A file of another version may have two names that become one here: the first stays.
void add_counters(Families& families, const UroceUse& use) {
    const std::string labels = labels_of(use);
    for (const auto& [name, value] : use.counters) {
        const Place place = place_of(name);
        Family& family =
            families.try_emplace(place.family, Family{"counter", place.unit, place.help, {}}).first->second;
        const std::string own = place.label.empty() ? "" : "," + label(place.label, place.value);
        family.samples.emplace(labels + own, std::to_string(value));
    }
}

void print_family(std::ostream& out, const std::string& name, const Family& family) {
    out << "# TYPE " << name << ' ' << family.type << '\n';
    if (!family.unit.empty()) {
        out << "# UNIT " << name << ' ' << family.unit << '\n';
    }
    out << "# HELP " << name << ' ' << escaped(family.help) << '\n';
    const bool is_counter = family.type == std::string_view("counter");
    for (const auto& [labels, value] : family.samples) {
        out << name << (is_counter ? "_total" : "") << '{' << labels << "} " << value << '\n';
    }
}

} // namespace

void print_openmetrics(std::ostream& out, const std::vector<UroceUse>& uses) {
    Families families;
    families["process_running"] = {"gauge", "", "Whether the process runs: 1, or 0 if it has ended", {}};
    families["process_opened_timestamp_seconds"] = {
        "gauge", "seconds", "When the process opened its first uroce device, since 1970", {}};
    for (const UroceUse& use : uses) {
        add_gauges(families, use);
        add_counters(families, use);
    }
    for (const auto& [name, family] : families) {
        if (!family.samples.empty()) {
            print_family(out, std::string(kPrefix) + name, family);
        }
    }
    out << "# EOF\n";
}

} // namespace sluice::tools::counters
