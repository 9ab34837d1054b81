// SPDX-License-Identifier: BSD-3-Clause
//
// One function for each subcommand. Each prints to standard output and gives the exit status, or
// throws a Failure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/output.hpp"

namespace sluice::tools {

ExitStatus run_devices(const Options& options);
ExitStatus run_info(const Options& options, const std::string& device);
ExitStatus run_config(const Options& options);
// KIND: devices, counted (devices), processes, adapters (of DAT), or registered (adapters).
ExitStatus run_complete_names(const Options& options, const std::string& kind);
ExitStatus run_dat_list(const Options& options);
ExitStatus run_dat_check(const Options& options, const std::string& name);
// NAME is what the device shall be opened by; empty: by its own name.
// API: 1, or 2 for programs under libdat2.
ExitStatus run_dat_register(const Options& options, const std::string& device, const std::string& name,
                            int api);
ExitStatus run_dat_unregister(const Options& options, const std::string& name, int api);
ExitStatus run_provider_status(const Options& options);
ExitStatus run_provider_enable(const Options& options, bool force);
ExitStatus run_provider_disable(const Options& options);
// COMMAND, if there is one, is looked at and run, too.
ExitStatus run_doctor(const Options& options, const std::vector<std::string>& command);

struct DumpOptions {
    std::string file;
    bool html = false;
    std::optional<std::uint32_t> queue_pair; // of the page
};
ExitStatus run_uroce_dump(const Options& options, const DumpOptions& how);

struct StatOptions {
    std::string device;   // empty: all
    std::int64_t pid = 0; // 0: all
    bool metrics = false; // as OpenMetrics
    bool queue_pairs = false;
};
ExitStatus run_stat(const Options& options, const StatOptions& wanted);

struct TopOptions {
    StatOptions wanted;
    double interval_seconds = 1;
    unsigned iterations = 0; // 0: until somebody ends it
};
// A signal that ends it ends the process.
ExitStatus run_top(const Options& options, const TopOptions& how);

struct RunOptions {
    std::string device; // its type: rxe or uroce; empty: rxe, or uroce for several ranks
    bool local = false; // of uroce, the loopback device alone
    bool shared_heap = false;
    bool pair = false;
    unsigned ranks = 0; // 0: the command itself
    unsigned timeout_seconds = 0;
};
// Gives the command's own status where there is one.
int run_run(const Options& options, const RunOptions& how, const std::vector<std::string>& command);

struct CheckOptions {
    bool quick = false;
    bool every_request = false;
    bool pedantic = false;
    std::string json;         // a file for one object a line, "-" for standard output; empty: none
    std::string suppressions; // a file; empty: none
    int exit_code = 66;       // where something was found and the command ended with 0
    unsigned limit = 1;       // reports for one place
    std::string timeline; // a file for a page of the coherence timeline, "-" for standard output; empty: none
    std::string timeline_json;               // likewise for a document
    std::uint32_t timeline_events = 100'000; // of a process
};
// Gives the command's own status where it isn't 0.
int run_check(const Options& options, const CheckOptions& how, const std::vector<std::string>& command);

struct PersistOptions {
    std::vector<std::string> files;
    std::string check;                 // for a shell; empty: nobody checks
    std::optional<std::uint64_t> seed; // drawn if there is none
    std::uint64_t cut = 0;             // before this step; 0: at the end
    bool every_step = false;
    bool is_ddio_off = false;
    std::optional<unsigned> outcome; // this one alone
    unsigned outcomes = 20;          // so many at each cut, at most
    unsigned timeout_seconds = 0;    // 0: none
};
// Gives the command's own status where it isn't 0.
int run_persist_run(const Options& options, const PersistOptions& how,
                    const std::vector<std::string>& command);

struct TraceOptions {
    std::string output; // a file, "-" for standard output; empty: the usual name, or none beside a page
    std::string html;   // a page; empty: none
    std::uint32_t events = 1000000; // of a process
};
// Gives the command's own status where it isn't 0.
int run_trace(const Options& options, const TraceOptions& how, const std::vector<std::string>& command);

} // namespace sluice::tools
