// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice config`: every variable and every key, its value, where that comes from, and what is wrong with it.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tools/commands.hpp"
#include "tools/library.hpp"
#include "tools/nearest.hpp"

namespace sluice::tools {

namespace {

using Json = nlohmann::ordered_json;
using Settings = std::vector<sluice_setting>;

constexpr int kSettingsSchema = 1;

bool has_problem(const sluice_setting& setting) {
    return setting.problem[0] != '\0';
}

bool is_of_file(const sluice_setting& setting) {
    return setting.origin[0] == '/';
}

// Names that may stand where an unknown one does.
std::vector<std::string> names_instead_of(const sluice_setting& unknown, const Settings& all) {
    std::vector<std::string> names;
    if (is_of_file(unknown)) {
        std::istringstream values(unknown.values);
        for (std::string name; std::getline(values, name, '|');) {
            names.push_back(name);
        }
        return names;
    }
    for (const sluice_setting& setting : all) {
        if (setting.is_unknown == 0 && std::string_view(setting.name).starts_with("SLUICE_")) {
            names.emplace_back(setting.name);
        }
    }
    return names;
}

// The name that may have been meant by an unknown one; empty: none is like it.
std::string suggestion(const sluice_setting& setting, const Settings& all) {
    if (setting.is_unknown == 0) {
        return "";
    }
    const std::string name = setting.name;
    return nearest(name.substr(0, name.find(" of ")), names_instead_of(setting, all));
}

void print_json(const Settings& all) {
    Json list = Json::array();
    for (const sluice_setting& setting : all) {
        const std::string meant = suggestion(setting, all);
        list.push_back({{"name", setting.name},
                        {"value", setting.value},
                        {"origin", setting.origin},
                        {"default", setting.default_value},
                        {"values", setting.values},
                        {"meaning", setting.meaning},
                        {"known", setting.is_unknown == 0},
                        {"problem", has_problem(setting) ? Json(setting.problem) : Json()},
                        {"suggestion", meant.empty() ? Json() : Json(meant)}});
    }
    const Json document{{"schema", kSettingsSchema}, {"settings", std::move(list)}};
    std::cout << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

void print_known(const Options& options, const Settings& all) {
    std::vector<Row> rows;
    rows.reserve(all.size());
    for (const sluice_setting& setting : all) {
        const Cell value = has_problem(setting)
                               ? Cell(std::string(setting.value) + " (not valid)", Tone::kBad)
                               : Cell(setting.value);
        if (setting.is_unknown == 0) {
            rows.push_back({setting.name, value, setting.origin, setting.values, setting.meaning});
        }
    }
    print_table(options, {{"NAME"}, {"VALUE"}, {"ORIGIN", 3}, {"MAY BE", 2}, {"MEANING", 1}}, rows);
}

void print_problems(const Options& options, const Settings& all, bool unknown) {
    std::vector<Row> rows;
    for (const sluice_setting& setting : all) {
        if (has_problem(setting) && (setting.is_unknown != 0) == unknown) {
            const std::string meant = suggestion(setting, all);
            const std::string hint = meant.empty() ? "" : " (did you mean '" + meant + "'?)";
            rows.push_back(
                {{setting.name, Tone::kBad}, setting.value, setting.origin, setting.problem + hint});
        }
    }
    if (!rows.empty()) {
        std::cout << '\n';
        Column why{"WHY"};
        why.wraps = true;
        print_table(options, {{unknown ? "UNKNOWN" : "NOT VALID"}, {"VALUE", 1}, {"ORIGIN", 2}, why}, rows);
    }
}

bool is_problem_of_file(const sluice_setting& setting) {
    return is_of_file(setting) && has_problem(setting);
}

} // namespace

ExitStatus run_config(const Options& options) {
    const Settings all = settings_and_problems(options);
    if (options.json) {
        print_json(all);
    } else {
        print_known(options, all);
        print_problems(options, all, false);
        print_problems(options, all, true);
        if (std::ranges::any_of(all, is_problem_of_file)) {
            std::cout << "\nNothing of sluice.conf holds until these lines are corrected: programs that ask "
                         "about a "
                         "device get an error, and no device is claimed.\n";
        }
    }
    return std::ranges::any_of(all, has_problem) ? kExitFailure : kExitOk;
}

} // namespace sluice::tools
