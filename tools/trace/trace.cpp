// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice trace`: a command behind a library that records what it does with verbs (ADR 103). Each process of
// it writes to a file of its own, which is read when the command has ended, however it has.
#include <signal.h>

#include <iostream>
#include <optional>

#include "tools/child.hpp"
#include "tools/commands.hpp"
#include "tools/output_file.hpp"
#include "tools/parts.hpp"
#include "tools/running_command.hpp"
#include "tools/trace/folder.hpp"
#include "tools/trace/picture.hpp"
#include "tools/trace/timeline.hpp"

namespace sluice::tools::trace {

namespace {

constexpr const char* kUsualFile = "sluice-trace.json";

void say(const std::string& line) {
    say_in_one_piece("sluice: trace: " + line + "\n");
}

void say_lost(std::uint64_t lost, const std::string& origin) {
    if (lost != 0) {
        say(counted(lost, "event") + " of " + origin + (lost == 1 ? " wasn't" : " weren't") +
            " recorded: --events makes room for more, and TMPDIR may name a directory with more of it");
    }
}

void say_what_is_missing(const TracedProcess& process) {
    const std::string of_process = "process " + std::to_string(process.recording.pid);
    for (const TracedThread& thread : process.recording.threads) {
        say_lost(thread.lost,
                 "thread " + std::to_string(thread.tid) + " (" + thread.name + ") of " + of_process);
    }
    say_lost(process.recording.lost_of_others, "further threads of " + of_process);
    const TraceTotals totals = totals_of(process);
    if (totals.unreadable != 0) {
        say(of_process + ": " + counted(totals.unreadable, "record") + " can't be understood");
    }
    if (totals.unseen != 0) {
        say(of_process + ": requests of " + counted(totals.unseen, "object") +
            " weren't recorded, as there are too many kinds of them");
    }
}

std::vector<TracedProcess> processes_of(const TraceFolder& folder, std::uint32_t events) {
    std::vector<TracedProcess> processes;
    std::vector<Recording> recordings = folder.recordings(file::blocks_for(events));
    processes.reserve(recordings.size());
    for (Recording& recording : recordings) {
        Requests requests = requests_of(recording);
        processes.push_back({.recording = std::move(recording), .requests = std::move(requests)});
    }
    return processes;
}

void say_totals(const std::vector<TracedProcess>& processes, const std::string& output) {
    TraceTotals all;
    for (const TracedProcess& process : processes) {
        say_what_is_missing(process);
        const TraceTotals totals = totals_of(process);
        all.posts += totals.posts;
        all.completions += totals.completions;
    }
    if (processes.empty()) {
        say("no process of the command has used verbs; " + output + " has nothing of it");
    } else {
        say((processes.size() == 1 ? "1 process" : std::to_string(processes.size()) + " processes") + ": " +
            counted(all.posts, "post") + " and " + counted(all.completions, "completion") + " in " + output);
    }
}

// What is asked for, each opened before the command is started.
class TraceOutputs {
  public:
    explicit TraceOutputs(const TraceOptions& how) {
        if (how.output == "-" && how.html == "-") {
            throw Failure(kExitUsage, "trace: trace events and a page can't both go to standard output");
        }
        if (!how.output.empty() || how.html.empty()) {
            timeline_.emplace("trace", how.output.empty() ? kUsualFile : how.output);
        }
        if (!how.html.empty()) {
            page_.emplace("trace", how.html);
        }
    }

    void write(const std::vector<TracedProcess>& processes, const std::string& command) {
        if (timeline_) {
            write_timeline(timeline_->stream(), processes, command);
        }
        if (page_) {
            write_picture(page_->stream(), processes, command);
        }
    }
    // What they are called in messages.
    std::string names() const {
        return (timeline_ ? timeline_->shown() : "") + (timeline_ && page_ ? " and " : "") +
               (page_ ? page_->shown() : "");
    }
    void finish() {
        for (std::optional<OutputFile>* each : {&timeline_, &page_}) {
            if (*each) {
                (*each)->finish();
            }
        }
    }

  private:
    std::optional<OutputFile> timeline_;
    std::optional<OutputFile> page_;
};

int run_traced(const TraceOptions& how, const std::vector<std::string>& command) {
    const std::string library = part_for_loader(find_part(kTrace), "LD_PRELOAD");
    look_first(command.front(), kTracesProgram);
    TraceOutputs outputs(how);
    const TraceFolder folder;
    const BlockedSignals signals;
    RunningCommand running(signals, Reaps::kCommand);
    const int failed = running.start(
        command, environment_with({preload_in_front(library), before_sanitizer(),
                                   "SLUICE_TRACE=" + std::to_string(how.events) + ":" + folder.path()}));
    if (failed != 0) {
        return failed;
    }
    signal(SIGPIPE, SIG_IGN);
    running.wait_for_end();
    const std::vector<TracedProcess> processes = processes_of(folder, how.events);
    outputs.write(processes, joined(command));
    say_totals(processes, outputs.names());
    const int status = exit_status(running.wait_status());
    if (status == 0) {
        outputs.finish();
    }
    return status;
}

} // namespace

} // namespace sluice::tools::trace

int sluice::tools::run_trace(const Options& options, const TraceOptions& how,
                             const std::vector<std::string>& command) {
    if (options.json || !options.root.empty()) {
        throw Failure(kExitUsage,
                      "trace: --json FILE belongs behind `trace`, and --root has no meaning here");
    }
    return trace::run_traced(how, command);
}
