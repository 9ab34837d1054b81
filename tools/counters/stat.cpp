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

Json to_json(const NamedCounters& counters) {
    Json made = Json::object();
    for (const auto& [name, value] : counters) {
        put_counter(made, name, value);
    }
    return made;
}

Json to_json(const UroceQueuePair& one) {
    return {{"qpn", one.qpn},
            {"type", one.type},
            {"state", one.state},
            {"local", one.local},
            {"remote", one.remote},
            {"peer-qpn", one.peer_qpn},
            {"counters", to_json(one.counters)}};
}

Json to_json(const UroceUse& use) {
    Json queue_pairs = Json::array();
    for (const UroceQueuePair& one : use.queue_pairs) {
        queue_pairs.push_back(to_json(one));
    }
    return {{"device", use.device},
            {"address", use.address},
            {"pid", use.pid},
            {"command", use.command},
            {"running", use.is_running},
            {"opened-ns", use.opened_ns},
            {"counters", to_json(use.counters)},
            {"queue-pairs", std::move(queue_pairs)}};
}

void print_json(const std::vector<UroceUse>& uses) {
    Json list = Json::array();
    for (const UroceUse& use : uses) {
        list.push_back(to_json(use));
    }
    const Json document{{"schema", kUsesSchema}, {"uses", std::move(list)}};
    std::cout << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

Cell number_of_failed(std::uint64_t failed) {
    return {std::to_string(failed), failed == 0 ? Tone::kPlain : Tone::kBad};
}

void print_uses(const Options& options, const std::vector<UroceUse>& uses) {
    const std::vector<Column> columns{{"DEVICE", 8},
                                      {"ADDRESS", 5},
                                      {"PID", 0, Column::kRight},
                                      {"STATE", 6},
                                      {"BYTES SENT", 10, Column::kRight},
                                      {"BYTES RECEIVED", 9, Column::kRight},
                                      {"SENT AGAIN", 4, Column::kRight},
                                      {"DROPPED", 3, Column::kRight},
                                      {"FAILED", 7, Column::kRight},
                                      {"SYNCS", 2, Column::kRight},
                                      {"LINES", 1, Column::kRight},
                                      {"COMMAND"}};
    std::vector<Row> rows;
    for (const UroceUse& use : uses) {
        const auto number = [&](const char* begin, const char* end = "") {
            return std::to_string(sum(use.counters, begin, end));
        };
        rows.push_back({use.device, use.address, std::to_string(use.pid),
                        use.is_running ? Cell("runs", Tone::kGood) : Cell("ended"),
                        number("path.", ".bytes_sent"), number("path.", ".bytes_received"),
                        number("transport.retransmissions"), number("drop."),
                        number_of_failed(failed_completions(use)),
                        std::to_string(sum(use.counters, "sync.before_device_reads") +
                                       sum(use.counters, "sync.after_device_wrote")),
                        number("sync.lines_"), use.command});
    }
    print_table(options, columns, rows);
}

std::string peer_of(const UroceQueuePair& one) {
    return one.remote.empty() ? "" : one.remote + " " + std::to_string(one.peer_qpn);
}

Cell in_state(const std::string& state, bool is_running) {
    return is_running ? Cell(state, state == "RTS"   ? Tone::kGood
                                    : state == "ERR" ? Tone::kBad
                                                     : Tone::kPlain)
                      : Cell(state + ", ended");
}

std::size_t print_queue_pairs(const Options& options, const std::vector<UroceUse>& uses) {
    const std::vector<Column> columns{{"DEVICE", 7},
                                      {"PID", 0, Column::kRight},
                                      {"QP", 0, Column::kRight},
                                      {"TYPE", 6},
                                      {"STATE"},
                                      {"PEER", 10},
                                      {"SENT", 9, Column::kRight},
                                      {"RECEIVED", 8, Column::kRight},
                                      {"BYTES SENT", 4, Column::kRight},
                                      {"BYTES RECEIVED", 3, Column::kRight},
                                      {"SENT AGAIN", 2, Column::kRight},
                                      {"DROPPED", 1, Column::kRight},
                                      {"FAILED", 5, Column::kRight},
                                      {"COMMAND"}};
    std::vector<Row> rows;
    for (const UroceUse& use : uses) {
        for (const UroceQueuePair& one : use.queue_pairs) {
            const auto number = [&](const char* name) { return std::to_string(sum(one.counters, name)); };
            rows.push_back({use.device, std::to_string(use.pid), std::to_string(one.qpn), one.type,
                            in_state(one.state, use.is_running), peer_of(one), number("messages_sent"),
                            number("messages_received"), number("bytes_sent"), number("bytes_received"),
                            number("retransmissions"), number("dropped"),
                            number_of_failed(sum(one.counters, "completions.failed")), use.command});
        }
    }
    if (!rows.empty()) {
        print_table(options, columns, rows);
    }
    return rows.size();
}

ExitStatus show_queue_pairs(const Options& options, const StatOptions& wanted) {
    const std::vector<UroceUse> uses = selected_uses(wanted);
    if (uses.empty()) {
        throw Failure(kExitNoDevice, nothing_found(wanted));
    }
    if (print_queue_pairs(options, uses) == 0) {
        throw Failure(kExitNoDevice,
                      "none of these processes has a queue pair now, or had one when it ended; "
                      "`sluice stat` shows what they have counted");
    }
    return kExitOk;
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
    if (options.json || !wanted.queue_pairs) {
        return counters::show(options, wanted);
    }
    if (wanted.metrics) {
        throw Failure(kExitUsage, "stat: --metrics has no queue pairs, which come and go; use --json");
    }
    return counters::show_queue_pairs(options, wanted);
}
