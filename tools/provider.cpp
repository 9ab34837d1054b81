// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice provider`: which provider drives each device, and switching ours on and off.
//
// Only one file is ever written or removed, and it is our own: libibverbs reads it and loads the
// plugin, and the plugin takes its being there as the permission to take devices. What others
// installed stays as it is, so where libibverbs happens to ask the stock provider first, we say
// so and what to do instead.
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "tools/commands.hpp"
#include "tools/library.hpp"
#include "tools/plain_file.hpp"
#include "tools/probe.hpp"

namespace sluice::tools {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kProviderSchema = 1;
constexpr const char* kDriverDirectory = "/etc/libibverbs.d";
constexpr const char* kDriverFile = "/etc/libibverbs.d/sluice.driver";
constexpr std::string_view kContent =
    "# Written by `sluice provider enable`; `sluice provider disable` removes it.\ndriver sluice\n";

enum class State { kAbsent, kOurs, kForeign };

State state_of(const std::string& path) {
    const PlainFile file = read_plain_file(path);
    if (!file.exists) {
        return State::kAbsent;
    }
    return file.is_plain && file.content == kContent ? State::kOurs : State::kForeign;
}

bool is_sluice(const std::string& provider) {
    const std::string name = provider.substr(provider.rfind('/') + 1);
    if (name.starts_with("libsluice")) {
        return true;
    }
    // The stock name may be a link to ours.
    std::array<char, 4096> target{};
    const ssize_t length = readlink(provider.c_str(), target.data(), target.size() - 1);
    return length > 0 &&
           std::string_view(target.data(), static_cast<std::size_t>(length)).find("libsluice") !=
               std::string_view::npos;
}

struct Situation {
    bool enabled;
    bool installed;
    std::string claim; // as `sluice config` shows it
    std::string claim_origin;
    std::string drivers_variable;        // RDMAV_DRIVERS, or IBV_DRIVERS when that is unset
    std::optional<std::string> declines; // why it takes no device in any process
};

std::string drivers_variable() {
    for (const char* name : {"RDMAV_DRIVERS", "IBV_DRIVERS"}) {
        if (const char* value = std::getenv(name)) {
            return std::string(name) + "=" + value;
        }
    }
    return "";
}

Situation read_situation(const Options& options) {
    const std::vector<sluice_setting> all = settings(options);
    return {state_of(options.root + kDriverFile) == State::kOurs,
            plugin_is_installed(options.root),
            setting_value(all, "claim"),
            setting_origin(all, "claim"),
            drivers_variable(),
            options.root.empty() ? why_plugin_declines() : std::nullopt};
}

// "rdma_rxe" is what the kernel calls it, "rxe" what rdma-core and our configuration do.
std::string short_driver(const std::string& kernel_driver) {
    return kernel_driver == "rdma_rxe" ? "rxe" : kernel_driver;
}

bool contains_word(const std::string& text, const std::string& word) {
    return (" " + text + " ").find(" " + word + " ") != std::string::npos;
}

std::string why_not_ours(const Situation& situation, const std::string& driver) {
    if (driver != "rxe" && driver != "siw") {
        return "Sluice's provider is for rxe and siw";
    }
    if (!situation.installed) {
        return "Sluice's provider is not installed";
    }
    if (situation.declines) {
        return "Sluice's provider declines";
    }
    if (!contains_word(situation.claim, driver)) {
        return situation.claim_origin == "default" ? "nobody asked for Sluice's: `sluice provider enable`"
                                                   : situation.claim_origin + " doesn't claim " + driver;
    }
    if (!situation.drivers_variable.empty()) {
        return situation.drivers_variable + " names others";
    }
    return "libibverbs asks the stock provider first here; RDMAV_DRIVERS=sluice decides it";
}

std::string why_ours(const Situation& situation) {
    if (situation.drivers_variable.find("sluice") != std::string::npos) {
        return situation.drivers_variable;
    }
    return situation.claim_origin == "default" ? "it is installed in place of the stock provider"
                                               : situation.claim_origin + " claims " + situation.claim;
}

struct Binding {
    std::string device;
    std::string driver;
    std::string provider; // empty: none
    std::string why;
};

Binding explain(const Situation& situation, const std::string& device, const std::string& driver,
                const std::map<std::string, Probed>& providers) {
    const auto found = providers.find(device);
    if (found == providers.end()) {
        return {device, driver, "", "libibverbs has no provider for it"};
    }
    const Probed& probed = found->second;
    if (probed.path.empty()) {
        return {device, driver, "",
                probed.os_errno == 0 ? "its provider has no data path"
                                     : std::string("it can't be opened: ") + std::strerror(probed.os_errno)};
    }
    return {device, driver, probed.path,
            is_sluice(probed.path) ? why_ours(situation) : why_not_ours(situation, driver)};
}

std::vector<Binding> read_bindings(const Options& options, const Situation& situation) {
    std::vector<Binding> bindings;
    const std::vector<std::string> names = device_names(options);
    std::map<std::string, Probed> providers;
    if (options.root.empty() && !names.empty()) {
        providers = probe_providers();
    }
    for (const std::string& name : names) {
        const std::string driver = short_driver(query_device(options, name).kernel_driver.value);
        bindings.push_back(options.root.empty()
                               ? explain(situation, name, driver, providers)
                               : Binding{name, driver, "", "a recorded machine binds nothing"});
    }
    return bindings;
}

void print_json(const Situation& situation, const std::vector<Binding>& bindings) {
    Json devices = Json::array();
    for (const Binding& binding : bindings) {
        devices.push_back({{"name", binding.device},
                           {"driver", binding.driver},
                           {"provider", binding.provider.empty() ? Json(nullptr) : Json(binding.provider)},
                           {"sluice", !binding.provider.empty() && is_sluice(binding.provider)},
                           {"why", binding.why}});
    }
    const Json document{{"schema", kProviderSchema},
                        {"enabled", situation.enabled},
                        {"installed", situation.installed},
                        {"declines", situation.declines ? Json(*situation.declines) : Json(nullptr)},
                        {"claim", situation.claim},
                        {"claim-origin", situation.claim_origin},
                        {"devices", std::move(devices)}};
    std::cout << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

// People ask for the status when they want the provider and don't get it.
void print_next_step(const Situation& situation) {
    if (!situation.installed) {
        std::cout << "To install it: package ibverbs-provider-sluice. uroce needs no provider: `sluice run "
                     "--device uroce -- COMMAND`\n";
    } else if (situation.declines) {
        std::cout
            << "It declines to drive any device: " << *situation.declines
            << ".\nIt needs the libibverbs of the rdma-core that it was built for, and programs use the one "
               "that\n`ldconfig -p | grep libibverbs` shows; `sluice doctor` looks at it.\n";
    } else if (!situation.enabled && situation.claim == "none") {
        std::cout
            << "To enable it: `sudo sluice provider enable`; for one program: RDMAV_DRIVERS=sluice in its "
               "environment\n";
    }
}

void print_status(const Options& options) {
    const Situation situation = read_situation(options);
    const std::vector<Binding> bindings = read_bindings(options, situation);
    if (options.json) {
        print_json(situation, bindings);
        return;
    }
    std::cout << "Sluice's provider is " << (situation.installed ? "installed" : "not installed") << " and "
              << (situation.enabled ? "enabled" : "not enabled") << "; it claims " << situation.claim << " ("
              << situation.claim_origin << ").\n";
    print_next_step(situation);
    if (situation.enabled && !situation.installed) {
        std::cout << "libibverbs warns in every program, because " << kDriverFile
                  << " names a plugin that isn't there: `sluice provider disable`\n";
    }
    if (bindings.empty()) {
        std::cout << "There is no RDMA device here; `sluice devices` tells how to make one.\n";
        return;
    }
    std::vector<Row> rows;
    rows.reserve(bindings.size());
    for (const Binding& binding : bindings) {
        rows.push_back({binding.device, binding.driver, binding.provider.empty() ? "none" : binding.provider,
                        binding.why});
    }
    std::cout << '\n';
    print_table(options, {{"DEVICE"}, {"DRIVER", 2}, {"PROVIDER", 1}, {"WHY", 0, Column::kLeft, true}}, rows);
}

Failure foreign_file(const std::string& path) {
    return {kExitFailure,
            path + " was not written by `sluice provider enable`; look at it and remove it by hand"};
}

} // namespace

ExitStatus run_provider_status(const Options& options) {
    print_status(options);
    return kExitOk;
}

ExitStatus run_provider_enable(const Options& options, bool force) {
    const std::string path = options.root + kDriverFile;
    const std::string directory = options.root + kDriverDirectory;
    struct stat status {};
    if (stat(directory.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
        throw Failure(kExitFailure,
                      directory + " is not there: libibverbs is not installed (package libibverbs1)");
    }
    if (!force && !plugin_is_installed(options.root)) {
        throw Failure(kExitFailure,
                      "libsluice-rdmav*.so is in no libibverbs directory, and enabling it would make "
                      "libibverbs warn in every program: install it first (package "
                      "ibverbs-provider-sluice); --force enables it anyway");
    }
    switch (state_of(path)) {
    case State::kForeign:
        throw foreign_file(path);
    case State::kAbsent:
        write_atomically(path, kContent);
        break;
    case State::kOurs:
        break;
    }
    print_status(options);
    return kExitOk;
}

ExitStatus run_provider_disable(const Options& options) {
    const std::string path = options.root + kDriverFile;
    const State state = state_of(path);
    if (state == State::kForeign) {
        throw foreign_file(path);
    }
    if (state == State::kOurs && unlink(path.c_str()) != 0) {
        throw system_failure(path);
    }
    print_status(options);
    return kExitOk;
}

} // namespace sluice::tools
