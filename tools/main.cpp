// SPDX-License-Identifier: BSD-3-Clause
//
// The `sluice` command: reads the command line and calls the subcommand.
#include <sluice/sluice.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <clocale>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <span>
#include <string_view>

#include "tools/commands.hpp"
#include "tools/examples.hpp"
#include "tools/hosts.hpp"
#include "tools/library.hpp"
#include "tools/nearest.hpp"

namespace {

using namespace sluice::tools;

constexpr const char* kFooter =
    "\nExit status: 0 done, 1 it failed, 2 wrong command line, 3 no such device, or none "
    "at all.\n`run`, `check` and `trace` end with their command's status. Manual: man sluice";

constexpr std::uint32_t kMostQpn = 0xffffff; // 24 bits

// Such as "dat check".
std::string path_of(const CLI::App& command) {
    const CLI::App* const parent = command.get_parent();
    const bool is_first = parent == nullptr || parent->get_parent() == nullptr;
    return is_first ? command.get_name() : path_of(*parent) + " " + command.get_name();
}

struct CommandLine {
    CLI::App app{"Tells what the memory of RDMA devices does, and who drives them.", "sluice"};
    Options options;
    std::string device;
    std::string ia_name;
    std::string kind; // of names to complete
    int dat_api = 1;
    bool force = false;
    DumpOptions dumped;
    RunOptions how;
    StatOptions wanted;
    TopOptions watched;
    HostOptions hosts;
    CheckOptions checked;
    TraceOptions traced;
    PersistOptions persisted;
    std::vector<std::string> to_run;
    std::function<int()> chosen;

    CommandLine() {
        app.set_version_flag("--version", std::string("sluice ") + sluice_version());
        app.footer(examples_of("") + kFooter);
        app.require_subcommand(1);
        app.fallthrough();
        app.add_flag("--json", options.json, "Print JSON; sluice(1) describes it");
        app.add_flag("--wide", options.wide, "Tables with all columns, on a narrow terminal, too");
        app.add_option("--color", options.color, "auto, always or never; auto is on terminals")
            ->type_name("WHEN")
            ->check(CLI::IsMember({"auto", "always", "never"}));
        app.add_option("--root", options.root, "Look at the machine recorded under DIR")->type_name("DIR");
        add(app, "devices", "All RDMA devices at a glance", [this] { return run_devices(options); });
        CLI::App* info = add(app, "info", "Everything about a device, or about each",
                             [this] { return run_info(options, device); });
        info->add_option("DEV", device, "The device, such as mlx5_0");
        add(app, "config", "Every variable and key, what holds, and who said so",
            [this] { return run_config(options); });
        add(app, "complete-names", "Names for a shell's completion",
            [this] { return run_complete_names(options, kind); })
            ->group("")
            ->add_option("KIND", kind);
        add_doctor();
        add_dat();
        add_provider();
        add_uroce();
        add_stat();
        add_top();
        add_run();
        add_check();
        add_trace();
        add_sync();
        add_persist();
    }

    CommandLine(const CommandLine&) = delete;
    CommandLine& operator=(const CommandLine&) = delete;

  private:
    CLI::App* add_below(CLI::App& parent, const std::string& name, const char* help) {
        CLI::App* command = parent.add_subcommand(name, help);
        command->fallthrough();
        command->footer(examples_of(path_of(*command)));
        return command;
    }

    // One of several commands follows.
    CLI::App* add_group(const char* name, const char* help) {
        CLI::App* group = add_below(app, name, help);
        group->require_subcommand(1);
        return group;
    }

    CLI::App* add(CLI::App& parent, const char* name, const char* help, std::function<int()> run) {
        CLI::App* command = add_below(parent, name, help);
        command->callback([this, run = std::move(run)] { chosen = run; });
        return command;
    }

    void add_doctor() {
        CLI::App* doctor = add(app, "doctor", "What keeps RDMA from working here, and what cures it",
                               [this] { return run_doctor(options, to_run); });
        doctor->add_option("COMMAND", to_run,
                           "After --: a command to look at and to run, with its arguments");
    }

    void add_dat() {
        CLI::App* dat = add_group("dat", "What programs for DAT (uDAPL) can open");
        add(*dat, "list", "Every interface adapter, and who named it",
            [this] { return run_dat_list(options); });
        CLI::App* check = add(*dat, "check", "What is wrong in dat.conf, and what opening gives",
                              [this] { return run_dat_check(options, ia_name); });
        check->add_option("NAME", ia_name, "One interface adapter instead of all");
        CLI::App* enter = add(*dat, "register", "Name a device in dat.conf",
                              [this] { return run_dat_register(options, device, ia_name, dat_api); });
        enter->add_option("DEV", device, "The device, such as mlx5_0")->required();
        enter->add_option("--name", ia_name, "What it shall be opened by; its own name otherwise")
            ->check(
                [](const std::string& name) { return name.empty() ? "a name has 1 to 255 characters" : ""; });
        add_api(*enter);
        CLI::App* remove = add(*dat, "unregister", "Take that back",
                               [this] { return run_dat_unregister(options, ia_name, dat_api); });
        remove->add_option("NAME", ia_name, "What it is opened by")->required();
        add_api(*remove);
    }

