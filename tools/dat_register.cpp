// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice dat register` and `unregister`: names of devices, for programs for DAT.
//
// For DAT 1.2 only one file is ever written, and it is our own, beside those of others in /etc/dat.conf.d.
// libdat2 reads one file alone: for DAT 2.0, lines come to that and go from there, and those of others stay.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iostream>

#include "tools/commands.hpp"
#include "tools/dat_advice.hpp"
#include "tools/dat_entries.hpp"
#include "tools/device_names.hpp"
#include "tools/library.hpp"
#include "tools/nearest.hpp"
#include "tools/plain_file.hpp"

namespace sluice::tools {

namespace {

constexpr const char* kDatDirectory = "/etc/dat.conf.d";
constexpr const char* kDatFile = "/etc/dat.conf.d/sluice.conf";
constexpr std::string_view kFirstLine =
    "# Written by `sluice dat register`; `sluice dat unregister` removes entries.\n";
constexpr const char* kDat2File = "/etc/dat.conf";
constexpr const char* kDat2Library = "libdapl-sluice2.so.2";

// A field of dat.conf that means TEXT.
std::string in_quotes(const std::string& text) {
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

std::vector<std::string> lines_of(std::string_view content) {
    std::vector<std::string> lines;
    while (!content.empty()) {
        const std::size_t end = std::min(content.find('\n'), content.size());
        lines.emplace_back(content.substr(0, end));
        content.remove_prefix(std::min(end + 1, content.size()));
    }
    return lines;
}

// Our file's lines below the first.
std::vector<std::string> read_own_lines(const std::string& path) {
    const PlainFile file = read_plain_file(path);
    if (file.exists && (!file.is_plain || !file.content.starts_with(kFirstLine))) {
        throw Failure(kExitFailure,
                      path + " was not written by `sluice dat register`; look at it and change it by hand");
    }
    return lines_of(file.exists ? std::string_view(file.content).substr(kFirstLine.size()) : "");
}

std::string content_of(const std::vector<std::string>& lines) {
    std::string content;
    for (const std::string& line : lines) {
        content += line + "\n";
    }
    return content;
}

void write_own_lines(const std::string& path, const std::vector<std::string>& lines) {
    write_atomically(path, std::string(kFirstLine) + content_of(lines));
}

// LINES without those of the indices GONE, which ascend.
std::vector<std::string> without(std::vector<std::string> lines, const std::vector<std::size_t>& gone) {
    for (auto index = gone.rbegin(); index != gone.rend(); ++index) {
        lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(*index));
    }
    return lines;
}

void remove_file(const std::string& path) {
    if (unlink(path.c_str()) != 0) {
        throw system_failure(path);
    }
}

// libdat2's file, whoever wrote it.
std::string read_dat2_file(const std::string& path) {
    const PlainFile file = read_plain_file(path);
    if (file.exists && !file.is_plain) {
        throw Failure(kExitFailure, path + " is a link or too long; change it by hand");
    }
    return file.content;
}

// Whether CONTENT ends with a newline stays as it was, here and when a line is removed: libdapl2's package
// compares the file with what it installed, byte by byte.
std::string with_line(const std::string& content, const std::string& line) {
    const bool is_ended = content.empty() || content.ends_with('\n');
    return is_ended ? content + line + "\n" : content + "\n" + line;
}

// As without(); a file of no lines is removed.
void remove_lines(const std::string& path, const std::string& content, const std::vector<std::size_t>& gone) {
    std::string rest = content_of(without(lines_of(content), gone));
    if (rest.empty()) {
        remove_file(path);
        return;
    }
    if (!content.ends_with('\n')) {
        rest.pop_back();
    }
    write_atomically(path, rest);
}

std::string say_what_is_named(const std::string& name, const std::vector<std::string>& names) {
    return names.empty() ? "; nothing is named so far"
                         : did_you_mean(name, names) + "; see `sluice dat list`";
}

bool is_for_dat2(const DatEntry& entry) {
    return entry.is_entry && entry.api == "2.0" && entry.file == kDat2File;
}

// Those of our provider.
ExitStatus print_dat2_adapters(const Options& options) {
    std::vector<Adapter> adapters;
    for (const DatEntry& entry : dat_entries_on_disk(options)) {
        if (is_for_dat2(entry) && entry.library == kDat2Library) {
            adapters.push_back(
                {entry.ia_name, entry.api, entry.is_thread_safe, entry.library, entry.origin()});
        }
    }
    if (adapters.empty() && !options.json) {
        std::cout << "No line of " << kDat2File << " names Sluice's provider for DAT 2.\n";
    } else {
        print_adapters(options, adapters);
    }
    return kExitOk;
}

ExitStatus register_for_dat2(const Options& options, const std::string& device, const std::string& ia_name) {
    for (const DatEntry& entry : dat_entries_on_disk(options)) {
        if (is_for_dat2(entry) && entry.ia_name == ia_name) {
            throw Failure(kExitFailure, "'" + ia_name + "' is named already, in " + entry.origin());
        }
    }
    const std::string path = options.root + kDat2File;
    // "nonthreadsafe" is what programs ask for that are compiled with libdat2's headers. libdat2 takes a
    // provider's version of two numbers only.
    const std::string version = sluice_version();
    const std::string line = in_quotes(ia_name) + " u2.0 nonthreadsafe default " + kDat2Library + " sluice." +
                             version.substr(0, version.rfind('.')) + " " + in_quotes(device) + " \"\"";
    write_atomically(path, with_line(read_dat2_file(path), line));
    return print_dat2_adapters(options);
}

ExitStatus unregister_for_dat2(const Options& options, const std::string& ia_name) {
    const std::string path = options.root + kDat2File;
    const std::string content = read_dat2_file(path);
    std::vector<std::size_t> gone;
    std::vector<std::string> names;
    for (const DatEntry& entry : dat_entries_on_disk(options)) {
        if (!is_for_dat2(entry) || entry.library != kDat2Library) {
            continue;
        }
        names.push_back(entry.ia_name);
        if (entry.ia_name == ia_name) {
            gone.push_back(entry.line - 1);
        }
    }
    if (gone.empty()) {
        throw Failure(kExitNoDevice, "`sluice dat register --api 2` has not named a '" + ia_name + "'" +
                                         say_what_is_named(ia_name, names));
    }
    remove_lines(path, content, gone);
    return print_dat2_adapters(options);
}

} // namespace

ExitStatus run_dat_register(const Options& options, const std::string& device, const std::string& name,
                            int api) {
    const std::string meant = other_device_called(device, options, "");
    if (meant.empty()) {
        (void)query_device(options, device); // throws, and says what there is
    }
    const std::string ia_name = name.empty() ? device : name;
    require_name(ia_name);
    if (api == 2) {
        return register_for_dat2(options, device, ia_name);
    }
    // Entries come before devices: that one could no longer be opened by its own name.
    if (const std::string other = other_device_called(ia_name, options, meant); !other.empty()) {
        throw Failure(kExitFailure, "'" + ia_name + "' means the device " + other + "; choose another name");
    }
    const std::string path = options.root + kDatFile;
    std::vector<std::string> lines = read_own_lines(path);
    for (const DatEntry& entry : dat_entries_on_disk(options)) {
        if (entry.counts() && entry.ia_name == ia_name) {
            throw Failure(kExitFailure, "'" + ia_name + "' is named already, in " + entry.origin());
        }
    }
    lines.push_back(in_quotes(ia_name) + " u" + dat_version_text(DAT_VERSION_MAJOR, DAT_VERSION_MINOR) +
                    " threadsafe default " + kLibrary + " sluice." + sluice_version() + " " +
                    in_quotes(device) + " \"\"");
    if (mkdir((options.root + kDatDirectory).c_str(), 0755) != 0 && errno != EEXIST) {
        throw system_failure(options.root + kDatDirectory);
    }
    write_own_lines(path, lines);
    print_adapters_or_why_none(options);
    return kExitOk;
}

ExitStatus run_dat_unregister(const Options& options, const std::string& name, int api) {
    if (api == 2) {
        return unregister_for_dat2(options, name);
    }
    const std::string path = options.root + kDatFile;
    const std::vector<std::string> lines = read_own_lines(path);
    std::vector<std::size_t> gone;
    std::vector<std::string> names;
    for (const DatEntry& entry : dat_entries_on_disk(options)) {
        if (entry.file != kDatFile) {
            continue;
        }
        names.push_back(entry.ia_name);
        if (entry.ia_name == name) {
            gone.push_back(entry.line - 2); // below our first line, and counted from 1
        }
    }
    if (gone.empty()) {
        throw Failure(kExitNoDevice, "`sluice dat register` has not named a '" + name + "'" +
                                         say_what_is_named(name, names));
    }
    if (const std::vector<std::string> rest = without(lines, gone); !rest.empty()) {
        write_own_lines(path, rest);
    } else {
        remove_file(path);
    }
    print_adapters_or_why_none(options);
    return kExitOk;
}

} // namespace sluice::tools
