// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice config`: every variable and every key, its value, and where that comes from.
#include <iostream>
#include <nlohmann/json.hpp>

#include "tools/commands.hpp"
#include "tools/library.hpp"

namespace sluice::tools {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kSettingsSchema = 1;

} // namespace

ExitStatus run_config(const Options& options) {
    const std::vector<sluice_setting> all = settings(options);
    if (options.json) {
        Json list = Json::array();
        for (const sluice_setting& setting : all) {
            list.push_back({{"name", setting.name},
                            {"value", setting.value},
                            {"origin", setting.origin},
                            {"default", setting.default_value},
                            {"values", setting.values},
                            {"meaning", setting.meaning}});
        }
        const Json document{{"schema", kSettingsSchema}, {"settings", std::move(list)}};
        std::cout << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
        return kExitOk;
    }
    std::vector<Row> rows;
    rows.reserve(all.size());
    for (const sluice_setting& setting : all) {
        rows.push_back({setting.name, setting.value, setting.origin, setting.meaning});
    }
    print_table(options, {{"NAME"}, {"VALUE"}, {"ORIGIN", 2}, {"MEANING", 1}}, rows);
    return kExitOk;
}

} // namespace sluice::tools