    void add_api(CLI::App& command) {
        command.add_option("--api", dat_api, "1, or 2 for programs under libdat2")
            ->check(CLI::IsMember({1, 2}));
    }

    void add_provider() {
        CLI::App* provider = add_group("provider", "Which provider drives each device, and Sluice's own");
        add(*provider, "status", "Which provider drives each device, and why",
            [this] { return run_provider_status(options); });
        CLI::App* enable = add(*provider, "enable", "Let libibverbs load Sluice's provider for rxe and siw",
                               [this] { return run_provider_enable(options, force); });
        enable->add_flag("--force", force, "Even if the plugin is not installed");
        add(*provider, "disable", "Take that back", [this] { return run_provider_disable(options); });
    }

    void add_uroce() {
        CLI::App* uroce = add_group("uroce", "Tools for the device without a kernel");
        CLI::App* dump = add(*uroce, "dump", "Each RoCEv2 packet of a recording in a line",
                             [this] { return run_uroce_dump(options, dumped); });
        dump->add_option("FILE", dumped.file, "A pcap or pcapng file; - is standard input")->required();
        CLI::Option* const html =
            dump->add_flag("--html", dumped.html, "A picture of it instead: a page for a browser");
        dump->add_option("--queue-pair", dumped.queue_pair, "Only connections of this one, such as 0x11")
            ->check(CLI::Range(std::uint32_t{0}, kMostQpn))
            ->type_name("N")
            ->needs(html);
    }

