// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice dat list` and `check`: what programs for DAT can open, and why not.
#include <algorithm>
#include <iostream>

#include "tools/commands.hpp"
#include "tools/dat_entries.hpp"
#include "tools/nearest.hpp"

namespace sluice::tools {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kOpens = "opens";

// What opening it gives.
DAT_RETURN try_to_open(const Adapter& adapter) {
    std::string name = adapter.name;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
    const auto dot = adapter.api.find('.');
    const DAT_RETURN status = dat_ia_openv(name.data(), 8, &async_evd, &ia,
                                           static_cast<DAT_UINT32>(std::stoul(adapter.api.substr(0, dot))),
                                           static_cast<DAT_UINT32>(std::stoul(adapter.api.substr(dot + 1))),
                                           adapter.is_thread_safe ? DAT_TRUE : DAT_FALSE);
    return status == DAT_SUCCESS ? dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG) : status;
}

std::vector<std::string> names_of(const std::vector<Adapter>& adapters) {
    std::vector<std::string> names;
    names.reserve(adapters.size());
    for (const Adapter& adapter : adapters) {
        names.push_back(adapter.name);
    }
    return names;
}

std::vector<Adapter> only(std::vector<Adapter> adapters, const std::string& name) {
    const std::string hint = did_you_mean(name, names_of(adapters));
    std::erase_if(adapters, [&name](const Adapter& adapter) { return adapter.name != name; });
    if (adapters.empty()) {
        throw Failure(kExitNoDevice, "there is no '" + name + "'" + hint + "; see `sluice dat list`");
    }
    return adapters;
}

void print_check_json(const std::vector<DatEntry>& entries, const std::vector<Adapter>& adapters,
                      const std::vector<std::string>& results) {
    Json lines = Json::array();
    for (const DatEntry& entry : entries) {
        if (!entry.counts()) {
            lines.push_back({{"file", entry.file},
                             {"line", entry.line},
                             {"entry", entry.is_entry},
                             {"problem", entry.problem}});
        }
    }
    Json list = Json::array();
    for (std::size_t i = 0; i < adapters.size(); ++i) {
        Json adapter = to_json(adapters[i]);
        adapter["result"] = results[i];
        list.push_back(std::move(adapter));
    }
    print({{"schema", kAdaptersSchema}, {"passed-over", std::move(lines)}, {"adapters", std::move(list)}});
}

void print_check(const Options& options, const std::vector<DatEntry>& entries,
                 const std::vector<Adapter>& adapters, const std::vector<std::string>& results) {
    for (const DatEntry& entry : entries) {
        if (!entry.counts()) {
            std::cout << entry.origin() << ": " << (entry.is_entry ? "passed over: " : "wrong: ")
                      << entry.problem << '\n';
        }
    }
    std::vector<Row> rows;
    for (std::size_t i = 0; i < adapters.size(); ++i) {
        const Tone tone = results[i] == kOpens   ? Tone::kGood
                          : options.root.empty() ? Tone::kBad
                                                 : Tone::kPlain;
        rows.push_back({adapters[i].name, adapters[i].origin, Cell(results[i], tone)});
    }
    if (adapters.empty()) {
        std::cout << kNoAdapters;
    } else {
        print_table(options, {{"NAME"}, {"ORIGIN", 1}, {"RESULT", 0, Column::kLeft, true}}, rows);
    }
}

} // namespace

ExitStatus run_dat_list(const Options& options) {
    const std::vector<Adapter> adapters = read_adapters(options, dat_entries_for_programs(options));
    print_adapters(options, adapters);
    return adapters.empty() ? kExitNoDevice : kExitOk;
}

ExitStatus run_dat_check(const Options& options, const std::string& name) {
    std::vector<DatEntry> entries = dat_entries_for_programs(options);
    std::vector<Adapter> adapters = read_adapters(options, entries);
    if (!name.empty()) {
        adapters = only(std::move(adapters), name);
        std::erase_if(entries, [&name](const DatEntry& entry) { return entry.ia_name != name; });
    }
    bool is_good = std::ranges::all_of(entries, [](const DatEntry& entry) { return entry.is_entry; });
    std::vector<std::string> results;
    for (const Adapter& adapter : adapters) {
        if (!options.root.empty()) {
            results.emplace_back("not tried: a recorded machine opens nothing");
            continue;
        }
        const DAT_RETURN status = try_to_open(adapter);
        is_good = is_good && status == DAT_SUCCESS;
        results.push_back(status == DAT_SUCCESS ? kOpens : describe_status(status));
    }
    if (options.json) {
        print_check_json(entries, adapters, results);
    } else {
        print_check(options, entries, adapters, results);
    }
    if (adapters.empty()) {
        return is_good ? kExitNoDevice : kExitFailure;
    }
    return is_good ? kExitOk : kExitFailure;
}

} // namespace sluice::tools
