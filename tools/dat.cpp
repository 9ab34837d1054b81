// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice dat list` and `check`: what programs for DAT can open, and why not.
#include <algorithm>
#include <iostream>

#include "tools/commands.hpp"
#include "tools/dat_advice.hpp"
#include "tools/dat_entries.hpp"
#include "tools/progress.hpp"

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

// A device also has names that aren't listed: its addresses, its network interface.
std::vector<Adapter> by_another_name(const Options& options, const std::string& name) {
    const Adapter adapter{name, "1.2", true, "", "device"};
    const bool is_there =
        options.root.empty() && DAT_GET_TYPE(try_to_open(adapter)) != DAT_PROVIDER_NOT_FOUND;
    return is_there ? std::vector<Adapter>{adapter} : std::vector<Adapter>();
}

std::vector<Adapter> only(const Options& options, const std::vector<Adapter>& adapters,
                          const std::vector<DatEntry>& entries, const std::string& name) {
    std::vector<Adapter> found = adapters;
    std::erase_if(found, [&name](const Adapter& adapter) { return adapter.name != name; });
    if (found.empty()) {
        found = by_another_name(options, name);
    }
    return found.empty() ? throw no_such_adapter(options, name, entries, adapters) : found;
}

// What was tried of an adapter.
struct Verdict {
    std::string result;
    std::string why; // it can't be opened; empty where it can, or wasn't tried
};

Verdict judge(const Options& options, const Adapter& adapter, const std::vector<DatEntry>& entries) {
    if (!options.root.empty()) {
        return {"not tried: a recorded machine opens nothing", ""};
    }
    const DAT_RETURN status = try_to_open(adapter);
    return status == DAT_SUCCESS
               ? Verdict{kOpens, ""}
               : Verdict{describe_status(status), why_not_opened(options, adapter, entries)};
}

void print_check_json(const std::vector<DatEntry>& entries, const std::vector<Adapter>& adapters,
                      const std::vector<Verdict>& verdicts) {
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
        adapter["result"] = verdicts[i].result;
        adapter["why"] = verdicts[i].why.empty() ? Json() : Json(verdicts[i].why);
        list.push_back(std::move(adapter));
    }
    print({{"schema", kAdaptersSchema}, {"passed-over", std::move(lines)}, {"adapters", std::move(list)}});
}

// Below the table: they are long.
void print_reasons(const Options& options, const std::vector<Adapter>& adapters,
                   const std::vector<Verdict>& verdicts) {
    std::vector<Row> rows;
    for (std::size_t i = 0; i < adapters.size(); ++i) {
        if (!verdicts[i].why.empty()) {
            rows.push_back({adapters[i].name, verdicts[i].why});
        }
    }
    if (!rows.empty()) {
        std::cout << '\n';
        print_table(options, {{"NAME"}, {"WHY", 0, Column::kLeft, true}}, rows);
    }
}

void print_check(const Options& options, const std::vector<DatEntry>& entries,
                 const std::vector<Adapter>& adapters, const std::vector<Verdict>& verdicts) {
    for (const DatEntry& entry : entries) {
        if (!entry.counts()) {
            std::cout << entry.origin() << ": " << (entry.is_entry ? "passed over: " : "wrong: ")
                      << entry.problem << '\n';
        }
    }
    std::vector<Row> rows;
    for (std::size_t i = 0; i < adapters.size(); ++i) {
        const Tone tone = verdicts[i].result == kOpens ? Tone::kGood
                          : options.root.empty()       ? Tone::kBad
                                                       : Tone::kPlain;
        rows.push_back({adapters[i].name, adapters[i].origin, Cell(verdicts[i].result, tone)});
    }
    if (adapters.empty()) {
        std::cout << why_no_adapters(options, entries);
        return;
    }
    print_table(options, {{"NAME"}, {"ORIGIN", 1}, {"RESULT", 0, Column::kLeft, true}}, rows);
    print_reasons(options, adapters, verdicts);
}

} // namespace

ExitStatus run_dat_list(const Options& options) {
    return print_adapters_or_why_none(options) ? kExitOk : kExitNoDevice;
}

ExitStatus run_dat_check(const Options& options, const std::string& name) {
    std::vector<DatEntry> entries = dat_entries_for_programs(options);
    std::vector<Adapter> adapters = read_adapters(options, entries);
    if (!name.empty()) {
        adapters = only(options, adapters, entries, name);
        std::erase_if(entries, [&name](const DatEntry& entry) { return entry.ia_name != name; });
    }
    std::vector<Verdict> verdicts;
    verdicts.reserve(adapters.size());
    Progress progress("dat check", adapters.size());
    for (const Adapter& adapter : adapters) {
        progress.reach(verdicts.size() + 1, adapter.name);
        verdicts.push_back(judge(options, adapter, entries));
    }
    progress.end();
    const bool is_good =
        std::ranges::all_of(entries, [](const DatEntry& entry) { return entry.is_entry; }) &&
        std::ranges::all_of(verdicts, [](const Verdict& verdict) { return verdict.why.empty(); });
    if (options.json) {
        print_check_json(entries, adapters, verdicts);
    } else {
        print_check(options, entries, adapters, verdicts);
    }
    if (adapters.empty()) {
        return is_good ? kExitNoDevice : kExitFailure;
    }
    return is_good ? kExitOk : kExitFailure;
}

} // namespace sluice::tools
