// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice stat`: what uroce's devices have counted, in each process of this user.
#include <algorithm>
#include <cinttypes>
#include <iostream>
#include <nlohmann/json.hpp>
#include <tuple>

#include "tools/commands.hpp"
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

// Of the counters whose names begin and end so.
std::uint64_t sum(const UroceUse& use, const std::string& begin, const std::string& end = "") {
    std::uint64_t total = 0;
    for (const auto& [name, value] : use.counters) {
        total += name.starts_with(begin) && name.ends_with(end) ? value : 0;
    }
    return total;
}

void print_uses(const std::vector<UroceUse>& uses) {
    std::vector<std::vector<std::string>> rows{{"DEVICE", "ADDRESS", "PID", "STATE", "BYTES SENT",
                                                "BYTES RECEIVED", "SENT AGAIN", "DROPPED", "FAILED",
                                                "COMMAND"}};
    for (const UroceUse& use : uses) {
        const std::uint64_t failed =
            sum(use, "completion.") - sum(use, "completion.success") - sum(use, "completion.flushed");
        rows.push_back({use.device, use.address, std::to_string(use.pid), use.is_running ? "runs" : "ended",
                        std::to_string(sum(use, "path.", ".bytes_sent")),
                        std::to_string(sum(use, "path.", ".bytes_received")),
                        std::to_string(sum(use, "transport.retransmissions")),
                        std::to_string(sum(use, "drop.")), std::to_string(failed), use.command});
    }
    print_table(rows);
}

std::string nothing_found(const StatOptions& wanted) {
    const std::string device = wanted.device.empty() ? "a uroce device" : wanted.device;
    const std::string process =
        wanted.pid == 0 ? "no process of this user" : "process " + std::to_string(wanted.pid);
    return process + " has used " + device +
           ", or it keeps its counters in another directory (SLUICE_UROCE_COUNTERS)";
}

} // namespace

} // namespace sluice::tools::counters

sluice::tools::ExitStatus sluice::tools::run_stat(const Options& options, const StatOptions& wanted) {
    if (!options.root.empty()) {
        throw Failure(kExitUsage, "stat: --root has no processes; run it without, on the machine itself");
    }
    std::vector<UroceUse> uses = uroce_uses();
    std::erase_if(uses, [&](const UroceUse& use) {
        return (!wanted.device.empty() && use.device != wanted.device) ||
               (wanted.pid != 0 && use.pid != wanted.pid);
    });
    std::ranges::stable_sort(uses, {}, [](const UroceUse& use) { return std::tie(use.device, use.pid); });
    if (options.json) {
        counters::Json list = counters::Json::array();
        for (const UroceUse& use : uses) {
            list.push_back(counters::to_json(use));
        }
        const counters::Json document{{"schema", counters::kUsesSchema}, {"uses", std::move(list)}};
        std::cout << document.dump(2, ' ', false, counters::Json::error_handler_t::replace) << '\n';
    } else if (!uses.empty()) {
        counters::print_uses(uses);
    }
    if (uses.empty()) {
        throw Failure(kExitNoDevice, counters::nothing_found(wanted));
    }
    return kExitOk;
}
