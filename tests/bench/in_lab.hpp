// SPDX-License-Identifier: BSD-3-Clause
//
// A benchmark that runs itself in the lab, once for each type of device, where this machine has none
// of them.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "tests/bench/own_build.hpp"

namespace sluice::bench {

// Minutes on a quiet machine, and far more under valgrind in a guest whose processors are shared.
inline constexpr int kLabSeconds = 1500;

// One guest's run. FIGURES receives what it reported, if it is asked for.
inline bool run_in_one_lab(std::string_view type, const std::string& arguments, nlohmann::json* figures) {
    const std::string self = own_path();
    const std::string root = self.substr(0, self.rfind("/build/"));
    std::string out = root + "/build/bench-XXXXXX";
    if (mkdtemp(out.data()) == nullptr) {
        std::perror(out.c_str());
        return false;
    }
    const std::string file = out + "/figures.json"; // the only directory whose files come back
    const std::string command = "LAB_OUT='" + out + "' '" + root + "/scripts/lab' --quiet --device " +
                                std::string(type) + " --export '" + root + "' --timeout " +
                                std::to_string(kLabSeconds) + " -- '" + self + "'" + arguments +
                                (figures != nullptr ? " --json '" + file + "'" : "");
    bool passed = std::system(command.c_str()) == 0;
    if (passed && figures != nullptr) {
        const auto told = nlohmann::json::parse(std::ifstream(file), nullptr, false);
        passed = told.is_array();
        for (const auto& figure : told) {
            figures->push_back(figure);
        }
    }
    std::error_code ignored;
    std::filesystem::remove_all(out, ignored);
    return passed;
}

// Runs this program with its arguments in the lab. Returns its exit status: 0 if it ran everywhere.
inline int run_in_lab(std::span<const std::string_view> types, int argc, char** argv) {
    std::string arguments;
    std::string json_file;
    for (int i = 1; i < argc; ++i) {
        if (std::string_view(argv[i]) == "--json" && i + 1 < argc) {
            json_file = argv[++i];
        } else {
            arguments += " '" + std::string(argv[i]) + "'";
        }
    }
    nlohmann::json figures = nlohmann::json::array();
    bool passed = true;
    for (const std::string_view type : types) {
        passed = run_in_one_lab(type, arguments, json_file.empty() ? nullptr : &figures) && passed;
    }
    if (!json_file.empty() && !(std::ofstream(json_file) << figures.dump(2) << '\n').flush()) {
        std::fprintf(stderr, "%s: could not be written\n", json_file.c_str());
        passed = false;
    }
    return passed ? 0 : 1;
}

} // namespace sluice::bench
