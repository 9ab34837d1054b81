// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice uroce dump`: each RoCEv2 packet of a recording in a line, in a JSON object, or as an arrow of a
// page.
#include <sluice/sluice.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tools/capture_file.hpp"
#include "tools/commands.hpp"
#include "tools/ladder/ladder.hpp"
#include "tools/progress.hpp"

namespace sluice::tools {

namespace {

using Json = nlohmann::ordered_json;
using Fields = std::vector<sluice_packet_field>;

constexpr int kDumpSchema = 1;

// None: no RoCEv2 packet.
Fields fields_of(std::span<const std::uint8_t> datagram) {
    Fields fields;
    sluice_packet_field field{};
    for (unsigned i = 0; !datagram.empty() && sluice_describe_packet(datagram.data(), datagram.size(), i,
                                                                     &field, sizeof field) == 0;
         ++i) {
        fields.push_back(field);
    }
    return fields;
}

const char* find(const Fields& fields, const char* name) {
    for (const sluice_packet_field& field : fields) {
        if (std::strcmp(field.name, name) == 0) {
            return field.value;
        }
    }
    return "";
}

Json value_of(const sluice_packet_field& field) {
    switch (field.kind) {
    case SLUICE_FIELD_NUMBER:
    case SLUICE_FIELD_HEX:
        return field.number;
    case SLUICE_FIELD_FLAG:
        return field.number != 0;
    default:
        return field.value;
    }
}

Json to_json(const Captured& packet, const Fields& fields) {
    Json object{{"seconds", packet.seconds}, {"nanoseconds", packet.nanoseconds}};
    for (const sluice_packet_field& field : fields) {
        object[field.name] = value_of(field);
    }
    return object;
}

// Addresses and opcode stand alone; everything else has its name. Of flags the name is enough.
std::string to_line(const Captured& packet, const Fields& fields) {
    std::array<char, 64> time{};
    std::snprintf(time.data(), time.size(), "%llu.%09u", static_cast<unsigned long long>(packet.seconds),
                  packet.nanoseconds);
    std::string line = std::string(time.data()) + " " + find(fields, "source") + " > " +
                       find(fields, "destination") + " " + find(fields, "opcode");
    for (const sluice_packet_field& field : fields) {
        const std::string_view name = field.name;
        if (field.brief == 0 || name == "source" || name == "destination" || name == "opcode") {
            continue;
        }
        line.append(", ").append(name);
        if (field.kind != SLUICE_FIELD_FLAG) {
            line.append(" ").append(field.value);
        }
    }
    return line;
}

struct Totals {
    std::uint64_t roce = 0;
    std::uint64_t others = 0;
    std::uint64_t bad_icrc = 0;
};

std::size_t in_mebibytes(std::uintmax_t bytes) {
    return bytes >> 20U;
}

// Calls SHOW(packet, fields) for each RoCEv2 packet.
template<typename Show>
Totals read_all(std::istream& in, const std::string& name, Progress::Output output, Show&& show) {
    CaptureFile file(in, name);
    Totals totals;
    std::error_code none;
    const std::uintmax_t bytes = std::filesystem::file_size(name, none); // of a pipe nobody knows
    Progress progress("uroce dump", none ? 0 : in_mebibytes(bytes), " MiB", output);
    for (Captured packet; file.next(packet);) {
        progress.reach(in_mebibytes(file.bytes_read()));
        // What wasn't recorded to its end has no checksum, and is no packet any more.
        const Fields fields = packet.is_whole ? fields_of(ip_datagram(packet)) : Fields();
        if (fields.empty()) {
            ++totals.others;
            continue;
        }
        ++totals.roce;
        totals.bad_icrc += std::strcmp(find(fields, "icrc"), "bad") == 0 ? 1 : 0;
        show(packet, fields);
    }
    return totals;
}

ExitStatus dump_text(std::istream& in, const std::string& name) {
    const Totals totals =
        read_all(in, name, Progress::Output::kMeanwhile, [](const Captured& packet, const Fields& fields) {
            std::cout << to_line(packet, fields) << '\n';
        });
    std::cout << totals.roce << " RoCEv2 packets, " << totals.bad_icrc << " with a bad ICRC; "
              << totals.others << " others\n";
    return kExitOk;
}

ExitStatus dump_json(std::istream& in, const std::string& name) {
    Json packets = Json::array();
    const Totals totals =
        read_all(in, name, Progress::Output::kAtEnd, [&](const Captured& packet, const Fields& fields) {
            packets.push_back(to_json(packet, fields));
        });
    const Json document{{"schema", kDumpSchema},
                        {"packets", std::move(packets)},
                        {"bad-icrc", totals.bad_icrc},
                        {"others", totals.others}};
    std::cout << document.dump(2) << '\n';
    return kExitOk;
}

// Throws where there is nothing to draw, or more than a browser can show.
void check_drawable(const ladder::Ladder& ladder, const std::string& name, const DumpOptions& how,
                    std::uint64_t others) {
    if (ladder.size() == 0) {
        throw Failure(kExitFailure,
                      name + (how.queue_pair
                                  ? ": no connection of this queue pair is in it; without --queue-pair "
                                    "the page has all"
                                  : ": no RoCEv2 packet (UDP to port 4791) is in it, but " +
                                        std::to_string(others) + " others"));
    }
    if (ladder.size() > ladder::kMostPackets) {
        throw Failure(kExitFailure, name + ": a page can show " + std::to_string(ladder::kMostPackets) +
                                        " packets, and these are " + std::to_string(ladder.size()) +
                                        "; --queue-pair N takes a part of them");
    }
}

// What was whole before FAILED is drawn; without that, there is only the failure.
ExitStatus dump_html(std::istream& in, const std::string& name, const DumpOptions& how) {
    ladder::Ladder ladder;
    Totals totals;
    std::optional<Failure> failed;
    try {
        totals =
            read_all(in, name, Progress::Output::kAtEnd, [&](const Captured& packet, const Fields& fields) {
                ladder.add(packet.seconds, packet.nanoseconds, fields);
            });
    } catch (const Failure& failure) {
        if (ladder.size() == 0) {
            throw;
        }
        failed = failure;
    }
    if (how.queue_pair) {
        ladder.choose(*how.queue_pair);
    }
    check_drawable(ladder, name, how, totals.others);
    ladder.write(std::cout, name, failed ? failed->what() : "", totals.others);
    if (failed) {
        throw Failure(*failed);
    }
    return kExitOk;
}

ExitStatus dump(std::istream& in, const std::string& name, const Options& options, const DumpOptions& how) {
    if (how.html) {
        return dump_html(in, name, how);
    }
    return options.json ? dump_json(in, name) : dump_text(in, name);
}

} // namespace

ExitStatus run_uroce_dump(const Options& options, const DumpOptions& how) {
    if (how.html && options.json) {
        throw Failure(kExitUsage, "--html and --json exclude each other; see `sluice uroce dump --help`");
    }
    if (how.file == "-") {
        return dump(std::cin, "standard input", options, how);
    }
    std::error_code none;
    if (std::filesystem::is_directory(how.file, none)) {
        throw Failure(kExitFailure, how.file + " is a directory; name the recording in it");
    }
    std::ifstream file(how.file, std::ios::binary);
    if (!file) {
        throw Failure(kExitFailure, how.file + ": " + std::strerror(errno));
    }
    return dump(file, how.file, options, how);
}

} // namespace sluice::tools
