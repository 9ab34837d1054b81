// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice stat`: what uroce's devices have counted, in each process of this user.
#include <iostream>
#include <nlohmann/json.hpp>

#include "tools/commands.hpp"
#include "tools/counters/openmetrics.hpp"
#include "tools/counters/uses.hpp"
#include "tools/library.hpp"

namespace sluice::tools::counters {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kUsesSchema = 1;

// "path.udp.bytes_sent" becomes a member of a member of a member. What a name would have to replace stays.
void put_counter(Json& to, const std::string& name, std::uint64_t value) {
    Json* at = &to;
    std::size_t begin = 0;
    for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', begin)) {
        Json& next = (*at)[name.substr(begin, dot - begin)];
        if (next.is_null()) {
            next = Json::object();
        } else if (!next.is_object()) {
            return;
        }
        at = &next;
        begin = dot + 1;
    }
    Json& place = (*at)[name.substr(begin)];
    if (!place.is_object()) {
        place = value;
    }
}

Json to_json(const UroceUse& use) {
    Json counters = Json::object();
    for (const auto& [name, value] : use.counters) {
        put_counter(counters, name, value);
    }
    return {{"device", use.device},           {"address", use.address},    {"pid", use.pid},
            {"command", use.command},         {"running", use.is_running}, {"opened-ns", use.opened_ns},
            {"counters", std::move(counters)}};
}

void print_json(const std::vector<UroceUse>& uses) {
    Json list = Json::array();
    for (const UroceUse& use : uses) {
        list.push_back(to_json(use));
    }
    const Json document{{"schema", kUsesSchema}, {"uses", std::move(list)}};
    std::cout << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

void print_uses(const Options& options, const std::vector<UroceUse>& uses) {
    const std::vector<Column> columns{{"DEVICE", 6},
                                      {"ADDRESS", 3},
                                      {"PID", 0, Column::kRight},
                                      {"STATE", 4},
                                      {"BYTES SENT", 8, Column::kRight},
                                      {"BYTES RECEIVED", 7, Column::kRight},
                                      {"SENT AGAIN", 2, Column::kRight},
                                      {"DROPPED", 1, Column::kRight},
                                      {"FAILED", 5, Column::kRight},
                                      {"COMMAND"}};
    std::vector<Row> rows;
    for (const UroceUse& use : uses) {
        const std::uint64_t failed = failed_completions(use);
        rows.push_back({use.device, use.address, std::to_string(use.pid),
                        use.is_running ? Cell("runs", Tone::kGood) : Cell("ended"),
                        std::to_string(sum(use, "path.", ".bytes_sent")),
                        std::to_string(sum(use, "path.", ".bytes_received")),
                        std::to_string(sum(use, "transport.retransmissions")),
                        std::to_string(sum(use, "drop.")),
                        Cell(std::to_string(failed), failed == 0 ? Tone::kPlain : Tone::kBad), use.command});
    }
    print_table(options, columns, rows);
}

ExitStatus show(const Options& options, const StatOptions& wanted) {
    const std::vector<UroceUse> uses = selected_uses(wanted);
    if (options.json) {
        print_json(uses);
    } else if (wanted.metrics) {
        print_openmetrics(std::cout, uses);
    } else if (!uses.empty()) {
        print_uses(options, uses);
    }
    if (uses.empty()) {
        throw Failure(kExitNoDevice, nothing_found(wanted));
    }
    return kExitOk;
}

} // namespace

} // namespace sluice::tools::counters

sluice::tools::ExitStatus sluice::tools::run_stat(const Options& options, const StatOptions& wanted) {
    if (!options.root.empty()) {
        throw Failure(kExitUsage, "stat: --root has no processes; run it without, on the machine itself");
    }
    if (options.json && wanted.metrics) {
        throw Failure(kExitUsage, "stat: --json and --metrics are two formats; name one of them");
    }
    return counters::show(options, wanted);
}