    void add_stat() {
        CLI::App* stat = add(app, "stat", "What uroce devices have counted, process by process",
                             [this] { return run_stat(options, wanted); });
        stat->add_option("--device", wanted.device, "One device instead of all, such as uroce0");
        stat->add_option("--pid", wanted.pid, "One process instead of all")
            ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 31));
        stat->add_flag("--queue-pairs", wanted.queue_pairs,
                       "A line for each queue pair instead of each device");
        stat->add_flag("--metrics", wanted.metrics, "Print OpenMetrics, for programs that scrape");
    }

    void add_top() {
        CLI::App* top = add(app, "top", "What uroce devices do now, process by process, again and again",
                            [this] { return run_top(options, watched); });
        top->add_option("--device", watched.wanted.device, "One device instead of all, such as uroce0");
        top->add_option("--pid", watched.wanted.pid, "One process instead of all")
            ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 31));
        top->add_option("--interval", watched.interval_seconds, "Seconds between two looks, 1 unless said")
            ->check(CLI::Range(0.1, 3600.0));
        CLI::Option* const times = top->add_option("--iterations", watched.iterations, "End after so many")
                                       ->check(CLI::Range(1U, 1'000'000U));
        top->add_flag_callback(
               "--once", [this] { watched.iterations = 1; }, "The same as --iterations 1")
            ->excludes(times);
    }

    void add_run() {
        CLI::App* run = add(app, "run", "Run a command with an RDMA device of its own",
                            [this] { return run_run(options, how, to_run); });
        run->add_option("--device", how.device, "Its type, rxe unless said")
            ->check(CLI::IsMember({"rxe", "uroce"}));
        run->add_flag("--local", how.local, "With uroce's loopback device only, and none of an interface");
        run->add_flag("--shared-heap", how.shared_heap,
                      "With memory that other processes can map, for fast Writes to it");
        CLI::Option* const pair =
            run->add_flag("--pair", how.pair, "Two copies over uroce, with one output and one exit status");
        run->add_option("--ranks", how.ranks, "So many copies")->check(CLI::Range(1U, 64U))->excludes(pair);
        run->add_option("--timeout", how.timeout_seconds, "End copies that run longer, in seconds")
            ->check(CLI::Range(1U, 86400U));
        run->add_option("COMMAND", to_run, "After --: the command and its arguments")->required();
    }

    // The parser would take the mark before the command for the name.
    static std::string check_file_name(const std::string& name) {
        return name == "--" ? "the name of a file is missing" : "";
    }

    void add_check() {
        CLI::App* check = add(app, "check", "Run a command and report mistakes in its use of verbs",
                              [this] { return run_check(options, checked, to_run); });
        CLI::Option* const quick =
            check->add_flag("--quick", checked.quick, "Only what costs next to nothing");
        check
            ->add_flag("--every-request", checked.every_request,
                       "Watch the memory of each request, also where a queue has thousands")
            ->excludes(quick);
        check->add_flag("--pedantic", checked.pedantic, "Also what right programs may do, if they know why")
            ->excludes(quick);
        check->add_option("--json", checked.json, "One JSON object a line; - is standard output")
            ->type_name("FILE")
            ->check(check_file_name, "");
        check->add_option("--suppressions", checked.suppressions, "Findings that are not reported")
            ->type_name("FILE")
            ->check(check_file_name, "");
        check
            ->add_option("--exit-code", checked.exit_code,
                         "Where there are mistakes and the command ends with 0, 66 unless said")
            ->check(CLI::Range(0, 255));
        check->add_option("--limit", checked.limit, "So many reports for one place, 1 unless said")
            ->check(CLI::Range(1U, 1000U));
        check
            ->add_option("--timeline", checked.timeline,
                         "A page of what each cache line was when, on simulated memory; - is standard output")
            ->type_name("FILE")
            ->check(check_file_name, "")
            ->excludes(quick);
        check
            ->add_option("--timeline-json", checked.timeline_json,
                         "The same as JSON, instead or besides; - is standard output")
            ->type_name("FILE")
            ->check(check_file_name, "")
            ->excludes(quick);
        check
            ->add_option("--timeline-events", checked.timeline_events,
                         "Room for so many of each process, 100000 unless said")
            ->check(CLI::Range(100U, 1'000'000U));
        check->add_option("COMMAND", to_run, "After --: the command and its arguments")->required();
    }

    void add_trace() {
        CLI::App* trace = add(app, "trace", "Run a command and record its requests and their completions",
                              [this] { return run_trace(options, traced, to_run); });
        trace
            ->add_option(
                "-o,--json", traced.output,
                "Trace events as Chrome has them, sluice-trace.json unless said; - is standard output")
            ->type_name("FILE")
            ->check(check_file_name, "");
        trace
            ->add_option("--html", traced.html,
                         "A page for a browser, instead or besides; - is standard output")
            ->type_name("FILE")
            ->check(check_file_name, "");
        trace->add_option("--events", traced.events, "Room for so many of each process, 1000000 unless said")
            ->check(CLI::Range(1024U, 100'000'000U));
        trace->add_option("COMMAND", to_run, "After --: the command and its arguments")->required();
    }

    void add_sync() {
        CLI::App* sync = add_group("sync", "Tools for memory that hosts share without coherence");
        CLI::App* run = add(*sync, "run", "Run copies of a command as hosts with caches of their own",
                            [this] { return run_sync_run(options, hosts, to_run); });
        run->add_option("--hosts", hosts.hosts, "So many, 2 unless said")->check(CLI::Range(2U, 8U));
        run->add_option("--seed", hosts.seed, "What is drawn by lot, as in an earlier run");
        run->add_option("--evict", hosts.evictions, "Lines that each call evicts besides, 0 unless said")
            ->check(CLI::Range(0U, 1000U));
        run->add_option("--timeout", hosts.timeout_seconds, "End hosts that run longer, in seconds")
            ->check(CLI::Range(1U, 86400U));
        run->add_option("COMMAND", to_run, "After --: the command and its arguments")->required();
    }

    void add_persist() {
        CLI::App* persist = add_group("persist", "Tools for memory that survives a loss of power");
        CLI::App* run = add(*persist, "run", "Run a command and cut the power of its files",
                            [this] { return run_persist_run(options, persisted, to_run); });
        run->add_option("--file", persisted.files,
                        "One that stands for persistent memory; for each one again")
            ->required()
            ->allow_extra_args(false)
            ->type_name("FILE")
            ->check(check_file_name, "");
        run->add_option("--check", persisted.check,
                        "For sh: looks at what is left, and fails if it is wrong");
        CLI::Option* const every =
            run->add_flag("--every-step", persisted.every_step, "Again and again, with a cut at each step");
        run->add_option("--cut", persisted.cut, "Before this step; at the end unless said")
            ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40))
            ->excludes(every);
        run->add_option("--seed", persisted.seed, "What is drawn by lot, as in an earlier run");
        run->add_option("--outcomes", persisted.outcomes, "So many at each cut, 20 unless said")
            ->check(CLI::Range(1U, 10000U));
        run->add_option("--outcome", persisted.outcome, "This one alone, as an earlier run has named it")
            ->check(CLI::Range(0U, 9999U))
            ->excludes(every);
        run->add_flag("--no-ddio", persisted.is_ddio_off,
                      "A peer's Read makes durable what was written before it");
        run->add_option("--timeout", persisted.timeout_seconds, "End a run that takes longer, in seconds")
            ->check(CLI::Range(1U, 86400U));
        run->add_option("COMMAND", to_run, "After --: the command and its arguments")->required();
    }
};

