// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice dat`: what programs for DAT can open, why not, and naming devices for them.
//
// Only one file is ever written, and it is our own, beside those of others in /etc/dat.conf.d.
#include <dat/udat.h>
#include <sluice/dat.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tools/commands.hpp"
#include "tools/device_names.hpp"
#include "tools/library.hpp"
#include "tools/plain_file.hpp"

namespace sluice::tools {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kAdaptersSchema = 1;
constexpr const char* kDatDirectory = "/etc/dat.conf.d";
constexpr const char* kDatFile = "/etc/dat.conf.d/sluice.conf";
constexpr std::string_view kFirstLine =
    "# Written by `sluice dat register`; `sluice dat unregister` removes entries.\n";
constexpr const char* kLibrary = "libdapl-sluice.so.1";

// One line of a dat.conf, or what is said about a file.
struct Entry {
    std::string ia_name;
    std::string api;
    bool is_thread_safe;
    std::string library;
    std::string instance_data;
    std::string file;
    unsigned line;
    bool is_entry;
    std::string problem;

    std::string origin() const { return line == 0 ? file : file + ":" + std::to_string(line); }
    bool counts() const { return problem.empty(); }
};

// What can be opened.
struct Adapter {
    std::string name;
    std::string api;
    bool is_thread_safe;
    std::string library; // empty: it is found out when it is opened
    std::string origin;
};

std::string version_text(std::uint32_t major, std::uint32_t minor) {
    return std::to_string(major) + "." + std::to_string(minor);
}

// ROOT as for sluice_dat_list_entries().
std::vector<Entry> read_entries(const char* root) {
    std::vector<Entry> entries;
    const int status = sluice_dat_list_entries(
        root,
        [](void* to, const sluice_dat_entry* entry) {
            static_cast<std::vector<Entry>*>(to)->push_back(
                {entry->ia_name, version_text(entry->api_major, entry->api_minor), entry->is_thread_safe != 0,
                 entry->library, entry->instance_data, entry->file, entry->line, entry->is_entry != 0,
                 entry->problem});
        },
        &entries);
    if (status != 0) {
        throw Failure(kExitFailure, std::string("dat.conf can't be read: ") + std::strerror(status));
    }
    return entries;
}

// What programs see, DAT_OVERRIDE included.
std::vector<Entry> entries_for_programs(const Options& options) {
    return read_entries(options.root_or_null());
}

// What stands in the usual places, whatever DAT_OVERRIDE says.
std::vector<Entry> entries_on_disk(const Options& options) {
    return read_entries(options.root.empty() ? "/" : options.root.c_str());
}

// "DAT_INVALID_HANDLE DAT_INVALID_HANDLE_IA".
std::string describe_status(DAT_RETURN status) {
    const char* type = "";
    const char* subtype = "";
    if (dat_strerror(status, &type, &subtype) != DAT_SUCCESS) {
        return "unknown status " + std::to_string(status);
    }
    return subtype[0] == '\0' ? std::string(type) : std::string(type) + " " + subtype;
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

std::vector<Adapter> read_adapters(const Options& options, const std::vector<Entry>& entries) {
    std::vector<Adapter> adapters;
    for (const Entry& entry : entries) {
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
            adapters.push_back({info.ia_name, version_text(info.dapl_version_major, info.dapl_version_minor),
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

constexpr const char* kNothing =
    "No dat.conf names a provider for DAT 1, and no device was found for Sluice's own.\n";

void print_adapters(const Options& options, const std::vector<Adapter>& adapters) {
    if (options.json) {
        Json list = Json::array();
        for (const Adapter& adapter : adapters) {
            list.push_back(to_json(adapter));
        }
        print({{"schema", kAdaptersSchema}, {"adapters", std::move(list)}});
        return;
    }
    if (adapters.empty()) {
        std::cout << kNothing;
        return;
    }
    std::vector<std::vector<std::string>> rows{{"NAME", "API", "THREAD-SAFE", "ORIGIN", "LIBRARY"}};
    for (const Adapter& adapter : adapters) {
        rows.push_back({adapter.name, adapter.api, adapter.is_thread_safe ? "yes" : "no", adapter.origin,
                        adapter.library.empty() ? kLibrary : adapter.library});
    }
    print_table(rows);
}

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

std::vector<Adapter> only(std::vector<Adapter> adapters, const std::string& name) {
    std::erase_if(adapters, [&name](const Adapter& adapter) { return adapter.name != name; });
    if (adapters.empty()) {
        throw Failure(kExitNoDevice, "there is no '" + name + "'; see `sluice dat list`");
    }
    return adapters;
}

void print_check_json(const std::vector<Entry>& entries, const std::vector<Adapter>& adapters,
                      const std::vector<std::string>& results) {
    Json lines = Json::array();
    for (const Entry& entry : entries) {
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

void print_check(const std::vector<Entry>& entries, const std::vector<Adapter>& adapters,
                 const std::vector<std::string>& results) {
    for (const Entry& entry : entries) {
        if (!entry.counts()) {
            std::cout << entry.origin() << ": " << (entry.is_entry ? "passed over: " : "wrong: ")
                      << entry.problem << '\n';
        }
    }
    std::vector<std::vector<std::string>> rows{{"NAME", "ORIGIN", "RESULT"}};
    for (std::size_t i = 0; i < adapters.size(); ++i) {
        rows.push_back({adapters[i].name, adapters[i].origin, results[i]});
    }
    if (adapters.empty()) {
        std::cout << kNothing;
    } else {
        print_table(rows);
    }
}

// A field of dat.conf that means TEXT.
std::string quoted(const std::string& text) {
    std::string field = "\"";
    for (const char each : text) {
        if (each == '"' || each == '\\') {
            field += '\\';
        }
        field += each;
    }
    return field + '"';
}

void require_name(const std::string& name) {
    const bool is_printable =
        std::ranges::all_of(name, [](unsigned char byte) { return byte >= ' ' && byte != 0x7f; });
    if (name.empty() || name.size() >= DAT_NAME_MAX_LENGTH || !is_printable) {
        throw Failure(kExitUsage, "a name has 1 to 255 characters, none of them a control character");
    }
}

// Our file's lines below the first.
std::vector<std::string> read_own_lines(const std::string& path) {
    const PlainFile file = read_plain_file(path);
    if (file.exists && (!file.is_plain || !file.content.starts_with(kFirstLine))) {
        throw Failure(kExitFailure,
                      path + " was not written by `sluice dat register`; look at it and change it by hand");
    }
    std::vector<std::string> lines;
    std::string_view rest = file.exists ? std::string_view(file.content).substr(kFirstLine.size()) : "";
    while (!rest.empty()) {
        const std::size_t end = std::min(rest.find('\n'), rest.size());
        lines.emplace_back(rest.substr(0, end));
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return lines;
}

void write_own_lines(const std::string& path, const std::vector<std::string>& lines) {
    std::string content(kFirstLine);
    for (const std::string& line : lines) {
        content += line + "\n";
    }
    write_atomically(path, content);
}

} // namespace

ExitStatus run_dat_list(const Options& options) {
    const std::vector<Adapter> adapters = read_adapters(options, entries_for_programs(options));
    print_adapters(options, adapters);
    return adapters.empty() ? kExitNoDevice : kExitOk;
}

ExitStatus run_dat_check(const Options& options, const std::string& name) {
    std::vector<Entry> entries = entries_for_programs(options);
    std::vector<Adapter> adapters = read_adapters(options, entries);
    if (!name.empty()) {
        adapters = only(std::move(adapters), name);
        std::erase_if(entries, [&name](const Entry& entry) { return entry.ia_name != name; });
    }
    bool is_good = std::ranges::all_of(entries, [](const Entry& entry) { return entry.is_entry; });
    std::vector<std::string> results;
    for (const Adapter& adapter : adapters) {
        if (!options.root.empty()) {
            results.emplace_back("not tried: a recorded machine opens nothing");
            continue;
        }
        const DAT_RETURN status = try_to_open(adapter);
        is_good = is_good && status == DAT_SUCCESS;
        results.push_back(status == DAT_SUCCESS ? "opens" : describe_status(status));
    }
    if (options.json) {
        print_check_json(entries, adapters, results);
    } else {
        print_check(entries, adapters, results);
    }
    if (adapters.empty()) {
        return is_good ? kExitNoDevice : kExitFailure;
    }
    return is_good ? kExitOk : kExitFailure;
}

ExitStatus run_dat_register(const Options& options, const std::string& device, const std::string& name) {
    (void)query_device(options, device); // throws where there is no such device
    const std::string ia_name = name.empty() ? device : name;
    require_name(ia_name);
    // Entries come before devices: that one could no longer be opened by its own name.
    if (const std::string other = other_device_called(ia_name, options, device); !other.empty()) {
        throw Failure(kExitFailure, "'" + ia_name + "' means the device " + other + "; choose another name");
    }
    const std::string path = options.root + kDatFile;
    std::vector<std::string> lines = read_own_lines(path);
    for (const Entry& entry : entries_on_disk(options)) {
        if (entry.counts() && entry.ia_name == ia_name) {
            throw Failure(kExitFailure, "'" + ia_name + "' is named already, in " + entry.origin());
        }
    }
    lines.push_back(quoted(ia_name) + " u" + version_text(DAT_VERSION_MAJOR, DAT_VERSION_MINOR) +
                    " threadsafe default " + kLibrary + " sluice." + sluice_version() + " " + quoted(device) +
                    " \"\"");
    if (mkdir((options.root + kDatDirectory).c_str(), 0755) != 0 && errno != EEXIST) {
        throw system_failure(options.root + kDatDirectory);
    }
    write_own_lines(path, lines);
    print_adapters(options, read_adapters(options, entries_for_programs(options)));
    return kExitOk;
}

ExitStatus run_dat_unregister(const Options& options, const std::string& name) {
    const std::string path = options.root + kDatFile;
    std::vector<std::string> lines = read_own_lines(path);
    std::vector<std::size_t> gone;
    for (const Entry& entry : entries_on_disk(options)) {
        if (entry.file == kDatFile && entry.ia_name == name) {
            gone.push_back(entry.line - 2); // below our first line, and counted from 1
        }
    }
    if (gone.empty()) {
        throw Failure(kExitNoDevice, "`sluice dat register` has not named a '" + name + "'");
    }
    for (auto line = gone.rbegin(); line != gone.rend(); ++line) {
        lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(*line));
    }
    if (!lines.empty()) {
        write_own_lines(path, lines);
    } else if (unlink(path.c_str()) != 0) {
        throw system_failure(path);
    }
    print_adapters(options, read_adapters(options, entries_for_programs(options)));
    return kExitOk;
}

} // namespace sluice::tools
