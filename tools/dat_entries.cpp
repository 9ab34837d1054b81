// SPDX-License-Identifier: BSD-3-Clause
#include "tools/dat_entries.hpp"

#include <sluice/dat.h>

#include <algorithm>
#include <cstring>
#include <iostream>

namespace sluice::tools {

namespace {

using Json = nlohmann::ordered_json;

// ROOT as for sluice_dat_list_entries().
std::vector<DatEntry> read_entries(const char* root) {
    std::vector<DatEntry> entries;
    const int status = sluice_dat_list_entries(
        root,
        [](void* to, const sluice_dat_entry* entry) {
            static_cast<std::vector<DatEntry>*>(to)->push_back(
                {entry->ia_name, dat_version_text(entry->api_major, entry->api_minor),
                 entry->is_thread_safe != 0, entry->library, entry->instance_data, entry->file, entry->line,
                 entry->is_entry != 0, entry->problem});
        },
        &entries);
    if (status != 0) {
        throw Failure(kExitFailure, std::string("dat.conf can't be read: ") + std::strerror(status));
    }
    return entries;
}

// As many as there are: one may come between two calls.
std::vector<DAT_PROVIDER_INFO> list_providers() {
    constexpr DAT_RETURN kTooShort = DAT_CLASS_ERROR | DAT_INVALID_PARAMETER | DAT_INVALID_ARG1;
    std::vector<DAT_PROVIDER_INFO> infos;
    while (true) {
        std::vector<DAT_PROVIDER_INFO*> pointers;
        pointers.reserve(infos.size());
        for (DAT_PROVIDER_INFO& info : infos) {
            pointers.push_back(&info);
        }
        DAT_COUNT count = 0;
        const DAT_RETURN status =
            dat_registry_list_providers(static_cast<DAT_COUNT>(infos.size()), &count, pointers.data());
        const auto there = static_cast<std::size_t>(count);
        if (status != DAT_SUCCESS && status != kTooShort) {
            throw Failure(kExitFailure, "providers can't be listed: " + describe_status(status));
        }
        const bool is_complete = there <= infos.size();
        infos.resize(there);
        if (is_complete) {
            return infos;
        }
    }
}

} // namespace

std::string dat_version_text(std::uint32_t major, std::uint32_t minor) {
    return std::to_string(major) + "." + std::to_string(minor);
}

std::vector<DatEntry> dat_entries_for_programs(const Options& options) {
    return read_entries(options.root_or_null());
}

std::vector<DatEntry> dat_entries_on_disk(const Options& options) {
    return read_entries(options.root.empty() ? "/" : options.root.c_str());
}

std::string describe_status(DAT_RETURN status) {
    const char* type = "";
    const char* subtype = "";
    if (dat_strerror(status, &type, &subtype) != DAT_SUCCESS) {
        return "unknown status " + std::to_string(status);
    }
    return subtype[0] == '\0' ? std::string(type) : std::string(type) + " " + subtype;
}

std::vector<Adapter> read_adapters(const Options& options, const std::vector<DatEntry>& entries) {
    std::vector<Adapter> adapters;
    for (const DatEntry& entry : entries) {
        if (entry.counts()) {
            adapters.push_back(
                {entry.ia_name, entry.api, entry.is_thread_safe, entry.library, entry.origin()});
        }
    }
    if (!options.root.empty()) {
        return adapters;
    }
    for (const DAT_PROVIDER_INFO& info : list_providers()) {
        const bool is_named = std::ranges::any_of(
            adapters, [&info](const Adapter& adapter) { return adapter.name == info.ia_name; });
        if (!is_named) {
            adapters.push_back({info.ia_name,
                                dat_version_text(info.dapl_version_major, info.dapl_version_minor),
                                info.is_thread_safe != DAT_FALSE, "", "device"});
        }
    }
    return adapters;
}

Json to_json(const Adapter& adapter) {
    return {{"name", adapter.name},
            {"api", adapter.api},
            {"thread-safe", adapter.is_thread_safe},
            {"library", adapter.library.empty() ? Json(nullptr) : Json(adapter.library)},
            {"origin", adapter.origin}};
}

void print(const Json& document) {
    std::cout << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

void print_adapters(const Options& options, const std::vector<Adapter>& adapters) {
    if (options.json) {
        Json list = Json::array();
        for (const Adapter& adapter : adapters) {
            list.push_back(to_json(adapter));
        }
        print({{"schema", kAdaptersSchema}, {"adapters", std::move(list)}});
        return;
    }
    std::vector<Row> rows;
    rows.reserve(adapters.size());
    for (const Adapter& adapter : adapters) {
        rows.push_back({adapter.name, adapter.api, adapter.is_thread_safe ? "yes" : "no", adapter.origin,
                        adapter.library.empty() ? kLibrary : adapter.library});
    }
    print_table(options, {{"NAME"}, {"API", 2}, {"THREAD-SAFE", 1}, {"ORIGIN", 4}, {"LIBRARY", 3}}, rows);
}

} // namespace sluice::tools
