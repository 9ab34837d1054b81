// SPDX-License-Identifier: BSD-3-Clause
//
// The `sluice` command: reads the command line and calls the subcommand.
#include <sluice/sluice.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <functional>
#include <iostream>

#include "tools/commands.hpp"
#include "tools/library.hpp"

namespace {

using namespace sluice::tools;

constexpr const char* kFooter =
    "Exit status: 0 done, 1 it failed, 2 wrong command line, 3 no such device, or none "
    "at all.\nManual: man sluice";

struct CommandLine {
    CLI::App app{"Tells what the memory of RDMA devices does, and who drives them.", "sluice"};
    Options options;
    std::string device;
    bool force = false;
    std::function<ExitStatus()> chosen;

    CommandLine() {
        app.set_version_flag("--version", std::string("sluice ") + sluice_version());
        app.footer(kFooter);
        app.require_subcommand(1);
        app.fallthrough();
        app.add_flag("--json", options.json, "Print JSON; sluice(1) describes it");
        app.add_option("--root", options.root, "Look at the machine recorded under DIR")->type_name("DIR");
        add(app, "devices", "All RDMA devices at a glance", [this] { return run_devices(options); });
        CLI::App* info = add(app, "info", "Everything about a device, or about each",
                             [this] { return run_info(options, device); });
        info->add_option("DEV", device, "The device, such as mlx5_0");
        add(app, "config", "Every variable and key, what holds, and who said so",
            [this] { return run_config(options); });
        add_provider();
    }

    CommandLine(const CommandLine&) = delete;
    CommandLine& operator=(const CommandLine&) = delete;

  private:
    CLI::App* add(CLI::App& parent, const char* name, const char* help, std::function<ExitStatus()> run) {
        CLI::App* command = parent.add_subcommand(name, help);
        command->fallthrough();
        command->callback([this, run = std::move(run)] { chosen = run; });
        return command;
    }

    void add_provider() {
        CLI::App* provider =
            app.add_subcommand("provider", "Which provider drives each device, and Sluice's own");
        provider->fallthrough();
        provider->require_subcommand(1);
        add(*provider, "status", "Which provider drives each device, and why",
            [this] { return run_provider_status(options); });
        CLI::App* enable = add(*provider, "enable", "Let libibverbs load Sluice's provider for rxe and siw",
                               [this] { return run_provider_enable(options, force); });
        enable->add_flag("--force", force, "Even if the plugin is not installed");
        add(*provider, "disable", "Take that back", [this] { return run_provider_disable(options); });
    }
};

// What the parser says, and what would have been right.
int report_usage(const CLI::App& app, const CLI::ParseError& error) {
    const CLI::App* at = &app;
    while (!at->get_subcommands().empty()) {
        at = at->get_subcommands().front();
    }
    const std::vector<std::string> unknown = app.remaining(true);
    const bool is_unknown_command = error.get_name() == "RequiredError" && !unknown.empty();
    std::cerr << "sluice: "
              << (is_unknown_command ? "unknown command '" + unknown.front() + "'"
                                     : std::string(error.what()));
    std::string names;
    for (const CLI::App* command : at->get_subcommands([](const CLI::App*) { return true; })) {
        names += " " + command->get_name();
    }
    std::cerr << (names.empty() ? "" : "; commands:" + names) << "; see `sluice --help`\n";
    return kExitUsage;
}

int run(int argc, char** argv) {
    CommandLine line;
    try {
        line.app.parse(argc, argv);
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
    const ExitStatus result = line.chosen();
    std::cout.flush();
    if (!std::cout) {
        throw Failure(kExitFailure, "standard output can't be written");
    }
    return result;
}

} // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const Failure& failure) {
        std::cerr << "sluice: " << failure.what() << '\n';
        return failure.status();
    } catch (const std::exception& error) {
        std::cerr << "sluice: " << error.what() << '\n';
        return kExitFailure;
    }
}