std::vector<std::string> names_of_commands(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
        if (!command->get_group().empty()) { // it is hidden otherwise
            names.push_back(command->get_name());
        }
    }
    return names;
}

// Of APP and those above it: they are taken behind its name, too.
std::vector<std::string> names_of_options(const CLI::App* app) {
    std::vector<std::string> names;
    for (; app != nullptr; app = app->get_parent()) {
        for (const CLI::Option* option : app->get_options()) {
            for (const std::string& name : option->get_lnames()) {
                names.push_back("--" + name);
            }
        }
    }
    return names;
}

std::string suggest_option(const CLI::App& app, const std::vector<std::string>& unknown) {
    const auto option =
        std::ranges::find_if(unknown, [](const auto& word) { return word.starts_with("--"); });
    return option == unknown.end()
               ? ""
               : did_you_mean(option->substr(0, option->find('=')), names_of_options(&app));
}

// What the parser says, and what would have been right; in one line. Who has said nothing yet gets the help.
int report_usage(const CLI::App& app, const CLI::ParseError& error) {
    const CLI::App* at = &app;
    while (!at->get_subcommands().empty()) {
        at = at->get_subcommands().front();
    }
    const std::vector<std::string> unknown = app.remaining(true);
    const std::vector<std::string> commands = names_of_commands(*at);
    const bool lacks_command = error.get_name() == "RequiredError" && !commands.empty();
    if (lacks_command && unknown.empty()) {
        std::cout << app.help() << '\n';
        return kExitUsage;
    }
    const bool is_option = lacks_command && unknown.front().starts_with("-");
    std::cerr << "sluice: "
              << (is_option ? "unknown option '" + unknown.front() + "'" + suggest_option(*at, unknown)
                  : lacks_command
                      ? "unknown command '" + unknown.front() + "'" + did_you_mean(unknown.front(), commands)
                      : error.what() + suggest_option(*at, unknown));
    std::string names;
    for (const std::string& command : commands) {
        names += " " + command;
    }
    std::cerr << (names.empty() ? "" : "; commands:" + names) << "; see `sluice "
              << (at == &app ? "" : path_of(*at) + " ") << "--help`\n";
    return kExitUsage;
}

// What stands after "--" on the command line of a subcommand that starts commands.
std::span<char*> arguments_of_command(std::span<char*> words) {
    const auto mark = std::ranges::find(words, std::string_view("--"));
    const bool starts_commands = std::any_of(words.begin(), mark, [](const std::string_view word) {
        return word == "run" || word == "doctor" || word == "check" || word == "trace";
    });
    return starts_commands && mark != words.end() ? std::span(mark + 1, words.end()) : std::span<char*>();
}

// The parser would take an argument "[a,b]" for two. It sees another one.
void parse(CommandLine& line, std::span<char*> words) {
    const std::span<char*> own = arguments_of_command(words);
    std::vector<const char*> shown(words.begin(), words.end());
    std::replace_if(
        shown.end() - static_cast<std::ptrdiff_t>(own.size()), shown.end(),
        [](const char* word) { return word[0] == '['; }, "[");
    line.app.parse(static_cast<int>(shown.size()), shown.data());
    if (own.size() <= line.to_run.size()) {
        std::copy(own.begin(), own.end(), line.to_run.end() - static_cast<std::ptrdiff_t>(own.size()));
    }
}

int run(std::span<char*> words) {
    CommandLine line;
    try {
        parse(line, words);
    } catch (const CLI::Success& done) {
        return line.app.exit(done);
    } catch (const CLI::ParseError& error) {
        return report_usage(line.app, error);
    }
    struct stat status {};
    if (!line.options.root.empty() &&
        (stat(line.options.root.c_str(), &status) != 0 || !S_ISDIR(status.st_mode))) {
        throw Failure(kExitUsage, "--root: '" + line.options.root + "' is no directory");
    }
    listen_to_library();
    const int result = line.chosen();
    flush_or_fail(std::cout, "standard output");
    return result;
}

} // namespace

int main(int argc, char** argv) {
    // Names from the kernel may be in any language; in the C locale a table shows their bytes as \xNN.
    std::setlocale(LC_CTYPE, "");
    try {
        return run({argv, static_cast<std::size_t>(argc)});
    } catch (const Failure& failure) {
        std::cerr << "sluice: " << failure.what() << '\n';
        return failure.status();
    } catch (const std::exception& error) {
        std::cerr << "sluice: " << error.what() << '\n';
        return kExitFailure;
    }
}
